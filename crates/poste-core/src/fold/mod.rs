//! The fold: applies a record to the tables.
//!
//! `tables == fold(log)` holds on every machine, forever. So the fold reads nothing but its tables and the record: no
//! clock, randomness, environment, file, content or map order. The crate's lints enforce this. The fold never panics;
//! it refuses what it cannot accept.
//!
//! Every rule has two halves. `decide` gets `&Tables`: it can refuse but not write. `apply` gets `&mut Tables` and the
//! plan made by `decide`: it writes but cannot refuse. So a refusal changes nothing, and there is nothing to roll back.

mod action;
mod agent;
mod agreement;
mod approval;
mod claim;
mod context;
mod conversation;
mod delivery;
mod finish;
mod gate;
mod handler;
mod handoff;
mod message;
mod notice;
mod outcome;
mod policy;
mod redact;
mod reservation;
mod run;
mod session;
mod shown;
mod tick;
mod topic;
mod wake;
mod workflow;

pub use action::Action;
pub(crate) use agreement::{asked, superseded_by};
pub use approval::approves;
pub(crate) use delivery::own_deliveries;
pub(crate) use gate::{Unpassed, gates_passed, gates_passed_to_decide};
pub use outcome::{
    AgreedOn, Claimed, ClaimedItem, Class, Code, Effect, Handling, Late, Locked, Outcome, Rejection, Reserved, Sent,
    Verdict, Versioned,
};
pub use policy::check_ranges as check_policy;

use crate::digest::Digest;
use crate::error::Error;
use crate::foreign::Foreign;
use crate::limits;
use crate::log::{
    Barrier, Clock, Envelope, Intent, Malformed, MalformedRecord, MessageNo, OFFICE_IDS, Position, Proof, Record,
    Sealed, TICK_IDS, advance_id,
};
use crate::store::tables::{Agent, IdRow, REPEAT, Tables};
use crate::text::{Label, Name, Session};
use crate::time::Timestamp;
use outcome::{Stop, refuse};

/// The version of this program's decisions. Raised, together with a `barrier` record, when a decision changes.
pub const FOLD_VERSION: u32 = 1;

/// What a rule knows about the record besides its header.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub position: Position,
    pub at: Timestamp,
    pub actor: Name,
    pub session: Option<Session>,
    pub machine: Label,
    pub proof: Proof,
    pub content_bytes: u64,
}

impl Context {
    /// Whether a person wrote the record: its actor is registered as one, and something proves that they gave the
    /// command. Nothing is granted to the name of a person alone, which any program can use.
    pub fn speaks_as_person(&self, agent: &Agent) -> bool {
        agent.is_person() && self.proof.is_given()
    }

    /// Like [`Self::speaks_as_person`], and the person confirmed exactly this command.
    pub fn is_confirmed_by_person(&self, agent: &Agent) -> bool {
        agent.is_person() && self.proof.is_confirmed()
    }

    /// Refuses a decision in the name of a person that nothing proves.
    pub fn require_proof(&self, agent: &Agent) -> Result<(), Stop> {
        match agent.is_person() && !self.proof.is_given() {
            true => Err(unproven(agent)),
            false => Ok(()),
        }
    }

    /// The refusal of what only a person or some named agent may do. For a person the proof is missing, not the right.
    pub fn only_person(&self, agent: &Agent, why: String) -> Stop {
        if agent.is_person() { unproven(agent) } else { refuse(Code::NotAllowed, why) }
    }
}

fn unproven(agent: &Agent) -> Stop {
    refuse(Code::NotAPerson, format!("nothing proves that {} gave this command", agent.name))
}

/// One kind of change.
pub(crate) trait Rule {
    type Plan;
    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Self::Plan, Stop>;
    fn apply(plan: Self::Plan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error>;
}

/// Whether a log keeps refused records. A log ordered elsewhere must keep them; a local one need not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusals {
    Kept,
    Dropped,
}

/// The part of a record that can be decoded without the tables. A replay decodes it on another thread, ahead of the
/// fold.
#[derive(Debug)]
pub(crate) struct Read {
    intent: Result<Option<Intent>, Malformed>,
    fingerprint: [u8; 16],
    pub chain: Digest,
}

