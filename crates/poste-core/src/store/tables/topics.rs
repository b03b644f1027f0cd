//! Topics and their subscribers.

use rusqlite::params;

use super::{Concern, Tables, late};
use crate::error::Error;
use crate::log::{MessageNo, Position, TopicPattern};
use crate::text::{Name, Topic};
use crate::time::Timestamp;

impl Tables<'_> {
    /// Subscribers of a topic or of `*`, each once, in order.
    pub fn subscribers(&self, topic: &Topic) -> Result<Vec<Name>, Error> {
        self.names("SELECT DISTINCT agent FROM subscriptions WHERE topic = ?1 OR topic = '*' ORDER BY agent", [topic])
    }

    pub fn is_subscribed(&self, agent: &Name, topic: &TopicPattern) -> Result<bool, Error> {
        self.value(
            "SELECT EXISTS (SELECT 1 FROM subscriptions WHERE agent = ?1 AND topic = ?2)",
            params![agent, topic.as_str()],
        )
    }

    pub fn insert_subscription(&mut self, agent: &Name, topic: &TopicPattern, at: Timestamp) -> Result<(), Error> {
        self.execute(
            "INSERT INTO subscriptions (agent, topic, at) VALUES (?1, ?2, ?3)",
            params![agent, topic.as_str(), at],
        )?;
        self.concern(|| Concern::Agent(agent.clone()));
        Ok(())
    }

    pub fn delete_subscription(&mut self, agent: &Name, topic: &TopicPattern) -> Result<(), Error> {
        self.execute("DELETE FROM subscriptions WHERE agent = ?1 AND topic = ?2", params![agent, topic.as_str()])?;
        self.concern(|| Concern::Agent(agent.clone()));
        Ok(())
    }

    pub fn delete_subscriptions(&mut self, agent: &Name) -> Result<(), Error> {
        self.execute("DELETE FROM subscriptions WHERE agent = ?1", [agent])?;
        self.concern(|| Concern::Agent(agent.clone()));
        Ok(())
    }

    pub fn count_publication(&mut self, topic: &Topic, message: MessageNo, at: Timestamp) -> Result<(), Error> {
        self.execute(
            "INSERT INTO topics (name, published, last_message, last_at) VALUES (?1, 1, ?2, ?3)
                 ON CONFLICT (name) DO UPDATE SET published = published + 1, last_message = ?2, last_at = ?3",
            params![topic, message, at],
        )
    }

    /// Publications after a position that `agent` did not make, that were not yet delivered to it, and that have not
    /// expired, oldest first.
    pub fn publications_for(
        &self,
        agent: &Name,
        topic: &TopicPattern,
        after: Position,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<MessageNo>, Error> {
        self.needs(late::MESSAGE)?;
        let first = self.first_number_after(after)?;
        let which = match topic {
            TopicPattern::All => "topic IS NOT NULL AND ?1 = '*'",
            TopicPattern::One(_) => "topic = ?1",
        };
        self.column(
            &format!(
                "SELECT number FROM messages m
                 WHERE {which} AND number >= ?2 AND sender <> ?3
                   AND (expires_at IS NULL OR expires_at > ?5)
                   AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.message = m.number AND d.address = ?3)
                 ORDER BY number LIMIT ?4"
            ),
            params![topic.as_str(), first, agent, limit, now],
        )
    }
}
