//! Malformed bytes get a position and change nothing; a stored record that becomes unreadable still stops every reader.

use poste_core::fold::Code;
use poste_core::limits::ENVELOPE_BYTES_MAX;
use poste_core::log::{Arrived, Sealed, Sequencer, SequencerHead};
use poste_core::office::Rules;
use poste_core::store::table_digest::refold;
use poste_core::{Error, MessageNo, Position, views};
use poste_testkit::forge;
use poste_testkit::sim::{Faults, SimLog};

use crate::world::{World, accepted, tables};

#[test]
fn garbage_in_the_log_is_kept_and_folding_goes_on() {
    let (mut world, mut one, mut two) = World::with(&["ann", "bob"]);
    let letter = world.letter("ann", "bob", "hello");
    let sealed = Sealed::seal(&letter, one.machine().unwrap()).unwrap();
    let mut flipped = sealed.bytes().to_vec();
    flipped[20] ^= 1;
    let garbage = [b"no record".to_vec(), Vec::new(), flipped, vec![b'x'; 3 * ENVELOPE_BYTES_MAX]];
    let first = world.sequencer.last().next();
    for bytes in garbage {
        world.sequencer.append_bytes(bytes);
    }
    let sent = one.propose(&letter, &Rules::none()).unwrap();
    assert!(!sent.repeat, "the damaged copy did not take the id");
    accepted(sent);
    two.follow().unwrap();
    assert_eq!(tables(&one), tables(&two));
    for office in [&one, &two] {
        let store = office.store();
        for position in (first.0..first.0 + 4).map(Position) {
            let refused = store.tables().unwrap().refusal(position).unwrap().expect("it has an outcome");
            assert_eq!(refused.code, Code::Malformed.word());
            assert!(store.tables().unwrap().record(position).unwrap().is_none());
        }
        let told = views::malformed(store, Position(0), world.sequencer.last()).unwrap();
        assert_eq!(
            told.iter().map(|malformed| malformed.position).collect::<Vec<_>>(),
            [first, Position(first.0 + 1), Position(first.0 + 2), Position(first.0 + 3)]
        );
        assert_eq!(told[3].bytes, ENVELOPE_BYTES_MAX as u64 + 1, "a far too long envelope is not kept whole");
        assert_eq!(views::verify(store, |_| {}).unwrap().problems, []);
        assert!(views::diff_with_fold(store, |_| {}).unwrap().equal);
    }
}

#[test]
fn a_record_that_rots_in_the_store_still_halts_and_a_marker_hides_none() {
    let (mut world, mut one, _) = World::with(&["ann", "bob"]);
    let at = accepted_at(&mut world, &mut one);
    let change = |sql: &str| one.store().conn().execute(sql, [at]).unwrap();
    change("UPDATE log SET malformed = 1 WHERE position = ?1");
    let problems = views::verify(one.store(), |_| {}).unwrap().problems;
    assert!(problems[0].what.contains("marked as malformed"), "{problems:?}");
    change("UPDATE log SET malformed = 0, envelope = x'00' WHERE position = ?1");
    assert!(matches!(refold(one.store(), |_| {}), Err(Error::Damaged(_))));
}

fn accepted_at(world: &mut World, office: &mut poste_core::Office) -> Position {
    world.send(office, "ann", "bob", "hello").position.unwrap()
}

/// A connection that changes content in transit.
#[derive(Debug)]
struct Garbling(SimLog);

impl Sequencer for Garbling {
    fn publish(&mut self, proposals: &[Sealed]) -> Result<Vec<Position>, Error> {
        self.0.publish(proposals)
    }

    fn pull(&mut self, after: Position, limit: usize) -> Result<Vec<Arrived>, Error> {
        let mut arrived = self.0.pull(after, limit)?;
        arrived.iter_mut().filter_map(|arrived| arrived.content.as_mut()).for_each(|content| content.push(b' '));
        Ok(arrived)
    }

    fn head(&mut self) -> Result<SequencerHead, Error> {
        self.0.head()
    }
}

#[test]
fn content_that_is_not_what_its_record_says_is_dropped_and_told() {
    let (mut world, mut one, _) = World::with(&["ann", "bob"]);
    let at = accepted_at(&mut world, &mut one);
    let garbling = Garbling(world.sequencer.connect(7, 0, Faults::NONE));
    let mut two = world.place("two").open_following(Box::new(garbling)).unwrap();
    two.follow().unwrap();
    assert_eq!(tables(&one), tables(&two));
    assert!(views::message(two.store(), MessageNo(1)).unwrap().unwrap().content_gone);
    let problems = views::verify(two.store(), |_| {}).unwrap().problems;
    assert_eq!(problems[0].what, format!("record {at}: its content is missing"));
}

#[test]
fn an_envelope_of_a_newer_format_stops_with_upgrade() {
    let (world, mut one, _) = World::with(&["ann"]);
    let head = one.head().unwrap();
    world.sequencer.append_bytes(forge::with_checksum(br#"{"format":2,"shape":"of the future"}"#));
    assert!(matches!(one.follow(), Err(Error::NeedsUpgrade { needed: 2, ours: 1, .. })));
    assert_eq!(one.head().unwrap(), head);
}
