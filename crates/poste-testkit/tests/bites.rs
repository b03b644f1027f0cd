//! Each invariant check bites: for each one there is damage that it reports by name.

use poste_core::log::Intent;
use poste_core::store::Store;
use poste_core::store::clock::Clock as _;
use poste_core::{Office, Position};
use poste_testkit::history::{Generator, TimeStep};
use poste_testkit::invariants;
use poste_testkit::sim::{Faults, Simulation};
use std::collections::BTreeSet;

/// Damage, and the check that must report it. Other checks may report it too.
const DAMAGE: &[(&str, &str)] = &[
    ("I3 every id has one row, at its first record", "UPDATE ids SET position = position + 1 WHERE position = 4"),
    ("I3 every id has one row, at its first record", "DELETE FROM ids WHERE position = 4"),
    (
        "I3 a record makes at most one message of its own",
        "UPDATE messages SET position = (SELECT position FROM messages WHERE notice IS NULL LIMIT 1)
         WHERE number = (SELECT max(number) FROM messages WHERE notice IS NULL)",
    ),
    ("I3 an id knows the message it made", "UPDATE ids SET message = NULL WHERE message = 1"),
    (
        "I3 repeated and refused records have no effect",
        "UPDATE events SET position = (SELECT max(position) FROM outcomes)
         WHERE position = (SELECT max(position) FROM events)",
    ),
    ("I7 claimed means holder, lease and token", "UPDATE deliveries SET holder = NULL WHERE state = 1"),
    ("I7 claimed means holder, lease and token", "UPDATE deliveries SET lease_until = NULL WHERE state = 1"),
    ("I7 claimed means holder, lease and token", "UPDATE deliveries SET state = 1 WHERE state = 0 AND claims = 0"),
    ("I7 nothing else has a lease", "UPDATE deliveries SET lease_until = 1 WHERE state = 2"),
    ("I7 nothing else has a lease", "UPDATE deliveries SET holder = 'bob' WHERE state = 0"),
    ("I7 a token is the record of a claim by the holder", "UPDATE deliveries SET holder = 'ghost' WHERE state = 1"),
    ("I7 a token is the record of a claim by the holder", "UPDATE deliveries SET token = 2 WHERE state = 1"),
    (
        "I7 every claim is in the history, the token is the last",
        "UPDATE deliveries SET claims = claims + 1 WHERE state = 1",
    ),
    (
        "I7 every claim is in the history, the token is the last",
        "UPDATE deliveries SET token = (SELECT min(position) FROM events e WHERE e.delivery = number AND event = 1)
         WHERE claims > 1",
    ),
    (
        "I7 a retired agent holds nothing and awaits nothing",
        "UPDATE agents SET retired_at = 1 WHERE name IN (SELECT address FROM deliveries WHERE state = 0)",
    ),
    ("I8 states have names", "UPDATE deliveries SET state = 7 WHERE number = 1"),
    (
        "I8 a delivery has a message and its rank",
        "DELETE FROM messages WHERE number = (SELECT min(message) FROM deliveries)",
    ),
    ("I8 a delivery has a message and its rank", "UPDATE deliveries SET rank = 3 - rank WHERE number = 1"),
    (
        "I8 a handoff is decided by its record, and by no other",
        "UPDATE handoffs SET decided_by = 'ghost' WHERE decision IS NOT NULL",
    ),
    ("I8 a handoff is decided by its record, and by no other", "UPDATE handoffs SET state = 2 WHERE state = 1"),
    ("I8 a handoff is decided by its record, and by no other", "UPDATE handoffs SET overridden = 1 WHERE state <> 1"),
    ("I8 a handoff is what its delivery says", "UPDATE handoffs SET state = 5 WHERE state IN (0, 6, 7)"),
    ("I8 a handoff is what its delivery says", "UPDATE handoffs SET state = 0 WHERE state > 3"),
    (
        "I8 every handoff has one message, and only it answers",
        "UPDATE handoffs SET recipient = 'ghost' WHERE number IN (SELECT number FROM messages)",
    ),
    (
        "I8 every handoff has one message, and only it answers",
        "UPDATE handoffs SET answer = answer + 1 WHERE state = 1 AND number IN (SELECT number FROM messages)",
    ),
    ("I8 an end has a time, a record and a reason", "UPDATE deliveries SET reason = NULL WHERE state = 2"),
    ("I8 an end has a time, a record and a reason", "UPDATE deliveries SET state = 2 WHERE state = 0"),
    ("I8 the reason fits the state", "UPDATE deliveries SET state = 3 WHERE state = 2"),
    ("I8 it ended when its record says", "UPDATE deliveries SET ended_at = ended_at + 1 WHERE state = 2"),
    ("I8 pending and not ready means ready later", "UPDATE deliveries SET ready = 0 WHERE state = 0 AND ready = 1"),
    ("I8 what is due is what deliveries imply", "DELETE FROM due WHERE what = 0"),
    ("I8 what is due is what deliveries imply", "INSERT INTO due (at, what, subject) VALUES (1, 2, 1)"),
    ("I8 attempts stay within their limit", "UPDATE deliveries SET attempts = 1000 WHERE state = 0"),
    ("I8 a shown delivery was shown to an agent", "UPDATE deliveries SET shown_at = NULL WHERE shown_at IS NOT NULL"),
    ("I8 a shown delivery was shown to an agent", "DELETE FROM shown"),
    ("I8 acked agrees with the history", "UPDATE deliveries SET acked_at = 1 WHERE acked_at IS NULL"),
    ("I8 an answer is a reply", "UPDATE deliveries SET answer = 1 WHERE answer > 1"),
    ("I8 a notice is the office's and about something", "UPDATE messages SET sender = 'bob' WHERE notice IS NOT NULL"),
    ("I8 topics count what was published", "UPDATE topics SET published = published + 1"),
    ("I9 message numbers are 1, 2, 3 …", "UPDATE cursor SET message_last = message_last + 1"),
    ("I9 delivery numbers are 1, 2, 3 …", "DELETE FROM deliveries WHERE number = 2"),
    ("I9 positions are 1, 2, 3 … up to the cursor", "DELETE FROM log WHERE position = 9"),
    ("I9 positions are 1, 2, 3 … up to the cursor", "DELETE FROM cursor"),
    ("I9 the cursor is the last record", "UPDATE cursor SET at = at + 1"),
    ("I9 time never goes back", "UPDATE log SET at = at - 86400000 WHERE position = 60"),
    ("I9 messages are numbered in log order", "UPDATE messages SET position = 1 WHERE number = 5"),
    ("I9 events belong to a record and a delivery", "UPDATE events SET at = at + 1 WHERE event = 1"),
    ("I9 events belong to a record and a delivery", "UPDATE events SET delivery = 999999 WHERE event = 1"),
    ("I9 outcomes and content belong to a record", "INSERT INTO outcomes VALUES (999999, 'ended', 'damage')"),
    (
        "I9 a refused or repeated record has no content",
        "INSERT INTO content SELECT position, 'damage', x'00' FROM outcomes WHERE code <> 'unknown_kind' LIMIT 1",
    ),
    (
        "I8 reminded and dropped agree with the history",
        "UPDATE deliveries SET reminded_at = reminded_at + 1 WHERE reminded_at IS NOT NULL",
    ),
    (
        "I8 reminded and dropped agree with the history",
        "UPDATE deliveries SET respond_by = NULL WHERE reminded_at IS NOT NULL",
    ),
    ("I8 reminded and dropped agree with the history", "DELETE FROM events WHERE event = 18"),
    ("I8 reminded and dropped agree with the history", "UPDATE deliveries SET dropped_at = 1 WHERE state = 0"),
    ("I8 reminded and dropped agree with the history", "DELETE FROM events WHERE event = 19"),
    (
        "I8 a reminder goes to its sender and one lead at most",
        "UPDATE messages SET notice = 5, about = (SELECT max(about) FROM messages) WHERE notice IS NOT NULL",
    ),
    (
        "I7 a locked context has an active holder and every field of a lock",
        "UPDATE contexts SET token = 1 WHERE holder IS NULL",
    ),
    (
        "I7 a locked context has an active holder and every field of a lock",
        "UPDATE contexts SET token = 1, holder = 'ghost', locked_until = 1",
    ),
    (
        "I8 a version is one record of its writer, and one message",
        "UPDATE context_versions SET agent = 'ghost' WHERE version = 1",
    ),
    (
        "I8 a version is one record of its writer, and one message",
        "UPDATE context_versions SET message = message + 1 WHERE version = 1",
    ),
    (
        "I8 an agreement is a record of its party, and a stored one was agreed",
        "UPDATE agreements SET agent = 'ghost' WHERE position IS NOT NULL",
    ),
    (
        "I8 an agreement is a record of its party, and a stored one was agreed",
        "UPDATE context_versions SET agreement = 999999 WHERE version = 1",
    ),
    ("I8 the version that an agent has seen exists", "UPDATE context_reads SET version = version + 1000"),
    ("I9 versions of a context are 1, 2, 3 …", "UPDATE contexts SET version = version + 1"),
    ("I9 versions of a context are 1, 2, 3 …", "DELETE FROM contexts"),
    ("I9 contributors are those who wrote versions", "UPDATE context_contributors SET versions = versions + 1"),
    ("I9 contributors are those who wrote versions", "DELETE FROM context_contributors"),
    (
        "I8 redacted content is erased",
        "INSERT INTO content (position, subject) SELECT min(position), 'back' FROM redactions
         WHERE EXISTS (SELECT 1 FROM redactions)",
    ),
    ("I8 redacted content is erased", "UPDATE redactions SET redacted_by = position"),
    (
        "I8 nothing was sent or tried in a conversation since it was closed",
        "UPDATE closed SET position = 1, at = (SELECT at FROM log WHERE position = 1)",
    ),
    (
        "I8 nothing was sent or tried in a conversation since it was closed",
        "UPDATE closed SET conversation = 'nowhere' WHERE position = (SELECT max(position) FROM closed)",
    ),
    ("I8 nothing was sent or tried in a conversation since it was closed", "UPDATE closed SET at = at + 1"),
    ("I7 the history leads to the state", "UPDATE events SET event = 19 WHERE event = 15"),
    ("I9 what agents have belongs to an agent", "INSERT INTO capabilities VALUES ('ghost', 'rust')"),
    ("I9 policy versions are 1, 2, 3 …", "UPDATE policies SET version = version + 900 WHERE version = 1"),
    ("I8 what is due is what deliveries imply", "DELETE FROM due WHERE what = 5"),
    ("I9 holders of paths are active, and numbers are unique", "UPDATE reservations SET agent = 'ghost'"),
    (
        "I9 holders of paths are active, and numbers are unique",
        "UPDATE past_reservations SET number = (SELECT max(number) FROM reservations)
         WHERE number = (SELECT max(number) FROM past_reservations) AND EXISTS (SELECT 1 FROM reservations)",
    ),
    ("I8 what is due is what deliveries imply", "DELETE FROM due WHERE what = 8"),
    (
        "I7 a rule is held by an active agent, by the record that took it",
        "UPDATE handlers SET holder = 'ghost' WHERE holder IS NOT NULL",
    ),
    (
        "I9 rules are not ahead of the log, and wait for existing messages",
        "UPDATE handlers SET cursor = cursor + 100000",
    ),
    (
        "I9 rules are not ahead of the log, and wait for existing messages",
        "UPDATE handler_dead SET message = message + 100000",
    ),
    ("I9 a reservation ended when its record says", "UPDATE past_reservations SET ended_at = ended_at + 1"),
    (
        "I9 an exclusive reservation overlaps no other",
        "INSERT INTO reservations SELECT number + 1000, position, at, 'ghost', '**', x'', 0, until, NULL FROM reservations
         LIMIT 1",
    ),
    ("I7 the history leads to the state", "DELETE FROM events WHERE event = 6"),
    ("I7 the history leads to the state", "UPDATE deliveries SET state = 0 WHERE state = 1"),
    ("I5 tables are the folded log", "UPDATE agents SET worktree = '/elsewhere' WHERE name = 'bob'"),
    ("I5 tables are the folded log", "UPDATE topics SET last_at = 1"),
    ("I9 the chain holds", "UPDATE log SET chain = zeroblob(32) WHERE position = 5"),
    ("I9 the chain holds", "UPDATE log SET at = at + 1 WHERE position = 5"),
    (
        "I9 SQLite finds the file sound",
        "INSERT INTO machine (one, name, boot_id, boot_ms, at, policy_seen, erased_to) VALUES (2, 'two', '', 0, 0, 0, 0)",
    ),
];

