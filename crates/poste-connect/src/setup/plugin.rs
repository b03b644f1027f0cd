//! The plugin for Claude Code: server, hooks, commands and skill in one folder.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::json::Edit;
use super::programs::hooks;
use super::{Invocation, Target, What, texts};
use poste_verbs::program::Program;

pub fn targets(folder: &Path, poste: &Invocation, version: &str) -> Vec<Target> {
    let mut targets = Vec::new();
    let mut put = |path: &str, text: String| {
        targets.push(Target { path: folder.join(path), what: What::Whole(text), below: Some(folder.to_owned()) });
    };
    put(".claude-plugin/plugin.json", pretty(&manifest(version)));
    put(".mcp.json", pretty(&servers(poste)));
    put("hooks/hooks.json", pretty(&hook_file(poste)));
    put("skills/poste/SKILL.md", texts::skill());
    put("README.md", texts::PLUGIN_README.to_owned());
    for (name, text) in texts::COMMANDS {
        put(&format!("commands/{name}.md"), text.to_owned());
    }
    targets
}

fn manifest(version: &str) -> Value {
    json!({
        "name": "poste",
        "version": version,
        "description": "The post office for AI agents: durable mail with claims and receipts, mid-turn",
        "author": { "name": "Poste" },
        "license": "MIT OR Apache-2.0",
        "keywords": ["agents", "mail", "mcp", "hooks"],
    })
}

fn servers(poste: &Invocation) -> Value {
    let mut entry = json!({ "command": poste.poste, "args": ["mcp"] });
    let set = poste.environment();
    if !set.is_empty() {
        entry["env"] = set.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
    }
    json!({ "mcpServers": { "poste": entry } })
}

fn hook_file(poste: &Invocation) -> Value {
    let hooks = hooks(Program::ClaudeCode, poste).into_iter().filter_map(|edit| match edit {
        Edit::Hook { event, value } => Some((event.to_owned(), json!([value]))),
        _ => None,
    });
    json!({ "description": "Brings mail into the session", "hooks": hooks.collect::<Map<String, Value>>() })
}

fn pretty(value: &Value) -> String {
    // Formatting texts and numbers cannot fail.
    format!("{value:#}\n")
}
