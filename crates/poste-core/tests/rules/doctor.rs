//! What the doctor finds: each fault is made, found, fixed where that is safe, and then no longer found.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use poste_core::doctor::{Finding, Mended, Report, Request, Severity, apply_fixes, examine};
use poste_core::fold::{Action, Code};
use poste_core::limits::CONTENT_INLINE_BYTES_MAX;
use poste_core::log::{Archive, Artifact, ArtifactState, Body, Content, Intent, Send};
use poste_core::office::Rules;
use poste_core::store::tables::State;
use poste_core::store::{Folder, WriteLock};
use poste_core::views;
use poste_core::{Digest, Error};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::common::*;

fn look_with(desk: &Desk, request: Request) -> Report {
    examine(&desk.place, request, &mut |_| {}).expect("any office can be examined")
}

fn look(desk: &Desk) -> Report {
    look_with(desk, Request::default())
}

/// The findings of one check.
fn found(desk: &Desk, check: &str) -> Vec<Finding> {
    look(desk).findings.into_iter().filter(|finding| finding.check == check).collect()
}

/// The verb that a finding names, with its input.
fn verb(finding: &Finding) -> (&'static str, Value) {
    let verb = finding.verb.as_ref().expect("it names a verb");
    (verb.name, Value::Object(verb.input.clone()))
}

/// Exactly one finding, of this check.
#[track_caller]
fn only(desk: &Desk, severity: Severity, check: &str) -> Finding {
    let mut findings = look(desk).findings;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!((findings[0].severity, findings[0].check), (severity, check), "{findings:#?}");
    findings.remove(0)
}

#[track_caller]
fn assert_content(desk: &Desk) {
    let findings = look(desk).findings;
    assert!(findings.is_empty(), "{findings:#?}");
}

/// Applies all fixes, and asserts that each succeeded.
#[track_caller]
fn mended(desk: &Desk) -> Vec<Mended> {
    let done = apply_fixes(&desk.place, &look(desk), &mut |_| {});
    assert!(!done.is_empty() && done.iter().all(|mended| mended.failed.is_none()), "{done:#?}");
    done
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Sets a file's modification time back.
fn make_old(path: &Path, ms: i64) {
    let file = File::options().append(true).open(path).unwrap();
    let now = file.metadata().unwrap().modified().unwrap();
    file.set_modified(now - Duration::from_millis(ms.unsigned_abs())).unwrap();
}

fn tamper(desk: &Desk, sql: &str) {
    Connection::open(desk.place.path.join("office.db")).unwrap().execute_batch(sql).unwrap();
}

fn large(byte: u8) -> Content {
    Content { body: Body(vec![byte; CONTENT_INLINE_BYTES_MAX + 1]), ..Content::default() }
}

fn send_large(desk: &mut Desk, byte: u8) {
    accepted(desk.say("ann", Intent::Send(letter("bob", "message")), Some(large(byte))));
}

fn attached(digest: Digest) -> Intent {
    let artifact = Artifact {
        path: "plan.md".to_owned(),
        worktree: None,
        state: ArtifactState::Attached,
        size: Some(4),
        digest: Some(digest),
    };
    Intent::Send(Send { artifacts: vec![artifact], ..letter("bob", "message") })
}

#[test]
fn an_office_at_work_is_content() {
    let mut desk = Desk::with(&["ann", "bob"]);
    send_large(&mut desk, b'x');
    let blob = desk.office.store().blobs().unwrap().put(b"plan").unwrap();
    accepted(desk.say("ann", attached(blob.digest), None));
    let number = desk.send("ann", "bob", "directive");
    accepted(desk.claim("bob", number));
    desk.pass(MINUTE);
    assert_content(&desk);
    assert_eq!(look_with(&desk, Request { quick: true, ..Request::default() }).count(Severity::Problem), 0);
}

#[test]
fn looking_changes_nothing() {
    let desk = Desk::with(&["ann", "bob"]);
    let before = desk.tables();
    let listing = |desk: &Desk| -> Vec<_> {
        let entries = fs::read_dir(&desk.place.path).unwrap().map(Result::unwrap);
        let mut all: Vec<_> = entries.map(|entry| (entry.file_name(), entry.metadata().unwrap().len())).collect();
        all.sort();
        all
    };
    let files = listing(&desk);
    set_mode(&desk.place.path, 0o755);
    look(&desk);
    assert_eq!((desk.tables(), listing(&desk), mode(&desk.place.path)), (before, files, 0o755));
}

// ── The folder ───────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn what_others_may_read_is_closed() {
    let mut desk = Desk::with(&["ann", "bob"]);
    send_large(&mut desk, b'x');
    let path = |name: &str| desk.place.path.join(name);
    set_mode(&desk.place.path, 0o755);
    assert_eq!(only(&desk, Severity::Problem, "permissions").command.unwrap().split(' ').next(), Some("chmod"));
    set_mode(&path("office.db"), 0o644);
    set_mode(&path("blobs"), 0o750);
    let blob = fs::read_dir(path("blobs")).unwrap().next().unwrap().unwrap().path();
    set_mode(&blob, 0o640);
    assert_eq!(found(&desk, "permissions").len(), 4);
    assert_eq!(mended(&desk).len(), 4);
    assert_content(&desk);
    assert_eq!([&desk.place.path, &path("blobs")].map(|path| mode(path)), [0o700, 0o700]);
    assert_eq!([&path("office.db"), &blob].map(|path| mode(path)), [0o600, 0o600]);
}

