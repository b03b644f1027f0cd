//! Every kind of damage to an archive is found.

use std::fs;

use poste_core::log::{Archive, Send};
use poste_core::views;
use poste_core::{MessageNo, Position};

use crate::common::*;

/// An office whose one archive has a message, a result, and a message without content.
fn archived() -> (Desk, Archive) {
    let mut desk = Desk::with(&["lead", "bob"]);
    let number = desk.send("lead", "bob", "directive");
    desk.done_saying("bob", number, "the result");
    let silent = poste_core::log::Intent::Send(letter("bob", "message"));
    accepted(desk.ask("lead", silent));
    accepted(desk.ack("bob", MessageNo(2)));
    let archive = desk.archive("lead");
    desk.verify();
    desk.leave_unverified();
    (desk, archive)
}

/// Damages the file; the problems that `log verify` finds.
fn after(damage: impl FnOnce(&mut Vec<u8>)) -> Vec<String> {
    let (desk, archive) = archived();
    let path = desk.archive_path(&archive.file);
    let mut bytes = fs::read(&path).expect("the archive is there");
    damage(&mut bytes);
    fs::write(&path, bytes).expect("the archive is damaged");
    desk.problems()
}

fn replace(bytes: &mut Vec<u8>, what: &str, by: &str) {
    let text = String::from_utf8(bytes.clone()).expect("an archive is UTF-8");
    assert!(text.contains(what), "{what} is not in {text}");
    *bytes = text.replacen(what, by, 1).into_bytes();
}

#[track_caller]
fn found(problems: &[String], words: &str) {
    assert!(problems.iter().any(|problem| problem.contains(words)), "{words:?} is not among {problems:?}");
}

#[test]
fn a_missing_file_is_found() {
    let (desk, archive) = archived();
    fs::remove_file(desk.archive_path(&archive.file)).expect("it is removed");
    found(&desk.problems(), "is missing");
    views::message(desk.office.store(), MessageNo(1)).expect_err("reading it fails");
}

#[test]
fn a_changed_header_is_found() {
    found(&after(|bytes| replace(bytes, "\"by\":\"lead\"", "\"by\":\"mead\"")), "does not match its record");
    found(&after(|bytes| replace(bytes, "\"state\":\"done\"", "\"state\":\"dead\"")), "does not match its record");
}

#[test]
fn changed_content_is_found() {
    found(&after(|bytes| replace(bytes, "please", "pleasf")), "does not match its digest");
    found(&after(|bytes| replace(bytes, "the result", "no  result")), "does not match its digest");
}

