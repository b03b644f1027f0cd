//! `poste.toml` and `.poste/local.toml`: their keys and defaults, what they demand of an office, and who trusts them.
//!
//! What decides in the fold becomes a [policy](sync_policy) record. Everything else is this machine's matter and in no
//! record: [rules] for proposals, [runners], [gates](gates()), [wake_config], [on_rules].
#![warn(clippy::disallowed_methods)]

mod agents;
#[allow(clippy::disallowed_methods, reason = "reads and replaces the files")]
mod disk;
pub mod doctor;
pub mod edit;
mod gates;
mod items;
mod keys;
#[allow(clippy::disallowed_methods, reason = "a mark of trust is a file")]
mod mark;
mod office;
mod on;
mod read;
mod rules;
mod settings;
mod trust;
mod view;
mod wake;

use std::collections::BTreeMap;
use std::path::Path;

pub use poste_core::store::discover::{CONFIG_FILE as FILE, LOCAL_CONFIG_FILE as LOCAL_FILE};

pub use agents::{
    AGENT, AgentConfig, AnswerBy, Budget, BudgetTime, Input, Mode, Preset, Quiet, RUN_TEMPLATES, Runners, TEAM,
    TeamConfig, micros, schedule,
};
pub use disk::read_config;
pub use edit::{Change, KeyPath, NewAgent};
pub use gates::GATE;
pub use keys::{KEYS, Key, MACHINE_SECTIONS, ON_END, SCHEMA, TYPES, Takes, Value, length_text};
pub use mark::TrustMark;
pub use office::{
    OnRules, config, config_path, gate_schema_problems, gates, local_config, on_rules, payload_schemas, runners,
    wake_config,
};
pub use on::{EmailConfig, HandlerConfig, Matches, ON, ON_TEMPLATES, OnRule, SecretPlace, Tls, text_pattern};
pub use read::{Given, LocalFile, Problem, check_local, read_local};
pub use rules::{propose, rules, submit};
pub use settings::{Standing, add_agent, change_config, standing, sync_policy};
pub use trust::{Trust, TrustView, is_trusted, revoke_trust, trust, trust_config};
pub use view::{PolicyView, Setting, Source, settings};
pub use wake::{WAKE, WAKE_TEMPLATES, WakeCommand, WakeConfig};

use poste_core::Digest;
use poste_core::Error;
use poste_core::gates::{Gate, Program};
use poste_core::log::{Policy, PolicyType, Settings};
use poste_core::payload::SchemaSource;
use poste_core::text::{Label, Name, TypeName};

/// What a `poste.toml` says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConfigFile {
    /// What decides in the fold.
    pub policy: FilePolicy,
    /// Payload schemas. They are checked before the append and are in no record.
    pub schemas: BTreeMap<TypeName, SchemaSource>,
    /// In no record either: they are run by whoever claims.
    pub gates: Vec<Gate>,
    /// In no record: it is run by whoever wakes somebody.
    pub wake: WakeConfig,
    /// In no record: they are run by whoever dispatches.
    pub agents: BTreeMap<Name, AgentConfig>,
    pub team: TeamConfig,
    /// In no record: they are seen to by whoever watches.
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
        let (file, problems) = read::read(text);
        match problems.first() {
            None => Ok(file),
            Some(problem) => Err(Error::Config { path: path.to_owned(), message: problem.to_string() }),
        }
    }

    /// What a key outside the policy says: in the file that is this machine's alone, else here, else what is built in.
    pub fn machine_value(&self, local: &LocalFile, section: &str, name: &str) -> Option<Value> {
        let key = format!("{section}.{name}");
        let given = local.given.get(&key).or_else(|| self.given.get(&key)).map(|given| given.value.clone());
        given.or_else(|| keys::find(section, name)?.built_in.clone())
    }

    /// As far as it can be read, with every problem, from top to bottom.
    pub fn check(text: &str) -> (Self, Vec<Problem>) {
        read::read(text)
    }
}

/// Something in a file that would run a command.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Command {
    /// The key that names it.
    pub key: String,
    pub line: usize,
    pub command: String,
}

