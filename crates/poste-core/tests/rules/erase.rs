//! Erasing: afterwards, a search through every byte of the folder finds no redacted content.

use std::fs;
use std::time::Duration;

use poste_core::fold::Code;
use poste_core::log::{Artifact, ArtifactState, Body, Content, Done, Ends, EndsHow, Intent, Send};
use poste_core::store::Options;
use poste_core::views;
use poste_core::{Digest, Error, MessageNo, Position};

use crate::common::*;

const MARKER: &str = "xylophone-Quartz-4711";
const OTHER: &str = "harmless-but-present-0815";

fn desk() -> Desk {
    let mut desk = Desk::with(&["lead", "bob", "cy"]);
    desk.register("ann", human());
    desk
}

fn secret() -> Content {
    Content {
        subject: format!("about {MARKER}"),
        body: Body::from(format!("it is {MARKER}, and again {MARKER}").as_str()),
        summary: Some(MARKER.to_owned()),
        ..Content::default()
    }
}

fn large_secret() -> Content {
    let content = text(&format!("{MARKER} {}", "padding ".repeat(10_000)));
    assert!(content.encode().len() > 64 * 1024);
    content
}

fn harmless(count: usize) -> Content {
    text(&format!("{OTHER} {count} {}", "y".repeat(count * 61 % 3_000)))
}

fn attached(desk: &Desk, bytes: &[u8], state: ArtifactState) -> Artifact {
    let stored = match state {
        ArtifactState::Attached => {
            desk.office.store().blobs().expect("a folder").put(bytes).expect("it is stored").digest
        }
        _ => Digest::of(bytes),
    };
    Artifact {
        path: "notes.txt".to_owned(),
        worktree: None,
        state,
        size: Some(bytes.len() as u64),
        digest: Some(stored),
    }
}

fn send_with(desk: &mut Desk, from: &str, artifact: Artifact) -> MessageNo {
    let letter = Send { artifacts: vec![artifact], ..letter("bob", "message") };
    desk.send_saying(from, letter, text("see the file"))
}

#[test]
fn words_are_gone_from_every_file_also_when_much_was_written_before_and_after_them() {
    let mut desk = desk();
    let some = |count: usize| (letter("bob", "message"), harmless(count));
    desk.send_and_ack_many("lead", "bob", (0..300).map(some));
    let number = desk.send_saying("lead", letter("bob", "directive"), secret());
    desk.send_and_ack_many("cy", "bob", (0..300).map(some));
    assert!(!desk.files_with(MARKER).is_empty(), "the search finds it before");
    desk.redact_message("lead", number);
    assert!(!desk.files_with(MARKER).is_empty(), "the record alone erases it from the tables only");
    assert_eq!(desk.problems().len(), 1);
    assert!(desk.problems()[0].contains("is not erased from every file yet"));
    desk.office.erase().expect("it is erased");
    desk.assert_nowhere(MARKER);
    assert!(!desk.files_with(OTHER).is_empty(), "all other content is kept");
    desk.verify();
}

#[test]
fn they_are_gone_from_the_wal_and_from_free_pages() {
    let mut desk = desk();
    // The content is checkpointed into the database, written to the WAL again with a changed page, and then deleted,
    // which leaves it in free pages.
    let numbers: Vec<MessageNo> =
        (0..40).map(|_| desk.send_saying("lead", letter("bob", "message"), secret())).collect();
    let conn = desk.office.store().conn();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("a checkpoint");
    for number in &numbers {
        accepted(desk.ack("bob", *number));
    }
    let positions: Vec<Position> = numbers.iter().map(|number| desk.position(*number)).collect();
    accepted(desk.redact("lead", &positions));
    let names: Vec<String> = desk
        .files_with(MARKER)
        .iter()
        .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert!(names.contains(&"office.db".to_owned()), "{names:?}");
    desk.office.erase().expect("it is erased");
    desk.assert_nowhere(MARKER);
}

