//! Ringing one agent: for which mail, when it is time, by which ways, and that it is written down.

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
use super::{Attempt, LIMIT, Ring};
use crate::actions::{self, Allowed};
use crate::{Desk, Error, Kind, Result, secret};

/// Mail that is looked at for one agent.
const LOOKED_AT_MAX: usize = 1_000;
/// Attempts that are recorded at once.
const RECORDS_AT_ONCE: usize = 50;

/// What became of waking one agent.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Rung {
    /// Null: a message that waits for nobody who could be woken.
    pub agent: Option<Name>,
    pub session: Option<Session>,
    /// The mail it was rung for, the most urgent first.
    pub numbers: Vec<MessageNo>,
    pub outcome: RungOutcome,
    /// Every way that was tried, in order.
    pub tried: Vec<Attempt>,
    /// Why nothing was tried.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RungOutcome {
    /// A way was asked. Whether it was heard, `track` tells.
    Requested,
    Failed,
    /// It was rung for the same mail a moment ago.
    Covered,
    /// Nothing waits for it.
    Nothing,
}

impl Rung {
    /// Nobody was rung.
    fn not(who: &Sleeper, numbers: Vec<MessageNo>, outcome: RungOutcome, reason: String) -> Self {
        let session = who.session.as_ref().map(|session| session.id.clone());
        Self { agent: Some(who.agent.clone()), session, numbers, outcome, tried: Vec::new(), reason: Some(reason) }
    }

    pub(super) fn for_nobody(number: MessageNo) -> Self {
        let reason = Some("it waits for nobody who could be woken".to_owned());
        let (agent, session, tried) = (None, None, Vec::new());
        Self { agent, session, numbers: vec![number], outcome: RungOutcome::Nothing, tried, reason }
    }
}

/// For what somebody is woken.
#[derive(Debug, Clone)]
pub(super) enum Cause {
    /// These messages and what rings by itself; none: everything that waits. If so wanted only what was not shown.
    Asked { numbers: Vec<MessageNo>, only_unseen: bool },
    /// What rings by itself: something was stored that does.
    Stored,
}

/// Whoever can start programs for an agent that does not run.
pub trait Starter {
    /// What would be started for this mail.
    fn find(&self, office: &Office, agent: &Name, numbers: &[MessageNo]) -> Result<Startable>;

    /// Starts it; it goes on by itself.
    fn start(&self, office: &Path, programs: &[Program]) -> Result<(), String>;
}

/// What can be started for an agent.
#[derive(Debug, Default)]
pub struct Startable {
    pub programs: Vec<Program>,
    /// Something can be run for it, and is not.
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
    /// While this is held, others leave their mail to this ring.
    next: Option<Next>,
}

/// What came of a try to ring.
pub(super) enum Step {
    Rung(Rung),
    /// It was rung a moment ago for something else: try again after this.
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

    /// Rings, unless somebody else does or it is too soon.
    pub(super) fn step(&mut self, desk: &mut Desk<'_>, starter: &dyn Starter) -> Result<Step> {
        let folder = desk.office.path()?.to_owned();
        if let Some(left) = self.left_to_others(desk.office)? {
            return Ok(Step::Rung(left));
        }
        if !self.is_by_hand() && self.next.is_none() {
            self.next = self.asks_to_be_next(&folder)?;
            if self.next.is_none() {
                let reason = "somebody else rings for it in a moment".to_owned();
                return Ok(Step::Rung(Rung::not(&self.who, Vec::new(), RungOutcome::Covered, reason)));
            }
        }
        loop {
            // Looked at anew before each ring: somebody may have seen to it meanwhile.
            let mail = self.waiting(desk.office)?;
            let not_rung = match mail.urgency() {
                None => self.nothing(),
                Some(urgency) => {
                    let turn = coalesce::turn(&folder, &self.agent, &mail.numbers(), urgency, self.is_by_hand());
                    match turn.map_err(|error| self.unrung(&error))? {
                        Turn::Covered { ago, how } => self.covered(&mail, ago, how),
                        Turn::Wait(left) => return Ok(Step::Wait(left)),
                        Turn::Now(bell) => return self.ring(desk, &folder, bell, starter).map(Step::Rung),
                    }
                }
            };
            // Those who came since the look, while the place was held, left their mail to this one.
            let had_the_place = self.next.take().is_some();
            if !had_the_place || !self.waiting(desk.office)?.has_more_than(&mail) {
                return Ok(Step::Rung(not_rung));
            }
            self.next = self.asks_to_be_next(&folder)?;
            if self.next.is_none() {
                return Ok(Step::Rung(not_rung));
            }
        }
    }

    fn ring(&mut self, desk: &mut Desk<'_>, folder: &Path, bell: Bell, starter: &dyn Starter) -> Result<Rung> {
        // Whoever comes from now on rings next. The mail of those who came before is looked for once more.
        drop(self.next.take());
        let mail = self.waiting(desk.office)?;
        let Some(urgency) = mail.urgency() else { return Ok(self.nothing()) };
        // It may have been a while.
        self.who = views::sleeper(desk.office.store(), &self.agent)?;
        if let Some(left) = self.left_to_others(desk.office)? {
            return Ok(left);
        }
        let numbers = mail.numbers();
        let attempts = self.attempt(desk.office, folder, &numbers, starter)?;
        let requested = attempts.iter().find(|attempt| attempt.outcome == WakeOutcome::Requested);
        let requested = requested.map(|attempt| attempt.how);
        let recorded = attempts.iter().try_for_each(|attempt| record(desk, &numbers, &self.agent, attempt));
        // Noted whatever became of the records: it was rung.
        bell.rang(requested, &numbers, urgency).map_err(|error| self.unrung(&error))?;
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
        // After a send nobody is started: that is for a dispatcher, or for whoever asks for it.
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

    /// A ring that others have to make: a dispatcher if every way leads over the network, another machine if the session runs
    /// there, nobody if it has none and mail alone rings. It is neither tried nor recorded, so that it stays owed.
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
        coalesce::next(folder, &self.agent).map_err(|error| self.unrung(&error))
    }

    fn covered(&self, mail: &Waiting, ago: Duration, how: Option<WakeWay>) -> Rung {
        let ago = length(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX));
        let how = how.map_or("and no way worked".to_owned(), |how| format!("by {how}"));
        let reason = format!("it was rung for this {ago} ago, {how}");
        Rung::not(&self.who, mail.numbers(), RungOutcome::Covered, reason)
    }

    fn nothing(&self) -> Rung {
        let everything = matches!(self.cause, Cause::Asked { only_unseen: false, .. });
        let what = if everything { "nothing waits" } else { "nothing waits unseen" };
        Rung::not(&self.who, Vec::new(), RungOutcome::Nothing, what.to_owned())
    }

    /// What is in the way of ringing somebody, beside the ways themselves.
    fn unrung(&self, error: &io::Error) -> Error {
        let agent = &self.agent;
        match error.kind() {
            io::ErrorKind::WouldBlock => {
                Error::new(Kind::Busy, format!("somebody else rings {agent} and does not end"))
            }
            _ => Error::internal(format!("that {agent} is rung cannot be noted: {error}")),
        }
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
        // By the index of what is owed, not by a list that ends somewhere.
        let owed = views::owed_mail(office.store(), &self.agent)?;
        waiting.extend(owed.into_iter().map(|number| (Urgency::Now, number)));
        Ok(Waiting(waiting))
    }
}

/// The mail an agent is rung for, the most urgent first.
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

/// Writes down an attempt to wake somebody, on each of these messages. Those that somebody handled meanwhile are passed over.
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
