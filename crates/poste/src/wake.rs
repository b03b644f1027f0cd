//! Waking agents for their mail: who is rung by which way, that it is written down, and when nobody is rung.

use std::io;
use std::path::Path;
use std::time::Duration;

use poste_core::fold::{Code, Verdict};
use poste_core::log::{Content, Intent, MessageNo, Wake, WakeOutcome, WakeWay};
use poste_core::office::Office;
use poste_core::secrets;
use poste_core::text::{Name, Session};
use poste_core::time::length;
use poste_core::views::{self, LiveSession, Sleeper, WaitingMail};
use poste_core::vocabulary::Urgency;
use poste_dispatch::engine::{self, Scope, Start, WaitReason};
use poste_dispatch::run;
use poste_verbs::actions;
use poste_verbs::wake::coalesce::{self, Turn};
use poste_verbs::wake::{self, Attempt, Ring};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};

/// Mail that is looked at for one agent.
const LOOKED_AT_MAX: usize = 1_000;
/// Messages one ring is written down for.
const RECORDED_MAX: usize = 50;

/// What became of waking one agent.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Rung {
    /// Null: a message that waits for nobody who could be woken.
    pub agent: Option<Name>,
    pub session: Option<Session>,
    /// The mail it was rung for, the most urgent first.
    pub numbers: Vec<MessageNo>,
    pub outcome: RungOutcome,
    /// Every way that was tried, in order.
    pub tried: Vec<Tried>,
    /// Why nothing was tried.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RungOutcome {
    /// A way was asked. Whether it was heard, `track` tells.
    Requested,
    Failed,
    /// It was rung for the same mail a moment ago.
    Covered,
    /// Nothing waits for it.
    Nothing,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Tried {
    pub how: WakeWay,
    pub outcome: WakeOutcome,
    pub reason: Option<String>,
}

/// Writes down an attempt to wake somebody, on each of these messages. Those that somebody handled meanwhile are passed over.
pub(crate) fn record(
    cx: &Cx,
    office: &mut Office,
    numbers: &[MessageNo],
    agent: &Name,
    how: WakeWay,
    outcome: WakeOutcome,
    reason: Option<&str>,
) -> Result {
    let content = reason.map(|reason| {
        let content = Content { body: reason.into(), ..Content::default() };
        // A program that failed may have printed anything.
        match secrets::find(&content).is_empty() {
            true => content,
            false => Content { body: "what it said looks like a secret".into(), ..Content::default() },
        }
    });
    let mut proposals = Vec::new();
    for message in numbers.iter().take(RECORDED_MAX) {
        let intent = Intent::Wake(Wake { message: *message, agent: agent.clone(), how, outcome });
        proposals.push(cx.proposal(office, intent, content.clone(), None)?);
    }
    let outcomes = poste_config::submit(office, &proposals)?;
    cx.carry_out(office);
    for outcome in outcomes {
        if let Verdict::Rejected(rejection) = outcome.verdict
            && ![Code::NothingToDo, Code::Ended, Code::AlreadyClaimed, Code::NotReady, Code::Archived]
                .contains(&rejection.code)
        {
            return Err(rejection.into());
        }
    }
    Ok(())
}

/// For what somebody is woken.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cause<'c> {
    /// These messages and what rings by itself; none: everything that waits. If so wanted only what was not shown.
    Asked { numbers: &'c [MessageNo], only_unseen: bool },
    /// What rings by itself: something was stored that does.
    Stored,
}

impl Rung {
    /// Nobody was rung.
    fn not(who: &Sleeper, numbers: Vec<MessageNo>, outcome: RungOutcome, reason: String) -> Self {
        let session = who.session.as_ref().map(|session| session.id.clone());
        Self { agent: Some(who.agent.clone()), session, numbers, outcome, tried: Vec::new(), reason: Some(reason) }
    }

    pub(crate) fn for_nobody(number: MessageNo) -> Self {
        let reason = Some("it waits for nobody who could be woken".to_owned());
        Self {
            agent: None,
            session: None,
            numbers: vec![number],
            outcome: RungOutcome::Nothing,
            tried: Vec::new(),
            reason,
        }
    }
}