#[test]
fn a_result_a_note_a_reason_and_an_outcome_can_be_erased() {
    let mut desk = desk();
    let number = desk.send("lead", "bob", "directive");
    let mut positions = vec![desk.done_saying("bob", number, MARKER)];
    let other = desk.send("lead", "bob", "directive");
    let fail = Intent::Fail(poste_core::log::Fail { message: other, token: None, retry: false, delay_ms: None });
    accepted(desk.say("bob", fail, Some(secret())));
    positions.push(desk.head());
    let drop = Intent::Drop(poste_core::log::Drop { message: other, recipient: None });
    accepted(desk.say("lead", drop, Some(secret())));
    positions.push(desk.head());
    accepted(desk.say("lead", Intent::Close(poste_core::log::Close { message: other }), Some(secret())));
    positions.push(desk.head());
    assert_eq!(accepted(desk.redact("ann", &positions)), 4);
    desk.office.erase().expect("it is erased");
    desk.assert_nowhere(MARKER);
}

#[test]
fn a_body_that_is_no_text_is_found_and_erased_too() {
    let mut desk = desk();
    let body = Body([b"\xff\x00", MARKER.as_bytes(), b"\xfe"].concat());
    let number = desk.send_saying("lead", letter("bob", "message"), Content { body, ..Content::default() });
    assert!(!desk.files_with(MARKER).is_empty());
    desk.redact_message("lead", number);
    desk.office.erase().expect("it is erased");
    desk.assert_nowhere(MARKER);
}

#[test]
fn a_blob_goes_and_does_not_come_back_with_a_repeat() {
    let mut desk = desk();
    let send = desk.proposal("lead", Intent::Send(letter("bob", "message")), Some(large_secret()));
    desk.outcome(&send);
    desk.redact_message("lead", MessageNo(1));
    let erased = desk.office.erase().expect("it is erased");
    assert_eq!((erased.blobs, erased.kept_blobs.len()), (1, 0));
    desk.assert_nowhere(MARKER);
    assert!(desk.outcome(&send).repeat);
    desk.assert_nowhere(MARKER);
}

#[test]
fn what_a_redacted_message_had_attached_goes_with_it_and_stays_away() {
    let mut desk = desk();
    let artifact = attached(&desk, MARKER.as_bytes(), ArtifactState::Attached);
    let letter = Send { artifacts: vec![artifact], ..letter("bob", "message") };
    let send = desk.proposal("lead", Intent::Send(letter), Some(text("see the file")));
    desk.outcome(&send);
    desk.redact_message("lead", MessageNo(1));
    assert_eq!(desk.office.erase().expect("it is erased").blobs, 1);
    desk.assert_nowhere(MARKER);
    // A second send of it attaches the file again first.
    attached(&desk, MARKER.as_bytes(), ArtifactState::Attached);
    assert!(desk.outcome(&send).repeat);
    desk.assert_nowhere(MARKER);
}

#[test]
fn a_copy_that_another_record_has_too_is_kept_and_told_until_that_is_redacted() {
    let mut desk = desk();
    let artifact = attached(&desk, MARKER.as_bytes(), ArtifactState::Attached);
    let digest = artifact.digest.expect("it has one");
    let first = send_with(&mut desk, "lead", artifact.clone());
    let done = Intent::Done(Done { message: first, token: None, artifacts: vec![artifact] });
    accepted(desk.say("bob", done, Some(text("done"))));
    let result = desk.head();
    desk.redact_message("lead", first);
    let erased = desk.office.erase().expect("it is erased");
    assert_eq!((erased.blobs, erased.kept_blobs), (0, vec![digest]));
    assert_eq!(desk.files_with(MARKER).len(), 1);
    desk.verify();
    accepted(desk.redact("bob", &[result]));
    assert_eq!(desk.office.erase().expect("it is erased").blobs, 1);
    desk.assert_nowhere(MARKER);
}

