//! Finds messages by their text and by what was written about them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::rows::{MessageRows, rows};
use super::{Found, content, envelope};
use crate::address::Address;
use crate::error::Error;
use crate::log::{Artifact, Content, Intent, MessageNo, Position, Record};
use crate::store::Store;
use crate::store::search::{
    Chunk, DAMAGED, Document, Filters, Index, Marks, Piece, Range, Start, Words, forget, is_damage,
};
use crate::store::tables::{State, Tables};
use crate::text::{Label, TypeName};
use crate::time::{Timestamp, rfc3339};
use crate::vocabulary::{Priority, TrustLabel};

/// Maximum number of matches a search examines one by one: for a state, or to rank them.
const LOOKED_AT_MAX: usize = 10_000;
/// Records that one transaction of the index reads.
const SCAN_RECORDS: usize = 5_000;
/// Messages that one transaction indexes.
const CHUNK_MESSAGES: usize = 4_000;
/// A transaction ends early when it has indexed this much text.
const CHUNK_BYTES: usize = 16 * 1024 * 1024;
/// Messages read from the office at a time. Readers must be short, so that the WAL can be emptied.
const READ_MESSAGES: usize = 200;
const READ_BYTES: usize = 2 * 1024 * 1024;
/// Hits whose texts are in memory at the same time.
const MARKED_TOGETHER: usize = 20;
/// Recipients a hit names.
const NAMED_MAX: usize = 8;

#[derive(Debug, Clone)]
pub struct SearchQuery {
    pub words: Words,
    pub filters: Filters,
    /// Sent at this time or later.
    pub since: Option<Timestamp>,
    /// Sent before this time.
    pub until: Option<Timestamp>,
    /// At least one delivery is in this state.
    pub state: Option<State>,
    /// Only messages with a lower number: the next page.
    pub before: Option<MessageNo>,
    pub limit: usize,
    /// The most relevant first, instead of the newest.
    pub rank: bool,
}

impl SearchQuery {
    /// All messages with these words, newest first.
    pub fn new(words: Words) -> Self {
        let filters = Filters::default();
        Self { words, filters, since: None, until: None, state: None, before: None, limit: 20, rank: false }
    }

