//! The database: whether it opens, whose it is, whether it is whole.

use serde_json::json;

use super::fix::Mend;
use super::{Finding, Opened, Scene, quoted};
use crate::error::Error;
use crate::office::Place;
use crate::progress::Progress;
use crate::store::bell;
use crate::store::clock;
use crate::store::schema::{APPLICATION_ID, FileVersion, get_meta};
use crate::store::{Store, check_no_mail};
use crate::views::{self, Problem, ProblemKind};

const RESTORE: &str = "keep a copy of the folder as it is; then go back to the newest snapshot";

pub(super) fn damaged(damage: &str) -> Finding {
    Finding::problem("damage", format!("the office is damaged: {damage}"), "What it says can no longer be trusted.")
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

/// Opens the database if it can be read by this program. Why it cannot be is told.
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
            "the office can only be read from here",
            "Commands that look answer, and show what is due as unconfirmed. Commands that write are refused.",
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
            "If the office it is a copy of is still used somewhere, the two have gone apart since.",
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
        // Told by the check of the file system.
        Error::UnsafeFileSystem { .. } => return None,
        Error::NoOffice(_) => match had_records(scene) {
            Some(records) => lost_database("the database is missing", records),
            None => Finding::problem(
                "no_database",
                format!("{} has no database", office.display()),
                "It is no office yet, or no longer one.",
            )
            .advice("if there never was mail in it, make one; else restore a snapshot")
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
            "No command can use this office as long as that is so.",
        )
        .advice("look at owner, permissions and disk")
        .command(format!("ls -la {}", quoted(office))),
    })
}

/// A database without our mark: not finished, emptied, or somebody else's.
fn foreign(scene: &Scene<'_>, unmarked: bool) -> Result<Finding, Error> {
    let database = scene.place.path.join("office.db");
    if !unmarked {
        return Ok(Finding::problem(
            "not_an_office",
            format!("{} belongs to another program", database.display()),
            "It is an SQLite database, but no office. No command touches it.",
        )
        .advice("move it away, then make an office or restore one"));
    }
    match check_no_mail(&scene.place.path) {
        Ok(()) => Ok(Finding::problem(
            "unfinished",
            "making the office was interrupted",
            "There is no mail in it yet, and no command uses it.",
        )
        .verb("init", json!({}))),
        Err(Error::Emptied { sign, .. }) => Ok(emptied(scene, &sign)),
        Err(error) => Err(error),
    }
}

fn emptied(scene: &Scene<'_>, sign: &str) -> Finding {
    match had_records(scene) {
        Some(records) => lost_database("the database is empty", records),
        None => lost(format!("the database is empty, and there was mail in it: {sign}")),
    }
}

/// How many records the bell was rung for: it outlives a database that was deleted or cut off.
fn had_records(scene: &Scene<'_>) -> Option<u64> {
    bell::last_rung(&scene.place.path).map(|rung| rung.0).filter(|records| *records > 0)
}

fn lost_database(what: &str, records: u64) -> Finding {
    lost(format!("{what}, and there were {records} records in it"))
}

fn lost(what: String) -> Finding {
    Finding::problem(
        "lost",
        what,
        "All mail of this office is gone from here. No command uses it, or begins a new one in its place.",
    )
    .advice("look for the file; else go back to the newest snapshot")
    .verb("restore", json!({ "snapshot": "SNAPSHOT", "replace": true }))
}

/// What the file asks of programs. Says whether this one can read its tables.
fn versions(scene: &mut Scene<'_>, file: &FileVersion) -> bool {
    let ours = scene.place.options.schema.version();
    let what = format!("the office has schema version {}, and this poste knows {ours}", file.schema);
    let upgrade = |meaning: &str| Finding::problem("version", what.clone(), meaning).advice("upgrade poste");
    if file.may_read(ours).is_err() {
        scene.add(upgrade("A newer poste changed it so that this one would misread it. No command of this one works."));
        return false;
    }
    if file.may_write(ours).is_err() {
        scene.add(upgrade("A newer poste changed it. This one can look, but what it writes is refused."));
    } else if file.schema > ours {
        let meaning = "A newer poste changed it, and this one may go on using it.";
        scene.add(Finding::note("version", what, meaning).advice("upgrade poste"));
    } else if file.schema < ours {
        let meaning =
            "The next command brings it up to date, after setting a copy aside. Its tables were not looked at.";
        scene.add(Finding::note("version", what, meaning).verb("agents", json!({})));
        return false;
    }
    true
}

/// The bell is rung after a commit, so it never names a record that is not there.
pub(super) fn bell(scene: &mut Scene<'_>, opened: &Opened) -> Result<(), Error> {
    // Read before the log: a record that comes in between makes the log longer, never the bell.
    let rung = bell::last_rung(&scene.place.path).unwrap_or_default().0;
    let last = opened.store.tables()?.cursor.head.position.0;
    if rung > last {
        scene.add(
            Finding::problem(
                "lost",
                format!("the log ends at record {last}, and record {rung} was stored once"),
                "The newest records are gone: office.db-wal was deleted, the database was replaced by an older copy, or the \
                 disk lost what it had confirmed.",
            )
            .advice("look for office.db-wal or a newer copy before anybody writes; else send again what is missing"),
        );
    }
    Ok(())
}

/// The tables let the words go with the record; the files around them only afterwards, which may be interrupted.
pub(super) fn erasure(scene: &mut Scene<'_>, opened: &Opened) -> Result<(), Error> {
    let unfinished = views::unfinished_erasure(&opened.store)?;
    scene.findings.extend(unfinished.map(|what| {
        Finding::problem(
            "unerased",
            what,
            "Erasing was interrupted. The words are out of the tables, and may still stand in a file of the office.",
        )
        .verb("redact", json!({ "finish": true }))
        .mend(Mend::Erase)
    }));
    Ok(())
}

/// Everything is computed anew from the first record and compared.
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
            "Only a poste that knows this schema can tell what the tables should be.",
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
    // What was not erased is still there, of course. That is told already, and erasing is what helps.
    let is_unfinished = opened.store.unerased()?.is_some();
    let is_told = |problem: &Problem| is_unfinished && problem.kind == ProblemKind::Unerased;
    for problem in report.problems.into_iter().filter(|problem| !is_told(problem)) {
        scene.add(unsound(problem));
    }
    Ok(())
}

fn unsound(problem: Problem) -> Finding {
    if problem.kind == ProblemKind::Unerased {
        let meaning = "Words that were redacted still stand in a file of the office.";
        return Finding::problem("unerased", problem.what, meaning)
            .verb("redact", json!({ "finish": true }))
            .mend(Mend::Erase);
    }
    let meaning = match problem.kind {
        ProblemKind::Tables => {
            "The log is whole, but somebody changed the tables that are computed from it, or the disk did."
        }
        ProblemKind::Content => "What was sent with this record cannot be read any more. The record itself is there.",
        ProblemKind::Archive => "Messages that were archived cannot be read any more. Their records are there.",
        _ => "The log was changed or the disk damaged it. What it says can no longer be trusted.",
    };
    Finding::problem("unsound", problem.what, meaning)
        .advice(RESTORE)
        .verb("restore", json!({ "snapshot": "SNAPSHOT", "replace": true }))
}