#[test]
fn a_record_that_only_mentions_the_digest_does_not_keep_the_copy() {
    let mut desk = desk();
    let artifact = attached(&desk, MARKER.as_bytes(), ArtifactState::Attached);
    let digest = artifact.digest.expect("it has one");
    let first = send_with(&mut desk, "lead", artifact);
    // One record only notes the same file, the other names a conversation after its digest.
    let present = attached(&desk, MARKER.as_bytes(), ArtifactState::Present);
    send_with(&mut desk, "bob", present);
    let label = digest.to_string().parse().expect("a digest is a label");
    accepted(desk.post("lead", Send { conversation: Some(label), ..letter("bob", "message") }));
    desk.redact_message("lead", first);
    let erased = desk.office.erase().expect("it is erased");
    assert_eq!((erased.blobs, erased.kept_blobs.len()), (1, 0));
    desk.assert_nowhere(MARKER);
}

#[test]
fn two_messages_of_the_same_large_words_share_a_blob_until_both_are_redacted() {
    let mut desk = desk();
    let first = desk.send_saying("lead", letter("bob", "message"), large_secret());
    let second = desk.send_saying("lead", letter("cy", "message"), large_secret());
    desk.redact_message("lead", first);
    assert_eq!(desk.office.erase().expect("it is erased").kept_blobs.len(), 1);
    let view = views::message(desk.office.store(), second).expect("it reads").expect("it is there");
    assert!(view.body.contains(MARKER));
    desk.redact_message("lead", second);
    desk.office.erase().expect("it is erased");
    desk.assert_nowhere(MARKER);
}

#[test]
fn archived_words_are_erased_in_place_and_the_rest_of_the_file_stays() {
    let mut desk = desk();
    let before = desk.send_and_ack("lead", "bob", harmless(3));
    let number = desk.send_and_ack("lead", "bob", secret());
    let large = desk.send_and_ack("lead", "bob", large_secret());
    let result = desk.send("lead", "bob", "directive");
    let done = desk.done_saying("bob", result, MARKER);
    let behind = desk.send_and_ack("lead", "bob", harmless(4));
    let archive = desk.archive("lead");
    desk.send_and_ack("lead", "bob", harmless(5));
    let kept = desk.all_views([before, behind]);
    let positions = [desk.position(number), desk.position(large), done];
    accepted(desk.redact("ann", &positions));
    assert!(desk.problems().iter().any(|problem| problem.contains("still archived")), "{:?}", desk.problems());
    let erased = desk.office.erase().expect("it is erased");
    assert_eq!((erased.blobs, erased.archives), (1, 1));
    desk.assert_nowhere(MARKER);
    desk.verify();
    crate::endings::assert_same(&kept, &desk.all_views([before, behind]));
    let view = views::message(desk.office.store(), number).expect("it reads").expect("it is there");
    assert_eq!((view.archive, view.content_gone), (Some(archive.file), true));
    assert_eq!(view.redacted.expect("it was redacted").by, "ann");
}

#[test]
fn what_was_redacted_first_is_archived_without_its_words() {
    let mut desk = desk();
    let number = desk.send_and_ack("lead", "bob", secret());
    desk.redact_message("lead", number);
    desk.office.erase().expect("it is erased");
    let before = desk.all_views([number]);
    desk.archive("lead");
    desk.verify();
    desk.assert_nowhere(MARKER);
    crate::endings::assert_same(&before, &desk.all_views([number]));
}

#[test]
fn files_of_the_dead_and_caches_are_erased_too() {
    let mut desk = desk();
    let number = desk.send_and_ack("lead", "bob", secret());
    let orphan = desk.write_archive(); // its writer died before appending the record
    let path = desk.place.path.clone();
    for leftover in ["archive/tmp-0", "blobs/tmp-0", "search.db", "search.db-wal", "before-schema-1.db"] {
        fs::write(path.join(leftover), format!("…{MARKER}…")).expect("a leftover");
    }
    // More records follow the orphan; the redaction is one.
    desk.redact_message("lead", number);
    desk.office.erase().expect("it is erased");
    desk.assert_nowhere(MARKER);
    assert!(!desk.archive_path(&orphan.file).exists());
    assert!(!path.join("search.db").exists());
}

