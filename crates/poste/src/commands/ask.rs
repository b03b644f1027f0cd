use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use poste_core::Foreign;
use poste_core::log::MessageNo;
use poste_core::office::Office;
use poste_core::store::Interest;
use poste_core::store::tables::{ApprovalState, Concern};
use poste_core::text::{Label, RecordId, Word};
use poste_core::time::{When, parse_when};
use poste_core::views::{self, ApprovalView};
use poste_verbs::model::sender;
use poste_verbs::{approval, ask};
use schemars::JsonSchema;
use serde::Serialize;

use super::SecretArgs;
use super::approvals::{decision, print_approval};
use crate::cli::duration;
use crate::context::Cx;
use crate::draft::{read_body, read_payload};
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui};
use crate::{Result, notes};

/// Ask for a decision on a question or a plan
///
/// TO is a person, an agent, a group, or `lead`: the lead this agent is registered with, else role:lead. The first
/// answer counts. At the deadline the default is applied and both sides are notified. With --wait it blocks until the
/// decision and prints the choice; the exit code is 0 for the first choice, 12 for any other and 13 for the default.
/// If interrupted, run it again with the same --id to resume waiting.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste ask lead 'Deploy to production?' --by 30m --default deny --wait --as coder\n  \
                        poste ask anna 'Which database?' --choice postgres --choice sqlite --as architect\n  \
                        poste ask lead 'Split the parser' - --plan --id plan-7 --wait --as coder < plan.md"
)]
pub(crate) struct Args {
    /// Recipient that decides
    to: String,
    /// Question, one line
    #[arg(value_name = "QUESTION", allow_hyphen_values = true)]
    subject: String,
    /// Details in Markdown; - for stdin
    #[arg(allow_hyphen_values = true)]
    body: Option<String>,
    /// Possible answer, in this order; otherwise approve and deny
    #[arg(long, value_name = "WORD")]
    choice: Vec<Word>,
    /// Choice that applies without an answer by the deadline
    #[arg(long, value_name = "WORD", requires = "by")]
    default: Option<Word>,
    /// Deadline: 30m, 2h, or a timestamp
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    by: Option<When>,
    /// Send a plan, as type plan_approval_request
    #[arg(long)]
    plan: bool,
    /// Block until the question is decided
    #[arg(long)]
    wait: bool,
    /// With --wait: give up after this time; the question stays open
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "wait")]
    timeout: Option<Duration>,
    /// Brief context for the request
    #[arg(long, value_name = "TEXT")]
    context: Option<String>,
    /// Payload: JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    payload: Option<String>,
    /// File to reference; it must exist, its size and digest are recorded
    #[arg(long, value_name = "PATH")]
    artifact: Vec<PathBuf>,
    /// File to copy into the office
    #[arg(long, value_name = "PATH")]
    attach: Vec<PathBuf>,
    /// Message that this one replies to
    #[arg(long, value_name = "N", value_parser = crate::cli::number)]
    reply_to: Option<MessageNo>,
    /// Conversation to join; otherwise that of the answered message, or a new one
    #[arg(long, value_name = "LABEL")]
    conversation: Option<Label>,
    /// Idempotency key: repeating the command with it is safe
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Asked {
    #[serde(flatten)]
    answer: ask::Answer,
    #[serde(skip)]
    waited: bool,
}

impl Answer for ask::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        print_approval(ui, &self.approval, out)
    }
}

