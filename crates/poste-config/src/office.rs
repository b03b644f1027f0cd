//! What the current files of this machine say for an office. A file that cannot be read is an error: nothing in it may
//! be left out.

use std::path::{Path, PathBuf};

use poste_core::gates::{Gate, Gates, Program, Source};
use poste_core::payload::PayloadSchemas;
use poste_core::text::TypeName;
use poste_core::vocabulary::{AgentKind, built_in};
use poste_core::{Error, Office, limits, views};

use crate::read::{Problem, read_local, unknown_type};
use crate::trust::{Candidate, Kind, Reviews, Trust, file_name};
use crate::{
    ConfigFile, FILE, HandlerConfig, LOCAL_FILE, LocalFile, OnRule, Runners, WakeConfig, commands, read_config,
};

/// Every rule of an office, from one reading of its files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OnRules {
    pub rules: Vec<OnRule>,
    /// The files of which a person here trusts the exact text that the rules were read from.
    pub trusted: Vec<Source>,
}

impl OnRules {
    /// Whether the rule needs no trust or comes from a trusted file.
    pub fn may_run(&self, rule: &OnRule) -> bool {
        rule.handler.trusted_action().is_none() || self.trusted.contains(&rule.source)
    }
}

/// Where an office's `poste.toml` is, or would be.
pub fn config_path(office: &Office) -> Result<PathBuf, Error> {
    Ok(office.path()?.with_file_name(FILE))
}

/// The `poste.toml` of an office, if there is one.
pub fn config(office: &Office) -> Result<Option<ConfigFile>, Error> {
    Ok(shared_file(office.store().path())?.map(|(_, file)| file))
}

/// Like [`config`], with the text it was read from.
pub(crate) fn shared_file(folder: Option<&Path>) -> Result<Option<(String, ConfigFile)>, Error> {
    let Some(path) = folder.map(|folder| folder.with_file_name(FILE)) else { return Ok(None) };
    let Some(text) = read_config(&path)? else { return Ok(None) };
    let file = ConfigFile::parse(&text, &path)?;
    Ok(Some((text, file)))
}

/// This machine's own file.
pub fn local_config(office: &Office) -> Result<LocalFile, Error> {
    Ok(local_file(office.store().path())?.map(|(_, file)| file).unwrap_or_default())
}

/// The contents of this machine's own file; an error if it cannot be used.
pub(crate) fn local_file(folder: Option<&Path>) -> Result<Option<(String, LocalFile)>, Error> {
    let Some(path) = folder.map(|folder| folder.join(LOCAL_FILE)) else { return Ok(None) };
    let Some(text) = read_config(&path)? else { return Ok(None) };
    let (file, problems) = read_local(&text);
    match problems.first() {
        Some(problem) => Err(Error::Config { path, message: problem.to_string() }),
        None => Ok(Some((text, file))),
    }
}

/// A configuration file, and whether its commands may run.
#[derive(Debug, Default)]
struct Ready {
    file: ConfigFile,
    trusted: bool,
}

/// Reads a configuration file. Trust is checked for the very text that was read, as the file may have changed since. A
/// program in the project is replaced by the copy of it that was reviewed.
fn ready(office: &Office, source: Source) -> Result<Ready, Error> {
    let found = match source {
        Source::Office => shared_file(office.store().path())?,
        Source::Machine => local_file(office.store().path())?,
    };
    let Some((text, mut file)) = found else { return Ok(Ready::default()) };
    let commands = commands(&file);
    if commands.is_empty() {
        return Ok(Ready { file, trusted: false });
    }
    let reviews = Reviews::of(office)?;
    let candidate = Candidate { kind: Kind::Configuration, file: file_name(source), text, commands };
    let Trust::Trusted(reviewed) = reviews.trust(&candidate)? else {
        return Ok(Ready { file, trusted: false });
    };
    for agent in file.agents.values_mut() {
        agent.copy = agent.program().and_then(|program| reviews.copy_of(&reviewed, program));
        agent.trusted = true;
    }
    each_command(&mut file, |words| reviews.pin(&reviewed, words));
    Ok(Ready { file, trusted: true })
}

/// The words of each command that starts a program directly, other than those of agents.
fn each_command(file: &mut ConfigFile, mut visit: impl FnMut(&mut [String])) {
    if let Some(command) = &mut file.wake.command {
        visit(&mut command.words);
    }
    for gate in &mut file.gates {
        if let Some(Program::Words(words)) = &mut gate.program {
            visit(words);
        }
    }
    for rule in &mut file.on {
        if let HandlerConfig::Exec { words } = &mut rule.handler {
            visit(words);
        }
    }
}

fn wrong_in_local_file<T>(office: &Office, line: usize, why: impl std::fmt::Display) -> Result<T, Error> {
    Err(Error::Config { path: office.path()?.join(LOCAL_FILE), message: format!("line {line}: {why}") })
}

/// The payload schemas of `poste.toml`.
pub fn payload_schemas(office: &Office) -> Result<PayloadSchemas, Error> {
    schemas_of(office, config(office)?)
}

pub(crate) fn schemas_of(office: &Office, file: Option<ConfigFile>) -> Result<PayloadSchemas, Error> {
    file.map_or_else(
        || Ok(PayloadSchemas::default()),
        |file| Ok(PayloadSchemas::new(&config_path(office)?, file.schemas)),
    )
}

