//! Recognizes Poste's entries in files of other programs by what they run, no matter who wrote them.

use serde_json::{Map, Value};

use super::json;
use super::{AGENT, HOME};
use crate::shell;

/// A server entry that starts `poste mcp`.
pub fn is_server(entry: &Value) -> bool {
    let words = server_words(entry);
    matches!(words.as_slice(), [poste, mcp, ..] if is_poste(poste) && mcp == "mcp")
}

/// The words of the command that a server entry starts: a command with arguments, or both in one list. Without a
/// command there are none: its arguments are not a program.
pub fn server_words(entry: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let list = |value: &Value| value.as_array().map(|list| list.iter().filter_map(text).collect::<Vec<_>>());
    let command = match entry.get("command") {
        Some(Value::String(command)) => vec![command.clone()],
        Some(value) => list(value).unwrap_or_default(),
        None => return Vec::new(),
    };
    command.into_iter().chain(entry.get("args").and_then(list).unwrap_or_default()).collect()
}

/// A hook that runs `poste hook …`.
pub fn is_hook(hook: &Value) -> bool {
    hook.get("command").and_then(Value::as_str).is_some_and(|command| event(command).is_some())
}

/// Poste's hooks in an element of an event's list: those of a group, or the element itself.
pub fn hooks_in(element: &Value) -> Vec<&Value> {
    match element.get("hooks").and_then(Value::as_array) {
        Some(group) => group.iter().filter(|hook| is_hook(hook)).collect(),
        None => Some(element).filter(|hook| is_hook(hook)).into_iter().collect(),
    }
}

/// All commands of Poste's among the hooks of a file.
pub fn commands(file: &Value) -> Vec<String> {
    let Some(events) = file.get("hooks").and_then(Value::as_object) else { return Vec::new() };
    let elements = events.values().filter_map(Value::as_array).flatten();
    let hooks = elements.flat_map(|element| hooks_in(element));
    hooks.filter_map(|hook| hook.get("command")?.as_str().map(str::to_owned)).collect()
}

/// The entry of Poste's server in a file.
pub fn server<'a>(file: &'a Value, group: &str) -> Option<&'a Value> {
    file.get(group)?.get(json::SERVER).filter(|entry| is_server(entry))
}

/// The event a command of Poste's is for: `stop` of `POSTE_AGENT=ann poste hook stop --program codex`.
pub fn event(command: &str) -> Option<String> {
    let words = shell_words::split(command).ok()?;
    let mut words = words.into_iter().skip_while(|word| shell::is_assignment(word));
    let is_hook = is_poste(&words.next()?) && words.next()? == "hook";
    let event = words.next()?;
    (is_hook && words.any(|word| word == "--program")).then_some(event)
}

/// Which entries for Poste are the user's own, and are not removed.
#[derive(Debug, Clone, Copy)]
pub enum Own<'a> {
    /// None: all of them are Poste's.
    Nothing,
    /// Those that differ from what Poste writes.
    Unlike,
    /// Those that were there before Poste wrote anything.
    Before(&'a Value),
}

impl Own<'_> {
    pub fn has_server(self, group: &str, found: &Value, wanted: &Value) -> bool {
        match self {
            Self::Nothing => false,
            Self::Unlike => !is_alike(found, wanted),
            Self::Before(file) => server(file, group).is_some(),
        }
    }

    pub fn has_hook<'a>(self, event: &str, found: &Value, mut wanted: impl Iterator<Item = &'a Value>) -> bool {
        match self {
            Self::Nothing => false,
            Self::Unlike => !wanted.any(|wanted| hook_word(wanted) == hook_word(found) && is_alike(found, wanted)),
            Self::Before(file) => {
                let list = file.get("hooks").and_then(|hooks| hooks.get(event)?.as_array());
                let hooks = list.into_iter().flatten().flat_map(hooks_in);
                hooks.into_iter().any(|hook| hook_word(hook) == hook_word(found))
            }
        }
    }
}

/// The event that a hook of Poste's is for.
pub fn hook_word(hook: &Value) -> Option<String> {
    event(hook.get("command")?.as_str()?)
}

/// Whether two entries differ at most in the path of Poste, the agent and the office: what `poste setup` was told, not
/// what the user wrote.
fn is_alike(one: &Value, other: &Value) -> bool {
    without_invocation(one) == without_invocation(other)
}

const ENVIRONMENTS: [&str; 2] = ["env", "environment"];
const PASSED: &str = "env_vars";

fn without_invocation(entry: &Value) -> Value {
    let Some(entry) = entry.as_object() else { return entry.clone() };
    let is_ours = |name: &str| [AGENT, HOME].contains(&name);
    let keep = |(key, value): (&String, &Value)| {
        let value = match (key.as_str(), value) {
            ("command", Value::Array(words)) => words.iter().skip(1).cloned().collect(),
            ("command", _) => return None,
            (key, Value::Object(set)) if ENVIRONMENTS.contains(&key) => {
                let rest: Map<String, Value> = set
                    .iter()
                    .filter(|(name, _)| !is_ours(name))
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect();
                if rest.is_empty() {
                    return None;
                }
                rest.into()
            }
            (PASSED, Value::Array(names)) => {
                names.iter().filter(|name| !name.as_str().is_some_and(is_ours)).cloned().collect()
            }
            _ => value.clone(),
        };
        Some((key.clone(), value))
    };
    Value::Object(entry.iter().filter_map(keep).collect())
}

/// The existing entry, changed to start Poste as wanted. Everything else in it stays.
pub fn merged(found: &Value, wanted: &Value) -> Value {
    let (Some(found), Some(wanted)) = (found.as_object(), wanted.as_object()) else { return wanted.clone() };
    let mut entry = found.clone();
    match (entry.get_mut("command"), wanted.get("command")) {
        (Some(Value::Array(words)), Some(Value::Array(wanted))) => {
            words.splice(..1.min(words.len()), wanted.first().cloned());
        }
        (Some(command), Some(wanted)) => *command = wanted.clone(),
        _ => {}
    }
    for key in ENVIRONMENTS {
        let wanted = wanted.get(key).and_then(Value::as_object);
        if wanted.is_some() && !entry.contains_key(key) {
            entry.insert(key.to_owned(), Value::Object(Map::new()));
        }
        let Some(set) = entry.get_mut(key).and_then(Value::as_object_mut) else { continue };
        set.retain(|name, _| ![AGENT, HOME].contains(&name.as_str()));
        set.extend(wanted.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
        let names: Vec<String> = set.keys().cloned().collect();
        // A variable that is set must not be passed through as well.
        if let Some(Value::Array(passed)) = entry.get_mut(PASSED) {
            passed.retain(|name| !name.as_str().is_some_and(|name| names.iter().any(|set| set == name)));
        }
    }
    Value::Object(entry)
}

fn is_poste(command: &str) -> bool {
    command.rsplit('/').next().is_some_and(|name| name == "poste" || name.starts_with("poste-"))
}
