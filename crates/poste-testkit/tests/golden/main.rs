//! Golden records: one sealed envelope of every kind, and one short log with the digest it folds to.
//!
//! A log outlives the program that wrote it. So these files are written once (`POSTE_BLESS=1`) and never again after
//! the first release tag: a program that cannot read them, writes them differently, or folds them to other tables
//! breaks every existing office. Until that tag formats may change, with a note.
//!
//! ```text
//! records/v1/20-message.send.json           the envelope, byte for byte
//! records/v1/content/20-message.send.json   its content, byte for byte, where it has any
//! records/v1/log.txt                        a log: the time and the envelope of one record a line
//! records/v1/digest.txt                     the digest of the tables after folding it
//! ```

mod records;
mod stories;

use poste_core::fold::{Effect, Outcome, Refusals, Verdict, fold};
use poste_core::log::{Content, KINDS, Proposal, Record, Sealed};
use poste_core::store::Store;
use poste_core::store::table_digest::digest;
use poste_core::store::tables::State;
use poste_core::text::Label;
use poste_core::{Digest, Position, Timestamp};
use poste_testkit::invariants;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use records::golden_proposals;
use stories::golden_log;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/records/v1")
}

fn is_blessing() -> bool {
    std::env::var_os("POSTE_BLESS").is_some_and(|value| value == "1")
}

/// The file of each kind.
fn file_name(number: u16, name: &str) -> String {
    format!("{number:02}-{name}.json")
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}; POSTE_BLESS=1 writes new golden files", path.display()))
}

/// The machine of every golden record.
fn machine() -> Label {
    text("0123456789abcdef")
}

fn text<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

#[test]
fn golden_records_decode_and_seal_to_the_same_bytes() {
    if is_blessing() {
        bless_records();
    }
    let mut decoded = BTreeSet::new();
    for entry in fs::read_dir(folder()).expect("there are golden records") {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let shown = path.display();
        let bytes = read(&path);
        let sealed = Sealed::open(bytes.clone()).unwrap_or_else(|why| panic!("{shown}: {why}"));
        let envelope = &sealed.envelope;
        let name = path.file_name().unwrap().to_string_lossy();
        assert_eq!(name, file_name(envelope.kind, &envelope.name), "the file is named after its kind");
        let intent = sealed.intent().unwrap_or_else(|why| panic!("{shown}: {why}")).expect("a kind this program knows");
        assert_eq!(intent.kind().number, envelope.kind, "{shown}");
        let content = envelope.content.map(|expected| {
            let bytes = read(&folder().join("content").join(&*name));
            assert_eq!((bytes.len() as u64, Digest::of(&bytes)), (expected.length, expected.digest), "{shown}");
            Content::decode(&bytes).unwrap_or_else(|why| panic!("content of {shown}: {why}"))
        });
        let again = Proposal {
            id: envelope.id.clone(),
            actor: envelope.actor.clone(),
            session: envelope.session.clone(),
            via: envelope.via,
            proof: envelope.proof,
            sent_at: envelope.sent_at,
            intent,
            content,
        };
        let resealed = Sealed::seal(&again, &envelope.machine).unwrap();
        assert_eq!(String::from_utf8_lossy(resealed.bytes()), String::from_utf8_lossy(&bytes), "{shown}");
        decoded.insert(envelope.kind);
    }
    for kind in KINDS {
        assert!(decoded.contains(&kind.number), "there is no golden record of {}", kind.name);
    }
}

fn bless_records() {
    fs::create_dir_all(folder().join("content")).unwrap();
    for proposal in golden_proposals() {
        let sealed = Sealed::seal(&proposal, &machine()).unwrap();
        let name = file_name(sealed.envelope.kind, &sealed.envelope.name);
        fs::write(folder().join(&name), sealed.bytes()).unwrap();
        if let Some(content) = &sealed.content {
            fs::write(folder().join("content").join(&name), &content.bytes).unwrap();
        }
    }
}

#[test]
fn the_golden_log_folds_to_its_digest() {
    let written = golden_log();
    if is_blessing() {
        fs::create_dir_all(folder()).unwrap();
        let lines: Vec<u8> = written.iter().flat_map(line_of).collect();
        fs::write(folder().join("log.txt"), lines).unwrap();
        let tables = fold_all(&written).0;
        fs::write(folder().join("digest.txt"), format!("{}\n", digest(tables.conn()).unwrap())).unwrap();
    }
    let kept = records_of(&read(&folder().join("log.txt")));
    let (store, outcomes) = fold_all(&kept);
    the_log_is_worth_keeping(&store, &outcomes);
    let expected = String::from_utf8(read(&folder().join("digest.txt"))).unwrap();
    assert_eq!(
        digest(store.conn()).unwrap().to_string(),
        expected.trim(),
        "the fold or a table's shape has changed: old logs now fold to other tables"
    );
    let bytes = |records: &[Record]| records.iter().flat_map(line_of).collect::<Vec<u8>>();
    assert!(bytes(&kept) == bytes(&written), "the same proposals are written differently now");
}

