//! What listings show about a message's deliveries, without reading all of them.

use rusqlite::params;

use super::{Event, State, Tables};
use crate::address::Address;
use crate::error::Error;
use crate::log::{MessageNo, Position};

impl Tables<'_> {
    /// The notices about a message that a record caused.
    pub fn notices_at(&self, about: MessageNo, position: Position) -> Result<Vec<MessageNo>, Error> {
        self.column(
            "SELECT number FROM messages
                 WHERE reply_to = ?1 AND position = ?2 AND notice IS NOT NULL ORDER BY number",
            params![about, position],
        )
    }

    /// The first recipients of a message, by address.
    pub fn addresses_of(&self, message: MessageNo, limit: usize) -> Result<Vec<Address>, Error> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.column(
            "SELECT address FROM deliveries WHERE message = ?1 ORDER BY address LIMIT ?2",
            params![message, limit],
        )
    }

    /// How many deliveries of a message are in each state.
    pub fn states_of(&self, message: MessageNo) -> Result<Vec<(State, u64)>, Error> {
        self.all("SELECT state, count(*) FROM deliveries WHERE message = ?1 GROUP BY state ORDER BY state", [message])
    }

    pub fn has_state(&self, message: MessageNo, state: State) -> Result<bool, Error> {
        self.value(
            "SELECT EXISTS (SELECT 1 FROM deliveries WHERE message = ?1 AND state = ?2)",
            params![message, state],
        )
    }

    /// The messages that a record delivered to an agent that subscribed after they were published.
    pub fn delivered_at(&self, position: Position) -> Result<Vec<MessageNo>, Error> {
        self.column(
            "SELECT DISTINCT message FROM events WHERE position = ?1 AND event = ?2",
            params![position, Event::Delivered],
        )
    }
}
