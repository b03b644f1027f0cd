//! The files of an office: large content, many writers, replaced and damaged files.

use std::fs;
use std::path::Path;

use poste_core::fold::{Code, Effect, Verdict};
use poste_core::limits::{CONTENT_BYTES_MAX, CONTENT_INLINE_BYTES_MAX};
use poste_core::log::{Body, Content, Intent, Send};
use poste_core::office::{Place, Rules, Settled};
use poste_core::store::Options;
use poste_core::store::clock::SystemClock;
use poste_core::{Error, MessageNo, views};
use rusqlite::Connection;

use crate::common::*;

fn blobs(desk: &Desk) -> Vec<String> {
    let entries = fs::read_dir(desk.place.path.join("blobs")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn send_body(desk: &mut Desk, body: Vec<u8>) -> Answer {
    let content = Content { subject: "large".to_owned(), body: Body(body), ..Content::default() };
    desk.say("ann", Intent::Send(letter("bob", "message")), Some(content))
}

/// Changes the database as another program would.
fn tamper(database: &Path, sql: &str) {
    Connection::open(database).unwrap().execute_batch(sql).unwrap();
}

// ── Content ──────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn content_over_64_kib_is_a_blob_and_comes_back_whole() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let small = "s".repeat(CONTENT_INLINE_BYTES_MAX / 2);
    accepted(send_body(&mut desk, small.clone().into_bytes()));
    assert!(blobs(&desk).is_empty(), "small content is a row");
    let large = "ä".repeat(CONTENT_INLINE_BYTES_MAX);
    accepted(send_body(&mut desk, large.clone().into_bytes()));
    assert_eq!(blobs(&desk).len(), 1);
    let rows = "SELECT bytes IS NULL FROM content WHERE subject = 'large' ORDER BY position";
    let conn = desk.office.store().conn();
    let in_blobs: Vec<bool> =
        conn.prepare(rows).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(in_blobs, [false, true]);
    for (number, body) in [(1, small), (2, large)] {
        let view = views::message(desk.office.store(), MessageNo(number)).unwrap().unwrap();
        assert_eq!((view.subject.as_str(), view.content_gone), ("large", false));
        assert!(view.body == body, "message {number} came back changed");
    }
}

#[test]
fn a_missing_or_damaged_blob_is_told_and_never_skipped() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.leave_unverified();
    accepted(send_body(&mut desk, vec![b'x'; CONTENT_INLINE_BYTES_MAX]));
    let blob = desk.place.path.join("blobs").join(&blobs(&desk)[0]);
    let problems = |desk: &Desk| views::verify(desk.office.store(), |_| {}).unwrap().problems;
    assert!(problems(&desk).is_empty());
    fs::write(&blob, "something else").unwrap();
    assert_eq!(problems(&desk).len(), 1);
    assert!(matches!(views::message(desk.office.store(), MessageNo(1)), Err(Error::Damaged(_))));
    fs::remove_file(&blob).unwrap();
    assert_eq!(problems(&desk).len(), 1);
    assert!(views::message(desk.office.store(), MessageNo(1)).unwrap().unwrap().content_gone);
}

#[test]
fn a_refused_message_leaves_no_blob_unless_another_one_has_its_content() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let large = || Content { body: Body(vec![b'x'; CONTENT_INLINE_BYTES_MAX]), ..Content::default() };
    let refuse = |desk: &mut Desk| {
        let answer = desk.say("ann", Intent::Send(letter("nobody", "message")), Some(large()));
        refused(answer, Code::UnknownAgent);
    };
    refuse(&mut desk);
    assert!(blobs(&desk).is_empty());
    accepted(desk.say("ann", Intent::Send(letter("bob", "message")), Some(large())));
    refuse(&mut desk);
    assert_eq!(blobs(&desk).len(), 1);
}