impl Read {
    /// `previous` is the chain up to the record before this one.
    pub(crate) fn of(record: &Record, previous: &Digest) -> Self {
        Self {
            intent: record.sealed.intent(),
            fingerprint: record.sealed.envelope.fingerprint(),
            chain: record.chain(previous),
        }
    }
}

/// Appends one record to the log and folds it, inside the caller's transaction.
///
/// Fails only on storage errors and on records that need a newer program; the caller then rolls back.
pub fn fold(tables: &mut Tables<'_>, record: &Record, refusals: Refusals) -> Result<Outcome, Error> {
    let read = Read::of(record, &tables.cursor.head.chain);
    fold_read(tables, record, read, refusals)
}

/// Like [`fold`], for a record that is already decoded.
pub(crate) fn fold_read(
    tables: &mut Tables<'_>,
    record: &Record,
    read: Read,
    refusals: Refusals,
) -> Result<Outcome, Error> {
    let Read { intent, fingerprint, chain } = read;
    let envelope = &record.sealed.envelope;
    debug_assert_eq!(record.position, tables.cursor.head.position.next());

    let outcome =
        |position, repeat, verdict| Outcome { id: envelope.id.clone(), position, at: record.at, repeat, verdict };

    if let Some(rejection) = reserved_id(tables, envelope, &intent)? {
        if refusals == Refusals::Kept {
            tables.insert_record(record, chain)?;
            tables.insert_refusal(record.position, rejection.code.word(), &rejection.reason)?;
        }
        let position = (refusals == Refusals::Kept).then_some(record.position);
        return Ok(outcome(position, false, Verdict::Rejected(rejection)));
    }
    if let Some(known) = tables.id(&envelope.id)?
        && !sabotaged!(NoDedupe)
    {
        if known.fingerprint == fingerprint {
            let verdict = recall(tables, known.position, known.message)?;
            if refusals == Refusals::Kept {
                tables.insert_record(record, chain)?;
                tables.insert_refusal(record.position, REPEAT, &format!("repeats record {}", known.position))?;
            }
            return Ok(outcome(Some(known.position), true, verdict));
        }
        let rejection = Rejection {
            code: Code::IdConflict,
            reason: format!("the id was used for something else at record {}", known.position),
        };
        if refusals == Refusals::Kept {
            tables.insert_record(record, chain)?;
            tables.insert_refusal(record.position, rejection.code.word(), &rejection.reason)?;
        }
        let position = (refusals == Refusals::Kept).then_some(record.position);
        return Ok(outcome(position, false, Verdict::Rejected(rejection)));
    }

    match apply_intent(tables, record, intent)? {
        Ok(effect) => {
            tables.insert_id(record, fingerprint, effect.message())?;
            tables.insert_record(record, chain)?;
            tables.insert_content(record)?;
            Ok(outcome(Some(record.position), false, Verdict::Accepted(effect)))
        }
        Err(rejection) => {
            let mut position = None;
            if refusals == Refusals::Kept {
                tables.insert_id(record, fingerprint, None)?;
                tables.insert_record(record, chain)?;
                tables.insert_refusal(record.position, rejection.code.word(), &rejection.reason)?;
                if rejection.code == Code::UnknownKind {
                    tables.insert_content(record)?; // a newer program will fold it
                }
                position = Some(record.position);
            }
            Ok(outcome(position, false, Verdict::Rejected(rejection)))
        }
    }
}

/// Why a record may not use its id. Ids that the office derives are reserved for the records they are derived from.
/// Anyone can compute such an id, and another record that took it would keep the office from ever settling or advancing
/// its subject.
fn reserved_id(
    tables: &Tables<'_>,
    envelope: &Envelope,
    intent: &Result<Option<Intent>, Malformed>,
) -> Result<Option<Rejection>, Error> {
    let id = envelope.id.as_str();
    if !id.starts_with(OFFICE_IDS) {
        return Ok(None);
    }
    let is_of_office = envelope.actor == Name::poste();
    let may_have_it = match intent {
        Ok(Some(Intent::Tick(_))) => is_of_office && id.starts_with(TICK_IDS),
        Ok(Some(intent)) => {
            let is_derived = advance_id(intent).is_some_and(|base| {
                let again = id.strip_prefix(&base);
                again.is_some_and(|again| again.is_empty() || again.starts_with('/'))
            });
            is_derived && (is_of_office || workflow::is_owner(tables, intent, &envelope.actor)?)
        }
        Ok(None) | Err(_) => false,
    };
    Ok((!may_have_it).then(|| Rejection {
        code: Code::ReservedId,
        reason: format!("ids that begin with {OFFICE_IDS} are reserved for the office"),
    }))
}

