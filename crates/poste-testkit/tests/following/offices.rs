//! Everything an office in a folder can do, over a log that is ordered elsewhere.

use std::fs;
use std::time::Duration;

use poste_config::trust::{self, Trust};
use poste_core::log::{Ack, Claim, Intent};
use poste_core::office::Rules;
use poste_core::office::Settled;
use poste_core::store::Interest;
use poste_core::store::clock::Clock as _;
use poste_core::store::schema::get_meta;
use poste_core::time::When;
use poste_core::{MessageNo, Office, backup, doctor, views};

use crate::world::{World, accepted, tables};

fn sound(office: &Office) {
    assert_eq!(views::verify(office.store(), |_| {}).unwrap().problems, []);
}

fn office_id(office: &Office) -> String {
    get_meta(office.store().conn(), "office").unwrap().expect("the office has an id")
}

#[test]
fn every_machine_is_its_own_and_the_office_is_one() {
    let (_world, one, mut two) = World::with(&["ann"]);
    two.follow().unwrap();
    assert_ne!(one.machine().unwrap(), two.machine().unwrap());
    assert_eq!(office_id(&one), office_id(&two));
}

#[test]
fn what_is_due_is_settled_once_for_all() {
    let (mut world, mut one, mut two) = World::with(&["ann", "bob"]);
    let mut later = world.letter("ann", "bob", "for later");
    if let Intent::Send(send) = &mut later.intent {
        send.not_before = Some(When::InMs(60_000));
    }
    accepted(one.propose(&later, &Rules::none()).unwrap());
    world.clock.advance(60_000);
    assert_eq!(two.settle().unwrap(), Settled::Yes);
    assert_eq!(one.settle().unwrap(), Settled::Yes);
    assert_eq!(one.head().unwrap(), two.head().unwrap(), "the second machine had nothing left to settle");
    assert!(one.store().tables().unwrap().deliveries_of(MessageNo(1)).unwrap()[0].ready);
    assert_eq!(one.now().unwrap(), world.clock.wall());
}

#[test]
fn a_waiter_hears_of_what_was_published_elsewhere() {
    let (mut world, mut one, mut two) = World::with(&["ann", "bob"]);
    two.follow().unwrap();
    accepted(world.send(&mut one, "ann", "bob", "hello"));
    let interest = Interest::mail(&"bob".parse().unwrap());
    let look = |office: &mut Office| office.store().tables()?.message(MessageNo(1));
    let found = two.wait_for(&interest, Some(Duration::from_secs(20)), look).unwrap();
    assert!(found.is_some());
}

#[test]
fn a_policy_of_one_machine_holds_on_all_and_trust_stays_where_it_was_given() {
    let (world, mut one, mut two) = World::with(&["ann"]);
    let config = "[delivery]\nmax_attempts = 2\n[wake]\ncommand = ['notify']\n";
    for machine in ["one", "two"] {
        fs::write(world.path(machine).with_file_name("poste.toml"), config).unwrap();
    }
    poste_config::sync_policy(&mut one).unwrap();
    assert_eq!(two.settle().unwrap(), Settled::Yes); // as every surface does first
    poste_config::sync_policy(&mut two).unwrap();
    assert_eq!(two.store().tables().unwrap().policy().unwrap().settings.max_attempts, Some(2));
    let file = trust::candidates(&one).unwrap().pop().unwrap();
    trust::set_trusted(&one, &file, "ann".to_owned()).unwrap();
    assert!(trust::trust(&one, &file).unwrap().is_trusted());
    assert_eq!(trust::trust(&two, &file).unwrap(), Trust::Never);
}