/// Wakes an agent for what waits.
pub(crate) fn ring(cx: &Cx, office: &mut Office, agent: &Name, cause: Cause<'_>) -> Result<Rung> {
    let folder = office.path()?.to_owned();
    let by_hand = matches!(cause, Cause::Asked { .. });
    let who = views::sleeper(office.store(), agent)?;
    let mut next = None;
    if !by_hand {
        next = coalesce::next(&folder, agent).map_err(|error| unrung(agent, &error))?;
        if next.is_none() {
            let reason = "somebody else rings for it in a moment".to_owned();
            return Ok(Rung::not(&who, Vec::new(), RungOutcome::Covered, reason));
        }
    }
    let (bell, mail) = loop {
        // Looked at anew before each ring: somebody may have seen to it meanwhile.
        let mail = waiting(office, agent, cause)?;
        let not_rung = match mail.urgency() {
            None => nothing(&who, cause),
            Some(urgency) => match coalesce::turn(&folder, agent, &mail.numbers(), urgency, by_hand) {
                Ok(Turn::Covered { ago, how }) => covered(&who, &mail, ago, how),
                Ok(Turn::Wait(left)) => {
                    std::thread::sleep(left);
                    continue;
                }
                Ok(Turn::Now(bell)) => {
                    // Whoever comes from now on rings next. The mail of those who came before is looked for once more.
                    drop(next.take());
                    break (bell, waiting(office, agent, cause)?);
                }
                Err(error) => return Err(unrung(agent, &error)),
            },
        };
        // Those who came since the look, while the place was held, left their mail to this one.
        let had_the_place = next.take().is_some();
        if !had_the_place || !waiting(office, agent, cause)?.has_more_than(&mail) {
            return Ok(not_rung);
        }
        next = coalesce::next(&folder, agent).map_err(|error| unrung(agent, &error))?;
        if next.is_none() {
            return Ok(not_rung);
        }
    };
    let Some(urgency) = mail.urgency() else { return Ok(nothing(&who, cause)) };
    // It may have been a while.
    let session = views::sleeper(office.store(), agent)?.session;
    let numbers = mail.numbers();
    let attempts = attempt(office, &folder, agent, session.as_ref(), &numbers, by_hand)?;
    let requested =
        attempts.iter().find(|attempt| attempt.outcome == WakeOutcome::Requested).map(|attempt| attempt.how);
    let recorded = attempts.iter().try_for_each(|Attempt { how, outcome, reason }| {
        record(cx, office, &numbers, agent, *how, *outcome, reason.as_deref())
    });
    // Noted whatever became of the records: it was rung.
    bell.rang(requested, &numbers, urgency).map_err(|error| unrung(agent, &error))?;
    recorded?;
    Ok(Rung {
        agent: Some(agent.clone()),
        session: session.map(|session| session.id),
        numbers,
        outcome: if requested.is_some() { RungOutcome::Requested } else { RungOutcome::Failed },
        tried: attempts.into_iter().map(|Attempt { how, outcome, reason }| Tried { how, outcome, reason }).collect(),
        reason: None,
    })
}

fn covered(who: &Sleeper, mail: &Waiting, ago: Duration, how: Option<WakeWay>) -> Rung {
    let ago = length(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX));
    let how = how.map_or("and no way worked".to_owned(), |how| format!("by {how}"));
    Rung::not(who, mail.numbers(), RungOutcome::Covered, format!("it was rung for this {ago} ago, {how}"))
}

fn nothing(who: &Sleeper, cause: Cause<'_>) -> Rung {
    let everything = matches!(cause, Cause::Asked { only_unseen: false, .. });
    let what = if everything { "nothing waits" } else { "nothing waits unseen" };
    Rung::not(who, Vec::new(), RungOutcome::Nothing, what.to_owned())
}

/// What is in the way of ringing somebody, beside the ways themselves.
fn unrung(agent: &Name, error: &io::Error) -> CommandError {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            CommandError::new(Kind::Busy, format!("somebody else rings {agent} and does not end"))
        }
        _ => CommandError::new(Kind::Internal, format!("that {agent} is rung cannot be noted: {error}")),
    }
}