#[test]
fn content_over_the_maximum_is_refused_before_anything_is_written() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let content = Content { body: Body(vec![b'x'; CONTENT_BYTES_MAX]), ..Content::default() };
    let proposal = desk.proposal("ann", Intent::Send(letter("bob", "message")), Some(content));
    let before = desk.head();
    let error = desk.try_outcome(&proposal).expect_err("too large");
    assert!(matches!(error, Error::Malformed(_)), "{error}");
    assert_eq!(desk.head(), before);
    assert!(blobs(&desk).is_empty());
}

#[test]
fn a_malformed_proposal_stops_its_whole_submission_and_a_refused_one_only_itself() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let good = desk.proposal("ann", Intent::Send(letter("bob", "message")), None);
    let refused = desk.proposal("ann", Intent::Send(letter("nobody", "message")), None);
    let two_lines = Content { subject: "two\nlines".to_owned(), ..Content::default() };
    let malformed = desk.proposal("ann", Intent::Send(letter("bob", "message")), Some(two_lines));
    let before = desk.tables();
    assert!(matches!(desk.office.submit(&[good.clone(), malformed], &Rules::none()), Err(Error::Malformed(_))));
    assert_eq!(desk.tables(), before);

    let outcomes = desk.office.submit(&[refused, good], &Rules::none()).unwrap();
    assert!(matches!(&outcomes[0].verdict, Verdict::Rejected(why) if why.code == Code::UnknownAgent));
    assert!(matches!(outcomes[1].verdict, Verdict::Accepted(Effect::Sent(_))));
    assert_eq!(outcomes[1].position, Some(before.head.next()), "positions are contiguous");
}

#[test]
fn too_much_of_anything_is_refused() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let many = Send { to: vec!["bob".parse().unwrap(); 257], ..letter("", "message") };
    refused(desk.post("ann", many), Code::TooLarge);
    let shown = poste_core::log::Shown { messages: vec![MessageNo(1); 1_001] };
    refused(desk.ask("bob", Intent::Shown(shown)), Code::TooLarge);
}

// ── Many writers ─────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn writers_that_take_turns_see_each_others_records() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let mut other = desk.place.open().unwrap();
    let number = desk.send("ann", "bob", "directive");
    let claim = poste_core::log::Claim { message: Some(number), max: 1, lease_ms: None, types: Vec::new() };
    let theirs = desk.proposal("bob/1", Intent::Claim(claim), None);
    accepted(other.propose(&theirs, &Rules::none()).unwrap().verdict.accepted());
    refused(desk.claim("bob/2", number), Code::AlreadyClaimed);
    assert_eq!(desk.head(), other.head().unwrap().position);
}

#[test]
fn a_snapshot_is_sound_by_itself_and_ends_where_the_log_did() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.send("ann", "bob", "message");
    let copy = desk.config().with_file_name("copy.db");
    let head = desk.office.snapshot(&copy).unwrap();
    assert_eq!(head, desk.office.head().unwrap());
    let conn = Connection::open(&copy).unwrap();
    assert_eq!(poste_core::store::table_digest::digest(&conn).unwrap(), desk.tables().digest);
}

// ── Replaced and damaged files ───────────────────────────────────────────────────────────────────────────────

#[test]
fn a_replaced_database_is_noticed_by_the_next_write() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.leave_unverified();
    let mut other = Desk::with(&["ann", "bob"]);
    other.leave_unverified();
    let theirs = other.place.path.join("office.db");
    let before = poste_core::store::table_digest::digest(other.office.store().conn()).unwrap();
    // Checkpoint, so that the moved file holds everything.
    tamper(&theirs, "PRAGMA wal_checkpoint(TRUNCATE)");
    fs::rename(&theirs, desk.place.path.join("office.db")).unwrap();

    let proposal = desk.proposal("ann", Intent::Send(letter("bob", "message")), None);
    for _ in 0..2 {
        let error = desk.office.propose(&proposal, &Rules::none()).unwrap_err();
        assert!(matches!(error, Error::Replaced(_)), "{error}");
    }
    let untouched = poste_core::store::table_digest::digest(other.office.store().conn()).unwrap();
    assert_eq!(untouched, before, "nothing was written to the replacement");
}