    /// Whether it excludes some of the messages with these words.
    pub fn filters(&self) -> bool {
        let in_state_or_time = self.state.is_some() || self.since.is_some() || self.until.is_some();
        in_state_or_time || self.before.is_some() || self.filters.any()
    }
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SearchPage {
    /// The log position this was read at.
    pub as_of: Position,
    /// The index covers the log up to here.
    pub indexed_to: Position,
    /// Messages not indexed yet, the oldest ones: another search is indexing them.
    pub not_indexed: u64,
    pub hits: Vec<SearchHit>,
    /// Pass this to `--before` for the next page; null if there is none, and with `--rank`.
    pub next_before: Option<MessageNo>,
    /// Number of the newest matches that were examined, if not all were.
    pub looked_at: Option<u64>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SearchHit {
    pub number: MessageNo,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub from: String,
    /// Its origin, as the log knows it: human, agent, outside or poste.
    pub trust: TrustLabel,
    /// At most eight of the recipients.
    pub to: Vec<String>,
    pub recipients: u64,
    #[serde(rename = "type")]
    pub kind: TypeName,
    pub priority: Priority,
    pub conversation: Label,
    /// Number of deliveries in each state.
    pub states: Vec<StateCount>,
    pub subject: String,
    #[serde(skip)]
    pub marked_subject: Vec<Piece>,
    /// The part of the text with the words: of the body, or of what was written about it later.
    pub snippet: Vec<Piece>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StateCount {
    pub state: State,
    pub count: u64,
}

/// Progress of updating the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Of the log, in records.
    Reading { done: u64, total: u64 },
    /// Of the messages to index.
    Indexing { done: u64, total: u64 },
}

/// What was done to the index before the search.
#[derive(Debug, Clone, Default)]
pub struct Refreshed {
    /// Why the existing index was discarded.
    pub rebuilt: Option<String>,
    /// The folder is not writable, so the index was made for this search only.
    pub borrowed: bool,
    /// Messages that are partly unreadable: a blob or an archive is damaged. The rest of them can be found.
    pub unreadable: BTreeSet<MessageNo>,
}

/// Updates the index, then queries it. Marks nothing as shown.
pub fn search(
    store: &Store,
    query: &SearchQuery,
    mut progress: impl FnMut(Progress),
) -> Result<(SearchPage, Refreshed), Error> {
    let mut refreshed = Refreshed::default();
    let mut tries_left = 3;
    loop {
        tries_left -= 1;
        let (index, start) = Index::open(store)?;
        match start {
            Start::Found | Start::New => {}
            Start::Rebuilt(why) => refreshed.rebuilt = Some(why),
            Start::Borrowed => refreshed.borrowed = true,
        }
        let answer = refresh(store, &index, &mut refreshed, &mut progress)
            .and_then(|()| page(store, &index, query, &mut refreshed.unreadable));
        match answer {
            // The index was deleted during the search, perhaps to remove its content: start over.
            _ if tries_left > 0 && !index.is_current() => {}
            // Damage shows only when it is read. The index is only a cache.
            Err(error) if tries_left > 0 && is_damage(&error) && !refreshed.borrowed => {
                refreshed.rebuilt = Some(DAMAGED.to_owned());
                drop(index);
                store.folder().map(forget).transpose()?;
            }
            answer => return answer.map(|page| (page, refreshed)),
        }
    }
}

// ── Filling ──────────────────────────────────────────────────────────────────────────────────────────────────

/// Reads new records and indexes waiting messages. Stops early if another search holds the index.
fn refresh(
    store: &Store,
    index: &Index,
    refreshed: &mut Refreshed,
    progress: &mut impl FnMut(Progress),
) -> Result<(), Error> {
    let head = crate::office::head(store)?;
    let begun_at = index.position()?;
    if index.has_unreadable()? {
        let Some(mut chunk) = index.begin()? else { return Ok(()) };
        chunk.try_unreadable_again()?;
        chunk.commit()?;
    }
    if begun_at == head && index.waiting()? == 0 {
        return Ok(());
    }
    // Up to the head at the start of this search: in a busy office there would be no end.
    let mut position = begun_at;
    while position < head && index.is_current() {
        let Some(mut chunk) = index.begin()? else { return Ok(()) };
        position = scan(store, &mut chunk, head)?;
        chunk.commit()?;
        let (done, total) = (position.0.saturating_sub(begun_at.0), head.0.saturating_sub(begun_at.0));
        progress(Progress::Reading { done, total });
    }
    let total = index.waiting()?;
    let mut done = 0;
    while index.is_current() {
        let Some(mut chunk) = index.begin()? else { return Ok(()) };
        let indexed = index_some(store, &mut chunk, refreshed)?;
        chunk.commit()?;
        if indexed == 0 {
            break;
        }
        done += indexed;
        progress(Progress::Indexing { done: done.min(total), total });
    }
    if total > CHUNK_MESSAGES as u64 {
        index.settle();
    }
    Ok(())
}

/// Queues every message that is new, or that a record is about.
fn scan(store: &Store, chunk: &mut Chunk<'_>, head: Position) -> Result<Position, Error> {
    let after = chunk.position()?;
    if after >= head {
        return Ok(after); // another search was faster
    }
    store.view(|tables| {
        let records = tables.records_after(after, SCAN_RECORDS)?;
        let Some(last) = records.last().map(|record| record.position) else { return Ok(after) };
        let (first, end) = (tables.first_number_after(after)?, tables.first_number_after(last)?);
        for number in first.0..end.0 {
            chunk.add_waiting(MessageNo(number))?;
        }
        for record in &records {
            note(tables, chunk, record)?;
        }
        chunk.advance(tables, last)?;
        Ok(last)
    })
}

/// Queues the earlier message that a record adds searchable text to: a result, a reason, a note, or another recipient.
/// A reply is a message of its own.
fn note(tables: &Tables<'_>, chunk: &mut Chunk<'_>, record: &Record) -> Result<(), Error> {
    let envelope = &record.sealed.envelope;
    // Most records are none of these; reading their headers would take longer than everything else here.
    let may_matter = match envelope.name.as_str() {
        "delivery.ack" | "delivery.done" | "delivery.fail" | "delivery.drop" | "delivery.gate"
        | "conversation.close" | "handoff.withdraw" => envelope.content.is_some(),
        "topic.subscribe" => true,
        _ => false,
    };
    if !may_matter || tables.refusal(record.position)?.is_some() {
        return Ok(());
    }
    match record.sealed.intent() {
        Ok(Some(Intent::Ack(ack))) => chunk.add_said(ack.message, record.position),
        Ok(Some(Intent::Done(done))) => chunk.add_said(done.message, record.position),
        Ok(Some(Intent::Fail(fail))) => chunk.add_said(fail.message, record.position),
        Ok(Some(Intent::Drop(dropped))) => chunk.add_said(dropped.message, record.position),
        Ok(Some(Intent::Close(close))) => chunk.add_said(close.message, record.position),
        Ok(Some(Intent::HandoffWithdraw(withdraw))) => chunk.add_said(withdraw.message, record.position),
        Ok(Some(Intent::GateResult(result))) => chunk.add_said(result.message, record.position),
        Ok(Some(Intent::Subscribe(_))) => {
            tables.delivered_at(record.position)?.into_iter().try_for_each(|number| chunk.add_waiting(number))
        }
        _ => Ok(()),
    }
}

/// Indexes some of the newest waiting messages. Returns how many.
fn index_some(store: &Store, chunk: &mut Chunk<'_>, refreshed: &mut Refreshed) -> Result<u64, Error> {
    let numbers = chunk.newest_waiting(CHUNK_MESSAGES)?;
    let mut rest = numbers.as_slice();
    let mut bytes = 0;
    while !rest.is_empty() && bytes < CHUNK_BYTES {
        let documents = read_some(store, chunk, rest, refreshed)?;
        rest = &rest[documents.len()..];
        for (number, document) in documents {
            match document {
                Some(document) => {
                    bytes += document.bytes();
                    chunk.put(number, &document)?;
                }
                None => chunk.skip(number)?,
            }
            if refreshed.unreadable.contains(&number) {
                chunk.add_unreadable(number)?;
            }
        }
    }
    Ok((numbers.len() - rest.len()) as u64)
}

/// Reads the first few of these messages in one short read transaction.
fn read_some(
    store: &Store,
    chunk: &Chunk<'_>,
    numbers: &[MessageNo],
    refreshed: &mut Refreshed,
) -> Result<Vec<(MessageNo, Option<Document>)>, Error> {
    store.read(|conn| {
        let mut look = Look { store, tables: Tables::load(conn)?, unreadable: &mut refreshed.unreadable };
        let mut documents = Vec::new();
        let mut bytes = 0;
        for number in numbers.iter().take(READ_MESSAGES) {
            let document = match look.find(*number)? {
                // Notices of the office only repeat what is found elsewhere.
                Some(found) if found.message.notice.is_none() => {
                    let document = look.document(&found, &chunk.said(*number)?)?;
                    bytes += document.bytes();
                    Some(document)
                }
                _ => None,
            };
            documents.push((*number, document));
            if bytes >= READ_BYTES {
                break;
            }
        }
        Ok(documents)
    })
}

/// A read of the office at one position. One damaged archive or blob must not prevent finding everything else, so
/// unreadable messages are noted and skipped.
struct Look<'a> {
    store: &'a Store,
    tables: Tables<'a>,
    unreadable: &'a mut BTreeSet<MessageNo>,
}

impl Look<'_> {
    /// A message, live or archived. The deliveries of a live one are only read when needed: there may be thousands.
    fn find(&mut self, number: MessageNo) -> Result<Option<MessageRows>, Error> {
        match self.tables.message(number)? {
            Some(message) => {
                Ok(Some(MessageRows { message, deliveries: Vec::new(), events: Vec::new(), archive: None }))
            }
            None => self.archived(number),
        }
    }

