//! Owed rings: mail that must be rung for, whose readers were neither shown it nor rung for it since it can be claimed.
//!
//! A row is for all readers of an address. Once one member of a group was notified of the mail, each other member has a
//! row at its own name. This is a cache for finding lost rings: every refold produces the same rows, and no digest
//! covers them.

use rusqlite::params;

use super::{Delivery, Event, IN_ORDER, Tables};
use crate::address::Address;
use crate::error::Error;
use crate::limits;
use crate::log::{DeliveryNo, MessageNo};
use crate::text::Name;
use crate::time::Timestamp;

/// What an agent (?2) is owed a ring for at an address (?1). Excludes steps that an earlier one holds up, and mail that
/// it sent to a group. Mail to itself, from a workflow that it started, rings.
fn owed(and: &str) -> String {
    format!(
        "SELECT m.number FROM owed_rings o JOIN deliveries ON deliveries.number = o.delivery
             JOIN messages m ON m.number = deliveries.message
             WHERE o.address = ?1 AND (m.sender <> ?2 OR deliveries.address = ?2) AND {IN_ORDER} {and}"
    )
}

impl Tables<'_> {
    /// All readers of the address are owed a ring, even if they were notified before.
    pub(super) fn owe_ring(&mut self, delivery: &Delivery) -> Result<(), Error> {
        self.settle_rings(delivery.number)?;
        self.owe_ring_at(&delivery.address, delivery.number)
    }

    fn owe_ring_at(&mut self, address: &Address, delivery: DeliveryNo) -> Result<(), Error> {
        self.execute("INSERT OR IGNORE INTO owed_rings (address, delivery) VALUES (?1, ?2)", params![address, delivery])
    }

    /// No ring is owed for it any more.
    pub(super) fn settle_rings(&mut self, delivery: DeliveryNo) -> Result<(), Error> {
        self.execute("DELETE FROM owed_rings WHERE delivery = ?1", [delivery])
    }

    /// An agent was shown a delivery, or rung for it. Other members of a group are still owed a ring.
    pub(crate) fn settle_ring(&mut self, delivery: DeliveryNo, agent: &Name) -> Result<(), Error> {
        let own = Address::Agent(agent.clone());
        let owed: Vec<Address> =
            self.column("SELECT address FROM owed_rings WHERE delivery = ?1 ORDER BY address", [delivery])?;
        for address in owed.into_iter().filter(|address| *address == own || address.is_group()) {
            self.execute("DELETE FROM owed_rings WHERE address = ?1 AND delivery = ?2", params![address, delivery])?;
            for member in self.members(&address)?.into_iter().filter(|member| member != agent) {
                self.owe_ring_at(&Address::Agent(member), delivery)?;
            }
        }
        Ok(())
    }

    /// The messages that an agent is owed a ring for at an address, the oldest delivery first.
    pub fn owed_at(&self, address: &Address, agent: &Name) -> Result<Vec<MessageNo>, Error> {
        self.column(&owed("ORDER BY o.delivery"), params![address, agent])
    }

    /// The oldest of them that was stored by then. Skips a delivery whose attempts are used up: another ring could not
    /// be recorded, so it would stay owed forever.
    pub fn oldest_owed(&self, address: &Address, agent: &Name, by: Timestamp) -> Result<Option<MessageNo>, Error> {
        let sql = owed(
            "AND m.at <= ?3
             AND (SELECT count(*) FROM events e WHERE e.message = m.number AND e.delivery = o.delivery
                  AND e.event IN (?4, ?5)) < ?6
             ORDER BY o.delivery LIMIT 1",
        );
        let (requested, failed) = (Event::WakeRequested, Event::WakeFailed);
        self.maybe(&sql, params![address, agent, by, requested, failed, limits::WAKES_MAX])
    }
}
