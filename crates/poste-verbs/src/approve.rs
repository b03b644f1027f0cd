//! Decides an approval: approves it, or picks another of its choices.

use poste_core::fold::Effect;
use poste_core::log::{ApprovalAnswer, Body, Content, Intent, MessageNo, Position, Send};
use poste_core::text::{Name, RecordId, Word};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::approval::find;
use crate::draft::prefixed;
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Result, Verb, input};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The question's number
    pub number: MessageNo,
    /// The choice to pick; default: approve
    pub choice: Option<Word>,
    /// Note to the asker, Markdown
    #[serde(default, deserialize_with = "input::bytes")]
    #[schemars(with = "String", extend("default" = ""))]
    pub note: Vec<u8>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The question's number.
    pub number: MessageNo,
    /// The choice that was picked.
    pub choice: Word,
    /// The agent that asked, and is sent the decision.
    pub asker: Name,
    /// The message with the decision.
    pub answer: MessageNo,
    /// Log position of the record.
    pub position: Option<Position>,
    /// Idempotency key of this write.
    pub id: RecordId,
    /// The id was used before; nothing new was stored.
    pub repeat: bool,
}

impl Verb for Input {
    const NAME: &'static str = "approve";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let Self { number, choice, note, id, secrets } = self;
        let choice = match choice {
            Some(choice) => choice,
            None => "approve".parse()?,
        };
        decide(desk, number, choice, note, id, secrets)
    }
}

/// Answers a question with a choice.
pub(crate) fn decide(
    desk: &mut Desk<'_>,
    number: MessageNo,
    choice: Word,
    note: Vec<u8>,
    id: Option<RecordId>,
    secrets: Secrets,
) -> Result<Answered<Answer>> {
    let approval = find(desk, number)?;
    let kind = if approval.plan { "plan_approval_response" } else { "response" };
    let mail = Send { reply_to: Some(number), ..Send::plain(kind.parse()?, Vec::new()) };
    let subject = prefixed(&format!("{choice}: "), &approval.subject);
    let content = Content { subject, body: Body(note), ..Content::default() };
    content.check_message().map_err(Error::usage)?;
    secrets.check_as(&content, "note")?;
    let intent = Intent::ApprovalAnswer(ApprovalAnswer { mail, choice: choice.clone() });
    let proposal = desk.proposal(intent, Some(content), id)?;
    let (outcome, effect) = desk.decide(&proposal).map_err(|error| match error.code {
        Some("not_offered") => {
            let choices = approval.choices.iter().map(Word::as_str).collect::<Vec<_>>().join("|");
            error.hint(note!("name one of {choices}: " [approve, number = number, choice = "CHOICE"]))
        }
        _ => error,
    })?;
    let Effect::Sent(sent) = effect else { return Err(Error::unexpected_effect("the answer")) };
    Ok(Answered::new(Answer {
        number,
        choice,
        asker: approval.from,
        answer: sent.number,
        position: outcome.position,
        id: outcome.id,
        repeat: outcome.repeat,
    }))
}
