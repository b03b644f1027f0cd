//! A handoff as Markdown, for people. Text from agents is quoted or put on one line of a list, so it cannot look like a
//! heading, a ticked box or a signature of this document.

use std::fmt::Write;

use super::{ContextLink, HandoffAnswer, Package, RunResult};
use crate::escape::plain;
use crate::store::artifact::FileProblem;
use crate::store::tables::HandoffState;
use crate::time::length;
use crate::views::{Decision, HandoffView};

/// An agent's text on one line. `<` is escaped because HTML is also recognised in the middle of a line.
fn one_line(text: &str) -> String {
    let words = plain(text).split_whitespace().collect::<Vec<_>>().join(" ");
    words.replace('<', "&lt;")
}

/// An agent's text as a quote, line by line.
fn quote(text: &str) -> String {
    plain(text.trim_end()).lines().map(|line| format!("> {}\n", line.replace('<', "&lt;"))).collect()
}

/// A name or a command as inline code. Backquotes in it cannot end it.
fn code(text: &str) -> String {
    let text = plain(text).replace(['\n', '\t'], " ");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    match longest {
        0 => format!("`{text}`"),
        _ => format!("{fence} {text} {fence}"),
    }
}

/// The output of a program, in a fence it cannot close.
fn fenced(text: &str) -> String {
    let text = plain(text.trim_end());
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{text}\n{fence}\n")
}

fn list(out: &mut String, title: &str, items: &[String]) {
    if !items.is_empty() {
        let _ = write!(out, "\n## {title}\n\n");
    }
    for item in items {
        let _ = writeln!(out, "- {}", one_line(item));
    }
}

/// The body of the message that offers a package.
pub(super) fn package(package: &Package) -> String {
    let mut out = format!("## Task\n\n{}", quote(&package.task));
    sections(&mut out, package);
    if !package.contexts.is_empty() {
        out.push_str("\n## Shared contexts\n\n");
        links(&mut out, &package.contexts);
    }
    if !package.checks.is_empty() {
        out.push_str("\n## Checks\n\n");
        boxes(&mut out, package, &[]);
    }
    commands(&mut out, package);
    out
}

fn sections(out: &mut String, package: &Package) {
    list(out, "Work completed", &package.completed);
    if let Some(background) = &package.background {
        let _ = write!(out, "\n## Context and background\n\n{}", quote(background));
    }
    list(out, "Next steps", &package.next);
    list(out, "Known issues", &package.issues);
    list(out, "Questions", &package.questions);
}

fn links(out: &mut String, contexts: &[ContextLink]) {
    for link in contexts {
        let version = match link.version {
            Some(version) => format!("version {version}"),
            None => "no such context when the handoff was created".to_owned(),
        };
        let _ = writeln!(out, "- {}: {version}", code(&link.name));
    }
}

fn boxes(out: &mut String, package: &Package, checked: &[u32]) {
    for (number, check) in (1..).zip(&package.checks) {
        let mark = if checked.contains(&number) { 'x' } else { ' ' };
        let _ = writeln!(out, "- [{mark}] {number}. {}", one_line(check));
    }
}

fn commands(out: &mut String, package: &Package) {
    if package.verify.is_empty() {
        return;
    }
    out.push_str("\n## Commands to run\n\n");
    for (number, command) in (1..).zip(&package.verify) {
        let limit = length(i64::try_from(command.timeout_ms).unwrap_or(i64::MAX));
        let _ = writeln!(out, "{number}. {} (timeout {limit})", code(&command.line()));
    }
}

/// The body of the message that answers a handoff.
pub(super) fn answer(answer: &HandoffAnswer, package: Option<&Package>) -> String {
    let mut out = String::new();
    if let Some(notes) = &answer.notes {
        out.push_str(&quote(notes));
    }
    if let Some(reason) = &answer.overridden {
        let _ = write!(out, "\n### Overridden\n\n{}", quote(reason));
    }
    if let Some(package) = package.filter(|package| !package.checks.is_empty()) {
        out.push_str("\n### Checklist\n\n");
        boxes(&mut out, package, &answer.checked);
    }
    runs(&mut out, "Commands", &answer.verified);
    not_run(&mut out, answer, package);
    runs(&mut out, "The receiver's gates", &answer.gates);
    changes(&mut out, &answer.changed);
    out.trim_start().to_owned()
}

fn runs(out: &mut String, title: &str, results: &[RunResult]) {
    if results.is_empty() {
        return;
    }
    let _ = write!(out, "\n### {title}\n\n");
    for (number, result) in (1..).zip(results) {
        let verdict = if result.ok { "passed" } else { "failed" };
        let took = length(i64::try_from(result.duration_ms).unwrap_or(i64::MAX));
        let _ = writeln!(out, "{number}. {verdict}: {} ({}, {took})", code(&result.what), one_line(&result.end));
        if !result.output.trim().is_empty() {
            let _ = write!(out, "\n{}\n", fenced(&result.output));
        }
    }
}

