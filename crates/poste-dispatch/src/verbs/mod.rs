//! Verbs about runs and teams: like those of `poste-verbs`, one file each.

pub mod dry_run;
pub mod logs;
pub mod resume;
pub mod runs;
pub mod status;
pub mod stop;
pub mod team_add;
pub mod team_list;
pub mod team_logs;
pub mod team_status;
pub mod team_stop;
pub mod team_up;

use poste_config::Runners;
use poste_core::log::{MessageNo, Via};
use poste_core::office::Office;
use poste_core::text::{Name, Session, nearest};
use poste_core::views::{self, RunView};
use poste_verbs::{Error, Note, Result, Spec, note, register};

/// Every verb of this crate, by name.
pub static VERBS: &[Spec] = &[
    Spec::of::<dry_run::Input>(),
    Spec::of::<logs::Input>(),
    Spec::of::<resume::Input>(),
    Spec::of::<runs::Input>(),
    Spec::of::<status::Input>(),
    Spec::of::<stop::Input>(),
    Spec::of::<team_add::Input>(),
    Spec::of::<team_list::Input>(),
    Spec::of::<team_logs::Input>(),
    Spec::of::<team_status::Input>(),
    Spec::of::<team_stop::Input>(),
    Spec::of::<team_up::Input>(),
    Spec::of::<crate::wake::Input>(),
];

/// The runners of this machine. Fails if there is none, or none for one of these agents.
pub fn configured(office: &Office, only: &[Name]) -> Result<Runners> {
    let runners = poste_config::runners(office)?;
    if let Some(name) = only.iter().find(|name| !runners.agents.contains_key(*name)) {
        if runners.agents.is_empty() {
            return Err(nothing_configured());
        }
        let error = Error::not_found(format!("no runner for {name}"))
            .hint(format!("add [agent.{name}] to poste.toml; see docs/dispatch.md"));
        return Err(match nearest(name.as_str(), runners.agents.keys().map(Name::as_str)).first() {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error,
        });
    }
    let has_other_work = || -> Result<bool> {
        Ok(!poste_config::on_rules(office)?.rules.is_empty()
            || !views::open_workflows(office.store(), None)?.is_empty())
    };
    if runners.agents.is_empty() && !has_other_work()? {
        return Err(nothing_configured());
    }
    Ok(runners)
}

fn nothing_configured() -> Error {
    Error::not_found("no agent of this office has a runner").code("nothing_to_run").hint(
        "add a section [agent.NAME] with run = [\"claude\", \"-p\"] or a preset to poste.toml; see docs/dispatch.md",
    )
}

/// A note about agents that are not run because their file is not trusted.
pub fn untrusted(runners: &Runners) -> Option<Note> {
    let names = runners.agents.iter().filter(|(_, agent)| !agent.trusted).map(|(name, _)| name.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    (!names.is_empty())
        .then(|| note!("what runs these agents is not trusted on this machine: {names}; review it: "[trust]))
}

/// What is run for an agent on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    Nothing,
    /// Nothing until its file is trusted.
    Untrusted,
    Program,
}

/// Prepares an office for a request to an agent: registers it if it is only configured.
pub fn prepare_request(office: &mut Office, agent: &Name, waits: bool, via: Via) -> Result<Runs> {
    let runners = poste_config::runners(office)?;
    match runners.agents.get(agent) {
        None => Ok(Runs::Nothing),
        Some(config) if config.trusted => {
            register::configured(office, &runners, agent, via)?;
            Ok(Runs::Program)
        }
        // The agent would not be started, so waiting is pointless; and one that is not registered cannot receive mail.
        Some(_) if waits || office.agent(agent)?.is_none() => {
            Err(poste_verbs::trust::untrusted(office, &format!("what runs {agent} is not trusted here"))
                .hint(note!("to send without starting the agent: " [send, to = agent, subject = "SUBJECT"])))
        }
        Some(_) => Ok(Runs::Untrusted),
    }
}

/// A run by its id, or the last one for a message.
fn find_run(office: &Office, text: &str) -> Result<RunView> {
    let missing = |what: String| Error::not_found(what).hint(note!("list runs: " [dispatch runs]));
    if let Ok(number) = text.strip_prefix('#').unwrap_or(text).parse().map(MessageNo) {
        let found = views::runs_of(office.store(), number)?.pop();
        return found.ok_or_else(|| missing(format!("no run for message {number}")));
    }
    let run: Session = text.parse()?;
    views::run(office.store(), &run)?.ok_or_else(|| missing(format!("no run {run}")))
}

/// What to do about a resident that keeps ending.
fn does_not_stay(agent: &Name) -> Note {
    note!("{agent} keeps restarting; see why: " [team logs, name = agent] "; stop it: " [team stop, names = agent])
}

fn nobody_on_team() -> Note {
    note!("the team has no members; add one: " [team add, name = "NAME", preset = "claude-code"])
}

fn not_on_team(name: &Name) -> Error {
    Error::not_found(format!("{name} is not on the team")).hint(note!("list the team: "[team list]))
}
