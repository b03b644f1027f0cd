//! What agents share: documents, and work that is handed over.

use poste_connect::mcp::Call;

use super::answers::{command, needed, number, printed, room, said};
use super::inputs::{Context, ContextAction, Handoff, HandoffAction};
use super::words::Words;
use crate::Result;
use crate::mcp::desk::Desk;
use crate::mcp::render::Reply;

pub(super) fn context(desk: &Desk, input: Context, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let budget = room(input.max_tokens);
    let name = || needed(input.name.clone(), "name");
    let text = || needed(input.text.clone(), "text");
    let (shown, words) = match input.action {
        ContextAction::List => ("context list", Words::of(&["context", "list"])),
        ContextAction::Show => ("context show", Words::of(&["context", "show", "--for-model"]).value(name()?)),
        ContextAction::Since => ("context since", Words::of(&["context", "since"]).value(name()?)),
        ContextAction::Append => {
            let words = Words::of(&["context", "append"]).option("title", input.title.clone());
            return Ok(said(command(desk, &own, words.value(name()?).value(text()?))?));
        }
        ContextAction::Replace => {
            let version = needed(input.version, "version: the one your text was made from")?;
            let words = Words::of(&["context", "replace"]).option("if-version", Some(version));
            return Ok(said(command(desk, &own, words.value(name()?).value(text()?))?));
        }
        ContextAction::Create => {
            let words = Words::of(&["context", "create"]).value(name()?).maybe(input.text.clone());
            return Ok(said(command(desk, &own, words)?));
        }
    };
    let called = command(desk, &own, words)?;
    printed(desk, &own, shown, called, budget)
}

pub(super) fn handoff(desk: &Desk, input: Handoff, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let budget = room(input.max_tokens);
    let message = || number(needed(input.number, "number")?);
    let words = match input.action {
        HandoffAction::Create => {
            let words = Words::of(&["handoff", "create"])
                .option("task", Some(needed(input.task, "task")?))
                .each("completed", input.completed)
                .option("background", input.text)
                .each("artifact", input.files)
                .each("check", input.checks)
                .value(needed(input.to, "to")?);
            return Ok(said(command(desk, &own, words)?));
        }
        HandoffAction::Accept => {
            let message = message()?;
            let checks = input.checks.filter(|checks| !checks.is_empty()).map(|checks| checks.join(","));
            Words::of(&["handoff", "accept"])
                .option("check", checks)
                .option("notes", input.text)
                .option("token", desk.token(&own, message))
                .value(message)
        }
        HandoffAction::Reject => {
            let message = message()?;
            let why = needed(input.text, "text: say why; it")?;
            Words::of(&["handoff", "reject"])
                .option("reason", Some(why))
                .option("token", desk.token(&own, message))
                .value(message)
        }
        HandoffAction::Show => Words::of(&["handoff", "show"]).value(message()?),
        HandoffAction::List => Words::of(&["handoff", "list"]),
    };
    let called = command(desk, &own, words)?;
    printed(desk, &own, "handoff", called, budget)
}
