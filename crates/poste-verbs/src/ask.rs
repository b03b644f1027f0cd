//! Asks for a decision: a question or a plan, with choices, a deadline and a default.

use std::path::PathBuf;

use poste_core::Address;
use poste_core::fold::Effect;
use poste_core::log::{ApprovalAsk, Intent, MessageNo};
use poste_core::store::tables::Agent;
use poste_core::text::{Label, Name, RecordId, Word};
use poste_core::time::When;
use poste_core::views::ApprovalView;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::approval::{check_default, find};
use crate::draft::{Heading, Message};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Recipients, Result, Touch, Verb, input};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Who decides: a person, an agent, a group, or lead
    pub to: String,
    /// The question, in one line
    pub subject: String,
    /// Details, Markdown
    #[serde(default, deserialize_with = "input::bytes")]
    #[schemars(with = "String", extend("default" = ""))]
    pub body: Vec<u8>,
    /// Choices, in this order; default: approve and deny
    #[serde(default)]
    pub choices: Vec<Word>,
    /// The choice that applies at the deadline
    pub default: Option<Word>,
    /// Deadline: 30m, 2h, or a timestamp
    #[serde(default, deserialize_with = "input::when")]
    #[schemars(with = "Option<String>")]
    pub by: Option<When>,
    /// Ask for approval of a plan instead of a question
    #[serde(default)]
    pub plan: bool,
    /// A brief context for the request
    pub context: Option<String>,
    /// Structured data
    #[schemars(with = "Option<serde_json::Value>")]
    pub payload: Option<Box<RawValue>>,
    /// Related files; size and digest are recorded
    #[serde(default)]
    pub artifacts: Vec<PathBuf>,
    /// Files to copy into the office
    #[serde(default)]
    pub attach: Vec<PathBuf>,
    /// The message it answers
    pub reply_to: Option<MessageNo>,
    /// The conversation to join; default: that of the answered message, or a new one
    pub conversation: Option<Label>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    #[serde(flatten)]
    pub approval: ApprovalView,
    /// Idempotency key of this write.
    pub id: RecordId,
    /// The id was used before; nothing new was stored.
    pub repeat: bool,
}

impl Verb for Input {
    const NAME: &'static str = "ask";
    const ACCESS: Access = Access::Writes;
    const TOUCHES: &'static [(&'static str, Touch)] =
        &[("artifacts", Touch::ReadsWorktree), ("attach", Touch::ReadsWorktree)];
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let asker = desk.agent()?;
        let kind = if self.plan { "plan_approval_request" } else { "question" };
        let choices = match self.choices.as_slice() {
            [] => vec!["approve".parse()?, "deny".parse()?],
            choices => choices.to_vec(),
        };
        check_default(desk.office, &kind.parse()?, &choices, self.default.as_ref())?;
        let heading = Heading {
            to: asked(desk, &asker, &self.to)?,
            subject: self.subject,
            reply_to: self.reply_to,
            default_type: kind,
            ..Heading::default()
        };
        let message = Message {
            body: self.body,
            payload: self.payload,
            artifacts: self.artifacts,
            attach: self.attach,
            conversation: self.conversation,
            context: self.context,
            secrets: self.secrets,
            ..Message::default()
        };
        let (mail, content) = message.seal(desk, heading)?;
        let intent = Intent::ApprovalAsk(ApprovalAsk { mail, choices, default: self.default, deadline: self.by });
        let proposal = desk.proposal(intent, Some(content), self.id)?;
        let (outcome, effect) = desk.decide(&proposal)?;
        let Effect::Sent(sent) = effect else { return Err(Error::unexpected_effect("the question")) };
        let number = sent.number;
        let answer = Answer { approval: find(desk, number)?, id: outcome.id, repeat: outcome.repeat };
        Ok(Answered::new(answer).next(note!(
            "see the decision: " [approval, number = number]
            "; wait for it: " [approval, number = number, wait = true]
        )))
    }
}

/// The recipients of a question. `lead` means the asker's lead, unless an agent has that name.
fn asked(desk: &Desk<'_>, asker: &Agent, to: &str) -> Result<Vec<Address>> {
    const LEAD: &str = "lead";
    let name: Name = LEAD.parse()?;
    if to != LEAD || desk.office.agent(&name)?.is_some() {
        return Ok(Recipients::parse(to)?);
    }
    if let Some(lead) = &asker.lead
        && desk.office.agent(lead)?.is_some_and(|lead| lead.is_active())
    {
        return Ok(vec![Address::Agent(lead.clone())]);
    }
    Ok(vec![Address::Role(LEAD.parse()?)])
}
