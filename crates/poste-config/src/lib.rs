//! `poste.toml` and `.poste/local.toml`: their keys and defaults, their rules for an office, and trust in them.
//!
//! What the fold decides by becomes a [policy](sync_policy) record. Everything else concerns only this machine and is
//! not recorded: [rules] for proposals, [runners], [gates](gates()), [wake_config], [on_rules].
#![warn(clippy::disallowed_methods)]

#[allow(clippy::disallowed_methods, reason = "looks at the folders of offices")]
pub mod adopt;
mod agents;
#[allow(clippy::disallowed_methods, reason = "reads and replaces the files")]
mod disk;
pub mod doctor;
pub mod edit;
mod gates;
mod items;
mod keys;
mod office;
mod on;
mod read;
mod rules;
mod settings;
#[allow(clippy::disallowed_methods, reason = "the user's store is files")]
mod store;
#[allow(clippy::disallowed_methods, reason = "tokens are files in the state folder")]
pub mod token;
pub mod trust;
mod view;
mod wake;

use std::collections::BTreeMap;
use std::path::Path;

pub use poste_core::store::discover::{CONFIG_FILE as FILE, LOCAL_CONFIG_FILE as LOCAL_FILE};

pub use adopt::{look, open};
pub use agents::{
    AGENT, AgentConfig, AnswerBy, Budget, BudgetTime, Input, Mode, Preset, Quiet, RUN_TEMPLATES, Runners, TEAM,
    TeamConfig, micros, schedule,
};
pub use disk::read_config;
pub use edit::{Change, KeyPath, NewAgent};
pub use gates::GATE;
pub use keys::{KEYS, Key, MACHINE_SECTIONS, ON_END, SCHEMA, TYPES, Value, ValueKind, length_text};
pub use office::{
    OnRules, config, config_path, gate_schema_problems, gates, local_config, on_rules, payload_schemas, runners,
    wake_config,
};
pub use on::{EmailConfig, HandlerConfig, Matches, ON, ON_TEMPLATES, OnRule, SecretPlace, Tls, text_pattern};
pub use read::{Given, Problem, check_local, read_local};
pub use rules::{propose, rules, submit};
pub use settings::{Standing, Written, add_agent, change_config, standing, sync_policy};
pub use trust::{Candidate, Refusal, Reviewed, Trust};
pub use view::{PolicyView, Setting, Source, settings};
pub use wake::{WAKE, WAKE_TEMPLATES, WakeCommand, WakeConfig};

use poste_core::Digest;
use poste_core::Error;
use poste_core::gates::{Gate, Program};
use poste_core::limits;
use poste_core::log::{Policy, PolicyType, Settings};
use poste_core::payload::SchemaSource;
use poste_core::text::{Label, Name, TypeName};

/// What `.poste/local.toml` says. It concerns only this machine, so it has no policy, schemas or team.
pub type LocalFile = ConfigFile;

/// What a `poste.toml` says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConfigFile {
    /// What the fold decides by.
    pub policy: FilePolicy,
    /// Payload schemas. They are checked before the append and are in no record.
    pub schemas: BTreeMap<TypeName, SchemaSource>,
    /// Not recorded either: the process that claims runs them.
    pub gates: Vec<Gate>,
    /// Not recorded: the process that wakes an agent runs it.
    pub wake: WakeConfig,
    /// Not recorded: supervisors run them.
    pub agents: BTreeMap<Name, AgentConfig>,
    pub team: TeamConfig,
    /// Not recorded: watchers handle them.
    pub on: Vec<OnRule>,
    /// Every key it sets, by its full name.
    pub given: BTreeMap<String, Given>,
}

/// What the file says, as policy. The machine and the version it replaces are added by the office.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilePolicy {
    pub settings: Settings,
    pub types: Vec<PolicyType>,
}

impl ConfigFile {
    /// Reads the text of a `poste.toml`; `path` is for the error text, which names the first problem.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let (file, problems) = Self::check(text);
        match problems.first() {
            None => Ok(file),
            Some(problem) => Err(Error::Config { path: path.to_owned(), message: problem.to_string() }),
        }
    }

    /// The value of a key outside the policy: from this machine's own file, else from this one, else the built-in one.
    pub fn machine_value(&self, local: &LocalFile, section: &str, name: &str) -> Option<Value> {
        let key = format!("{section}.{name}");
        let given = local.given.get(&key).or_else(|| self.given.get(&key)).map(|given| given.value.clone());
        given.or_else(|| keys::find(section, name)?.built_in.clone())
    }

    /// Reads as much of the text as it can. Returns every problem too, from top to bottom.
    pub fn check(text: &str) -> (Self, Vec<Problem>) {
        read::read(text, poste_core::gates::Source::Office)
    }
}

