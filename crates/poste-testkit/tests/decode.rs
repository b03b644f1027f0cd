//! Any bytes give a record or a reason, an outcome or a halt, and never a panic.
//!
//! `POSTE_SEED=n` replays one seed of the random ones.

use poste_core::fold::{Code, FOLD_VERSION, Outcome, Refusals, Verdict, fold};
use poste_core::log::{
    Ack, Barrier, Claim, Clock, Intent, KINDS, Malformed, Proof, Proposal, Record, Sealed, Subscribe, TopicPattern, Via,
};
use poste_core::office::Rules;
use poste_core::store::Store;
use poste_core::store::clock::Clock as _;
use poste_core::store::table_digest::digest;
use poste_core::text::Name;
use poste_core::{Error, MessageNo, Position, Timestamp};
use poste_testkit::clock::SimClock;
use poste_testkit::history::{Generator, TimeStep};
use poste_testkit::rng::Rng;
use poste_testkit::sim::{Faults, Sequencer};
use poste_testkit::{forge, invariants, seeds};
use serde_json::{Value, json};

fn proposal(id: &str, intent: Intent) -> Proposal {
    Proposal {
        id: id.parse().unwrap(),
        actor: "ann".parse().unwrap(),
        session: None,
        via: Via::Cli,
        proof: Proof::None,
        sent_at: Timestamp::ZERO,
        intent,
        content: None,
    }
}

fn seal(proposal: &Proposal) -> Result<Sealed, Malformed> {
    Sealed::seal(proposal, &"machine".parse().unwrap())
}

fn some_record() -> Sealed {
    seal(&proposal("some", Intent::Ack(Ack { message: MessageNo(1) }))).unwrap()
}

/// Appends one record to a store's log, in a transaction of its own.
fn fold_one(store: &Store, sealed: Sealed) -> Result<Outcome, Error> {
    let transaction = store.conn().unchecked_transaction()?;
    let mut tables = store.tables()?;
    let head = tables.cursor.head.clone();
    let record = Record { position: head.position.next(), at: head.at.plus_ms(1), sealed };
    let outcome = fold(&mut tables, &record, Refusals::Kept)?; // an error drops the transaction
    tables.flush()?;
    transaction.commit()?;
    Ok(outcome)
}

fn code_of(outcome: &Outcome) -> Option<Code> {
    match &outcome.verdict {
        Verdict::Accepted(_) => None,
        Verdict::Rejected(rejection) => Some(rejection.code),
    }
}

/// The sealed records of a history with all kinds of records, and the store they were folded into.
fn history(seed: u64, steps: usize) -> (Vec<Sealed>, Store) {
    let clock = SimClock::new();
    let sequencer = Sequencer::new(clock.clone());
    let (mut office, _) = sequencer.replica(0, seed, Faults::NONE).unwrap();
    let mut generator = Generator::new(seed);
    for _ in 0..steps {
        if let TimeStep::Passes(ms) = generator.time_step() {
            clock.advance(ms);
        }
        let proposal = generator.next(office.store(), clock.wall()).unwrap();
        let outcome = office.propose(&proposal, &Rules::none()).unwrap();
        generator.learn(&proposal, &outcome);
    }
    let records = sequencer.records();
    let store = Store::in_memory_following().unwrap();
    for record in &records {
        fold_one(&store, record.sealed.clone()).unwrap();
    }
    (records.into_iter().map(|record| record.sealed).collect(), store)
}

#[test]
fn any_bytes_give_a_record_or_a_reason() {
    seeds::run("decode", 200, |seed| {
        let mut rng = Rng::new(seed);
        let sealed = some_record();
        for _ in 0..40 {
            let bytes = match rng.below(3) {
                0 => {
                    let length = rng.below(600);
                    rng.bytes(length)
                }
                1 => forge::with_checksum(&object_of_noise(&mut rng)),
                _ => {
                    let mut bytes = sealed.bytes().to_vec();
                    damage(&mut rng, &mut bytes);
                    bytes
                }
            };
            let is_as_sealed = bytes == sealed.bytes();
            if Sealed::open(bytes.clone()).is_ok() != is_as_sealed {
                return Err(format!("{:?} was taken for a record, or none was", String::from_utf8_lossy(&bytes)));
            }
        }
        Ok(())
    });
}

/// A JSON object that is no envelope, or bytes that only end like one.
fn object_of_noise(rng: &mut Rng) -> Vec<u8> {
    let mut noise = match rng.below(2) {
        0 => json!({ "format": hostile_value(rng), "kind": hostile_value(rng) }).to_string().into_bytes(),
        _ => rng.bytes(80),
    };
    if noise.last() != Some(&b'}') {
        noise.push(b'}');
    }
    noise
}

/// Changes, cuts off or inserts bytes.
fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..=rng.below(3) {
        let at = rng.below(bytes.len() + 1);
        match rng.below(3) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            1 if at < bytes.len() => bytes.truncate(at),
            _ => bytes.insert(at, rng.bytes(1)[0]),
        }
    }
}