#[test]
fn a_deleted_database_is_noticed_by_the_next_write() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.leave_unverified();
    fs::remove_file(desk.place.path.join("office.db")).unwrap();
    let proposal = desk.proposal("ann", Intent::Send(letter("bob", "message")), None);
    assert!(matches!(desk.office.propose(&proposal, &Rules::none()), Err(Error::Replaced(_))));
    assert!(matches!(desk.place.open(), Err(Error::NoOffice(_))), "it is not silently created again");
}

#[test]
fn a_wal_or_shared_memory_without_a_name_is_not_written() {
    for file in ["office.db-wal", "office.db-shm"] {
        let mut desk = Desk::with(&["ann", "bob"]);
        desk.leave_unverified();
        let before = desk.head();
        fs::remove_file(desk.place.path.join(file)).unwrap();
        let proposal = desk.proposal("ann", Intent::Send(letter("bob", "message")), None);
        let error = desk.office.propose(&proposal, &Rules::none()).unwrap_err();
        assert!(matches!(error, Error::Replaced(_)), "{file}: {error}");
        assert_eq!(desk.head(), before, "{file}");
    }
}

#[test]
fn whoever_writes_often_may_let_the_wal_grow_and_leaves_it_short() {
    const SHORT: u64 = 512 * 1024;
    let mut desk = Desk::with(&["ann", "bob"]);
    let mut office = desk.place.open().unwrap();
    let wal = desk.place.path.join("office.db-wal");
    let length = || fs::metadata(&wal).unwrap().len();
    for _ in 0..80 {
        let proposal = desk.proposal("ann", Intent::Send(letter("bob", "message")), None);
        office.propose(&proposal, &Rules::none()).unwrap();
    }
    assert!(length() > 2 * SHORT, "{}", length());
    drop(office);
    assert!(length() <= SHORT, "{}", length());
}

#[test]
fn a_folder_that_is_gone_is_an_office_that_was_deleted() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.leave_unverified();
    fs::remove_dir_all(&desk.place.path).unwrap();
    let proposal = desk.proposal("ann", Intent::Send(letter("bob", "message")), None);
    assert!(matches!(desk.office.propose(&proposal, &Rules::none()), Err(Error::Replaced(_))));
    assert!(!desk.place.path.exists());
}

#[test]
fn records_lost_with_the_wal_are_told_by_the_bell() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.leave_unverified();
    tamper(&desk.place.path.join("office.db"), "PRAGMA wal_checkpoint(TRUNCATE)");
    let lost = desk.send("ann", "bob", "message");
    let damaged = desk.place.path.with_file_name("damaged");
    // Copied by another process: closing the database in this one would drop SQLite's locks on it.
    let copied = std::process::Command::new("cp").arg("-r").arg(&desk.place.path).arg(&damaged).status();
    assert!(copied.unwrap().success());
    // With one bit of the last page flipped, SQLite takes the transaction for an incomplete one.
    let mut bytes = fs::read(damaged.join("office.db-wal")).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(damaged.join("office.db-wal"), bytes).unwrap();

    let office = Place { path: damaged, ..desk.place.clone() }.open().unwrap();
    assert!(views::message(office.store(), lost).unwrap().is_none(), "SQLite has silently dropped it");
    let report = views::verify(office.store(), |_| {}).unwrap();
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert!(report.problems[0].what.contains("was committed"), "{:?}", report.problems);
    let sound = views::verify(desk.office.store(), |_| {}).unwrap();
    assert_eq!(sound.summary(), "");
}

