//! Finished conversations, complete, as the archive will keep them.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::limits;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::store::archive::{Line, NOTICE};
use crate::store::tables::{Tables, content_row};
use crate::text::Label;
use crate::time::Timestamp;

/// The content of one archive.
#[derive(Debug, Clone, Default)]
pub struct ArchiveBatch {
    pub conversations: Vec<Label>,
    pub messages: usize,
    /// The newest record when they were read.
    pub as_of: Position,
    /// In the order of the log.
    pub lines: Vec<Line>,
    /// Where to continue; `None` if there is nothing more.
    pub next: Option<MessageNo>,
    /// Number of conversations that are not finished, or not for long enough.
    pub kept: usize,
}

/// Maximum amount of content held in memory at once.
const CONTENT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Conversations in which nothing is open and nothing happened since `before`, beginning with the message `from`.
/// Reads every live message after it, so the cost grows with what is not archived yet.
pub fn finished(store: &Store, before: Timestamp, from: MessageNo) -> Result<ArchiveBatch, Error> {
    store.view(|tables| {
        let mut batch = ArchiveBatch { as_of: tables.cursor.head.position, ..ArchiveBatch::default() };
        let mut looked_at = BTreeSet::new();
        let mut content_bytes = 0;
        let mut number = from;
        while let Some((found, conversation)) = next_live(tables, number)? {
            number = found.next();
            if looked_at.contains(&conversation) {
                continue;
            }
            looked_at.insert(conversation.clone());
            let state = state_of(tables, &conversation)?;
            let closed_at = tables.closed(&conversation)?.map(|closed| closed.at);
            // A conversation belongs to the page that has its first live message.
            if state.first < from {
                continue;
            }
            if state.open > 0 || Some(state.newest).max(closed_at) > Some(before) {
                batch.kept += 1;
                continue;
            }
            let is_full = batch.conversations.len() >= limits::ARCHIVE_CONVERSATIONS_MAX
                || batch.messages + state.messages > limits::ARCHIVE_MESSAGES_MAX
                || content_bytes > CONTENT_BYTES_MAX;
            if is_full && !batch.conversations.is_empty() {
                batch.next = Some(found);
                break;
            }
            let lines = lines_of(tables, &conversation)?;
            content_bytes += lines.iter().filter_map(|line| line.content.as_ref()).map(String::len).sum::<usize>();
            batch.lines.extend(lines);
            batch.messages += state.messages;
            batch.conversations.push(conversation);
        }
        in_order(&mut batch.lines);
        Ok(batch)
    })
}

/// The lines of an archive of these conversations.
pub(crate) fn archive_lines(tables: &Tables<'_>, conversations: &[Label]) -> Result<Vec<Line>, Error> {
    let mut lines = Vec::new();
    for conversation in conversations.iter().collect::<BTreeSet<_>>() {
        lines.extend(lines_of(tables, conversation)?);
    }
    in_order(&mut lines);
    Ok(lines)
}

fn in_order(lines: &mut [Line]) {
    lines.sort_by_key(|line| (line.position, line.number));
}

/// How long finished conversations stay, by the policy in force.
pub fn retention_ms(store: &Store) -> Result<Option<i64>, Error> {
    Ok(store.tables()?.policy()?.settings.retention_ms)
}

/// The number of the newest message.
pub fn newest_message(store: &Store) -> Result<MessageNo, Error> {
    Ok(store.tables()?.cursor.message_last)
}

fn next_live(tables: &Tables<'_>, from: MessageNo) -> Result<Option<(MessageNo, Label)>, Error> {
    tables.one("SELECT number, conversation FROM messages WHERE number >= ?1 ORDER BY number LIMIT 1", [from])
}

struct ConversationState {
    first: MessageNo,
    messages: usize,
    open: usize,
    newest: Timestamp,
}

fn state_of(tables: &Tables<'_>, conversation: &Label) -> Result<ConversationState, Error> {
    let found = tables.one(
        "SELECT min(m.number), count(DISTINCT m.number), coalesce(sum(d.state <= 1), 0)
             + (SELECT count(*) FROM approvals WHERE conversation = ?1 AND state = 0 AND deadline IS NOT NULL)
             + (SELECT count(*) FROM workflows WHERE label = ?1 AND state = 0),
           max(max(m.at), coalesce(max(d.ended_at), 0), coalesce(max(d.dropped_at), 0))
         FROM messages m LEFT JOIN deliveries d ON d.message = m.number WHERE m.conversation = ?1",
        [conversation],
    )?;
    let (first, messages, open, newest) = found.unwrap_or_default();
    Ok(ConversationState { first, messages, open, newest })
}

fn lines_of(tables: &Tables<'_>, conversation: &Label) -> Result<Vec<Line>, Error> {
    let mut lines = Vec::new();
    for number in tables.conversation(conversation)? {
        let Some(message) = tables.message(number)? else { continue };
        let own = message.position;
        let is_notice = message.notice.is_some();
        for position in tables.content_positions(number)?.into_iter().filter(|position| is_notice || *position != own) {
            lines.extend(said(tables, position)?);
        }
        let content = if is_notice { None } else { inline(tables, own)? };
        let kind = if is_notice { NOTICE.to_owned() } else { kind_of(tables, own)? };
        lines.push(Line {
            position: own,
            at: message.at,
            by: message.sender.clone(),
            kind,
            number: Some(number),
            deliveries: tables.deliveries_of(number)?,
            events: tables.events_of(number)?,
            message: Some(message),
            content,
        });
    }
    if let Some(closed) = tables.closed(conversation)? {
        lines.extend(said(tables, closed.position)?);
    }
    Ok(lines)
}

/// The name of the record, because a message may come from other records than `message.send`.
fn kind_of(tables: &Tables<'_>, position: Position) -> Result<String, Error> {
    let record = tables.record(position)?;
    Ok(record.map_or_else(|| "message.send".to_owned(), |record| record.sealed.envelope.name))
}

/// The line of a record about a message: a result, a reason, an outcome.
fn said(tables: &Tables<'_>, position: Position) -> Result<Option<Line>, Error> {
    let Some(record) = tables.record(position)? else { return Ok(None) };
    let content = inline(tables, position)?;
    Ok(Some(Line {
        position,
        at: record.at,
        by: record.sealed.envelope.actor,
        kind: record.sealed.envelope.name,
        number: None,
        message: None,
        deliveries: Vec::new(),
        events: Vec::new(),
        content,
    }))
}

/// Content that is in the database. Blobs are not archived.
fn inline(tables: &Tables<'_>, position: Position) -> Result<Option<String>, Error> {
    let bytes = content_row(tables.conn(), position)?.and_then(|row| row.bytes);
    let text = bytes.map(String::from_utf8).transpose();
    text.map_err(|_| Error::Damaged(format!("content of record {position} is not UTF-8")))
}
