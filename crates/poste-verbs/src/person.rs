//! Verbs that are reserved for people. A surface brings the proof with its caller; a verb only asks for it.

use poste_core::text::Name;

use crate::{Desk, Error, Result};

const CODE: &str = "not_a_person";

/// The person who gave this command: the caller is registered as human, and something proves that they gave it.
pub fn present(desk: &Desk<'_>) -> Result<Name> {
    let speaker = desk.agent()?;
    if !speaker.is_person() {
        let message = format!("only a person can do this, and {} is of kind {}", speaker.name, speaker.kind);
        return Err(Error::refused(message).code(CODE).hint("ask a person to do it"));
    }
    if !desk.caller.proof.is_given() {
        return Err(unproven(format!("nothing proves that {} gave this command", speaker.name)));
    }
    Ok(speaker.name)
}

/// Like [`present`], and the person confirmed exactly this command.
pub fn confirmed(desk: &Desk<'_>) -> Result<Name> {
    let name = present(desk)?;
    if !desk.caller.proof.is_confirmed() {
        return Err(unproven(format!("{name} has not confirmed this command")));
    }
    Ok(name)
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