#[test]
fn a_file_on_its_way_into_the_log_survives_the_erasing_of_other_words() {
    let mut desk = desk();
    let redacted_before = desk.send_and_ack("lead", "bob", secret());
    desk.redact_message("lead", redacted_before);
    desk.office.erase().expect("it is erased");
    let number = desk.send_and_ack("lead", "bob", harmless(1));
    let archive = desk.write_archive();
    let other = desk.send_saying("lead", letter("bob", "message"), secret());
    desk.redact_message("lead", other);
    desk.office.erase().expect("it is erased");
    accepted(desk.propose_archive("lead", &archive));
    desk.verify();
    let view = views::message(desk.office.store(), number).expect("it reads").expect("it is there");
    assert!(view.body.contains(OTHER));
}

#[test]
fn words_read_before_they_were_erased_do_not_come_back_with_a_file() {
    let mut desk = desk();
    let number = desk.send_and_ack("lead", "bob", secret());
    let batch = desk.finished();
    desk.redact_message("lead", number);
    desk.office.erase().expect("it is erased");
    let archive = desk.office.write_archive(&batch).expect("it is written");
    desk.assert_nowhere(MARKER); // and its writer may die here
    refused(desk.propose_archive("lead", &archive), poste_core::fold::Code::NotFinished);
    desk.office.discard_archive(&archive).expect("it is taken back");
    desk.office.discard_archive(&archive).expect("discarding it twice is fine");
}

#[test]
fn a_blob_somebody_is_writing_is_not_swept_away() {
    use std::io::Read;
    struct ErasesMeanwhile<'desk>(&'desk mut Desk, bool);
    impl Read for ErasesMeanwhile<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.1 {
                return Ok(0);
            }
            self.1 = true;
            self.0.office.erase().expect("it is erased");
            buffer[..4].copy_from_slice(b"blob");
            Ok(4)
        }
    }
    let mut desk = desk();
    let number = desk.send_saying("lead", letter("bob", "message"), secret());
    desk.redact_message("lead", number);
    let blobs = desk.office.store().blobs().expect("a folder").clone();
    let stored = blobs.put_from(ErasesMeanwhile(&mut desk, false)).expect("it is stored");
    assert_eq!(blobs.get(&stored.digest).expect("it reads").expect("it is there"), b"blob");
    desk.assert_nowhere(MARKER);
}

#[test]
fn a_copy_that_was_erased_while_its_message_waited_is_asked_for_again() {
    let mut desk = desk();
    let artifact = attached(&desk, b"a file of somebody else too", ArtifactState::Attached);
    let blobs = desk.office.store().blobs().expect("a folder").clone();
    blobs.remove(&artifact.digest.expect("it has one")).expect("an erasure came first");
    let letter = Send { artifacts: vec![artifact], ..letter("bob", "message") };
    let send = desk.proposal("lead", Intent::Send(letter), Some(text("see the file")));
    let refusal = desk.outcome(&send).verdict.accepted().expect_err("a message without its file is not stored");
    assert!(refusal.reason.contains("attach it again"), "{refusal}");
    attached(&desk, b"a file of somebody else too", ArtifactState::Attached);
    assert!(desk.outcome(&send).verdict.accepted().is_ok());
}

#[test]
fn nothing_is_erased_from_a_file_that_asks_for_a_newer_writer() {
    let mut desk = desk();
    let number = desk.send_saying("lead", letter("bob", "directive"), large_secret());
    desk.redact_message("lead", number);
    let (before, held) = (desk.files_with(MARKER), desk.office.store().unerased().unwrap());
    assert!(!before.is_empty() && held.is_some());
    let database = desk.place.path.join("office.db");
    let ask_for = |version: u32| {
        let conn = rusqlite::Connection::open(&database).unwrap();
        conn.execute("UPDATE meta SET value = ?1 WHERE key = 'min_writer'", [version]).unwrap();
    };
    ask_for(99);
    let error = desk.office.erase().expect_err("it may not be written");
    assert!(matches!(error, Error::NeedsUpgrade { what: "write", needed: 99, .. }), "{error}");
    assert_eq!((desk.files_with(MARKER), desk.office.store().unerased().unwrap()), (before, held));
    ask_for(1);
    desk.office.erase().expect("it is erased");
    desk.assert_nowhere(MARKER);
}

