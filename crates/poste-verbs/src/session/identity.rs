//! The agent that a process of an agent program acts for: its MCP server, its hooks.
//!
//! It belongs to the process, so nothing a model says can change it: it comes from the environment, else from the live
//! session of the program that this process runs below.

use poste_core::log::SessionProcess;
use poste_core::text::{Name, Session};
use poste_core::views;

use crate::{Desk, Result};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    pub agent: Option<Name>,
    pub session: Option<Session>,
}

impl Identity {
    /// The identity of the caller, which runs below these processes.
    pub fn of_process(desk: &Desk<'_>, above: &[SessionProcess]) -> Result<Self> {
        let own = Self { agent: desk.caller.actor.clone(), session: desk.caller.session.clone() };
        if own.agent.is_some() && own.session.is_some() {
            return Ok(own);
        }
        let store = desk.office.store();
        let found = match &own.session {
            Some(id) => views::session_row(store, id)?.map(|row| (row.id, row.agent)),
            None => views::session_of_process(store, above)?,
        };
        // A session of another agent above this process is not this agent's. With `own_name` its name has a number.
        Ok(match found {
            Some((session, agent))
                if own.agent.as_ref().is_none_or(|own| *own == agent || is_numbered(own, &agent)) =>
            {
                Self { agent: Some(agent), session: Some(session) }
            }
            _ => own,
        })
    }
}

/// Whether `own_name` made this name from `base`.
pub fn is_numbered(base: &Name, name: &Name) -> bool {
    let number = name.as_str().strip_prefix(base.as_str()).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}
