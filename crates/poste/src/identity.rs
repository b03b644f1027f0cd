//! Who a process speaks for that an agent program started: its server of tools, its hooks.
//!
//! It belongs to the process, so that nothing a model says can change it: what the environment says, else the live session of
//! the program this process runs below.

use poste_core::office::Office;
use poste_core::store::processes;
use poste_core::text::{Name, Session};
use poste_core::views;

use crate::Result;
use crate::context::Cx;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub agent: Option<Name>,
    pub session: Option<Session>,
}

pub(crate) fn of_process(cx: &Cx, office: &Office) -> Result<Identity> {
    let mut own = Identity { agent: cx.optional_speaker(), session: cx.session() };
    if own.agent.is_some() && own.session.is_some() {
        return Ok(own);
    }
    let found = match &own.session {
        Some(id) => views::session(office.store(), id)?.map(|session| (session.id, session.agent)),
        None => views::session_of_process(office.store(), &processes::above())?,
    };
    // A session of somebody else above this process is not this agent's; one beside another of its name has a number.
    if let Some((session, agent)) = found
        && own.agent.as_ref().is_none_or(|own| *own == agent || is_numbered(own, &agent))
    {
        own = Identity { agent: Some(agent), session: Some(session) };
    }
    Ok(own)
}

/// Whether a name was made of another with `--own-name`.
pub(crate) fn is_numbered(base: &Name, name: &Name) -> bool {
    let number = name.as_str().strip_prefix(base.as_str()).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}
