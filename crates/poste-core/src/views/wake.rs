//! Agents that can be woken, attempts to wake them, and why a message is still unseen.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::envelope;
use super::track::said;
use crate::address::Address;
use crate::error::Error;
use crate::log::{Intent, MessageNo, Position, SessionProcess, Wake, WakeOutcome, WakeWay};
use crate::store::Store;
use crate::store::processes::Presence;
use crate::store::tables::{Delivery, Event, EventRow, Message, SessionRow, State, Tables};
use crate::text::{Name, Session};
use crate::time::{Timestamp, rfc3339};
use crate::vocabulary::{AgentKind, TrustLabel, Urgency};

/// One attempt to wake a recipient.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WakeView {
    pub position: Position,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    /// The agent that requested it.
    pub by: Name,
    /// The agent to be woken.
    pub agent: Name,
    pub how: WakeWay,
    pub outcome: WakeOutcome,
    /// Why it failed, or another remark.
    pub reason: Option<String>,
}

/// A delivery that has waited unseen longer than its type allows.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Unseen {
    #[serde(serialize_with = "rfc3339")]
    pub since: Timestamp,
    pub patience_ms: i64,
    pub why: String,
}

/// The attempt that a record is about.
pub(super) fn wake_at(store: &Store, position: Position) -> Result<Option<Wake>, Error> {
    let Some(record) = envelope(store, position)? else { return Ok(None) };
    Ok(match record.sealed.intent() {
        Ok(Some(Intent::Wake(wake))) => Some(wake),
        _ => None,
    })
}

pub(super) fn wakes(store: &Store, events: &[EventRow]) -> Result<Vec<WakeView>, Error> {
    let mut found = Vec::new();
    for event in events.iter().filter(|event| matches!(event.event, Event::WakeRequested | Event::WakeFailed)) {
        let Some(wake) = wake_at(store, event.position)? else { continue };
        found.push(WakeView {
            position: event.position,
            at: event.at,
            by: event.agent.clone(),
            agent: wake.agent,
            how: wake.how,
            outcome: wake.outcome,
            reason: said(store, event.position)?,
        });
    }
    Ok(found)
}

