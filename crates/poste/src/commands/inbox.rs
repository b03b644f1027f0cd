use std::io::{self, Write};

use poste_core::store::tables::State;
use poste_core::text::TypeName;
use poste_core::views::{InboxLine, InboxPage, More, StaleContext};
use poste_core::vocabulary::Priority;
use poste_verbs::inbox;
use poste_verbs::model::sender;

use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Paint, Ui, escape, tokens};

/// List your mail by priority, then age
///
/// Listing a message does not mark it as shown; reading it does.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste inbox --as coder\n  poste inbox --unread --type question\n  poste inbox --tokens 300"
)]
pub(crate) struct Args {
    /// Only messages that have not been shown
    #[arg(long)]
    unread: bool,
    /// Only messages of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<TypeName>,
    /// Only messages from this sender
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// Include messages that have ended, newest first
    #[arg(long)]
    all: bool,
    /// Maximum number of messages
    #[arg(long, default_value_t = inbox::LIMIT_DEFAULT, value_parser = clap::value_parser!(u16).range(1..=i64::from(inbox::LIMIT_MAX)))]
    limit: u16,
    /// Token budget for the listing
    #[arg(long, value_name = "N")]
    tokens: Option<usize>,
}

impl Answer for InboxPage {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.messages.iter().map(|line| row(ui, line)).collect();
        ui.lines(out, &["#", "PRIORITY", "TYPE", "FROM", "SENT", "STATE", "SUBJECT"], rows)?;
        if let Some(text) = left_out_text(self.left_out) {
            writeln!(out, "{text}")?;
        }
        for stale in &self.stale_contexts {
            writeln!(out, "{}", stale_line(stale))?;
        }
        if self.more_stale_contexts {
            writeln!(out, "(more contexts have changed: poste context list)")?;
        }
        Ok(())
    }
}

fn stale_line(stale: &StaleContext) -> String {
    let StaleContext { name, seen, version, updated_by, .. } = stale;
    format!(
        "context {name} is at version {version} (by {updated_by}), you have seen {seen}: poste context since {name}"
    )
}

fn left_out_text(left_out: More) -> Option<String> {
    let plus = if left_out.at_least { "+" } else { "" };
    (left_out.count > 0).then(|| format!("({}{plus} more not shown)", left_out.count))
}

fn row(ui: &Ui, line: &InboxLine) -> Vec<String> {
    let priority = match line.priority {
        Priority::Urgent => ui.paint(Paint::Bad, "urgent"),
        Priority::High => ui.paint(Paint::Attention, "high"),
        other => other.to_string(),
    };
    let subject = escape::line(&line.subject).into_owned();
    vec![
        format!("#{}", line.number),
        priority,
        line.kind.to_string(),
        sender::named(&line.from, line.trust),
        ui.time(line.at),
        state(ui, line),
        if line.shown { subject } else { ui.paint(Paint::Strong, &subject) },
    ]
}

/// The state, and what else the reader should know, in a few words.
fn state(ui: &Ui, line: &InboxLine) -> String {
    let mut words = vec![line.state.to_string()];
    if !line.shown && line.state == State::Pending {
        words = vec!["new".to_owned()];
    }
    if let Some(at) = line.ready_at.filter(|_| !line.ready) {
        words.push(format!("ready {}", ui.time(at)));
    }
    if let Some(until) = line.lease_until {
        words.push(format!("lease ends {}", ui.time(until)));
    }
    if line.attempts > 0 {
        words.push(format!("{} failed", line.attempts));
    }
    if line.acked {
        words.push("acked".to_owned());
    }
    if line.wants_response && !line.answered {
        words.push(match line.respond_by {
            Some(at) if at <= ui.now => format!("answer was due {}", ui.time(at)),
            Some(at) => format!("answer due {}", ui.time(at)),
            None => "answer wanted".to_owned(),
        });
    }
    if line.unconfirmed {
        words.push("unconfirmed".to_owned());
    }
    words.join(", ")
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let Args { unread, kind, from, all, limit, tokens } = args;
    let (mut office, mut answered) = cx.call_verb_here(inbox::Input { unread, kind, from, all, limit })?;
    if let Some(budget) = tokens {
        fit(&cx.ui, &mut answered.answer, budget);
    }
    cx.show(&mut office, answered)
}

/// Drops lines from the end until the listing fits, including the note that counts the dropped ones.
fn fit(ui: &Ui, page: &mut InboxPage, budget: usize) {
    const NOTE_TOKENS: usize = 12;
    let lines = std::mem::take(&mut page.messages);
    let stale = std::mem::take(&mut page.stale_contexts);
    let mut used = if ui.json { json_tokens(page) + NOTE_TOKENS } else { NOTE_TOKENS };
    used += if stale.is_empty() { 0 } else { NOTE_TOKENS };
    let total = lines.len();
    page.messages = lines
        .into_iter()
        .take_while(|line| {
            used += 1 + if ui.json { json_tokens(&line) } else { tokens::estimate(&row(ui, line).join("  ")) };
            used <= budget
        })
        .collect();
    page.left_out.count += (total - page.messages.len()) as u64;
    // Mail comes first; notes about contexts get the room that is left.
    let total = stale.len();
    page.stale_contexts = stale
        .into_iter()
        .take_while(|stale| {
            used += 1 + if ui.json { json_tokens(&stale) } else { tokens::estimate(&stale_line(stale)) };
            used <= budget
        })
        .collect();
    page.more_stale_contexts |= page.stale_contexts.len() < total;
}

fn json_tokens(value: &impl serde::Serialize) -> usize {
    tokens::estimate(&serde_json::to_string(value).unwrap_or_default())
}
