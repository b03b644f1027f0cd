//! A verb that needed several tries is resumed under its id, also in a log that keeps refusals.

use std::sync::{Arc, Mutex};

use poste_core::log::{Arrived, Sealed, Sequencer, SequencerHead};
use poste_core::{Error, Office, Position};
use poste_testkit::sim::{Faults, SimLog};
use poste_verbs::{agree, context, reply, send};
use serde_json::json;

use crate::world::{World, call};

#[test]
fn a_merge_that_was_refused_first_is_one_merge_however_often_it_is_repeated() {
    let (_world, mut one, mut two) = World::with(&["ann", "bob"]);
    let text = |first: &str, last: &str| format!("{first}\n2\n3\n4\n5\n{last}\n");
    call::<context::create::Input>(&mut one, "ann", json!({ "name": "notes", "text": text("1", "6") }));
    let theirs = json!({ "name": "notes", "text": text("one", "6"), "if_version": 1 });
    call::<context::replace::Input>(&mut one, "ann", theirs);

    two.follow().unwrap();
    let mine = json!({ "name": "notes", "text": text("1", "six"), "if_version": 1, "merge": true, "id": "mine" });
    let first = call::<context::replace::Input>(&mut two, "bob", mine.clone());
    assert_eq!((&first["version"], &first["merged"], &first["repeat"]), (&json!(3), &json!(true), &json!(false)));
    assert_eq!(first["id"], "mine/2", "the log keeps the first try, under its id");
    for office in [&mut two, &mut one] {
        office.follow().unwrap();
        let again = call::<context::replace::Input>(office, "bob", mine.clone());
        assert_eq!((&again["version"], &again["repeat"]), (&json!(3), &json!(true)));
        let shown = call::<context::show::Input>(office, "ann", json!({ "name": "notes" }));
        assert_eq!((&shown["text"], &shown["version"]), (&json!(text("one", "six")), &json!(3)));
    }
}

#[test]
fn agreeing_after_the_delivery_ended_is_said_once_and_written_down_once() {
    let (_world, mut one, mut two) = World::with(&["ann", "bob"]);
    call::<context::create::Input>(&mut one, "ann", json!({ "name": "api" }));
    let proposal = json!({
        "to": ["bob"], "subject": "IUser", "type": "interface_contract", "payload": { "interface": "IUser" },
    });
    let number = call::<send::Input>(&mut one, "ann", proposal)["number"].clone();
    call::<reply::Input>(&mut one, "bob", json!({ "number": number, "body": "I will look.", "done": true }));

    let yes = json!({ "number": number, "context": "api", "id": "yes" });
    let first = call::<agree::Input>(&mut one, "bob", yes.clone());
    assert_eq!((&first["repeat"], &first["version"]["version"]), (&json!(false), &json!(2)), "{first}");
    for office in [&mut one, &mut two] {
        office.follow().unwrap();
        let again = call::<agree::Input>(office, "bob", yes.clone());
        assert_eq!((&again["message"], &again["repeat"]), (&first["message"], &json!(true)), "{again}");
        let shown = call::<context::show::Input>(office, "ann", json!({ "name": "api" }));
        assert_eq!(shown["version"], 2);
    }
}

/// A connection on which another machine passes a lock on just before it is broken.
#[derive(Debug)]
struct HandsOn {
    log: SimLog,
    other: Arc<Mutex<Office>>,
    is_done: bool,
}

impl Sequencer for HandsOn {
    fn publish(&mut self, proposals: &[Sealed]) -> Result<Vec<Position>, Error> {
        if !std::mem::replace(&mut self.is_done, true) {
            let other = &mut self.other.lock().unwrap();
            call::<context::unlock::Input>(other, "bob", json!({ "name": "notes" }));
            call::<context::lock::Input>(other, "cid", json!({ "name": "notes", "for": "1h" }));
        }
        self.log.publish(proposals)
    }

    fn pull(&mut self, after: Position, limit: usize) -> Result<Vec<Arrived>, Error> {
        self.log.pull(after, limit)
    }

    fn head(&mut self) -> Result<SequencerHead, Error> {
        self.log.head()
    }
}

#[test]
fn a_lock_that_changed_hands_is_broken_under_the_next_id() {
    let (world, mut one, two) = World::with(&["ann", "bob", "cid"]);
    call::<context::create::Input>(&mut one, "ann", json!({ "name": "notes" }));
    call::<context::lock::Input>(&mut one, "bob", json!({ "name": "notes", "for": "1h" }));
    let log = world.sequencer.connect(7, 0, Faults::NONE);
    let hands_on = HandsOn { log, other: Arc::new(Mutex::new(two)), is_done: false };
    let mut breaker = world.place("one").open_following(Box::new(hands_on)).unwrap();
    let break_it = json!({ "name": "notes", "reason": "it is in the way", "id": "break" });
    let first = call::<context::unlock::Input>(&mut breaker, "ann", break_it.clone());
    assert_eq!(first["repeat"], json!(false));
    let told = call::<poste_verbs::inbox::Input>(&mut breaker, "cid", json!({}));
    assert_eq!(told["messages"][0]["number"], first["told"], "{told}");
    let again = call::<context::unlock::Input>(&mut breaker, "ann", break_it);
    assert_eq!((&again["told"], &again["repeat"]), (&first["told"], &json!(true)));
}
