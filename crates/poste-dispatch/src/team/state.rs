//! The state of a teammate, derived from the facts of this moment and not from its last message.
//!
//! Pure: facts in, a state and its troubles out. [`super::facts`] collects the facts.

use poste_config::Mode;
use poste_core::log::{HoldReason, MessageNo, RunOutcome};
use poste_core::store::processes::Presence;
use poste_core::text::{RecordId, Session};
use poste_core::time::length;
use poste_core::{Position, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

/// This many equal failures in a row are a trouble.
pub const FAILURES: usize = 3;
/// A lease is nearly out when less than this part of it is left. A healthy supervisor renews it long before.
const LEASE_PART: i64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its supervisor runs, but its program does not yet.
    Starting,
    /// It has nothing to do.
    Idle,
    Working,
    /// It has work and makes no progress.
    Stuck,
    /// It does not run, and is not started.
    Stopped,
}

impl State {
    pub const ALL: [Self; 5] = [Self::Starting, Self::Idle, Self::Working, Self::Stuck, Self::Stopped];

    pub fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Stuck => "stuck",
            Self::Stopped => "stopped",
        }
    }
}

/// The facts about a teammate.
#[derive(Debug, Clone)]
pub struct Facts {
    /// How its program is run here; none: it has no runner.
    pub mode: Option<Mode>,
    /// It is a person, which is never run.
    pub person: bool,
    /// Its command is trusted here.
    pub trusted: bool,
    /// The hold that stops it from being started.
    pub hold: Option<HoldFacts>,
    /// Active runs, oldest first.
    pub runs: Vec<RunFacts>,
    /// Its live session, if any.
    pub session: Option<SessionFacts>,
    /// Its last runs, if they failed in the same way.
    pub failures: Option<Failures>,
    /// Its program ended, and its supervisor is about to restart it.
    pub restarts: bool,
    /// When its last run ended.
    pub last_end: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldFacts {
    pub why: HoldReason,
    pub since: Timestamp,
    /// The position of the hold.
    pub position: Position,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFacts {
    pub run: Session,
    pub messages: Vec<MessageNo>,
    pub started_at: Timestamp,
    pub supervisor: Presence,
    /// The program itself was started.
    pub has_program: bool,
    /// When it last printed something.
    pub last_output: Option<Timestamp>,
    /// Changes each time it prints something.
    pub output_mark: u64,
    pub leases: Vec<LeaseFacts>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseFacts {
    pub message: MessageNo,
    pub until: Timestamp,
    pub length_ms: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFacts {
    pub id: Session,
    pub started_at: Timestamp,
    pub process: Presence,
    /// Number of its open claims.
    pub holds: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures {
    pub how: RunOutcome,
    pub code: Option<u8>,
    pub times: usize,
    /// The first of them. None: further back than the runs that are read.
    pub first: Option<Session>,
    pub last: Session,
    pub last_at: Timestamp,
}

/// A state, since when, and the reason if the state does not say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub state: State,
    pub since: Option<Timestamp>,
    pub why: Option<String>,
}

/// Why a teammate needs attention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It printed nothing for too long.
    Silent {
        run: Session,
        since: Timestamp,
        /// The mark of its last output.
        mark: u64,
    },
    /// Its supervisor lives but does not renew the lease.
    LeaseNearlyOut {
        run: Session,
        message: MessageNo,
        until: Timestamp,
    },
    /// Its supervisor has died, and its run has not been swept yet.
    Unwatched {
        run: Session,
    },
    Failing(Failures),
}

impl Trouble {
    /// The id of this occurrence, so that it is reported once.
    pub fn id(&self) -> Option<RecordId> {
        let name = match self {
            Self::Silent { run, mark, .. } => format!("team silent {run} {mark}"),
            // One trouble per run, however often its lease is renewed late.
            Self::LeaseNearlyOut { run, .. } => format!("team lease {run}"),
            Self::Unwatched { run } => format!("team unwatched {run}"),
            Self::Failing(failures) => format!("team failing {}", failures.first.as_ref()?),
        };
        // The id of a run may not fit into a record id. Then its digest is used.
        let whole = name.parse();
        whole.or_else(|_| format!("team {}", poste_core::digest::Digest::of(name.as_bytes())).parse()).ok()
    }

    pub fn text(&self, now: Timestamp) -> String {
        match self {
            Self::Silent { since, .. } => format!("no output for {}", length(now.since_ms(*since).max(0))),
            Self::LeaseNearlyOut { message, until, .. } => {
                let left = length(until.since_ms(now).max(0));
                format!("its claim of #{message} is not renewed: {left} left")
            }
            Self::Unwatched { .. } => "its supervisor has died".to_owned(),
            Self::Failing(failures) => {
                let how = match (failures.how, failures.code) {
                    (RunOutcome::Exited, Some(code)) => format!("ended with exit code {code}"),
                    (RunOutcome::Signalled, Some(signal)) => format!("ended with signal {signal}"),
                    (how, _) => format!("ended as {how}"),
                };
                format!("its last {} runs each {how}", failures.times)
            }
        }
    }
}

/// All troubles of a teammate, worst first.
pub fn troubles(facts: &Facts, now: Timestamp, patience_ms: i64) -> Vec<Trouble> {
    let mut found = Vec::new();
    // If it is held for its failures, they have already been reported.
    let is_held = facts.hold.is_some_and(|hold| matches!(hold.why, HoldReason::Stopped | HoldReason::Failing));
    for run in &facts.runs {
        if run.supervisor == Presence::Gone {
            found.push(Trouble::Unwatched { run: run.run.clone() });
            continue;
        }
        let nearly_out = |lease: &&LeaseFacts| lease.until.since_ms(now) < lease.length_ms / LEASE_PART;
        if let Some(lease) = run.leases.iter().filter(nearly_out).min_by_key(|lease| lease.until) {
            let LeaseFacts { message, until, .. } = *lease;
            found.push(Trouble::LeaseNearlyOut { run: run.run.clone(), message, until });
        }
        let since = run.last_output.map_or(run.started_at, |last| last.max(run.started_at));
        if run.is_working() && now.since_ms(since) >= patience_ms {
            found.push(Trouble::Silent { run: run.run.clone(), since, mark: run.output_mark });
        }
    }
    if facts.runs.is_empty()
        && !is_held
        && let Some(failures) = facts.failures.clone().filter(|failures| failures.times >= FAILURES)
    {
        found.push(Trouble::Failing(failures));
    }
    found
}

impl RunFacts {
    /// Whether it has mail to work on; a resident may have none.
    fn is_working(&self) -> bool {
        self.has_program && !self.leases.is_empty()
    }
}

pub fn shown(facts: &Facts, now: Timestamp, patience_ms: i64) -> Shown {
    let stop = facts.hold.filter(|hold| hold.why == HoldReason::Stopped);
    let watched: Vec<&RunFacts> = facts.runs.iter().filter(|run| run.supervisor != Presence::Gone).collect();
    let say = |state: State, since: Option<Timestamp>, why: Option<String>| Shown { state, since, why };
    // A stopped teammate without a run has no troubles.
    if !(watched.is_empty() && stop.is_some())
        && let Some(worst) = troubles(facts, now, patience_ms).first()
    {
        let since = match worst {
            Trouble::Silent { since, .. } => Some(*since),
            Trouble::Failing(failures) => Some(failures.last_at),
            Trouble::LeaseNearlyOut { .. } | Trouble::Unwatched { .. } => facts.runs.first().map(|run| run.started_at),
        };
        return say(State::Stuck, since, Some(worst.text(now)));
    }
    if let Some(first) = watched.first() {
        let why = stop.map(|_| "it was asked to stop".to_owned());
        if let Some(working) = watched.iter().find(|run| run.is_working()) {
            return say(State::Working, Some(working.started_at), why);
        }
        let state = if first.has_program { State::Idle } else { State::Starting };
        return say(state, Some(first.started_at), why);
    }
    if let Some(stop) = stop {
        return say(State::Stopped, Some(stop.since), Some("it was asked to stop".to_owned()));
    }
    if let Some(session) = facts.session.as_ref().filter(|session| session.process != Presence::Gone) {
        let state = if session.holds > 0 { State::Working } else { State::Idle };
        return say(state, Some(session.started_at), Some(format!("in session {}", session.id)));
    }
    let held = facts.hold.map(|hold| (hold.since, format!("held: {}", hold.why)));
    match (facts.mode, facts.hold.map(|hold| hold.why)) {
        (None, _) if facts.person => say(State::Idle, None, Some("a person".to_owned())),
        (None, _) => say(State::Stopped, None, Some("no runner here".to_owned())),
        (Some(_), _) if !facts.trusted => say(State::Stopped, None, Some("what runs it is not trusted".to_owned())),
        (Some(_), Some(HoldReason::Failing | HoldReason::Misconfigured)) => {
            say(State::Stuck, held.as_ref().map(|(since, _)| *since), held.map(|(_, why)| why))
        }
        (Some(Mode::Resident), _) if facts.restarts => {
            say(State::Starting, facts.last_end, Some("its program ended and is being restarted".to_owned()))
        }
        (Some(Mode::Resident), _) => say(State::Stopped, facts.last_end, Some("its program is not running".to_owned())),
        // Can be started, as soon as its hold ends.
        (Some(Mode::Session | Mode::Subagent), _) => say(State::Idle, facts.last_end, held.map(|(_, why)| why)),
    }
}