#[test]
fn a_file_that_asks_for_a_newer_writer_can_be_read_but_not_written() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = accepted(desk.post("ann", Send { not_before: after(HOUR), ..letter("bob", "message") })).number;
    // This program has the file open: a process may outlive an upgrade.
    tamper(&desk.place.path.join("office.db"), "UPDATE meta SET value = 99 WHERE key = 'min_writer'");
    let proposal = desk.proposal("ann", Intent::Send(letter("bob", "message")), None);
    for reopened in [false, true] {
        if reopened {
            desk.office = desk.place.open().expect("it may be read");
        }
        let error = desk.try_outcome(&proposal).expect_err("it may not be written");
        assert!(matches!(error, Error::NeedsUpgrade { what: "write", needed: 99, .. }), "{error}");
        assert_eq!(views::message(desk.office.store(), number).unwrap().unwrap().body, "please");
    }
    desk.clock.pass(HOUR);
    assert_eq!(desk.office.settle().unwrap(), Settled::No);
    assert!(desk.track(number).unconfirmed, "what is due is shown as unconfirmed");
}

#[test]
fn a_file_that_asks_for_a_newer_reader_is_not_opened() {
    let desk = Desk::with(&["ann"]);
    tamper(&desk.place.path.join("office.db"), "UPDATE meta SET value = 99 WHERE key = 'min_reader'");
    let error = desk.place.open().expect_err("it may not be read");
    assert!(matches!(error, Error::NeedsUpgrade { what: "read", needed: 99, .. }), "{error}");
}

#[test]
fn verify_finds_a_table_that_is_not_what_the_log_folds_to() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.leave_unverified();
    desk.send("ann", "bob", "directive");
    desk.verify();
    tamper(&desk.place.path.join("office.db"), "UPDATE deliveries SET attempts = 3");
    let report = views::verify(desk.office.store(), |_| {}).unwrap();
    assert_eq!(report.summary(), "table deliveries does not match the log");
}

#[test]
fn a_commit_that_fails_is_an_unknown_outcome_that_names_the_id_and_the_next_write_goes_on() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let proposal = desk.proposal("ann", Intent::Send(letter("bob", "message")), Some(text("hello")));
    // A real COMMIT that fails at the last moment: a deferred foreign key of this connection, which is only checked
    // then, and which every new record violates.
    let promise = "PRAGMA foreign_keys = ON;
        CREATE TEMP TABLE parent (key INTEGER PRIMARY KEY);
        CREATE TEMP TABLE child (key INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
        CREATE TEMP TRIGGER breaks AFTER INSERT ON main.log BEGIN INSERT INTO child VALUES (1); END;";
    desk.office.store().conn().execute_batch(promise).unwrap();
    let error = desk.office.propose(&proposal, &Rules::none()).expect_err("the commit is refused");
    match &error {
        Error::Unknown { ids, .. } => assert_eq!(ids, std::slice::from_ref(&proposal.id)),
        other => panic!("{other}"),
    }
    // The connection is not reused: the next write opens a new one, without the foreign key.
    assert_eq!(views::why_id(desk.office.store(), &proposal.id).unwrap().state, "absent");
    let outcome = desk.outcome(&proposal);
    assert!(!outcome.repeat);
    assert!(desk.outcome(&proposal).repeat, "a repeat has no second effect");
}

#[test]
fn a_database_that_cannot_grow_is_a_full_disk_and_loses_nothing() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let kept = desk.send("ann", "bob", "message");
    let head = desk.head();
    let conn = desk.office.store().conn();
    let pages: u32 = conn.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    conn.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
    let large = Content { body: Body(vec![b'x'; 60_000]), ..text("too much") };
    let proposal = desk.proposal("ann", Intent::Send(letter("bob", "message")), Some(large));
    let error = desk.office.propose(&proposal, &Rules::none()).expect_err("there is no room");
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    assert_eq!((desk.head(), desk.news("bob")), (head, vec![kept]), "reading still works, and nothing was written");
    let conn = desk.office.store().conn();
    conn.pragma_update_and_check(None, "max_page_count", 1_000_000, |_| Ok(())).unwrap();
    assert!(desk.outcome(&proposal).position.is_some(), "writing works again once there is room");
}

#[test]
fn content_that_went_missing_is_a_problem_and_not_a_footnote() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.send("ann", "bob", "message");
    desk.office.store().conn().execute("DELETE FROM content", []).unwrap();
    let report = views::verify(desk.office.store(), |_| {}).unwrap();
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    desk.leave_unverified();
}

