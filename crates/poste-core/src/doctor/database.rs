//! The database: whether it opens, belongs to an office, and is intact.

use serde_json::json;

use super::fix::Fix;
use super::{Finding, Opened, Scene, quoted};
use crate::error::Error;
use crate::office::Place;
use crate::progress::Progress;
use crate::store::bell;
use crate::store::clock;
use crate::store::schema::{APPLICATION_ID, FileVersion, get_meta};
use crate::store::{Store, check_no_mail};
use crate::views::{self, Problem, ProblemKind};

const RESTORE: &str = "keep a copy of the folder as it is; then restore the newest snapshot";

pub(super) fn damaged(damage: &str) -> Finding {
    Finding::problem("damage", format!("the office is damaged: {damage}"), "Its content can no longer be trusted.")
        .advice(RESTORE)
        .verb("restore", json!({ "snapshot": "SNAPSHOT", "replace": true }))
}

/// The database as it is, if this program can read its tables.
pub fn readable(place: &Place) -> Option<Store> {
    let store = Store::open_as_is(&place.path, place.options.clone()).ok()?;
    let file = FileVersion::read(store.conn()).ok()?;
    let ours = place.options.schema.version();
    (file.application_id == APPLICATION_ID && file.schema >= ours && file.may_read(ours).is_ok()).then_some(store)
}

/// Opens the database if this program can read it. Otherwise adds a finding that says why not.
pub(super) fn open(scene: &mut Scene<'_>) -> Option<Opened> {
    match try_open(scene) {
        Ok(opened) => opened,
        Err(error) => {
            let finding = unopened(scene, &error);
            scene.findings.extend(finding);
            None
        }
    }
}

fn try_open(scene: &mut Scene<'_>) -> Result<Option<Opened>, Error> {
    let place = scene.place;
    let store = Store::open_as_is(&place.path, place.options.clone())?;
    let file = FileVersion::read(store.conn())?;
    if file.application_id != APPLICATION_ID {
        let finding = foreign(scene, file.application_id == 0)?;
        scene.add(finding);
        return Ok(None);
    }
    if store.is_read_only() {
        scene.add(Finding::note(
            "read_only",
            "the office is read-only here",
            "Commands that read work, and show due changes as unconfirmed. Commands that write are refused.",
        ));
    }
    if !versions(scene, &file) {
        return Ok(None);
    }
    if let Some(from) = get_meta::<String>(store.conn(), "restored")?.filter(|_| scene.request.verbose) {
        let what = format!("this office was restored from a snapshot: {from}");
        scene.add(Finding::note(
            "restored",
            what,
            "If the original office is still in use somewhere, the two have diverged since.",
        ));
    }
    let head = store.tables()?.cursor.head;
    let remembered = clock::remembered(store.conn())?;
    let now = clock::read(place.clock.as_ref(), head.at, remembered.as_ref()).for_views();
    Ok(Some(Opened { store, now }))
}

/// Why the database could not be opened.
fn unopened(scene: &Scene<'_>, error: &Error) -> Option<Finding> {
    let office = &scene.place.path;
    Some(match error {
        // Reported by the check of the file system.
        Error::UnsafeFileSystem { .. } => return None,
        Error::NoOffice(_) => match had_records(scene) {
            Some(records) => lost_database("the database is missing", records),
            None => Finding::problem(
                "no_database",
                format!("{} has no database", office.display()),
                "It is not an office, or no longer one.",
            )
            .advice("if it never had mail, create an office; otherwise restore a snapshot")
            .verb("init", json!({})),
        },
        Error::Emptied { sign, .. } => emptied(scene, sign),
        Error::Damaged(damage) | Error::DatabaseDamaged(damage) => damaged(damage),
        Error::NotAnOffice(path) => Finding::problem(
            "not_an_office",
            format!("{} is not a file", path.display()),
            "No command can use this office.",
        )
        .advice(RESTORE)
        .verb("restore", json!({ "snapshot": "SNAPSHOT", "replace": true })),
        error => Finding::problem(
            "unreadable",
            format!("the database cannot be opened: {error}"),
            "No command can use this office until this is fixed.",
        )
        .advice("check owner, permissions and disk")
        .command(format!("ls -la {}", quoted(office))),
    })
}

/// A database without our application id: unfinished, emptied, or another program's.
fn foreign(scene: &Scene<'_>, unmarked: bool) -> Result<Finding, Error> {
    let database = scene.place.path.join("office.db");
    if !unmarked {
        return Ok(Finding::problem(
            "not_an_office",
            format!("{} belongs to another program", database.display()),
            "It is an SQLite database, but not an office. No command touches it.",
        )
        .advice("move it away, then create an office or restore one"));
    }
    match check_no_mail(&scene.office) {
        Ok(()) => Ok(Finding::problem(
            "unfinished",
            "creation of the office was interrupted",
            "It has no mail yet, and no command uses it.",
        )
        .verb("init", json!({}))),
        Err(Error::Emptied { sign, .. }) => Ok(emptied(scene, &sign)),
        Err(error) => Err(error),
    }
}

fn emptied(scene: &Scene<'_>, sign: &str) -> Finding {
    match had_records(scene) {
        Some(records) => lost_database("the database is empty", records),
        None => lost(format!("the database is empty, but there was mail in it: {sign}")),
    }
}