/// Appends bytes that are not a record to a log that keeps refusals. They change nothing else.
pub fn fold_malformed(tables: &mut Tables<'_>, record: &MalformedRecord) -> Result<(), Error> {
    let chain = record.chain(&tables.cursor.head.chain);
    tables.insert_malformed(record, chain)?;
    tables.insert_refusal(record.position, Code::Malformed.word(), &record.why.to_string())
}

/// The answer to a record that another process folded: the verdict kept for it, or else what the tables still know.
pub(crate) fn recall_record(tables: &Tables<'_>, sealed: &Sealed, position: Position) -> Result<Outcome, Error> {
    let id = &sealed.envelope.id;
    let missing = || Error::Damaged(format!("record {position} was folded but does not exist"));
    let at = tables.record(position)?.ok_or_else(missing)?.at;
    let outcome = |position, repeat, verdict| Outcome { id: id.clone(), position: Some(position), at, repeat, verdict };
    let is_about = |known: &IdRow| known.position == position || known.fingerprint == sealed.envelope.fingerprint();
    let kept = tables.answer(position)?;
    let Some(known) = tables.id(id)?.filter(is_about) else {
        return Ok(outcome(position, false, kept.map_or_else(|| recall(tables, position, None), Ok)?));
    };
    let verdict = kept.map_or_else(|| recall(tables, known.position, known.message), Ok)?;
    Ok(outcome(known.position, known.position != position, verdict))
}

/// What an earlier record with the same id did, as far as the tables still know.
fn recall(tables: &Tables<'_>, position: Position, message: Option<MessageNo>) -> Result<Verdict, Error> {
    if let Some(refused) = tables.refusal(position)? {
        return Ok(Verdict::Rejected(Rejection {
            code: Code::from_word(&refused.code).unwrap_or(Code::Malformed),
            reason: refused.reason,
        }));
    }
    if let Some(version) = tables.version_at(position)? {
        return Ok(Verdict::Accepted(Effect::Versioned(context::versioned_before(tables, version)?)));
    }
    if let Some(proposal) = tables.agreed_at(position)? {
        return Ok(Verdict::Accepted(Effect::Agreed(agreement::agreed_before(tables, proposal, message)?)));
    }
    if let Some(workflow) = tables.workflow_at(position)? {
        return Ok(Verdict::Accepted(Effect::Began(workflow.label)));
    }
    if let Some(number) = message {
        let released = reservation::released_before(tables, position)?;
        return Ok(Verdict::Accepted(match released.is_empty() {
            true => Effect::Sent(message::sent_before(tables, number)?),
            false => Effect::Freed { released, message: number },
        }));
    }
    let Some(record) = tables.record(position)? else {
        return Err(Error::Damaged(format!("record {position} is known by its id but does not exist")));
    };
    let actor = &record.sealed.envelope.actor;
    Ok(Verdict::Accepted(match record.sealed.intent() {
        Ok(Some(Intent::Claim(_) | Intent::RunStart(_))) => {
            Effect::Claimed(claim::claimed_before(tables, actor, position)?)
        }
        Ok(Some(Intent::Extend(extend))) => Effect::Claimed(claim::extended_before(tables, extend.message, position)?),
        Ok(Some(Intent::ContextLock(lock))) => match context::locked_before(tables, &lock.name, position)? {
            Ok(locked) => Effect::Locked(locked),
            Err(over) => return Ok(Verdict::Rejected(over)),
        },
        Ok(Some(Intent::Done(done))) => finish::finished_before(tables, done.message, position)?,
        Ok(Some(Intent::Reserve(reserve))) => reservation::still_held(tables, actor, &reserve.patterns)?,
        Ok(Some(Intent::Prolong(prolong))) => reservation::still_held(tables, actor, &prolong.patterns)?,
        Ok(Some(Intent::Unreserve(_))) => Effect::Reserved(reservation::released_before(tables, position)?),
        Ok(Some(Intent::HandlerTake(take))) => handler::taken_before(tables, &take, position)?,
        // The tables know no more. The machine that proposed it may still have the first answer.
        _ => match tables.answer(position)? {
            Some(Verdict::Accepted(effect)) => effect,
            _ => Effect::Noted,
        },
    }))
}

