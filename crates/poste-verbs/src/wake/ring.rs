//! Rings one agent: selects the mail, decides when to ring, tries the ways and records the attempts.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use poste_core::fold::{Code, Verdict};
use poste_core::log::{Content, Intent, MessageNo, Wake, WakeOutcome, WakeWay};
use poste_core::office::Office;
use poste_core::text::{Name, Session};
use poste_core::time::length;
use poste_core::views::{self, Sleeper, WaitingMail};
use poste_core::vocabulary::Urgency;
use schemars::JsonSchema;
use serde::Serialize;

use super::coalesce::{self, Bell, Next, Turn};
use super::{Attempt, LIMIT, Ring, limit};
use crate::actions::{self, Allowed};
use crate::{Desk, Error, Kind, Result, secret};

/// Maximum number of messages that are considered for one agent.
const LOOKED_AT_MAX: usize = 1_000;
/// Attempts that are recorded in one batch.
const RECORDS_AT_ONCE: usize = 50;

/// The outcome of waking one agent.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Rung {
    /// The agent; null for a message without an agent that could be woken.
    pub agent: Option<Name>,
    /// Its session, if it has one.
    pub session: Option<Session>,
    /// Messages that it was rung for, most urgent first.
    pub numbers: Vec<MessageNo>,
    /// What happened.
    pub outcome: RungOutcome,
    /// Ways that were tried, in order.
    pub tried: Vec<Attempt>,
    /// Why nothing was tried; otherwise null.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RungOutcome {
    /// A way accepted the request. `track` shows whether it was heard.
    Requested,
    /// No way worked.
    Failed,
    /// It was rung for the same mail a moment ago, or is about to be.
    Covered,
    /// It was woken too often within the last minute. The ring stays owed.
    Postponed,
    /// No mail is waiting for it.
    Nothing,
}

impl Rung {
    /// The outcome of not ringing.
    fn not(who: &Sleeper, numbers: Vec<MessageNo>, outcome: RungOutcome, reason: String) -> Self {
        let session = who.session.as_ref().map(|session| session.id.clone());
        Self { agent: Some(who.agent.clone()), session, numbers, outcome, tried: Vec::new(), reason: Some(reason) }
    }

    pub(super) fn without_agent(number: MessageNo) -> Self {
        let reason = Some("it waits for no agent that could be woken".to_owned());
        let (agent, session, tried) = (None, None, Vec::new());
        Self { agent, session, numbers: vec![number], outcome: RungOutcome::Nothing, tried, reason }
    }
}

/// Why an agent is woken.
#[derive(Debug, Clone)]
pub(super) enum Cause {
    /// By hand: for these messages and mail that rings automatically; none: all waiting mail. Optionally only unseen.
    Asked { numbers: Vec<MessageNo>, only_unseen: bool },
    /// Automatically: mail was stored that rings.
    Stored,
}

/// Starts programs for agents that are not running.
pub trait Starter {
    /// Finds what can be started for this mail.
    fn find(&self, office: &Office, agent: &Name, numbers: &[MessageNo]) -> Result<Startable>;

    /// Starts the programs without waiting for them.
    fn start(&self, office: &Path, programs: &[Program]) -> Result<(), String>;
}

/// What can be started for an agent.
#[derive(Debug, Default)]
pub struct Startable {
    pub programs: Vec<Program>,
    /// Why a program that could be run is not started.
    pub why_not: Option<String>,
}

/// A program of an agent, for some mail.
#[derive(Debug)]
pub struct Program {
    pub agent: Name,
    pub messages: Vec<MessageNo>,
}

/// An agent that is about to be rung.
#[derive(Debug)]
pub(super) struct Ringing {
    agent: Name,
    cause: Cause,
    /// Servers on other hosts may be asked.
    remote: bool,
    who: Sleeper,
    /// While this is held, other processes leave their mail to this ring.
    next: Option<Next>,
}

/// The outcome of one try to ring.
pub(super) enum Step {
    Rung(Rung),
    /// It was rung a moment ago for other mail: try again after this.
    Wait(Duration),
}

impl Ringing {
    pub(super) fn new(desk: &Desk<'_>, agent: Name, cause: Cause, remote: bool) -> Result<Self> {
        let who = views::sleeper(desk.office.store(), &agent)?;
        Ok(Self { agent, cause, remote, who, next: None })
    }

    fn is_by_hand(&self) -> bool {
        matches!(self.cause, Cause::Asked { .. })
    }

    /// Whether a person asked for it, who may wake an agent as often as they like.
    fn is_asked_by_person(&self, desk: &Desk<'_>) -> bool {
        self.is_by_hand() && desk.caller.proof.is_given()
    }

