//! Random histories over the local log, on a real file: what must hold for one office, whatever is proposed.
//!
//! `POSTE_SEED=n` replays one seed and checks everything after each step, `POSTE_SEEDS=n` runs more of them.

use std::collections::BTreeSet;
use std::sync::Mutex;

use poste_core::fold::{Code, Effect, Outcome, Verdict};
use poste_core::log::{Archive, Intent, KINDS, MessageNo, Position, Proof, Proposal, Tick, Via};
use poste_core::office::{Place, Rules};
use poste_core::store::Options;
use poste_core::store::table_digest::digest;
use poste_core::store::tables::{EndReason, Event, State};
use poste_core::text::Name;
use poste_core::{Digest, Error, Office, views};
use poste_testkit::clock::SimClock;
use poste_testkit::history::{Generator, TimeStep};
use poste_testkit::invariants::{self, Violation};
use poste_testkit::rng::Rng;
use poste_testkit::{reports, seeds};
use rusqlite::types::Value;

const SEEDS: u64 = 128;
const STEPS: usize = 150;
/// The whole tables are checked this often; a replayed seed checks after each step.
const STEPS_BETWEEN_LOOKS: usize = 10;

#[test]
fn an_office_stays_true_to_its_rules() {
    let tally = Mutex::new(Tally::default());
    seeds::run("histories", SEEDS, |seed| one_history(seed, &tally));
    if seeds::is_full_run() {
        tally.into_inner().unwrap().check();
    }
}

fn one_history(seed: u64, tally: &Mutex<Tally>) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let clock = SimClock::new();
    let place = Place { path: folder.path().join(".poste"), clock: clock.clone(), options: Options::default() };
    let mut run = Run {
        office: place.create().and_then(|_| place.open()).map_err(|error| error.to_string())?,
        place,
        clock,
        generator: Generator::new(seed),
        rng: Rng::new(seed),
        pokes: 0,
        tally: Tally::default(),
    };
    let looks_every = if seeds::is_replay() { 1 } else { STEPS_BETWEEN_LOOKS };
    for step in 0..STEPS {
        run.step(step % looks_every == 0).map_err(|why| format!("step {step}: {why}"))?;
    }
    let violations = invariants::full(run.office.store()).map_err(|error| error.to_string())?;
    none(&violations).map_err(|why| format!("at the end: {why}"))?;
    run.verify().map_err(|why| format!("at the end: {why}"))?;
    let now = run.office.now().map_err(|error| error.to_string())?;
    let told = reports::contradictions(run.office.store(), now).map_err(|error| error.to_string())?;
    if !told.is_empty() {
        return Err(format!("at the end: reports do not agree: {told:#?}"));
    }
    run.tally.look_at(&run.office).map_err(|error| error.to_string())?;
    tally.lock().unwrap().add(run.tally);
    Ok(())
}

struct Run {
    office: Office,
    place: Place,
    clock: std::sync::Arc<SimClock>,
    generator: Generator,
    rng: Rng,
    pokes: u64,
    tally: Tally,
}

impl Run {
    fn step(&mut self, looks: bool) -> Result<(), String> {
        let told = |error: Error| error.to_string();
        self.move_clock();
        if self.rng.chance(20) {
            self.office = self.place.open().map_err(told)?;
        }
        self.settle()?;
        let now = self.office.now().map_err(told)?;
        let mut proposal = self.generator.next(self.office.store(), now).map_err(told)?;
        let written = self.write_archive(&mut proposal).map_err(told)?;
        let before = Before::look(&self.office, &proposal, looks).map_err(told)?;
        let outcome = self
            .office
            .propose(&proposal, &Rules::none())
            .map_err(|error| format!("{error}, proposing {proposal:?}"))?;
        self.generator.learn(&proposal, &outcome);
        self.tally.count(&proposal, &outcome);
        let judge = || -> Result<(), String> {
            before.compare(&self.office, &proposal, &outcome)?;
            if looks {
                none(&invariants::quick(self.office.store()).map_err(told)?)?;
            }
            Ok(())
        };
        judge().map_err(|why| format!("{why}\nafter {proposal:?}\n→ {outcome:?}"))?;
        if let Some(archive) = written.filter(|_| matches!(outcome.verdict, Verdict::Rejected(_))) {
            self.office.discard_archive(&archive).map_err(told)?;
        }
        if matches!(proposal.intent, Intent::Redact(_)) && self.rng.chance(300) {
            self.office.erase().map_err(told)?;
        }
        Ok(())
    }

