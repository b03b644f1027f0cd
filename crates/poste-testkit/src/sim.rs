//! A sequencer and its replicas in one thread, with every fault drawn from a seed.
//!
//! # The fault model
//!
//! The sequencer is what NATS or Postgres will be: it puts whatever reaches it into one order, stamps it with a
//! time that never goes back, and keeps it for ever. It is taken to be sound; it loses nothing it has sequenced
//! and never shows two replicas different records at one position. It decides nothing, so refused proposals stay
//! in its log. Everything around it fails:
//!
//! * **A request is lost.** Nothing is stored; the caller learns only that the outcome is unknown.
//! * **An answer is lost.** The record is stored; the caller learns only that the outcome is unknown.
//! * **A request is delayed.** The caller learns that the outcome is unknown, and the record is sequenced later,
//!   possibly after the caller has tried again, possibly after other senders' newer records.
//! * **A request is duplicated.** The same sealed bytes are sequenced twice, at once or later.
//! * **Senders overtake each other.** Between two senders there is no order before the sequencer's. One sender's
//!   own records stay in the order it published them: it has one connection, and a connection is a queue.
//! * **A replica lags.** It folds only some of what is there, so it proposes by an old view, with old tokens.
//! * **A replica crashes.** The transaction it was folding in is gone, before or after its cursor was written,
//!   or it was committed and only the answer is gone. It resumes from the cursor its store has.
//! * **A replica loses its store.** It starts from nothing and folds the whole log again.
//! * **Ticks race.** Each replica proposes a tick when something is due by its own view. Several do so for the
//!   same due thing; the fold takes the first and refuses the others.
//!
//! A caller whose outcome is unknown tries again under the same id, a few times, and may give up for good.
//! Not modelled: damaged bytes (the checksum's own tests), a sequencer that forgets, replicas of different
//! versions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use poste_core::fold::{FOLD_VERSION, Outcome, Refusals, fold};
use poste_core::log::{Barrier, Head, Intent, Log, Proposal, Record, Sealed, Tick};
use poste_core::store::Store;
use poste_core::store::clock::Clock as _;
use poste_core::store::tables::Tables;
use poste_core::text::{Name, RecordId};
use poste_core::{Error, Office, Position, Timestamp};

use crate::clock::SimClock;
use crate::rng::Rng;

/// Which replica; they are counted from 0.
pub type ReplicaNo = usize;

/// How often things go wrong, each of 1000 times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    pub request_lost: u32,
    pub answer_lost: u32,
    pub request_delayed: u32,
    pub request_duplicated: u32,
    pub overtaken: u32,
    pub lag: u32,
    pub crash: u32,
}

impl Faults {
    pub const NONE: Self = Self {
        request_lost: 0,
        answer_lost: 0,
        request_delayed: 0,
        request_duplicated: 0,
        overtaken: 0,
        lag: 0,
        crash: 0,
    };

    /// About every third proposal meets one.
    pub const ROUGH: Self = Self {
        request_lost: 60,
        answer_lost: 80,
        request_delayed: 80,
        request_duplicated: 60,
        overtaken: 300,
        lag: 400,
        crash: 60,
    };
}

/// What becomes of one publication.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Sequenced,
    RequestLost,
    AnswerLost,
    RequestDelayed,
    RequestDuplicated,
}

impl Faults {
    fn fate(&self, rng: &mut Rng) -> Fate {
        let faulty = self.request_lost + self.answer_lost + self.request_delayed + self.request_duplicated;
        rng.weighted(&[
            (1_000_u32.saturating_sub(faulty), Fate::Sequenced),
            (self.request_lost, Fate::RequestLost),
            (self.answer_lost, Fate::AnswerLost),
            (self.request_delayed, Fate::RequestDelayed),
            (self.request_duplicated, Fate::RequestDuplicated),
        ])
    }
}

/// Gives positions and times, and keeps every record, refused ones too. Clones are the same sequencer.
#[derive(Debug, Clone)]
pub struct Sequencer {
    wire: Arc<Mutex<Wire>>,
    clock: Arc<SimClock>,
}