    /// Rings, unless another process does or it is too soon.
    pub(super) fn step(&mut self, desk: &mut Desk<'_>, starter: &dyn Starter) -> Result<Step> {
        let folder = desk.office.path()?.to_owned();
        if let Some(left) = self.left_to_others(desk.office)? {
            return Ok(Step::Rung(left));
        }
        if !self.is_by_hand() && self.next.is_none() {
            self.next = self.asks_to_be_next(&folder)?;
            if self.next.is_none() {
                let reason = "another process is about to ring it".to_owned();
                return Ok(Step::Rung(Rung::not(&self.who, Vec::new(), RungOutcome::Covered, reason)));
            }
        }
        loop {
            // Read again before each ring: the mail may have been handled in the meantime.
            let mail = self.to_ring_for(desk)?;
            let rest = if self.is_asked_by_person(desk) {
                None
            } else {
                limit::rest(desk.office, &self.agent, &mail.numbers())?
            };
            let not_rung = match (mail.urgency(), rest) {
                (None, _) => self.nothing(),
                (Some(_), Some(rest)) => self.postponed(&mail, rest),
                (Some(urgency), None) => {
                    let turn = coalesce::turn(&folder, &self.agent, &mail.numbers(), urgency, self.is_by_hand());
                    match turn.map_err(|error| self.ring_error(&error))? {
                        Turn::Covered { ago, how } => self.covered(&mail, ago, how),
                        Turn::Wait(left) => return Ok(Step::Wait(left)),
                        Turn::Now(bell) => return self.ring(desk, &folder, bell, starter).map(Step::Rung),
                    }
                }
            };
            // Processes that came since then, while the place was held, left their mail to this one.
            let had_the_place = self.next.take().is_some();
            if !had_the_place || !self.to_ring_for(desk)?.has_more_than(&mail) {
                return Ok(Step::Rung(not_rung));
            }
            self.next = self.asks_to_be_next(&folder)?;
            if self.next.is_none() {
                return Ok(Step::Rung(not_rung));
            }
        }
    }

    fn ring(&mut self, desk: &mut Desk<'_>, folder: &Path, bell: Bell, starter: &dyn Starter) -> Result<Rung> {
        // Processes that come from now on ring next. The mail of those that came before is read once more.
        drop(self.next.take());
        let mail = self.to_ring_for(desk)?;
        let Some(urgency) = mail.urgency() else { return Ok(self.nothing()) };
        // The session may have changed while waiting.
        self.who = views::sleeper(desk.office.store(), &self.agent)?;
        if let Some(left) = self.left_to_others(desk.office)? {
            return Ok(left);
        }
        let numbers = mail.numbers();
        let attempts = self.attempt(desk.office, folder, &numbers, starter)?;
        let requested = attempts.iter().find(|attempt| attempt.outcome == WakeOutcome::Requested);
        let requested = requested.map(|attempt| attempt.how);
        let recorded = attempts.iter().try_for_each(|attempt| record(desk, &numbers, &self.agent, attempt));
        // Noted even if recording failed: the agent was rung.
        bell.rang(requested, &numbers, urgency).map_err(|error| self.ring_error(&error))?;
        recorded?;
        Ok(Rung {
            agent: Some(self.agent.clone()),
            session: self.who.session.as_ref().map(|session| session.id.clone()),
            numbers,
            outcome: if requested.is_some() { RungOutcome::Requested } else { RungOutcome::Failed },
            tried: attempts,
            reason: None,
        })
    }

    fn attempt(
        &self,
        office: &Office,
        folder: &Path,
        numbers: &[MessageNo],
        starter: &dyn Starter,
    ) -> Result<Vec<Attempt>> {
        // A send starts no program: only a dispatcher does, or `poste wake` by hand.
        let startable = match self.is_by_hand() {
            true => starter.find(office, &self.agent, numbers)?,
            false => Startable::default(),
        };
        let session = self.who.session.as_ref();
        let allowed = Allowed { spawn: !startable.programs.is_empty(), remote: self.remote };
        let mut plan = actions::plan(office, &self.agent, session, Some(numbers), allowed)?;
        if let Some(why_not) = startable.why_not.as_ref().filter(|_| session.is_none()) {
            plan.why_not.push_str(&format!("; {why_not}"));
        }
        let ring = Ring {
            agent: self.agent.clone(),
            numbers: numbers.to_vec(),
            folder: folder.parent().unwrap_or(folder).to_owned(),
            limit: LIMIT,
        };
        Ok(super::ring(&plan, &ring, &|| starter.start(folder, &startable.programs)))
    }

    /// A ring that is left to others: to a dispatcher if every way needs the network, to another machine if the session
    /// runs there, to no one if an automatic ring finds no session. It is neither tried nor recorded, so it stays owed.
    fn left_to_others(&self, office: &Office) -> Result<Option<Rung>> {
        let session = self.who.session.as_ref();
        let plan = |remote: bool| actions::plan(office, &self.agent, session, None, Allowed { spawn: false, remote });
        let here = plan(self.remote)?;
        let is_left = match session {
            None => !self.is_by_hand(),
            Some(session) => session.elsewhere || (here.ways.is_empty() && !plan(true)?.ways.is_empty()),
        };
        if !is_left {
            return Ok(None);
        }
        let numbers = self.waiting(office)?.numbers();
        Ok(Some(Rung::not(&self.who, numbers, RungOutcome::Failed, here.why_not)))
    }

