//! A log that is ordered elsewhere keeps refusals, and every reader of it counts them.

use std::fs;
use std::path::{Path, PathBuf};

use poste_core::backup;
use poste_core::fold::Code;
use poste_core::limits::CONTENT_INLINE_BYTES_MAX;
use poste_core::log::{Ack, Close, Done, Intent, Proposal, Redact};
use poste_core::office::{Rules, Settled};
use poste_core::store::Store;
use poste_core::store::table_digest::{digest, refold_for_reading};
use poste_core::store::tables::DueItem;
use poste_core::time::When;
use poste_core::{MessageNo, Office, Position, views};
use poste_testkit::invariants;
use poste_verbs::{agents, redact, search};
use serde_json::json;

use crate::world::{World, accepted, call, refused, tables};

#[test]
fn a_followed_log_with_a_refusal_verifies_and_replays() {
    let (mut world, mut one, mut two) = World::with(&["ann", "bob"]);
    accepted(world.send(&mut one, "ann", "bob", "hello"));
    let stray = world.propose(&mut one, "bob", Intent::Ack(Ack { message: MessageNo(77) }));
    assert_eq!(refused(&stray), Code::UnknownMessage);
    let until = stray.position.expect("this log keeps refusals");
    accepted(world.send(&mut one, "bob", "ann", "hello again"));

    let store = one.store();
    assert_eq!(views::verify(store, |_| {}).unwrap().problems, []);
    assert!(views::diff_with_fold(store, |_| {}).unwrap().equal);
    let past = refold_for_reading(store, until, |_| {}).unwrap();
    assert!(past.tables().unwrap().refusal(until).unwrap().is_some());
    assert_eq!(views::verify(&past, |_| {}).unwrap().tables, digest(past.conn()).unwrap());

    two.follow().unwrap();
    assert_eq!(tables(&one), tables(&two));
    accepted(world.send(&mut two, "ann", "bob", "from the other machine"));
    let ahead = Store::open_other(&world.path("two")).unwrap();
    assert!(views::diff_with_other(store, &ahead, |_| {}).unwrap().equal, "the longer log is folded up to this one");
}

#[test]
fn no_view_tells_a_refused_record_as_a_fact() {
    let (mut world, mut one, _) = World::with(&["ann", "bob"]);
    let letter = world.letter("ann", "bob", "hello");
    let sent = one.propose(&letter, &Rules::none()).unwrap().position.unwrap();
    assert!(one.propose(&letter, &Rules::none()).unwrap().repeat);
    accepted(world.propose(&mut one, "bob", Intent::Ack(Ack { message: MessageNo(1) })));
    accepted(world.propose(&mut one, "ann", Intent::Close(Close { message: MessageNo(1) })));
    let day = 24 * 60 * 60 * 1_000;
    world.clock.advance(day);
    let since = one.now().unwrap();
    let done = world.proposal("bob", Intent::Done(Done { message: MessageNo(1), token: None, artifacts: Vec::new() }));
    let done_at = one.propose(&done, &Rules::none()).unwrap();
    assert_eq!(refused(&done_at), Code::Ended);
    let closed = world.propose(&mut one, "ann", Intent::Close(Close { message: MessageNo(1) }));
    assert_eq!(refused(&closed), Code::NothingToDo);

    let store = one.store();
    let said = views::timeline(store, sent, 100).unwrap();
    let said: Vec<&str> = said.iter().map(|line| line.what.as_str()).collect();
    assert_eq!(said[0], format!("ann repeats record {sent}"));
    assert!(said[3].starts_with("bob proposed delivery.done, which was refused: "), "{said:?}");
    assert!(said[4].starts_with("ann proposed conversation.close, which was refused: "), "{said:?}");

    let shown = views::record(store, done_at.position.unwrap()).unwrap().unwrap();
    assert_eq!(shown.outcome.unwrap().code, Code::Ended.word());
    assert!(views::record(store, sent).unwrap().unwrap().outcome.is_none());
    assert_eq!(views::record(store, sent.next()).unwrap().unwrap().outcome.unwrap().code, "repeat");
    assert_eq!(views::day_report(store, since, since.plus_ms(day), since).unwrap().counts.finished, 0);

    let bob = "bob".parse().unwrap();
    assert!(views::record_of_id(store, &done.id, &bob).unwrap().is_none(), "it finished nothing");
    assert!(views::record_of_id(store, &letter.id, &"ann".parse().unwrap()).unwrap().is_some());
}