fn line_of(record: &Record) -> Vec<u8> {
    let mut line = format!("{} ", record.at.ms()).into_bytes();
    line.extend_from_slice(record.sealed.bytes());
    line.push(b'\n');
    line
}

fn records_of(file: &[u8]) -> Vec<Record> {
    let lines = file.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    (1..)
        .zip(lines)
        .map(|(position, line)| {
            let space = line.iter().position(|byte| *byte == b' ').expect("a time, a space, an envelope");
            let at = std::str::from_utf8(&line[..space]).unwrap().parse().unwrap();
            let sealed = Sealed::open(line[space + 1..].to_vec()).unwrap();
            Record { position: Position(position), at: Timestamp::from_ms(at), sealed }
        })
        .collect()
}

fn fold_all(records: &[Record]) -> (Store, Vec<Outcome>) {
    let store = Store::in_memory_following().unwrap();
    let outcomes = {
        let transaction = store.conn().unchecked_transaction().unwrap();
        let mut tables = store.tables().unwrap();
        let outcomes = records.iter().map(|record| fold(&mut tables, record, Refusals::Kept).unwrap()).collect();
        tables.flush().unwrap();
        transaction.commit().unwrap();
        outcomes
    };
    (store, outcomes)
}

const REFUSED: &[&str] = &[
    "name_taken",
    "already_claimed",
    "id_conflict",
    "unknown_type",
    "unknown_agent",
    "nothing_to_do",
    "not_finished",
    "nothing_to_do",
    "not_finished",
    "not_finished",
    "archived",
    "needs_answer",
    "ended",
    "ended",
    "context_locked",
    "stale_version",
    "unknown_context",
    "not_agreed",
    "superseded",
    "reserved",
    "not_allowed",
    "session_live",
    "not_allowed",
    "lease_lost",
    "nothing_to_do",
    "not_recipient",
    "malformed",
    "ended",
    "nothing_to_do",
    "malformed",
    "busy",
    "already_claimed",
    "malformed",
    "ended",
    "nothing_to_do",
    "busy",
    "nothing_to_do",
    "is_handoff",
    "not_recipient",
    "unverified",
    "unverified",
    "ended",
    "not_allowed",
    "out_of_order",
    "step_taken",
    "not_allowed",
    "out_of_order",
    "rule_held",
    "nothing_to_do",
    "lease_lost",
    "unknown_rule",
];

/// A log in which little happens would have the same digest whatever the fold does.
fn the_log_is_worth_keeping(store: &Store, outcomes: &[Outcome]) {
    assert!(outcomes.len() >= 40, "{} records", outcomes.len());
    let refused: Vec<&str> = outcomes
        .iter()
        .filter_map(|outcome| match &outcome.verdict {
            Verdict::Rejected(rejection) => Some(rejection.code.word()),
            Verdict::Accepted(_) => None,
        })
        .collect();
    assert_eq!(refused, REFUSED, "the refusals, in the order of the story");
    // Every table has rows that another fold could get wrong.
    for table in [
        "closed",
        "redactions",
        "archives",
        "archived_messages",
        "archived_content",
        "archived_events",
        "contexts",
        "context_versions",
        "context_contributors",
        "context_reads",
        "approvals",
        "handoffs",
        "reservations",
        "past_reservations",
        "sessions",
        "session_notes",
        "agreements",
        "runs",
        "run_claims",
        "workflows",
        "workflow_steps",
        "workflow_mail",
        "numbered_steps",
        "handlers",
        "handler_dead",
    ] {
        let sql = format!("SELECT count(*) FROM {table}");
        let rows: u64 = store.conn().query_row(&sql, [], |row| row.get(0)).unwrap();
        assert!(rows > 0, "{table} is empty");
    }
    assert!(outcomes.iter().any(|outcome| outcome.repeat));
    assert!(outcomes.iter().any(|outcome| matches!(outcome.verdict, Verdict::Accepted(Effect::Late(_)))));
    let states: u64 =
        store.conn().query_row("SELECT count(DISTINCT state) FROM deliveries", [], |row| row.get(0)).unwrap();
    assert_eq!(states, State::ALL.len() as u64, "some delivery ends in each state");
    assert_eq!(invariants::full(store).unwrap(), []);
}