#[test]
fn many_open_files_are_counted_and_all_are_closed() {
    let desk = Desk::with(&["ann"]);
    for number in 0..20 {
        let name = Digest::of(&[number]).to_string();
        fs::write(desk.place.path.join("blobs").join(name), "x").unwrap();
    }
    for entry in fs::read_dir(desk.place.path.join("blobs")).unwrap() {
        set_mode(&entry.unwrap().path(), 0o644);
    }
    let findings = found(&desk, "permissions");
    assert_eq!(findings.len(), 9, "eight are named, the rest counted");
    assert!(findings[8].what.starts_with("12 more files"), "{}", findings[8].what);
    mended(&desk);
    assert!(found(&desk, "permissions").is_empty());
}

#[test]
fn what_a_link_leads_to_is_told_and_not_touched() {
    let desk = Desk::with(&["ann"]);
    let outside = desk.config().with_file_name("outside");
    fs::write(&outside, "").unwrap();
    set_mode(&outside, 0o644);
    std::os::unix::fs::symlink(&outside, desk.place.path.join("search.db")).unwrap();
    assert!(!only(&desk, Severity::Warning, "link").fixable);
    assert!(apply_fixes(&desk.place, &look(&desk), &mut |_| {}).is_empty());
    assert_eq!(mode(&outside), 0o644);
}

#[test]
fn what_every_office_has_is_made_again() {
    let desk = Desk::with(&["ann"]);
    fs::remove_file(desk.place.path.join("bell")).unwrap();
    fs::remove_file(desk.place.path.join(".gitignore")).unwrap();
    fs::remove_dir(desk.place.path.join("blobs")).unwrap();
    assert_eq!(found(&desk, "missing").len(), 3);
    assert_eq!(mended(&desk).len(), 1, "all made by one fix");
    assert_content(&desk);
    assert_eq!(fs::read_to_string(desk.place.path.join(".gitignore")).unwrap(), "*\n");
    assert_eq!(mode(&desk.place.path.join("blobs")), 0o700);
}

#[test]
fn what_interrupted_commands_left_is_cleared_away_once_nobody_can_want_it() {
    let desk = Desk::with(&["ann"]);
    let blob = desk.place.path.join("blobs/tmp-1234");
    fs::write(&blob, "half").unwrap();
    set_mode(&blob, 0o600);
    assert_content(&desk);
    make_old(&blob, 10 * MINUTE + SECOND);
    assert!(only(&desk, Severity::Warning, "leftover").what.contains("1 unfinished file"));
    mended(&desk);
    assert!(!blob.exists());

    let copy = desk.place.path.join("before-schema-2.tmp");
    fs::write(&copy, "half").unwrap();
    set_mode(&copy, 0o600);
    only(&desk, Severity::Warning, "leftover");
    mended(&desk);
    assert!(!copy.exists());

    let kept = desk.place.path.join("before-schema-2.db");
    fs::write(&kept, "whole").unwrap();
    set_mode(&kept, 0o600);
    assert!(!only(&desk, Severity::Note, "copy").fixable, "only its owner may delete a copy");
}

