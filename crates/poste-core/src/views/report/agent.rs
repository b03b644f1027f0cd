//! The work of an agent in a span of time, and its open mail.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::params;
use schemars::JsonSchema;
use serde::Serialize;

use super::day::{TypeCount, is_work_done};
use super::span::Span;
use super::{LIST_MAX, Reading};
use crate::address::Address;
use crate::error::Error;
use crate::log::{DeliveryNo, MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{Agent, Delivery, Event, EventRow, Message, State, Tables};
use crate::text::{Name, TypeName};
use crate::time::{Timestamp, rfc3339, rfc3339_option};
use crate::views::count_up_to;
use crate::views::stats::percentile;
use crate::views::status::Count;
use crate::vocabulary::{AgentKind, TrustLabel};

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AgentReport {
    pub name: String,
    pub kind: AgentKind,
    pub role: Option<String>,
    pub retired: bool,
    #[serde(serialize_with = "rfc3339")]
    pub since: Timestamp,
    #[serde(serialize_with = "rfc3339")]
    pub until: Timestamp,
    /// Messages it sent, in total and by type.
    pub sent: u64,
    pub sent_by_type: Vec<TypeCount>,
    /// Messages addressed to it by name.
    pub received: u64,
    /// Deliveries it was shown for the first time.
    pub shown: u64,
    pub acknowledged: u64,
    /// Claims, including those that `done` makes.
    pub claimed: u64,
    pub done: u64,
    pub failed: u64,
    /// Attempts that failed and may be retried, and leases that expired.
    pub attempts_lost: u64,
    /// Deliveries that it held or that were addressed to it and ran out of attempts.
    pub dead: u64,
    /// Messages it answered, and how long that took from when they were stored.
    pub answered: Taken,
    /// Messages it finished, and how long that took from when they were stored.
    pub finished: Taken,
    /// Mail that waits for it or that it holds now, and the most urgent of it.
    pub open: Count,
    pub open_mail: Vec<OpenMail>,
    /// Its overdue responses; the longest overdue first.
    pub overdue: Vec<OpenMail>,
    /// Why not everything could be read.
    pub damage: Vec<String>,
    pub as_of: Position,
}

/// How long something took, in milliseconds; null if there was nothing to measure.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Taken {
    pub count: u64,
    pub median_ms: Option<i64>,
    pub p95_ms: Option<i64>,
    pub max_ms: Option<i64>,
}

impl Taken {
    fn of(mut all: Vec<i64>) -> Self {
        all.sort_unstable();
        let percentile = |percent| percentile(&all, percent);
        Self { count: all.len() as u64, median_ms: percentile(50), p95_ms: percentile(95), max_ms: all.last().copied() }
    }
}

/// An open delivery.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct OpenMail {
    pub number: MessageNo,
    pub recipient: String,
    pub from: String,
    /// Where it comes from.
    pub trust: TrustLabel,
    #[serde(rename = "type")]
    pub kind: TypeName,
    pub subject: String,
    pub state: State,
    pub holder: Option<String>,
    #[serde(serialize_with = "rfc3339")]
    pub stored_at: Timestamp,
    #[serde(serialize_with = "rfc3339_option")]
    pub respond_by: Option<Timestamp>,
    /// Its response is overdue.
    pub overdue: bool,
}

impl OpenMail {
    pub(super) fn of(
        reading: &mut Reading<'_, '_>,
        message: &Message,
        delivery: &Delivery,
        now: Timestamp,
    ) -> Result<Self, Error> {
        Ok(Self {
            number: message.number,
            recipient: delivery.address.to_string(),
            from: message.sender.to_string(),
            trust: message.label,
            kind: message.kind.clone(),
            subject: reading.subject(message)?,
            state: delivery.state,
            holder: delivery.holder.as_ref().map(Name::to_string),
            stored_at: message.at,
            respond_by: delivery.respond_by,
            overdue: delivery.is_awaited() && delivery.respond_by.is_some_and(|by| by <= now),
        })
    }
}

pub fn agent_report(store: &Store, agent: &Agent, since: Timestamp, now: Timestamp) -> Result<AgentReport, Error> {
    store.view(|tables| {
        let mut reading = Reading::new(store, tables);
        // A span excludes its end, but records of this very moment belong to the report.
        let span = Span::new(&mut reading, since, now.plus_ms(1))?;
        let mut sent_by_type: BTreeMap<TypeName, u64> = BTreeMap::new();
        span.messages(&mut reading, |_, stored| {
            if stored.sender == agent.name {
                *sent_by_type.entry(stored.kind).or_default() += 1;
            }
            Ok(())
        })?;
        let received = span.received(&reading)?.remove(agent.name.as_str()).unwrap_or_default();
        let mut did = Did::default();
        span.steps(
            &mut reading,
            |event| event.agent == agent.name || matches!(event.event, Event::Dead | Event::LeaseExpired),
            |_, message, delivery, event| {
                did.count(agent, message, delivery, event);
                Ok(())
            },
        )?;
        let open_mail = open_mail(&mut reading, agent, now)?;
        let overdue = overdue(&mut reading, agent, now)?;
        Ok(AgentReport {
            name: agent.name.to_string(),
            kind: agent.kind,
            role: agent.role.as_ref().map(ToString::to_string),
            retired: !agent.is_active(),
            since,
            until: now,
            sent: sent_by_type.values().sum(),
            sent_by_type: TypeCount::list(sent_by_type),
            received,
            shown: did.shown.len() as u64,
            acknowledged: did.acknowledged,
            claimed: did.claimed,
            done: did.done,
            failed: did.failed,
            attempts_lost: did.attempts_lost,
            dead: did.dead,
            answered: Taken::of(did.answered),
            finished: Taken::of(did.finished),
            open: open_count(tables, agent)?,
            open_mail,
            overdue,
            damage: reading.damage(),
            as_of: tables.cursor.head.position,
        })
    })
}