    fn archived(&mut self, number: MessageNo) -> Result<Option<MessageRows>, Error> {
        if self.tables.archived_message(number)?.is_none() {
            return Ok(None);
        }
        match rows(self.store, &self.tables, number) {
            Err(Error::Damaged(_)) => {
                self.unreadable.insert(number);
                Ok(None)
            }
            found => found,
        }
    }

    fn addresses(&self, found: &MessageRows, limit: usize) -> Result<Vec<Address>, Error> {
        if found.archive.is_none() {
            return self.tables.addresses_of(found.message.number, limit);
        }
        let mut addresses: Vec<Address> = found.deliveries.iter().map(|delivery| delivery.address.clone()).collect();
        addresses.sort_by_cached_key(ToString::to_string); // as the live table has them
        addresses.truncate(limit);
        Ok(addresses)
    }

    fn states(&self, found: &MessageRows) -> Result<Vec<StateCount>, Error> {
        let counted = if found.archive.is_none() {
            self.tables.states_of(found.message.number)?
        } else {
            let mut counted = BTreeMap::new();
            for delivery in &found.deliveries {
                *counted.entry(delivery.state).or_insert(0) += 1;
            }
            counted.into_iter().collect()
        };
        Ok(counted.into_iter().map(|(state, count)| StateCount { state, count }).collect())
    }

