//! Tools of the full profile: frequent commands that need no words of their own.

use poste_connect::mcp::Call;

use super::answers::{command, needed, number, printed, room, said};
use super::command_line::poste;
use super::inputs::{
    Agree, Approvals, Ask, Decide, Nothing, Number, Poste, Reserve, ReserveAction, Search, SessionAction, SessionTool,
};
use super::words::Words;
use crate::Result;
use crate::mcp::desk::Desk;
use crate::mcp::render::Reply;

/// A command whose output has words of others in it.
fn look(desk: &Desk, shown: &str, words: Words, max_tokens: Option<i64>) -> Result<Reply> {
    let own = desk.identity()?;
    let called = command(desk, &own, words)?;
    printed(desk, &own, shown, called, room(max_tokens))
}

pub(super) fn track(desk: &Desk, input: Number, _: &Call) -> Result<Reply> {
    look(desk, "track", Words::of(&["track"]).value(number(input.number)?), input.max_tokens)
}

pub(super) fn thread(desk: &Desk, input: Number, _: &Call) -> Result<Reply> {
    look(desk, "thread", Words::of(&["thread"]).value(number(input.number)?), input.max_tokens)
}

pub(super) fn search(desk: &Desk, input: Search, _: &Call) -> Result<Reply> {
    let words = Words::of(&["search"]).option("from", input.from).option("type", input.r#type).value(input.words);
    look(desk, "search", words, input.max_tokens)
}

pub(super) fn list_agents(desk: &Desk, _: Nothing, _: &Call) -> Result<Reply> {
    look(desk, "agents", Words::of(&["agents"]), None)
}

pub(super) fn status(desk: &Desk, _: Nothing, _: &Call) -> Result<Reply> {
    look(desk, "status", Words::of(&["status"]), None)
}

pub(super) fn acknowledge(desk: &Desk, input: Number, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    Ok(said(command(desk, &own, Words::of(&["ack"]).value(number(input.number)?))?))
}

pub(super) fn ask(desk: &Desk, input: Ask, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let words = Words::of(&["ask"])
        .each("choice", input.choices)
        .option("by", input.deadline)
        .option("default", input.default)
        .value(input.to)
        .value(input.question)
        .maybe(input.body);
    Ok(said(command(desk, &own, words)?))
}

pub(super) fn approvals(desk: &Desk, input: Approvals, _: &Call) -> Result<Reply> {
    let words = Words::of(&["approvals"]).maybe(input.number.map(number).transpose()?);
    look(desk, "approvals", words, input.max_tokens)
}

pub(super) fn decide(desk: &Desk, input: Decide, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let words = match input.choice.as_str() {
        "approve" => Words::of(&["approve"]).option("note", input.reason),
        "deny" => Words::of(&["deny"]).option("reason", input.reason),
        choice => Words::of(&["approve"]).option("choice", Some(choice)).option("note", input.reason),
    };
    Ok(said(command(desk, &own, words.value(number(input.number)?))?))
}

pub(super) fn reserve(desk: &Desk, input: Reserve, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let patterns = || needed(input.patterns.clone().filter(|patterns| !patterns.is_empty()), "patterns");
    let words = match input.action {
        ReserveAction::Reserve => Words::of(&["reserve"]).option("why", input.reason.clone()),
        ReserveAction::Release => Words::of(&["release"]),
        ReserveAction::List => return look(desk, "reservations", Words::of(&["reservations"]), input.max_tokens),
    };
    let words = patterns()?.into_iter().fold(words, Words::value);
    Ok(said(command(desk, &own, words)?))
}

pub(super) fn agree(desk: &Desk, input: Agree, call: &Call) -> Result<Reply> {
    let args = std::iter::once("agree".to_owned()).chain(input.args).collect();
    poste(desk, Poste { args, max_tokens: input.max_tokens }, call)
}

pub(super) fn session(desk: &Desk, input: SessionTool, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let words = match input.action {
        SessionAction::Show => return look(desk, "session show", Words::of(&["session", "show"]), input.max_tokens),
        SessionAction::Note => Words::of(&["session", "note"]).value(needed(input.text, "text")?),
        SessionAction::Close => Words::of(&["session", "close"]).option("summary", input.text),
    };
    Ok(said(command(desk, &own, words)?))
}
