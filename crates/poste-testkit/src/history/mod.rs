//! Random histories: what a busy, careless and sometimes hostile set of agents would propose next.
//!
//! A generator looks at the tables that a caller would look at (those of one replica, which may be old) and remembers
//! what it proposed and was told before. So most of its proposals could be accepted, and the refused ones are refused
//! for a reason worth testing: a lost lease, another agent's mail, a name that is gone.
//!
//! [`sight`] is what a caller sees; [`mail`], [`work`], [`approvals`], [`contexts`], [`handoff`], [`sessions`],
//! [`endings`], [`office`], [`reserving`] and [`hostile`] are what it does.

mod approvals;
mod contexts;
mod endings;
mod handlers;
mod handoff;
mod hostile;
mod mail;
mod office;
mod reserving;
mod runs;
mod sessions;
mod sight;
mod words;
mod work;
mod workflows;

use poste_core::log::{Body, Content, Intent, Proof, Proposal, Via};
use poste_core::store::Store;
use poste_core::text::{Name, RecordId, Session};
use poste_core::vocabulary::AgentKind;
use poste_core::{Error, MessageNo, Position, Timestamp};
use poste_core::{fold, limits};

use crate::rng::Rng;
use sight::Sight;
use words::{name, session};

/// Every agent that may register, with its kind, role and capabilities.
const CAST: &[(&str, AgentKind, Option<&str>, &[&str])] = &[
    ("ann", AgentKind::Human, Some("lead"), &[]),
    ("bob", AgentKind::Agent, Some("coder"), &["rust", "go"]),
    ("cy", AgentKind::Agent, Some("coder"), &["rust"]),
    ("dot", AgentKind::Agent, Some("reviewer"), &["go"]),
    ("eve", AgentKind::Human, None, &[]),
    ("flo", AgentKind::Agent, Some("reviewer"), &["rust", "sql"]),
];
/// A valid name that is never registered.
const STRANGER: &str = "ghost";
const ROLES: &[&str] = &["coder", "reviewer", "lead", "nobody"];
const ABILITIES: &[&str] = &["rust", "go", "sql", "cobol"];
const TOPICS: &[&str] = &["builds", "TaskCompleted", "context.plan"];

/// With fewer active agents than this, one registers first: mail needs recipients.
const ACTIVE_MIN: usize = 3;
const REMEMBERED_MAX: usize = 60;

/// How a clock moves before the next proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeStep {
    None,
    Passes(i64),
    /// The wall clock is set, forward or backward, and no time passes.
    WallStep(i64),
    Reboot(i64),
}

/// A claim that was won once, whether or not it still holds.
#[derive(Debug, Clone)]
struct WonClaim {
    actor: Name,
    session: Option<Session>,
    message: MessageNo,
    token: Position,
}

/// A proposal without an id and a time.
#[derive(Debug)]
struct Draft {
    actor: Name,
    session: Option<Session>,
    intent: Intent,
    content: Option<Content>,
}

#[derive(Debug)]
pub struct Generator {
    rng: Rng,
    ids_made: u64,
    proposed: Vec<Proposal>,
    won: Vec<WonClaim>,
    files_made: u64,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Send,
    Reply,
    Forward,
    ClaimNumber,
    ClaimNext,
    Finish,
    Ack,
    Shown,
    Retry,
    Drop,
    Wake,
    Close,
    Archive,
    Redact,
    Handoff,
    Membership,
    Subscription,
    Context,
    Propose,
    Agree,
    Policy,
    Reserving,
    OfficeOnly,
    SameIdAgain,
    Hostile,
    Ask,
    Decide,
    StartSession,
    Note,
    CloseSession,
    StartRun,
    EndRun,
    HoldRun,
    ResumeRuns,
    StartWorkflow,
    Step,
    Mark,
    EndWorkflow,
    NumberedStep,
    Handling,
}