/// The sequencer's log and what is on its way to it.
#[derive(Debug, Default)]
struct Wire {
    records: Vec<Record>,
    /// One queue a sender: what it published first arrives first.
    in_flight: BTreeMap<ReplicaNo, VecDeque<Sealed>>,
    /// The bytes of everything anybody ever published, lost or not.
    published: BTreeSet<Vec<u8>>,
}

impl Wire {
    fn sequence(&mut self, now: Timestamp, sealed: Sealed) -> Position {
        let position = Position(self.records.len() as u64 + 1);
        let at = self.records.last().map_or(now, |last| last.at.max(now));
        self.records.push(Record { position, at, sealed });
        position
    }

    /// Everything one sender has in flight arrives, in its order.
    fn arrive(&mut self, now: Timestamp, from: ReplicaNo) -> Vec<Position> {
        let queue = self.in_flight.remove(&from).unwrap_or_default();
        queue.into_iter().map(|sealed| self.sequence(now, sealed)).collect()
    }
}

impl Sequencer {
    /// A log that holds what position 1 of every log holds.
    pub fn new(clock: Arc<SimClock>) -> Self {
        let sequencer = Self { wire: Arc::default(), clock };
        let opening = Intent::Barrier(Barrier { fold_version: FOLD_VERSION, reason: "the office opens".to_owned() });
        let proposal = own_proposal("barrier@1".to_owned(), sequencer.now(), opening);
        let sealed = Sealed::seal(&proposal).expect("a barrier is small");
        sequencer.append_raw(sealed);
        sequencer
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().expect("no holder of the wire panics")
    }

    /// The time the next record would have.
    pub fn now(&self) -> Timestamp {
        let last = self.wire().records.last().map_or(Timestamp::ZERO, |last| last.at);
        self.clock.wall().max(last)
    }

    /// Sequences a record as it is, from nobody's queue and without a fault: for forged ones.
    pub fn append_raw(&self, sealed: Sealed) -> Position {
        let now = self.clock.wall();
        let mut wire = self.wire();
        wire.published.insert(sealed.bytes().to_vec());
        wire.sequence(now, sealed)
    }

    pub fn records_after(&self, after: Position, limit: usize) -> Vec<Record> {
        let start = usize::try_from(after.0).expect("a position of this log");
        self.wire().records.iter().skip(start).take(limit).cloned().collect()
    }

    pub fn last(&self) -> Position {
        Position(self.wire().records.len() as u64)
    }

    /// Whether somebody published exactly these bytes.
    pub fn was_published(&self, sealed: &Sealed) -> bool {
        self.wire().published.contains(sealed.bytes())
    }

    /// Everything still on its way arrives; senders in an order the seed gives.
    fn drain(&self, rng: &mut Rng) {
        let now = self.clock.wall();
        loop {
            let senders: Vec<ReplicaNo> = self.wire().in_flight.keys().copied().collect();
            let Some(sender) = rng.pick_any(&senders) else { return };
            self.wire().arrive(now, *sender);
        }
    }

    /// A replica with an empty store. `seed` decides all its faults.
    pub fn replica(&self, number: ReplicaNo, seed: u64, faults: Faults) -> Result<SimLog, Error> {
        Ok(SimLog {
            number,
            sequencer: self.clone(),
            store: Store::in_memory()?,
            rng: Rng::new(seed),
            faults,
            met: FaultsMet::new(),
            ticks_made: 0,
        })
    }
}

/// The log as one replica knows it: its own store, folded from the sequencer's records.
#[derive(Debug)]
pub struct SimLog {
    number: ReplicaNo,
    sequencer: Sequencer,
    store: Store,
    rng: Rng,
    faults: Faults,
    met: FaultsMet,
    /// Makes the ids of its ticks unique.
    ticks_made: u64,
}

/// How often each fault happened, by name: a simulation in which one never happens does not test it.
pub type FaultsMet = BTreeMap<&'static str, u64>;

/// Every name there is in [`FaultsMet`].
pub const FAULT_NAMES: &[&str] = &[
    "request lost",
    "answer lost",
    "request delayed",
    "request duplicated",
    "overtaken",
    "lag",
    "crash before the cursor",
    "crash before the commit",
    "crash after the commit",
    "store lost",
];

fn meet(met: &mut FaultsMet, fault: &'static str) {
    debug_assert!(FAULT_NAMES.contains(&fault), "{fault} is not among the names");
    *met.entry(fault).or_default() += 1;
}