/// An entry of a configuration file that would run a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Command {
    /// Key that sets the command.
    pub key: String,
    pub line: usize,
    pub command: String,
    /// Variables that are passed to it besides the usual ones.
    pub environment: Vec<String>,
    /// The folder it runs in, if the entry names one.
    pub folder: Option<String>,
    /// Text that precedes the first message of an agent.
    pub prompt: Option<String>,
    /// Its first word, if that is started directly.
    #[serde(skip)]
    pub program: Option<String>,
    /// BLAKE3 of that program, if it lies in the project. A copy of it is trusted and runs.
    pub digest: Option<Digest>,
    /// Why it cannot be trusted.
    pub problem: Option<String>,
}

/// Every entry of a file that would run a command, or decide something without a person.
pub fn commands(file: &ConfigFile) -> Vec<Command> {
    let of_wake = file.wake.command.iter().map(|command| Command {
        key: format!("{WAKE}.command"),
        line: command.line,
        command: Program::Words(command.words.clone()).text(),
        program: command.words.first().cloned(),
        ..Command::default()
    });
    let of_hosts = (!file.wake.hosts.is_empty()).then(|| Command {
        key: format!("{WAKE}.hosts"),
        command: format!("requests to {}", file.wake.hosts.join(", ")),
        ..Command::default()
    });
    let over = file.wake.per_minute.filter(|count| *count > limits::WAKES_PER_MINUTE_DEFAULT);
    let of_pace = over.map(|count| Command {
        key: format!("{WAKE}.per_minute"),
        command: format!("{count} wakes per minute of each agent"),
        ..Command::default()
    });
    let of_types = file.policy.types.iter().filter(|kind| kind.default_approve).map(|kind| {
        let key = format!("{TYPES}.{}.default_approve", kind.name);
        let line = file.given.get(&key).map_or(0, |given| given.line);
        Command { key, line, command: "an approval when no one answers in time".to_owned(), ..Command::default() }
    });
    let of_agents = file.agents.iter().map(|(name, agent)| Command {
        key: format!("{AGENT}.{name}"),
        line: agent.line,
        command: agent.shown(),
        environment: agent.passed(),
        folder: agent.folder.clone(),
        prompt: agent.prompt.clone(),
        program: agent.program().map(str::to_owned),
        ..Command::default()
    });
    let of_rules = file.on.iter().filter_map(|rule| {
        let command = rule.handler.trusted_action()?;
        let program = match &rule.handler {
            HandlerConfig::Exec { words } => words.first().cloned(),
            _ => None,
        };
        let key = format!("{ON}.{}.handler", rule.name);
        Some(Command { key, line: rule.line, command, program, ..Command::default() })
    });
    let of_gates = file.gates.iter().filter_map(|gate| {
        let program = gate.program.as_ref()?;
        let key = format!("{GATE}.{}.{}", gate.name, program.key());
        let first = match program {
            Program::Words(words) => words.first().cloned(),
            Program::Shell(_) => None,
        };
        Some(Command { key, line: gate.line, command: program.text(), program: first, ..Command::default() })
    });
    let mut all: Vec<Command> = of_gates
        .chain(of_wake)
        .chain(of_hosts)
        .chain(of_pace)
        .chain(of_agents)
        .chain(of_rules)
        .chain(of_types)
        .collect();
    all.sort_by_key(|command| command.line);
    all
}

impl FilePolicy {
    /// Equal for equal rules, whichever machine proposes them.
    pub fn digest(&self) -> Digest {
        Policy::digest_of(&self.settings, &self.types)
    }

    /// Complete with the machine it comes from and the policy it replaces.
    pub fn into_policy(self, machine: Label, host: String, replaces: u64) -> Policy {
        Policy { replaces, machine, host, settings: self.settings, types: self.types }
    }

    /// For checks only, never proposed.
    fn unplaced(self) -> Policy {
        self.into_policy("unplaced".parse().expect("a label"), String::new(), 0)
    }
}
