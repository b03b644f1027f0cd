//! Wakes named agents, the recipients of named messages, or every agent that is owed a ring.

use std::collections::BTreeMap;
use std::time::Duration;

use poste_core::log::MessageNo;
use poste_core::office::Office;
use poste_core::text::Name;
use poste_core::views;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ring::{Cause, Ringing, Rung, RungOutcome, Starter, Step};
use crate::{Answered, Desk, Error, Result, actions, no_message, unknown_agent};

/// Which agents to wake.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WakeRequest {
    /// Names of agents, and numbers of messages; none: every agent that is owed a ring
    pub who: Vec<String>,
    /// Only for mail that was not shown yet
    pub unseen: bool,
    /// A separate process rings for mail that was just stored. Then only agents are named.
    #[serde(skip)]
    pub apart: bool,
    /// Also use the network; for a dispatcher.
    #[serde(skip)]
    pub remote: bool,
    /// What the last answer left for later.
    #[serde(skip)]
    pub later: Option<PendingRings>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Outcome for each agent, and for each message without an agent that could be woken.
    pub rung: Vec<Rung>,
    /// An agent was rung a moment ago for other mail: ask again with this once its time has come.
    #[serde(skip)]
    pub later: Option<PendingRings>,
}

/// Rings that it is too soon for, and the outcome of the others.
#[derive(Debug)]
pub struct PendingRings {
    /// How long to wait.
    pub wait: Duration,
    round: Round,
}

/// The progress of a round of rings.
#[derive(Debug, Default)]
struct Round {
    to_ring: Vec<Ringing>,
    rung: Vec<Rung>,
    errors: Vec<Error>,
    /// No agent or message was named.
    is_for_all: bool,
}

/// Rings the agents that are to be woken and for which it is not too soon.
pub fn wake(desk: &mut Desk<'_>, request: WakeRequest, starter: &dyn Starter) -> Result<Answered<Answer>> {
    desk.agent()?;
    let mut round = match request.later {
        Some(later) => later.round,
        None => Round::begin(desk, &request)?,
    };
    let mut wait: Option<Duration> = None;
    for mut ringing in std::mem::take(&mut round.to_ring) {
        // An error for one agent does not affect the others.
        match ringing.step(desk, starter) {
            Ok(Step::Rung(rung)) => round.rung.push(rung),
            Ok(Step::Wait(left)) => {
                wait = Some(wait.map_or(left, |wait| wait.min(left)));
                round.to_ring.push(ringing);
            }
            Err(error) => round.errors.push(error),
        }
    }
    match wait {
        Some(wait) => Ok(Answered::new(Answer { rung: Vec::new(), later: Some(PendingRings { wait, round }) })),
        None => round.finish(desk),
    }
}

impl Round {
    fn begin(desk: &Desk<'_>, request: &WakeRequest) -> Result<Self> {
        let is_for_all = request.who.is_empty();
        let Targets { mut agents, without_agent, mut errors } = targets(desk.office, request)?;
        // A process that rings anyway also makes the rings of a process that died before its own.
        let owed = match is_for_all {
            true => views::owed_rings(desk.office.store(), desk.office.now()?)?,
            false if request.apart => actions::lost_rings(desk.office)?,
            false => Vec::new(),
        };
        for (sleeper, number) in owed {
            agents.entry(sleeper.agent).or_insert_with(|| vec![number]);
        }
        let mut to_ring = Vec::new();
        for (agent, numbers) in agents {
            let cause = match request.apart || is_for_all {
                true => Cause::Stored,
                false => Cause::Asked { numbers, only_unseen: request.unseen },
            };
            match Ringing::new(desk, agent, cause, request.remote) {
                Ok(ringing) => to_ring.push(ringing),
                Err(error) => errors.push(error),
            }
        }
        Ok(Self { to_ring, rung: without_agent.into_iter().map(Rung::without_agent).collect(), errors, is_for_all })
    }

    fn finish(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let Self { rung, mut errors, is_for_all, .. } = self;
        if is_for_all && rung.is_empty() && errors.is_empty() {
            desk.say("no agent is owed a ring");
        }
        errors.extend(not_woken(&rung));
        // The first error is reported in full, the others with their message only.
        let error = errors.into_iter().reduce(|first, other| first.cause(other.message));
        match error {
            Some(error) if rung.is_empty() && !is_for_all => Err(error),
            Some(error) => Ok(Answered::new(Answer { rung, later: None }).with_error(error)),
            None => Ok(Answered::new(Answer { rung, later: None })),
        }
    }
}

fn not_woken(rung: &[Rung]) -> Option<Error> {
    let failed = || rung.iter().filter(|rung| rung.outcome == RungOutcome::Failed);
    let number = failed().find_map(|rung| rung.numbers.first())?;
    let names: Vec<&str> = failed().filter_map(|rung| rung.agent.as_ref()).map(Name::as_str).collect();
    let error = Error::not_found(format!("could not wake {}", names.join(", "))).code("not_woken");
    Some(error.hint(note!("the mail is kept for its next session or tool call; follow it: " [track, number = number])))
}

/// Which agents to wake, each for which messages; none: all waiting mail.
#[derive(Default)]
struct Targets {
    agents: BTreeMap<Name, Vec<MessageNo>>,
    /// Messages without an agent that could be woken.
    without_agent: Vec<MessageNo>,
    /// Errors for names and numbers that do not exist.
    errors: Vec<Error>,
}

fn targets(office: &Office, request: &WakeRequest) -> Result<Targets> {
    let mut targets = Targets::default();
    let mut everything = Vec::new();
    for word in &request.who {
        // An agent may be called 12.
        let number = word.strip_prefix('#').unwrap_or(word).parse().map(MessageNo);
        if let Some(number) = number.ok().filter(|_| !request.apart) {
            match sleepers(office, number)? {
                None => targets.errors.push(no_message(number)),
                Some(sleepers) if sleepers.is_empty() => targets.without_agent.push(number),
                Some(sleepers) => {
                    for sleeper in sleepers {
                        targets.agents.entry(sleeper).or_default().push(number);
                    }
                }
            }
            continue;
        }
        match active(office, word) {
            Ok(name) => everything.push(name),
            Err(error) => targets.errors.push(error),
        }
    }
    targets.agents.extend(everything.into_iter().map(|name| (name, Vec::new())));
    Ok(targets)
}

fn active(office: &Office, word: &str) -> Result<Name> {
    let name: Name = word.parse()?;
    match office.agent(&name)? {
        None => Err(unknown_agent(office, &name)?),
        Some(agent) if !agent.is_active() => Err(Error::refused(format!("{name} is retired")).code("retired")),
        Some(_) => Ok(name),
    }
}

/// The agents that a message waits for; `None`: the message does not exist.
fn sleepers(office: &Office, number: MessageNo) -> Result<Option<Vec<Name>>> {
    match views::sleepers(office.store(), number)? {
        Some(sleepers) => Ok(Some(sleepers.into_iter().map(|sleeper| sleeper.agent).collect())),
        // It may be archived: then it waits for no agent.
        None => Ok(views::track(office.store(), number, office.now()?)?.map(|_| Vec::new())),
    }
}