/// Counts of what an agent did, from the steps of deliveries.
#[derive(Default)]
struct Did {
    shown: BTreeSet<DeliveryNo>,
    acknowledged: u64,
    claimed: u64,
    done: u64,
    failed: u64,
    attempts_lost: u64,
    dead: u64,
    answered: Vec<i64>,
    finished: Vec<i64>,
}

impl Did {
    fn count(&mut self, agent: &Agent, message: &Message, delivery: &Delivery, event: &EventRow) {
        let is_its_own = delivery.holder.as_ref() == Some(&agent.name)
            || (delivery.holder.is_none() && delivery.address == Address::Agent(agent.name.clone()));
        let is_by_it = event.agent == agent.name;
        let took = event.at.since_ms(message.at);
        match event.event {
            Event::Dead if is_its_own => self.dead += 1,
            Event::LeaseExpired if is_its_own => self.attempts_lost += 1,
            _ if !is_by_it => {}
            Event::Shown => {
                self.shown.insert(delivery.number);
            }
            Event::Acked => self.acknowledged += 1,
            Event::Claimed => self.claimed += 1,
            Event::Done if is_work_done(event.value) => {
                self.done += 1;
                self.finished.push(took);
            }
            Event::Failed => self.failed += 1,
            Event::AttemptFailed => self.attempts_lost += 1,
            Event::Answered => self.answered.push(took),
            _ => {}
        }
    }
}

fn open_count(tables: &Tables<'_>, agent: &Agent) -> Result<Count, Error> {
    let own = Address::Agent(agent.name.clone());
    let waiting = count_up_to(tables, "deliveries WHERE address = ?1 AND state <= 1", [&own])?;
    let of_groups = tables.held_by(&agent.name)?.iter().filter(|held| held.address != own).count() as u64;
    Ok(Count::of((waiting + of_groups).min(crate::views::COUNT_MAX)))
}

/// Mail it holds, then mail that waits for it.
fn open_mail(reading: &mut Reading<'_, '_>, agent: &Agent, now: Timestamp) -> Result<Vec<OpenMail>, Error> {
    let own = Address::Agent(agent.name.clone());
    let mut deliveries = reading.tables.held_by(&agent.name)?;
    let waiting = reading.tables.open_deliveries_to(&own, LIST_MAX)?;
    deliveries.extend(waiting.into_iter().filter(|delivery| delivery.holder.as_ref() != Some(&agent.name)));
    deliveries.truncate(LIST_MAX);
    with_messages(reading, deliveries, now)
}

fn overdue(reading: &mut Reading<'_, '_>, agent: &Agent, now: Timestamp) -> Result<Vec<OpenMail>, Error> {
    let own = Address::Agent(agent.name.clone());
    let numbers: Vec<DeliveryNo> = reading.tables.column(
        "SELECT number FROM deliveries
         WHERE respond_by IS NOT NULL AND answer IS NULL AND state <= 1 AND respond_by <= ?1
           AND (address = ?2 OR holder = ?3)
         ORDER BY respond_by, number LIMIT ?4",
        params![now, own, agent.name, LIST_MAX],
    )?;
    let mut deliveries = Vec::with_capacity(numbers.len());
    for number in numbers {
        deliveries.extend(reading.tables.delivery(number)?);
    }
    with_messages(reading, deliveries, now)
}

fn with_messages(
    reading: &mut Reading<'_, '_>,
    deliveries: Vec<Delivery>,
    now: Timestamp,
) -> Result<Vec<OpenMail>, Error> {
    let mut mail = Vec::with_capacity(deliveries.len());
    for delivery in deliveries {
        let Some(message) = reading.tables.message(delivery.message)? else { continue };
        mail.push(OpenMail::of(reading, &message, &delivery, now)?);
    }
    Ok(mail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_all_took_no_longer_than_the_median() {
        let taken = Taken::of((1..=100).rev().collect());
        assert_eq!((taken.count, taken.median_ms, taken.p95_ms, taken.max_ms), (100, Some(50), Some(95), Some(100)));
        let one = Taken::of(vec![7]);
        assert_eq!((one.median_ms, one.p95_ms, one.max_ms), (Some(7), Some(7), Some(7)));
        assert_eq!(Taken::of(Vec::new()).median_ms, None);
    }
}