#[test]
fn erasing_with_nothing_to_erase_does_nothing() {
    let mut desk = desk();
    desk.send_and_ack("lead", "bob", harmless(1));
    let before = fs::metadata(desk.place.path.join("office.db")).expect("it is there").modified().expect("a time");
    assert_eq!(desk.office.erase().expect("it is erased"), poste_core::store::Erased::default());
    let after = fs::metadata(desk.place.path.join("office.db")).expect("it is there").modified().expect("a time");
    assert_eq!(before, after);
}

// ── Interrupted ──────────────────────────────────────────────────────────────────────────────────────────────

/// An office with content to erase in every kind of file.
fn full_of_it() -> Desk {
    let mut desk = desk();
    let numbers = [desk.send_and_ack("lead", "bob", secret()), desk.send_and_ack("lead", "bob", large_secret())];
    let artifact = attached(&desk, MARKER.as_bytes(), ArtifactState::Attached);
    let third = send_with(&mut desk, "lead", artifact);
    desk.archive("lead");
    fs::write(desk.place.path.join("search.db"), MARKER).expect("a search index");
    let live = desk.send_saying("lead", letter("bob", "message"), secret());
    let positions: Vec<Position> =
        numbers.into_iter().chain([third, live]).map(|number| desk.position(number)).collect();
    accepted(desk.redact("ann", &positions));
    desk
}

/// After an interruption `verify` reports the unfinished erasure, and the next one completes it.
fn is_finished_later(mut desk: Desk) {
    assert!(!desk.files_with(MARKER).is_empty(), "the interruption came after the erasure");
    assert!(desk.problems().iter().any(|problem| problem.contains("not erased from every file yet")));
    desk.office = desk.place.open().expect("it opens");
    desk.office.erase().expect("it is erased");
    desk.assert_nowhere(MARKER);
    desk.verify();
}

#[test]
fn interrupted_before_anything() {
    is_finished_later(full_of_it());
}

#[test]
fn interrupted_between_two_blobs() {
    let desk = full_of_it();
    let blobs = desk.office.store().blobs().expect("a folder");
    blobs.remove(&Digest::of(MARKER.as_bytes())).expect("one of them");
    is_finished_later(desk);
}

#[test]
fn interrupted_at_the_archives() {
    let mut desk = full_of_it();
    let file = fs::read_dir(desk.place.path.join("archive")).expect("a folder").next().expect("a file").expect("one");
    let aside = desk.folder.path().join("aside");
    fs::rename(file.path(), &aside).expect("the archive cannot be opened");
    fs::create_dir(file.path()).expect("a folder takes its place");
    assert!(matches!(desk.office.erase(), Err(Error::Io { .. })));
    desk.assert_nowhere(MARKER); // it is erased from all other files
    fs::remove_dir(file.path()).expect("the folder is removed");
    // Killed while rewriting the file: the old one is left, and half of the new one.
    let whole = fs::read(&aside).expect("the archive");
    fs::write(desk.archive_path("tmp-half"), &whole[..whole.len() / 2]).expect("half of it");
    fs::rename(&aside, file.path()).expect("it can be opened again");
    is_finished_later(desk);
}

#[test]
fn interrupted_at_the_caches() {
    let mut desk = full_of_it();
    let index = desk.place.path.join("search.db");
    fs::remove_file(&index).expect("a file");
    fs::create_dir(&index).expect("a folder cannot be removed like a file");
    assert!(desk.office.erase().is_err());
    fs::remove_dir(&index).expect("the folder is gone");
    is_finished_later(desk);
}

