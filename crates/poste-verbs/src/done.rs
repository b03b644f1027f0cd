//! Finishes a message with its result.

use std::path::PathBuf;

use poste_core::fold::{Code, Effect};
use poste_core::log::{Body, Content, Done, Intent, MessageNo, Position};
use poste_core::text::RecordId;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::answer::Changed;
use crate::artifacts::Named;
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Result, Touch, Verb, input};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The message's number
    pub number: MessageNo,
    /// What was done, in a line or two
    pub summary: Option<String>,
    /// The detailed result
    #[serde(default, deserialize_with = "input::bytes")]
    #[schemars(with = "String")]
    pub result: Vec<u8>,
    /// Resulting files; size and digest are recorded
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// Recommended next step
    pub recommend: Option<String>,
    /// The claim's token; optional in the session that claimed it, and for a first claim
    pub token: Option<Position>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

impl Verb for Input {
    const NAME: &'static str = "done";
    const ACCESS: Access = Access::Writes;
    const TOUCHES: &'static [(&'static str, Touch)] = &[("files", Touch::ReadsWorktree)];
    type Answer = Changed;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Changed>> {
        let number = self.number;
        let artifacts = Named::present(&self.files).record(desk, self.secrets)?;
        let content =
            Content { body: Body(self.result), summary: self.summary, recommend: self.recommend, ..Content::default() };
        self.secrets.check_as(&content, "result")?;
        let intent = Intent::Done(Done { message: number, token: self.token, artifacts });
        let proposal = desk.proposal(intent, Some(content), self.id)?;
        let (outcome, effect) = desk.decide(&proposal)?;
        if let Effect::Late(late) = effect {
            let now = match late.holder {
                Some(holder) => format!("held by {holder}"),
                None => late.state.to_string(),
            };
            return Err(Error::conflict(format!("the lease on message {number} was lost; it is {now} now"))
                .code(Code::LeaseLost.word())
                .hint(note!("your result is kept as a late result for the sender: " [track, number = number])));
        }
        Ok(Answered::new(Changed::new(number, "done", &outcome)))
    }
}
