//! A sequencer and its replicas in one thread, with every fault drawn from a seed.
//!
//! # The fault model
//!
//! The sequencer plays the part that NATS or Postgres will have: it puts everything that reaches it into one order,
//! stamps it with a time that never goes back, and keeps it forever. It is assumed to be correct: it loses nothing it
//! has sequenced, and never shows two replicas different records at one position. It decides nothing, so refused
//! proposals stay in its log. Everything around it fails:
//!
//! * **A request is lost.** Nothing is stored; the caller only learns that the outcome is unknown.
//! * **An answer is lost.** The record is stored; the caller only learns that the outcome is unknown.
//! * **A request is delayed.** The caller learns that the outcome is unknown, and the record is sequenced later,
//!   possibly after the caller has retried, possibly after newer records of other senders.
//! * **A request is duplicated.** The same sealed bytes are sequenced twice, at once or later.
//! * **Senders overtake each other.** Before the sequencer, there is no order between two senders. The records of one
//!   sender stay in the order it published them: it has one connection, and a connection is a queue.
//! * **Garbage is published.** Bytes that are not a record get a position like any other.
//! * **A replica lags.** It is given only some of the records, so it proposes from an old view, with old tokens.
//! * **A replica crashes.** It loses what it pulled before folding it; or it loses the transaction it was folding in,
//!   before or after writing its cursor; or it committed, and only the answer is lost. It resumes from the cursor in
//!   its store.
//! * **A replica loses its store.** It starts from nothing and folds the whole log again.
//! * **Ticks race.** Each replica proposes a tick when something is due in its own view. Several do so for the same due
//!   item, under the same id; the fold takes the first, and the others repeat it.
//!
//! Everything but the sequencer and the faults is production code: an [`Office`] that follows.
//!
//! A caller whose outcome is unknown retries a few times under the same id, and may give up for good. Not modelled: a
//! sequencer that forgets, and replicas of different versions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use poste_core::fold::{FOLD_VERSION, Outcome};
use poste_core::log::{self, Arrived, Barrier, Entry, Intent, Proof, Proposal, Record, Sealed, SequencerHead, Via};
use poste_core::office::Rules;
use poste_core::store::clock::Clock as _;
use poste_core::text::{Name, RecordId};
use poste_core::{Error, Office, Position, Timestamp};

use crate::clock::SimClock;
use crate::rng::Rng;

/// The number of a replica, starting at 0.
pub type ReplicaNo = usize;

/// How often each fault happens, out of 1000 times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    pub request_lost: u32,
    pub answer_lost: u32,
    pub request_delayed: u32,
    pub request_duplicated: u32,
    pub garbage: u32,
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
        garbage: 0,
        overtaken: 0,
        lag: 0,
        crash: 0,
    };

    /// About every third proposal is hit by one.
    pub const ROUGH: Self = Self {
        request_lost: 60,
        answer_lost: 80,
        request_delayed: 80,
        request_duplicated: 60,
        garbage: 40,
        overtaken: 300,
        lag: 400,
        crash: 60,
    };
}

/// What happens to one publication.
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

/// Assigns positions and times, and keeps every record, including refused ones. Clones are the same sequencer.
#[derive(Debug, Clone)]
pub struct Sequencer {
    wire: Arc<Mutex<Wire>>,
    clock: Arc<SimClock>,
}

/// The sequencer's log, and what is on its way to it.
#[derive(Debug, Default)]
struct Wire {
    entries: Vec<Arrived>,
    /// One queue per sender: what it published first arrives first.
    in_flight: BTreeMap<ReplicaNo, VecDeque<Sealed>>,
    /// The bytes of everything that was ever published, lost or not.
    published: BTreeSet<Vec<u8>>,
}

impl Wire {
    fn sequence(&mut self, now: Timestamp, sealed: Sealed) -> Position {
        self.sequence_bytes(now, sealed.bytes().to_vec(), sealed.content.map(|content| content.bytes))
    }

    fn sequence_bytes(&mut self, now: Timestamp, bytes: Vec<u8>, content: Option<Vec<u8>>) -> Position {
        let position = Position(self.entries.len() as u64 + 1);
        let at = self.entries.last().map_or(now, |last| last.at.max(now));
        self.entries.push(Arrived { position, at, bytes, content });
        position
    }