/// The number of records that the bell was rung for. It outlives a database that was deleted or truncated.
fn had_records(scene: &Scene<'_>) -> Option<u64> {
    bell::last_rung(&scene.office).map(|rung| rung.0).filter(|records| *records > 0)
}

fn lost_database(what: &str, records: u64) -> Finding {
    lost(format!("{what}, but there were {records} records in it"))
}

fn lost(what: String) -> Finding {
    Finding::problem(
        "lost",
        what,
        "All mail of this office is missing. No command uses the office or starts a new one in its place.",
    )
    .advice("look for the file; otherwise restore the newest snapshot")
    .verb("restore", json!({ "snapshot": "SNAPSHOT", "replace": true }))
}

/// Checks which versions the file requires. Returns whether this program can read its tables.
fn versions(scene: &mut Scene<'_>, file: &FileVersion) -> bool {
    let ours = scene.place.options.schema.version();
    let what = format!("the office has schema version {}, and this poste knows {ours}", file.schema);
    let upgrade = |meaning: &str| Finding::problem("version", what.clone(), meaning).advice("upgrade poste");
    if file.may_read(ours).is_err() {
        scene.add(upgrade("A newer poste changed it, and this one would misread it. No command of this one works."));
        return false;
    }
    if file.may_write(ours).is_err() {
        scene.add(upgrade("A newer poste changed it. This one can read it, but its writes are refused."));
    } else if file.schema > ours {
        let meaning = "A newer poste changed it, and this one can still use it.";
        scene.add(Finding::note("version", what, meaning).advice("upgrade poste"));
    } else if file.schema < ours {
        let meaning = "The next command upgrades it, after making a copy. Its tables were not checked.";
        scene.add(Finding::note("version", what, meaning).verb("agents", json!({})));
        return false;
    }
    true
}

/// The bell is rung after a commit, so it never names a record that does not exist.
pub(super) fn bell(scene: &mut Scene<'_>, opened: &Opened) -> Result<(), Error> {
    // Read before the log: a record committed in between makes only the log longer.
    let rung = bell::last_rung(&scene.office).unwrap_or_default().0;
    let last = opened.store.tables()?.cursor.head.position.0;
    if rung > last {
        scene.add(
            Finding::problem(
                "lost",
                format!("the log ends at record {last}, but record {rung} was stored"),
                "The newest records are missing: office.db-wal was deleted, the database was replaced by an older \
                 copy, or the disk lost confirmed writes.",
            )
            .advice("look for office.db-wal or a newer copy before anything is written; otherwise resend lost mail"),
        );
    }
    Ok(())
}

/// The tables drop redacted content together with the record, other files only later, which may be interrupted.
pub(super) fn erasure(scene: &mut Scene<'_>, opened: &Opened) -> Result<(), Error> {
    let unfinished = views::unfinished_erasure(&opened.store)?;
    scene.findings.extend(unfinished.map(|what| {
        Finding::problem(
            "unerased",
            what,
            "Erasing was interrupted. The text is removed from the tables, but may still be in a file of the office.",
        )
        .verb("redact", json!({ "finish": true }))
        .with_fix(Fix::Erase)
    }));
    Ok(())
}

/// Replays the log from the first record and compares the result with the tables.
pub(super) fn soundness(
    scene: &mut Scene<'_>,
    opened: &Opened,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let file = opened.store.version()?.schema;
    if file > opened.store.schema_version() {
        scene.add(Finding::note(
            "unchecked",
            "log and tables were not compared",
            "Only a poste that knows this schema can compute what the tables should be.",
        ));
        return Ok(());
    }
    if opened.store.ends_within_a_page() {
        scene.add(damaged("the database ends in the middle of a page"));
    }
    let of = opened.store.tables()?.cursor.head.position.0;
    progress(Progress { what: "comparing log and tables", done: 0, of });
    let report = views::verify(&opened.store, |position| {
        progress(Progress { what: "comparing log and tables", done: position.0, of });
    })?;
    // An unfinished erasure is already reported, with its own fix.
    let is_unfinished = opened.store.unerased()?.is_some();
    let is_reported = |problem: &Problem| is_unfinished && problem.kind == ProblemKind::Unerased;
    for problem in report.problems.into_iter().filter(|problem| !is_reported(problem)) {
        scene.add(unsound(problem));
    }
    Ok(())
}

fn unsound(problem: Problem) -> Finding {
    if problem.kind == ProblemKind::Unerased {
        let meaning = "Redacted text is still in a file of the office.";
        return Finding::problem("unerased", problem.what, meaning)
            .verb("redact", json!({ "finish": true }))
            .with_fix(Fix::Erase);
    }
    let meaning = match problem.kind {
        ProblemKind::Tables => "The log is intact, but the tables computed from it were changed or damaged.",
        ProblemKind::Content => "The content of this record can no longer be read. The record itself is intact.",
        ProblemKind::Archive => "Archived messages can no longer be read. Their records are intact.",
        _ => "The log was changed or damaged. Its content can no longer be trusted.",
    };
    Finding::problem("unsound", problem.what, meaning)
        .advice(RESTORE)
        .verb("restore", json!({ "snapshot": "SNAPSHOT", "replace": true }))
}