/// Damage to what an archive leaves behind. Some checks do not apply once rows have left the tables, so this is done to
/// a separate office.
const DAMAGE_OF_ARCHIVED: &[(&str, &str)] = &[
    (
        "I8 what is archived is nowhere else and in an archive",
        "UPDATE messages SET number = (SELECT min(number) FROM archived_messages)
         WHERE number = (SELECT max(number) FROM messages) AND EXISTS (SELECT 1 FROM archived_messages)",
    ),
    (
        "I8 what is archived is nowhere else and in an archive",
        "UPDATE deliveries SET message = (SELECT min(number) FROM archived_messages)
         WHERE number = (SELECT max(number) FROM deliveries) AND EXISTS (SELECT 1 FROM archived_messages)",
    ),
    (
        "I8 what is archived is nowhere else and in an archive",
        "UPDATE events SET message = (SELECT min(number) FROM archived_messages)
         WHERE position = (SELECT max(position) FROM events) AND EXISTS (SELECT 1 FROM archived_messages)",
    ),
    ("I8 what is archived is nowhere else and in an archive", "DELETE FROM archives"),
    ("I8 what is archived is nowhere else and in an archive", "UPDATE archived_messages SET archive = position"),
    (
        "I8 what is archived is nowhere else and in an archive",
        // The content of a version of a shared context stays.
        "INSERT INTO content (position, subject) SELECT position, 'back' FROM archived_content
         WHERE position NOT IN (SELECT position FROM content) LIMIT 1",
    ),
    ("I8 what is archived is nowhere else and in an archive", "UPDATE OR IGNORE archived_events SET event = 2"),
    (
        "I8 an archive has only what happened before it was written",
        "UPDATE OR IGNORE archived_events SET position = (SELECT position FROM cursor)",
    ),
    (
        "I9 message numbers are 1, 2, 3 …",
        "DELETE FROM archived_messages WHERE number = (SELECT min(number) FROM archived_messages)",
    ),
    ("I3 an id knows the message it made", "DELETE FROM archived_messages"),
    ("I5 tables are the folded log", "DELETE FROM archived_events"),
    ("I5 tables are the folded log", "DELETE FROM archived_content"),
];

