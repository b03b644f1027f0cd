//! Records by id.

use crate::error::Error;
use crate::log::{Intent, MessageNo, Position};
use crate::store::Store;
use crate::text::{Name, RecordId};

/// Whether a record was written under this id.
pub fn is_known_id(store: &Store, id: &RecordId) -> Result<bool, Error> {
    Ok(store.tables()?.id(id)?.is_some())
}

/// A record that was written under an id.
#[derive(Debug, Clone)]
pub struct Written {
    pub position: Position,
    pub actor: Name,
    /// Its intent, if it can be decoded.
    pub intent: Option<Intent>,
    pub refused: bool,
}

/// The record under an id, of any actor.
pub fn written_under(store: &Store, id: &RecordId) -> Result<Option<Written>, Error> {
    let tables = store.tables()?;
    let Some(row) = tables.id(id)? else { return Ok(None) };
    let Some(record) = tables.record(row.position)? else { return Ok(None) };
    Ok(Some(Written {
        position: row.position,
        intent: record.sealed.intent().ok().flatten(),
        actor: record.sealed.envelope.actor,
        refused: tables.refusal(row.position)?.is_some(),
    }))
}

/// The record an actor wrote under an id, unless it was refused: a log may keep refused records.
pub fn record_of_id(store: &Store, id: &RecordId, actor: &Name) -> Result<Option<(Position, Intent)>, Error> {
    let written = written_under(store, id)?.filter(|written| written.actor == *actor && !written.refused);
    Ok(written.and_then(|written| Some((written.position, written.intent?))))
}

/// The id under which an actor can write something exactly once, even if several processes try. `None`: it is already
/// written. A refusal or another actor's record under the id does not count.
pub fn id_to_write_once(store: &Store, id: &RecordId, actor: &Name) -> Result<Option<RecordId>, Error> {
    let mut next = id.clone();
    for attempt in 2.. {
        match written_under(store, &next)? {
            None => break,
            Some(written) if written.actor == *actor && !written.refused => return Ok(None),
            Some(_) => next = id.then(attempt),
        }
    }
    Ok(Some(next))
}

/// The message that was stored under an id.
pub fn message_of_id(store: &Store, id: &RecordId) -> Result<Option<MessageNo>, Error> {
    Ok(store.tables()?.id(id)?.and_then(|row| row.message))
}
