//! Notification rules: the cursor of each, its holder, and the notifications that failed.

use rusqlite::{Row, params};

use super::rows::Selected;
use super::{Concern, Due, DueItem, Tables};
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::text::{Label, Name};
use crate::time::Timestamp;

/// A rule that was taken at least once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handler {
    /// Starts at 1; identifies the rule in `due`.
    pub number: u64,
    pub rule: Label,
    /// Everything up to here was processed.
    pub cursor: Position,
    pub lease: Option<HandlerLease>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerLease {
    pub token: Position,
    pub holder: Name,
    pub until: Timestamp,
}

impl Handler {
    fn due(&self) -> Option<DueItem> {
        let lease = self.lease.as_ref()?;
        Some(DueItem { at: lease.until, what: Due::Handler, subject: self.number })
    }
}

/// A message that a rule could not notify about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    pub rule: Label,
    pub message: MessageNo,
    /// The record of the failure.
    pub position: Position,
    pub at: Timestamp,
    pub attempts: u32,
}

impl Selected for Handler {
    const SELECT: &'static str = "SELECT number, rule, cursor, token, holder, until FROM handlers";
}

impl TryFrom<&Row<'_>> for Handler {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        let lease = match row.get(3)? {
            Some(token) => Some(HandlerLease { token, holder: row.get(4)?, until: row.get(5)? }),
            None => None,
        };
        Ok(Self { number: row.get(0)?, rule: row.get(1)?, cursor: row.get(2)?, lease })
    }
}

stored!(Untold in "handler_dead": rule, message, position, at, attempts);

impl Tables<'_> {
    pub fn handler(&self, rule: &Label) -> Result<Option<Handler>, Error> {
        self.one(select!(Handler, "WHERE rule = ?1"), [rule])
    }

    pub fn handler_by_number(&self, number: u64) -> Result<Option<Handler>, Error> {
        self.one(select!(Handler, "WHERE number = ?1"), [number])
    }

    /// All rules, by name.
    pub fn handlers(&self) -> Result<Vec<Handler>, Error> {
        self.all(select!(Handler, "ORDER BY rule"), [])
    }

    /// The rules held by this agent, or by any.
    pub fn held_handlers(&self, holder: Option<&Name>) -> Result<Vec<Handler>, Error> {
        let sql = select!(Handler, "WHERE holder IS NOT NULL AND (?1 IS NULL OR holder = ?1) ORDER BY number");
        self.all(sql, [holder])
    }

    pub fn count_handlers(&self) -> Result<usize, Error> {
        self.value("SELECT count(*) FROM handlers", [])
    }

    pub fn insert_handler(&mut self, new: &Handler) -> Result<(), Error> {
        self.execute(
            "INSERT INTO handlers (number, rule, cursor) VALUES (?1, ?2, ?3)",
            params![new.number, new.rule, new.cursor],
        )?;
        self.update_handler(&Handler { lease: None, ..new.clone() }, new)
    }

    pub fn update_handler(&mut self, before: &Handler, after: &Handler) -> Result<(), Error> {
        let lease = after.lease.as_ref();
        self.execute(
            "UPDATE handlers SET cursor = ?2, token = ?3, holder = ?4, until = ?5 WHERE number = ?1",
            params![
                after.number,
                after.cursor,
                lease.map(|lease| lease.token),
                lease.map(|lease| &lease.holder),
                lease.map(|lease| lease.until)
            ],
        )?;
        self.concern(|| Concern::Handler(after.rule.clone()));
        self.move_due(before.due(), after.due())
    }

    pub fn untold(&self, rule: &Label, message: MessageNo) -> Result<Option<Untold>, Error> {
        self.one(select!(Untold, "WHERE rule = ?1 AND message = ?2"), params![rule, message])
    }

    pub fn last_untold_before(&self, rule: &Label, message: MessageNo) -> Result<Option<Untold>, Error> {
        let sql = select!(Untold, "WHERE rule = ?1 AND message < ?2 ORDER BY message DESC LIMIT 1");
        self.one(sql, params![rule, message])
    }

    /// Failed notifications of one rule or of all, by rule, oldest message first.
    pub fn all_untold(&self, rule: Option<&Label>, limit: usize) -> Result<Vec<Untold>, Error> {
        let whose = if rule.is_some() { "rule = ?1" } else { "?1 IS NULL" };
        let sql = format!("{} WHERE {whose} ORDER BY rule, message LIMIT ?2", Untold::SELECT);
        self.all(&sql, params![rule, limit])
    }

    pub fn count_untold(&self, rule: Option<&Label>) -> Result<usize, Error> {
        let whose = if rule.is_some() { "rule = ?1" } else { "?1 IS NULL" };
        let sql = format!("SELECT count(*) FROM handler_dead WHERE {whose}");
        self.value(&sql, params![rule])
    }

    pub fn set_untold(&mut self, untold: &Untold) -> Result<(), Error> {
        self.delete_untold(untold)?;
        self.insert(untold)
    }

    pub fn delete_untold(&mut self, untold: &Untold) -> Result<(), Error> {
        let sql = "DELETE FROM handler_dead WHERE rule = ?1 AND message = ?2";
        self.execute(sql, params![untold.rule, untold.message])?;
        self.concern(|| Concern::Handler(untold.rule.clone()));
        Ok(())
    }
}
