//! Reads the text of a `poste.toml` and says everything that is wrong with it, each with its place.

use std::collections::BTreeMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::agents::{self, AGENT, AgentConfig, TEAM, TeamConfig};
use crate::gates::{self, GATE};
use crate::keys::{self, Key, MACHINE_SECTIONS, TYPES, Takes, Value};
use crate::on::{self, ON, OnRule};
use crate::wake::{self, WAKE, WakeConfig};
use crate::{ConfigFile, FilePolicy};
use poste_core::fold;
use poste_core::gates::{Gate, Source};
use poste_core::log::{PolicyType, Settings};
use poste_core::payload::SchemaSource;
use poste_core::text::{Name, TypeName};
use poste_core::time::parse_duration_ms;
use poste_core::vocabulary::built_in;

/// Something wrong in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Problem {
    /// Counted from 1; null when it is about the file as a whole.
    pub line: Option<usize>,
    pub column: Option<usize>,
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// A key that a file sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub value: Value,
    pub line: usize,
}

/// More are not told.
const PROBLEMS_MAX: usize = 100;

/// One pass over a file.
pub(crate) struct Reader<'t> {
    text: &'t str,
    /// Where each line begins, so that finding a line does not cost the whole file before it.
    lines: Vec<usize>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) gates: Vec<Gate>,
    pub(crate) wake: WakeConfig,
    pub(crate) agents: BTreeMap<Name, AgentConfig>,
    pub(crate) team: TeamConfig,
    pub(crate) on: Vec<OnRule>,
    given: BTreeMap<String, Given>,
    types: BTreeMap<TypeName, BTreeMap<&'static str, Value>>,
}

/// What the file says as far as it can be read, and everything that is wrong with it, from top to bottom.
pub(crate) fn read(text: &str) -> (ConfigFile, Vec<Problem>) {
    if let Some(problem) = too_deep(text) {
        return (ConfigFile::default(), vec![problem]);
    }
    let mut reader = Reader::new(text);
    let readable = reader.syntax();
    reader.file(DeTable::parse_recoverable(&readable).0.get_ref());
    let (config, mut problems) = reader.into_config();
    if problems.is_empty()
        && let Err(message) = fold::check_policy(&config.policy.clone().unplaced())
    {
        problems.push(Problem { line: None, column: None, message });
    }
    problems.sort();
    problems.dedup();
    (config, problems)
}

/// Dots one key may have. Each makes a table inside a table, and dropping a hundred thousand of them needs more stack than
/// there is.
const DOTS_MAX: usize = 200;

/// A key no honest file has, found before the parser sees it.
fn too_deep(text: &str) -> Option<Problem> {
    for (index, line) in text.lines().enumerate() {
        let mut keys = line.split(['=', ',', '{', '}', '#']);
        if keys.any(|key| key.matches('.').count() > DOTS_MAX) {
            let message = "a key has too many parts".to_owned();
            return Some(Problem { line: Some(index + 1), column: None, message });
        }
    }
    None
}

/// What `.poste/local.toml` says: machine matters.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LocalFile {
    pub gates: Vec<Gate>,
    pub wake: WakeConfig,
    pub agents: BTreeMap<Name, AgentConfig>,
    pub on: Vec<OnRule>,
    /// How this machine serves the sessions that run on it.
    pub given: BTreeMap<String, Given>,
}

impl LocalFile {
    /// Whether anything in it runs a command or reaches out.
    pub fn runs_something(&self) -> bool {
        !self.agents.is_empty()
            || self.wake.command.is_some()
            || self.gates.iter().any(|gate| gate.program.is_some())
            || self.on.iter().any(|rule| rule.handler.reaches_out().is_some())
    }
}

/// Everything that is wrong with a `local.toml`.
pub fn check_local(text: &str) -> Vec<Problem> {
    read_local(text).1
}

