//! Records with a correct checksum and hostile headers, folded after a busy history.
//!
//! An input consists of lines. The first says whether the log keeps refusals (`kept`) or not (`dropped`); each of the
//! others is a number of milliseconds that pass, and an envelope without its checksum.

use std::cell::RefCell;
use std::collections::BTreeSet;

use poste_core::fold::{Outcome, Refusals, Verdict, fold};
use poste_core::log::{Record, Sealed};
use poste_core::office::Rules;
use poste_core::store::Store;
use poste_core::store::clock::Clock as _;
use poste_core::store::table_digest::digest;
use poste_core::{Error, Timestamp, limits};
use serde_json::{Value, json};

use super::records::golden_records;
use super::{Checked, must};
use crate::clock::SimClock;
use crate::history::{Generator, TimeStep};
use crate::sim::{Faults, Sequencer};
use crate::{forge, invariants};

/// A history with deliveries in every state.
const HISTORY_SEED: u64 = 7;
const HISTORY_STEPS: usize = 40;
/// Only this many lines of an input are folded, because each costs a pass over every table.
const LINES_MAX: usize = 6;
const PASSES_MS_MAX: i64 = 20 * 366 * limits::DAY_MS;

thread_local! {
    /// The history folded into memory, once per way to treat refusals. Every input is rolled back; one that breaks
    /// something discards its store.
    static FOLDED: RefCell<[Option<Store>; 2]> = const { RefCell::new([None, None]) };
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut lines: Vec<String> = busy_history().iter().rev().map(|record| line(record.sealed.bytes(), 1)).collect();
    lines.truncate(40);
    lines.extend(golden_records().iter().map(|bytes| line(bytes, 60_000)));
    let mut seeds: Vec<Vec<u8>> = lines.iter().map(|line| format!("dropped\n{line}").into_bytes()).collect();
    seeds.extend(lines.chunks(4).map(|some| format!("kept\n{}", some.join("\n")).into_bytes()));
    seeds
}

/// A record under a new id, so that the fold does not take it for a repeat, by an actor of the history.
fn line(bytes: &[u8], passes_ms: i64) -> String {
    let mut envelope: Value = serde_json::from_slice(bytes).expect("a record is JSON");
    let fresh = format!("again-{}", envelope["id"].as_str().unwrap_or_default());
    if let Some(object) = envelope.as_object_mut() {
        object.shift_remove("checksum");
        object.insert("id".to_owned(), json!(fresh));
        if object["actor"] != "poste" && passes_ms > 1 {
            object.insert("actor".to_owned(), json!("ann"));
        }
    }
    format!("{passes_ms} {envelope}")
}

fn busy_history() -> Vec<Record> {
    let clock = SimClock::new();
    let sequencer = Sequencer::new(clock.clone());
    let (mut office, _) = sequencer.replica(0, HISTORY_SEED, Faults::NONE).expect("a store in memory");
    let mut generator = Generator::new(HISTORY_SEED);
    for _ in 0..HISTORY_STEPS {
        if let TimeStep::Passes(ms) = generator.time_step() {
            clock.advance(ms);
        }
        let proposal = generator.next(office.store(), clock.wall()).expect("a generator that sees the tables");
        let outcome = office.propose(&proposal, &Rules::none()).expect("a log without faults");
        generator.learn(&proposal, &outcome);
    }
    sequencer.records()
}

fn folded_history(refusals: Refusals) -> Result<Store, Error> {
    let store = match refusals {
        Refusals::Kept => Store::in_memory_following()?,
        Refusals::Dropped => Store::in_memory()?,
    };
    for record in busy_history() {
        fold_at_end(&store, &record.sealed, Some(record.at), refusals)?;
    }
    Ok(store)
}

/// Appends a record to the log. An error leaves the tables in between, so the caller rolls back.
fn fold_at_end(store: &Store, sealed: &Sealed, at: Option<Timestamp>, refusals: Refusals) -> Result<Outcome, Error> {
    let mut tables = store.tables()?;
    let head = tables.cursor.head.clone();
    let record = Record { position: head.position.next(), at: at.unwrap_or(head.at), sealed: sealed.clone() };
    let outcome = fold(&mut tables, &record, refusals)?;
    tables.flush()?;
    Ok(outcome)
}