/// Everything in a file that would run a command.
pub fn commands(file: &ConfigFile) -> Vec<Command> {
    // No key of a section runs one. A new kind of value must say so here.
    let runs = |given: &&Given| match given.value {
        Value::Count(_)
        | Value::Length(_)
        | Value::Priority(_)
        | Value::Urgency(_)
        | Value::Flag(_)
        | Value::Word(_)
        | Value::Schema(_) => false,
    };
    let found = file.given.iter().filter(|(_, given)| runs(given));
    let of_keys = found.map(|(key, given)| Command { key: key.clone(), line: given.line, command: given.value.text() });
    let of_wake = file.wake.command.iter().map(|command| Command {
        key: format!("{WAKE}.command"),
        line: command.line,
        command: Program::Words(command.words.clone()).text(),
    });
    let of_agents = file.agents.iter().map(|(name, agent)| Command {
        key: format!("{AGENT}.{name}"),
        line: agent.line,
        command: agent.shown(),
    });
    let of_rules = file.on.iter().filter_map(|rule| {
        let command = rule.handler.reaches_out()?;
        Some(Command { key: format!("{ON}.{}.handler", rule.name), line: rule.line, command })
    });
    let all = of_keys.chain(file.gates.iter().filter_map(of_gate)).chain(of_wake).chain(of_agents).chain(of_rules);
    let mut all: Vec<Command> = all.collect();
    all.sort_by_key(|command| command.line);
    all
}

fn of_gate(gate: &Gate) -> Option<Command> {
    let program = gate.program.as_ref()?;
    let key = format!("{GATE}.{}.{}", gate.name, program.key());
    Some(Command { key, line: gate.line, command: program.text() })
}

impl FilePolicy {
    /// Equal for equal rules, whoever proposes them.
    pub fn digest(&self) -> Digest {
        Policy::digest_of(&self.settings, &self.types)
    }

    /// Complete with the machine it comes from and the policy it replaces.
    pub fn into_policy(self, machine: Label, host: String, replaces: u64) -> Policy {
        Policy { replaces, machine, host, settings: self.settings, types: self.types }
    }