/// What the fold answered, by position.
type Answers = BTreeMap<Position, Outcome>;

/// How a transaction of folding ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Commit,
    /// The machine stops before the cursor is written …
    CrashBeforeFlush,
    /// … or after it, before the commit.
    CrashBeforeCommit,
}

/// A zero retry delay makes one more thing due with each tick; nothing can chain longer than this.
const TICKS_IN_A_ROW_MAX: usize = 8;

impl SimLog {
    pub fn faults_met(&self) -> &FaultsMet {
        &self.met
    }

    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Folded up to here.
    pub fn position(&self) -> Result<Position, Error> {
        Ok(self.store.tables()?.cursor.head.position)
    }

    /// The machine is replaced: nothing is left of its store.
    pub fn lose_store(&mut self) -> Result<(), Error> {
        meet(&mut self.met, "store lost");
        self.store = Store::in_memory()?;
        Ok(())
    }

    /// Folds everything that is there.
    pub fn follow_to_end(&self) -> Result<(), Error> {
        self.follow_through(self.sequencer.last(), usize::MAX, &mut Answers::new())
    }

    /// Folds some of what is there, in transactions of a random size.
    pub fn follow_some(&mut self) -> Result<(), Error> {
        let last = self.sequencer.last();
        let behind = usize::try_from(last.0 - self.position()?.0).unwrap_or(usize::MAX);
        if behind == 0 {
            return Ok(());
        }
        let mut through = last;
        if self.rng.chance(self.faults.lag) {
            meet(&mut self.met, "lag");
            through = Position(last.0 - self.rng.below(behind + 1) as u64);
        }
        let batch = self.batch_size();
        self.follow_through(through, batch, &mut Answers::new())
    }

    fn batch_size(&mut self) -> usize {
        1 + self.rng.below(12)
    }

    fn follow_through(&self, through: Position, batch: usize, answers: &mut Answers) -> Result<(), Error> {
        while self.position()? < through {
            self.fold_batch(through, batch, Ending::Commit, answers)?;
        }
        Ok(())
    }

    /// One transaction of folding.
    fn fold_batch(&self, through: Position, limit: usize, ending: Ending, answers: &mut Answers) -> Result<(), Error> {
        let transaction = self.store.conn().unchecked_transaction()?;
        let mut tables = Tables::load(&transaction)?;
        let mut answered = Answers::new();
        for record in self.sequencer.records_after(tables.cursor.head.position, limit) {
            if record.position > through {
                break;
            }
            let outcome = fold(&mut tables, &record, Refusals::Kept)?;
            answered.insert(record.position, outcome);
        }
        if ending == Ending::CrashBeforeFlush {
            return Ok(()); // dropping the transaction rolls it back
        }
        tables.flush()?;
        if ending == Ending::CrashBeforeCommit {
            return Ok(());
        }
        drop(tables);
        transaction.commit()?;
        answers.append(&mut answered);
        Ok(())
    }

    /// Whether something is due by what this replica has folded.
    pub fn sees_due(&self) -> Result<bool, Error> {
        Ok(self.store.tables()?.next_due()?.is_some_and(|due| due <= self.sequencer.now()))
    }