pub(super) fn fold_lines(input: &[u8]) -> Checked {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.lines();
    let refusals = if lines.next() == Some("dropped") { Refusals::Dropped } else { Refusals::Kept };
    let slot = usize::from(refusals == Refusals::Dropped);
    let told = |error: Error| format!("the store failed: {error}");
    let store = match FOLDED.with_borrow_mut(|stores| stores[slot].take()) {
        Some(store) => store,
        None => folded_history(refusals).map_err(told)?,
    };
    let transaction = store.conn().unchecked_transaction().map_err(|error| error.to_string())?;
    let mut ends = BTreeSet::new();
    for line in lines.take(LINES_MAX) {
        ends.insert(fold_line(&store, line, refusals)?);
    }
    let violations = if ends.iter().any(|end| end.starts_with("accepted")) {
        invariants::full(&store).map_err(told)?
    } else {
        invariants::quick(&store).map_err(told)?
    };
    if let Some(violation) = violations.first() {
        return Err(format!("{violation}, and {} more", violations.len() - 1));
    }
    drop(transaction);
    FOLDED.with_borrow_mut(|stores| stores[slot] = Some(store));
    Ok(ends.into_iter().collect::<Vec<_>>().join(", "))
}

fn fold_line(store: &Store, line: &str, refusals: Refusals) -> Checked {
    let (passes, object) = line.split_once(' ').unwrap_or(("0", line));
    let passes_ms = passes.parse::<i64>().unwrap_or(0).clamp(0, PASSES_MS_MAX);
    if !object.ends_with('}') {
        return Ok("no object".to_owned());
    }
    let sealed = match Sealed::open(forge::with_checksum(object.as_bytes())) {
        Ok(sealed) => sealed,
        Err(malformed) => return Ok(malformed.to_string()),
    };
    let conn = store.conn();
    let sql = |text: &str| conn.execute_batch(text).map_err(|error| error.to_string());
    let tables_now = || digest(conn).map_err(|error| error.to_string());
    let at = store.tables().map_err(|error| error.to_string())?.cursor.head.at.plus_ms(passes_ms);
    // Only a log that drops refusals can be compared, because one that keeps them has grown.
    let comparable = refusals == Refusals::Dropped;
    let before = comparable.then(&tables_now).transpose()?;
    sql("SAVEPOINT line")?;
    let outcome = match fold_at_end(store, &sealed, Some(at), refusals) {
        Ok(outcome) => outcome,
        // A record that only a newer program understands stops the log and changes nothing.
        Err(error @ (Error::UnknownKind { .. } | Error::NeedsUpgrade { .. })) => {
            sql("ROLLBACK TO line; RELEASE line")?;
            let unchanged = !comparable || Some(tables_now()?) == before;
            must(unchanged, || "a halt changed the tables".to_owned())?;
            return Ok(format!("halted: {error}"));
        }
        Err(error) => return Err(format!("the fold failed: {error}")),
    };
    sql("RELEASE line")?;
    let kind = &sealed.envelope.name;
    let kind = if kind.len() < 40 && kind.is_ascii() { kind.as_str() } else { "a kind of its own name" };
    match &outcome.verdict {
        Verdict::Rejected(rejection) => {
            let unchanged = !comparable || Some(tables_now()?) == before;
            must(unchanged, || format!("refused ({}) and the tables changed", rejection.code.word()))?;
            Ok(format!("{kind} refused: {}", rejection.code.word()))
        }
        Verdict::Accepted(_) if outcome.repeat => Ok("repeat".to_owned()),
        Verdict::Accepted(_) => {
            one_effect(store, &sealed, at, refusals)?;
            Ok(format!("accepted {kind}"))
        }
    }
}

/// The same record again is a repeat that is accepted. It changes nothing, except that a log may keep repeats.
fn one_effect(store: &Store, sealed: &Sealed, at: Timestamp, refusals: Refusals) -> Result<(), String> {
    let before = digest(store.conn()).map_err(|error| error.to_string())?;
    let again = fold_at_end(store, sealed, Some(at), refusals).map_err(|error| format!("the fold failed: {error}"))?;
    must(again.repeat && matches!(again.verdict, Verdict::Accepted(_)), || format!("sent again, it is {again:?}"))?;
    let after = digest(store.conn()).map_err(|error| error.to_string())?;
    must(refusals == Refusals::Kept || after == before, || "sent again, it had a second effect".to_owned())
}
