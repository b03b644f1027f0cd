use std::io::{self, Write};

use poste_core::fold::Effect;
use poste_core::log::{ApprovalAnswer, Body, Content, Intent, MessageNo, Position, Send};
use poste_core::text::{Name, RecordId, Word};
use poste_core::views;
use schemars::JsonSchema;
use serde::Serialize;

use super::approvals::{choices, no_approval};
use super::{SecretArgs, reply};
use crate::Result;
use crate::context::Cx;
use crate::draft::read_body;
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui};

/// Decide what somebody asked: approve it, or another choice it offers
///
/// The first answer counts; it goes to whoever asked. A human may decide what was asked of somebody else.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste approve 12 --as lead\n  poste approve 12 --note 'Only on staging' --as lead\n  \
                        poste approve 15 --choice sqlite --as anna"
)]
pub(crate) struct Args {
    /// The question's number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    #[command(flatten)]
    decision: DecisionArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DecisionArgs {
    /// Another choice than to approve
    #[arg(long, value_name = "WORD")]
    choice: Option<Word>,
    /// A word to whoever asked; - for stdin
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    note: Option<String>,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DecisionAnswer {
    pub number: MessageNo,
    pub choice: Word,
    /// Who asked, and is told.
    pub asker: Name,
    /// The message that says so.
    pub answer: MessageNo,
    pub position: Option<Position>,
    pub id: RecordId,
    /// It was decided before under this id; there is no second effect.
    pub repeat: bool,
}

impl Answer for DecisionAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (before, under this id)" } else { "" };
        writeln!(out, "#{} {}: {} is told with #{}{again}", self.number, self.choice, self.asker, self.answer)
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    args.decision.decide(cx, args.number, "approve".parse()?)
}

impl DecisionArgs {
    /// Answers a question with what was chosen, or this.
    pub(crate) fn decide(self, cx: &mut Cx, number: MessageNo, otherwise: Word) -> Result {
        decide(cx, number, self.choice.unwrap_or(otherwise), self.note, self.id, self.secret)
    }
}

/// Answers a question with a choice.
pub(crate) fn decide(
    cx: &mut Cx,
    number: MessageNo,
    choice: Word,
    note: Option<String>,
    id: Option<RecordId>,
    secret: SecretArgs,
) -> Result {
    let mut office = cx.open_to_write()?;
    let approval = views::approval(office.store(), number, cx.ui.now)?.ok_or_else(|| no_approval(number))?;
    let kind = if approval.plan { "plan_approval_response" } else { "response" };
    let mail = Send { reply_to: Some(number), ..Send::plain(kind.parse()?, Vec::new()) };
    let subject = reply::prefixed(&format!("{choice}: "), &approval.subject);
    let content = Content { subject, body: Body(read_body(cx, note)?), ..Content::default() };
    content.check_message().map_err(CommandError::usage)?;
    secret.check_as(&content, "note")?;
    let intent = Intent::ApprovalAnswer(ApprovalAnswer { mail, choice: choice.clone() });
    let proposal = cx.proposal(&office, intent, Some(content), id)?;
    let (outcome, effect) = cx.decide(&mut office, &proposal).map_err(|error| match error.code {
        Some("not_offered") => error.hint(format!(
            "name one of them: poste approve {number} --choice {}",
            choices(&approval).replace(", ", "|")
        )),
        _ => error,
    })?;
    let Effect::Sent(sent) = effect else {
        return Err(CommandError::new(Kind::Internal, "the office took the answer for something else"));
    };
    cx.ui.answer(&DecisionAnswer {
        number,
        choice,
        asker: approval.from,
        answer: sent.number,
        position: outcome.position,
        id: outcome.id,
        repeat: outcome.repeat,
    })
}
