//! Agents, topics and message types.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::{COUNT_MAX, count_up_to};
use crate::address::Address;
use crate::error::Error;
use crate::log::MessageNo;
use crate::store::Store;
use crate::store::tables::{Agent, Tables};
use crate::text::{Name, Topic, TypeName, nearest};
use crate::time::{Timestamp, rfc3339_option};
use crate::vocabulary::{self, Priority, Urgency};

/// An agent and the amount of its mail.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RosterEntry {
    #[serde(flatten)]
    pub agent: Agent,
    pub active: bool,
    /// Pending deliveries to its name; counting stops at a thousand.
    pub pending: u64,
    pub pending_at_least: bool,
    /// Deliveries it holds.
    pub claimed: u64,
}

pub fn roster(store: &Store) -> Result<Vec<RosterEntry>, Error> {
    store.view(|tables| tables.agents()?.into_iter().map(|agent| entry(tables, agent)).collect())
}

/// Agents that can get mail.
pub fn active_agents(store: &Store) -> Result<Vec<Agent>, Error> {
    let mut agents = store.tables()?.agents()?;
    agents.retain(Agent::is_active);
    Ok(agents)
}

/// People who can get mail.
pub fn active_humans(store: &Store) -> Result<Vec<Name>, Error> {
    store.tables()?.active_humans()
}

/// Active agents with the role or the capability of an address; none for other addresses.
pub fn members(store: &Store, address: &Address) -> Result<Vec<Name>, Error> {
    let tables = store.tables()?;
    match address {
        Address::Role(role) | Address::EveryRole(role) => tables.active_with_role(role),
        Address::Can(word) | Address::EveryCan(word) => tables.active_with_capability(word),
        _ => Ok(Vec::new()),
    }
}

/// The one active agent that is registered with a worktree; `None` if there are several.
pub fn agent_of_worktree(store: &Store, top: &Path) -> Result<Option<Name>, Error> {
    let is_here = |agent: &Agent| agent.worktree.as_deref().map(Path::new) == Some(top);
    let mut here = active_agents(store)?.into_iter().filter(is_here);
    let first = here.next().map(|agent| agent.name);
    Ok(first.filter(|_| here.next().is_none()))
}

pub fn agent(store: &Store, name: &Name) -> Result<Option<RosterEntry>, Error> {
    store.view(|tables| tables.agent(name.as_str())?.map(|agent| entry(tables, agent)).transpose())
}

fn entry(tables: &Tables<'_>, agent: Agent) -> Result<RosterEntry, Error> {
    let pending = count_up_to(tables, "deliveries WHERE address = ?1 AND state = 0", [&agent.name])?;
    let claimed = count_up_to(tables, "deliveries WHERE holder = ?1 AND state = 1", [&agent.name])?;
    Ok(RosterEntry { active: agent.is_active(), agent, pending, pending_at_least: pending >= COUNT_MAX, claimed })
}

/// Registered names similar to what was typed.
pub fn nearest_agents(store: &Store, typed: &str) -> Result<Vec<String>, Error> {
    let names = store.view(|tables| tables.active_agents())?;
    Ok(nearest(typed, names.iter().map(Name::as_str)))
}

/// Whether publications of a topic reach an agent.
pub fn hears(store: &Store, agent: &Name, topic: &Topic) -> Result<bool, Error> {
    Ok(store.tables()?.subscribers(topic)?.contains(agent))
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TopicView {
    pub name: String,
    pub published: u64,
    pub last_message: Option<MessageNo>,
    #[serde(serialize_with = "rfc3339_option")]
    pub last_at: Option<Timestamp>,
    pub subscribers: Vec<Name>,
}

/// Every topic that was published or subscribed to; `*` lists the subscribers of all topics.
pub fn topics(store: &Store) -> Result<Vec<TopicView>, Error> {
    store.view(|tables| {
        let found = tables.all(
            "SELECT name, published, last_message, last_at FROM topics
             UNION ALL
             SELECT DISTINCT topic, 0, NULL, NULL FROM subscriptions
             WHERE topic NOT IN (SELECT name FROM topics)
             ORDER BY 1",
            [],
        )?;
        let view = |(name, published, last_message, last_at): (String, _, _, _)| {
            let subscribers =
                tables.column("SELECT agent FROM subscriptions WHERE topic = ?1 ORDER BY agent", [&name])?;
            Ok(TopicView { name, published, last_message, last_at, subscribers })
        };
        found.into_iter().map(view).collect()
    })
}

/// A message type as this office uses it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TypeView {
    pub name: TypeName,
    pub priority: Priority,
    pub urgency: Urgency,
    pub asks_work: bool,
    pub wants_response: bool,
    pub max_attempts: u32,
    /// How long it may wait unseen before `track` says why, in milliseconds; null: no limit.
    pub patience_ms: Option<i64>,
    /// Set or changed by this office's poste.toml.
    pub own: bool,
    pub meaning: String,
}

/// The vocabulary: the built-in types in their order, then the office's own.
pub fn types(store: &Store) -> Result<Vec<TypeView>, Error> {
    store.view(|tables| {
        let own = tables.own_types()?;
        let built_in: Vec<TypeName> = vocabulary::BUILT_IN.iter().filter_map(|word| word.name.parse().ok()).collect();
        let added = own.iter().filter(|name| vocabulary::built_in(name.as_str()).is_none());
        built_in
            .iter()
            .chain(added)
            .filter_map(|name| {
                let defaults = tables.type_defaults(name).transpose()?;
                Some(defaults.map(|defaults| {
                    TypeView {
                        name: name.clone(),
                        priority: defaults.priority,
                        urgency: defaults.urgency,
                        asks_work: defaults.work,
                        wants_response: defaults.response,
                        max_attempts: defaults.max_attempts,
                        patience_ms: defaults.patience_ms,
                        own: own.contains(name),
                        meaning: vocabulary::built_in(name.as_str())
                            .map_or("a type of this office", |word| word.meaning)
                            .to_owned(),
                    }
                }))
            })
            .collect()
    })
}