    fn has_state(&mut self, number: MessageNo, state: State) -> Result<bool, Error> {
        if self.tables.has_state(number, state)? {
            return Ok(true);
        }
        let archived = self.archived(number)?;
        Ok(archived.is_some_and(|found| found.deliveries.iter().any(|delivery| delivery.state == state)))
    }

    /// The searchable text of a message, including what was written about it at these positions.
    fn document(&mut self, found: &MessageRows, said: &[Position]) -> Result<Document, Error> {
        let message = &found.message;
        let mut document = Document::default();
        document.from(&message.sender);
        for address in self.addresses(found, usize::MAX)? {
            document.to(&address);
        }
        document.kind(&message.kind);
        document.conversation(&message.conversation);
        for position in std::iter::once(&message.position).chain(said) {
            let Some(record) = envelope(self.store, *position)? else { continue };
            if *position != message.position {
                document.by(&record.sealed.envelope.actor);
            }
            match content(self.store, *position) {
                Ok(Found::Content(content)) => add_content(&mut document, *content),
                Ok(Found::Never | Found::Redacted(_)) => {}
                Ok(Found::Gone) | Err(Error::Damaged(_)) => {
                    self.unreadable.insert(message.number);
                }
                Err(error) => return Err(error),
            }
            for artifact in artifacts(&record) {
                document.add(&artifact.path);
            }
        }
        Ok(document)
    }
}

fn add_content(document: &mut Document, content: Content) {
    if document.subject.is_empty() {
        document.subject = content.subject;
    }
    document.add(content.summary.as_deref().unwrap_or_default());
    document.add(&content.body.text());
    document.add(content.recommend.as_deref().unwrap_or_default());
    document.add(content.context.as_deref().unwrap_or_default());
    document.add(content.expect.as_deref().unwrap_or_default());
    for reference in &content.references {
        document.add(reference);
    }
    for (key, value) in &content.metadata {
        document.add(&format!("{key} {value}"));
    }
    if let Some(payload) = content.payload {
        document.add(&json_text(payload.get()));
    }
    // A version of a shared context is found by its content, too.
    if let Some(version) = content.document {
        document.add(version.title.as_deref().unwrap_or_default());
        document.add(version.text.as_deref().unwrap_or_default());
        document.add(&version.data.map(|data| json_text(data.get())).unwrap_or_default());
    }
}

fn artifacts(record: &Record) -> Vec<Artifact> {
    match record.sealed.intent() {
        Ok(Some(intent)) => intent.artifacts().to_vec(),
        _ => Vec::new(),
    }
}

/// JSON with decoded strings: `\n` and `\u00e9` in them would otherwise become parts of words.
fn json_text(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(start) = rest.find('"') {
        text.push_str(&rest[..start]);
        let literal = &rest[start..start + string_length(&rest[start..])];
        match serde_json::from_str::<String>(literal) {
            Ok(string) => text.push_str(&string),
            Err(_) => text.push_str(literal),
        }
        text.push(' ');
        rest = &rest[start + literal.len()..];
    }
    text.push_str(rest);
    text
}

/// Length of the string literal that a text begins with, including the quotes.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

// ── Querying ───────────────────────────────────────────────────────────────────────────────────────────────────

/// The numbers that a search found, before the messages are read.
#[derive(Debug, Default)]
struct Matches {
    numbers: Vec<MessageNo>,
    next_before: Option<MessageNo>,
    looked_at: Option<u64>,
}

fn page(
    store: &Store,
    index: &Index,
    query: &SearchQuery,
    unreadable: &mut BTreeSet<MessageNo>,
) -> Result<SearchPage, Error> {
    store.read(|conn| {
        let mut look = Look { store, tables: Tables::load(conn)?, unreadable };
        let range = range(&look.tables, query)?;
        let matches = match query.rank {
            true => ranked(&mut look, index, query, range)?,
            false => newest(&mut look, index, query, range)?,
        };
        Ok(SearchPage {
            as_of: look.tables.cursor.head.position,
            indexed_to: index.position()?.min(look.tables.cursor.head.position),
            not_indexed: index.waiting()?,
            hits: hits(&mut look, index, &query.words, &matches.numbers)?,
            next_before: matches.next_before,
            looked_at: matches.looked_at,
        })
    })
}

