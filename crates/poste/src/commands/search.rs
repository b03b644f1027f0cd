use std::io::{self, Write};

use poste_core::Address;
use poste_core::log::MessageNo;
use poste_core::store::search::Piece;
use poste_core::store::tables::State;
use poste_core::text::{Label, Name, TypeName};
use poste_core::time::When;
use poste_core::views::{SearchHit, SearchPage};
use poste_verbs::{past_moment, search};

use crate::Result;
use crate::context::Cx;
use crate::ui::{self, Answer, Paint, Ui, escape};

/// Find messages by what was written in them or about them, newest first
///
/// Every word must be there: in the subject, the body, the payload, or a result, reason or note that came later. Quote
/// the search as a whole for the shell; inside, "a phrase" stands together, log* is a beginning, and -word must not be
/// there. Case and accents do not count. Searching marks nothing as shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste search login\n  poste search 'log* \"null check\" -draft' --from coder\n  \
                  poste search src/auth.rs --since 2d --state done\n  poste search login --rank --json")]
pub(crate) struct Args {
    /// What to look for
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    /// Only from this sender
    #[arg(long, value_name = "NAME")]
    from: Option<Name>,
    /// Only to this agent or group (role:R, can:C)
    #[arg(long, value_name = "ADDRESS")]
    to: Option<Address>,
    /// Only what this agent sent, got, or said something about
    #[arg(long, value_name = "NAME")]
    agent: Option<Name>,
    /// Only this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<TypeName>,
    /// Only this conversation
    #[arg(long, value_name = "NAME")]
    conversation: Option<Label>,
    /// Only what was sent at this time or later: a day, a moment, or how long ago
    #[arg(long, value_name = "TIME", value_parser = past_moment)]
    since: Option<When>,
    /// Only what was sent before this time: a day, a moment, or how long ago
    #[arg(long, value_name = "TIME", value_parser = past_moment)]
    until: Option<When>,
    /// Only what is in this state for at least one recipient
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// At most so many
    #[arg(long, default_value_t = search::LIMIT_DEFAULT, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Only messages with a lower number: the next page
    #[arg(long, value_name = "N", value_parser = crate::cli::number)]
    before: Option<MessageNo>,
    /// The most relevant first, of the newest 10 000 matches
    #[arg(long, conflicts_with = "before")]
    rank: bool,
}

impl Answer for SearchPage {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for hit in &self.hits {
            let line = [
                format!("#{}", hit.number),
                ui.time(hit.at),
                format!("{} → {}", hit.from, recipients(hit)),
                hit.kind.to_string(),
                state(hit),
                painted(ui, &hit.marked_subject),
            ];
            let (line, snippet) = (line.join("  "), painted(ui, &hit.snippet));
            match (snippet.is_empty(), ui.terminal) {
                (true, _) => writeln!(out, "{line}")?,
                // For people on a line of its own, for programs one line a hit.
                (false, true) => writeln!(out, "{line}\n    {snippet}")?,
                (false, false) => writeln!(out, "{line}  {snippet}")?,
            }
        }
        Ok(())
    }
}

/// Without colours the words stand for themselves.
fn painted(ui: &Ui, pieces: &[Piece]) -> String {
    let paint = |piece: &Piece| match piece.matched {
        true => ui.paint(Paint::Strong, &escape::line(&piece.text)),
        false => escape::line(&piece.text).into_owned(),
    };
    pieces.iter().map(paint).collect()
}

fn recipients(hit: &SearchHit) -> String {
    const NAMED_MAX: u64 = 3;
    match hit.recipients {
        0 => "nobody".to_owned(),
        1..=NAMED_MAX => hit.to.join(", "),
        many => ui::count(usize::try_from(many).unwrap_or(usize::MAX), "recipient"),
    }
}

/// `pending`, or `2 pending, 1 done`.
fn state(hit: &SearchHit) -> String {
    match hit.states.as_slice() {
        [] => "-".to_owned(),
        [only] => only.state.to_string(),
        several => {
            let each: Vec<String> = several.iter().map(|of| format!("{} {}", of.count, of.state)).collect();
            each.join(", ")
        }
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    cx.call(search::Input {
        words: args.words.join(" "),
        from: args.from,
        to: args.to,
        agent: args.agent,
        kind: args.kind,
        conversation: args.conversation,
        since: args.since,
        until: args.until,
        state: args.state,
        limit: args.limit,
        before: args.before,
        rank: args.rank,
    })
}