    /// In a real folder an archive is a real file of everything that is finished. If something changes between file and
    /// record, the record is refused.
    fn write_archive(&mut self, proposal: &mut Proposal) -> Result<Option<Archive>, Error> {
        let Intent::Archive(wanted) = &proposal.intent else { return Ok(None) };
        let is_hostile = !wanted.file.starts_with("2027-");
        let batch = views::finished(self.office.store(), self.office.now()?, MessageNo(1))?;
        let is_known = self.office.store().tables()?.id(&proposal.id)?.is_some();
        if is_hostile || is_known || batch.conversations.is_empty() {
            return Ok(None);
        }
        let mut archive = self.office.write_archive(&batch)?;
        if self.rng.chance(150) {
            archive.as_of = Position(archive.as_of.0.saturating_sub(self.rng.below(5) as u64));
        }
        proposal.intent = Intent::Archive(archive.clone());
        self.generator.made(proposal);
        Ok(Some(archive))
    }

    /// Erases what was redacted, and then runs `log verify`: every archive and blob is correct.
    fn verify(&mut self) -> Result<(), String> {
        let told = |error: Error| error.to_string();
        self.office.erase().map_err(told)?;
        let report = views::verify(self.office.store(), |_| {}).map_err(told)?;
        for number in 1..=self.office.store().tables().map_err(told)?.cursor.message_last.0 {
            let view = views::message(self.office.store(), MessageNo(number)).map_err(told)?;
            view.ok_or_else(|| format!("message {number} cannot be read any more"))?;
        }
        if report.problems.is_empty() { Ok(()) } else { Err(report.summary()) }
    }

    fn move_clock(&mut self) {
        match self.generator.time_step() {
            TimeStep::None => {}
            TimeStep::Passes(ms) => self.clock.advance(ms),
            TimeStep::WallStep(ms) => self.clock.step_wall(ms),
            TimeStep::Reboot(ms) => self.clock.reboot(ms),
        }
    }