impl Answer for Asked {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        // A script that waits needs only the choice.
        match &self.answer.approval.choice {
            Some(choice) if self.waited => writeln!(out, "{choice}"),
            _ => print_approval(ui, &self.answer.approval, out),
        }
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let (wait, timeout) = (args.wait, args.timeout);
    let input = ask::Input {
        to: args.to,
        subject: args.subject,
        body: read_body(args.body)?,
        choices: args.choice,
        default: args.default,
        by: args.by,
        plan: args.plan,
        context: args.context,
        payload: args.payload.as_deref().map(read_payload).transpose()?,
        artifacts: cx.paths(args.artifact),
        attach: cx.paths(args.attach),
        reply_to: args.reply_to,
        conversation: args.conversation,
        id: args.id,
        secrets: args.secret.secrets(cx)?,
    };
    if !wait {
        return cx.call_as(input, |answer| Asked { answer, waited: false });
    }
    let mut office = cx.office()?;
    let mut answered = cx.call_verb(&mut office, input)?;
    answered.next.clear();
    notes::say(&cx.ui, &answered);
    let ask::Answer { approval, id, repeat } = answered.answer;
    let number = approval.number;
    cx.ui.say(format!("asked as #{number}; waiting. If interrupted, resume with: --wait --id {id}"));
    let (approval, ended) = wait_on(cx, &mut office, number, timeout)?;
    // Without a decision, stdout stays empty for scripts; the reason goes to stderr.
    if approval.choice.is_some() || cx.ui.json {
        let decided = approval.answer;
        cx.ui.answer(&Asked { answer: ask::Answer { approval, id, repeat }, waited: true })?;
        decided.map_or(Ok(()), |answer| cx.ack_awaited_answer(&mut office, answer))?;
    }
    ended
}

/// Blocks until a question is settled. Returns it with the outcome for the exit code.
pub(crate) fn wait_on(
    cx: &mut Cx,
    office: &mut Office,
    number: MessageNo,
    timeout: Option<Duration>,
) -> Result<(ApprovalView, Result)> {
    let now = office.now()?;
    let mut last_shown = number;
    let asker = views::approval(office.store(), number, now)?.map(|approval| approval.from);
    // Messages about the question that are not replies to it arrive as mail to the asker.
    let interest = asker.as_ref().map(Interest::mail).unwrap_or_default();
    let interest = interest.and(Concern::Approval(number)).and(Concern::Message(number));
    let settled = cx.wait_for(office, &interest, timeout, |office| {
        let Some(approval) = views::approval(office.store(), number, now)? else { return Ok(Some(())) };
        for talk in views::talk_after(office.store(), &approval, last_shown)? {
            // The recipient may be waiting for an answer by the asker, who is blocked here.
            let subject = Foreign::words(&*talk.subject);
            cx.ui.say(format!(
                "#{} by {}: {subject}; see it: poste read {0}",
                talk.number,
                sender::named(talk.from.as_str(), talk.trust)
            ));
            last_shown = talk.number;
        }
        Ok(approval.is_settled().then_some(()))
    })?;
    cx.ui.now = office.now()?;
    let approval = cx.call_verb(office, approval::Input { number })?.answer;
    let ended = outcome(&approval, settled.is_some());
    Ok((approval, ended))
}

/// The outcome of a question, for the exit code.
fn outcome(approval: &ApprovalView, complete: bool) -> Result {
    let number = approval.number;
    if !complete {
        return Err(CommandError::new(Kind::TimedOut, format!("question {number} is not decided yet"))
            .hint(format!("it stays open: poste approvals {number}; wait again: poste approvals {number} --wait")));
    }
    if approval.is_approved() {
        return Ok(());
    }
    match approval.state {
        ApprovalState::Defaulted => {
            Err(CommandError::new(Kind::Defaulted, format!("question {number}: {}", decision(approval))))
        }
        ApprovalState::Answered => {
            let decided = CommandError::new(Kind::Denied, format!("question {number}: {}", decision(approval)));
            let note = approval.note.as_deref().map(|note| note.trim_end_matches('\n')).filter(|note| !note.is_empty());
            Err(match note {
                Some(note) => decided.cause(Foreign::words(note).to_string()),
                None => decided,
            })
        }
        _ => Err(CommandError::not_found(format!("question {number} will not be decided: {}", decision(approval)))
            .hint(format!("see why: poste log why {number}; then ask again"))),
    }
}
