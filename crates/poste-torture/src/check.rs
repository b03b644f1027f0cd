//! The check that every harness ends with: the office opens, is sound, and has every acknowledged record.
//!
//! It runs in this process, through the library, because it runs thousands of times. It is the same code as `poste log
//! verify`, in a program without sabotage.

use std::path::Path;

use poste_core::Error;
use poste_core::store::schema::{CURRENT, Schema};
use poste_core::store::{Options, Store};
use poste_core::text::RecordId;
use poste_core::views::{self, ProblemKind};

use crate::acts::{REDACTION, SECRET};

/// The parts of an office that a repeated command could change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    pub records: u64,
    pub messages: u64,
    /// State, claims and attempts of each delivery.
    pub deliveries: String,
    /// Versions of contexts, states of handoffs, approvals and sessions, and the number of reservations.
    pub coordinated: String,
}

/// An office that does not hold what it promised.
#[derive(Debug)]
pub(crate) enum Broken {
    /// There is no office, or its creation was never finished.
    NoOffice(String),
    Unsound(String),
    Lost(String),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoOffice(why) => write!(f, "no office: {why}"),
            Self::Unsound(why) => write!(f, "unsound: {why}"),
            Self::Lost(id) => write!(f, "LOST: {id} was acknowledged and is not there"),
        }
    }
}

/// Opens the office with the schema that the file has, so that checking does not migrate it.
fn open(office: &Path) -> Result<Store, Error> {
    let open = |schema: Schema| Store::open(office, Options { schema, ..Options::default() });
    let store = open(CURRENT)?;
    if store.version()?.schema == CURRENT.version() { Ok(store) } else { open(poste_testkit::next::LETS_IN_READERS) }
}

/// Checks that the office is sound and has every one of these ids.
pub(crate) fn sound(office: &Path, acknowledged: &[String]) -> Result<Facts, Broken> {
    let redacted = acknowledged.iter().any(|id| id == REDACTION);
    if redacted {
        is_erased(office)?; // before opening: closing any descriptor of the database would drop SQLite's locks
    }
    let store = open(office).map_err(|error| match error {
        Error::NoOffice(_) | Error::Unfinished(_) => Broken::NoOffice(error.to_string()),
        error => Broken::Unsound(error.to_string()),
    })?;
    let unsound = |error: Error| Broken::Unsound(error.to_string());
    let mut report = views::verify(&store, |_| {}).map_err(unsound)?;
    if !redacted {
        // The redaction was not answered yet. It is reported, and the next writer continues it.
        report.problems.retain(|problem| problem.kind != ProblemKind::Unerased);
    }
    if !report.problems.is_empty() {
        return Err(Broken::Unsound(report.summary()));
    }
    if time_ran_backwards(&store).map_err(|error| unsound(error.into()))? {
        return Err(Broken::Unsound("the log's time ran backwards".to_owned()));
    }
    for id in acknowledged {
        if !is_there(&store, id).map_err(unsound)? {
            return Err(Broken::Lost(id.clone()));
        }
    }
    facts(&store, report.records).map_err(|error| unsound(error.into()))
}

/// Checks that no file of the office contains the redacted content.
fn is_erased(folder: &Path) -> Result<(), Broken> {
    let unreadable = |error: std::io::Error| Broken::Unsound(format!("{}: {error}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            is_erased(&path)?;
            continue;
        }
        let bytes = std::fs::read(&path).map_err(unreadable)?;
        if bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()) {
            return Err(Broken::Unsound(format!("{} has what was redacted", path.display())));
        }
    }
    Ok(())
}

/// Which of these ids exist. Only for sound offices.
pub(crate) fn present(office: &Path, ids: &[String]) -> Result<Vec<bool>, String> {
    let store = open(office).map_err(|error| error.to_string())?;
    ids.iter().map(|id| is_there(&store, id).map_err(|error| error.to_string())).collect()
}

fn is_there(store: &Store, id: &str) -> Result<bool, Error> {
    let Ok(id) = id.parse::<RecordId>() else { return Ok(false) };
    Ok(store.tables()?.id(&id)?.is_some())
}

fn time_ran_backwards(store: &Store) -> rusqlite::Result<bool> {
    store.conn().query_row(
        "SELECT EXISTS (SELECT 1 FROM (SELECT at, lag(at) OVER (ORDER BY position) AS before FROM log)
         WHERE at < before)",
        [],
        |row| row.get(0),
    )
}

fn facts(store: &Store, records: u64) -> rusqlite::Result<Facts> {
    let conn = store.conn();
    Ok(Facts {
        records,
        messages: conn.query_row("SELECT count(*) FROM messages", [], |row| row.get(0))?,
        deliveries: conn.query_row(
            "SELECT coalesce(group_concat(state || '/' || claims || '/' || attempts, ' ' ORDER BY number), '')
             FROM deliveries",
            [],
            |row| row.get(0),
        )?,
        coordinated: conn
            .query_row(
                "SELECT (SELECT group_concat(version, ' ' ORDER BY number) FROM contexts)
               || ' / ' || (SELECT group_concat(state, ' ' ORDER BY number) FROM handoffs)
               || ' / ' || (SELECT group_concat(state, ' ' ORDER BY number) FROM approvals)
               || ' / ' || (SELECT group_concat(state, ' ' ORDER BY id) FROM sessions)
               || ' / ' || (SELECT count(*) FROM reservations)",
                [],
                |row| row.get::<_, Option<String>>(0),
            )?
            .unwrap_or_default(),
    })
}
