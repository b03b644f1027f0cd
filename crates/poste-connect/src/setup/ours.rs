//! What in a file of another program is Poste's: told by what it would run, so it is found whoever wrote it there.

use serde_json::Value;

use super::json;
use super::shell;

/// A server entry that starts `poste mcp`.
pub fn is_server(entry: &Value) -> bool {
    let words = server_words(entry);
    matches!(words.as_slice(), [poste, mcp, ..] if is_poste(poste) && mcp == "mcp")
}

/// What a server entry starts: a command with arguments, or both in one list.
pub fn server_words(entry: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let list = |value: &Value| value.as_array().map(|list| list.iter().filter_map(text).collect::<Vec<_>>());
    let command = match entry.get("command") {
        Some(Value::String(command)) => vec![command.clone()],
        Some(value) => list(value).unwrap_or_default(),
        None => Vec::new(),
    };
    command.into_iter().chain(entry.get("args").and_then(list).unwrap_or_default()).collect()
}

/// A hook that runs `poste hook …`.
pub fn is_hook(hook: &Value) -> bool {
    hook.get("command").and_then(Value::as_str).is_some_and(|command| event(command).is_some())
}

/// Poste's hooks in an element of an event's list: those of a group, or the one it is.
pub fn hooks_in(element: &Value) -> Vec<&Value> {
    match element.get("hooks").and_then(Value::as_array) {
        Some(group) => group.iter().filter(|hook| is_hook(hook)).collect(),
        None => Some(element).filter(|hook| is_hook(hook)).into_iter().collect(),
    }
}

/// Every command of Poste's among the hooks of a file.
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

fn is_poste(command: &str) -> bool {
    command.rsplit('/').next().is_some_and(|name| name == "poste" || name.starts_with("poste-"))
}
