use std::io::{self, Write};
use std::time::Duration;

use poste_core::log::{MessageNo, Position};
use poste_core::office::{Office, head};
use poste_core::store::tables::Agent;
use poste_core::text::{Topic, TypeName};
use poste_core::views::{self, NewMail, NewsQuery, Replies};

use super::read;
use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::explain::{check_filters, no_message};
use crate::ui::{Answer, Ui};

/// Wait for mail, or for answers
///
/// Returns the moment something is there that was not shown to this session (without POSTE_SESSION: to this
/// agent). It claims nothing. With --replies N it returns when every recipient of N has answered or ended it, or
/// its deadline has passed; it succeeds if all have answered (with --any: one), and says who has not.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste wait --as coder --timeout 10m\n  poste wait --type question --from lead\n  \
                        poste wait --after 120\n  poste wait --replies 12 --any --as lead"
)]
pub(crate) struct Args {
    /// Give up after this; otherwise wait for ever
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Only this type
    #[arg(long = "type", value_name = "TYPE", conflicts_with = "replies")]
    kind: Option<TypeName>,
    /// Only from this sender
    #[arg(long, value_name = "NAME", conflicts_with = "replies")]
    from: Option<String>,
    /// Only of this topic
    #[arg(long, conflicts_with = "replies")]
    topic: Option<Topic>,
    /// Everything that became available after this cursor, shown or not
    #[arg(long, value_name = "POSITION", value_parser = crate::cli::position, conflicts_with = "replies")]
    after: Option<Position>,
    /// At most so many messages
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// Print the messages fenced as data, for a model's context
    #[arg(long)]
    for_model: bool,
    /// Wait for answers to message N
    #[arg(long, value_name = "N", value_parser = crate::cli::number)]
    replies: Option<MessageNo>,
    /// With --replies: until all have answered (this is the default)
    #[arg(long, requires = "replies", conflicts_with = "any")]
    all: bool,
    /// With --replies: until one has answered
    #[arg(long, requires = "replies")]
    any: bool,
}

impl Answer for NewMail {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for (index, message) in self.messages.iter().enumerate() {
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
    let mut office = cx.open()?;
    if let Some(number) = args.replies {
        return wait_for_replies(cx, &mut office, number, args.any, args.timeout);
    }
    let agent = cx.active_agent(&office)?;
    check_filters(&office, args.kind.as_ref(), args.from.as_deref())?;
    if let Some(topic) = &args.topic
        && !views::hears(office.store(), &agent.name, topic)?
    {
        let message = format!("{} is not subscribed to {topic}, so nothing of it would come", agent.name);
        return Err(CommandError::new(Kind::Refused, message).hint(format!("subscribe: poste subscribe {topic}")));
    }
    if let Some(after) = args.after {
        check_cursor(&office, after)?;
    }
    let mut query = NewsQuery {
        session: cx.session(),
        kind: args.kind,
        from: args.from,
        topic: args.topic,
        urgencies: Vec::new(),
        after: args.after,
        looked_until: None,
        limit: args.limit.into(),
    };
    let mut addresses = agent.addresses();
    let found = office.wait_for(args.timeout, |office| {
        super::workflow::go_on_with_news(cx, office);
        // Asked anew each time: a role may come or go while it waits.
        let Some(agent) = office.agent(&agent.name)?.filter(Agent::is_active) else { return Ok(Some(None)) };
        if agent.addresses() != addresses {
            addresses = agent.addresses();
            query.looked_until = None;
        }
        let news = views::news(office.store(), &agent, &query)?;
        if news.messages.is_empty() {
            query.looked_until = news.cursor;
            return Ok(None);
        }
        Ok(Some(Some(news)))
    })?;
    let news = match found {
        Some(Some(news)) => news,
        Some(None) => {
            return Err(cx.active_agent(&office).err().unwrap_or_else(|| CommandError::usage("the agent is gone")));
        }
        None => return Err(CommandError::new(Kind::TimedOut, "nothing new came in that time")),
    };
    cx.ui.now = office.now()?;
    if args.for_model && !cx.ui.json {
        let mut out = cx.ui.out();
        for message in &news.messages {
            writeln!(out, "{}", read::fenced(cx, message))?;
        }
        out.flush()?;
    } else {
        cx.ui.answer(&news)?;
    }
    cx.mark_shown(&mut office, news.messages.iter().map(|message| message.number).collect())?;
    match news.cursor {
        Some(cursor) => cx.ui.say(format!("cursor {cursor}: poste wait --after {cursor}")),
        None => cx.ui.say("more is new: poste wait"),
    }
    Ok(())
}

/// A cursor beyond the log is of another log, or of one that lost its end: whoever waited after it would miss mail.
pub(crate) fn check_cursor(office: &Office, after: Position) -> Result {
    let newest = head(office.store())?;
    if after <= newest {
        return Ok(());
    }
    let message = format!("the cursor {after} is beyond the log, which ends at record {newest}");
    Err(CommandError::new(Kind::Refused, message)
        .code("cursor_beyond_log")
        .hint("the office may have been restored from a snapshot, or it is another one")
        .hint("see what waits: poste inbox; then go on without --after, or after a cursor of this office"))
}

fn wait_for_replies(
    cx: &mut Cx,
    office: &mut Office,
    number: MessageNo,
    any: bool,
    timeout: Option<Duration>,
) -> Result {
    let first = views::replies(office.store(), number)?.ok_or_else(|| no_message(number))?;
    let left = first.respond_by.map(|by| Duration::from_millis(u64::try_from(by.since_ms(cx.ui.now)).unwrap_or(0)));
    let patience = [timeout, left].into_iter().flatten().min();
    let found = office.wait_for(patience, |office| {
        super::workflow::go_on_with_news(cx, office);
        let replies = views::replies(office.store(), number)?;
        Ok(replies.filter(|replies| replies.missing == 0 || (any && replies.answered > 0)))
    })?;
    cx.ui.now = office.now()?;
    let complete = found.is_some();
    let replies = match found {
        Some(replies) => replies,
        None => views::replies(office.store(), number)?.ok_or_else(|| no_message(number))?,
    };
    cx.ui.answer(&replies)?;
    let silent = |settled: bool| -> Vec<&str> {
        let silent = replies.recipients.iter().filter(|reply| reply.answer.is_none() && reply.is_settled() == settled);
        silent.map(|reply| reply.recipient.as_str()).collect()
    };
    let (missing, without) = (silent(false), silent(true));
    if !complete {
        let who = if missing.len() == 1 {
            "1 recipient has".to_owned()
        } else {
            format!("{} recipients have", missing.len())
        };
        return Err(CommandError::new(Kind::TimedOut, format!("{who} not answered: {}", missing.join(", "))));
    }
    // Whoever ended it without a word will not answer any more; a script must not take that for an answer.
    if without.is_empty() || (any && replies.answered > 0) {
        return Ok(());
    }
    Err(CommandError::not_found(format!("no answer will come from {}", without.join(", ")))
        .hint(format!("see how it ended: poste track {number}")))
}
