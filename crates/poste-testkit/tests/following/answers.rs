//! Several processes of one machine follow into the same files: whoever folds a record, its proposer gets its answer.

use std::sync::{Arc, Mutex};

use poste_core::fold::{Effect, Verdict};
use poste_core::limits::ANSWERS_KEPT_RECORDS;
use poste_core::log::{Arrived, Intent, Retire, Sealed, Sequencer, SequencerHead};
use poste_core::store::Store;
use poste_core::store::tables::Tables;
use poste_core::{Error, Office, Position};
use poste_testkit::sim::{Faults, SimLog};

use crate::world::{World, accepted};

/// A connection whose records another process folds before its owner asks for them.
#[derive(Debug)]
struct Overtaken {
    log: SimLog,
    other: Arc<Mutex<Office>>,
}

impl Sequencer for Overtaken {
    fn publish(&mut self, proposals: &[Sealed]) -> Result<Vec<Position>, Error> {
        let positions = self.log.publish(proposals)?;
        self.other.lock().unwrap().follow()?;
        Ok(positions)
    }

    fn pull(&mut self, after: Position, limit: usize) -> Result<Vec<Arrived>, Error> {
        self.log.pull(after, limit)
    }

    fn head(&mut self) -> Result<SequencerHead, Error> {
        self.log.head()
    }
}

#[test]
fn the_whole_answer_reaches_the_proposer_when_another_process_folds_its_record() {
    let (mut world, mut one, _) = World::with(&["ann", "bob"]);
    accepted(world.send(&mut one, "ann", "bob", "hello"));
    let other = Arc::new(Mutex::new(world.open("one")));
    let log = world.sequencer.connect(7, 0, Faults::NONE);
    let overtaken = Overtaken { log, other: other.clone() };
    let mut proposer = world.place("one").open_following(Box::new(overtaken)).unwrap();

    let retire = world.proposal("bob", Intent::Retire(Retire { name: "bob".parse().unwrap() }));
    let outcome = proposer.propose(&retire).unwrap();
    assert_eq!(other.lock().unwrap().head().unwrap().position, outcome.position.unwrap());
    assert_eq!((outcome.repeat, accepted(outcome)), (false, Effect::Touched(1)), "one delivery was returned");
    let again = proposer.propose(&retire).unwrap();
    assert!(again.repeat);
}

#[test]
fn answers_are_forgotten_after_many_records() {
    let store = Store::in_memory_following().unwrap();
    let mut tables = store.tables().unwrap();
    let verdict = Verdict::Accepted(Effect::Touched(3));
    let is_kept = |tables: &Tables<'_>| tables.answer(Position(1)).unwrap().as_ref() == Some(&verdict);
    tables.keep_answer(Position(1), &verdict).unwrap();
    tables.keep_answer(Position(ANSWERS_KEPT_RECORDS), &verdict).unwrap();
    assert!(is_kept(&tables));
    tables.keep_answer(Position(ANSWERS_KEPT_RECORDS + 1), &verdict).unwrap();
    assert!(!is_kept(&tables));
}