#[test]
fn what_is_written_once_is_written_though_its_id_was_refused_or_taken() {
    let (mut world, mut one, _) = World::with(&["ann", "bob"]);
    let ann = "ann".parse().unwrap();
    let mut alert = world.letter("ann", "nobody", "help");
    let id = alert.id.clone();
    let next = |office: &Office| views::id_to_write_once(office.store(), &id, &ann).unwrap();
    assert_eq!(next(&one), Some(id.clone()));
    refused(&one.propose(&alert, &Rules::none()).unwrap());
    assert_eq!(next(&one), Some(id.then(2)));
    let squatter = Proposal { id: id.then(2), ..world.letter("bob", "ann", "mine") };
    accepted(one.propose(&squatter, &Rules::none()).unwrap());
    assert_eq!(next(&one), Some(id.then(3)));
    alert = Proposal { id: id.then(3), ..world.letter("ann", "bob", "help") };
    accepted(one.propose(&alert, &Rules::none()).unwrap());
    assert_eq!(next(&one), None);
}

#[test]
fn the_table_digest_covers_the_code_of_a_refusal_and_not_its_wording() {
    let (mut world, mut one, _) = World::with(&["ann"]);
    refused(&world.propose(&mut one, "ann", Intent::Ack(Ack { message: MessageNo(77) })));
    let before = tables(&one);
    let change = |sql: &str| assert_eq!(one.store().conn().execute(sql, []).unwrap(), 1);
    change("UPDATE outcomes SET reason = 'said in other words'");
    assert_eq!(tables(&one), before);
    change("UPDATE outcomes SET code = 'ended'");
    assert_ne!(tables(&one), before);
}

#[test]
fn a_snapshot_of_a_followed_log_with_a_refusal_is_taken() {
    let (mut world, mut one, _) = World::with(&["ann"]);
    refused(&world.propose(&mut one, "ann", Intent::Ack(Ack { message: MessageNo(77) })));
    let manifest = backup::take(&one, &world.folder.path().join("snapshot"), &mut |_| {}).unwrap();
    assert_eq!(manifest.tables, tables(&one));
}

const LARGE: usize = CONTENT_INLINE_BYTES_MAX + 1;

