use std::io::{self, Write};
use std::time::Duration;

use poste_core::log::{MessageNo, Position};
use poste_core::office::Office;
use poste_core::store::Interest;
use poste_core::store::tables::Concern;
use poste_core::text::{Topic, TypeName};
use poste_core::views::{MessageView, Replies};
use poste_verbs::Answered;
use poste_verbs::wait::{self, replies, replies::Wanted};

use super::read;
use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui};

/// Wait for mail or for answers
///
/// Returns as soon as there is a message that was not shown to this session (without POSTE_SESSION: to this
/// agent). It claims nothing. With --replies N it returns when every recipient of N has answered or ended it, or
/// its deadline has passed; it succeeds if all have answered (with --any: one), and lists those that have not.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste wait --as coder --timeout 10m\n  poste wait --type question --from lead\n  \
                        poste wait --after 120\n  poste wait --replies 12 --any --as lead"
)]
pub(crate) struct Args {
    /// Give up after this time; otherwise wait for ever
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Only messages of this type
    #[arg(long = "type", value_name = "TYPE", conflicts_with = "replies")]
    kind: Option<TypeName>,
    /// Only messages from this sender
    #[arg(long, value_name = "NAME", conflicts_with = "replies")]
    from: Option<String>,
    /// Only messages of this topic
    #[arg(long, conflicts_with = "replies")]
    topic: Option<Topic>,
    /// All messages that became available after this cursor, shown or not
    #[arg(long, value_name = "POSITION", value_parser = crate::cli::position, conflicts_with = "replies")]
    after: Option<Position>,
    /// Maximum number of messages
    #[arg(long, default_value_t = wait::LIMIT_DEFAULT, value_parser = clap::value_parser!(u16).range(1..=i64::from(wait::LIMIT_MAX)))]
    limit: u16,
    /// Print the messages fenced as data, for a model's context
    #[arg(long)]
    for_model: bool,
    /// Wait for answers to this message
    #[arg(long, value_name = "N", value_parser = crate::cli::number)]
    replies: Option<MessageNo>,
    /// With --replies: until all have answered (this is the default)
    #[arg(long, requires = "replies", conflicts_with = "any")]
    all: bool,
    /// With --replies: until one has answered
    #[arg(long, requires = "replies")]
    any: bool,
}

impl Answer for wait::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for (index, message) in self.news.messages.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            read::print_message(ui, message, out)?;
        }
        Ok(())
    }
}

impl Answer for Replies {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.recipients.iter().map(|reply| {
            let answer = match (reply.answer, reply.answered_at) {
                (Some(number), Some(at)) => format!("answered with #{number} {}", ui.time(at)),
                _ if reply.is_settled() => format!("{} without an answer", reply.state),
                _ => format!("no answer yet ({})", reply.state),
            };
            vec![reply.recipient.clone(), answer]
        });
        ui.rows(out, &["RECIPIENT", "ANSWER"], rows.collect())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.replies {
        Some(number) => {
            let wanted = if args.any { Wanted::Any } else { Wanted::All };
            wait_for_replies(cx, number, wanted, args.timeout)
        }
        None => wait_for_mail(cx, args),
    }
}

fn wait_for_mail(cx: &mut Cx, args: Args) -> Result {
    let Args { kind, from, topic, after, limit, .. } = args;
    let input = wait::Input { kind, from, topic, after, limit, looked: None };
    let mut office = cx.open()?;
    let answered = next_mail(cx, &mut office, input, args.timeout)?;
    cx.ui.now = office.now()?;
    if cx.is_for_model(args.for_model, &office) {
        return cx.show_as(&mut office, answered, |answer| print_for_model(cx, &answer.news.messages));
    }
    cx.show(&mut office, answered)
}

/// Checks again whenever mail may have arrived, until some has.
pub(super) fn next_mail(
    cx: &Cx,
    office: &mut Office,
    mut input: wait::Input,
    timeout: Option<Duration>,
) -> Result<Answered<wait::Answer>> {
    let interest = Interest::mail(&cx.speaker()?);
    let found = cx.wait(office, &interest, timeout, |office| {
        let answered = cx.call_verb(office, input.clone())?;
        input.looked.clone_from(&answered.answer.looked);
        Ok((!answered.answer.news.messages.is_empty()).then_some(answered))
    })?;
    found.ok_or_else(|| CommandError::new(Kind::TimedOut, "timed out: no new messages"))
}

fn print_for_model(cx: &Cx, messages: &[MessageView]) -> Result {
    let mut out = cx.ui.out();
    for message in messages {
        writeln!(out, "{}", read::fenced(cx, message))?;
    }
    out.flush()?;
    Ok(())
}

/// Waits until the wanted answers are there, or until the timeout or the deadline.
fn wait_for_replies(cx: &mut Cx, number: MessageNo, wanted: Wanted, timeout: Option<Duration>) -> Result {
    let (mut office, first) = cx.call_verb_here(replies::Input { number })?;
    let respond_by = first.answer.respond_by;
    let left = respond_by.map(|by| Duration::from_millis(u64::try_from(by.since_ms(cx.ui.now)).unwrap_or(0)));
    let patience = [timeout, left].into_iter().flatten().min();
    let found = cx.wait(&mut office, &Concern::Message(number).into(), patience, |office| {
        let answered = cx.call_verb(office, replies::Input { number })?;
        Ok(wanted.is_complete(&answered.answer).then_some(answered))
    })?;
    let answered = match found {
        Some(answered) => answered,
        None => cx.call_verb(&mut office, replies::Input { number })?,
    };
    cx.ui.now = office.now()?;
    let checked = wanted.check(&answered.answer);
    cx.show(&mut office, answered)?;
    Ok(checked?)
}
