//! Changes one key of a `poste.toml` and leaves everything else as it was written: comments, order, layout.

use std::fmt;
use std::str::FromStr;

use toml_edit::{DocumentMut, Item, Table, TableLike};

use crate::keys::{self, Key, TYPES, Value};
use crate::{AgentConfig, ConfigFile, Mode, Preset, Problem, read_local};
use poste_core::payload::SchemaSource;
use poste_core::text::{Name, TypeName, Word};

/// A key by its full name: `delivery.lease`, `types.deploy.priority`; or `types.deploy`, to take a type away.
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
            return Err("gates are a list, which is written by hand: [[gate]]".to_owned());
        }
        if !keys::sections().contains(&section) {
            let full = keys::KEYS.iter().filter(|key| key.section != TYPES && key.name == section);
            if let [key] = full.collect::<Vec<_>>().as_slice() {
                return Err(format!("a key has its section before it: {}.{}", key.section, key.name));
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
    /// What the key was set to, and is; `None` when it is not set.
    pub before: Option<String>,
    pub after: Option<String>,
}

/// The text with one key set, or not set any more. Refuses to leave a file behind that would not be taken.
pub fn change(text: &str, key: &KeyPath, value: Option<&Value>) -> Result<Change, Vec<Problem>> {
    let mut document: DocumentMut = match text.parse() {
        Ok(document) => document,
        Err(_) => return Err(ConfigFile::check(text).1),
    };
    // Comments without a section below them would be put behind whatever comes; at the head of a file they are its head.
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
    /// What is run instead of what the preset runs.
    pub run: Vec<String>,
    pub mode: Option<Mode>,
    pub role: Option<Word>,
    pub prompt: Option<String>,
    pub worktree: bool,
    /// It goes on with the conversation it had before.
    pub resume: bool,
}

/// The text of a `local.toml` with one more agent. None: it is there already, just like this. What is there otherwise is left
/// alone, as somebody may have written more than is known here.
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
                let message = format!("agent.{} is there already, and says something else", agent.name);
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
    // They are of the new section, whose lines nobody has seen.
    let problems: Vec<Problem> =
        problems.into_iter().map(|problem| Problem { line: None, column: None, ..problem }).collect();
    if problems.is_empty() { Ok(Some(new)) } else { Err(problems) }
}

/// Takes the comments out of a document that is nothing else, to stand before what comes.
fn head_of(document: &mut DocumentMut, text: &str) -> String {
    document.set_trailing("");
    match text.trim() {
        "" => String::new(),
        _ => format!("{}\n\n", text.trim_end()),
    }
}

/// The section of that name, made if it is missing. `None`: something else stands in its place, which the check of
/// the new text names.
fn section<'t>(table: &'t mut dyn TableLike, name: &str, implicit: bool) -> Option<&'t mut dyn TableLike> {
    if !table.contains_key(name) {
        let mut fresh = Table::new();
        fresh.set_implicit(implicit);
        table.insert(name, Item::Table(fresh));
    }
    table.get_mut(name)?.as_table_like_mut()
}

