//! Registered agents, and their roles and capabilities.

use rusqlite::params;
use schemars::JsonSchema;
use serde::Serialize;

use super::rows::Selected;
use super::{Concern, Tables};
use crate::address::Address;
use crate::error::Error;
use crate::fold::Action;
use crate::text::{Name, Word};
use crate::time::{Timestamp, rfc3339, rfc3339_option};
use crate::vocabulary::AgentKind;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Agent {
    pub name: Name,
    pub kind: AgentKind,
    pub role: Option<Word>,
    pub capabilities: Vec<Word>,
    pub worktree: Option<String>,
    /// The agent that is notified when this one does not answer in time.
    pub lead: Option<Name>,
    #[serde(serialize_with = "rfc3339")]
    pub registered_at: Timestamp,
    #[serde(serialize_with = "rfc3339_option")]
    pub retired_at: Option<Timestamp>,
}

impl Agent {
    pub fn is_active(&self) -> bool {
        self.retired_at.is_none()
    }

    /// Registered as a person. Whether a person gave a command in this name, the record's proof says.
    pub fn is_person(&self) -> bool {
        self.kind == AgentKind::Human
    }

    /// Every address whose mail this agent may claim, its own name first.
    pub fn addresses(&self) -> Vec<Address> {
        let mut addresses = vec![Address::Agent(self.name.clone())];
        if !self.is_active() {
            return addresses;
        }
        addresses.extend(self.role.clone().map(Address::Role));
        addresses.extend(self.capabilities.iter().cloned().map(Address::Can));
        addresses
    }
}

impl Selected for Agent {
    const SELECT: &'static str = "SELECT name, kind, role, worktree, registered_at, retired_at, lead FROM agents";
}

impl Tables<'_> {
    pub fn agent(&self, name: &str) -> Result<Option<Agent>, Error> {
        if let Some(known) = self.cache.borrow().agents.get(name) {
            return Ok(known.clone());
        }
        let found = self.read_agent(name)?;
        let agents = &mut self.cache.borrow_mut().agents;
        if agents.len() < super::CACHED_AGENTS_MAX {
            agents.insert(name.to_owned(), found.clone());
        }
        Ok(found)
    }

    /// Whether a name is active; `None` if it is not registered.
    pub fn is_active(&self, name: &str) -> Result<Option<bool>, Error> {
        if let Some(known) = self.cache.borrow().agents.get(name) {
            return Ok(known.as_ref().map(Agent::is_active));
        }
        Ok(self.agent(name)?.map(|agent| agent.is_active()))
    }

    fn read_agent(&self, name: &str) -> Result<Option<Agent>, Error> {
        let found = self.one(select!(Agent, "WHERE name = ?1"), [name])?;
        found.map(|agent| self.with_capabilities(agent)).transpose()
    }

    pub fn agents(&self) -> Result<Vec<Agent>, Error> {
        let rows: Vec<Agent> = self.all(select!(Agent, "ORDER BY name"), [])?;
        rows.into_iter().map(|agent| self.with_capabilities(agent)).collect()
    }

    fn with_capabilities(&self, mut agent: Agent) -> Result<Agent, Error> {
        agent.capabilities =
            self.column("SELECT word FROM capabilities WHERE agent = ?1 ORDER BY word", [&agent.name])?;
        Ok(agent)
    }

    /// Names of active agents, in order.
    pub fn active_agents(&self) -> Result<Vec<Name>, Error> {
        self.names("SELECT name FROM agents WHERE retired_at IS NULL ORDER BY name", [])
    }

    /// The active agents that get mail for everyone: neither services nor senders from outside.
    pub fn active_readers(&self) -> Result<Vec<Name>, Error> {
        self.names("SELECT name FROM agents WHERE retired_at IS NULL AND kind < 2 ORDER BY name", [])
    }

    pub fn active_humans(&self) -> Result<Vec<Name>, Error> {
        self.names("SELECT name FROM agents WHERE retired_at IS NULL AND kind = 1 ORDER BY name", [])
    }

    pub fn active_with_role(&self, role: &Word) -> Result<Vec<Name>, Error> {
        self.names("SELECT name FROM agents WHERE role = ?1 AND retired_at IS NULL ORDER BY name", [role])
    }

    pub fn active_with_capability(&self, word: &Word) -> Result<Vec<Name>, Error> {
        self.names(
            "SELECT name FROM capabilities JOIN agents ON name = agent
             WHERE word = ?1 AND retired_at IS NULL ORDER BY name",
            [word],
        )
    }

    /// The active agents an address stands for.
    pub fn members(&self, address: &Address) -> Result<Vec<Name>, Error> {
        match address {
            Address::Agent(name) => Ok(vec![name.clone()]),
            Address::Role(role) => self.active_with_role(role),
            Address::Can(word) => self.active_with_capability(word),
            _ => Ok(Vec::new()),
        }
    }

    pub(super) fn names(&self, sql: &str, params: impl rusqlite::Params) -> Result<Vec<Name>, Error> {
        self.column(sql, params)
    }

    pub fn put_agent(&mut self, agent: &Agent) -> Result<(), Error> {
        self.cache.get_mut().agents.remove(agent.name.as_str());
        self.execute(
            "INSERT INTO agents (name, kind, role, worktree, registered_at, retired_at, lead)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT (name) DO UPDATE SET
                   kind = ?2, role = ?3, worktree = ?4, registered_at = ?5, retired_at = ?6, lead = ?7",
            params![
                agent.name,
                agent.kind,
                agent.role,
                agent.worktree,
                agent.registered_at,
                agent.retired_at,
                agent.lead
            ],
        )?;
        self.execute("DELETE FROM capabilities WHERE agent = ?1", [&agent.name])?;
        for word in &agent.capabilities {
            self.execute("INSERT INTO capabilities (agent, word) VALUES (?1, ?2)", params![agent.name, word])?;
        }
        self.concern(|| Concern::Agent(agent.name.clone()));
        if agent.is_active() {
            self.act(|| Action::AdvanceAll);
        }
        Ok(())
    }
}

/// Reads an agent without its capabilities, which are in a table of their own.
impl TryFrom<&rusqlite::Row<'_>> for Agent {
    type Error = rusqlite::Error;

    fn try_from(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            name: row.get(0)?,
            kind: row.get(1)?,
            role: row.get(2)?,
            capabilities: Vec::new(),
            worktree: row.get(3)?,
            registered_at: row.get(4)?,
            retired_at: row.get(5)?,
            lead: row.get(6)?,
        })
    }
}