const ACTS: &[(u32, Act)] = &[
    (22, Act::Send),
    (8, Act::Reply),
    (3, Act::Forward),
    (14, Act::ClaimNumber),
    (6, Act::ClaimNext),
    (18, Act::Finish),
    (4, Act::Ack),
    (5, Act::Shown),
    (4, Act::Retry),
    (3, Act::Drop),
    (4, Act::Wake),
    (6, Act::Close),
    (9, Act::Archive),
    (4, Act::Redact),
    (8, Act::Handoff),
    (4, Act::Membership),
    (8, Act::Subscription),
    (22, Act::Context),
    (3, Act::Propose),
    (5, Act::Agree),
    (2, Act::Policy),
    (13, Act::Reserving),
    (1, Act::OfficeOnly),
    (5, Act::SameIdAgain),
    (4, Act::Hostile),
    (4, Act::Ask),
    (5, Act::Decide),
    (3, Act::StartSession),
    (5, Act::Note),
    (2, Act::CloseSession),
    (6, Act::StartRun),
    (5, Act::EndRun),
    (4, Act::HoldRun),
    (2, Act::ResumeRuns),
    (3, Act::StartWorkflow),
    (12, Act::Step),
    (10, Act::Mark),
    (5, Act::EndWorkflow),
    (3, Act::NumberedStep),
    (12, Act::Handling),
];