/// Runs the same code with the rule of an intent, whichever it is.
macro_rules! each_rule {
    ($intent:expr, $rule:ident => $body:expr) => {
        each_rule!(@of $intent, $rule => $body;
            Barrier Tick Clock Policy Register Retire Send Shown Claim Ack Done Fail Release Extend Retry Drop Close
            Archive Redact ContextCreate ContextAppend ContextReplace ContextLock ContextUnlock ContextRead Agree
            Subscribe Unsubscribe ApprovalAsk ApprovalAnswer HandoffCreate HandoffAccept HandoffReject
            HandoffWithdraw GateResult Wake Reserve Unreserve Prolong SessionStart SessionNote SessionClose RunStart
            RunEnd RunHold RunResume WorkflowStart WorkflowStep WorkflowMark WorkflowEnd WorkflowRetry HandlerTake
            HandlerCursor HandlerDead HandlerRelease HandlerSettle
        )
    };
    (@of $intent:expr, $rule:ident => $body:expr; $($kind:ident)*) => {
        match $intent {
            $(Intent::$kind($rule) => $body,)*
        }
    };
}

/// Why the fold would refuse a record if it came next. `None` if the id is known: it gets the earlier answer.
pub(crate) fn foresee(tables: &Tables<'_>, record: &Record) -> Result<Option<Rejection>, Error> {
    let (envelope, intent) = (&record.sealed.envelope, record.sealed.intent());
    if let Some(rejection) = reserved_id(tables, envelope, &intent)? {
        return Ok(Some(rejection));
    }
    if tables.id(&envelope.id)?.is_some() {
        return Ok(None);
    }
    let (intent, cx) = match understand(record, intent)? {
        Ok(understood) => understood,
        Err(rejection) => return Ok(Some(rejection)),
    };
    each_rule!(intent, rule => match rule.decide(tables, &cx) {
        Ok(_) => Ok(None),
        Err(Stop::Rejected(rejection)) => Ok(Some(rejection)),
        Err(Stop::Failed(error)) => Err(error),
    })
}

fn apply_intent(
    tables: &mut Tables<'_>,
    record: &Record,
    intent: Result<Option<Intent>, Malformed>,
) -> Result<Result<Effect, Rejection>, Error> {
    match understand(record, intent)? {
        Ok((intent, cx)) => each_rule!(intent, rule => run(&rule, tables, &cx)),
        Err(rejection) => Ok(Err(rejection)),
    }
}

/// The intent of a record with the context for its rule, or why no rule gets it.
fn understand(
    record: &Record,
    intent: Result<Option<Intent>, Malformed>,
) -> Result<Result<(Intent, Context), Rejection>, Error> {
    let envelope = &record.sealed.envelope;
    let intent = match intent {
        Ok(Some(intent)) => intent,
        Ok(None) if envelope.critical => {
            return Err(Error::UnknownKind {
                position: record.position.0,
                kind: envelope.kind,
                name: envelope.name.clone(),
                version: envelope.version,
            });
        }
        Ok(None) => {
            return Ok(Err(Rejection {
                code: Code::UnknownKind,
                reason: format!("kind {} ({}) is from a newer poste", envelope.kind, Foreign::name(&*envelope.name)),
            }));
        }
        Err(malformed) => {
            return Ok(Err(Rejection { code: Code::Malformed, reason: malformed.to_string() }));
        }
    };
    if envelope.content.is_some_and(|content| content.length > limits::CONTENT_BYTES_MAX as u64) {
        return Ok(Err(Rejection {
            code: Code::TooLarge,
            reason: format!("the content is larger than {} bytes", limits::CONTENT_BYTES_MAX),
        }));
    }
    let cx = Context {
        position: record.position,
        at: record.at,
        actor: envelope.actor.clone(),
        session: envelope.session.clone(),
        machine: envelope.machine.clone(),
        proof: envelope.proof,
        content_bytes: envelope.content.map_or(0, |content| content.length),
    };
    Ok(Ok((intent, cx)))
}

fn run<R: Rule>(rule: &R, tables: &mut Tables<'_>, cx: &Context) -> Result<Result<Effect, Rejection>, Error> {
    match rule.decide(tables, cx) {
        Ok(plan) => R::apply(plan, tables, cx).map(Ok),
        Err(Stop::Rejected(rejection)) => Ok(Err(rejection)),
        Err(Stop::Failed(error)) => Err(error),
    }
}