#[test]
fn an_archive_is_a_file_on_every_machine() {
    let (mut world, mut one, mut two) = World::with(&["ann", "bob"]);
    accepted(world.send(&mut one, "ann", "bob", "to be archived"));
    accepted(world.propose(&mut one, "bob", Intent::Ack(Ack { message: MessageNo(1) })));
    world.clock.advance(1_000);
    let batch = views::finished(one.store(), one.now().unwrap(), MessageNo(1)).unwrap();
    let archive = one.write_archive(&batch).unwrap();
    // The other machine has a file of the same name, which no record will ever name.
    two.follow().unwrap();
    fs::create_dir(world.path("two").join("archive")).unwrap();
    fs::write(world.path("two").join("archive").join(&archive.file), "something else\n").unwrap();
    accepted(world.propose(&mut one, "ann", Intent::Archive(archive.clone())));
    two.follow().unwrap();
    let mut three = world.machine("three");
    three.follow().unwrap();
    for office in [&one, &two, &three] {
        sound(office);
        let message = views::message(office.store(), MessageNo(1)).unwrap().unwrap();
        assert!(!message.content_gone);
        assert_eq!(tables(office), tables(&one));
    }
    let file = |machine: &str| fs::read(world.path(machine).join("archive").join(&archive.file)).unwrap();
    assert!(file("one") == file("two") && file("one") == file("three"));
}

#[test]
fn an_archive_that_is_refused_leaves_no_file() {
    let (mut world, mut one, mut two) = World::with(&["ann", "bob"]);
    accepted(world.send(&mut one, "ann", "bob", "one"));
    accepted(world.propose(&mut one, "bob", Intent::Ack(Ack { message: MessageNo(1) })));
    world.clock.advance(1_000);
    let batch = views::finished(one.store(), one.now().unwrap(), MessageNo(1)).unwrap();
    let archive = one.write_archive(&batch).unwrap();
    let mut more = world.letter("ann", "bob", "it goes on");
    if let Intent::Send(send) = &mut more.intent {
        send.reply_to = Some(MessageNo(1));
    }
    accepted(two.propose(&more, &Rules::none()).unwrap());
    let refused = world.propose(&mut one, "ann", Intent::Archive(archive.clone()));
    assert!(refused.verdict.accepted().is_err());
    two.follow().unwrap();
    assert!(!world.path("two").join("archive").join(&archive.file).exists());
    sound(&two);
}

#[test]
fn a_snapshot_is_restored_and_follows_on() {
    let (mut world, mut one, _) = World::with(&["ann", "bob"]);
    accepted(world.send(&mut one, "ann", "bob", "before"));
    let snapshot = world.folder.path().join("snapshot");
    backup::take(&one, &snapshot, &mut |_| {}).unwrap();
    accepted(world.send(&mut one, "ann", "bob", "after"));
    fs::create_dir(world.folder.path().join("restored")).unwrap();
    backup::restore(&snapshot, &world.place("restored"), false, &mut |_| {}, &mut |_| Ok(())).unwrap();
    let mut restored = world.open("restored");
    assert_ne!(restored.machine().unwrap(), one.machine().unwrap());
    assert_eq!(office_id(&restored), office_id(&one));
    restored.follow().unwrap();
    assert_eq!(tables(&restored), tables(&one));
    sound(&restored);
}

#[test]
fn the_doctor_does_not_try_to_settle_a_followed_office() {
    let (mut world, mut one, _) = World::with(&["ann", "bob"]);
    accepted(world.send(&mut one, "ann", "bob", "hello"));
    let claim = Claim { message: None, max: 1, lease_ms: None, types: Vec::new() };
    accepted(world.propose(&mut one, "bob", Intent::Claim(claim)));
    world.clock.advance(24 * 60 * 60 * 1_000);
    let place = world.place("one");
    let report = doctor::examine(&place, doctor::Request::default(), &mut |_| {}).unwrap();
    assert!(report.findings.iter().any(|finding| finding.check == "claim"), "{:?}", report.findings);
    let mended = doctor::apply_fixes(&place, &report, &mut |_| {});
    assert!(mended.iter().all(|mended| mended.failed.is_none()), "{mended:?}");
}
