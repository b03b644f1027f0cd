//! `poste.toml`: the office's own words and limits. What decides in the fold becomes a policy record.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::digest::Digest;
use crate::error::Error;
use crate::fold;
use crate::log::{Policy, PolicyType, Settings};
use crate::text::{Label, TypeName, nearest};
use crate::time::parse_duration_ms;
use crate::vocabulary::{Priority, Urgency, built_in};

/// The file's name, beside `.poste/`.
pub const FILE: &str = "poste.toml";

/// Every key there is, by section.
const SECTIONS: &[(&str, &[&str])] = &[
    ("delivery", &["max_attempts", "retry_delay", "lease"]),
    ("retention", &["finished"]),
    ("limits", &["message_bytes", "fan_out"]),
    ("types", &["priority", "urgency", "work", "response", "max_attempts", "retry_delay"]),
];

/// What the file says, as policy. The machine and the version it replaces are added by the office.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilePolicy {
    pub settings: Settings,
    pub types: Vec<PolicyType>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawFile {
    delivery: RawDelivery,
    retention: RawRetention,
    limits: RawLimits,
    types: BTreeMap<String, RawType>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawDelivery {
    max_attempts: Option<u32>,
    retry_delay: Option<String>,
    lease: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawRetention {
    finished: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawLimits {
    message_bytes: Option<u64>,
    fan_out: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawType {
    priority: Option<Priority>,
    urgency: Option<Urgency>,
    work: Option<bool>,
    response: Option<bool>,
    max_attempts: Option<u32>,
    retry_delay: Option<String>,
}

impl FilePolicy {
    /// Reads the text of a `poste.toml`; `path` is for the error texts.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let wrong = |message: String| Error::Config { path: path.to_owned(), message };
        let table: toml::Table = toml::from_str(text).map_err(|error| wrong(told(text, &error)))?;
        check_keys(&table).map_err(wrong)?;
        let raw: RawFile = toml::from_str(text).map_err(|error| wrong(told(text, &error)))?;
        raw.into_policy().map_err(wrong)
    }

    /// Equal for equal rules, whoever proposes them.
    pub fn digest(&self) -> Digest {
        let rules = serde_json::to_vec(&(&self.settings, &self.types)).expect("a policy is plain data");
        Digest::of(&rules)
    }

    /// Complete with the machine it comes from and the policy it replaces.
    pub fn into_policy(self, machine: Label, host: String, replaces: u64) -> Policy {
        Policy { replaces, machine, host, settings: self.settings, types: self.types }
    }
}

impl Policy {
    pub fn digest(&self) -> Digest {
        FilePolicy { settings: self.settings.clone(), types: self.types.clone() }.digest()
    }
}

/// The parser's own words, which show the line; without it when it is too long to look at.
fn told(text: &str, error: &toml::de::Error) -> String {
    const LINE_BYTES_MAX: usize = 200;
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let number = before.matches('\n').count();
    if text.lines().nth(number).unwrap_or_default().len() > LINE_BYTES_MAX {
        return format!("line {}: {}", number + 1, error.message());
    }
    error.to_string().trim_end().to_owned()
}

impl RawFile {
    fn into_policy(self) -> Result<FilePolicy, String> {
        let settings = Settings {
            max_attempts: self.delivery.max_attempts,
            retry_delay_ms: duration("delivery.retry_delay", self.delivery.retry_delay)?,
            lease_ms: duration("delivery.lease", self.delivery.lease)?,
            retention_ms: duration("retention.finished", self.retention.finished)?,
            content_bytes_max: self.limits.message_bytes,
            fan_out_max: self.limits.fan_out,
        };
        let types =
            self.types.into_iter().map(|(name, raw)| raw.into_policy(&name)).collect::<Result<Vec<_>, String>>()?;
        let policy = FilePolicy { settings, types };
        let unplaced = policy.clone().into_policy("unplaced".parse().expect("a label"), String::new(), 0);
        fold::check_policy(&unplaced)?;
        Ok(policy)
    }
}

impl RawType {
    /// What the file leaves out comes from the built-in type of that name, else from `message`.
    fn into_policy(self, name: &str) -> Result<PolicyType, String> {
        let name: TypeName = name.parse().map_err(|error| format!("types: {error}"))?;
        let base = built_in(name.as_str()).or_else(|| built_in("message")).expect("message is built in");
        let response = self.response.unwrap_or(base.response);
        Ok(PolicyType {
            priority: self.priority.unwrap_or(base.priority),
            urgency: self.urgency.unwrap_or(base.urgency),
            // Whoever wants a response asks for work, or an ack would end it unanswered.
            work: self.work.unwrap_or(base.work || response),
            response,
            max_attempts: self.max_attempts,
            retry_delay_ms: duration("retry_delay", self.retry_delay)?,
            name,
        })
    }
}

fn duration(key: &str, text: Option<String>) -> Result<Option<i64>, String> {
    text.map(|text| parse_duration_ms(&text).map_err(|error| format!("{key}: {error}"))).transpose()
}

/// An unknown key is an error that names the nearest known one: a typo must not become a silent default.
fn check_keys(table: &toml::Table) -> Result<(), String> {
    for (section, value) in table {
        let Some((_, keys)) = SECTIONS.iter().find(|(known, _)| known == section) else {
            return Err(unknown("section", section, SECTIONS.iter().map(|(known, _)| *known)));
        };
        let Some(inner) = value.as_table() else {
            return Err(format!("{section} is a section: write [{section}]"));
        };
        if section == "types" {
            for (name, value) in inner {
                let Some(fields) = value.as_table() else {
                    return Err(format!("types.{name} is a section: write [types.{name}]"));
                };
                check_section(&format!("types.{name}"), fields, keys)?;
            }
        } else {
            check_section(section, inner, keys)?;
        }
    }
    Ok(())
}

fn check_section(section: &str, fields: &toml::Table, keys: &[&str]) -> Result<(), String> {
    match fields.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!("[{section}]: {}", unknown("key", key, keys.iter().copied()))),
        None => Ok(()),
    }
}

fn unknown<'a>(what: &str, found: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let found_shown = crate::text::quoted(found);
    match nearest(found, known.clone()).first() {
        Some(near) => format!("unknown {what} {found_shown}; did you mean {near}?"),
        None => format!("unknown {what} {found_shown}; known are {}", known.collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<FilePolicy, String> {
        FilePolicy::parse(text, Path::new("poste.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn an_error_in_a_long_line_does_not_show_all_of_it() {
        let text = format!("[delivery]\nlease = {}", "[".repeat(10_000));
        let error = FilePolicy::parse(&text, Path::new("poste.toml")).unwrap_err().to_string();
        assert!(error.starts_with("poste.toml: line 2: ") && error.len() < 200, "{error:.300}");
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
}
