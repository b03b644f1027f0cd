//! Persons: who decides what programs may not.

use poste_core::store::state;
use poste_core::text::Name;
use poste_core::vocabulary::AgentKind;

use crate::{Desk, Error, Result};

/// The code of an error: only a person may do this.
pub const NOT_A_PERSON: &str = "not_a_person";

/// The person who gave this command: registered as human, and here.
pub fn present(desk: &Desk<'_>) -> Result<Name> {
    match desk.caller.proof.is_given() {
        true => registered(desk),
        false => Err(not_here()),
    }
}

/// The person who gave this command and confirmed it.
pub fn confirmed(desk: &Desk<'_>) -> Result<Name> {
    match desk.caller.proof.is_confirmed() {
        true => registered(desk),
        false => Err(not_here()),
    }
}

/// The name of the person who decides about this user's own store. That needs no registration: an office that is not
/// adopted, or in which only agents are registered, has no name for them.
pub fn decider(desk: &Desk<'_>) -> Result<String> {
    if !desk.caller.proof.is_confirmed() {
        return Err(not_here());
    }
    let person = desk.caller.actor.as_ref().map(|_| registered(desk)).transpose().ok().flatten();
    Ok(person.map_or_else(state::user_name, |name| name.to_string()))
}

fn registered(desk: &Desk<'_>) -> Result<Name> {
    let speaker = desk.agent()?;
    if speaker.kind == AgentKind::Human {
        return Ok(speaker.name);
    }
    let message = format!("only a person may do this, and {} is of kind {}", speaker.name, speaker.kind);
    Err(Error::refused(message).code(NOT_A_PERSON).hint("ask a person to decide"))
}

fn not_here() -> Error {
    Error::refused("only a person may do this, and nothing shows that one gave this command")
        .code(NOT_A_PERSON)
        .hint("run it in the foreground of a terminal of your own, not in an agent's")
}