#[test]
fn interrupted_by_a_reader_of_old_pages() {
    let mut desk = full_of_it();
    let reader = desk.place.open().expect("a second one opens");
    desk.place.options = Options { lock_timeout: Duration::from_millis(50), ..Options::default() };
    desk.office = desk.place.open().expect("it opens");
    reader
        .store()
        .read(|conn| {
            let _: u64 = conn.query_row("SELECT count(*) FROM log", [], |row| row.get(0))?;
            // A reader keeps the pages it sees in use, so the WAL cannot be emptied.
            assert!(matches!(desk.office.erase(), Err(Error::Busy { .. })));
            Ok(())
        })
        .expect("a view");
    drop(reader);
    assert!(desk.problems().iter().any(|problem| problem.contains("not erased from every file yet")));
    desk.office.erase().expect("it is erased");
    desk.assert_nowhere(MARKER);
}

#[test]
fn interrupted_before_it_was_noted_that_all_is_done() {
    let mut desk = full_of_it();
    desk.office.erase().expect("it is erased");
    desk.office.store().conn().execute("UPDATE machine SET erased_to = 0", []).expect("the note is lost");
    assert_eq!(desk.problems().len(), 1);
    desk.office.erase().expect("it is erased once more");
    desk.assert_nowhere(MARKER);
    desk.verify();
}

#[test]
fn words_redacted_between_two_erasings_are_not_forgotten() {
    let mut desk = full_of_it();
    desk.office.erase().expect("it is erased");
    let number = desk.send_saying("lead", letter("bob", "message"), secret());
    desk.redact_message("lead", number);
    is_finished_later(desk);
}

#[test]
fn a_missing_archive_keeps_no_other_place_from_being_erased() {
    let mut desk = full_of_it();
    let file = fs::read_dir(desk.place.path.join("archive")).expect("a folder").next().expect("a file").expect("one");
    let aside = desk.folder.path().join("aside");
    fs::rename(file.path(), &aside).expect("the archive is gone");
    let erased = desk.office.erase().expect("everything else is erased");
    assert_eq!(erased.missing_archives, [file.file_name().into_string().expect("a name")]);
    desk.assert_nowhere(MARKER);
    assert_eq!(desk.office.erase().expect("there is nothing left to do"), poste_core::store::Erased::default());
    // The file comes back from a copy of the folder.
    fs::rename(&aside, file.path()).expect("the archive");
    assert!(desk.problems().iter().any(|problem| problem.contains("still archived")), "{:?}", desk.problems());
    assert_eq!(desk.office.erase_all().expect("it is erased there too").archives, 1);
    desk.assert_nowhere(MARKER);
    assert_eq!(desk.problems(), [""; 0]);
}

#[test]
fn a_redacted_blob_that_comes_back_belongs_to_nobody() {
    let mut desk = desk();
    let number = desk.send_saying("lead", letter("bob", "message"), large_secret());
    let blob = fs::read_dir(desk.place.path.join("blobs")).expect("a folder").next().expect("a blob").expect("a name");
    let aside = desk.place.path.with_file_name("aside");
    fs::copy(blob.path(), &aside).expect("a copy");
    desk.redact_message("lead", number);
    desk.office.erase().expect("it is erased");
    refused(desk.say("lead", Intent::Send(letter("nobody", "message")), Some(large_secret())), Code::UnknownAgent);
    desk.assert_nowhere(MARKER);
    // A writer died after storing the blob, before its proposal was refused.
    fs::rename(&aside, blob.path()).expect("the blob");
    assert!(views::named_blobs(desk.office.store(), Position(0), |_| {}).expect("the log").is_empty());
    desk.office.erase_all().expect("it is erased again");
    desk.assert_nowhere(MARKER);
}

#[test]
fn an_archived_forward_of_redacted_words_is_named() {
    let mut desk = desk();
    let number = desk.send_saying("lead", letter("bob", "message"), secret());
    let onward = Ends { message: number, how: EndsHow::Forwarded, token: None };
    let forward = Send {
        ends: Some(onward),
        conversation: Some("elsewhere".parse().expect("a label")),
        ..letter("cy", "message")
    };
    let forward = desk.send_saying("bob", forward, secret());
    accepted(desk.ack("cy", forward));
    desk.archive("lead");
    let said = views::said_of(desk.office.store(), number).expect("a view").expect("it is there");
    assert_eq!(said.repeated_in, [forward]);
}