/// Every gate of `poste.toml` and `.poste/local.toml`.
pub fn gates(office: &Office) -> Result<Gates, Error> {
    let shared = ready(office, Source::Office)?;
    let own = ready(office, Source::Machine)?;
    let mut found = Gates { gates: shared.file.gates, trusted: trusted([shared.trusted, own.trusted]) };
    for gate in own.file.gates {
        let is_taken = found.gates.iter().any(|other| other.name == gate.name);
        check_own(office, &format!("gate {}", gate.name), gate.line, gate.kind.as_slice(), is_taken)?;
        // The results of all gates go into one record, whose list is bounded.
        if found.gates.len() >= limits::GATES_MAX {
            let why = format!("together with {FILE} there are more than {} gates", limits::GATES_MAX);
            return wrong_in_local_file(office, gate.line, why);
        }
        found.gates.push(gate);
    }
    Ok(found)
}

/// The files that are trusted, of the shared one and this machine's own.
fn trusted(are_trusted: [bool; 2]) -> Vec<Source> {
    let both = [Source::Office, Source::Machine].into_iter().zip(are_trusted);
    both.filter_map(|(source, is_trusted)| is_trusted.then_some(source)).collect()
}

/// Checks an entry that this machine's own file adds to `poste.toml`: its name must be unique and its types must exist.
fn check_own(office: &Office, what: &str, line: usize, kinds: &[TypeName], is_taken: bool) -> Result<(), Error> {
    let is_built_in = |kind: &TypeName| built_in(kind.as_str()).is_some();
    let own = if kinds.iter().all(is_built_in) { Vec::new() } else { views::own_types(office.store())? };
    match unknown_type(kinds, |kind| own.iter().any(|own| own.name == *kind)) {
        Some(why) => wrong_in_local_file(office, line, format!("{what}: {why}")),
        None if is_taken => wrong_in_local_file(office, line, format!("{what}: the name is taken in {FILE}")),
        None => Ok(()),
    }
}

/// The problems of the schemas of gates, each with the line of the gate.
pub fn gate_schema_problems(config: &Path, gates: &[Gate]) -> Vec<Problem> {
    let problems = gates.iter().flat_map(|gate| {
        let found = poste_core::gates::schema_problems(config, gate).into_iter();
        found.map(|message| Problem { line: Some(gate.line), column: Some(1), message })
    });
    problems.collect()
}

/// The `[[on]]` rules of `poste.toml` and `.poste/local.toml`: which mail sends a notification.
pub fn on_rules(office: &Office) -> Result<OnRules, Error> {
    let shared = ready(office, Source::Office)?;
    let own = ready(office, Source::Machine)?;
    let mut found = OnRules { rules: shared.file.on, trusted: trusted([shared.trusted, own.trusted]) };
    for rule in own.file.on {
        let is_taken = found.rules.iter().any(|other| other.name == rule.name);
        check_own(office, &format!("on {}", rule.name), rule.line, &rule.matches.types, is_taken)?;
        found.rules.push(rule);
    }
    Ok(found)
}

/// How agents are woken: by this machine's own command, else by that of `poste.toml`, if a person trusts it. A file that
/// nobody trusts can only make them be woken less often.
pub fn wake_config(office: &Office) -> Result<WakeConfig, Error> {
    let own = ready(office, Source::Machine)?;
    let shared = match own.file.wake.command.is_some() && own.file.wake.per_minute.is_some() {
        true => Ready::default(),
        false => ready(office, Source::Office)?,
    };
    let per_minute = [&own, &shared].into_iter().find_map(Ready::wakes_per_minute);
    let hosts = if own.trusted { own.file.wake.hosts } else { Vec::new() };
    let (command, is_trusted) = match own.file.wake.command {
        Some(command) => (Some(command), own.trusted),
        None => (shared.file.wake.command, shared.trusted),
    };
    let untrusted = command.is_some() && !is_trusted;
    Ok(WakeConfig { command: command.filter(|_| is_trusted), hosts, per_minute, untrusted })
}

impl Ready {
    fn wakes_per_minute(&self) -> Option<u32> {
        let most = if self.trusted { u32::MAX } else { limits::WAKES_PER_MINUTE_DEFAULT };
        self.file.wake.per_minute.map(|count| count.min(most))
    }
}

/// How agents are run: from this machine's own file, else from `poste.toml`, whether or not a person trusts that.
pub fn runners(office: &Office) -> Result<Runners, Error> {
    let Ready { file: local, .. } = ready(office, Source::Machine)?;
    let Ready { file, .. } = ready(office, Source::Office)?;
    let concurrency = file.machine_value(&local, "dispatch", "concurrency").and_then(|value| value.count());
    let concurrency = concurrency.map_or(1, |count| u32::try_from(count).unwrap_or(u32::MAX));
    let mut agents = file.agents;
    agents.extend(local.agents);
    for (name, agent) in &agents {
        // The answers of the program would count as the person's own, who may decide what agents may not.
        if let Some(kind @ (AgentKind::Human | AgentKind::Outside)) = office.agent(name)?.map(|known| known.kind) {
            let message = format!(
                "[agent.{name}]: {name} is registered as {kind}, which no program may act as; use another name"
            );
            let path = match agent.source {
                Source::Machine => office.path()?.join(LOCAL_FILE),
                Source::Office => config_path(office)?,
            };
            return Err(Error::Config { path, message });
        }
    }
    Ok(Runners { agents, team: file.team, concurrency })
}