#[test]
fn content_that_was_taken_out_is_found() {
    found(&after(|bytes| replace(bytes, r#""{\"body\":\"please\"}""#, "null")), "is missing");
}

#[test]
fn content_that_was_put_in_where_there_was_none_is_found() {
    let problems = after(|bytes| {
        let text = String::from_utf8(bytes.clone()).expect("an archive is UTF-8");
        let line = text.lines().find(|line| line.contains("\"number\":2")).expect("message 2");
        assert!(line.ends_with("\"content\":null}"));
        replace(bytes, line, &line.replace("\"content\":null}", "\"content\":\"lies\"}"));
    });
    found(&problems, "which has none");
}

#[test]
fn every_single_changed_byte_is_found() {
    let (desk, archive) = archived();
    let path = desk.archive_path(&archive.file);
    let whole = fs::read(&path).expect("the archive is there");
    // Every seventh byte, because each check folds the whole log again; a prime step visits every kind of place.
    for index in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[index] ^= 0x01;
        fs::write(&path, bytes).expect("the archive is damaged");
        let around = String::from_utf8_lossy(&whole[index.saturating_sub(20)..(index + 20).min(whole.len())]);
        assert!(!desk.problems().is_empty(), "byte {index} in {around:?}");
    }
}

#[test]
fn every_cut_is_found() {
    let (desk, archive) = archived();
    let path = desk.archive_path(&archive.file);
    let whole = fs::read(&path).expect("the archive is there");
    for length in (0..whole.len()).step_by(29) {
        fs::write(&path, &whole[..length]).expect("the archive is cut");
        assert!(!desk.problems().is_empty(), "truncated to {length} bytes");
    }
}

#[test]
fn an_extra_line_is_found_wherever_it_stands() {
    let first_line = |bytes: &[u8]| bytes[..=bytes.iter().position(|byte| *byte == b'\n').expect("a line")].to_vec();
    assert!(!after(|bytes| bytes.extend(first_line(bytes))).is_empty());
    assert!(!after(|bytes| *bytes = [first_line(bytes), bytes.clone()].concat()).is_empty());
    assert!(!after(|bytes| bytes.push(b'\n')).is_empty());
    assert!(!after(|bytes| bytes.insert(0, b'\n')).is_empty());
    assert!(!after(|bytes| bytes.extend_from_slice(b"{}")).is_empty());
}

#[test]
fn lines_that_changed_places_are_found() {
    let problems = after(|bytes| {
        let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        lines.swap(0, 1);
        *bytes = lines.concat();
    });
    assert!(!problems.is_empty());
}

#[test]
fn a_file_that_proves_itself_but_has_not_all_that_left_the_tables_is_found() {
    let mut desk = Desk::with(&["lead", "bob"]);
    let number = desk.send("lead", "bob", "directive");
    desk.done_saying("bob", number, "the result");
    let mut batch = desk.finished();
    assert_eq!(batch.lines.len(), 2);
    batch.lines.remove(0);
    let archive = desk.office.write_archive(&batch).expect("it is written");
    accepted(desk.propose_archive("lead", &archive));
    let problems = desk.problems();
    found(&problems, "message 1 was archived but is not in the archive");
    found(&problems, "was archived but is not in the archive");
    desk.leave_unverified();
}

#[test]
fn a_damaged_archive_does_not_hide_the_damage_of_another() {
    let (mut desk, first) = archived();
    desk.send_and_ack("lead", "bob", text("more"));
    let second = desk.archive("lead");
    for archive in [&first, &second] {
        fs::write(desk.archive_path(&archive.file), "{}\n").expect("it is damaged");
    }
    let problems = desk.problems();
    found(&problems, &first.file);
    found(&problems, &second.file);
}

/// Asserts that a message whose stored bytes were changed is reported as damaged, and never shown.
#[track_caller]
fn not_shown(desk: &Desk, number: MessageNo) {
    let shown = views::message(desk.office.store(), number);
    let error = shown.expect_err("changed words are not shown").to_string();
    assert!(error.contains("does not match its digest") || error.contains("was changed"), "{error}");
}

#[test]
fn changed_words_in_an_archive_are_never_shown_as_genuine() {
    let mut desk = Desk::with(&["lead", "bob"]);
    let number = desk.send_and_ack("lead", "bob", text("pay ten to ann"));
    let archive = desk.archive("lead");
    let path = desk.archive_path(&archive.file);
    let mut bytes = fs::read(&path).expect("the archive is there");
    replace(&mut bytes, "pay ten to ann", "pay ten to bob");
    fs::write(&path, bytes).expect("the archive is changed");
    not_shown(&desk, number);
    let query = views::SearchQuery::new("pay".parse().expect("words"));
    let (page, refreshed) = views::search(desk.office.store(), &query, |_| {}).expect("a page");
    assert!(page.hits.iter().all(|hit| hit.snippet.is_empty()) && !refreshed.unreadable.is_empty(), "{page:?}");
    // It can still be redacted; that its repetitions are then unknown is no error.
    views::said_of(desk.office.store(), number).expect("its records are known").expect("it is there");
    desk.leave_unverified();
}

#[test]
fn changed_rows_of_content_are_never_shown_as_genuine() {
    for change in ["bytes = CAST(replace(CAST(bytes AS TEXT), 'ten', 'six') AS BLOB)", "subject = 'something else'"] {
        let mut desk = Desk::with(&["lead", "bob"]);
        let number = desk.send_saying("lead", letter("bob", "message"), text("pay ten to ann"));
        let changed = desk.office.store().conn().execute(&format!("UPDATE content SET {change}"), []);
        assert_eq!(changed.expect("the row is changed"), 1);
        not_shown(&desk, number);
        assert_eq!(desk.problems().len(), 1, "{change}: {:?}", desk.problems());
        desk.leave_unverified();
    }
}

#[test]
fn an_archived_message_is_replayed_from_its_archive() {
    let (desk, _) = archived();
    let store = desk.office.store();
    let past = poste_core::store::table_digest::refold(store, |_| {});
    let past = past.expect("it folds again");
    let replayed = views::past_track(&past, store, MessageNo(1)).expect("it is readable").expect("it is there");
    let now = views::track(store, MessageNo(1), desk.now()).expect("it is readable").expect("it is there");
    assert_eq!(replayed.deliveries.len(), now.deliveries.len());
    assert_eq!((replayed.subject, replayed.archive), (now.subject, now.archive));
}

#[test]
fn listings_go_past_an_archive_that_cannot_be_read() {
    let spoil: [fn(&std::path::Path); 3] = [
        |path| fs::write(path, "{\"position\":4}\n").unwrap(),
        |path| fs::write(path, "").unwrap(),
        |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        },
    ];
    for spoil in spoil {
        let mut desk = Desk::with(&["lead", "bob"]);
        let number = desk.send("lead", "bob", "directive");
        desk.done_saying("bob", number, "the result");
        let conversation = views::conversation_of(desk.office.store(), number).unwrap().unwrap();
        let archive = desk.archive("lead");
        let again = Send { conversation: Some(conversation), ..letter("bob", "message") };
        let again = desk.send_saying("lead", again, text("once more"));
        desk.leave_unverified();
        spoil(&desk.archive_path(&archive.file));

        let query = views::ThreadsQuery { limit: 9, ..Default::default() };
        let page = views::threads(desk.office.store(), &query).unwrap();
        let [thread] = page.threads.as_slice() else { panic!("{page:?}") };
        assert_eq!((thread.subject.as_str(), thread.messages.count, thread.last), ("(unreadable)", 2, again));
        assert_eq!(thread.participants, ["bob", "lead"]);
        let [damage] = page.damage.as_slice() else { panic!("{:?}", page.damage) };
        assert!(damage.contains(&archive.file), "{damage}");

        let lines = views::timeline(desk.office.store(), Position(0), 100).unwrap();
        let line =
            |wanted| lines.iter().find(|line| line.number == Some(wanted) && line.kind == "message.send").unwrap();
        assert_eq!(line(number).what, "lead → bob  #1 directive: (unreadable)");
        assert_eq!(line(number).recipients, ["bob"]);
        assert!(line(number).unreadable.as_ref().is_some_and(|why| why.contains(&archive.file)));
        assert_eq!(line(again).unreadable, None);
    }
}