// ── Shape ────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_part_that_is_too_much_missing_or_different_is_found() {
    let cases = [
        (
            "CREATE TRIGGER quiet AFTER INSERT ON messages BEGIN DELETE FROM deliveries; END",
            "the trigger \"quiet\" is not part of an office",
        ),
        // In LIKE, the underscore matches any character.
        (
            "CREATE TRIGGER sqlitequiet AFTER INSERT ON log BEGIN SELECT 1; END",
            "the trigger \"sqlitequiet\" is not part of an office",
        ),
        ("CREATE VIEW later AS SELECT * FROM messages", "the view \"later\" is not part of an office"),
        ("CREATE TABLE \"a b\" (no_key)", "the table \"a b\" is not part of an office"),
        ("CREATE INDEX slow ON log (at)", "the index \"slow\" is not part of an office"),
        ("DROP INDEX events_position", "the index \"events_position\" is missing"),
        (
            "DROP INDEX events_position; CREATE INDEX events_position ON events (position) WHERE position > 9",
            "the index \"events_position\" differs from that of an office",
        ),
        (
            "ALTER TABLE log RENAME TO hidden; CREATE VIEW log AS SELECT * FROM hidden",
            "the view \"log\" is not part of an office",
        ),
        ("ALTER TABLE meta ADD COLUMN more TEXT", "the table \"meta\" differs from that of an office"),
    ];
    for (sql, expected) in cases {
        let mut desk = Desk::with(&["ann", "bob"]);
        desk.send("ann", "bob", "message");
        desk.verify();
        desk.leave_unverified();
        tamper(&desk.place.path.join("office.db"), sql);
        let problems = desk.problems();
        assert!(problems.iter().any(|problem| problem == expected), "{sql}: {problems:?}");
    }
}

#[test]
fn what_a_foreign_program_counted_in_an_office_is_no_damage() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.send("ann", "bob", "message");
    tamper(&desk.place.path.join("office.db"), "ANALYZE");
    desk.verify();
}

#[test]
fn many_foreign_parts_are_counted_and_not_all_named() {
    let mut desk = Desk::with(&["ann"]);
    desk.leave_unverified();
    let views: String = (0..500).map(|number| format!("CREATE VIEW v{number} AS SELECT 1;")).collect();
    tamper(&desk.place.path.join("office.db"), &views);
    let problems = desk.problems();
    assert_eq!(problems.len(), 21, "{problems:?}");
    assert_eq!(problems[20], "480 more parts of the database differ from those of an office");
}

// ── Existing folders ─────────────────────────────────────────────────────────────────────────────────────────

fn place_in(folder: &Path) -> Place {
    Place { path: folder.to_owned(), clock: std::sync::Arc::new(SystemClock), options: Options::default() }
}

#[test]
fn an_office_is_made_in_a_folder_of_its_own_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join(".gitignore"), "target\n").unwrap();
    assert!(matches!(place_in(&project).create(), Err(Error::NotEmpty(_))));
    assert_eq!(fs::read_to_string(project.join(".gitignore")).unwrap(), "target\n");
    assert_eq!(fs::read_dir(&project).unwrap().count(), 1);

    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(place_in(&empty).create().unwrap());
    assert_eq!(fs::metadata(&empty).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(!place_in(&empty).create().unwrap(), "it is there");
}

#[test]
fn a_log_that_lost_its_end_is_read_and_not_written() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.leave_unverified();
    let path = desk.place.path.clone();
    let copy = desk.folder.path().join("older.db");
    desk.office.store().conn().execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    let end = desk.head().0;
    desk.send("ann", "bob", "message");
    let stored = desk.head().0;
    let elsewhere = place_in(&desk.folder.path().join("elsewhere"));
    elsewhere.create().unwrap();
    desk.office = elsewhere.open().unwrap(); // an office that no process has open
    for name in ["office.db-wal", "office.db-shm"] {
        fs::remove_file(path.join(name)).unwrap();
    }
    fs::copy(&copy, path.join("office.db")).unwrap();
    make_private(&path.join("office.db"));

    desk.office = desk.place.open().unwrap();
    assert_eq!(views::roster(desk.office.store()).unwrap().len(), 2, "it can still be read");
    let proposal = desk.proposal("ann", Intent::Send(letter("bob", "message")), None);
    match desk.try_outcome(&proposal) {
        Err(Error::Lost { stored: rung, end: head }) => assert_eq!((rung, head), (stored, end)),
        other => panic!("{other:?}"),
    }
    fs::write(path.join("bell"), "").unwrap(); // without a bell, writing is allowed again
    desk.send("ann", "bob", "message");
}

