//! Changes one key of a `poste.toml` and keeps everything else as it was written: comments, order, layout.

use std::fmt;
use std::str::FromStr;

use toml_edit::{DocumentMut, Item, Table, TableLike};

use crate::keys::{self, Key, TYPES, Value};
use crate::{AgentConfig, ConfigFile, Mode, Preset, Problem, read_local};
use poste_core::payload::SchemaSource;
use poste_core::text::{Name, TypeName, Word};

/// A key by its full name: `delivery.lease`, `types.deploy.priority`; or `types.deploy`, to remove a type.
#[derive(Debug, Clone)]
pub enum KeyPath {
    Setting(&'static Key),
    OfType(TypeName, &'static Key),
    Type(TypeName),
}

impl FromStr for KeyPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('.').collect();
        let section = parts[0];
        if section == crate::GATE {
            return Err("gates are a list; edit [[gate]] in the file".to_owned());
        }
        if !keys::sections().contains(&section) {
            let full = keys::KEYS.iter().filter(|key| key.section != TYPES && key.name == section);
            if let [key] = full.collect::<Vec<_>>().as_slice() {
                return Err(format!("the key needs its section: {}.{}", key.section, key.name));
            }
            return Err(keys::unknown("section", section, keys::sections().into_iter()));
        }
        let name_of = |kind: &str| kind.parse::<TypeName>().map_err(|error| error.to_string());
        let found = |section: &str, name: &str| {
            let known = keys::keys_of(section).map(|key| key.name);
            keys::find(section, name).ok_or_else(|| keys::unknown("key", name, known))
        };
        match parts.as_slice() {
            [TYPES, kind] => Ok(Self::Type(name_of(kind)?)),
            [TYPES, kind, name] => Ok(Self::OfType(name_of(kind)?, found(TYPES, name)?)),
            [section, name] if *section != TYPES => Ok(Self::Setting(found(section, name)?)),
            [TYPES, ..] => Err("write it as types.NAME.KEY, for example types.deploy.priority".to_owned()),
            _ => {
                let example = keys::keys_of(section).next().map_or("lease", |key| key.name);
                Err(format!("write it as {section}.KEY, for example {section}.{example}"))
            }
        }
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(key) => write!(f, "{}.{}", key.section, key.name),
            Self::OfType(kind, key) => write!(f, "{TYPES}.{kind}.{}", key.name),
            Self::Type(kind) => write!(f, "{TYPES}.{kind}"),
        }
    }
}

/// A file before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The whole new text.
    pub text: String,
    /// What the key was set to, and is now; `None` if it is not set.
    pub before: Option<String>,
    pub after: Option<String>,
}

/// The text with one key set or unset. Refuses a change that would make the file invalid.
pub fn change(text: &str, key: &KeyPath, value: Option<&Value>) -> Result<Change, Vec<Problem>> {
    let mut document: DocumentMut = match text.parse() {
        Ok(document) => document,
        Err(_) => return Err(ConfigFile::check(text).1),
    };
    // Comments without a section below them would end up behind the new section; at the head of a file they stay there.
    let head = if document.is_empty() { head_of(&mut document, text) } else { String::new() };
    let root = document.as_table_mut();
    let before = match key {
        KeyPath::Setting(known) => edit(section(root, known.section, false), known, value),
        KeyPath::OfType(kind, known) => {
            let types = section(root, TYPES, true);
            edit(types.and_then(|types| section(types, kind.as_str(), false)), known, value)
        }
        KeyPath::Type(kind) => {
            let types = section(root, TYPES, true);
            types.and_then(|types| types.remove(kind.as_str())).map(|_| format!("[{key}]"))
        }
    };
    let new = with_line_ends_of(text, format!("{head}{document}"));
    let (_, problems) = ConfigFile::check(&new);
    if !problems.is_empty() {
        return Err(problems);
    }
    let new = if before.is_none() && value.is_none() { text.to_owned() } else { new };
    Ok(Change { text: new, before, after: value.map(Value::text) })
}

/// An agent that is added to a `local.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAgent {
    pub name: Name,
    pub preset: Option<Preset>,
    /// Replaces what the preset runs.
    pub run: Vec<String>,
    pub mode: Option<Mode>,
    pub role: Option<Word>,
    pub prompt: Option<String>,
    pub worktree: bool,
    /// Whether it continues its previous conversation.
    pub resume: bool,
}

