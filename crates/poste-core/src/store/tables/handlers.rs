//! Rules that tell people of mail: how far each has come, who sees to it, and what it could not tell.

use std::sync::LazyLock;

use rusqlite::{Row, params};

use super::{Concern, Due, DueItem, Optional as _, Tables};
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::text::{Label, Name};
use crate::time::Timestamp;

/// A rule somebody took once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handler {
    /// Counted from 1; what is due of it goes by this.
    pub number: u64,
    pub rule: Label,
    /// Everything up to here was seen to.
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

/// A message a rule could not tell of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    pub rule: Label,
    pub message: MessageNo,
    /// The record that says so.
    pub position: Position,
    pub at: Timestamp,
    pub attempts: u32,
}

const COLUMNS: &str = "number, rule, cursor, token, holder, until";
const UNTOLD_COLUMNS: &str = "rule, message, position, at, attempts";

fn handler_row(row: &Row<'_>) -> rusqlite::Result<Handler> {
    let token: Option<Position> = row.get(3)?;
    let lease = match token {
        Some(token) => Some(HandlerLease { token, holder: row.get(4)?, until: row.get(5)? }),
        None => None,
    };
    Ok(Handler { number: row.get(0)?, rule: row.get(1)?, cursor: row.get(2)?, lease })
}

fn untold_row(row: &Row<'_>) -> rusqlite::Result<Untold> {
    Ok(Untold {
        rule: row.get(0)?,
        message: row.get(1)?,
        position: row.get(2)?,
        at: row.get(3)?,
        attempts: row.get(4)?,
    })
}

impl Tables<'_> {
    pub fn handler(&self, rule: &Label) -> Result<Option<Handler>, Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| format!("SELECT {COLUMNS} FROM handlers WHERE rule = ?1"));
        self.conn.prepare_cached(&SQL)?.query_row([rule], handler_row).optional()
    }

    pub fn handler_by_number(&self, number: u64) -> Result<Option<Handler>, Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| format!("SELECT {COLUMNS} FROM handlers WHERE number = ?1"));
        self.conn.prepare_cached(&SQL)?.query_row([number], handler_row).optional()
    }

    /// By name.
    pub fn handlers(&self) -> Result<Vec<Handler>, Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| format!("SELECT {COLUMNS} FROM handlers ORDER BY rule"));
        Ok(self.conn.prepare_cached(&SQL)?.query_map([], handler_row)?.collect::<Result<_, _>>()?)
    }

    /// Those somebody sees to: this agent, or anybody.
    pub fn held_handlers(&self, holder: Option<&Name>) -> Result<Vec<Handler>, Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            format!(
                "SELECT {COLUMNS} FROM handlers WHERE holder IS NOT NULL AND (?1 IS NULL OR holder = ?1)
                 ORDER BY number"
            )
        });
        Ok(self.conn.prepare_cached(&SQL)?.query_map([holder], handler_row)?.collect::<Result<_, _>>()?)
    }

    pub fn count_handlers(&self) -> Result<usize, Error> {
        Ok(self.conn.prepare_cached("SELECT count(*) FROM handlers")?.query_row([], |row| row.get(0))?)
    }

    pub fn insert_handler(&mut self, new: &Handler) -> Result<(), Error> {
        static SQL: LazyLock<String> =
            LazyLock::new(|| format!("INSERT INTO handlers ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"));
        let lease = new.lease.as_ref();
        self.conn.prepare_cached(&SQL)?.execute(params![
            new.number,
            new.rule,
            new.cursor,
            lease.map(|lease| lease.token),
            lease.map(|lease| &lease.holder),
            lease.map(|lease| lease.until)
        ])?;
        self.concern(|| Concern::Handler(new.rule.clone()));
        new.due().map_or(Ok(()), |item| self.insert_due(item))
    }

    pub fn update_handler(&mut self, before: &Handler, after: &Handler) -> Result<(), Error> {
        if let Some(item) = before.due() {
            self.delete_due(item)?;
        }
        let lease = after.lease.as_ref();
        let sql = "UPDATE handlers SET cursor = ?2, token = ?3, holder = ?4, until = ?5 WHERE number = ?1";
        self.conn.prepare_cached(sql)?.execute(params![
            after.number,
            after.cursor,
            lease.map(|lease| lease.token),
            lease.map(|lease| &lease.holder),
            lease.map(|lease| lease.until)
        ])?;
        self.concern(|| Concern::Handler(after.rule.clone()));
        after.due().map_or(Ok(()), |item| self.insert_due(item))
    }

    pub fn untold(&self, rule: &Label, message: MessageNo) -> Result<Option<Untold>, Error> {
        static SQL: LazyLock<String> =
            LazyLock::new(|| format!("SELECT {UNTOLD_COLUMNS} FROM handler_dead WHERE rule = ?1 AND message = ?2"));
        self.conn.prepare_cached(&SQL)?.query_row(params![rule, message], untold_row).optional()
    }

    pub fn last_untold_before(&self, rule: &Label, message: MessageNo) -> Result<Option<Untold>, Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            format!(
                "SELECT {UNTOLD_COLUMNS} FROM handler_dead WHERE rule = ?1 AND message < ?2 ORDER BY message DESC LIMIT 1"
            )
        });
        self.conn.prepare_cached(&SQL)?.query_row(params![rule, message], untold_row).optional()
    }

    /// Of a rule, or of all of them, the oldest message first.
    pub fn all_untold(&self, rule: Option<&Label>, limit: usize) -> Result<Vec<Untold>, Error> {
        let whose = if rule.is_some() { "rule = ?1" } else { "?1 IS NULL" };
        let sql = format!("SELECT {UNTOLD_COLUMNS} FROM handler_dead WHERE {whose} ORDER BY rule, message LIMIT ?2");
        Ok(self.conn.prepare_cached(&sql)?.query_map(params![rule, limit], untold_row)?.collect::<Result<_, _>>()?)
    }

    pub fn count_untold(&self, rule: Option<&Label>) -> Result<usize, Error> {
        let whose = if rule.is_some() { "rule = ?1" } else { "?1 IS NULL" };
        let sql = format!("SELECT count(*) FROM handler_dead WHERE {whose}");
        Ok(self.conn.prepare_cached(&sql)?.query_row(params![rule], |row| row.get(0))?)
    }

    pub fn set_untold(&mut self, untold: &Untold) -> Result<(), Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            format!("INSERT OR REPLACE INTO handler_dead ({UNTOLD_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5)")
        });
        let Untold { rule, message, position, at, attempts } = untold;
        self.conn.prepare_cached(&SQL)?.execute(params![rule, message, position, at, attempts])?;
        self.concern(|| Concern::Handler(rule.clone()));
        Ok(())
    }

    pub fn delete_untold(&mut self, untold: &Untold) -> Result<(), Error> {
        let sql = "DELETE FROM handler_dead WHERE rule = ?1 AND message = ?2";
        self.conn.prepare_cached(sql)?.execute(params![untold.rule, untold.message])?;
        self.concern(|| Concern::Handler(untold.rule.clone()));
        Ok(())
    }
}
