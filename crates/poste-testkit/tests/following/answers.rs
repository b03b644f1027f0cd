//! Several processes of one machine follow a log into the same files: the proposer of a record gets its answer,
//! whichever process folds it.

use std::sync::{Arc, Mutex};

use poste_core::fold::{Effect, Verdict};
use poste_core::limits::ANSWERS_KEPT_RECORDS;
use poste_core::log::{Arrived, Intent, Retire, Sealed, Sequencer, SequencerHead};
use poste_core::office::Rules;
use poste_core::store::Store;
use poste_core::store::tables::Tables;
use poste_core::{Error, Office, Position};
use poste_testkit::sim::{Faults, SimLog};

use crate::world::{World, accepted};

/// A connection whose records another process folds before this one pulls them.
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
    let outcome = proposer.propose(&retire, &Rules::none()).unwrap();
    assert_eq!(other.lock().unwrap().head().unwrap().position, outcome.position.unwrap());
    assert_eq!((outcome.repeat, accepted(outcome)), (false, Effect::Touched(1)), "one delivery was returned");
    let again = proposer.propose(&retire, &Rules::none()).unwrap();
    assert!(again.repeat);
}

/// A connection whose first pulls after publishing are empty, and which may lose the answer to a publication.
#[derive(Debug)]
struct Slow {
    log: SimLog,
    empty_pulls: usize,
    loses_answer: bool,
    waits: usize,
}

impl Sequencer for Slow {
    fn publish(&mut self, proposals: &[Sealed]) -> Result<Vec<Position>, Error> {
        let positions = self.log.publish(proposals)?;
        self.waits = self.empty_pulls;
        match std::mem::take(&mut self.loses_answer) {
            true => Err(Error::Unknown { ids: Vec::new(), cause: "the answer was lost".to_owned() }),
            false => Ok(positions),
        }
    }

    fn pull(&mut self, after: Position, limit: usize) -> Result<Vec<Arrived>, Error> {
        if self.waits > 0 {
            self.waits -= 1;
            return Ok(Vec::new());
        }
        self.log.pull(after, limit)
    }

    fn head(&mut self) -> Result<SequencerHead, Error> {
        self.log.head()
    }
}

#[test]
fn a_published_record_that_is_not_back_at_once_is_waited_for() {
    let (mut world, _, _) = World::with(&["ann", "bob"]);
    let log = world.sequencer.connect(7, 0, Faults::NONE);
    let slow = Slow { log, empty_pulls: 3, loses_answer: false, waits: 0 };
    let mut proposer = world.place("one").open_following(Box::new(slow)).unwrap();
    accepted(world.send(&mut proposer, "ann", "bob", "hello"));
}

#[test]
fn a_repeat_after_a_lost_answer_gets_the_whole_first_answer() {
    let (mut world, mut one, _) = World::with(&["ann", "bob"]);
    accepted(world.send(&mut one, "ann", "bob", "hello"));
    let log = world.sequencer.connect(7, 0, Faults::NONE);
    let lossy = Slow { log, empty_pulls: 0, loses_answer: true, waits: 0 };
    let mut proposer = world.place("one").open_following(Box::new(lossy)).unwrap();
    let retire = world.proposal("bob", Intent::Retire(Retire { name: "bob".parse().unwrap() }));
    assert!(matches!(proposer.propose(&retire, &Rules::none()), Err(Error::Unknown { .. })));
    for _ in 0..2 {
        let again = proposer.propose(&retire, &Rules::none()).unwrap();
        assert_eq!((again.repeat, accepted(again)), (true, Effect::Touched(1)));
    }
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
