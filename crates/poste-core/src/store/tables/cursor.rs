//! How far the log is folded, and the counters from which the fold assigns numbers.

use rusqlite::{Connection, params};

use super::Optional as _;
use crate::error::Error;
use crate::log::{DeliveryNo, Head, MessageNo};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor {
    pub head: Head,
    pub fold_version: u32,
    pub message_last: MessageNo,
    pub delivery_last: DeliveryNo,
}

impl Cursor {
    pub(super) fn read(conn: &Connection) -> Result<Self, Error> {
        Ok(conn
            .prepare_cached(
                "SELECT position, at, chain, fold_version, message_last, delivery_last FROM cursor WHERE one = 1",
            )?
            .query_row([], |row| {
                Ok(Self {
                    head: Head { position: row.get(0)?, at: row.get(1)?, chain: row.get(2)? },
                    fold_version: row.get(3)?,
                    message_last: row.get(4)?,
                    delivery_last: row.get(5)?,
                })
            })
            .optional()?
            .unwrap_or_default())
    }

    pub(super) fn write(&self, conn: &Connection) -> Result<(), Error> {
        conn.prepare_cached(
            "INSERT INTO cursor (one, position, at, chain, fold_version, message_last, delivery_last)
             VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (one) DO UPDATE SET
               position = ?1, at = ?2, chain = ?3, fold_version = ?4, message_last = ?5, delivery_last = ?6",
        )?
        .execute(params![
            self.head.position,
            self.head.at,
            self.head.chain,
            self.fold_version,
            self.message_last,
            self.delivery_last
        ])?;
        Ok(())
    }
}