/// Damage to questions that need a decision.
const DAMAGE_OF_QUESTIONS: &[(&str, &str)] = &[
    ("I8 what is due is what deliveries imply", "DELETE FROM due WHERE what = 6"),
    (
        "I8 a question is decided once, by an answer or its default",
        "UPDATE approvals SET choice = 'maybe' WHERE state = 1",
    ),
    ("I8 a question is decided once, by an answer or its default", "UPDATE approvals SET ended_by = NULL"),
    ("I8 a decided question is not pending", "UPDATE approvals SET state = 1 WHERE state = 0"),
];

/// Damage to gate results.
const DAMAGE_OF_GATES: &[(&str, &str)] = &[
    (
        "I8 a delivery stopped by its gates has their result, and gates run under a claim",
        "UPDATE events SET value = value + 1 WHERE event = 20",
    ),
    (
        "I8 a delivery stopped by its gates has their result, and gates run under a claim",
        "DELETE FROM events WHERE event = 21",
    ),
];

/// Damage to sessions.
const DAMAGE_OF_SESSIONS: &[(&str, &str)] = &[
    (
        "I8 a session is live or ended, and a live one has an active agent",
        "UPDATE sessions SET ended_at = 1 WHERE state = 0",
    ),
    (
        "I8 a session is live or ended, and a live one has an active agent",
        "UPDATE agents SET retired_at = 1 WHERE name IN (SELECT agent FROM sessions WHERE state = 0)",
    ),
    (
        "I8 a session is live or ended, and a live one has an active agent",
        "UPDATE sessions SET successor = NULL WHERE state = 2",
    ),
    (
        "I9 sessions hang below their root, and notes at it",
        "UPDATE sessions SET parent = NULL WHERE parent IS NOT NULL AND state <> 2",
    ),
    ("I9 sessions hang below their root, and notes at it", "UPDATE session_notes SET question = NULL WHERE what = 3"),
    ("I9 sessions hang below their root, and notes at it", "UPDATE sessions SET questions = 0 WHERE questions > 0"),
];