#[test]
fn an_abandoned_restore_is_cleared_away_and_a_replaced_office_is_not() {
    let desk = Desk::with(&["ann"]);
    let beside = |name: &str| desk.config().with_file_name(name);
    fs::create_dir(beside(".poste.restoring-1")).unwrap();
    fs::create_dir(beside(".poste.before-restore-20270115T080000Z")).unwrap();
    assert_eq!(look(&desk).findings.len(), 2);
    assert_eq!(mended(&desk).len(), 1);
    assert!(!beside(".poste.restoring-1").exists());
    only(&desk, Severity::Note, "copy");
}

#[test]
fn a_place_without_a_folder_is_named() {
    let mut desk = Desk::with(&["ann"]);
    desk.leave_unverified();
    fs::remove_dir_all(&desk.place.path).unwrap();
    assert!(matches!(examine(&desk.place, Request::default(), &mut |_| {}), Err(Error::NoOffice(_))));
    fs::write(&desk.place.path, "a file").unwrap();
    only(&desk, Severity::Problem, "not_an_office");
    fs::remove_file(&desk.place.path).unwrap();
    std::os::unix::fs::symlink("nowhere", &desk.place.path).unwrap();
    assert!(only(&desk, Severity::Problem, "not_an_office").what.contains("dangling link"));
}

// ── Archives ─────────────────────────────────────────────────────────────────────────────────────────────────

/// An archive whose writer was killed an hour ago, before it appended the record.
fn interrupted_archive(desk: &mut Desk) -> Archive {
    desk.send_and_ack("ann", "bob", text("hello"));
    let archive = desk.write_archive();
    assert_content(desk);
    make_old(&desk.place.path.join("archive").join(&archive.file), HOUR + SECOND);
    archive
}

#[test]
fn an_archive_nobody_names_is_removed_when_it_is_old_and_one_that_is_named_never() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.send_and_ack("ann", "bob", text("first"));
    let named = desk.archive("ann");
    let folder = desk.place.path.join("archive");
    make_old(&folder.join(&named.file), 2 * HOUR);
    let orphan = interrupted_archive(&mut desk);
    // Poste never uses this name, so the file belongs to another program.
    fs::write(folder.join("notes.jsonl"), "mine").unwrap();
    set_mode(&folder.join("notes.jsonl"), 0o600);
    make_old(&folder.join("notes.jsonl"), 2 * HOUR);
    let found = only(&desk, Severity::Warning, "orphans");
    assert!(found.what.starts_with("1 archive with "), "{}", found.what);
    let quick = look_with(&desk, Request { quick: true, ..Request::default() });
    assert_eq!(quick.findings.len(), 1, "a quick look does not read the log");
    assert_eq!(mended(&desk)[0].what, "removed 1 archive that no record names");
    assert_content(&desk);
    assert!(!folder.join(&orphan.file).exists());
    assert!(folder.join(&named.file).exists() && folder.join("notes.jsonl").exists());
}

#[test]
fn an_archive_that_was_named_since_it_was_looked_at_stays() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let archive = interrupted_archive(&mut desk);
    let report = look(&desk);
    assert_eq!(report.findings[0].check, "orphans");
    accepted(desk.propose_archive("ann", &archive));
    apply_fixes(&desk.place, &report, &mut |_| {});
    assert!(desk.place.path.join("archive").join(&archive.file).exists());
    desk.office.discard_archive(&archive).unwrap();
    assert!(desk.place.path.join("archive").join(&archive.file).exists(), "a record names it");
}

#[test]
fn no_conversation_leaves_the_database_for_a_file_that_is_not_there_or_another_one() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let archive = interrupted_archive(&mut desk);
    mended(&desk);
    let why = refused(desk.propose_archive("ann", &archive), Code::NotFinished);
    assert!(why.contains("is missing; archive again"), "{why}");
    let path = desk.place.path.join("archive").join(&archive.file);
    fs::write(&path, "{\"position\":1,\"at\":1,\"by\":\"ann\",\"kind\":\"x\",\"content\":null}\n").unwrap();
    refused(desk.propose_archive("ann", &archive), Code::NotFinished);
    fs::remove_file(&path).unwrap();
    desk.archive("ann");
}