impl Rule for Barrier {
    type Plan = u32;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<u32, Stop> {
        only_poste(cx)?;
        if self.fold_version > FOLD_VERSION {
            return Err(Stop::Failed(Error::NeedsUpgrade {
                what: "follow",
                needed: self.fold_version,
                ours: FOLD_VERSION,
            }));
        }
        if self.fold_version <= tables.cursor.fold_version {
            return Err(refuse(
                Code::NothingToDo,
                format!("the log is already at fold version {}", tables.cursor.fold_version),
            ));
        }
        Ok(self.fold_version)
    }

    fn apply(fold_version: u32, tables: &mut Tables<'_>, _: &Context) -> Result<Effect, Error> {
        tables.cursor.fold_version = fold_version;
        Ok(Effect::Noted)
    }
}

impl Rule for Clock {
    type Plan = i64;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<i64, Stop> {
        // A clock leap must not block an office without registered agents forever.
        if !cx.actor.is_poste() && !tables.active_agents()?.is_empty() {
            speaker(tables, cx)?;
        }
        if self.leap_ms <= 0 {
            return Err(refuse(Code::TimeOutOfRange, "a clock can only jump ahead"));
        }
        // A leap of more than a day carries the name of the agent that accepted it.
        if self.leap_ms > limits::CLOCK_LEAP_MS_MAX && cx.actor.is_poste() {
            return Err(refuse(Code::NotAllowed, "a jump of more than a day must be accepted by an agent"));
        }
        Ok(self.leap_ms)
    }

    fn apply(leap_ms: i64, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        let claimed = tables.claimed()?;
        for before in &claimed {
            delivery::move_lease(tables, cx, before, leap_ms)?;
        }
        let locked = context::move_locks(tables, leap_ms)?;
        reservation::move_all(tables, leap_ms)?;
        let limited = workflow::move_limits(tables, leap_ms)?;
        handler::move_all(tables, leap_ms)?;
        Ok(Effect::Touched(claimed.len() + locked + limited))
    }
}

/// Whether an agent may be shown a message: the message is addressed to the agent, or the agent holds it.
pub(crate) fn is_own(
    tables: &Tables<'_>,
    agent: &Agent,
    message: &crate::store::tables::Message,
) -> Result<bool, Error> {
    match delivery::own_delivery(tables, agent, message, None) {
        Ok(_) => Ok(true),
        Err(Stop::Rejected(_)) => Ok(false),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// Why a context's lock stops the actor from writing to the context.
pub(crate) fn context_lock_against(
    context: &crate::store::tables::Context,
    actor: &Name,
    session: Option<&Session>,
) -> Option<Rejection> {
    context::lock_against(context, actor, session)
}

/// The reservations of other agents that conflict with these patterns, each with the pattern it conflicts with.
pub(crate) fn reservation_conflicts(
    tables: &Tables<'_>,
    agent: &Name,
    patterns: &[crate::pattern::Pattern],
    shared: bool,
) -> Result<Vec<(crate::pattern::Pattern, crate::store::tables::Reservation)>, Error> {
    match reservation::conflicts(tables, agent, patterns, shared) {
        Ok(found) => Ok(found.into_iter().map(|conflict| (conflict.wanted, conflict.held)).collect()),
        Err(Stop::Rejected(rejection)) => Err(Error::Rejected(rejection)),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// Allows a record only if the office itself wrote it.
pub(crate) fn only_poste(cx: &Context) -> Result<(), Stop> {
    if cx.actor.is_poste() {
        return Ok(());
    }
    Err(refuse(Code::NotAllowed, "only the office itself writes such a record"))
}

/// The record's actor, which must be registered and active.
pub(crate) fn speaker(tables: &Tables<'_>, cx: &Context) -> Result<Agent, Stop> {
    active_agent(tables, &cx.actor)
}

pub(crate) fn active_agent(tables: &Tables<'_>, name: &Name) -> Result<Agent, Stop> {
    let agent = tables
        .agent(name.as_str())?
        .ok_or_else(|| refuse(Code::UnknownAgent, format!("no agent is registered as {name}")))?;
    if !agent.is_active() {
        return Err(refuse(Code::Retired, format!("{name} is retired")));
    }
    Ok(agent)
}