/// Damage to runs.
const DAMAGE_OF_RUNS: &[(&str, &str)] = &[
    ("I8 a run is one record of its agent, and ended by a later one", "UPDATE runs SET agent = 'ghost'"),
    (
        "I8 a run is one record of its agent, and ended by a later one",
        "UPDATE runs SET ended_by = 1 WHERE ended_by > 1",
    ),
    ("I8 a run is one record of its agent, and ended by a later one", "UPDATE runs SET how = 0 WHERE ended_by IS NULL"),
    (
        "I8 a run is one record of its agent, and ended by a later one",
        "UPDATE runs SET code = 3 WHERE ended_by IS NULL",
    ),
    ("I8 the messages of a run were claimed by its record", "UPDATE OR IGNORE run_claims SET run = 'ghost'"),
    ("I8 the messages of a run were claimed by its record", "UPDATE OR IGNORE run_claims SET message = 1000000"),
    ("I8 the messages of a run were claimed by its record", "UPDATE deliveries SET session = 'ghost' WHERE state = 1"),
    (
        "I9 holds are on pending deliveries of active agents, or on agents",
        "UPDATE OR IGNORE run_holds SET agent = 'ghost'",
    ),
    (
        "I9 holds are on pending deliveries of active agents, or on agents",
        "UPDATE OR IGNORE run_holds SET delivery = 1000000 WHERE delivery > 0",
    ),
    ("I9 senders were notified only about stopped agents", "UPDATE OR IGNORE stop_told SET sender = agent"),
    (
        "I9 senders were notified only about stopped agents",
        "UPDATE run_holds SET why = 0 WHERE delivery = 0 AND agent IN (SELECT agent FROM stop_told)",
    ),
];

