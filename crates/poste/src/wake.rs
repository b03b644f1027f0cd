//! Waking agents for their mail: who is rung by which way, that it is written down, and when nobody is rung.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use poste_connect::live::Live;
use poste_connect::wake::coalesce::{self, Turn};
use poste_connect::wake::{self, Attempt, Known, Plan, Ring, Way};
use poste_core::fold::{Code, Verdict};
use poste_core::log::{Content, Intent, MessageNo, Wake, WakeOutcome, WakeWay};
use poste_core::office::Office;
use poste_core::secrets;
use poste_core::text::{Name, Session};
use poste_core::time::length;
use poste_core::views::{self, LiveSession, WaitingMail};
use poste_core::vocabulary::Urgency;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;

/// Mail that is looked at for one agent.
const LOOKED_AT_MAX: usize = 1_000;
/// Messages one ring is written down for.
const RECORDED_MAX: usize = 50;
/// Messages of one batch that are looked at.
const SENT_MAX: usize = 200;

/// What became of waking one agent.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Rung {
    pub agent: Name,
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
    for outcome in office.submit(&proposals)? {
        if let Verdict::Rejected(rejection) = outcome.verdict
            && ![Code::NothingToDo, Code::Ended, Code::AlreadyClaimed, Code::NotReady, Code::Archived]
                .contains(&rejection.code)
        {
            return Err(rejection.into());
        }
    }
    Ok(())
}

/// Wakes an agent for what waits: for these messages and what is as urgent, or for everything if none is named.
pub(crate) fn ring(
    cx: &Cx,
    office: &mut Office,
    agent: &Name,
    wanted: &[MessageNo],
    only_unseen: bool,
) -> Result<Rung> {
    let folder = office.path()?.to_owned();
    loop {
        // Looked at anew before each ring: somebody may have seen to it meanwhile.
        let session = views::sleeper(office.store(), agent)?.session;
        let mail = waiting(office, agent, wanted, only_unseen)?;
        let mut rung = Rung {
            agent: agent.clone(),
            session: session.as_ref().map(|session| session.id.clone()),
            numbers: mail.iter().map(|mail| mail.number).collect(),
            outcome: RungOutcome::Nothing,
            tried: Vec::new(),
            reason: None,
        };
        let Some(urgency) = mail.iter().map(|mail| mail.urgency).min() else {
            let what = if only_unseen { "nothing waits unseen" } else { "nothing waits" };
            return Ok(Rung { reason: Some(what.to_owned()), ..rung });
        };
        let bell = match coalesce::turn(&folder, agent, &rung.numbers, urgency)? {
            Turn::Covered { ago, how } => {
                let ago = length(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX));
                let reason = Some(format!("it was rung for this {ago} ago, by {how}"));
                return Ok(Rung { outcome: RungOutcome::Covered, reason, ..rung });
            }
            Turn::Wait(left) => {
                std::thread::sleep(left);
                continue;
            }
            Turn::Now(bell) => bell,
        };
        let attempts = attempt(office, &folder, agent, session.as_ref(), &rung.numbers)?;
        for Attempt { how, outcome, reason } in attempts {
            record(cx, office, &rung.numbers, agent, how, outcome, reason.as_deref())?;
            rung.tried.push(Tried { how, outcome, reason });
        }
        let requested = rung.tried.iter().find(|tried| tried.outcome == WakeOutcome::Requested).map(|tried| tried.how);
        rung.outcome = if requested.is_some() { RungOutcome::Requested } else { RungOutcome::Failed };
        if let Some(how) = requested {
            bell.rang(how, &rung.numbers, urgency)?;
        }
        return Ok(rung);
    }
}

fn waiting(office: &Office, agent: &Name, wanted: &[MessageNo], only_unseen: bool) -> Result<Vec<WaitingMail>> {
    let mut mail = views::waiting_mail(office.store(), agent, LOOKED_AT_MAX)?;
    mail.retain(|mail| !(only_unseen && mail.shown));
    if !wanted.is_empty() {
        if !mail.iter().any(|mail| wanted.contains(&mail.number)) {
            return Ok(Vec::new());
        }
        mail.retain(|mail| wanted.contains(&mail.number) || mail.urgency == Urgency::Now && !mail.shown);
    }
    Ok(mail)
}

fn attempt(
    office: &Office,
    folder: &Path,
    agent: &Name,
    session: Option<&LiveSession>,
    numbers: &[MessageNo],
) -> Result<Vec<Attempt>> {
    let plan = plan(office, folder, session)?;
    let ring = Ring {
        agent: agent.clone(),
        numbers: numbers.to_vec(),
        folder: folder.parent().unwrap_or(folder).to_owned(),
        limit: wake::LIMIT,
    };
    Ok(wake::ring(&plan, &ring))
}

fn plan(office: &Office, folder: &Path, session: Option<&LiveSession>) -> Result<Plan> {
    let config = office.wake_config()?;
    let reach = session.and_then(|session| Live::load(folder, &session.id)).map(|live| live.reach).unwrap_or_default();
    Ok(wake::plan(&Known {
        session,
        waiter: session.is_some_and(|session| wake::is_waiting(folder, &session.id)),
        reach: &reach,
        command: config.command.as_ref().map(|command| command.words.as_slice()),
        hosts: &config.hosts,
    }))
}

/// After a message was stored: if it must be seen now, and somebody it is for runs here and hears no bell, another process
/// rings. Whoever sent it does not wait for that and hears of no trouble with it: the message is stored, and `track` tells.
pub(crate) fn after_send(cx: &Cx, office: &Office, numbers: &[MessageNo]) {
    // Whatever is in the way of a ring is told where somebody looks for it, not in the answer to a send.
    if let Ok(numbers) = worth_a_ring(cx, office, numbers)
        && !numbers.is_empty()
    {
        let _ = ring_apart(cx, office, &numbers);
    }
}

/// Of these messages as many as it takes to ring everybody who must be rung.
fn worth_a_ring(cx: &Cx, office: &Office, numbers: &[MessageNo]) -> Result<Vec<MessageNo>> {
    let mut agents = BTreeSet::new();
    let mut worth = Vec::new();
    for number in numbers.iter().take(SENT_MAX) {
        let sleepers = views::to_ring(office.store(), *number)?;
        let before = agents.len();
        for sleeper in sleepers {
            if agents.contains(&sleeper.agent) || Some(&sleeper.agent) == cx.optional_speaker().as_ref() {
                continue;
            }
            let plan = plan(office, office.path()?, sleeper.session.as_ref())?;
            if !plan.ways.is_empty() && plan.ways != [Way::Rewake] {
                agents.insert(sleeper.agent);
            }
        }
        if agents.len() > before {
            worth.push(*number);
        }
    }
    Ok(worth)
}

fn ring_apart(cx: &Cx, office: &Office, numbers: &[MessageNo]) -> Result {
    let folder = office.path()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("wake").args(numbers.iter().map(ToString::to_string));
    command.args(["--unseen", "--apart", "--office"]).arg(folder).env("POSTE_AGENT", cx.speaker()?.as_str());
    match cx.session() {
        Some(session) => command.env("POSTE_SESSION", session.as_str()),
        None => command.env_remove("POSTE_SESSION"),
    };
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    // A server that lives on must not keep what is left of it.
    std::thread::spawn(move || child.wait());
    Ok(())
}
