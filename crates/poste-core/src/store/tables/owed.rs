//! Rings that are owed: mail that must be rung for and that nobody was shown or rung for since it can be taken.
//!
//! A cache for whoever comes after a lost ring. It says nothing that deliveries, messages and events do not, so no digest
//! covers it.

use rusqlite::params;

use super::{Delivery, Tables};
use crate::address::Address;
use crate::error::Error;
use crate::log::{DeliveryNo, MessageNo};
use crate::text::Name;
use crate::time::Timestamp;

impl Tables<'_> {
    pub(super) fn owe_ring(&mut self, delivery: &Delivery) -> Result<(), Error> {
        self.execute(
            "INSERT OR IGNORE INTO owed_rings (address, delivery) VALUES (?1, ?2)",
            params![delivery.address, delivery.number],
        )
    }

    pub(super) fn settle_ring(&mut self, delivery: &Delivery) -> Result<(), Error> {
        self.execute(
            "DELETE FROM owed_rings WHERE address = ?1 AND delivery = ?2",
            params![delivery.address, delivery.number],
        )
    }

    /// Somebody rang for it.
    pub(super) fn rung(&mut self, number: DeliveryNo) -> Result<(), Error> {
        match self.delivery(number)? {
            Some(delivery) => self.settle_ring(&delivery),
            None => Ok(()),
        }
    }

    /// The oldest message that a ring is owed for at an address, of those that were stored by then and not by this agent.
    pub fn owed_ring(&self, address: &Address, not_from: &Name, by: Timestamp) -> Result<Option<MessageNo>, Error> {
        self.maybe(
            "SELECT m.number FROM owed_rings o JOIN deliveries d ON d.number = o.delivery
                 JOIN messages m ON m.number = d.message
                 WHERE o.address = ?1 AND m.sender <> ?2 AND m.at <= ?3 ORDER BY o.delivery LIMIT 1",
            params![address, not_from, by],
        )
    }
}