/// Damage to workflows.
const DAMAGE_OF_WORKFLOWS: &[(&str, &str)] = &[
    ("I8 a workflow has ended or has an active owner", "UPDATE workflows SET ended_at = 1 WHERE state = 0"),
    ("I8 a workflow has ended or has an active owner", "UPDATE workflows SET owner = 'ghost' WHERE state = 0"),
    ("I8 a workflow has ended or has an active owner", "UPDATE workflows SET label = 'ghost-' || number"),
    (
        "I8 a step is done when all of its messages are, and open ones are of its round",
        "UPDATE OR IGNORE workflow_mail SET round = round + 100",
    ),
    (
        "I8 a step's message is what its delivery says, and one attempt follows the failure of another",
        "UPDATE workflow_mail SET state = 1 WHERE state = 0",
    ),
    (
        "I8 a step's message is what its delivery says, and one attempt follows the failure of another",
        "UPDATE workflow_mail SET message = 1000000 + message",
    ),
    ("I8 a numbered step holds up others until it is done or dropped", "DELETE FROM numbered_steps"),
    (
        "I8 a numbered step holds up others until it is done or dropped",
        "UPDATE numbered_steps SET delivery = 1000000 + delivery",
    ),
];

/// Whether archives are part of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Archives {
    Never,
    Too,
}