    /// Lets the writer settle due items, so that afterwards only the proposal can change anything.
    ///
    /// A proposal that is always refused does that: ticks and clock records stay, whatever its outcome.
    fn settle(&mut self) -> Result<(), String> {
        self.pokes += 1;
        let poke = Proposal {
            id: format!("poke-{}", self.pokes).parse().expect("an id"),
            actor: "ghost".parse().expect("a name"),
            session: None,
            via: Via::Cli,
            proof: Proof::None,
            sent_at: self.office.wall(),
            intent: Intent::Tick(Tick {}),
            content: None,
        };
        match self.office.propose(&poke, &Rules::none()) {
            Ok(outcome) => match outcome.verdict {
                Verdict::Rejected(rejection) if rejection.code == Code::NotAllowed => Ok(()),
                verdict => Err(format!("a stranger's tick: {verdict:?}")),
            },
            Err(Error::ClockLeap { leap_ms }) => {
                let told = |error: Error| error.to_string();
                let active = self.office.store().tables().and_then(|tables| tables.active_agents()).map_err(told)?;
                let is_accepted = self.rng.chance(500);
                match self.rng.pick_any(&active) {
                    Some(somebody) if is_accepted => {
                        self.office.accept_clock(somebody).map_err(told)?;
                    }
                    _ => self.clock.step_wall(-leap_ms),
                }
                self.settle()
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The state of the office before a proposal, as far as the checks need it.
struct Before {
    rows_written: u64,
    digest: Option<Digest>,
    /// The claim that the proposal names, and the deliveries of that message.
    named: Option<NamedClaim>,
}

struct NamedClaim {
    message: MessageNo,
    standing: Standing,
    deliveries: Vec<Vec<Value>>,
}

/// The state of the claim whose token a proposal names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// The actor never claimed the message with it.
    NoClaim,
    /// The actor holds the message with it now.
    Live,
    /// The actor finished the message with it.
    Used,
    /// The actor lost the claim, without having ended the delivery.
    Lost,
}

impl Standing {
    fn of(office: &Office, message: MessageNo, token: Position, actor: &Name) -> Result<Self, Error> {
        let claimed = Event::Claimed;
        let won = "SELECT d.token IS ?2 AND d.state = 1, d.token IS ?2 AND (d.state IN (2, 3) OR d.reason IS 9),
               (SELECT json_extract(CAST(envelope AS TEXT), '$.actor') FROM log WHERE position = d.ended_by)
             FROM events e JOIN deliveries d ON d.number = e.delivery
             WHERE e.message = ?1 AND e.position = ?2 AND e.event = ?3 AND e.agent = ?4";
        let mut statement = office.store().conn().prepare_cached(won)?;
        let mut rows = statement.query(rusqlite::params![message, token, claimed, actor])?;
        let Some(row) = rows.next()? else { return Ok(Self::NoClaim) };
        let (is_live, is_finished): (bool, bool) = (row.get(0)?, row.get(1)?);
        let ended_by: Option<String> = row.get(2)?;
        Ok(match is_live {
            true => Self::Live,
            false if is_finished && ended_by.as_deref() == Some(actor.as_str()) => Self::Used,
            false => Self::Lost,
        })
    }
}

impl Before {
    fn look(office: &Office, proposal: &Proposal, looks: bool) -> Result<Self, Error> {
        let conn = office.store().conn();
        let named = match named_claim(&proposal.intent) {
            None => None,
            Some((message, token)) => Some(NamedClaim {
                message,
                standing: Standing::of(office, message, token, &proposal.actor)?,
                deliveries: deliveries_of(office, message)?,
            }),
        };
        let digest = if looks { Some(digest(conn)?) } else { None };
        Ok(Self { rows_written: conn.total_changes(), digest, named })
    }

    fn compare(&self, office: &Office, proposal: &Proposal, outcome: &Outcome) -> Result<(), String> {
        let told = |error: Error| error.to_string();
        let changes_nothing = outcome.repeat || matches!(outcome.verdict, Verdict::Rejected(_));
        if let Some(named) = &self.named
            && !outcome.repeat
        {
            a_claim_counts_for_what_it_is(named.standing, proposal, &outcome.verdict)?;
        }
        if changes_nothing {
            if office.store().conn().total_changes() != self.rows_written {
                return Err("it was refused or repeated, and rows were written".to_owned());
            }
            if let Some(before) = self.digest
                && digest(office.store().conn()).map_err(told)? != before
            {
                return Err("it was refused or repeated, and a table changed".to_owned());
            }
            return Ok(());
        }
        if outcome.position != Some(office.store().tables().map_err(told)?.cursor.head.position) {
            return Err("it was accepted, and is not the last record".to_owned());
        }
        if let Some(named) = self.named.as_ref().filter(|named| named.standing != Standing::Live)
            && deliveries_of(office, named.message).map_err(told)? != named.deliveries
        {
            return Err("a token that is no live claim changed a delivery".to_owned());
        }
        if let Verdict::Accepted(Effect::Claimed(claimed)) = &outcome.verdict {
            for item in &claimed.items {
                let holders = "SELECT count(*) FROM deliveries
                     WHERE message = ?1 AND holder = ?2 AND token = ?3 AND lease_until = ?4 AND state = 1";
                let params = rusqlite::params![item.number, proposal.actor, claimed.token, item.lease_until];
                let held: u64 = office
                    .store()
                    .conn()
                    .query_row(holders, params, |row| row.get(0))
                    .map_err(|error| error.to_string())?;
                if held != 1 {
                    return Err(format!("message {} was promised and is not held", item.number));
                }
            }
        }
        Ok(())
    }
}

/// A live claim allows everything, a lost one only a late result, and any other token nothing.
fn a_claim_counts_for_what_it_is(standing: Standing, proposal: &Proposal, verdict: &Verdict) -> Result<(), String> {
    let refused_as = match verdict {
        Verdict::Accepted(_) => None,
        Verdict::Rejected(rejection) => Some(rejection.code),
    };
    // Codes for other faults of the proposal, or of its actor.
    let other_reasons = [
        Code::IdConflict,
        Code::Malformed,
        Code::TooLarge,
        Code::TimeOutOfRange,
        Code::UnknownAgent,
        Code::Retired,
        Code::NeedsAnswer,
        Code::IsHandoff,
        Code::NotAPerson,
    ];
    if refused_as.is_some_and(|code| other_reasons.contains(&code)) {
        return Ok(());
    }
    let is_send = proposal.intent.mail().is_some();
    let is_done = matches!(proposal.intent, Intent::Done(_));
    let is_late = matches!(verdict, Verdict::Accepted(Effect::Late(_)));
    // A gate result counts once per claim.
    let is_said_before = matches!(proposal.intent, Intent::GateResult(_)) && refused_as == Some(Code::NothingToDo);
    let is_right = match standing {
        // A send may be refused for its recipients.
        Standing::Live => is_send || is_said_before || (refused_as.is_none() && !is_late),
        Standing::Lost if is_done => is_late,
        Standing::Lost | Standing::Used | Standing::NoClaim => refused_as.is_some(),
    };
    if is_right { Ok(()) } else { Err(format!("the token is a claim that is {standing:?}, and it did not count so")) }
}

fn named_claim(intent: &Intent) -> Option<(MessageNo, Position)> {
    let (message, token) = match intent {
        Intent::Done(done) => (done.message, done.token),
        Intent::Fail(fail) => (fail.message, fail.token),
        Intent::Release(release) => (release.message, release.token),
        Intent::Extend(extend) => (extend.message, extend.token),
        Intent::GateResult(result) => (result.message, Some(result.token)),
        mail => mail.mail()?.ends.as_ref().map(|ends| (ends.message, ends.token))?,
    };
    Some((message, token?))
}

fn deliveries_of(office: &Office, message: MessageNo) -> Result<Vec<Vec<Value>>, Error> {
    let mut statement =
        office.store().conn().prepare_cached("SELECT * FROM deliveries WHERE message = ?1 ORDER BY number")?;
    let columns = statement.column_count();
    let rows = statement.query_map([message], |row| (0..columns).map(|column| row.get(column)).collect())?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn none(violations: &[Violation]) -> Result<(), String> {
    if violations.is_empty() {
        return Ok(());
    }
    Err(violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("\n  "))
}

/// The events of all histories together: a generator that no longer reaches a rule no longer tests it.
#[derive(Debug, Default)]
struct Tally {
    proposed: u64,
    accepted: u64,
    late: u64,
    repeated: u64,
    kinds_accepted: BTreeSet<u16>,
    codes: BTreeSet<&'static str>,
    states: BTreeSet<State>,
    reasons: BTreeSet<EndReason>,
    events: BTreeSet<Event>,
}

impl Tally {
    fn count(&mut self, proposal: &Proposal, outcome: &Outcome) {
        self.proposed += 1;
        self.repeated += u64::from(outcome.repeat);
        match &outcome.verdict {
            Verdict::Accepted(effect) => {
                self.accepted += 1;
                self.late += u64::from(matches!(effect, Effect::Late(_)));
                self.kinds_accepted.insert(proposal.intent.kind().number);
            }
            Verdict::Rejected(rejection) => {
                self.codes.insert(rejection.code.word());
            }
        }
    }

    fn look_at(&mut self, office: &Office) -> Result<(), Error> {
        let conn = office.store().conn();
        self.states.extend(column::<State>(conn, "SELECT DISTINCT state FROM deliveries")?);
        let reasons = "SELECT DISTINCT reason FROM deliveries WHERE reason IS NOT NULL";
        self.reasons.extend(column::<EndReason>(conn, reasons)?);
        self.events.extend(column::<Event>(conn, "SELECT DISTINCT event FROM events")?);
        Ok(())
    }

    fn add(&mut self, other: Self) {
        self.proposed += other.proposed;
        self.accepted += other.accepted;
        self.late += other.late;
        self.repeated += other.repeated;
        self.kinds_accepted.extend(other.kinds_accepted);
        self.codes.extend(other.codes);
        self.states.extend(other.states);
        self.reasons.extend(other.reasons);
        self.events.extend(other.events);
    }

    fn check(&self) {
        assert!(self.accepted * 100 >= self.proposed * 40, "less than 40 % is accepted: {self:?}");
        assert!(self.late > 0 && self.repeated > 0, "{self:?}");
        // The office itself makes tick, clock and barrier records; a proposal of a second barrier is always refused.
        let barrier = 1;
        let tick = 2;
        for kind in KINDS.iter().filter(|kind| ![barrier, tick].contains(&kind.number)) {
            assert!(self.kinds_accepted.contains(&kind.number), "no {} was ever accepted", kind.name);
        }
        // This program cannot propose a kind of a newer one; `decode` forges it.
        // The fold never sees unfit payloads or data, or missing gates: the office refuses them first.
        let not_here = [Code::UnknownKind, Code::PayloadUnfit, Code::DataUnfit, Code::GateNotPassed];
        for code in Code::ALL.iter().filter(|code| !not_here.contains(code)) {
            assert!(self.codes.contains(code.word()), "nothing was ever refused as {code}");
        }
        assert_eq!(self.states.len(), State::ALL.len(), "{:?}", self.states);
        assert_eq!(self.reasons.len(), EndReason::ALL.len(), "{:?}", self.reasons);
        assert_eq!(self.events.len(), Event::ALL.len(), "{:?}", self.events);
    }
}

fn column<T: rusqlite::types::FromSql>(conn: &rusqlite::Connection, sql: &str) -> Result<Vec<T>, Error> {
    Ok(conn.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}