    /// To be checked, not to be proposed.
    fn unplaced(self) -> Policy {
        self.into_policy("unplaced".parse().expect("a label"), String::new(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poste_core::fold;
    use poste_core::vocabulary::{Priority, Urgency};

    fn parse(text: &str) -> Result<FilePolicy, String> {
        let file = ConfigFile::parse(text, Path::new("poste.toml")).map_err(|error| error.to_string())?;
        Ok(file.policy)
    }

    #[test]
    fn an_empty_file_is_the_built_in_policy() {
        assert_eq!(parse("").unwrap(), FilePolicy::default());
    }

    #[test]
    fn settings_and_types_are_read() {
        let policy = parse(
            "[delivery]\nmax_attempts = 3\nretry_delay = '1s'\nlease = '5m'\n[retention]\nfinished = '72h'\n\
             [limits]\nmessage_bytes = 1000\nfan_out = 50\n\
             [types.deploy_request]\npriority = 'high'\nwork = true\n[types.alert]\nurgency = 'turn'\n",
        )
        .unwrap();
        assert_eq!(policy.settings.max_attempts, Some(3));
        assert_eq!(policy.settings.lease_ms, Some(300_000));
        assert_eq!(policy.types.len(), 2);
        let alert = &policy.types[0];
        assert_eq!((alert.priority, alert.urgency), (Priority::Urgent, Urgency::Turn));
        assert!(policy.types[1].work);
    }

    #[test]
    fn a_typo_is_an_error_that_names_the_nearest_key() {
        assert!(parse("[delivry]\n").unwrap_err().contains("did you mean delivery?"));
        assert!(parse("[delivery]\nmax_attemps = 3\n").unwrap_err().contains("did you mean max_attempts?"));
        assert!(parse("[types.deploy]\nprioritty = 'low'\n").unwrap_err().contains("did you mean priority?"));
        assert!(parse("[types.deploy]\npriority = 'lowest'\n").is_err());
        assert!(parse("delivery = 3\n").unwrap_err().contains("write [delivery]"));
        assert!(parse("[types.Deploy]\n").is_err());
        assert!(parse("not toml").is_err());
    }

    #[test]
    fn values_out_of_range_are_named() {
        assert!(parse("[delivery]\nmax_attempts = 0\n").unwrap_err().contains("max_attempts"));
        assert!(parse("[delivery]\nlease = '10d'\n").unwrap_err().contains("lease"));
        assert!(parse("[delivery]\nretry_delay = 'soon'\n").unwrap_err().contains("retry_delay"));
    }

    #[test]
    fn a_type_that_wants_a_response_asks_for_work() {
        let policy = parse("[types.sign_off]\nresponse = true\n").unwrap();
        assert!(policy.types[0].work);
    }

    #[test]
    fn every_problem_is_named_with_its_line() {
        let text = "[delivery]\nmax_attemps = 3\nlease = \"2d\"\nretry_delay = 5\n\n[types.Deploy]\n[types.deploy]\n\
                    priority = \"top\"\nwork = \"yes\"\n[limts]\n";
        let (_, problems) = ConfigFile::check(text);
        let lines: Vec<usize> = problems.iter().filter_map(|problem| problem.line).collect();
        assert_eq!(lines, [2, 3, 4, 6, 8, 9, 10], "{problems:#?}");
        assert_eq!(problems[1].column, Some(9));
        assert_eq!(problems[1].message, "delivery.lease: it is a length of time from \"1s\" to \"24h\"");
    }

    #[test]
    fn what_the_parser_cannot_read_does_not_hide_the_rest() {
        let (file, problems) = ConfigFile::check("[delivery]\nmax_attempts 3\nlease = \"5m\"\n[limits]\nfan_aut = 2\n");
        let lines: Vec<usize> = problems.iter().filter_map(|problem| problem.line).collect();
        assert_eq!(lines, [2, 5], "{problems:#?}");
        assert_eq!(file.policy.settings.lease_ms, Some(300_000));
        for broken in ["[delivery", "= 3", "a = ", "\"", "[delivery]\nlease = '1m'\nlease = '2m'\n", "x = [1,", "\u{0}"]
        {
            let (_, problems) = ConfigFile::check(broken);
            assert!(!problems.is_empty(), "{broken:?}");
        }
    }

    #[test]
    fn a_schema_is_no_policy() {
        let with = ConfigFile::parse("[types.alert]\nschema = \"a.json\"\n", Path::new(FILE)).unwrap();
        assert_eq!(with.policy, FilePolicy::default());
        assert_eq!(with.schemas.len(), 1);
        let own = ConfigFile::parse("[types.deploy.schema]\ntype = \"object\"\nminProperties = 1\n", Path::new(FILE));
        let own = own.unwrap();
        assert_eq!(own.policy, parse("[types.deploy]\n").unwrap());
        let inline = SchemaSource::Inline(serde_json::json!({ "type": "object", "minProperties": 1 }));
        assert_eq!(own.schemas.values().collect::<Vec<_>>(), [&inline]);
        assert!(parse("[types.deploy]\nschema = 3\n").unwrap_err().contains("JSON Schema"));
        assert!(parse("[types.deploy.schema]\nmaximum = inf\n").unwrap_err().contains("inf"));
    }

    /// The ranges a file is held to with a line number are those the fold holds every policy to.
    #[test]
    fn the_ranges_of_the_file_are_those_of_the_fold() {
        for key in KEYS.iter().filter(|key| !MACHINE_SECTIONS.contains(&key.section)) {
            let (low, high, below, above) = match key.takes {
                Takes::Count { min, max } => (min.to_string(), max.to_string(), min.wrapping_sub(1), max + 1),
                Takes::Length { min, max } => {
                    (quote(min), quote(max), (min - 1).cast_unsigned(), (max + 1).cast_unsigned())
                }
                _ => continue,
            };
            let section = if key.section == TYPES { "types.deploy" } else { key.section };
            for value in [low, high] {
                parse(&format!("[{section}]\n{} = {value}\n", key.name)).expect("the ends of a range are in it");
            }
            for outside in [below, above] {
                let policy = policy_with(key, outside);
                assert!(fold::check_policy(&policy).is_err(), "{}.{} = {outside}", key.section, key.name);
            }
        }
    }

    fn quote(ms: i64) -> String {
        format!("\"{}\"", length_text(ms))
    }

    fn policy_with(key: &Key, value: u64) -> Policy {
        let mut file = parse("[types.deploy]\n").unwrap();
        let (small, length) = (u32::try_from(value).unwrap_or(u32::MAX), Some(value.cast_signed()));
        match (key.section, key.name) {
            ("delivery", "max_attempts") => file.settings.max_attempts = Some(small),
            ("delivery", "retry_delay") => file.settings.retry_delay_ms = length,
            ("delivery", "lease") => file.settings.lease_ms = length,
            ("retention", "finished") => file.settings.retention_ms = length,
            ("limits", "message_bytes") => file.settings.content_bytes_max = Some(value),
            ("limits", "fan_out") => file.settings.fan_out_max = Some(small),
            (TYPES, "max_attempts") => file.types[0].max_attempts = Some(small),
            (TYPES, "retry_delay") => file.types[0].retry_delay_ms = length,
            (TYPES, "patience") => file.types[0].patience_ms = length,
            other => panic!("a key with a range the test does not know: {other:?}"),
        }
        file.unplaced()
    }
}