/// Whether a delivery has waited unseen for too long, and why, as far as known.
pub(super) fn unseen(
    (store, tables): (&Store, &Tables<'_>),
    message: &Message,
    delivery: &Delivery,
    since: Timestamp,
    wakes: &[WakeView],
    now: Timestamp,
) -> Result<Option<Unseen>, Error> {
    if delivery.state != State::Pending || !delivery.ready || delivery.shown_at.is_some() {
        return Ok(None);
    }
    let own = tables.own_type(&message.kind)?.and_then(|own| own.patience_ms);
    let Some(patience_ms) = own.or(message.urgency.patience_ms()) else { return Ok(None) };
    if now < since.plus_ms(patience_ms) {
        return Ok(None);
    }
    Ok(Some(Unseen { since, patience_ms, why: why(store, tables, message, &delivery.address, wakes)? }))
}

fn why(
    store: &Store,
    tables: &Tables<'_>,
    message: &Message,
    address: &Address,
    wakes: &[WakeView],
) -> Result<String, Error> {
    let members = members(tables, address, &message.sender)?;
    let mut live = Vec::new();
    for member in &members {
        live.extend(tables.live_session(member)?);
    }
    if live.is_empty() {
        return no_session(tables, address, &members);
    }
    let (mut gone, mut running): (Vec<&SessionRow>, Vec<&SessionRow>) = (Vec::new(), Vec::new());
    for session in &live {
        match store.presence(&session.machine, session.process.as_ref())? {
            Presence::Gone => gone.push(session),
            Presence::Running | Presence::Unknown => running.push(session),
        }
    }
    let Some(session) = running.first() else {
        let ids: Vec<&str> = gone.iter().map(|session| session.id.as_str()).collect();
        return Ok(format!("the process of session {} has ended", ids.join(", ")));
    };
    let who = if running.len() == 1 { session.agent.to_string() } else { format!("{} live members", running.len()) };
    if matches!(message.urgency, Urgency::Session | Urgency::Later) {
        return Ok(format!("urgency {} does not ring; {who} has not looked", message.urgency));
    }
    Ok(match wakes.last() {
        Some(WakeView { outcome: WakeOutcome::Failed, how, reason, .. }) => {
            let reason = reason.as_deref().unwrap_or("no reason was given");
            format!("the last attempt to wake {who} failed ({how}): {reason}")
        }
        Some(wake) => format!("{} was asked to wake ({}) and has not looked since", wake.agent, wake.how),
        None if message.urgency == Urgency::Turn => {
            format!("urgency turn does not ring; {who} has made no tool call that shows mail, or has no hooks")
        }
        None => format!("no attempt was made to wake {who}"),
    })
}

fn no_session(tables: &Tables<'_>, address: &Address, members: &[Name]) -> Result<String, Error> {
    if address.is_group() {
        return Ok(match members.len() {
            0 => format!("{address} has no active members"),
            count => format!("none of the {count} members of {address} has a live session"),
        });
    }
    let human = match members.first() {
        Some(name) => tables.agent(name.as_str())?.is_some_and(|agent| agent.kind == AgentKind::Human),
        None => false,
    };
    Ok(match human {
        true => format!("{address} is a person, who is never rung, and has no live session"),
        false => format!("{address} has no live session"),
    })
}

/// The agents that may take mail to an address. The sender of mail to a group may not.
fn members(tables: &Tables<'_>, address: &Address, sender: &Name) -> Result<Vec<Name>, Error> {
    let mut members = tables.members(address)?;
    members.retain(|member| !address.is_group() || member != sender);
    Ok(members)
}

/// An agent to be woken, with the session it runs as.
#[derive(Debug, Clone)]
pub struct Sleeper {
    pub agent: Name,
    pub session: Option<LiveSession>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveSession {
    pub id: Session,
    pub process: Option<SessionProcess>,
    pub presence: Presence,
    pub program: String,
    pub host: String,
    /// It was started on another machine, which must ring it.
    pub elsewhere: bool,
}

impl LiveSession {
    fn new(store: &Store, row: SessionRow) -> Result<Self, Error> {
        let presence = store.presence(&row.machine, row.process.as_ref())?;
        let elsewhere = row.machine != *store.machine()?;
        Ok(Self { id: row.id, process: row.process, presence, program: row.program, host: row.host, elsewhere })
    }
}

/// Mail that waits for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingMail {
    pub number: MessageNo,
    pub urgency: Urgency,
    /// It was shown to this agent, in any session.
    pub shown: bool,
}

/// What decides whether a message may wake an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailSource {
    /// How many runs in a row it came out of.
    pub hops: u32,
    pub is_from_person: bool,
}

/// `None`: there is no such message, or it is archived.
pub fn mail_source(store: &Store, number: MessageNo) -> Result<Option<MailSource>, Error> {
    let tables = store.tables()?;
    let Some(message) = tables.message(number)? else { return Ok(None) };
    // By the label: a name that nothing proves wakes no more often than any other.
    let is_from_person = message.label == TrustLabel::Human && message.notice.is_none();
    Ok(Some(MailSource { hops: message.hops, is_from_person }))
}