/// The commands that an override skipped.
fn not_run(out: &mut String, answer: &HandoffAnswer, package: Option<&Package>) {
    let Some(package) = package.filter(|package| package.verify.len() > answer.verified.len()) else { return };
    out.push_str("\n### Commands that were not run\n\n");
    for command in package.verify.iter().skip(answer.verified.len()) {
        let _ = writeln!(out, "- {}", code(&command.line()));
    }
}

fn changes(out: &mut String, changed: &[FileProblem]) {
    if changed.is_empty() {
        return;
    }
    out.push_str("\n### Changed since the handoff\n\nThe copies in the package are unchanged.\n\n");
    for file in changed {
        let _ = writeln!(out, "- {}: {}", code(&file.path), one_line(&file.what.to_string()));
    }
}

/// `HANDOFF.md`.
pub(super) fn handoff(view: &HandoffView) -> String {
    let mut out = format!("# Handoff {}: {} → {}\n\n", view.number, view.from, view.to);
    let _ = writeln!(out, "**Created**: {}", view.at);
    let _ = writeln!(out, "**From**: {} ({})", view.from, view.trust);
    let _ = writeln!(out, "**To**: {}", view.to);
    let _ = writeln!(out, "**State**: {}", state(view));
    let _ = writeln!(out, "**Conversation**: {}", view.conversation);
    match &view.package {
        Some(package) => {
            let _ = write!(out, "\n## Task description\n\n{}", quote(&package.task));
            sections(&mut out, package);
        }
        None => {
            let _ = write!(out, "\n({})\n", view.missing_words());
        }
    }
    files(&mut out, view);
    if let Some(package) = &view.package {
        if !package.checks.is_empty() {
            out.push_str("\n## Acceptance criteria\n\n");
            boxes(&mut out, package, &[]);
        }
        commands(&mut out, package);
    }
    if let Some(decision) = &view.decision {
        signature(&mut out, view, decision);
    }
    out
}

fn state(view: &HandoffView) -> String {
    let overridden = if view.overridden { ", overridden" } else { "" };
    format!("{}{overridden}", view.state)
}

fn files(out: &mut String, view: &HandoffView) {
    if view.artifacts.is_empty() {
        return;
    }
    out.push_str("\n## Artifacts transferred\n\n");
    for artifact in &view.artifacts {
        let size = artifact.size.unwrap_or_default();
        let digest = artifact.digest.map(|digest| format!(", blake3 {digest}")).unwrap_or_default();
        let _ = writeln!(out, "- {} ({size} bytes{digest})", code(&format!("artifacts/{}", artifact.path)));
    }
}

/// The decision. Only text from the log comes after a horizontal rule like this one.
fn signature(out: &mut String, view: &HandoffView, decision: &Decision) {
    let word = match view.state {
        HandoffState::Accepted => "Accepted",
        HandoffState::Rejected => "Rejected",
        _ => "Withdrawn",
    };
    let _ = write!(out, "\n---\n\n## Handoff {}\n\n", word.to_lowercase());
    let _ = writeln!(out, "**{word} by**: {}", decision.by);
    let _ = writeln!(out, "**{word} at**: {}", decision.at);
    let _ = writeln!(out, "**Record**: {}", decision.position);
    match &decision.answer {
        Some(said) => {
            let _ = write!(out, "\n{}", answer(said, view.package.as_ref()));
        }
        None if decision.words_gone => out.push_str("\n(the text is no longer here)\n"),
        None => {}
    }
    if let Some(reason) = &decision.reason {
        let _ = write!(out, "\n{}", quote(reason));
    }
}

/// `context-links.md`.
pub(super) fn contexts(view: &HandoffView) -> String {
    let mut out = format!("# Shared contexts of handoff {}\n\n", view.number);
    match &view.package {
        None => {
            let _ = writeln!(out, "({})", view.missing_words());
        }
        Some(package) if package.contexts.is_empty() => out.push_str("None.\n"),
        Some(package) => {
            links(&mut out, &package.contexts);
            out.push_str("\nTo read one: `poste context show NAME`. For the version above, add `--at VERSION`.\n");
        }
    }
    out
}

/// `acceptance-checklist.md`.
pub(super) fn checklist(view: &HandoffView) -> String {
    let mut out = format!("# Acceptance checklist of handoff {}\n\n", view.number);
    match &view.package {
        None => {
            let _ = writeln!(out, "({})", view.missing_words());
        }
        Some(package) => {
            if package.checks.is_empty() {
                out.push_str("Nothing to check.\n");
            }
            let accepted = view.decision.as_ref().filter(|_| view.state == HandoffState::Accepted);
            boxes(&mut out, package, accepted.map(|decision| decision.checked.as_slice()).unwrap_or_default());
            commands(&mut out, package);
        }
    }
    let _ = write!(out, "\nState: {}\n", state(view));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_output_stay_where_they_are() {
        assert_eq!(code("cargo test"), "`cargo test`");
        assert_eq!(code("echo `id`\nx"), "`` echo `id` x ``");
        assert_eq!(fenced("a\n```\nb\n"), "````text\na\n```\nb\n````\n");
        assert_eq!(quote("a\n<b>"), "> a\n> &lt;b>\n");
        assert_eq!(one_line(" a\n b\t<i> "), "a b &lt;i>");
    }
}
