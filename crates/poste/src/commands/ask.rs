use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use poste_core::Address;
use poste_core::fold::Effect;
use poste_core::log::{ApprovalAsk, Intent, MessageNo};
use poste_core::office::Office;
use poste_core::store::tables::{Agent, ApprovalState};
use poste_core::text::{Label, Name, RecordId, Word};
use poste_core::time::{When, parse_when};
use poste_core::views::{self, ApprovalView};
use schemars::JsonSchema;
use serde::Serialize;

use super::SecretArgs;
use super::approvals::{decision, no_approval, print_approval};
use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::draft::{Draft, parse_recipients, read_body, read_payload};
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui};

/// Ask for a decision: a question or a plan, with choices, a deadline and a default
///
/// TO is a person, an agent, a group, or `lead`: the lead this agent is registered with, else role:lead. The first
/// answer counts. At the deadline the default is applied, and both sides are told. With --wait it blocks until that is
/// decided and prints the choice: it ends with 0 for the first choice and with 12 for any other. Killed meanwhile, it
/// can be run again with the same --id, and waits on.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste ask lead 'Deploy to production?' --by 30m --default deny --wait --as coder\n  \
                        poste ask anna 'Which database?' --choice postgres --choice sqlite --as architect\n  \
                        poste ask lead 'Split the parser' - --plan --id plan-7 --wait --as coder < plan.md"
)]
pub(crate) struct Args {
    /// Who decides
    to: String,
    /// One line
    #[arg(value_name = "QUESTION", allow_hyphen_values = true)]
    subject: String,
    /// Markdown; - for stdin
    #[arg(allow_hyphen_values = true)]
    body: Option<String>,
    /// What may be answered, in this order; otherwise approve and deny
    #[arg(long, value_name = "WORD")]
    choice: Vec<Word>,
    /// What is decided when nobody answers in time
    #[arg(long, value_name = "WORD", requires = "by")]
    default: Option<Word>,
    /// Until when: 30m, 2h, or a moment
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    by: Option<When>,
    /// It is a plan: sent as plan_approval_request
    #[arg(long)]
    plan: bool,
    /// Block until it is decided
    #[arg(long)]
    wait: bool,
    /// With --wait: give up after this; the question stays
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "wait")]
    timeout: Option<Duration>,
    /// A brief context for the request
    #[arg(long, value_name = "TEXT")]
    context: Option<String>,
    /// Structured data: JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    payload: Option<String>,
    /// A file this speaks of: must exist; size and digest are recorded
    #[arg(long, value_name = "PATH")]
    artifact: Vec<PathBuf>,
    /// A file to copy into the office
    #[arg(long, value_name = "PATH")]
    attach: Vec<PathBuf>,
    /// The message it answers
    #[arg(long, value_name = "N", value_parser = crate::cli::number)]
    reply_to: Option<MessageNo>,
    /// The conversation to join; otherwise the answered one, or a new one
    #[arg(long, value_name = "LABEL")]
    conversation: Option<Label>,
    /// An id of your own: asking again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
    #[command(flatten)]
    secret: SecretArgs,
}