#[test]
fn forged_records_are_decided_or_halt_and_never_break_the_tables() {
    let mut halted = 0_u64;
    let mut decided = 0_u64;
    let counts = std::sync::Mutex::new((&mut halted, &mut decided));
    seeds::run("decode", 24, |seed| {
        let (records, store) = history(seed, 60);
        let mut rng = Rng::new(seed);
        for step in 0..80 {
            let original = rng.pick(&records).clone();
            let forged = forge_record(&mut rng, &original);
            let Ok(sealed) = Sealed::open(forged) else { continue };
            let shown = String::from_utf8_lossy(sealed.bytes()).into_owned();
            match fold_one(&store, sealed) {
                Ok(_) => *counts.lock().unwrap().1 += 1,
                // A record that only a newer program understands stops the log. The comparison of the tables with the
                // log at the end shows that it changed nothing.
                Err(Error::UnknownKind { .. } | Error::NeedsUpgrade { .. }) => *counts.lock().unwrap().0 += 1,
                Err(error) => return Err(format!("step {step}: {error}: {shown}")),
            }
        }
        let violations = invariants::full(&store).map_err(|error| error.to_string())?;
        if violations.is_empty() { Ok(()) } else { Err(format!("{violations:?}")) }
    });
    if seeds::is_full_run() {
        assert!(halted > 20 && decided > 500, "the forged records are too uniform: {halted} halted, {decided} decided");
    }
}

/// An envelope with one value replaced by a hostile one, under a new id and with a correct checksum.
fn forge_record(rng: &mut Rng, original: &Sealed) -> Vec<u8> {
    let mut envelope: Value = serde_json::from_slice(original.bytes()).unwrap();
    let object = envelope.as_object_mut().unwrap();
    object.shift_remove("checksum");
    if rng.chance(30) {
        object.insert((*rng.pick(&["kind", "version"])).to_owned(), json!(99));
    }
    // Under the old id the fold would see only repeats and conflicts.
    if rng.chance(900) {
        object.insert("id".to_owned(), json!(format!("forged-{}", rng.next_u64())));
    }
    let target = if rng.chance(750) { &mut object["header"] } else { &mut envelope };
    replace_somewhere(rng, target);
    forge::with_checksum(envelope.to_string().as_bytes())
}

fn replace_somewhere(rng: &mut Rng, value: &mut Value) {
    let stays_here = rng.chance(250);
    match value {
        Value::Object(object) if !object.is_empty() && !stays_here => {
            let key = object.keys().nth(rng.below(object.len())).unwrap().clone();
            match rng.below(10) {
                0 => {
                    object.shift_remove(&key);
                }
                1 => {
                    object.insert("surprise".to_owned(), hostile_value(rng));
                }
                _ => replace_somewhere(rng, &mut object[&key]),
            }
        }
        Value::Array(items) if !items.is_empty() && !stays_here => {
            let index = rng.below(items.len());
            replace_somewhere(rng, &mut items[index]);
        }
        // The envelope itself stays an object, so that more than its shape is tested.
        Value::Object(object) if object.contains_key("format") => {}
        other => *other = hostile_value(rng),
    }
}

fn hostile_value(rng: &mut Rng) -> Value {
    rng.pick(&[
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(1),
        json!(3),
        json!(20),
        json!(22),
        json!(99),
        json!(""),
        json!("poste"),
        json!("everyone"),
        json!("ann"),
        json!("bob"),
        json!("role:coder"),
        json!("topic:*"),
        json!("\u{0}\u{202e}x"),
        json!("x".repeat(300)),
        json!([]),
        json!({}),
        json!([[[[]]]]),
        json!({"at": i64::MIN}),
        json!({"at": i64::MAX}),
        json!({"in_ms": i64::MAX}),
        json!({"message": 1, "how": "replied", "token": 3}),
        json!([1, 1, 0]),
        json!(["bob", "bob", "everyone"]),
    ])
    .clone()
}