/// The mail an agent is rung for, the most urgent first.
struct Waiting(Vec<WaitingMail>);

impl Waiting {
    fn urgency(&self) -> Option<Urgency> {
        self.0.iter().map(|mail| mail.urgency).min()
    }

    fn numbers(&self) -> Vec<MessageNo> {
        self.0.iter().map(|mail| mail.number).collect()
    }

    fn has_more_than(&self, before: &Self) -> bool {
        let before = before.numbers();
        self.0.iter().any(|mail| !before.contains(&mail.number))
    }
}

fn waiting(office: &Office, agent: &Name, cause: Cause<'_>) -> Result<Waiting> {
    let mut mail = views::waiting_mail(office.store(), agent, LOOKED_AT_MAX)?;
    match cause {
        Cause::Stored => mail.retain(WaitingMail::rings),
        Cause::Asked { numbers, only_unseen } => {
            mail.retain(|mail| !(only_unseen && mail.shown));
            if !numbers.is_empty() {
                let is_there = mail.iter().any(|mail| numbers.contains(&mail.number));
                mail.retain(|mail| is_there && (numbers.contains(&mail.number) || mail.rings()));
            }
        }
    }
    Ok(Waiting(mail))
}

fn attempt(
    office: &Office,
    folder: &Path,
    agent: &Name,
    session: Option<&LiveSession>,
    numbers: &[MessageNo],
    by_hand: bool,
) -> Result<Vec<Attempt>> {
    // After a send nobody is started: that is for a dispatcher, or for whoever asks for it.
    let spawn = if by_hand { Spawn::find(office, agent, numbers)? } else { Spawn::default() };
    let mut plan = actions::plan(office, agent, session, Some(numbers), !spawn.starts.is_empty())?;
    if let Some(why_not) = spawn.why_not.as_ref().filter(|_| session.is_none()) {
        plan.why_not.push_str(&format!("; {why_not}"));
    }
    let ring = Ring {
        agent: agent.clone(),
        numbers: numbers.to_vec(),
        folder: folder.parent().unwrap_or(folder).to_owned(),
        limit: wake::LIMIT,
    };
    Ok(wake::ring(&plan, &ring, &|| spawn.run(folder)))
}

/// What a dispatcher would start for an agent now, of some mail.
#[derive(Debug, Default)]
struct Spawn {
    starts: Vec<Start>,
    /// Something can be run for it, and is not.
    why_not: Option<String>,
}

impl Spawn {
    fn find(office: &Office, agent: &Name, numbers: &[MessageNo]) -> Result<Self> {
        let runners = poste_config::runners(office)?;
        if !runners.agents.contains_key(agent) {
            return Ok(Self::default());
        }
        let only = std::slice::from_ref(agent);
        let sight = engine::look(office, &runners, Scope { only, whole: true })?;
        let mut choice = engine::choose(&sight.facts);
        choice.starts.retain(|start| start.messages.iter().any(|message| numbers.contains(message)));
        let held = choice.holds.first().map(|hold| hold.text.clone());
        let waits = choice.waits.first().map(|wait| match wait.why {
            WaitReason::Busy | WaitReason::NoPlace => "its program is not started, as enough run already",
            WaitReason::Quiet => "its program is not started in its quiet hours",
            WaitReason::Held | WaitReason::Resting => "its program is held: poste dispatch status",
        });
        let mut later = sight.facts.agents.iter().flat_map(|agent| &agent.later);
        let later = later.any(|later| numbers.contains(&later.message));
        let waits = waits.or(later.then_some("its program is started later: poste dispatch status"));
        let why_not = held.or(waits.map(str::to_owned)).filter(|_| choice.starts.is_empty());
        Ok(Self { starts: choice.starts, why_not })
    }

    /// Supervisors are started, and go on by themselves.
    fn run(&self, folder: &Path) -> std::result::Result<(), String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let folder = folder.canonicalize().map_err(|error| error.to_string())?;
        for start in &self.starts {
            let spawned = run::supervisor(&program, &folder, &start.agent, &start.messages).spawn();
            let mut child = spawned.map_err(|error| error.to_string())?;
            std::thread::spawn(move || child.wait());
        }
        Ok(())
    }
}