fn content_rows(office: &Office) -> Vec<Position> {
    let mut statement = office.store().conn().prepare("SELECT position FROM content ORDER BY position").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn blobs(world: &World, machine: &str) -> usize {
    std::fs::read_dir(world.path(machine).join("blobs")).unwrap().count()
}

#[test]
fn a_refused_or_repeated_record_stores_no_copy_of_its_content() {
    let (mut world, mut one, mut two) = World::with(&["ann", "bob"]);
    let letter = world.letter("ann", "bob", "hello");
    let stored = one.propose(&letter, &Rules::none()).unwrap().position.unwrap();
    assert!(two.propose(&letter, &Rules::none()).unwrap().repeat, "a retry on another machine");
    assert_eq!(refused(&world.send(&mut one, "ann", "nobody", "hello?")), Code::UnknownAgent);
    assert_eq!(refused(&world.send(&mut one, "ann", "nobody", "x".repeat(LARGE))), Code::UnknownAgent);
    for (office, machine) in [(&mut one, "one"), (&mut two, "two")] {
        office.follow().unwrap();
        assert_eq!(content_rows(office), [stored]);
        assert_eq!(blobs(&world, machine), 0, "on machine {machine}");
        assert_eq!(views::verify(office.store(), |_| {}).unwrap().problems, []);
    }
}

#[test]
fn the_blob_of_a_refused_record_stays_if_an_accepted_one_has_the_same_content() {
    let (mut world, mut one, mut two) = World::with(&["ann", "bob"]);
    let large = "x".repeat(LARGE);
    let (before, after) = (world.letter("ann", "nobody", &large), world.letter("ann", "bob", &large));
    let outcomes = one.submit(&[before, after], &Rules::none()).unwrap();
    refused(&outcomes[0]);
    refused(&world.send(&mut one, "ann", "nobody", &large));
    for (office, machine) in [(&mut one, "one"), (&mut two, "two")] {
        office.follow().unwrap();
        assert_eq!(blobs(&world, machine), 1, "on machine {machine}");
        assert_eq!(views::named_blobs(office.store(), Position(0), |_| {}).unwrap().len(), 1);
        assert_eq!(views::verify(office.store(), |_| {}).unwrap().problems, []);
    }
}

#[test]
fn a_repeat_of_a_redacted_record_does_not_bring_its_content_back() {
    let (mut world, mut one, mut two) = World::with(&["ann", "bob"]);
    let letter = world.letter("ann", "bob", "x".repeat(LARGE));
    let position = one.propose(&letter, &Rules::none()).unwrap().position.unwrap();
    let redact = Redact { records: vec![position] };
    accepted(world.propose(&mut one, "ann", Intent::Redact(redact)));
    one.erase().unwrap();
    assert!(one.propose(&letter, &Rules::none()).unwrap().repeat);
    two.follow().unwrap();
    two.erase().unwrap();
    for (office, machine) in [(&one, "one"), (&two, "two")] {
        assert_eq!((content_rows(office), blobs(&world, machine)), (Vec::new(), 0), "on machine {machine}");
        assert_eq!(views::verify(office.store(), |_| {}).unwrap().problems, []);
    }
}

#[test]
fn what_another_machine_redacted_is_erased_here_with_the_next_command() {
    let (mut world, mut one, mut two) = World::with(&["ann", "bob"]);
    for body in ["the marker, small".to_owned(), "the marker, large ".repeat(LARGE / 10)] {
        accepted(world.send(&mut one, "ann", "bob", body));
    }
    two.follow().unwrap();
    call::<search::Input>(&mut two, "bob", json!({ "words": "marker" }));
    for number in [1, 2] {
        call::<redact::Input>(&mut one, "ann", json!({ "number": number, "reason": "a secret" }));
    }
    for (office, machine) in [(&mut one, "one"), (&mut two, "two")] {
        call::<agents::Input>(office, "bob", json!({}));
        assert_eq!(office.store().unerased().unwrap(), None, "on machine {machine}");
        assert_eq!(holding(&world.path(machine), b"the marker"), Vec::<PathBuf>::new());
        assert_eq!(views::verify(office.store(), |_| {}).unwrap().problems, []);
    }
}

/// The files in a folder that hold these bytes.
fn holding(folder: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let holds = |path: &PathBuf| fs::read(path).unwrap().windows(bytes.len()).any(|window| window == bytes);
    entries
        .flat_map(|path| match path.is_dir() {
            true => holding(&path, bytes),
            false => Some(path).filter(holds).into_iter().collect(),
        })
        .collect()
}

#[test]
fn a_refused_claim_to_an_id_of_the_office_does_not_take_it() {
    let (mut world, mut one, mut two) = World::with(&["ann", "bob"]);
    let mut later = world.letter("ann", "bob", "for later");
    if let Intent::Send(send) = &mut later.intent {
        send.not_before = Some(When::InMs(60_000));
    }
    accepted(one.propose(&later, &Rules::none()).unwrap());
    let due = "SELECT at, what, subject FROM due";
    let due = one
        .store()
        .conn()
        .query_row(due, [], |row| Ok(DueItem { at: row.get(0)?, what: row.get(1)?, subject: row.get(2)? }));
    let id = one.store().tables().unwrap().tick_id(due.unwrap()).unwrap();
    let squatter = Proposal { id, ..world.letter("ann", "bob", "mine") };
    assert_eq!(refused(&two.propose(&squatter, &Rules::none()).unwrap()), Code::ReservedId);
    assert_eq!(refused(&two.propose(&squatter, &Rules::none()).unwrap()), Code::ReservedId, "it is not a repeat");
    world.clock.advance(60_000);
    assert_eq!(one.settle().unwrap(), Settled::Yes);
    let taken = one.store().tables().unwrap().id(&squatter.id).unwrap().expect("the tick has its id");
    assert_eq!(one.store().tables().unwrap().record(taken.position).unwrap().unwrap().sealed.envelope.name, "tick");
    two.follow().unwrap();
    assert_eq!(tables(&one), tables(&two));
    assert_eq!(invariants::full(two.store()).unwrap(), []);
}