/// Says what the key was before.
fn edit(table: Option<&mut dyn TableLike>, key: &Key, value: Option<&Value>) -> Option<String> {
    let table = table?;
    let before = table.get(key.name).map(item_text);
    match (value, table.get_mut(key.name)) {
        (None, _) => {
            table.remove(key.name);
        }
        (Some(value), Some(Item::Value(old))) => {
            // The comment behind a value and the space before it belong to the line, not to the value.
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

/// The editor writes `\n`; a file that had `\r\n` throughout keeps it.
fn with_line_ends_of(old: &str, new: String) -> String {
    let had = old.matches("\r\n").count();
    if had == 0 || had != old.matches('\n').count() {
        return new;
    }
    new.replace("\r\n", "\n").replace('\n', "\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str, key: &str, value: &str) -> Change {
        let key: KeyPath = key.parse().unwrap();
        let takes = match &key {
            KeyPath::Setting(key) | KeyPath::OfType(_, key) => key.takes,
            KeyPath::Type(_) => panic!("a type has no value"),
        };
        change(text, &key, Some(&takes.parse(value).unwrap())).unwrap()
    }

    fn unset(text: &str, key: &str) -> Change {
        change(text, &key.parse().unwrap(), None).unwrap()
    }

    const FILE: &str = "# Ours.\n\n[delivery]   # who waits\nlease = '10m'   # short\nmax_attempts=3\n\n\
                        # Deployments.\n[types.deploy]\npriority = \"high\" # always\n\n# The end.\n";

    #[test]
    fn a_value_changes_and_nothing_else_does() {
        let changed = set(FILE, "delivery.lease", "20m");
        assert_eq!(changed.text, FILE.replace("'10m'", "\"20m\""));
        assert_eq!((changed.before.as_deref(), changed.after.as_deref()), (Some("10m"), Some("20m")));
        assert_eq!(set(FILE, "delivery.max_attempts", "7").text, FILE.replace("=3", "=7"));
        assert_eq!(set(FILE, "types.deploy.priority", "low").text, FILE.replace("\"high\"", "\"low\""));
        let windows = FILE.replace('\n', "\r\n");
        assert_eq!(set(&windows, "delivery.lease", "20m").text, windows.replace("'10m'", "\"20m\""));
    }

    #[test]
    fn a_new_key_goes_into_its_section_and_a_new_section_behind_the_others() {
        let changed = set(FILE, "delivery.retry_delay", "1s");
        assert_eq!(changed.text, FILE.replace("max_attempts=3\n", "max_attempts=3\nretry_delay = \"1s\"\n"));
        assert_eq!(changed.before, None);
        let changed = set(FILE, "limits.fan_out", "50");
        assert!(changed.text.contains("\n\n[limits]\nfan_out = 50\n"), "{}", changed.text);
        assert!(changed.text.starts_with(FILE.split("\n# The end.").next().unwrap()), "{}", changed.text);
        assert!(changed.text.contains("# The end."));
        assert_eq!(set("", "types.deploy.work", "true").text, "[types.deploy]\nwork = true\n");
        let head = set("# Ours.\n# All of it.", "delivery.lease", "1m").text;
        assert_eq!(head, "# Ours.\n# All of it.\n\n[delivery]\nlease = \"1m\"\n");
        let two = set("[types.deploy]\nwork = true\n", "types.alert.urgency", "now").text;
        assert_eq!(two, "[types.deploy]\nwork = true\n\n[types.alert]\nurgency = \"now\"\n");
        let inline = set("delivery = { lease = '1m' }\n", "delivery.lease", "2m").text;
        assert_eq!(inline, "delivery = { lease = \"2m\" }\n");
        assert_eq!(set("delivery.lease = '1m'\n", "delivery.lease", "2m").text, "delivery.lease = \"2m\"\n");
    }

    #[test]
    fn what_is_unset_is_gone_and_the_type_stays() {
        assert_eq!(unset(FILE, "delivery.max_attempts").text, FILE.replace("max_attempts=3\n", ""));
        let changed = unset(FILE, "types.deploy.priority");
        assert!(changed.text.contains("[types.deploy]\n"), "{}", changed.text);
        assert_eq!((changed.before.as_deref(), changed.after), (Some("high"), None));
        assert!(!unset(FILE, "types.deploy").text.contains("deploy]"));
        let nothing = unset(FILE, "limits.fan_out");
        assert_eq!((nothing.text.as_str(), nothing.before), (FILE, None));
    }

    #[test]
    fn a_schema_in_the_file_can_be_replaced_by_a_path() {
        let changed = set("[types.deploy.schema]\ntype = 'object'\n", "types.deploy.schema", "deploy.json");
        let (file, problems) = ConfigFile::check(&changed.text);
        assert!(problems.is_empty(), "{problems:?}\n{}", changed.text);
        assert_eq!(file.schemas.values().next(), Some(&SchemaSource::File("deploy.json".to_owned())));
        assert_eq!(changed.before.as_deref(), Some("(in the file)"));
    }

    #[test]
    fn unknown_keys_and_files_that_stay_wrong_are_refused() {
        let wrong = |key: &str| key.parse::<KeyPath>().unwrap_err();
        assert!(wrong("delivery.leese").contains("did you mean lease?"));
        assert!(wrong("delivry.lease").contains("did you mean delivery?"));
        assert!(wrong("types.deploy.prioritty").contains("did you mean priority?"));
        assert!(wrong("lease").contains("delivery.lease"));
        assert!(wrong("delivery").contains("delivery.max_attempts"));
        for bad in ["", ".", "types", "types.Deploy", "types.a.b.c", "delivery.lease.x", "types..priority"] {
            assert!(bad.parse::<KeyPath>().is_err(), "{bad}");
        }
        let lease: KeyPath = "delivery.lease".parse().unwrap();
        let value = Value::Length(60_000);
        let still_wrong = change("[delivery]\nmax_attemps = 3\n", &lease, Some(&value)).unwrap_err();
        assert_eq!(still_wrong[0].line, Some(2));
        assert!(change("[delivery\n", &lease, Some(&value)).is_err());
        assert!(change("delivery = 3\n", &lease, Some(&value)).is_err());
        assert!(
            change("[delivery]\nlease = 'soon'\n", &lease, Some(&value)).is_ok(),
            "the mistake itself can be mended"
        );
    }

    fn coder() -> NewAgent {
        NewAgent {
            name: "coder".parse().unwrap(),
            preset: None,
            run: vec!["./agent.sh".to_owned(), "say \"hi\"".to_owned()],
            mode: Some(Mode::Resident),
            role: Some("builder".parse().unwrap()),
            prompt: Some("You write code.\nAll of it.".to_owned()),
            worktree: false,
            resume: false,
        }
    }

    #[test]
    fn an_agent_is_added_once_and_nobody_else_is_touched() {
        let before = "# Ours.\n\n[agent.tester]  # tests\nrun = ['x']\n";
        let after = add_agent(before, &coder()).unwrap().expect("it is new");
        assert!(after.starts_with(before), "{after}");
        let (file, problems) = read_local(&after);
        assert_eq!(problems, []);
        let found = &file.agents[&coder().name];
        assert_eq!((found.run.as_deref(), found.mode), (Some(coder().run.as_slice()), Mode::Resident));
        assert_eq!(found.prompt.as_deref(), Some("You write code.\nAll of it."));
        assert_eq!(add_agent(&after, &coder()).unwrap(), None, "it is there");
        let other = NewAgent { mode: None, ..coder() };
        assert!(add_agent(&after, &other).unwrap_err()[0].message.contains("says something else"));
        let empty = NewAgent { run: Vec::new(), ..coder() };
        assert!(add_agent("", &empty).unwrap_err()[0].message.contains("neither what to run nor a preset"));
        let only = add_agent("", &NewAgent { prompt: None, role: None, ..coder() }).unwrap().unwrap();
        assert_eq!(only, "[agent.coder]\nrun = [\"./agent.sh\", 'say \"hi\"']\nmode = \"resident\"\n");
        assert!(add_agent("[agent\n", &coder()).is_err());
    }
}