/// Numbers increase with time, so a time can be given as a number.
fn range(tables: &Tables<'_>, query: &SearchQuery) -> Result<Range, Error> {
    let first_from = |at: Timestamp| tables.first_number_after(tables.last_before(at)?);
    let low = query.since.map(first_from).transpose()?.unwrap_or_default();
    // Another search may have indexed messages that were sent after this read began.
    let end = tables.cursor.message_last.next();
    let high = query.until.map(first_from).transpose()?.unwrap_or(end);
    Ok(Range { low, high: high.min(query.before.unwrap_or(high)) })
}

fn newest(look: &mut Look<'_>, index: &Index, query: &SearchQuery, range: Range) -> Result<Matches, Error> {
    let mut matches = Matches::default();
    let (mut looked_at, mut last) = (0, None);
    index.newest(&query.words, &query.filters, range, |number| {
        if matches.numbers.len() == query.limit {
            matches.next_before = last;
            return Ok(false);
        }
        if looked_at == LOOKED_AT_MAX {
            matches.looked_at = Some(LOOKED_AT_MAX as u64);
            matches.next_before = last;
            return Ok(false);
        }
        looked_at += 1;
        last = Some(number);
        if in_state(look, query, number)? {
            matches.numbers.push(number);
        }
        Ok(true)
    })?;
    Ok(matches)
}

fn ranked(look: &mut Look<'_>, index: &Index, query: &SearchQuery, range: Range) -> Result<Matches, Error> {
    let best = index.ranked(&query.words, &query.filters, range, LOOKED_AT_MAX)?;
    let looked_at = (best.len() == LOOKED_AT_MAX).then_some(LOOKED_AT_MAX as u64);
    let mut matches = Matches { looked_at, ..Matches::default() };
    for number in best {
        if matches.numbers.len() == query.limit {
            break;
        }
        if in_state(look, query, number)? {
            matches.numbers.push(number);
        }
    }
    Ok(matches)
}

fn in_state(look: &mut Look<'_>, query: &SearchQuery, number: MessageNo) -> Result<bool, Error> {
    query.state.map_or(Ok(true), |state| look.has_state(number, state))
}

fn hits(look: &mut Look<'_>, index: &Index, words: &Words, numbers: &[MessageNo]) -> Result<Vec<SearchHit>, Error> {
    let mut hits = Vec::with_capacity(numbers.len());
    // A thousand long texts at once would be a lot of memory.
    for numbers in numbers.chunks(MARKED_TOGETHER) {
        let mut messages = Vec::new();
        let mut documents = Vec::new();
        for number in numbers {
            let Some(message) = look.find(*number)? else { continue };
            let mut document = look.document(&message, &index.said(*number)?)?;
            document.cut();
            messages.push(message);
            documents.push(document);
        }
        for ((message, document), marks) in messages.into_iter().zip(&documents).zip(words.mark(&documents)?) {
            hits.push(hit(look, message, document, marks)?);
        }
    }
    Ok(hits)
}

fn hit(look: &Look<'_>, found: MessageRows, document: &Document, marks: Marks) -> Result<SearchHit, Error> {
    let states = look.states(&found)?;
    let to = look.addresses(&found, NAMED_MAX)?;
    let message = found.message;
    Ok(SearchHit {
        number: message.number,
        at: message.at,
        from: message.sender.to_string(),
        trust: message.label,
        to: to.iter().map(ToString::to_string).collect(),
        recipients: states.iter().map(|state| state.count).sum(),
        kind: message.kind,
        priority: message.priority,
        conversation: message.conversation,
        states,
        subject: document.subject.clone(),
        marked_subject: marks.subject,
        snippet: marks.text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strings_of_a_payload_are_decoded() {
        assert_eq!(json_text(r#"{"a":"line\nbreak","b":[1.5,"\u00e9t\u00e9"]}"#), "{a :line\nbreak ,b :[1.5,été ]}");
        assert_eq!(json_text(r#"{"quote\"d":"back\\slash"}"#), "{quote\"d :back\\slash }");
        assert_eq!(json_text("12"), "12");
    }
}