#[test]
fn an_archive_with_mail_that_the_log_lacks_is_a_problem_and_kept() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let archive = interrupted_archive(&mut desk);
    let path = desk.place.path.join("archive").join(&archive.file);
    let text = fs::read_to_string(&path).unwrap();
    for other in [text.replace("hello", "hullo"), text.replace("{\"position\":", "{\"position\":99"), "{".to_owned()] {
        fs::write(&path, other).unwrap();
        make_old(&path, HOUR + SECOND);
        let found = only(&desk, Severity::Problem, "orphans");
        assert!(!found.fixable && found.what.contains(&archive.file), "{found:?}");
        assert!(apply_fixes(&desk.place, &look(&desk), &mut |_| {}).is_empty());
    }
    // A file that is changed between finding and fixing is kept too.
    fs::write(&path, &text).unwrap();
    make_old(&path, HOUR + SECOND);
    let report = look(&desk);
    assert!(report.findings[0].fixable);
    fs::write(&path, text.replace("hello", "hullo")).unwrap();
    make_old(&path, HOUR + SECOND);
    apply_fixes(&desk.place, &report, &mut |_| {});
    assert!(path.exists());
}

#[test]
fn an_unfinished_archive_is_cleared_away() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.send_and_ack("ann", "bob", text("hello"));
    desk.archive("ann");
    let half = desk.place.path.join("archive/tmp-1234");
    fs::write(&half, "half").unwrap();
    set_mode(&half, 0o600);
    assert_content(&desk);
    make_old(&half, 10 * MINUTE + SECOND);
    assert!(only(&desk, Severity::Warning, "leftover").what.contains("1 unfinished file in archive/"));
    assert_eq!(mended(&desk)[0].what, "removed 1 unfinished file in archive/");
    assert!(!half.exists());
}

#[test]
fn an_erasure_that_was_interrupted_is_told_as_such_and_finished() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send_and_ack("ann", "bob", text("xylophone"));
    desk.archive("ann");
    desk.redact_message("ann", number);
    let found = only(&desk, Severity::Problem, "unerased");
    assert_eq!(verb(&found), ("redact", json!({ "finish": true })));
    let quick = look_with(&desk, Request { quick: true, ..Request::default() });
    assert_eq!(quick.findings[0].check, "unerased");
    assert!(!desk.files_with("xylophone").is_empty());
    mended(&desk);
    desk.assert_nowhere("xylophone");
    assert_content(&desk);
}

// ── Blobs ────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_blob_nobody_names_is_removed_when_it_is_old_and_one_that_is_named_never() {
    let mut desk = Desk::with(&["ann", "bob"]);
    send_large(&mut desk, b'x');
    let blobs = desk.office.store().blobs().unwrap().clone();
    let orphan = blobs.put(b"nobody's").unwrap().digest;
    let content = fs::read_dir(desk.place.path.join("blobs")).unwrap().count();
    assert_content(&desk);
    for entry in fs::read_dir(desk.place.path.join("blobs")).unwrap() {
        make_old(&entry.unwrap().path(), HOUR + SECOND);
    }
    assert!(only(&desk, Severity::Warning, "orphans").what.starts_with("1 blob with 8 bytes"));
    let quick = look_with(&desk, Request { quick: true, ..Request::default() });
    assert!(quick.findings.is_empty(), "a quick look does not read the log");
    mended(&desk);
    assert_content(&desk);
    assert!(!blobs.has(&orphan).unwrap());
    assert_eq!(fs::read_dir(desk.place.path.join("blobs")).unwrap().count(), content - 1);
}

#[test]
fn a_blob_that_was_named_since_it_was_looked_at_stays() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let blobs = desk.office.store().blobs().unwrap().clone();
    let digest = blobs.put(b"plan").unwrap().digest;
    make_old(&blobs.path(&digest), 2 * HOUR);
    let report = look(&desk);
    assert_eq!(report.findings[0].check, "orphans");
    accepted(desk.say("ann", attached(digest), None));
    apply_fixes(&desk.place, &report, &mut |_| {});
    assert!(blobs.has(&digest).unwrap(), "a record names it now");
    assert_content(&desk);
}

