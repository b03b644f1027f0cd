//! Texts that set-up writes, for agents to read and for programs to run.

use super::Invocation;
use super::seal::seal;

/// The six verbs, in less than 400 tokens, because it is in every context.
const VERBS: &str = include_str!("texts/verbs.md");
const SKILL_HEAD: &str = include_str!("texts/skill-head.md");
const OPEN_CODE_PLUGIN: &str = include_str!("texts/opencode.js");

pub const PLUGIN_README: &str = include_str!("texts/plugin-readme.md");

/// The slash commands of the plugin, by name.
pub const COMMANDS: [(&str, &str); 5] = [
    ("inbox", include_str!("texts/commands/inbox.md")),
    ("handoff", include_str!("texts/commands/handoff.md")),
    ("workflow-dispatch", include_str!("texts/commands/workflow-dispatch.md")),
    ("start-session", include_str!("texts/commands/start-session.md")),
    ("close-session", include_str!("texts/commands/close-session.md")),
];

/// A section for programs without skills.
pub fn section() -> String {
    format!("## Poste: mail between agents\n\n{}", VERBS.trim())
}

/// A skill, which an agent reads when it needs it.
pub fn skill() -> String {
    seal(&format!("{SKILL_HEAD}\n# Mail between agents\n\n{}\n\n", VERBS.trim()), "<!-- ", " -->")
}

/// OpenCode runs no hook commands: a plugin runs them.
pub fn open_code_plugin(poste: &Invocation) -> String {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let set: Vec<String> =
        poste.environment().into_iter().map(|(name, value)| format!("{name}: {}", text(value))).collect();
    let set = if set.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", set.join(", ")) };
    seal(&OPEN_CODE_PLUGIN.replace("\"POSTE\"", &text(&poste.poste)).replace("\"ENVIRONMENT\"", &set), "// ", "")
}