/// A copy of a used office that no process has open, with some of its files emptied or deleted.
fn emptied(empty: &[&str], delete: &[&str]) -> (tempfile::TempDir, Place) {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.send("ann", "bob", "message");
    let folder = tempfile::tempdir().unwrap();
    let place = Place { path: folder.path().join(".poste"), ..desk.place.clone() };
    fs::create_dir_all(place.path.join("blobs")).unwrap();
    make_private(&place.path);
    for name in ["office.db", "office.db-wal", "office.db-shm", "bell", ".gitignore", "write.lock"] {
        fs::copy(desk.place.path.join(name), place.path.join(name)).unwrap();
    }
    empty.iter().for_each(|name| fs::write(place.path.join(name), "").unwrap());
    delete.iter().for_each(|name| fs::remove_file(place.path.join(name)).unwrap());
    (folder, place)
}

/// What an interrupted creation leaves: a database with one empty page.
fn give_it_a_page(place: &Place) {
    let conn = Connection::open(place.path.join("office.db")).unwrap();
    conn.pragma_update(None, "journal_mode", "wal").unwrap();
}

#[track_caller]
fn assert_not_begun_anew(place: &Place, sign: &str) {
    let wal = || fs::read(place.path.join("office.db-wal")).unwrap_or_default();
    let before = wal();
    match place.create() {
        Err(Error::Emptied { sign: told, .. }) => assert_eq!(told, sign),
        other => panic!("{other:?}"),
    }
    assert!(matches!(place.open(), Err(Error::Emptied { .. } | Error::NoOffice(_) | Error::Unfinished(_))));
    assert_eq!(wal(), before, "the remaining mail is not touched");
}

#[test]
fn an_office_whose_database_is_empty_or_gone_is_not_begun_anew() {
    let gone = ["office.db-wal", "office.db-shm"];
    assert_not_begun_anew(&emptied(&["office.db"], &gone).1, "the bell was rung for record 4");
    assert_not_begun_anew(&emptied(&["office.db", "bell"], &[]).1, "office.db-wal is not empty");
    assert_not_begun_anew(&emptied(&["bell"], &["office.db"]).1, "office.db-wal is not empty");
    for name in ["blobs", "archive"] {
        let (_folder, place) = emptied(&["office.db", "bell"], &gone);
        fs::create_dir_all(place.path.join(name)).unwrap();
        fs::write(place.path.join(name).join("1"), "mail").unwrap();
        assert_not_begun_anew(&place, &format!("{name}/ is not empty"));
    }
    let (_folder, place) = emptied(&["office.db"], &gone);
    give_it_a_page(&place);
    assert_not_begun_anew(&place, "the bell was rung for record 4");
}

#[test]
fn a_creation_that_was_cut_off_anywhere_is_finished_by_the_next_one() {
    let finished = |(_folder, place): (tempfile::TempDir, Place), has_page: bool| {
        if has_page {
            give_it_a_page(&place);
        }
        assert!(place.create().expect("it is finished"));
        place.open().expect("it opens");
    };
    let gone = ["office.db-wal", "office.db-shm"];
    finished(emptied(&["office.db"], &[&gone[..], &["bell", ".gitignore"]].concat()), false);
    finished(emptied(&["office.db", "bell"], &gone), false);
    finished(emptied(&["office.db", "bell"], &gone), true);
    finished(emptied(&["bell"], &[&gone[..], &["office.db"]].concat()), false);
}
