use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};
use poste_core::log::MessageNo;
use poste_core::office::Office;
use poste_core::store::search::{Filters, Piece, Words};
use poste_core::store::tables::State;
use poste_core::text::{Label, Name, TypeName};
use poste_core::time::{When, parse_past};
use poste_core::views::{self, Progress, Refreshed, SearchHit, SearchPage, SearchQuery};
use poste_core::{Address, Timestamp};

use crate::Result;
use crate::context::Cx;
use crate::error::CommandError;
use crate::explain::{check_filters, unknown_agent};
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
    #[arg(long, value_name = "TIME", value_parser = past)]
    since: Option<When>,
    /// Only what was sent before this time: a day, a moment, or how long ago
    #[arg(long, value_name = "TIME", value_parser = past)]
    until: Option<When>,
    /// Only what is in this state for at least one recipient
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// At most so many
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Only messages with a lower number: the next page
    #[arg(long, value_name = "N", value_parser = crate::cli::number)]
    before: Option<MessageNo>,
    /// The most relevant first, of the newest 10 000 matches
    #[arg(long, conflicts_with = "before")]
    rank: bool,
}

/// A clap value parser for moments that are over: a length of time is how long ago.
fn past(text: &str) -> std::result::Result<When, String> {
    parse_past(text).map_err(|_| {
        let text = poste_core::text::quoted(text);
        format!(
            "{text} is no time; write how long ago (30m, 2h, 1d), a day (2026-01-31) or a moment (2026-01-31T12:00:00Z)"
        )
    })
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
    let words: Words = args.words.join(" ").parse().map_err(|error| {
        CommandError::usage(format!("{error}"))
            .hint("write words to look for: poste search 'login \"null check\" -draft'")
    })?;
    let office = cx.open()?;
    let limit = args.limit.into();
    let query = query(&office, cx.ui.now, words, args)?;
    let progress = Bar::new(&cx.ui);
    let (page, refreshed) = views::search(office.store(), &query, |step| progress.show(step))?;
    progress.0.finish_and_clear();
    tell(&cx.ui, &refreshed);
    cx.ui.answer(&page)?;
    explain_limits(&cx.ui, &page, limit);
    if page.hits.is_empty() {
        let hint = match page.next_before {
            Some(before) => format!("look further back: the same search with --before {before}"),
            None if query.filters() => "look without the filters, or for fewer words".to_owned(),
            None => "look for fewer words, or for the beginning of one: word*".to_owned(),
        };
        return Err(CommandError::not_found("no message matches").code("no_match").hint(hint));
    }
    Ok(())
}

/// The query, after checking that its filters can match at all.
fn query(office: &Office, now: Timestamp, words: Words, args: Args) -> Result<SearchQuery> {
    check_filters(office, args.kind.as_ref(), args.from.as_ref().map(Name::as_str))?;
    let named = match &args.to {
        Some(Address::Agent(name)) => Some(name),
        Some(Address::Role(_) | Address::Can(_)) | None => None,
        Some(other) => {
            return Err(CommandError::usage(format!("{other} is no address mail lies at"))
                .hint("--to takes an agent, role:R or can:C"));
        }
    };
    for name in named.into_iter().chain(&args.agent) {
        if office.agent(name)?.is_none() {
            return Err(unknown_agent(office, name)?);
        }
    }
    let ago = |when: When| match when {
        When::At(at) => at,
        When::InMs(ms) => now.plus_ms(-ms),
    };
    Ok(SearchQuery {
        words,
        filters: Filters {
            from: args.from,
            to: args.to,
            agent: args.agent,
            kind: args.kind,
            conversation: args.conversation,
        },
        since: args.since.map(ago),
        until: args.until.map(ago),
        state: args.state,
        before: args.before,
        limit: args.limit.into(),
        rank: args.rank,
    })
}

/// What a person should know of the index.
fn tell(ui: &Ui, refreshed: &Refreshed) {
    if let Some(why) = &refreshed.anew {
        ui.say(format!("the search index was made anew: {why}"));
    }
    if refreshed.borrowed {
        ui.say("the office can only be read from here, so the index was made for this search only");
    }
    for number in &refreshed.unreadable {
        ui.warn(format!("the content of #{number} is damaged and cannot be searched; look closer: poste log verify"));
    }
}

fn explain_limits(ui: &Ui, page: &SearchPage, limit: usize) {
    if page.not_indexed > 0 || page.indexed_to < page.as_of {
        let behind = match page.not_indexed {
            0 => format!("it knows the log up to record {}", page.indexed_to),
            left => {
                format!("{} still to go, the oldest", ui::count(usize::try_from(left).unwrap_or(usize::MAX), "message"))
            }
        };
        ui.say(format!("the search index is not up to date: {behind}"));
    }
    if let Some(looked_at) = page.looked_at {
        ui.say(format!("looked at the newest {looked_at} matches"));
    }
    if let Some(before) = page.next_before.filter(|_| page.hits.len() == limit) {
        ui.say(format!("there are more: --before {before}"));
    }
}

/// A bar on a terminal while the index is filled; nothing for a program, and nothing when there is little to do.
struct Bar(ProgressBar);

impl Bar {
    fn new(ui: &Ui) -> Self {
        if ui.json || !io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{msg} {bar:30} {percent}% {human_pos}/{human_len} {eta}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::new(0).with_style(style))
    }

    fn show(&self, step: Progress) {
        let (message, done, total) = match step {
            Progress::Reading { done, total } => ("reading the log", done, total),
            Progress::Indexing { done, total } => ("indexing", done, total),
        };
        if self.0.message() != message {
            self.0.set_message(message);
            // Before the new length, or for an instant it would show 9 of 4.
            self.0.set_position(0);
            self.0.reset_eta();
        }
        self.0.set_length(total);
        self.0.set_position(done);
    }
}
