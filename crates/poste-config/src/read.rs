//! Reads the text of a `poste.toml` and reports every problem with its position.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::agents::{self, AGENT, TEAM};
use crate::gates::{self, GATE};
use crate::keys::{self, MACHINE_SECTIONS, TYPES, Value, ValueKind};
use crate::on::{self, ON};
use crate::wake::{self, WAKE};
use crate::{ConfigFile, FilePolicy};
use poste_core::fold;
use poste_core::gates::Source;
use poste_core::log::{PolicyType, Settings};
use poste_core::payload::SchemaSource;
use poste_core::text::{TypeName, nearest};
use poste_core::time::parse_duration_ms;
use poste_core::vocabulary::{BUILT_IN, built_in};

/// A problem in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Problem {
    /// Counted from 1; null if the problem concerns the whole file.
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

/// Further problems are not reported.
const PROBLEMS_MAX: usize = 100;

/// A key with its position in the file.
pub(crate) type Named<'t> = Spanned<Cow<'t, str>>;

/// One pass over a file.
pub(crate) struct Reader<'t> {
    text: &'t str,
    /// The start of each line, so that finding the line of a position does not scan the file.
    lines: Vec<usize>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) source: Source,
    pub(crate) file: ConfigFile,
    types: BTreeMap<TypeName, BTreeMap<&'static str, Value>>,
}

/// A problem with one key of a section.
pub(crate) enum Wrong {
    /// There is no such key.
    Unknown,
    /// The key exists, but does not belong here.
    Key(String),
    Value(String),
}

impl From<String> for Wrong {
    fn from(why: String) -> Self {
        Self::Value(why)
    }
}

/// Reads as much of the file as it can. Returns every problem too, from top to bottom.
pub(crate) fn read(text: &str, source: Source) -> (ConfigFile, Vec<Problem>) {
    if let Some(problem) = too_deep(text) {
        return (ConfigFile::default(), vec![problem]);
    }
    let mut reader = Reader::new(text, source);
    let readable = reader.syntax();
    for (name, value) in DeTable::parse_recoverable(&readable).0.get_ref() {
        reader.section(name, value.get_ref());
    }
    let (config, mut problems) = reader.finish();
    if problems.is_empty()
        && let Err(message) = fold::check_policy(&config.policy.clone().unplaced())
    {
        problems.push(Problem { line: None, column: None, message });
    }
    problems.sort();
    problems.dedup();
    (config, problems)
}

/// Maximum number of dots in a key. Each one nests a table, and dropping a hundred thousand nested tables overflows the
/// stack.
const DOTS_MAX: usize = 200;

/// Finds a key with too many dots before the parser sees it.
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

/// The problems of a `local.toml`.
pub fn check_local(text: &str) -> Vec<Problem> {
    read_local(text).1
}

/// Reads as much of a `local.toml` as it can. Returns every problem too.
pub fn read_local(text: &str) -> (ConfigFile, Vec<Problem>) {
    read(text, Source::Machine)
}

