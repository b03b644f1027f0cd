//! Commands run for a tool, and what they said made into its result.

use poste_core::log::MessageNo;
use poste_core::views::{self, MessageView};
use serde_json::{Value, json};

use super::words::Words;
use crate::Result;
use crate::call::Called;
use crate::context::Mark;
use crate::error::CommandError;
use crate::identity::Identity;
use crate::mcp::desk::Desk;
use crate::mcp::render::{self, Reply};

pub(super) fn number(number: i64) -> Result<MessageNo> {
    u64::try_from(number).map(MessageNo).map_err(|_| CommandError::usage("a message has a number, for example 12"))
}

pub(super) fn needed<T>(value: Option<T>, what: &str) -> Result<T> {
    value.ok_or_else(|| CommandError::usage(format!("{what} is missing")))
}

/// Runs a command of the speaker; its error is the tool's.
pub(super) fn command(desk: &Desk, own: &Identity, words: Words) -> Result<Called> {
    worked(desk.run(own, words.line()))
}

pub(super) fn worked(mut called: Called) -> Result<Called> {
    match called.error.take() {
        Some(error) => Err(error),
        None => Ok(called),
    }
}

/// The message it is about, if it is about one.
pub(super) fn numbered(called: &Called) -> Value {
    let number = called.answer.as_ref().and_then(|answer| answer.get("number")).and_then(Value::as_u64);
    number.map_or(json!({}), |number| json!({ "number": number }))
}

/// A short answer in Poste's own words.
pub(super) fn said(called: Called) -> Reply {
    let more = numbered(&called);
    let mut lines = vec![called.text.trim_end().to_owned()];
    lines.extend(called.warnings.iter().map(|warning| format!("warning: {warning}")));
    let next = (!called.talk.is_empty()).then(|| called.talk.join("; "));
    Reply { marks: called.marks, ..Reply::new(lines.join("\n"), next, more) }
}

/// An answer with words of others in it.
pub(super) fn printed(desk: &Desk, own: &Identity, command: &str, called: Called, budget: usize) -> Result<Reply> {
    let cx = desk.cx(own)?;
    let talk: usize = called.talk.iter().chain(&called.warnings).map(|line| crate::ui::tokens::estimate(line)).sum();
    let more = numbered(&called);
    let mut marks = called.marks;
    let (mut text, is_cut) = match called.is_fenced {
        true => render::fenced_within(&called.text, budget.saturating_sub(talk)),
        false if called.text.trim().is_empty() => (String::new(), false),
        false => render::output(&cx, command, &called.text, budget.saturating_sub(talk)),
    };
    if is_cut {
        marks.retain(|mark| matches!(mark, Mark::Shown(numbers) if numbers.len() == 1));
    }
    for warning in &called.warnings {
        text.push_str(&format!("\nwarning: {warning}"));
    }
    let next = (!called.talk.is_empty()).then(|| called.talk.join("; "));
    Ok(Reply { marks, ..Reply::new(text.trim_start().to_owned(), next, more) })
}

/// What a result may have for messages: rows, next step and warnings need something, too.
pub(super) fn room(max_tokens: Option<i64>) -> usize {
    let budget = render::budget(max_tokens);
    budget - (budget / 6).max(60)
}

pub(super) fn views_of(desk: &Desk, numbers: &[MessageNo]) -> Result<Vec<MessageView>> {
    desk.with_office(|_, office| {
        let views = numbers.iter().filter_map(|number| views::message(office.store(), *number).transpose());
        Ok(views.collect::<std::result::Result<_, _>>()?)
    })
}

/// Only what was really put before the model counts as shown.
pub(super) fn only_shown(marks: Vec<Mark>, shown: &[MessageNo]) -> Vec<Mark> {
    let only = |mark| match mark {
        Mark::Shown(numbers) => {
            let numbers: Vec<_> = numbers.into_iter().filter(|number| shown.contains(number)).collect();
            (!numbers.is_empty()).then_some(Mark::Shown(numbers))
        }
        other => Some(other),
    };
    marks.into_iter().filter_map(only).collect()
}