    fn asks_to_be_next(&self, folder: &Path) -> Result<Option<Next>> {
        coalesce::next(folder, &self.agent).map_err(|error| self.ring_error(&error))
    }

    fn covered(&self, mail: &Waiting, ago: Duration, how: Option<WakeWay>) -> Rung {
        let ago = length(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX));
        let how = how.map_or("and no way worked".to_owned(), |how| format!("by {how}"));
        let reason = format!("it was rung for this {ago} ago, {how}");
        Rung::not(&self.who, mail.numbers(), RungOutcome::Covered, reason)
    }

    fn postponed(&self, mail: &Waiting, rest: Duration) -> Rung {
        let rest = length(i64::try_from(rest.as_millis()).unwrap_or(i64::MAX));
        let reason = format!("it was woken too often; the next ring for mail that no person sent can come in {rest}");
        Rung::not(&self.who, mail.numbers(), RungOutcome::Postponed, reason)
    }

    fn nothing(&self) -> Rung {
        let everything = matches!(self.cause, Cause::Asked { only_unseen: false, .. });
        let what = if everything { "no mail is waiting" } else { "no unseen mail is waiting" };
        Rung::not(&self.who, Vec::new(), RungOutcome::Nothing, what.to_owned())
    }

    /// The error if an agent could not be rung for another reason than its ways.
    fn ring_error(&self, error: &io::Error) -> Error {
        let agent = &self.agent;
        match error.kind() {
            io::ErrorKind::WouldBlock => {
                Error::new(Kind::Busy, format!("another process rings {agent} and does not finish"))
            }
            _ => Error::internal(format!("could not note the ring of {agent}: {error}")),
        }
    }

    /// The mail to ring for now. A person may ask for any of it.
    fn to_ring_for(&self, desk: &mut Desk<'_>) -> Result<Waiting> {
        let mut mail = self.waiting(desk.office)?;
        if !self.is_asked_by_person(desk) {
            let kept = limit::hold_back_chains(desk, &self.agent, &mail.numbers())?;
            mail.0.retain(|(_, number)| kept.contains(number));
        }
        Ok(mail)
    }

    fn waiting(&self, office: &Office) -> Result<Waiting> {
        let mut waiting = BTreeSet::new();
        if let Cause::Asked { numbers, only_unseen } = &self.cause {
            let mail = views::waiting_mail(office.store(), &self.agent, LOOKED_AT_MAX)?;
            let is_wanted = |mail: &WaitingMail| {
                !(*only_unseen && mail.shown) && (numbers.is_empty() || numbers.contains(&mail.number))
            };
            waiting.extend(mail.into_iter().filter(is_wanted).map(|mail| (mail.urgency, mail.number)));
            if numbers.is_empty() || waiting.is_empty() {
                return Ok(Waiting(waiting));
            }
        }
        // From the index of owed mail, which has no limit.
        let owed = views::owed_mail(office.store(), &self.agent)?;
        waiting.extend(owed.into_iter().map(|number| (Urgency::Now, number)));
        Ok(Waiting(waiting))
    }
}

/// The mail an agent is rung for, most urgent first.
struct Waiting(BTreeSet<(Urgency, MessageNo)>);

impl Waiting {
    fn urgency(&self) -> Option<Urgency> {
        self.0.first().map(|(urgency, _)| *urgency)
    }

    fn numbers(&self) -> Vec<MessageNo> {
        self.0.iter().map(|(_, number)| *number).collect()
    }

    fn has_more_than(&self, before: &Self) -> bool {
        !self.0.is_subset(&before.0)
    }
}

/// Records an attempt to wake an agent, on each of these messages. Messages handled in the meantime are skipped.
pub fn record(desk: &mut Desk<'_>, numbers: &[MessageNo], agent: &Name, attempt: &Attempt) -> Result {
    let Attempt { how, outcome, reason } = attempt;
    // A program that failed may have printed anything.
    let content =
        reason.as_deref().map(|reason| secret::scrubbed(Content { body: reason.into(), ..Content::default() }));
    for numbers in numbers.chunks(RECORDS_AT_ONCE) {
        let mut proposals = Vec::new();
        for message in numbers {
            let intent = Intent::Wake(Wake { message: *message, agent: agent.clone(), how: *how, outcome: *outcome });
            proposals.push(desk.proposal(intent, content.clone(), None)?);
        }
        for outcome in desk.submit(&proposals)? {
            if let Verdict::Rejected(rejection) = outcome.verdict
                && ![Code::NothingToDo, Code::Ended, Code::AlreadyClaimed, Code::NotReady, Code::Archived]
                    .contains(&rejection.code)
            {
                return Err(rejection.into());
            }
        }
    }
    Ok(())
}