/// Damages random histories wherever possible, until every check has reported its damage. Returns the last history and
/// the names of those checks.
fn bite(archives: Archives, damage: &[(&'static str, &str)]) -> (Office, BTreeSet<&'static str>) {
    const SEEDS: std::ops::Range<u64> = 3..15;
    const STEPS: usize = 700;
    const STEPS_BETWEEN: usize = 20;
    let mut outstanding = damage.to_vec();
    for seed in SEEDS {
        let mut world = Simulation::new(seed, 1, Faults::NONE).unwrap();
        let mut generator = Generator::new(seed);
        for step in 1..=STEPS {
            act(&mut world, &mut generator, archives);
            // Some damage needs two rows of a kind to mix up.
            if step % STEPS_BETWEEN == 0 && world.sequencer.last() > Position(200) {
                bite_what_is_there(world.replicas[0].store(), &mut outstanding);
            }
            if outstanding.is_empty() {
                return (world.replicas.remove(0), damage.iter().map(|(check, _)| *check).collect());
            }
        }
    }
    panic!("no history made the checks report this damage: {outstanding:#?}");
}

fn act(world: &mut Simulation, generator: &mut Generator, archives: Archives) {
    if let TimeStep::Passes(ms) = generator.time_step() {
        world.clock.advance(ms);
    }
    let proposal = generator.next(world.replicas[0].store(), world.clock.wall()).unwrap();
    if archives == Archives::Never && matches!(proposal.intent, Intent::Archive(_)) {
        return;
    }
    let outcome = world.propose(0, &proposal).unwrap().expect("nothing fails here");
    generator.learn(&proposal, &outcome);
}

/// Does each outstanding damage that changes rows here. Damage that its check reports is removed from the list; damage
/// that it cannot see in these rows, because later steps hide it, stays for another try.
fn bite_what_is_there(store: &Store, outstanding: &mut Vec<(&'static str, &str)>) {
    let finds_something = |damage: &str| damaged(store, damage, |rows| rows > 0);
    if !outstanding.iter().any(|(_, damage)| finds_something(damage)) {
        return;
    }
    assert_eq!(names_of(store), BTreeSet::new(), "the office is sound before it is damaged");
    outstanding.retain(|(check, damage)| {
        let is_seen = damaged(store, damage, |rows| {
            let quick = || invariants::quick(store).unwrap();
            rows > 0 && (quick().iter().any(|violation| violation.check == *check) || names_of(store).contains(check))
        });
        !is_seen
    });
    assert_eq!(names_of(store), BTreeSet::new(), "all damage was undone");
}

/// Does damage, calls `look`, and undoes the damage.
fn damaged<T>(store: &Store, damage: &str, look: impl FnOnce(usize) -> T) -> T {
    let transaction = store.conn().unchecked_transaction().unwrap();
    store.conn().pragma_update(None, "ignore_check_constraints", true).unwrap();
    let rows = transaction.execute(damage, []).unwrap_or_else(|error| panic!("{damage}: {error}"));
    store.conn().pragma_update(None, "ignore_check_constraints", false).unwrap();
    let seen = look(rows);
    transaction.rollback().unwrap();
    seen
}

fn names_of(store: &Store) -> BTreeSet<&'static str> {
    invariants::full(store).unwrap().into_iter().map(|violation| violation.check).collect()
}

#[test]
fn every_check_sees_the_damage_it_is_for() {
    let of_the_living =
        [DAMAGE, DAMAGE_OF_QUESTIONS, DAMAGE_OF_GATES, DAMAGE_OF_SESSIONS, DAMAGE_OF_RUNS, DAMAGE_OF_WORKFLOWS]
            .concat();
    let (office, mut bitten) = bite(Archives::Never, &of_the_living);
    // The one check that is about the log and not about a row: this log keeps refusals, and now claims to drop them.
    let store = office.store();
    let dropped = damaged(store, "DELETE FROM meta WHERE key = 'follows'", |_| invariants::quick(store).unwrap());
    bitten.extend(dropped.into_iter().map(|violation| violation.check));
    bitten.extend(bite(Archives::Too, DAMAGE_OF_ARCHIVED).1);
    let toothless: Vec<&str> = invariants::names().into_iter().filter(|name| !bitten.contains(name)).collect();
    assert!(toothless.is_empty(), "there is no damage for {toothless:?}");
}

#[test]
fn a_simulation_whose_log_lost_an_acknowledged_record_is_found_out() {
    let mut world = Simulation::new(4, 2, Faults::NONE).unwrap();
    let mut generator = Generator::new(4);
    for replica in [0, 1, 0, 1, 0, 0] {
        let proposal = generator.next(world.replicas[replica].store(), world.clock.wall()).unwrap();
        world.propose(replica, &proposal).unwrap();
    }
    world.heal().unwrap();
    assert_eq!(invariants::of_simulation(&world).unwrap(), []);
    let checks = |world: &Simulation| -> BTreeSet<&str> {
        invariants::of_simulation(world).unwrap().into_iter().map(|violation| violation.check).collect()
    };

    // I1: a record was acknowledged that is not in the log.
    let mut never_stored = world.acknowledged[0].proposal.clone();
    never_stored.id = "never-stored".parse().unwrap();
    let truth = std::mem::replace(&mut world.acknowledged[0].proposal, never_stored);
    assert!(checks(&world).contains("I1 what was acknowledged is in the log"));
    world.acknowledged[0].proposal = truth;

    // I1: an answer names another position.
    let told = world.acknowledged[1].outcome.position.replace(Position(1));
    assert!(checks(&world).contains("I1 an answer names its position"));
    world.acknowledged[1].outcome.position = told;

    // I4: two answers to one sender are swapped.
    let ids = [0, 2].map(|index: usize| world.acknowledged[index].proposal.id.clone());
    world.acknowledged[0].proposal.id = ids[1].clone();
    world.acknowledged[2].proposal.id = ids[0].clone();
    assert!(checks(&world).contains("I4 each sender's order is kept"));
    world.acknowledged[0].proposal.id = ids[0].clone();
    world.acknowledged[2].proposal.id = ids[1].clone();

    // I6: one replica differs from the others.
    world.replicas[1].store().conn().execute("UPDATE agents SET worktree = '/elsewhere'", []).unwrap();
    assert!(checks(&world).contains("I6 equal position, equal digest"));
}
