//! What people and programs may ask of an office. Read-only, from the tables; every answer has a JSON schema.

mod digests;
mod inbox;
mod message;
mod records;
mod replay;
mod replies;
mod roster;
mod settings;
mod timeline;
mod track;
mod verify;

pub use digests::{DigestDiff, TableDigests, diff_with_fold, diff_with_other, first_difference};
pub use inbox::{InboxLine, InboxPage, InboxQuery, More, NewMail, NewsQuery, has_claimable, inbox, news};
pub use message::{MessageView, is_addressed_to, message};
pub use records::{IdAnswer, RecordView, Why, WhyLine, record, records, why_id, why_message};
pub use replay::{PastAgent, PastOffice, past_inbox, past_office, past_track};
pub use replies::{Replies, Reply, replies};
pub use roster::{RosterEntry, TopicView, TypeView, agent, hears, nearest_agents, roster, topics, types};
pub use settings::{PolicyView, Setting, Source, settings};
pub use timeline::{TimelineLine, timeline};
pub use track::{DeliveryView, ResultView, Step, Track, track};
pub use verify::{VerifyReport, verify};

use crate::error::Error;
use crate::log::{Content, Position};
use crate::store::Store;
use crate::store::tables::{ContentRow, content_row};

/// What became of a record's content.
#[derive(Debug)]
pub(crate) enum Found {
    Content(Box<Content>),
    /// The record never had any.
    Never,
    /// It had, and it is gone.
    Gone,
}

/// The content of a record, from its row or its blob.
pub(crate) fn content(store: &Store, position: Position) -> Result<Found, Error> {
    let damaged = |error: serde_json::Error| Error::Damaged(format!("content of record {position}: {error}"));
    match content_row(store.conn(), position)? {
        Some(ContentRow { bytes: Some(bytes), .. }) => {
            Ok(Found::Content(Box::new(Content::decode(&bytes).map_err(damaged)?)))
        }
        Some(ContentRow { bytes: None, .. }) => {
            let digest = envelope(store, position)?.and_then(|record| record.sealed.envelope.content);
            let bytes = match (digest, store.blobs()) {
                (Some(content), Some(blobs)) => blobs.get(&content.digest)?,
                _ => None,
            };
            match bytes {
                Some(bytes) => Ok(Found::Content(Box::new(Content::decode(&bytes).map_err(damaged)?))),
                None => Ok(Found::Gone),
            }
        }
        None => {
            let had = envelope(store, position)?.is_some_and(|record| record.sealed.envelope.content.is_some());
            Ok(if had { Found::Gone } else { Found::Never })
        }
    }
}

pub(crate) fn envelope(store: &Store, position: Position) -> Result<Option<crate::log::Record>, Error> {
    store.tables()?.record(position)
}

/// Counts no further than anybody reads: the cost of a number must not grow with the mail.
pub(crate) const COUNT_MAX: u64 = 1_000;

pub(crate) fn count_up_to(store: &Store, from_where: &str, params: impl rusqlite::Params) -> Result<u64, Error> {
    let sql = format!("SELECT count(*) FROM (SELECT 1 FROM {from_where} LIMIT {COUNT_MAX})");
    Ok(store.conn().prepare_cached(&sql)?.query_row(params, |row| row.get(0))?)
}