#[test]
fn no_new_record_names_a_copy_that_is_not_there_and_others_are_not_held_up_by_it() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let blobs = desk.office.store().blobs().unwrap().clone();
    let plan = blobs.put(b"plan").unwrap().digest;
    let sent = desk.proposal("ann", attached(plan), None);
    assert!(desk.outcome(&sent).position.is_some());
    fs::remove_file(blobs.path(&plan)).unwrap();

    let lacking = desk.proposal("ann", attached(plan), None);
    let plain = desk.proposal("ann", Intent::Send(letter("bob", "message")), None);
    let outcomes = desk.office.submit(&[lacking, plain, sent], &Rules::none()).unwrap();
    let refusal = outcomes[0].verdict.clone().accepted();
    assert!(refused(refusal, Code::Malformed).starts_with("plan.md: its copy is not in the office"));
    assert!(outcomes[1].position.is_some(), "others in its transaction are stored");
    assert!(outcomes[2].repeat, "a repeat of a stored one gets its answer");
    blobs.put(b"plan").unwrap();
}

#[test]
fn damaged_and_missing_blobs_are_problems() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.leave_unverified();
    send_large(&mut desk, b'x');
    let blob = fs::read_dir(desk.place.path.join("blobs")).unwrap().next().unwrap().unwrap().path();
    fs::write(&blob, "something else").unwrap();
    assert!(only(&desk, Severity::Problem, "unsound").what.contains("is damaged"));
    fs::remove_file(&blob).unwrap();
    assert!(only(&desk, Severity::Problem, "unsound").what.contains("is missing"));
    assert!(apply_fixes(&desk.place, &look(&desk), &mut |_| {}).is_empty(), "it cannot be fixed");
}

// ── The lock and the write-ahead log ─────────────────────────────────────────────────────────────────────────

#[test]
fn whoever_holds_the_lock_for_long_is_named_and_not_waited_for() {
    let mut desk = Desk::with(&["ann"]);
    desk.place.options.lock_timeout = Duration::from_secs(600);
    let held =
        WriteLock::new(&Folder::open(&desk.place.path).unwrap(), "a slow program").acquire(Duration::ZERO).unwrap();
    let begun = Instant::now();
    assert_content(&desk);
    make_old(&desk.place.path.join("write.lock"), MINUTE);
    let finding = only(&desk, Severity::Warning, "lock");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}: it waited for the lock", begun.elapsed());
    let name = format!("pid {} (a slow program) has held the write lock for 1m", std::process::id());
    assert!(finding.what.contains(&name), "{}", finding.what);
    drop(held);
    assert_content(&desk);
}

#[test]
fn the_name_of_a_dead_process_in_the_lock_is_told_only_when_asked_for() {
    let desk = Desk::with(&["ann"]);
    // No process has such a pid.
    fs::write(desk.place.path.join("write.lock"), "pid 4194999 (poste send)\n").unwrap();
    assert_content(&desk);
    let verbose = look_with(&desk, Request { verbose: true, ..Request::default() });
    assert!(verbose.findings.iter().any(|finding| finding.check == "lock" && finding.severity == Severity::Note));
}

#[test]
fn a_write_ahead_log_that_a_reader_keeps_from_being_emptied_is_told() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let reader = Connection::open(desk.place.path.join("office.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM log").unwrap();
    for _ in 0..120 {
        let content = Content { body: Body(vec![b'x'; 48 * 1024]), ..Content::default() };
        accepted(desk.say("ann", Intent::Send(letter("bob", "message")), Some(content)));
    }
    assert_eq!(found(&desk, "wal").len(), 1);
    let tried = apply_fixes(&desk.place, &look(&desk), &mut |_| {});
    assert!(tried[0].failed.is_some(), "the reader is still open: {tried:?}");
    reader.execute_batch("COMMIT").unwrap();
    mended(&desk);
    assert_content(&desk);
}

// ── The database ─────────────────────────────────────────────────────────────────────────────────────────────

/// Everything in the database file itself, as a checkpoint leaves it.
fn without_wal(desk: &mut Desk) -> std::path::PathBuf {
    desk.leave_unverified();
    let database = desk.place.path.join("office.db");
    Connection::open(&database).unwrap().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    database
}

