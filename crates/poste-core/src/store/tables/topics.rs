//! Topics and who listens to them.

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
        Ok(self
            .conn
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM subscriptions WHERE agent = ?1 AND topic = ?2)")?
            .query_row(params![agent, topic.as_str()], |row| row.get(0))?)
    }

    pub fn insert_subscription(&mut self, agent: &Name, topic: &TopicPattern, at: Timestamp) -> Result<(), Error> {
        self.conn
            .prepare_cached("INSERT INTO subscriptions (agent, topic, at) VALUES (?1, ?2, ?3)")?
            .execute(params![agent, topic.as_str(), at])?;
        self.concern(|| Concern::Agent(agent.clone()));
        Ok(())
    }

    pub fn delete_subscription(&mut self, agent: &Name, topic: &TopicPattern) -> Result<(), Error> {
        self.conn
            .prepare_cached("DELETE FROM subscriptions WHERE agent = ?1 AND topic = ?2")?
            .execute(params![agent, topic.as_str()])?;
        self.concern(|| Concern::Agent(agent.clone()));
        Ok(())
    }

    pub fn delete_subscriptions(&mut self, agent: &Name) -> Result<(), Error> {
        self.conn.prepare_cached("DELETE FROM subscriptions WHERE agent = ?1")?.execute([agent])?;
        self.concern(|| Concern::Agent(agent.clone()));
        Ok(())
    }

    pub fn count_publication(&mut self, topic: &Topic, message: MessageNo, at: Timestamp) -> Result<(), Error> {
        self.conn
            .prepare_cached(
                "INSERT INTO topics (name, published, last_message, last_at) VALUES (?1, 1, ?2, ?3)
                 ON CONFLICT (name) DO UPDATE SET published = published + 1, last_message = ?2, last_at = ?3",
            )?
            .execute(params![topic, message, at])?;
        Ok(())
    }

    /// Publications after a position that `agent` did not make and has not been given, and that have not expired,
    /// oldest first.
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
        Ok(self
            .conn
            .prepare_cached(&format!(
                "SELECT number FROM messages m
                 WHERE {which} AND number >= ?2 AND sender <> ?3
                   AND (expires_at IS NULL OR expires_at > ?5)
                   AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.message = m.number AND d.address = ?3)
                 ORDER BY number LIMIT ?4"
            ))?
            .query_map(params![topic.as_str(), first, agent, limit, now], |row| row.get(0))?
            .collect::<Result<_, _>>()?)
    }
}