/// A `local.toml` as far as it can be read, and everything that is wrong with it.
pub fn read_local(text: &str) -> (LocalFile, Vec<Problem>) {
    if let Some(problem) = too_deep(text) {
        return (LocalFile::default(), vec![problem]);
    }
    let mut reader = Reader::new(text);
    let readable = reader.syntax();
    for (section, value) in DeTable::parse_recoverable(&readable).0.get_ref() {
        let name = section.get_ref().as_ref();
        if name == GATE {
            gates::read(&mut reader, section, value.get_ref(), Source::Machine);
            continue;
        }
        if name == WAKE {
            wake::read(&mut reader, section, value.get_ref(), Source::Machine);
            continue;
        }
        if name == AGENT {
            agents::read(&mut reader, section, value.get_ref(), Source::Machine);
            continue;
        }
        if name == ON {
            on::read(&mut reader, section, value.get_ref(), Source::Machine);
            continue;
        }
        if MACHINE_SECTIONS.contains(&name) {
            reader.section(section, value, |reader, fields| drop(reader.fields(name, name, fields)));
            continue;
        }
        let message = match keys::sections().contains(&name) || name == TEAM {
            true => format!("[{name}] belongs into {}", crate::FILE),
            false => keys::unknown("section", name, MACHINE_SECTIONS.into_iter().chain([GATE, WAKE, AGENT, ON])),
        };
        reader.say(Some(section.span()), message);
    }
    reader.problems.sort();
    let Reader { gates, wake, agents, on, given, problems, .. } = reader;
    (LocalFile { gates, wake, agents, on, given }, problems)
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self {
            text,
            lines,
            problems: Vec::new(),
            gates: Vec::new(),
            wake: WakeConfig::default(),
            agents: BTreeMap::new(),
            team: TeamConfig::default(),
            on: Vec::new(),
            given: BTreeMap::new(),
            types: BTreeMap::new(),
        }
    }

    /// Counted from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }

    /// Notes what is no TOML, and returns the text without it: as long as before, so that every place stays.
    ///
    /// The parser may give up at its first mistake. So the line is blanked and it reads again; after a header nobody
    /// can read, the whole section is, since its keys would seem to belong to the one before.
    fn syntax(&mut self) -> String {
        const MISTAKES_MAX: usize = 32;
        let mut readable = self.text.to_owned();
        for _ in 0..MISTAKES_MAX {
            let Err(error) = DeTable::parse(&readable) else { return readable };
            self.say(error.span(), error.message().to_owned());
            let Some(blanked) = error.span().and_then(|span| without_line(&readable, span.start)) else { break };
            readable = blanked;
        }
        String::new()
    }

    pub(crate) fn say(&mut self, span: Option<Range<usize>>, message: String) {
        // A file may be nothing but mistakes; nobody mends so many at once.
        if self.problems.len() == PROBLEMS_MAX {
            return;
        }
        let place = span.map(|span| place(self.text, span.start));
        self.problems.push(Problem {
            line: place.map(|(line, _)| line),
            column: place.map(|(_, column)| column),
            message,
        });
    }

    fn file(&mut self, root: &DeTable<'_>) {
        for (section, value) in root {
            let name = section.get_ref().as_ref();
            if name == GATE {
                gates::read(self, section, value.get_ref(), Source::Office);
                continue;
            }
            if name == WAKE {
                wake::read(self, section, value.get_ref(), Source::Office);
                continue;
            }
            if name == AGENT {
                agents::read(self, section, value.get_ref(), Source::Office);
                continue;
            }
            if name == TEAM {
                agents::read_team(self, section, value.get_ref());
                continue;
            }
            if name == ON {
                on::read(self, section, value.get_ref(), Source::Office);
                continue;
            }
            if !keys::sections().contains(&name) {
                let known: Vec<&str> = keys::sections().into_iter().chain([GATE, WAKE, AGENT, TEAM, ON]).collect();
                let message = keys::unknown("section", name, known.iter().copied());
                self.say(Some(section.span()), message);
                continue;
            }
            self.section(section, value, |reader, fields| match name == TYPES {
                true => fields.iter().for_each(|(name, value)| reader.kind(name, value)),
                false => drop(reader.fields(name, name, fields)),
            });
        }
    }

    fn section(
        &mut self,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        read: impl FnOnce(&mut Self, &DeTable<'_>),
    ) {
        match value.get_ref().as_table() {
            Some(fields) => read(self, fields),
            None => {
                let word = name.get_ref();
                self.say(Some(name.span()), format!("{word} is a section: write [{word}]"));
            }
        }
    }

    fn kind(&mut self, name: &Spanned<std::borrow::Cow<'_, str>>, value: &Spanned<DeValue<'_>>) {
        let kind: TypeName = match name.get_ref().parse() {
            Ok(kind) => kind,
            Err(error) => return self.say(Some(name.span()), format!("types: {error}")),
        };
        let Some(fields) = value.get_ref().as_table() else {
            return self.say(Some(name.span()), format!("types.{kind} is a section: write [types.{kind}]"));
        };
        let values = self.fields(&format!("{TYPES}.{kind}"), TYPES, fields);
        self.types.insert(kind, values);
    }

    fn fields(&mut self, path: &str, section: &str, fields: &DeTable<'_>) -> BTreeMap<&'static str, Value> {
        let mut values = BTreeMap::new();
        for (name, value) in fields {
            let Some(key) = keys::find(section, name.get_ref()) else {
                let known = keys::keys_of(section).map(|key| key.name);
                let message = format!("[{path}]: {}", keys::unknown("key", name.get_ref(), known));
                self.say(Some(name.span()), message);
                continue;
            };
            match read_value(key, value.get_ref()) {
                Ok(value) => {
                    values.insert(key.name, value.clone());
                    let line = self.line(name.span().start);
                    self.given.insert(format!("{path}.{}", key.name), Given { value, line });
                }
                Err(why) => self.say(Some(value.span()), format!("{path}.{}: {why}", key.name)),
            }
        }
        values
    }

    fn into_config(mut self) -> (ConfigFile, Vec<Problem>) {
        for gate in &self.gates {
            if let Some(message) = gates::unknown_type(gate, |kind| self.types.contains_key(kind)) {
                self.problems.push(Problem { line: Some(gate.line), column: None, message });
            }
        }
        for rule in &self.on {
            if let Some(message) = on::unknown_type(rule, |kind| self.types.contains_key(kind)) {
                self.problems.push(Problem { line: Some(rule.line), column: None, message });
            }
        }
        let mut schemas = BTreeMap::new();
        let mut types = Vec::new();
        for (name, mut values) in std::mem::take(&mut self.types) {
            let schema = values.remove(keys::SCHEMA);
            // A schema is no policy: a built-in type that only gets one stays as it is built in.
            if !(values.is_empty() && schema.is_some() && built_in(name.as_str()).is_some()) {
                types.push(policy_type(name.clone(), &values));
            }
            if let Some(Value::Schema(source)) = schema {
                schemas.insert(name, source);
            }
        }
        let policy = FilePolicy { settings: settings(&self.given), types };
        let Self { gates, wake, agents, team, on, given, problems, .. } = self;
        (ConfigFile { policy, schemas, gates, wake, agents, team, on, given }, problems)
    }
}

fn settings(given: &BTreeMap<String, Given>) -> Settings {
    let count = |key: &str| given.get(key).and_then(|given| given.value.count());
    let small = |key: &str| count(key).and_then(|count| u32::try_from(count).ok());
    let length = |key: &str| given.get(key).and_then(|given| given.value.length());
    Settings {
        max_attempts: small("delivery.max_attempts"),
        retry_delay_ms: length("delivery.retry_delay"),
        lease_ms: length("delivery.lease"),
        retention_ms: length("retention.finished"),
        content_bytes_max: count("limits.message_bytes"),
        fan_out_max: small("limits.fan_out"),
    }
}

/// What the file leaves out comes from the built-in type of that name, else from `message`.
pub(crate) fn policy_type(name: TypeName, values: &BTreeMap<&'static str, Value>) -> PolicyType {
    let base = built_in(name.as_str()).or_else(|| built_in("message")).expect("message is built in");
    let flag = |key: &str| values.get(key).and_then(Value::flag);
    let length = |key: &str| values.get(key).and_then(Value::length);
    let response = flag("response").unwrap_or(base.response);
    PolicyType {
        priority: match values.get("priority") {
            Some(Value::Priority(priority)) => *priority,
            _ => base.priority,
        },
        urgency: match values.get("urgency") {
            Some(Value::Urgency(urgency)) => *urgency,
            _ => base.urgency,
        },
        // Whoever wants a response asks for work, or an ack would end it unanswered.
        work: flag("work").unwrap_or(base.work || response),
        response,
        max_attempts: values.get("max_attempts").and_then(Value::count).and_then(|count| u32::try_from(count).ok()),
        retry_delay_ms: length("retry_delay"),
        patience_ms: length("patience"),
        name,
    }
}

pub(crate) fn read_value(key: &Key, value: &DeValue<'_>) -> Result<Value, String> {
    let takes = key.takes;
    let read = match (takes, value) {
        (Takes::Count { .. }, DeValue::Integer(number)) => {
            Value::Count(unsigned(number).ok_or_else(|| format!("it is {}", takes.expected()))?)
        }
        (Takes::Length { .. }, DeValue::String(text)) => Value::Length(parse_duration_ms(text)?),
        (Takes::Priority, DeValue::String(text)) => Value::Priority(text.parse()?),
        (Takes::Urgency, DeValue::String(text)) => Value::Urgency(text.parse()?),
        (Takes::Flag, DeValue::Boolean(flag)) => Value::Flag(*flag),
        (Takes::OneOf(words), DeValue::String(text)) => {
            Value::Word(keys::known_word(words, text).ok_or_else(|| format!("it is {}", takes.expected()))?)
        }
        (Takes::Schema, DeValue::String(path)) if !path.is_empty() => {
            Value::Schema(SchemaSource::File(path.clone().into_owned()))
        }
        (Takes::Schema, DeValue::Table(_)) => Value::Schema(SchemaSource::Inline(to_json(value)?)),
        _ => return Err(format!("it is {}, not a TOML {}", takes.expected(), value.type_str())),
    };
    takes.check(read)
}

fn unsigned(number: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// An inline schema as the JSON it stands for.
fn to_json(value: &DeValue<'_>) -> Result<serde_json::Value, String> {
    use serde_json::Value as Json;
    Ok(match value {
        DeValue::String(text) => Json::String(text.clone().into_owned()),
        DeValue::Boolean(flag) => Json::Bool(*flag),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(Json::from)
            .map_err(|_| format!("the number {number} is too large"))?,
        DeValue::Float(number) => {
            let number = number.as_str();
            // Read as JSON, not as a float: TOML knows inf and nan, which no schema does.
            number.parse().ok().map(Json::Number).ok_or_else(|| format!("the number {number} is none in JSON"))?
        }
        DeValue::Datetime(moment) => Json::String(moment.to_string()),
        DeValue::Array(items) => {
            Json::Array(items.iter().map(|item| to_json(item.get_ref())).collect::<Result<_, _>>()?)
        }
        DeValue::Table(fields) => Json::Object(
            fields
                .iter()
                .map(|(name, value)| Ok((name.get_ref().clone().into_owned(), to_json(value.get_ref())?)))
                .collect::<Result<_, String>>()?,
        ),
    })
}

/// The text with the line of this byte blanked, and the section if it is a header. `None` if nothing was left of it.
fn without_line(text: &str, at: usize) -> Option<String> {
    // A mistake at the very end is one of the last line that has something.
    let at = at.min(text.trim_end().len().saturating_sub(1));
    let at = (0..=at).rev().find(|&at| text.is_char_boundary(at))?;
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let mut end = text[at..].find('\n').map_or(text.len(), |length| at + length);
    if text[start..end].trim_start().starts_with('[') {
        end = text[end..].find("\n[").map_or(text.len(), |length| end + length);
    }
    if text[start..end].trim().is_empty() {
        return None;
    }
    let blank: String = text[start..end].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
    Some(format!("{}{blank}{}", &text[..start], &text[end..]))
}

/// Line and column of a byte, both from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}