#[test]
fn a_database_damaged_in_any_way_is_a_problem_and_never_a_panic() {
    let mut desk = Desk::with(&["ann", "bob"]);
    for _ in 0..50 {
        desk.send("ann", "bob", "message");
    }
    let database = without_wal(&mut desk);
    let whole = fs::read(&database).unwrap();
    let pages = whole.len() / 4096;
    for cut in [1, 50, 100, 4096, 4097, whole.len() / 2, whole.len() - 1] {
        fs::write(&database, &whole[..cut]).unwrap();
        assert!(look(&desk).count(Severity::Problem) > 0, "truncated to {cut} bytes");
    }
    for page in 0..pages {
        let mut damaged = whole.clone();
        damaged[page * 4096..(page + 1) * 4096].fill(0xa5);
        fs::write(&database, damaged).unwrap();
        assert!(look(&desk).count(Severity::Problem) > 0, "page {page}");
    }
    fs::write(&database, &whole).unwrap();
    assert_content(&desk);
}

#[test]
fn a_database_that_is_empty_or_gone_is_told_from_one_that_was_never_finished() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let database = without_wal(&mut desk);
    fs::remove_file(desk.place.path.join("office.db-wal")).unwrap();
    fs::remove_file(desk.place.path.join("office.db-shm")).unwrap();
    fs::write(&database, "").unwrap();
    assert!(only(&desk, Severity::Problem, "lost").what.contains("there were 3 records"));
    fs::remove_file(&database).unwrap();
    assert!(only(&desk, Severity::Problem, "lost").what.contains("missing"));
    fs::write(desk.place.path.join("bell"), "").unwrap();
    only(&desk, Severity::Problem, "no_database");
    fs::write(&database, "").unwrap();
    set_mode(&database, 0o600);
    let blob = desk.place.path.join("blobs/tmp-1");
    fs::write(&blob, "half").unwrap();
    set_mode(&blob, 0o600);
    assert!(only(&desk, Severity::Problem, "lost").what.ends_with("blobs/ is not empty"));
    fs::remove_file(&blob).unwrap();
    assert_eq!(verb(&only(&desk, Severity::Problem, "unfinished")), ("init", json!({})));
    fs::remove_file(&database).unwrap();
    fs::create_dir(&database).unwrap();
    set_mode(&database, 0o700);
    only(&desk, Severity::Problem, "not_an_office");
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let mut desk = Desk::with(&["ann"]);
    let database = without_wal(&mut desk);
    fs::remove_file(&database).unwrap();
    let other = Connection::open(&database).unwrap();
    other.execute_batch("PRAGMA application_id = 77; CREATE TABLE theirs (a)").unwrap();
    set_mode(&database, 0o600);
    assert!(only(&desk, Severity::Problem, "not_an_office").what.contains("another program"));
}

#[test]
fn a_log_that_ends_before_the_bell_has_lost_records() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.leave_unverified();
    let database = desk.place.path.join("office.db");
    Connection::open(&database).unwrap().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    desk.send("ann", "bob", "message");
    assert_content(&desk);
    // A copy of the database without its write-ahead log.
    let copy = fs::read(&database).unwrap();
    for name in ["office.db", "office.db-wal", "office.db-shm"] {
        fs::remove_file(desk.place.path.join(name)).unwrap();
    }
    fs::write(&database, copy).unwrap();
    set_mode(&database, 0o600);
    let finding = &found(&desk, "lost")[0];
    assert_eq!(finding.severity, Severity::Problem);
    assert!(finding.what.contains("ends at record 3, but record 4 was stored"), "{}", finding.what);
}

#[test]
fn what_a_newer_program_asks_is_told_as_upgrade() {
    let mut desk = Desk::with(&["ann"]);
    desk.leave_unverified();
    tamper(&desk, "PRAGMA user_version = 2");
    assert_eq!(found(&desk, "version")[0].severity, Severity::Note, "it can still be used");
    tamper(&desk, "UPDATE meta SET value = 2 WHERE key = 'min_writer'");
    assert!(found(&desk, "version")[0].meaning.contains("can read it"));
    tamper(&desk, "UPDATE meta SET value = 2 WHERE key = 'min_reader'; DROP TABLE deliveries");
    let finding = only(&desk, Severity::Problem, "version");
    assert_eq!(finding.advice.as_deref(), Some("upgrade poste"));
}