    /// Publishes a tick, whatever becomes of it: the next proposal of anybody tries again.
    pub fn publish_tick(&mut self) -> Result<(), Error> {
        self.ticks_made += 1;
        let id = format!("tick@{}@{}", self.number, self.ticks_made);
        let proposal = own_proposal(id, self.sequencer.now(), Intent::Tick(Tick {}));
        match self.publish(vec![Sealed::seal(&proposal)?]) {
            Ok(_) | Err(Error::Unknown { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Settles what this replica sees due, before its own proposal.
    pub fn settle(&mut self) -> Result<(), Error> {
        for _ in 0..TICKS_IN_A_ROW_MAX {
            self.follow_some()?;
            if !self.sees_due()? {
                return Ok(());
            }
            self.publish_tick()?;
        }
        Ok(())
    }

    /// Sends sealed proposals to the sequencer and returns their positions, if that is what the network allows.
    fn publish(&mut self, proposals: Vec<Sealed>) -> Result<Vec<Position>, Error> {
        let ids: Vec<RecordId> = proposals.iter().map(|sealed| sealed.envelope.id.clone()).collect();
        let unknown = |cause: &str| Err(Error::Unknown { ids: ids.clone(), cause: cause.to_owned() });
        let count = proposals.len();
        let now = self.sequencer.clock.wall();
        let fate = self.faults.fate(&mut self.rng);
        let mut wire = self.sequencer.wire();
        wire.published.extend(proposals.iter().map(|sealed| sealed.bytes().to_vec()));
        if matches!(fate, Fate::RequestLost) {
            meet(&mut self.met, "request lost");
            return unknown("the request was lost");
        }
        wire.in_flight.entry(self.number).or_default().extend(proposals.clone());
        if matches!(fate, Fate::RequestDelayed) {
            meet(&mut self.met, "request delayed");
            return unknown("the request is delayed");
        }
        let others: Vec<ReplicaNo> = wire.in_flight.keys().copied().filter(|other| *other != self.number).collect();
        for other in others {
            if self.rng.chance(self.faults.overtaken) {
                meet(&mut self.met, "overtaken");
                wire.arrive(now, other);
            }
        }
        let arrived = wire.arrive(now, self.number);
        let ours = arrived[arrived.len() - count..].to_vec();
        if matches!(fate, Fate::RequestDuplicated) {
            meet(&mut self.met, "request duplicated");
            wire.in_flight.entry(self.number).or_default().extend(proposals);
            if self.rng.chance(500) {
                wire.arrive(now, self.number);
            }
        }
        if matches!(fate, Fate::AnswerLost) {
            meet(&mut self.met, "answer lost");
            return unknown("the answer was lost");
        }
        Ok(ours)
    }

    /// Crashes, if the seed says so, somewhere between having published and having answered.
    fn maybe_crash(&mut self, through: Position, ids: &[RecordId]) -> Result<(), Error> {
        if !self.rng.chance(self.faults.crash) {
            return Ok(());
        }
        let endings = [Ending::CrashBeforeFlush, Ending::CrashBeforeCommit, Ending::Commit];
        let (limit, ending) = (self.batch_size(), *self.rng.pick(&endings));
        let fault = match ending {
            Ending::CrashBeforeFlush => "crash before the cursor",
            Ending::CrashBeforeCommit => "crash before the commit",
            Ending::Commit => "crash after the commit",
        };
        meet(&mut self.met, fault);
        self.fold_batch(through, limit, ending, &mut Answers::new())?;
        Err(Error::Unknown { ids: ids.to_vec(), cause: "the replica crashed".to_owned() })
    }
}

impl Log for SimLog {
    fn append(&mut self, proposals: Vec<Sealed>) -> Result<Vec<Outcome>, Error> {
        self.settle()?;
        let ids: Vec<RecordId> = proposals.iter().map(|sealed| sealed.envelope.id.clone()).collect();
        if proposals.is_empty() {
            return Ok(Vec::new());
        }
        let positions = self.publish(proposals)?;
        let through = *positions.last().expect("one position a proposal");
        self.maybe_crash(through, &ids)?;
        let mut answers = Answers::new();
        // An earlier position cannot be folded already: only now has the sequencer given it.
        let batch = self.batch_size();
        self.follow_through(through, batch, &mut answers)?;
        positions
            .iter()
            .map(|position| answers.remove(position).ok_or_else(|| Error::Damaged(format!("no answer at {position}"))))
            .collect()
    }

    fn read_from(&self, after: Position, limit: usize) -> Result<Vec<Record>, Error> {
        self.store.tables()?.records_after(after, limit)
    }

    /// Nothing happens while a simulation waits, so it never does: what is there is folded, and that is all.
    fn tail(&self, _after: Position, _patience: Duration) -> Result<Position, Error> {
        self.follow_to_end()?;
        self.position()
    }

    fn last(&self) -> Result<Head, Error> {
        Ok(self.store.tables()?.cursor.head)
    }

    fn snapshot(&self, into: &Path) -> Result<Head, Error> {
        let path = into.to_str().ok_or_else(|| Error::Damaged("the path is no UTF-8".to_owned()))?;
        self.store.conn().execute("VACUUM INTO ?1", [path])?;
        self.last()
    }

    fn store(&self) -> &Store {
        &self.store
    }
}

fn own_proposal(id: String, sent_at: Timestamp, intent: Intent) -> Proposal {
    Proposal {
        id: id.parse().expect("an id of our own making"),
        actor: Name::poste(),
        session: None,
        sent_at,
        intent,
        content: None,
    }
}

/// A proposal somebody made and got an answer to.
#[derive(Debug)]
pub struct Acknowledged {
    pub replica: ReplicaNo,
    pub proposal: Proposal,
    /// When its id was first sent by anybody, and when it was answered, counted in tries of the whole simulation.
    pub sent_try: u64,
    pub answered_try: u64,
    pub outcome: Outcome,
}

/// Offices over one sequencer, and everything their callers were told.
#[derive(Debug)]
pub struct Simulation {
    pub clock: Arc<SimClock>,
    pub sequencer: Sequencer,
    pub replicas: Vec<Office<SimLog>>,
    pub acknowledged: Vec<Acknowledged>,
    /// Proposals whose caller gave up without an answer.
    pub given_up: u64,
    rng: Rng,
    tries: u64,
    first_try: BTreeMap<RecordId, u64>,
}

/// How often a caller tries before it gives up.
const TRIES_MAX: usize = 4;

impl Simulation {
    pub fn new(seed: u64, replicas: usize, faults: Faults) -> Result<Self, Error> {
        let mut rng = Rng::new(seed);
        let clock = SimClock::new();
        let sequencer = Sequencer::new(clock.clone());
        let replicas = (0..replicas)
            .map(|number| Ok(Office::over(sequencer.replica(number, rng.next_u64(), faults)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        Ok(Self {
            clock,
            sequencer,
            replicas,
            acknowledged: Vec::new(),
            given_up: 0,
            rng,
            tries: 0,
            first_try: BTreeMap::new(),
        })
    }

    pub fn some_replica(&mut self) -> ReplicaNo {
        self.rng.below(self.replicas.len())
    }

    /// Proposes, and tries again under the same id while the outcome is unknown. `None`: the caller gave up.
    pub fn propose(&mut self, replica: ReplicaNo, proposal: &Proposal) -> Result<Option<Outcome>, Error> {
        for _ in 0..TRIES_MAX {
            self.tries += 1;
            let sent_try = *self.first_try.entry(proposal.id.clone()).or_insert(self.tries);
            match self.replicas[replica].propose(proposal) {
                Ok(outcome) => {
                    self.acknowledged.push(Acknowledged {
                        replica,
                        proposal: proposal.clone(),
                        sent_try,
                        answered_try: self.tries,
                        outcome: outcome.clone(),
                    });
                    return Ok(Some(outcome));
                }
                Err(Error::Unknown { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.given_up += 1;
        Ok(None)
    }

    /// What happens to machines by themselves between two proposals.
    pub fn disturb(&mut self) -> Result<(), Error> {
        let replica = self.some_replica();
        if self.rng.chance(15) {
            self.replicas[replica].log_mut().lose_store()?;
        }
        if self.rng.chance(300) {
            self.replicas[replica].log_mut().follow_some()?;
        }
        if self.rng.chance(100) {
            self.race_ticks()?;
        }
        Ok(())
    }

    /// Everybody looks before anybody publishes, so the same due thing is ticked more than once.
    fn race_ticks(&mut self) -> Result<(), Error> {
        let mut racers = Vec::new();
        for (number, office) in self.replicas.iter_mut().enumerate() {
            office.log_mut().follow_some()?;
            if office.log().sees_due()? {
                racers.push(number);
            }
        }
        for number in racers {
            self.replicas[number].log_mut().publish_tick()?;
        }
        Ok(())
    }

    /// The faults end, what is on its way arrives, and everybody catches up.
    pub fn heal(&mut self) -> Result<(), Error> {
        self.sequencer.drain(&mut self.rng);
        for office in &mut self.replicas {
            office.log_mut().set_faults(Faults::NONE);
        }
        self.catch_up()
    }

    /// Every replica folds everything that is there.
    pub fn catch_up(&self) -> Result<(), Error> {
        self.replicas.iter().try_for_each(|office| office.log().follow_to_end())
    }
}