    /// Delivers everything that one sender has in flight, in its order.
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
        let sealed = Sealed::seal(&proposal, &"sequencer".parse().expect("a label")).expect("a barrier is small");
        sequencer.append_raw(sealed);
        sequencer
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().expect("no holder of the wire panics")
    }

    /// The time that the next record would have.
    pub fn now(&self) -> Timestamp {
        let last = self.wire().entries.last().map_or(Timestamp::ZERO, |last| last.at);
        self.clock.wall().max(last)
    }

    /// Sequences a record as it is, bypassing the queues and faults: for forged records.
    pub fn append_raw(&self, sealed: Sealed) -> Position {
        let now = self.clock.wall();
        let mut wire = self.wire();
        wire.published.insert(sealed.bytes().to_vec());
        wire.sequence(now, sealed)
    }

    /// Sequences bytes that should never have been published.
    pub fn append_bytes(&self, bytes: Vec<u8>) -> Position {
        let now = self.clock.wall();
        self.wire().sequence_bytes(now, bytes, None)
    }

    pub fn after(&self, after: Position, limit: usize) -> Vec<Arrived> {
        let start = usize::try_from(after.0).expect("a position of this log");
        self.wire().entries.iter().skip(start).take(limit).cloned().collect()
    }

    /// Every valid record; malformed ones are left out.
    pub fn records(&self) -> Vec<Record> {
        let opened = self.after(Position(0), usize::MAX).into_iter().map(Arrived::open);
        let record = |entry| match entry {
            Ok(Entry::Record(record)) => Some(record),
            Ok(Entry::Malformed(_)) | Err(_) => None,
        };
        opened.filter_map(record).collect()
    }

    pub fn last(&self) -> Position {
        Position(self.wire().entries.len() as u64)
    }

    /// Whether exactly these bytes were published.
    pub fn was_published(&self, sealed: &Sealed) -> bool {
        self.wire().published.contains(sealed.bytes())
    }

    /// Delivers everything still in flight; the seed decides the order of the senders.
    fn drain(&self, rng: &mut Rng) {
        let now = self.clock.wall();
        loop {
            let senders: Vec<ReplicaNo> = self.wire().in_flight.keys().copied().collect();
            let Some(sender) = rng.pick_any(&senders) else { return };
            self.wire().arrive(now, *sender);
        }
    }

    /// A connection to this sequencer. `seed` decides all its faults.
    pub fn connect(&self, number: ReplicaNo, seed: u64, faults: Faults) -> SimLog {
        let line = Line {
            number,
            sequencer: self.clone(),
            rng: Rng::new(seed),
            faults,
            met: FaultsMet::new(),
            awaits: Position(0),
            is_deaf: false,
            crashes_after_pull: false,
        };
        SimLog { line: Arc::new(Mutex::new(line)) }
    }

    /// A replica with an empty store, and its connection to this sequencer. `seed` decides all its faults.
    pub fn replica(&self, number: ReplicaNo, seed: u64, faults: Faults) -> Result<(Office, SimLog), Error> {
        let log = self.connect(number, seed, faults);
        Ok((self.office(number, &log)?, log))
    }

    /// An office with an empty store.
    fn office(&self, number: ReplicaNo, log: &SimLog) -> Result<Office, Error> {
        Office::follow_in_memory(&format!("machine-{number}"), self.clock.clone(), Box::new(log.clone()))
    }
}

/// The log as one replica sees it. Clones are the same connection.
#[derive(Debug, Clone)]
pub struct SimLog {
    line: Arc<Mutex<Line>>,
}

#[derive(Debug)]
struct Line {
    number: ReplicaNo,
    sequencer: Sequencer,
    rng: Rng,
    faults: Faults,
    met: FaultsMet,
    /// Positions up to this one arrive without lag: it published them and was told their positions, so its caller waits
    /// for them.
    awaits: Position,
    /// Gives it nothing, however much there is.
    is_deaf: bool,
    /// The machine stops after it has pulled the next records, before it folds any of them.
    crashes_after_pull: bool,
}

/// How often each fault happened, by name. A simulation in which one never happens does not test it.
pub type FaultsMet = BTreeMap<&'static str, u64>;

/// Every name in [`FaultsMet`].
pub const FAULT_NAMES: &[&str] = &[
    "request lost",
    "answer lost",
    "request delayed",
    "request duplicated",
    "garbage",
    "overtaken",
    "lag",
    "crash after the pull",
    "crash before the cursor",
    "crash before the commit",
    "crash after the commit",
    "store lost",
];

fn meet(met: &mut FaultsMet, fault: &'static str) {
    debug_assert!(FAULT_NAMES.contains(&fault), "{fault} is not among the names");
    *met.entry(fault).or_default() += 1;
}

/// Where a machine stops on its way from pulling records to answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crash {
    AfterPull,
    BeforeCursor,
    BeforeCommit,
    AfterCommit,
}

impl Crash {
    const ALL: [Self; 4] = [Self::AfterPull, Self::BeforeCursor, Self::BeforeCommit, Self::AfterCommit];