impl Args {
    /// Whether it blocks until something happens.
    pub(crate) fn waits(&self) -> bool {
        self.wait
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AskAnswer {
    #[serde(flatten)]
    pub approval: ApprovalView,
    pub id: RecordId,
    /// It was asked before under this id; there is no second question.
    pub repeat: bool,
    #[serde(skip)]
    waited: bool,
}

impl Answer for AskAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        // Whoever waits in a script wants the word and nothing else.
        match &self.approval.choice {
            Some(choice) if self.waited => writeln!(out, "{choice}"),
            _ => print_approval(ui, &self.approval, out),
        }
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open_to_write()?;
    let asker = cx.agent(&office)?;
    let (wait, timeout) = (args.wait, args.timeout);
    let (number, id, repeat) = ask(cx, &mut office, &asker, args)?;
    if !wait {
        let approval = found(&office, number, cx)?;
        let next =
            format!("see what comes of it: poste approvals {number}; wait for it: poste approvals {number} --wait");
        cx.ui.answer(&AskAnswer { approval, id, repeat, waited: false })?;
        cx.ui.say(next);
        return Ok(());
    }
    cx.ui.say(format!("asked as #{number}; waiting. Killed meanwhile, go on with: --wait --id {id}"));
    let (approval, ended) = wait_on(cx, &mut office, number, timeout)?;
    // What was not decided has no word for a script to read; what there is to say of it goes to stderr.
    if approval.choice.is_some() || cx.ui.json {
        let answer = approval.answer;
        cx.ui.answer(&AskAnswer { approval, id, repeat, waited: true })?;
        answer.map_or(Ok(()), |answer| cx.waited_for(&mut office, answer))?;
    }
    ended
}

/// Blocks until a question is decided or will not be; with what that means for a script.
pub(crate) fn wait_on(
    cx: &mut Cx,
    office: &mut Office,
    number: MessageNo,
    timeout: Option<Duration>,
) -> Result<(ApprovalView, Result)> {
    let now = cx.ui.now;
    let mut told = number;
    let settled = office.wait_for(timeout, |office| {
        let Some(approval) = views::approval(office.store(), number, now)? else { return Ok(Some(())) };
        for talk in views::talk_after(office.store(), &approval, told)? {
            // Whoever is asked may wait for a word of whoever waits here.
            cx.ui.say(format!("#{} by {}: {}; see it: poste read {0}", talk.number, talk.from, talk.subject));
            told = talk.number;
        }
        Ok(approval.is_settled().then_some(()))
    })?;
    cx.ui.now = office.now()?;
    let approval = found(office, number, cx)?;
    let ended = outcome(&approval, settled.is_some());
    Ok((approval, ended))
}

fn ask(cx: &Cx, office: &mut Office, asker: &Agent, args: Args) -> Result<(MessageNo, RecordId, bool)> {
    let draft = Draft {
        to: asked(office, asker, &args.to)?,
        subject: args.subject,
        body: read_body(cx, args.body)?,
        payload: args.payload.as_deref().map(read_payload).transpose()?,
        present: args.artifact,
        attached: args.attach,
        reply_to: args.reply_to,
        conversation: args.conversation,
        context: args.context,
        secret: args.secret,
        ..Draft::default()
    };
    let kind = if args.plan { "plan_approval_request" } else { "question" };
    let (mail, content) = draft.seal(cx, office, kind)?;
    let choices = match args.choice.as_slice() {
        [] => vec!["approve".parse()?, "deny".parse()?],
        choices => choices.to_vec(),
    };
    let intent = Intent::ApprovalAsk(ApprovalAsk { mail, choices, default: args.default, deadline: args.by });
    let proposal = cx.proposal(office, intent, Some(content), args.id)?;
    let (outcome, effect) = cx.decide(office, &proposal)?;
    let Effect::Sent(sent) = effect else {
        return Err(CommandError::new(Kind::Internal, "the office took the question for something else"));
    };
    Ok((sent.number, outcome.id, outcome.repeat))
}

/// Whom a question goes to. `lead` is a word of its own as long as nobody has that name.
fn asked(office: &Office, asker: &Agent, to: &str) -> Result<Vec<Address>> {
    const LEAD: &str = "lead";
    let name: Name = LEAD.parse()?;
    if to != LEAD || office.agent(&name)?.is_some() {
        return parse_recipients(to);
    }
    if let Some(lead) = &asker.lead
        && office.agent(lead)?.is_some_and(|lead| lead.is_active())
    {
        return Ok(vec![Address::Agent(lead.clone())]);
    }
    Ok(vec![Address::Role(LEAD.parse()?)])
}

fn found(office: &Office, number: MessageNo, cx: &Cx) -> Result<ApprovalView> {
    let found = views::approval(office.store(), number, cx.ui.now)?;
    found.ok_or_else(|| no_approval(number))
}

/// What a script learns by the exit code.
fn outcome(approval: &ApprovalView, complete: bool) -> Result {
    let number = approval.number;
    if !complete {
        return Err(CommandError::new(Kind::TimedOut, format!("question {number} is not decided yet"))
            .hint(format!("it stays: poste approvals {number}; wait on: poste approvals {number} --wait")));
    }
    if approval.is_approved() {
        return Ok(());
    }
    match approval.state {
        ApprovalState::Answered | ApprovalState::Defaulted => {
            let decided = CommandError::new(Kind::Denied, format!("question {number}: {}", decision(approval)));
            let note = approval.note.as_deref().map(|note| note.trim_end_matches('\n')).filter(|note| !note.is_empty());
            Err(match note {
                Some(note) => decided.cause(note),
                None => decided,
            })
        }
        _ => Err(CommandError::not_found(format!("question {number} will not be decided: {}", decision(approval)))
            .hint(format!("see why: poste log why {number}; then ask again"))),
    }
}