fn sections_of(source: Source) -> Vec<&'static str> {
    match source {
        Source::Office => keys::sections().into_iter().chain([GATE, WAKE, AGENT, TEAM, ON]).collect(),
        Source::Machine => MACHINE_SECTIONS.into_iter().chain([GATE, WAKE, AGENT, ON]).collect(),
    }
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, source: Source) -> Self {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, lines, problems: Vec::new(), source, file: ConfigFile::default(), types: BTreeMap::new() }
    }

    /// The line of a byte, counted from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }

    /// Notes syntax errors and returns the text with them blanked out. Its length is the same, so positions stay valid.
    ///
    /// The parser may give up at the first error. So the line is blanked and the text parsed again. For an invalid
    /// header the whole section is blanked, since its keys would seem to belong to the one before.
    fn syntax(&mut self) -> String {
        const MISTAKES_MAX: usize = 32;
        let mut readable = self.text.to_owned();
        for _ in 0..MISTAKES_MAX {
            let Err(error) = DeTable::parse(&readable) else { return readable };
            self.note(error.span(), error.message().to_owned());
            let Some(blanked) = error.span().and_then(|span| without_line(&readable, span.start)) else { break };
            readable = blanked;
        }
        String::new()
    }

    pub(crate) fn say(&mut self, span: Range<usize>, message: String) {
        self.note(Some(span), message);
    }

    fn note(&mut self, span: Option<Range<usize>>, message: String) {
        // A file may consist of nothing but mistakes.
        if self.problems.len() == PROBLEMS_MAX {
            return;
        }
        let (line, column) = span.map(|span| self.place(span.start)).unzip();
        self.problems.push(Problem { line, column, message });
    }

    /// Line and column of a byte, both counted from 1.
    fn place(&self, at: usize) -> (usize, usize) {
        let at = self.text.floor_char_boundary(at);
        let line = self.line(at);
        (line, self.text[self.lines[line - 1]..at].chars().count() + 1)
    }

    fn section(&mut self, name: &Named<'_>, value: &DeValue<'_>) {
        let word = name.get_ref().as_ref();
        let known = sections_of(self.source);
        if !known.contains(&word) {
            let message = match sections_of(Source::Office).contains(&word) {
                true => format!("[{word}] belongs in {}", crate::FILE),
                false => keys::unknown("section", word, known.iter().copied()),
            };
            return self.say(name.span(), message);
        }
        match (word, value.as_table()) {
            (GATE, _) => gates::read(self, name, value),
            (ON, _) => on::read(self, name, value),
            (AGENT, Some(agents)) => agents::read(self, agents),
            (AGENT, None) => self.say(name.span(), "agent needs a section per agent: write [agent.NAME]".to_owned()),
            (_, None) => self.say(name.span(), format!("{word} is a section: write [{word}]")),
            (WAKE, Some(fields)) => wake::read(self, fields),
            (TEAM, Some(fields)) => agents::read_team(self, self.line(name.span().start), fields),
            (TYPES, Some(types)) => types.iter().for_each(|(name, value)| self.kind(name, value.get_ref())),
            (_, Some(fields)) => drop(self.fields(word, word, fields)),
        }
    }

    fn kind(&mut self, name: &Named<'_>, value: &DeValue<'_>) {
        let kind: TypeName = match name.get_ref().parse() {
            Ok(kind) => kind,
            Err(error) => return self.say(name.span(), format!("types: {error}")),
        };
        let Some(fields) = value.as_table() else {
            return self.say(name.span(), format!("types.{kind} is a section: write [types.{kind}]"));
        };
        let values = self.fields(&format!("{TYPES}.{kind}"), TYPES, fields);
        self.types.insert(kind, values);
    }

    fn fields(&mut self, path: &str, section: &str, fields: &DeTable<'_>) -> BTreeMap<&'static str, Value> {
        let mut values = BTreeMap::new();
        let known: Vec<&str> = keys::keys_of(section).map(|key| key.name).collect();
        self.each(&format!("[{path}]"), fields, &known, |reader, name, value| {
            let key = keys::find(section, name.get_ref()).ok_or(Wrong::Unknown)?;
            let value = read_value(key.takes, value)?;
            values.insert(key.name, value.clone());
            let line = reader.line(name.span().start);
            reader.file.given.insert(format!("{path}.{}", key.name), Given { value, line });
            Ok(())
        });
        values
    }

    /// Reads each key of a section and notes problems at its position.
    pub(crate) fn each(
        &mut self,
        header: &str,
        fields: &DeTable<'_>,
        known: &[&str],
        mut read: impl FnMut(&mut Self, &Named<'_>, &DeValue<'_>) -> Result<(), Wrong>,
    ) {
        let path = header.trim_matches(['[', ']']);
        for (name, value) in fields {
            let key = name.get_ref();
            match read(self, name, value.get_ref()) {
                Ok(()) => {}
                Err(Wrong::Unknown) => {
                    let unknown = keys::unknown("key", key, known.iter().copied());
                    self.say(name.span(), format!("{header}: {unknown}"));
                }
                Err(Wrong::Key(why)) => self.say(name.span(), format!("{path}.{key}: {why}")),
                Err(Wrong::Value(why)) => self.say(value.span(), format!("{path}.{key}: {why}")),
            }
        }
    }

    fn finish(self) -> (ConfigFile, Vec<Problem>) {
        let Self { mut file, mut problems, types, source, .. } = self;
        // For a machine's own file, the office knows the types and checks them.
        if source == Source::Office {
            let mut say = |what: String, line: usize, kinds: &[TypeName]| {
                let unknown = unknown_type(kinds, |kind| types.contains_key(kind));
                problems.extend(unknown.map(|why| Problem {
                    line: Some(line),
                    column: None,
                    message: format!("{what}: {why}"),
                }));
            };
            file.gates.iter().for_each(|gate| say(format!("gate {}", gate.name), gate.line, gate.kind.as_slice()));
            file.on.iter().for_each(|rule| say(format!("on {}", rule.name), rule.line, &rule.matches.types));
        }
        let mut policy = FilePolicy { settings: settings(&file.given), types: Vec::new() };
        for (name, mut values) in types {
            let schema = values.remove(keys::SCHEMA);
            // A schema is not policy: a built-in type that only gets a schema stays built in.
            if !(values.is_empty() && schema.is_some() && built_in(name.as_str()).is_some()) {
                policy.types.push(policy_type(name.clone(), &values));
            }
            if let Some(Value::Schema(source)) = schema {
                file.schemas.insert(name, source);
            }
        }
        (ConfigFile { policy, ..file }, problems)
    }
}