/// Whether an attempt to wake for it was recorded.
pub fn has_wakes(store: &Store, number: MessageNo) -> Result<bool, Error> {
    let tables = store.tables()?;
    for delivery in tables.deliveries_of(number)? {
        if tables.wakes_of(&delivery)? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The session an agent could be woken in.
pub fn sleeper(store: &Store, agent: &Name) -> Result<Sleeper, Error> {
    let session = store.tables()?.live_session(agent)?.map(|row| LiveSession::new(store, row)).transpose()?;
    Ok(Sleeper { agent: agent.clone(), session })
}

/// The agents to wake for a message: recipients by name, and the members of a group that have a live session. `None`:
/// there is no such message, or it is archived.
pub fn sleepers(store: &Store, number: MessageNo) -> Result<Option<Vec<Sleeper>>, Error> {
    store.read(|conn| {
        let tables = Tables::load(conn)?;
        let Some(message) = tables.message(number)? else { return Ok(None) };
        let mut names = BTreeSet::new();
        let mut sleepers = Vec::new();
        for delivery in tables.deliveries_of(number)? {
            if !waits(&delivery) {
                continue;
            }
            for member in members(&tables, &delivery.address, &message.sender)? {
                let session = tables.live_session(&member)?.map(|row| LiveSession::new(store, row)).transpose()?;
                if (session.is_some() || !delivery.address.is_group()) && names.insert(member.clone()) {
                    sleepers.push(Sleeper { agent: member, session });
                }
            }
        }
        Ok(Some(sleepers))
    })
}

fn waits(delivery: &Delivery) -> bool {
    delivery.state == State::Pending && delivery.ready
}

/// Unclaimed mail for an agent, the most urgent first; at most `limit`.
pub fn waiting_mail(store: &Store, name: &Name, limit: usize) -> Result<Vec<WaitingMail>, Error> {
    store.read(|conn| {
        let tables = Tables::load(conn)?;
        let Some(agent) = tables.agent(name.as_str())?.filter(|agent| agent.is_active()) else { return Ok(Vec::new()) };
        let mut found: Vec<WaitingMail> = Vec::new();
        for address in agent.addresses() {
            for delivery in tables.claimable(&address, &[], u32::try_from(limit).unwrap_or(u32::MAX), &agent.name)? {
                let Some(message) = tables.message(delivery.message)? else { continue };
                let shown = tables.was_shown_to(delivery.number, &agent.name)?;
                // Mail that came by name and by group is one message.
                if found.iter().all(|known| known.number != message.number) {
                    found.push(WaitingMail { number: message.number, urgency: message.urgency, shown });
                }
            }
        }
        found.sort_by_key(|mail| (mail.urgency, mail.number));
        found.truncate(limit);
        Ok(found)
    })
}

/// The agents to ring for mail at an address: its readers with a live session on this machine. If there are no live
/// sessions, this takes one index lookup.
pub fn to_ring(store: &Store, number: MessageNo, address: &Address) -> Result<Vec<Sleeper>, Error> {
    let tables = store.tables()?;
    if !tables.has_live_session()? {
        return Ok(Vec::new());
    }
    let Some(message) = tables.message(number)? else { return Ok(Vec::new()) };
    let machine = store.machine()?;
    let mut sleepers = Vec::new();
    for member in members(&tables, address, &message.sender)? {
        if let Some(row) = tables.live_session(&member)?.filter(|row| row.machine == *machine) {
            sleepers.push(Sleeper { agent: member, session: Some(LiveSession::new(store, row)?) });
        }
    }
    Ok(sleepers)
}

/// The messages an agent is owed a ring for, by number: they ring, can be claimed, and since then were neither shown to
/// the agent nor rung for.
pub fn owed_mail(store: &Store, name: &Name) -> Result<BTreeSet<MessageNo>, Error> {
    store.read(|conn| {
        let tables = Tables::load(conn)?;
        let mut owed = BTreeSet::new();
        if let Some(agent) = tables.agent(name.as_str())?.filter(|agent| agent.is_active()) {
            for address in agent.addresses() {
                owed.extend(tables.owed_at(&address, &agent.name)?);
            }
        }
        Ok(owed)
    })
}

/// Whether a waiter of this session must still report a message: it was not shown to the session, and does not wait for
/// the next session.
pub fn is_news_to(store: &Store, number: MessageNo, agent: &Name, session: &Session) -> Result<bool, Error> {
    let tables = store.tables()?;
    let Some(message) = tables.message(number)?.filter(|message| Urgency::SOON.contains(&message.urgency)) else {
        return Ok(false);
    };
    for delivery in tables.deliveries_of(message.number)? {
        if tables.was_shown(delivery.number, agent, session.as_str())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Agents with a live session on this machine that are owed a ring for mail stored by a time, each with its oldest such
/// message. Takes one lookup in the index of owed rings per address of each of these agents, regardless of the amount
/// of mail.
pub fn owed_rings(store: &Store, by: Timestamp) -> Result<Vec<(Sleeper, MessageNo)>, Error> {
    store.read(|conn| {
        let tables = Tables::load(conn)?;
        let machine = store.machine()?;
        let mut owed = Vec::new();
        for session in tables.live_sessions()?.into_iter().filter(|session| session.machine == *machine) {
            let Some(agent) = tables.agent(session.agent.as_str())?.filter(|agent| agent.is_active()) else { continue };
            for address in agent.addresses() {
                if let Some(message) = tables.oldest_owed(&address, &agent.name, by)? {
                    let session = Some(LiveSession::new(store, session)?);
                    owed.push((Sleeper { agent: agent.name, session }, message));
                    break;
                }
            }
        }
        Ok(owed)
    })
}