#[test]
fn an_unknown_kind_that_may_wait_is_kept_and_folds_again() {
    let (_, store) = history(7, 40);
    let newer = forge::reseal(&some_record(), |envelope| {
        envelope.kind = 999;
        envelope.name = "weather.report".to_owned();
        envelope.critical = false;
        envelope.header = forge::header(r#"{"rain":true}"#);
    })
    .unwrap();
    let outcome = fold_one(&store, newer.clone()).unwrap();
    assert_eq!(code_of(&outcome), Some(Code::UnknownKind));
    let position = outcome.position.expect("it is kept");
    assert_eq!(store.tables().unwrap().refusal(position).unwrap().unwrap().code, "unknown_kind");
    assert_eq!(store.tables().unwrap().record(position).unwrap().unwrap().sealed.bytes(), newer.bytes());
    let next = fold_one(&store, seal(&proposal("next", claim_next())).unwrap()).unwrap();
    assert_eq!(next.position.unwrap(), position.next(), "the log continues after it");
    assert_eq!(invariants::full(&store).unwrap(), []);
}

fn claim_next() -> Intent {
    Intent::Claim(Claim { message: None, max: 1, lease_ms: None, types: Vec::new() })
}

#[test]
fn what_only_a_newer_program_understands_stops_the_log() {
    let unknown_kind = forge::reseal(&some_record(), |envelope| {
        envelope.kind = 998;
        envelope.name = "vault.open".to_owned();
    });
    let unknown_version = forge::reseal(&some_record(), |envelope| envelope.version = 2);
    for sealed in [unknown_kind.unwrap(), unknown_version.unwrap()] {
        let clock = SimClock::new();
        let sequencer = Sequencer::new(clock);
        let (mut office, _) = sequencer.replica(0, 1, Faults::NONE).unwrap();
        office.follow().unwrap();
        let before = digest(office.store().conn()).unwrap();
        let at = sequencer.append_raw(sealed.clone());
        // It stays stopped at that record, whatever is proposed after it.
        for id in ["one", "two"] {
            let stopped = office.propose(&proposal(id, claim_next()), &Rules::none());
            let Err(Error::UnknownKind { position, kind, version, .. }) = stopped else { panic!("{stopped:?}") };
            assert_eq!((position, kind), (at.0, sealed.envelope.kind));
            assert_eq!(version, sealed.envelope.version);
        }
        assert_eq!(digest(office.store().conn()).unwrap(), before);
    }

    let store = Store::in_memory_following().unwrap();
    let mut newer = proposal("barrier", barrier(FOLD_VERSION + 1));
    newer.actor = Name::poste();
    let stopped = fold_one(&store, seal(&newer).unwrap());
    assert!(matches!(stopped, Err(Error::NeedsUpgrade { .. })), "{stopped:?}");
}

fn barrier(fold_version: u32) -> Intent {
    Intent::Barrier(Barrier { fold_version, reason: String::new() })
}

#[test]
fn an_envelope_of_another_format_is_no_record() {
    let other = forge::reseal(&some_record(), |envelope| envelope.format = 2);
    assert_eq!(other.unwrap_err(), Malformed::Format(2));
}

#[test]
fn valid_json_of_the_wrong_types_is_refused_as_malformed() {
    let store = Store::in_memory_following().unwrap();
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/records/v1");
    let mut refused = 0;
    for kind in KINDS {
        let path = golden.join(format!("{:02}-{}.json", kind.number, kind.name));
        let sealed = Sealed::open(std::fs::read(path).unwrap()).unwrap();
        let header: Value = serde_json::from_str(sealed.envelope.header.get()).unwrap();
        // Each field in turn gets a value of the wrong type, and an unknown field is added.
        let mut wrong: Vec<Value> = vec![json!(null), json!("x"), json!(7), json!([{}])];
        for key in header.as_object().unwrap().keys().map(String::as_str).chain(["surprise"]) {
            let mut changed = header.clone();
            changed[key] = json!({ "nonsense": {} });
            wrong.push(changed);
        }
        for header in wrong {
            let header = header.to_string();
            refused += 1;
            let forged = forge::reseal(&sealed, |envelope| {
                envelope.id = format!("wrong-{refused}").parse().unwrap();
                envelope.header = forge::header(&header);
            })
            .unwrap();
            let outcome = fold_one(&store, forged).unwrap();
            assert_eq!(code_of(&outcome), Some(Code::Malformed), "{}: {header}: {outcome:?}", kind.name);
        }
    }
    assert!(refused > 100);
    assert_eq!(invariants::full(&store).unwrap(), []);
}

#[test]
fn nesting_and_size_break_nothing() {
    let store = Store::in_memory_following().unwrap();
    for depth in [100, 130, 20_000] {
        let deep = "[".repeat(depth) + &"]".repeat(depth);
        let forged = forge::reseal(&some_record(), |envelope| {
            envelope.id = format!("deep-{depth}").parse().unwrap();
            envelope.header = forge::header(&format!("{{\"message\":{deep}}}"));
        });
        if let Ok(sealed) = forged {
            assert_eq!(code_of(&fold_one(&store, sealed).unwrap()), Some(Code::Malformed), "{depth}");
        }
    }
    let large = format!("{{\"message\":1,\"surprise\":\"{}\"}}", "x".repeat(300 * 1024));
    let forged = forge::reseal(&some_record(), |envelope| envelope.header = forge::header(&large));
    assert!(matches!(forged, Err(Malformed::TooLarge(_))), "{forged:?}");
}

#[test]
fn numbers_beyond_every_edge_overflow_nothing() {
    let (_, store) = history(9, 60);
    let extremes = [
        Intent::Clock(Clock { leap_ms: i64::MAX }),
        Intent::Ack(Ack { message: MessageNo(u64::MAX) }),
        Intent::Subscribe(Subscribe { topic: TopicPattern::All, from: Some(Position(u64::MAX)) }),
        barrier(0),
    ];
    for (number, intent) in extremes.into_iter().enumerate() {
        let proposal = proposal(&format!("edge-{number}"), intent);
        fold_one(&store, seal(&proposal).unwrap()).unwrap();
    }
    assert_eq!(invariants::full(&store).unwrap(), []);
}
