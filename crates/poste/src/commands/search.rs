use std::io::{self, Write};

use poste_core::Address;
use poste_core::log::MessageNo;
use poste_core::store::search::Piece;
use poste_core::store::tables::State;
use poste_core::text::{Label, Name, TypeName};
use poste_core::time::When;
use poste_core::views::{SearchHit, SearchPage};
use poste_verbs::model::sender;
use poste_verbs::{past_moment, search};

use crate::Result;
use crate::context::Cx;
use crate::ui::{self, Answer, Paint, Ui, escape};

/// Search messages by text, newest first
///
/// Every word must occur in the subject, the body, the payload, or a later result, reason or note. Quote the whole
/// search for the shell; inside it, "a phrase" matches as a whole, log* matches a prefix, and -word must not occur.
/// Case and accents are ignored. Searching marks nothing as shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste search login\n  poste search 'log* \"null check\" -draft' --from coder\n  \
                  poste search src/auth.rs --since 2d --state done\n  poste search login --rank --json")]
pub(crate) struct Args {
    /// Words to search for
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    /// Only messages from this sender
    #[arg(long, value_name = "NAME")]
    from: Option<Name>,
    /// Only messages to this agent or group (role:R, can:C)
    #[arg(long, value_name = "ADDRESS")]
    to: Option<Address>,
    /// Only messages this agent sent, received or wrote a result, reason or note about
    #[arg(long, value_name = "NAME")]
    agent: Option<Name>,
    /// Only messages of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<TypeName>,
    /// Only messages of this conversation
    #[arg(long, value_name = "NAME")]
    conversation: Option<Label>,
    /// Only messages sent at this time or later: a date, a time, or how long ago
    #[arg(long, value_name = "TIME", value_parser = past_moment)]
    since: Option<When>,
    /// Only messages sent before this time: a date, a time, or how long ago
    #[arg(long, value_name = "TIME", value_parser = past_moment)]
    until: Option<When>,
    /// Only messages in this state for at least one recipient
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// Maximum number of messages
    #[arg(long, default_value_t = search::LIMIT_DEFAULT, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Only messages with a lower number, for the next page
    #[arg(long, value_name = "N", value_parser = crate::cli::number)]
    before: Option<MessageNo>,
    /// Sort by relevance, among the newest 10 000 matches
    #[arg(long, conflicts_with = "before")]
    rank: bool,
}

impl Answer for SearchPage {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for hit in &self.hits {
            let line = [
                format!("#{}", hit.number),
                ui.time(hit.at),
                format!("{} → {}", sender::named(&hit.from, hit.trust), recipients(hit)),
                hit.kind.to_string(),
                state(hit),
                painted(ui, &hit.marked_subject),
            ];
            let (line, snippet) = (line.join("  "), painted(ui, &hit.snippet));
            match (snippet.is_empty(), ui.terminal) {
                (true, _) => writeln!(out, "{line}")?,
                // For people the snippet has its own line; for programs each hit is one line.
                (false, true) => writeln!(out, "{line}\n    {snippet}")?,
                (false, false) => writeln!(out, "{line}  {snippet}")?,
            }
        }
        Ok(())
    }
}

/// Without colours, matches are not marked.
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