    fn fault(self) -> &'static str {
        match self {
            Self::AfterPull => "crash after the pull",
            Self::BeforeCursor => "crash before the cursor",
            Self::BeforeCommit => "crash before the commit",
            Self::AfterCommit => "crash after the commit",
        }
    }

    /// When a trigger, which only this connection has, undoes the transaction: before or after its cursor is written.
    fn trigger(self) -> Option<&'static str> {
        match self {
            Self::BeforeCursor => Some("BEFORE"),
            Self::BeforeCommit => Some("AFTER"),
            Self::AfterPull | Self::AfterCommit => None,
        }
    }
}

const CRASHED: &str = "the replica crashed";

impl SimLog {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().expect("no holder of the line panics")
    }

    pub fn faults_met(&self) -> FaultsMet {
        self.line().met.clone()
    }

    pub fn set_faults(&self, faults: Faults) {
        self.line().faults = faults;
    }

    fn set_deaf(&self, is_deaf: bool) {
        self.line().is_deaf = is_deaf;
    }

    fn meet(&self, fault: &'static str) {
        meet(&mut self.line().met, fault);
    }

    /// Whether and where the seed makes it crash now.
    fn draw_crash(&self) -> Option<Crash> {
        let mut line = self.line();
        let chance = line.faults.crash;
        line.rng.chance(chance).then(|| *line.rng.pick(&Crash::ALL))
    }
}

impl log::Sequencer for SimLog {
    fn publish(&mut self, proposals: &[Sealed]) -> Result<Vec<Position>, Error> {
        self.line().publish(proposals)
    }

    fn pull(&mut self, after: Position, limit: usize) -> Result<Vec<Arrived>, Error> {
        self.line().pull(after, limit)
    }

    fn head(&mut self) -> Result<SequencerHead, Error> {
        let line = self.line();
        Ok(SequencerHead { position: line.sequencer.last(), now: line.sequencer.now() })
    }
}

impl Line {
    /// Sends sealed proposals to the sequencer and returns their positions, if the network lets it.
    fn publish(&mut self, proposals: &[Sealed]) -> Result<Vec<Position>, Error> {
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
        if self.rng.chance(self.faults.garbage) {
            meet(&mut self.met, "garbage");
            let bytes = garbage(&mut self.rng, proposals);
            wire.sequence_bytes(now, bytes, None);
        }
        wire.in_flight.entry(self.number).or_default().extend(proposals.iter().cloned());
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
            wire.in_flight.entry(self.number).or_default().extend(proposals.iter().cloned());
            if self.rng.chance(500) {
                wire.arrive(now, self.number);
            }
        }
        if matches!(fate, Fate::AnswerLost) {
            meet(&mut self.met, "answer lost");
            return unknown("the answer was lost");
        }
        self.awaits = ours.last().copied().unwrap_or(self.awaits);
        Ok(ours)
    }

    /// Returns some of the new entries.
    fn pull(&mut self, after: Position, limit: usize) -> Result<Vec<Arrived>, Error> {
        if self.is_deaf || self.sequencer.last() <= after {
            return Ok(Vec::new());
        }
        if std::mem::take(&mut self.crashes_after_pull) {
            return Err(Error::Unreachable { cause: CRASHED.to_owned() });
        }
        if after >= self.awaits && self.rng.chance(self.faults.lag) {
            meet(&mut self.met, "lag");
            return Ok(Vec::new());
        }
        let some = 1 + self.rng.below(12);
        Ok(self.sequencer.after(after, limit.min(some)))
    }
}

/// Noise, nothing at all, or a record with one bit changed.
fn garbage(rng: &mut Rng, proposals: &[Sealed]) -> Vec<u8> {
    match proposals.first().filter(|_| rng.chance(500)) {
        Some(sealed) => {
            let mut bytes = sealed.bytes().to_vec();
            let at = rng.below(bytes.len());
            bytes[at] ^= 1;
            bytes
        }
        None => (0..rng.below(64)).map(|_| u8::try_from(rng.below(256)).unwrap_or_default()).collect(),
    }
}

fn own_proposal(id: String, sent_at: Timestamp, intent: Intent) -> Proposal {
    Proposal {
        id: id.parse().expect("an id of our own making"),
        actor: Name::poste(),
        session: None,
        via: Via::Unknown,
        proof: Proof::None,
        sent_at,
        intent,
        content: None,
    }
}

/// A proposal that was answered.
#[derive(Debug)]
pub struct Acknowledged {
    pub replica: ReplicaNo,
    pub proposal: Proposal,
    /// When its id was first sent by any caller, and when it was answered, counted in tries of the whole simulation.
    pub sent_try: u64,
    pub answered_try: u64,
    pub outcome: Outcome,
}