#[test]
fn tables_that_are_not_what_the_log_folds_to_are_a_problem() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.leave_unverified();
    tamper(&desk, "UPDATE agents SET registered_at = registered_at - 1 WHERE name = 'bob'");
    assert!(only(&desk, Severity::Problem, "unsound").what.contains("table agents"));
    let quick = look_with(&desk, Request { quick: true, ..Request::default() });
    assert!(quick.count(Severity::Problem) == 0, "only a fold of the whole log finds it");
}

// ── Clock and policy ─────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn leaps_of_the_clock_are_told() {
    let mut desk = Desk::with(&["ann"]);
    desk.clock.set_wall(2 * HOUR);
    only(&desk, Severity::Note, "clock");
    desk.clock.set_wall(2 * DAY);
    assert_eq!(verb(&only(&desk, Severity::Problem, "clock")), ("clock accept", json!({ "as": "NAME" })));
    desk.office.accept_clock(&"ann".parse().unwrap()).unwrap();
    assert_content(&desk);
    desk.clock.set_wall(-HOUR);
    assert!(only(&desk, Severity::Warning, "clock").what.contains("1h behind"));
    desk.clock.set_wall(HOUR);
    assert_content(&desk);
}

// ── Agents and claims ────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn an_agent_with_mail_that_does_nothing_is_silent_until_it_is_heard() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.register("eve", human());
    let number = desk.send("ann", "bob", "directive");
    desk.send("ann", "bob", "message");
    desk.pass(59 * MINUTE);
    assert_content(&desk);
    desk.pass(2 * MINUTE);
    let finding = only(&desk, Severity::Warning, "silent");
    assert!(finding.what.contains("bob has done nothing while #1 and 1 more waited for 1h 1m"), "{}", finding.what);
    let patient = look_with(&desk, Request { patience_ms: 2 * HOUR, ..Request::default() });
    assert!(patient.findings.is_empty());
    accepted(desk.shown("bob", number));
    assert_content(&desk);
    accepted(desk.done("bob", number));
    desk.send("ann", "eve", "message");
    desk.pass(30 * MINUTE);
    assert_content(&desk);
    desk.pass(31 * MINUTE);
    let findings = found(&desk, "silent");
    let severities: Vec<_> = findings.iter().map(|finding| (finding.severity, &finding.what[..3])).collect();
    assert_eq!(severities, [(Severity::Warning, "bob"), (Severity::Note, "eve")], "people may sleep");
    assert_eq!(overdue_silent(&desk), [("bob".to_owned(), 1), ("eve".to_owned(), 1)], "poste overdue agrees");
}

/// The silent agents of `poste overdue`, and how much mail each has.
fn overdue_silent(desk: &Desk) -> Vec<(String, u64)> {
    let patience = views::Patience { unclaimed_ms: HOUR, lease_ms: MINUTE };
    let silent = views::overdue(desk.office.store(), patience, desk.now()).unwrap().silent;
    silent.into_iter().map(|agent| (agent.name.to_string(), agent.pending)).collect()
}

#[test]
fn mail_that_is_not_ready_makes_nobody_silent() {
    let mut desk = Desk::with(&["ann", "bob"]);
    accepted(desk.post("ann", Send { not_before: after(3 * HOUR), ..letter("bob", "directive") }));
    desk.pass(2 * HOUR);
    assert_content(&desk);
    desk.pass(90 * MINUTE);
    assert_content(&desk);
    assert_eq!(overdue_silent(&desk), []);
    desk.pass(HOUR + MINUTE);
    // The wait counts from the tick that made it ready, not from the send.
    assert!(only(&desk, Severity::Warning, "silent").what.ends_with("waited for 1h 1m"));
}