/// The text of a `local.toml` with one more agent. `None` if it already has the same section. A different section of
/// the same name is an error and is not overwritten, as a person may have extended it.
pub fn add_agent(text: &str, agent: &NewAgent) -> Result<Option<String>, Vec<Problem>> {
    let (file, problems) = read_local(text);
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        vec![Problem { line: None, column: None, message: error.message().to_owned() }]
    })?;
    let head = if document.is_empty() { head_of(&mut document, text) } else { String::new() };
    let mut fields = Table::new();
    let mut set = |name: &str, value: Option<toml_edit::Value>| {
        if let Some(value) = value {
            fields.insert(name, Item::Value(value));
        }
    };
    set("preset", agent.preset.map(|preset| preset.word().into()));
    set("run", (!agent.run.is_empty()).then(|| agent.run.iter().collect::<toml_edit::Array>().into()));
    set("mode", agent.mode.map(|mode| mode.word().into()));
    set("role", agent.role.as_ref().map(|role| role.as_str().into()));
    set("prompt", agent.prompt.as_deref().map(Into::into));
    set("worktree", agent.worktree.then(|| true.into()));
    set("resume", agent.resume.then(|| true.into()));
    if let Some(known) = file.agents.get(&agent.name) {
        let wanted = format!("[{}.{}]\n{fields}", crate::AGENT, agent.name);
        let same = read_local(&wanted).0.agents.remove(&agent.name);
        return match same.is_some_and(|same| AgentConfig { line: known.line, ..same } == *known) {
            true => Ok(None),
            false => {
                let message = format!("agent.{} already exists with other settings", agent.name);
                Err(vec![Problem { line: Some(known.line), column: None, message }])
            }
        };
    }
    let agents = section(document.as_table_mut(), crate::AGENT, true);
    if let Some(agents) = agents {
        agents.insert(agent.name.as_str(), Item::Table(fields));
    }
    let new = with_line_ends_of(text, format!("{head}{document}"));
    let (_, problems) = read_local(&new);
    // They concern the new section, which the user has not seen, so line numbers would not help.
    let problems: Vec<Problem> =
        problems.into_iter().map(|problem| Problem { line: None, column: None, ..problem }).collect();
    if problems.is_empty() { Ok(Some(new)) } else { Err(problems) }
}

/// Takes the comments out of a document that has only comments, to put them before the new section.
fn head_of(document: &mut DocumentMut, text: &str) -> String {
    document.set_trailing("");
    match text.trim() {
        "" => String::new(),
        _ => format!("{}\n\n", text.trim_end()),
    }
}

/// The section of that name, created if it is missing. `None` if the name is used for something else, which the check
/// of the new text reports.
fn section<'t>(table: &'t mut dyn TableLike, name: &str, implicit: bool) -> Option<&'t mut dyn TableLike> {
    if !table.contains_key(name) {
        let mut fresh = Table::new();
        fresh.set_implicit(implicit);
        table.insert(name, Item::Table(fresh));
    }
    table.get_mut(name)?.as_table_like_mut()
}

/// Returns the previous value of the key.
fn edit(table: Option<&mut dyn TableLike>, key: &Key, value: Option<&Value>) -> Option<String> {
    let table = table?;
    let before = table.get(key.name).map(item_text);
    match (value, table.get_mut(key.name)) {
        (None, _) => {
            table.remove(key.name);
        }
        (Some(value), Some(Item::Value(old))) => {
            // The space before a value and the comment after it belong to the line, not to the value.
            let decor = old.decor().clone();
            *old = written(value);
            *old.decor_mut() = decor;
        }
        (Some(value), _) => {
            table.insert(key.name, Item::Value(written(value)));
        }
    }
    before
}

fn item_text(item: &Item) -> String {
    match item {
        Item::Value(toml_edit::Value::String(text)) => text.value().clone(),
        Item::Value(value) if !value.is_inline_table() => value.to_string().trim().to_owned(),
        _ => Value::Schema(SchemaSource::Inline(serde_json::Value::Null)).text(),
    }
}

fn written(value: &Value) -> toml_edit::Value {
    match value {
        Value::Count(count) => i64::try_from(*count).unwrap_or(i64::MAX).into(),
        Value::Flag(flag) => (*flag).into(),
        other => other.text().into(),
    }
}

/// The TOML editor writes `\n`; a file that had `\r\n` throughout keeps it.
fn with_line_ends_of(old: &str, new: String) -> String {
    let had = old.matches("\r\n").count();
    if had == 0 || had != old.matches('\n').count() {
        return new;
    }
    new.replace("\r\n", "\n").replace('\n', "\r\n")
}