/// Offices that follow one sequencer, and everything their callers were told.
#[derive(Debug)]
pub struct Simulation {
    pub clock: Arc<SimClock>,
    pub sequencer: Sequencer,
    pub replicas: Vec<Office>,
    /// The connection of each replica to the sequencer.
    pub logs: Vec<SimLog>,
    pub acknowledged: Vec<Acknowledged>,
    /// Number of proposals whose caller gave up without an answer.
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
            .map(|number| sequencer.replica(number, rng.next_u64(), faults))
            .collect::<Result<Vec<_>, Error>>()?;
        let (replicas, logs) = replicas.into_iter().unzip();
        Ok(Self {
            clock,
            sequencer,
            replicas,
            logs,
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

    /// Proposes, and retries under the same id while the outcome is unknown. `None` if the caller gave up.
    pub fn propose(&mut self, replica: ReplicaNo, proposal: &Proposal) -> Result<Option<Outcome>, Error> {
        for _ in 0..TRIES_MAX {
            self.tries += 1;
            let sent_try = *self.first_try.entry(proposal.id.clone()).or_insert(self.tries);
            match self.try_to_propose(replica, proposal) {
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
                Err(Error::Unknown { .. } | Error::Unreachable { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.given_up += 1;
        Ok(None)
    }

    /// Proposes once, and crashes on the way if the seed says so.
    fn try_to_propose(&mut self, replica: ReplicaNo, proposal: &Proposal) -> Result<Outcome, Error> {
        let Some(crash) = self.logs[replica].draw_crash() else {
            return self.replicas[replica].propose(proposal, &Rules::none());
        };
        self.arm(replica, crash)?;
        let answer = self.replicas[replica].propose(proposal, &Rules::none());
        self.disarm(replica)?;
        let has_crashed = match &answer {
            Ok(_) => crash == Crash::AfterCommit,
            Err(error) => error.to_string().contains(CRASHED),
        };
        if !has_crashed {
            return answer;
        }
        self.logs[replica].meet(crash.fault());
        Err(Error::Unknown { ids: vec![proposal.id.clone()], cause: CRASHED.to_owned() })
    }

    fn arm(&mut self, replica: ReplicaNo, crash: Crash) -> Result<(), Error> {
        self.logs[replica].line().crashes_after_pull = crash == Crash::AfterPull;
        let Some(moment) = crash.trigger() else { return Ok(()) };
        for change in ["INSERT", "UPDATE"] {
            self.replicas[replica].store().conn().execute_batch(&format!(
                "CREATE TEMP TRIGGER crash_{change} {moment} {change} ON cursor
                 BEGIN SELECT RAISE(ABORT, '{CRASHED}'); END"
            ))?;
        }
        Ok(())
    }

    fn disarm(&mut self, replica: ReplicaNo) -> Result<(), Error> {
        self.logs[replica].line().crashes_after_pull = false;
        let conn = self.replicas[replica].store().conn();
        Ok(conn.execute_batch("DROP TRIGGER IF EXISTS crash_INSERT; DROP TRIGGER IF EXISTS crash_UPDATE")?)
    }

    /// Replaces the machine: nothing is left of its store.
    fn lose_store(&mut self, replica: ReplicaNo) -> Result<(), Error> {
        self.logs[replica].meet("store lost");
        self.replicas[replica] = self.sequencer.office(replica, &self.logs[replica])?;
        Ok(())
    }

    /// Random events on the machines between two proposals.
    pub fn disturb(&mut self) -> Result<(), Error> {
        let replica = self.some_replica();
        if self.rng.chance(15) {
            self.lose_store(replica)?;
        }
        if self.rng.chance(300) {
            self.replicas[replica].follow()?;
        }
        if self.rng.chance(100) {
            self.race_ticks()?;
        }
        Ok(())
    }

    /// Every replica looks before any of them sees another one's tick, so the same due item is ticked more than once.
    fn race_ticks(&mut self) -> Result<(), Error> {
        for office in &mut self.replicas {
            office.follow()?;
        }
        for (office, log) in self.replicas.iter_mut().zip(&self.logs) {
            log.set_deaf(true);
            office.settle()?;
            log.set_deaf(false);
        }
        Ok(())
    }

    /// Ends the faults, delivers what is in flight, and lets every replica catch up.
    pub fn heal(&mut self) -> Result<(), Error> {
        self.sequencer.drain(&mut self.rng);
        for log in &self.logs {
            log.set_faults(Faults::NONE);
        }
        self.catch_up()
    }

    /// Lets every replica fold everything there is.
    pub fn catch_up(&mut self) -> Result<(), Error> {
        self.replicas.iter_mut().try_for_each(Office::follow)
    }
}
