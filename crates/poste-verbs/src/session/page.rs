//! The shared state of a session as Markdown: for people, and as the page that closing writes.

use std::fmt::Write as _;
use std::path::PathBuf;

use poste_core::escape;
use poste_core::office::Office;
use poste_core::store::session_pages::page_name;
use poste_core::store::tables::SessionState;
use poste_core::views::{self, NoteView, SessionContext, SessionView};

use super::{no_session, place, state};
use crate::{Error, Result};

/// Markdown made from the log alone and without the current time, so that the page is always the same.
pub fn written(context: &SessionContext) -> String {
    let root = &context.root;
    let mut text = format!("# Session {}\n\n", escape::markdown(root.id.as_str()));
    let mut field = |name: &str, value: &str| {
        let _ = writeln!(text, "- {name}: {value}");
    };
    if let Some(goal) = &context.goal {
        field("goal", &noted(goal));
    }
    field("agent", root.agent.as_str());
    field("started", &format!("{} ({})", root.started_at, escape::markdown(&place(root))));
    field("state", &dated_state(root));
    if let Some(summary) = &root.summary {
        field("summary", &words(summary));
    }
    section(&mut text, "Agents", context.below.iter().map(below).chain(context.invoked.iter().map(invoked)));
    section(&mut text, "Decisions", context.decisions.iter().map(noted));
    section(&mut text, "Open questions", context.open_questions.iter().map(|asked| questioned(&asked.question)));
    let answered = context.answered_questions.iter().map(|asked| {
        let answer = asked.answer.as_ref().map(|answer| format!("\n  - {}", noted(answer).replace('\n', "\n  ")));
        format!("{}{}", questioned(&asked.question), answer.unwrap_or_default())
    });
    section(&mut text, "Answered questions", answered);
    section(&mut text, "Notes", context.notes.iter().map(noted));
    text
}

fn section(text: &mut String, title: &str, items: impl Iterator<Item = String>) {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return;
    }
    let _ = writeln!(text, "\n## {title}\n");
    for item in items {
        let _ = writeln!(text, "- {item}");
    }
}

/// Text from an agent: one line as it is, several as a quotation below the item. Markup in it has no effect.
fn words(text: &str) -> String {
    let text = text.trim();
    match text.contains('\n') {
        false => plain(text),
        true => text.lines().map(|line| format!("\n  > {}", plain(line))).collect(),
    }
}

/// A line that cannot begin a list or a heading.
fn plain(line: &str) -> String {
    let safe = escape::markdown(line.trim());
    let digits = safe.bytes().take_while(u8::is_ascii_digit).count();
    match safe.as_bytes().get(digits) {
        Some(b'-' | b'+' | b'=') if digits == 0 => format!("\\{safe}"),
        Some(b'.' | b')') if digits > 0 => format!("{}\\{}", &safe[..digits], &safe[digits..]),
        _ => safe,
    }
}

/// A note with its author outside of its text. `redact` takes the number of the record.
fn noted(note: &NoteView) -> String {
    let (words, by) = (words(&note.text), format!("({}, {}, record {})", note.by, note.at, note.position));
    if words.starts_with('\n') { format!("{by}{words}") } else { format!("{words} {by}") }
}

fn questioned(note: &NoteView) -> String {
    format!("q{}: {}", note.question.unwrap_or_default(), noted(note))
}

fn invoked(note: &NoteView) -> String {
    let agent = note.agent.as_ref().map(|agent| format!("{agent}: ")).unwrap_or_default();
    format!("{agent}{}", noted(note))
}

fn below(session: &SessionView) -> String {
    let holds: Vec<String> = session.holds.iter().map(|claim| format!("#{}", claim.number)).collect();
    let holds = if holds.is_empty() { String::new() } else { format!(", holds {}", holds.join(" ")) };
    let summary = session.summary.as_ref().map(|summary| format!(": {}", words(summary))).unwrap_or_default();
    let parent = session.parent.as_ref().filter(|parent| **parent != session.root);
    let parent = parent.map(|parent| format!(" below {}", escape::markdown(parent.as_str()))).unwrap_or_default();
    let id = escape::markdown(session.id.as_str());
    format!("{} as {id}{parent}, {}{holds}{summary}", session.agent, dated_state(session))
}

fn dated_state(session: &SessionView) -> String {
    let when = session.ended_at.map(|at| format!(" {at}")).unwrap_or_default();
    match session.state {
        SessionState::Live => "live".to_owned(),
        _ => format!("{}{when}", escape::markdown(&state(session))),
    }
}

/// Writes the page of a root.
pub(super) fn write(office: &Office, root: &SessionView) -> Result<PathBuf> {
    let closed_at = root.ended_at.unwrap_or(root.started_at);
    office.write_session_page(&page_name(&root.id, closed_at), |store| {
        let context = views::session_context(store, &root.id)?.ok_or_else(|| no_session(&root.id))?;
        Ok::<_, Error>(written(&context))
    })
}