/// The problem of an entry for a type that does not exist: it would never be used.
pub(crate) fn unknown_type(kinds: &[TypeName], is_known: impl Fn(&TypeName) -> bool) -> Option<String> {
    let unknown = kinds.iter().find(|kind| built_in(kind.as_str()).is_none() && !is_known(kind))?;
    let near = nearest(unknown.as_str(), BUILT_IN.iter().map(|word| word.name));
    let near = near.first().map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    Some(format!("there is no type {unknown}{near}"))
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

/// A type of the file. Missing values come from the built-in type of that name, else from `message`.
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
        // A message that wants a response asks for work; otherwise an ack would end it unanswered.
        work: flag("work").unwrap_or(base.work || response),
        response,
        max_attempts: values.get("max_attempts").and_then(Value::count).and_then(|count| u32::try_from(count).ok()),
        retry_delay_ms: length("retry_delay"),
        patience_ms: length("patience"),
        default_approve: flag("default_approve").unwrap_or(false),
        name,
    }
}

pub(crate) fn read_value(takes: ValueKind, value: &DeValue<'_>) -> Result<Value, String> {
    let read = match (takes, value) {
        (ValueKind::Count { .. }, DeValue::Integer(number)) => {
            Value::Count(unsigned(number).ok_or_else(|| format!("must be {}", takes.expected()))?)
        }
        (ValueKind::Length { .. }, DeValue::String(text)) => Value::Length(parse_duration_ms(text)?),
        (ValueKind::Priority, DeValue::String(text)) => Value::Priority(text.parse()?),
        (ValueKind::Urgency, DeValue::String(text)) => Value::Urgency(text.parse()?),
        (ValueKind::Flag, DeValue::Boolean(flag)) => Value::Flag(*flag),
        (ValueKind::OneOf(words), DeValue::String(text)) => {
            Value::Word(keys::known_word(words, text).ok_or_else(|| format!("must be {}", takes.expected()))?)
        }
        (ValueKind::Schema, DeValue::String(path)) if !path.is_empty() => {
            Value::Schema(SchemaSource::File(path.clone().into_owned()))
        }
        (ValueKind::Schema, DeValue::Table(_)) => Value::Schema(SchemaSource::Inline(to_json(value)?)),
        _ => return Err(format!("must be {}, not a TOML {}", takes.expected(), value.type_str())),
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
            // Parsed as JSON, not as a float: TOML has inf and nan, which JSON does not.
            number.parse().ok().map(Json::Number).ok_or_else(|| format!("the number {number} is not valid in JSON"))?
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

/// The text with the line of this byte blanked, or with its whole section if the line is a header. `None` if the line
/// is already blank.
fn without_line(text: &str, at: usize) -> Option<String> {
    // A mistake at the very end belongs to the last line that is not blank.
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
