//! Waking everybody who is named, for whom a named message waits, or who is owed a ring.

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

/// Who is to be woken.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Asked {
    /// Names of agents, and numbers of messages; none: every agent that is owed a ring
    pub who: Vec<String>,
    /// Only for what was not shown yet
    pub unseen: bool,
    /// For what was stored just now, by a process of its own. Then only agents are named.
    #[serde(skip)]
    pub apart: bool,
    /// Also over the network, for a dispatcher.
    #[serde(skip)]
    pub remote: bool,
    /// What the last answer left for later.
    #[serde(skip)]
    pub later: Option<Later>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// One for each agent, and for each message that waits for none.
    pub rung: Vec<Rung>,
    /// Somebody was rung a moment ago for something else: ask again with this, once its time has come.
    #[serde(skip)]
    pub later: Option<Later>,
}

/// Rings that it is too soon for, and what came of the others.
#[derive(Debug)]
pub struct Later {
    /// How long to wait.
    pub wait: Duration,
    round: Round,
}

/// A round of rings, as far as it has come.
#[derive(Debug, Default)]
struct Round {
    to_ring: Vec<Ringing>,
    rung: Vec<Rung>,
    errors: Vec<Error>,
    /// Nobody was named.
    is_for_all: bool,
}

/// Rings whoever is to be woken, as far as it is time to.
pub fn wake(desk: &mut Desk<'_>, asked: Asked, starter: &dyn Starter) -> Result<Answered<Answer>> {
    desk.agent()?;
    let mut round = match asked.later {
        Some(later) => later.round,
        None => Round::begin(desk, &asked)?,
    };
    let mut wait: Option<Duration> = None;
    for mut ringing in std::mem::take(&mut round.to_ring) {
        // Whatever is in the way of one is not in the way of the others.
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
        Some(wait) => Ok(Answered::new(Answer { rung: Vec::new(), later: Some(Later { wait, round }) })),
        None => round.finish(desk),
    }
}

impl Round {
    fn begin(desk: &Desk<'_>, asked: &Asked) -> Result<Self> {
        let is_for_all = asked.who.is_empty();
        let Targets { mut agents, nobody, mut errors } = targets(desk.office, asked)?;
        // Whoever rings anyway also rings for what somebody who died before its ring left behind.
        let owed = match is_for_all {
            true => views::owed_rings(desk.office.store(), desk.office.now()?)?,
            false if asked.apart => actions::lost_rings(desk.office)?,
            false => Vec::new(),
        };
        for (sleeper, number) in owed {
            agents.entry(sleeper.agent).or_insert_with(|| vec![number]);
        }
        let mut to_ring = Vec::new();
        for (agent, numbers) in agents {
            let cause = match asked.apart || is_for_all {
                true => Cause::Stored,
                false => Cause::Asked { numbers, only_unseen: asked.unseen },
            };
            match Ringing::new(desk, agent, cause, asked.remote) {
                Ok(ringing) => to_ring.push(ringing),
                Err(error) => errors.push(error),
            }
        }
        Ok(Self { to_ring, rung: nobody.into_iter().map(Rung::for_nobody).collect(), errors, is_for_all })
    }

    fn finish(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let Self { rung, mut errors, is_for_all, .. } = self;
        if is_for_all && rung.is_empty() && errors.is_empty() {
            desk.say("no agent is owed a ring");
        }
        errors.extend(not_woken(&rung));
        // The first is told in full, of the others what happened.
        let error = errors.into_iter().reduce(|first, other| first.cause(other.message));
        match error {
            Some(error) if rung.is_empty() && !is_for_all => Err(error),
            Some(error) => Ok(Answered::new(Answer { rung, later: None }).but(error)),
            None => Ok(Answered::new(Answer { rung, later: None })),
        }
    }
}

fn not_woken(rung: &[Rung]) -> Option<Error> {
    let failed = || rung.iter().filter(|rung| rung.outcome == RungOutcome::Failed);
    let number = failed().find_map(|rung| rung.numbers.first())?;
    let names: Vec<&str> = failed().filter_map(|rung| rung.agent.as_ref()).map(Name::as_str).collect();
    let error = Error::not_found(format!("no way to wake {} worked", names.join(", "))).code("not_woken");
    Some(error.hint(note!("the mail is kept for its next session or tool call; follow it: " [track, number = number])))
}

/// Whom to wake, each for which messages; none for all that wait.
#[derive(Default)]
struct Targets {
    agents: BTreeMap<Name, Vec<MessageNo>>,
    /// Messages that wait for nobody.
    nobody: Vec<MessageNo>,
    /// What was named and is not there.
    errors: Vec<Error>,
}

fn targets(office: &Office, asked: &Asked) -> Result<Targets> {
    let mut targets = Targets::default();
    let mut everything = Vec::new();
    for word in &asked.who {
        // An agent may be called 12.
        let number = word.strip_prefix('#').unwrap_or(word).parse().map(MessageNo);
        if let Some(number) = number.ok().filter(|_| !asked.apart) {
            match sleepers(office, number)? {
                None => targets.errors.push(no_message(number)),
                Some(sleepers) if sleepers.is_empty() => targets.nobody.push(number),
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

/// Whom a message waits for; `None`: there is no such message.
fn sleepers(office: &Office, number: MessageNo) -> Result<Option<Vec<Name>>> {
    match views::sleepers(office.store(), number)? {
        Some(sleepers) => Ok(Some(sleepers.into_iter().map(|sleeper| sleeper.agent).collect())),
        // It may be archived, where nothing waits any more.
        None => Ok(views::track(office.store(), number, office.now()?)?.map(|_| Vec::new())),
    }
}
