//! Verbs that are reserved for people. A surface brings the proof with its caller; a verb only asks for it.

use poste_core::store::state;
use poste_core::text::Name;

use crate::{Desk, Error, Result};

const CODE: &str = "not_a_person";

/// The person who gave this command: the caller is registered as human, and something proves that they gave it.
pub fn present(desk: &Desk<'_>) -> Result<Name> {
    let name = registered(desk)?;
    match desk.caller.proof.is_given() {
        true => Ok(name),
        false => Err(unproven(format!("nothing proves that {name} gave this command"))),
    }
}

/// Like [`present`], and the person confirmed exactly this command.
pub fn confirmed(desk: &Desk<'_>) -> Result<Name> {
    let name = present(desk)?;
    match desk.caller.proof.is_confirmed() {
        true => Ok(name),
        false => Err(unproven(format!("{name} has not confirmed this command"))),
    }
}

/// The name of the person who decides about this user's own store. That needs no registration: an office that is not
/// adopted, or in which only agents are registered, has no name for them.
pub fn decider(desk: &Desk<'_>) -> Result<String> {
    if !desk.caller.proof.is_confirmed() {
        return Err(unproven("only a person can decide this, and nothing proves that one gave this command"));
    }
    let person = desk.caller.actor.as_ref().map(|_| registered(desk)).transpose().ok().flatten();
    Ok(person.map_or_else(state::user_name, |name| name.to_string()))
}

fn registered(desk: &Desk<'_>) -> Result<Name> {
    let speaker = desk.agent()?;
    if speaker.is_person() {
        return Ok(speaker.name);
    }
    let message = format!("only a person can do this, and {} is of kind {}", speaker.name, speaker.kind);
    Err(Error::refused(message).code(CODE).hint("ask a person to do it"))
}

/// The error for a command that only a person can give, with what a person does about it.
pub fn unproven(message: impl Into<String>) -> Error {
    with_hints(Error::refused(message).code(CODE))
}

pub(crate) fn with_hints(error: Error) -> Error {
    error
        .hint("a person runs it in a terminal in which no agent runs")
        .hint(note!("or, where there is no terminal, with a token: " @Token "; make one: " [token person]))
}