impl Generator {
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed ^ 0x6869_7374_6f72_7900),
            ids_made: 0,
            proposed: Vec::new(),
            won: Vec::new(),
            files_made: 0,
        }
    }

    /// How the clock moves before the next proposal. Mostly small steps, so that leases are lost one at a time.
    pub fn time_step(&mut self) -> TimeStep {
        let rng = &mut self.rng;
        match rng.below(1_000) {
            0..400 => TimeStep::None,
            400..700 => TimeStep::Passes(rng.between(1, 2_000)),
            700..860 => TimeStep::Passes(rng.between(2_000, 30_000)),
            860..945 => TimeStep::Passes(rng.between(30_000, 15 * limits::MINUTE_MS)),
            945..970 => TimeStep::Passes(rng.between(limits::HOUR_MS, 3 * limits::DAY_MS)),
            970..985 => TimeStep::WallStep(rng.between(limits::MINUTE_MS, 30 * limits::HOUR_MS)),
            985..995 => TimeStep::WallStep(-rng.between(1, 5 * limits::HOUR_MS)),
            _ => TimeStep::Reboot(rng.between(0, 2 * limits::DAY_MS)),
        }
    }

    /// The next proposal of a caller that sees `store`.
    pub fn next(&mut self, store: &Store, now: Timestamp) -> Result<Proposal, Error> {
        let sight = Sight::of(store, now)?;
        let proposal = self.draft_proposal(&sight);
        self.proposed.push(proposal.clone());
        if self.proposed.len() > REMEMBERED_MAX {
            self.proposed.remove(0);
        }
        Ok(proposal)
    }

    /// Notes that the last proposal was made in another form, which is the one that can be repeated later.
    pub fn made(&mut self, proposal: &Proposal) {
        if let Some(last) = self.proposed.last_mut() {
            *last = proposal.clone();
        }
    }

    /// Remembers the tokens from an answer, for later use and misuse.
    pub fn learn(&mut self, proposal: &Proposal, outcome: &fold::Outcome) {
        let fold::Verdict::Accepted(fold::Effect::Claimed(claimed)) = &outcome.verdict else { return };
        for item in &claimed.items {
            self.won.push(WonClaim {
                actor: proposal.actor.clone(),
                session: proposal.session.clone(),
                message: item.number,
                token: claimed.token,
            });
        }
        if self.won.len() > REMEMBERED_MAX {
            self.won.drain(..self.won.len() - REMEMBERED_MAX);
        }
    }

    fn draft_proposal(&mut self, sight: &Sight) -> Proposal {
        let act = self.rng.weighted(ACTS);
        let draft = match act {
            _ if sight.active.len() < ACTIVE_MIN => self.register(),
            Act::SameIdAgain => match self.same_id_again(sight) {
                Some(proposal) => return proposal,
                None => self.send(sight),
            },
            // An act with nothing to act on becomes a send, which creates something to do.
            Act::Reply => self.reply(sight).unwrap_or_else(|| self.send(sight)),
            Act::Forward => self.forward(sight).unwrap_or_else(|| self.send(sight)),
            Act::ClaimNumber => self.claim_number(sight).unwrap_or_else(|| self.send(sight)),
            Act::Finish => self.finish(sight).unwrap_or_else(|| self.send(sight)),
            Act::Ack => self.ack(sight).unwrap_or_else(|| self.send(sight)),
            Act::Shown => self.shown(sight).unwrap_or_else(|| self.send(sight)),
            Act::Retry => self.retry(sight).unwrap_or_else(|| self.send(sight)),
            Act::Drop => self.drop_bad(sight).unwrap_or_else(|| self.send(sight)),
            Act::Wake => self.wake(sight).unwrap_or_else(|| self.send(sight)),
            Act::Close => self.close(sight).unwrap_or_else(|| self.send(sight)),
            Act::Archive => self.archive(sight).unwrap_or_else(|| self.send(sight)),
            Act::Redact => self.redact(sight).unwrap_or_else(|| self.send(sight)),
            Act::Handoff => self.handoff(sight),
            Act::ClaimNext => self.claim_next(sight),
            Act::Send => self.send(sight),
            Act::Membership => self.membership(sight),
            Act::Subscription => self.subscription(sight),
            Act::Context => self.context(sight),
            Act::Propose => self.propose_contract(sight),
            Act::Agree => self.agree(sight).unwrap_or_else(|| self.propose_contract(sight)),
            Act::Policy => self.policy(sight),
            Act::Reserving => self.reserving(sight),
            Act::OfficeOnly => self.office_only(sight),
            Act::Hostile => self.hostile(sight),
            Act::Ask => self.ask(sight),
            Act::Decide => self.decide(sight).unwrap_or_else(|| self.ask(sight)),
            Act::StartSession => self.start_session(sight),
            Act::Note => self.note(sight).unwrap_or_else(|| self.start_session(sight)),
            Act::CloseSession => self.close_session(sight).unwrap_or_else(|| self.start_session(sight)),
            Act::StartRun => self.start_run(sight).unwrap_or_else(|| self.claim_next(sight)),
            Act::EndRun => self.end_run(sight).unwrap_or_else(|| self.claim_next(sight)),
            Act::HoldRun => self.hold_run(sight),
            Act::ResumeRuns => self.resume_runs(sight),
            Act::StartWorkflow => self.start_workflow(sight),
            Act::Step => self.step(sight).unwrap_or_else(|| self.start_workflow(sight)),
            Act::Mark => self.mark_step(sight).unwrap_or_else(|| self.start_workflow(sight)),
            Act::EndWorkflow => self.end_workflow(sight).unwrap_or_else(|| self.start_workflow(sight)),
            Act::NumberedStep => self.numbered_step(sight),
            Act::Handling => self.handling(sight),
        };
        let proof = self.proof(sight, &draft.actor);
        Proposal {
            id: self.fresh_id(),
            actor: draft.actor,
            session: draft.session,
            via: Via::Cli,
            proof,
            sent_at: Timestamp::from_ms(sight.now.ms() + self.rng.between(-5_000, 5_000)),
            intent: draft.intent,
            content: draft.content,
        }
    }

    /// People mostly give commands themselves, but any program can use their names. A person may also act as an agent.
    fn proof(&mut self, sight: &Sight, actor: &Name) -> Proof {
        let is_person = match sight.active.iter().find(|agent| agent.name == *actor) {
            Some(agent) => agent.is_person(),
            None => CAST.iter().any(|(name, kind, ..)| *name == actor.as_str() && *kind == AgentKind::Human),
        };
        let (word, terminal) = if is_person { (700, 150) } else { (20, 20) };
        match self.rng.below(1_000) {
            at if at < word => Proof::Word,
            at if at < word + terminal => Proof::Terminal,
            _ => Proof::None,
        }
    }

    fn fresh_id(&mut self) -> RecordId {
        self.ids_made += 1;
        format!("h-{}", self.ids_made).parse().expect("an id")
    }

    fn somebody(&mut self, sight: &Sight) -> Name {
        match self.rng.pick_any(&sight.active) {
            Some(agent) => agent.name.clone(),
            None => name(STRANGER),
        }
    }

    /// One of an agent's two sessions, or none.
    fn session(&mut self, actor: &Name) -> Option<Session> {
        self.rng.weighted(&[(50, None), (35, Some(1)), (15, Some(2))]).map(|run| session(actor, run))
    }

    fn draft(&mut self, actor: Name, intent: Intent) -> Draft {
        let session = self.session(&actor);
        Draft { actor, session, intent, content: None }
    }

    fn content(&mut self) -> Option<Content> {
        if self.rng.chance(300) {
            return None;
        }
        let subject = format!("about {}", self.rng.below(1_000));
        let body = match self.rng.below(100) {
            0 => Body(vec![b'x'; limits::CONTENT_INLINE_BYTES_MAX + 1]),
            1 => Body(self.rng.bytes(40)),
            2..50 => Body(Vec::new()),
            _ => Body::from("please have a look"),
        };
        Some(Content { subject, body, ..Content::default() })
    }
}