#[test]
fn mail_for_a_group_without_members_and_for_nobody_is_told() {
    let mut desk = Desk::with(&["ann"]);
    desk.register("rex", with_role("reviewer"));
    desk.send("ann", "role:reviewer", "directive");
    assert_content(&desk);
    accepted(desk.retire("ann", "rex"));
    let finding = only(&desk, Severity::Warning, "unreachable");
    assert!(finding.what.contains("1 open message for role:reviewer"), "{}", finding.what);
    desk.register("rey", with_role("reviewer"));
    assert_content(&desk);

    desk.leave_unverified();
    desk.send("ann", "rey", "message");
    tamper(&desk, "UPDATE agents SET retired_at = 1 WHERE name = 'rey'");
    assert!(found(&desk, "unreachable").iter().any(|finding| finding.what.contains("rey, which is retired")));
    tamper(&desk, "DELETE FROM agents WHERE name = 'rey'");
    assert!(found(&desk, "unreachable").iter().any(|finding| finding.what.contains("rey, which is not registered")));
}

#[test]
fn a_lease_that_is_over_and_not_recorded_is_recorded() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    accepted(desk.post("ann", Send { expires: after(LEASE), ..letter("bob", "directive") }));
    accepted(desk.claim("bob", number));
    desk.clock.pass(LEASE - SECOND);
    assert_content(&desk);
    desk.clock.pass(5 * MINUTE);
    assert!(only(&desk, Severity::Warning, "claim").what.contains("ended 4m ago"));
    let mut actions = Vec::new();
    let done = apply_fixes(&desk.place, &look(&desk), &mut |office| actions.extend(office.take_actions()));
    assert!(done.len() == 1 && done[0].failed.is_none(), "{done:#?}");
    assert_eq!(desk.state(number), State::Pending);
    let told = Action::Ring { message: desk.last_message(), address: "ann".parse().unwrap() };
    assert_eq!(actions, [told], "ann is rung for the notice");
    assert_content(&desk);
}

#[test]
fn a_claim_that_is_extended_again_and_again_is_told() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    let token = accepted(desk.claim("bob/run-1", number));
    for _ in 0..7 {
        desk.pass(9 * MINUTE);
        accepted(desk.extend("bob/run-1", number, None));
    }
    let finding = only(&desk, Severity::Warning, "claim");
    assert_eq!(finding.what, "bob has held #1 in session run-1 for 1h 3m and extended it 7 times");
    assert_eq!(verb(&finding), ("release", json!({ "number": 1, "token": token, "as": "bob" })));
    accepted(desk.release("bob", number, Some(token)));
    assert_content(&desk);
}

#[test]
fn a_claim_of_somebody_who_is_gone_is_a_problem() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.leave_unverified();
    let number = desk.send("ann", "bob", "directive");
    accepted(desk.claim("bob", number));
    tamper(&desk, "UPDATE agents SET retired_at = 1 WHERE name = 'bob'");
    assert!(found(&desk, "claim")[0].what.contains("held by bob, which is not active"));
}

fn make_pipe(path: &std::path::Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
    assert!(made.success());
}

#[test]
fn names_that_something_else_has_taken_are_told_with_advice() {
    let desk = Desk::with(&["ann"]);
    for name in ["bell", "write.lock"] {
        fs::remove_file(desk.place.path.join(name)).unwrap();
    }
    make_pipe(&desk.place.path.join("bell"));
    fs::create_dir(desk.place.path.join("write.lock")).unwrap();
    set_mode(&desk.place.path.join("write.lock"), 0o700);
    // No process ever writes to that pipe, so reading from it would block for ever.
    let findings = found(&desk, "shape");
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings.iter().all(|finding| finding.advice.is_some() && finding.command.is_some()));
    fs::remove_file(desk.place.path.join("bell")).unwrap();
    fs::remove_dir(desk.place.path.join("write.lock")).unwrap();
    mended(&desk);
    assert_content(&desk);
}

#[test]
fn a_bell_that_is_a_link_is_told_and_never_written_through() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let outside = desk.config().with_file_name("outside");
    fs::write(&outside, "somebody's notes, somebody's notes").unwrap();
    set_mode(&outside, 0o600);
    let bell = desk.place.path.join("bell");
    fs::remove_file(&bell).unwrap();
    std::os::unix::fs::symlink(&outside, &bell).unwrap();
    desk.send("ann", "bob", "message");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "somebody's notes, somebody's notes");
    let link = only(&desk, Severity::Warning, "link");
    assert!(link.advice.is_some_and(|advice| advice.contains("remove it")));
}
