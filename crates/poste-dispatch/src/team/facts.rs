//! The members of the team and the facts about each, from the log, the run folders and the processes of this machine.

use std::path::Path;
use std::time::UNIX_EPOCH;

use poste_config::{AgentConfig, Mode, Runners};
use poste_core::gates::Source;
use poste_core::log::{MessageNo, RunOutcome};
use poste_core::office::Office;
use poste_core::store::processes::Presence;
use poste_core::store::tables::Agent;
use poste_core::text::{Name, Session};
use poste_core::time::{rfc3339, rfc3339_option};
use poste_core::views::{self, RunView};
use poste_core::vocabulary::AgentKind;
use poste_core::{Error, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use super::state::{self, Facts, Failures, HoldFacts, LeaseFacts, RunFacts, SessionFacts, State};
use crate::run::{self, RunFolder};

/// Maximum number of past runs read per agent.
const RUNS_MAX: u32 = 100;
/// A teammate that works without output for this long is stuck.
pub const PATIENCE_MS: i64 = 15 * poste_core::limits::MINUTE_MS;

/// A member of the team.
#[derive(Debug, Clone)]
pub struct Member {
    pub name: Name,
    /// Listed as the lead of `[team]`.
    pub leads: bool,
    /// `[team]` lists it, or it was added on this machine.
    pub listed: bool,
    pub config: Option<AgentConfig>,
}

/// The lead, the members in their order, then all other agents with a runner.
pub fn members(runners: &Runners) -> Vec<Member> {
    let team = &runners.team;
    let mut names: Vec<&Name> = team.lead.iter().chain(&team.members).collect();
    names.extend(runners.agents.keys());
    let mut found: Vec<Member> = Vec::new();
    for name in names {
        if found.iter().any(|member| member.name == *name) {
            continue;
        }
        let config = runners.agents.get(name).cloned();
        let leads = team.lead.as_ref() == Some(name);
        let is_added = config.as_ref().is_some_and(|config| config.source == Source::Machine);
        found.push(Member {
            name: name.clone(),
            leads,
            listed: leads || team.members.contains(name) || is_added,
            config,
        });
    }
    found
}

/// How long a teammate may work without output before it is stuck.
pub fn patience_ms(runners: &Runners) -> i64 {
    runners.team.stuck_after_ms.unwrap_or(PATIENCE_MS)
}

/// A teammate and its state.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Teammate {
    pub agent: Name,
    pub role: Option<String>,
    /// The agent notified of its troubles.
    pub lead: Option<Name>,
    pub mode: Option<Mode>,
    pub state: State,
    #[serde(serialize_with = "rfc3339_option")]
    pub since: Option<Timestamp>,
    /// The reason for the state.
    pub why: Option<String>,
    /// Active runs.
    pub runs: Vec<TeammateRun>,
    /// Pending messages; counting stops at a thousand.
    pub queue: u64,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TeammateRun {
    pub run: Session,
    pub messages: Vec<MessageNo>,
    #[serde(serialize_with = "rfc3339")]
    pub started_at: Timestamp,
    pub supervisor: Presence,
    /// Milliseconds until the first of its leases ends.
    pub lease_left_ms: Option<i64>,
    /// Milliseconds since its last output.
    pub silent_ms: Option<i64>,
}

/// All members of the team, or these agents.
pub fn status(office: &Office, only: &[Name]) -> Result<Vec<Teammate>, Error> {
    let runners = poste_config::runners(office)?;
    let patience_ms = patience_ms(&runners);
    let mut team = members(&runners);
    team.retain(|member| only.is_empty() || only.contains(&member.name));
    // An agent that is only registered can be shown, too.
    for name in only.iter().filter(|name| !team.iter().any(|member| member.name == **name)).collect::<Vec<_>>() {
        team.push(Member { name: name.clone(), leads: false, listed: false, config: None });
    }
    team.iter().map(|member| teammate(office, member, patience_ms)).collect()
}

/// The reason for the state of an agent.
pub fn why(office: &Office, runners: &Runners, name: &Name) -> Result<Option<String>, Error> {
    let Some(member) = members(runners).into_iter().find(|member| member.name == *name) else { return Ok(None) };
    Ok(state::shown(&facts(office, &member)?, office.now()?, patience_ms(runners)).why)
}

fn teammate(office: &Office, member: &Member, patience_ms: i64) -> Result<Teammate, Error> {
    let now = office.now()?;
    let facts = facts(office, member)?;
    let shown = state::shown(&facts, now, patience_ms);
    let entry = views::agent(office.store(), &member.name)?;
    let known = entry.as_ref().map(|entry| &entry.agent);
    let runs = facts.runs.into_iter().map(|run| {
        let soonest = run.leases.iter().map(|lease| lease.until).min();
        TeammateRun {
            lease_left_ms: soonest.map(|until| until.since_ms(now)),
            silent_ms: run.last_output.map(|last| now.since_ms(last).max(0)),
            run: run.run,
            messages: run.messages,
            started_at: run.started_at,
            supervisor: run.supervisor,
        }
    });
    Ok(Teammate {
        agent: member.name.clone(),
        role: role(member, known),
        lead: known.and_then(|agent| agent.lead.clone()),
        mode: member.config.as_ref().map(|config| config.mode),
        state: shown.state,
        since: shown.since,
        why: shown.why,
        runs: runs.collect(),
        queue: entry.map_or(0, |entry| entry.pending),
    })
}

/// Its registered role, else the configured one.
pub(crate) fn role(member: &Member, known: Option<&Agent>) -> Option<String> {
    let registered = known.and_then(|agent| agent.role.as_ref()).map(ToString::to_string);
    registered.or_else(|| member.config.as_ref()?.role.as_ref().map(ToString::to_string))
}

/// The current facts about a member.
pub fn facts(office: &Office, member: &Member) -> Result<Facts, Error> {
    let (store, now) = (office.store(), office.now()?);
    let folder = office.path()?;
    let mut runs = Vec::new();
    for run in views::running(store, &member.name)? {
        runs.push(run_facts(office, folder, run)?);
    }
    let hold = views::holds(store, &member.name, now)?.into_iter().find(|hold| hold.message.is_none());
    let session = views::live_session(store, &member.name)?.map(|session| SessionFacts {
        started_at: session.started_at,
        process: session.process,
        holds: session.holds.len(),
        id: session.id,
    });
    let last = views::latest_runs(store, Some(&member.name), RUNS_MAX)?;
    Ok(Facts {
        mode: member.config.as_ref().map(|config| config.mode),
        person: office.agent(&member.name)?.is_some_and(|agent| agent.kind == AgentKind::Human),
        trusted: member.config.as_ref().is_none_or(|config| config.trusted),
        hold: hold.map(|hold| HoldFacts { why: hold.why, since: hold.since, position: hold.position }),
        restarts: runs.is_empty() && run::is_kept(folder, &member.name),
        runs,
        session,
        last_end: last.iter().filter_map(|run| run.ended_at).max(),
        failures: failures(&last),
    })
}

fn run_facts(office: &Office, folder: &Path, run: RunView) -> Result<RunFacts, Error> {
    let now = office.now()?;
    let files = RunFolder::of(folder, &run.run);
    let supervisor = match run.presence(office.store())? {
        // The lock is released when the supervisor dies, even where processes cannot be listed.
        Presence::Unknown if files.is_held() => Presence::Running,
        presence => presence,
    };
    let is_its_own = |message: &MessageNo| run.messages.contains(message);
    let leases = views::leases(office.store(), &run.agent, Some(&run.run))?.into_iter();
    // A claim without a session was made by hand, unless this run was started for the message.
    let held = views::held_in(office.store(), &run.agent, Some(&run.run))?;
    let in_session = |message: &MessageNo| {
        held.iter().any(|delivery| delivery.message == *message && delivery.session.as_ref() == Some(&run.run))
    };
    let leases = leases.filter(|lease| is_its_own(&lease.message) || in_session(&lease.message));
    Ok(RunFacts {
        leases: leases
            .map(|lease| LeaseFacts { message: lease.message, until: lease.until, length_ms: lease.length_ms })
            .collect(),
        supervisor,
        // A run on another machine has no folder here. Assume that its program was started.
        has_program: files.about().is_none_or(|about| about.program.is_some()),
        output_mark: files
            .last_output()
            .and_then(|last| last.duration_since(UNIX_EPOCH).ok())
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
        // The age by the machine's clock, which wrote the file. The time of the log may differ.
        last_output: files.last_output().map(|last| {
            let age = last.elapsed().unwrap_or_default();
            Timestamp::from_ms(now.ms().saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)))
        }),
        run: run.run,
        messages: run.messages,
        started_at: run.started_at,
    })
}

/// The last runs, if they failed, as far back as they failed in the same way.
fn failures(newest_first: &[RunView]) -> Option<Failures> {
    let over: Vec<&RunView> = newest_first.iter().filter(|run| run.how.is_some()).collect();
    let last = over.first()?;
    let (how, code) = (last.how?, last.code);
    let is_failure = match how {
        RunOutcome::Exited => code != Some(0),
        RunOutcome::Stopped => false,
        _ => true,
    };
    let times = over.iter().take_while(|run| run.how == Some(how) && run.code == code).count();
    (is_failure && times >= 1).then(|| Failures {
        how,
        code,
        times,
        first: (times < newest_first.len() || newest_first.len() < RUNS_MAX as usize)
            .then(|| over[times - 1].run.clone()),
        last: last.run.clone(),
        last_at: last.ended_at.unwrap_or(last.started_at),
    })
}
