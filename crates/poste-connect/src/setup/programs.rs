//! The files and entries of each program. All differences between their formats are here.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::json::Edit;
use super::{Invocation, Scope, Target, What, ours, texts, toml};
use poste_verbs::program::Program;

/// Where the files of programs are.
#[derive(Debug, Clone)]
pub struct Places {
    /// The top of the project.
    pub project: PathBuf,
    pub home: PathBuf,
    /// The settings folders of programs, where their variables name one.
    pub claude: Option<PathBuf>,
    pub codex: Option<PathBuf>,
    pub gemini: Option<PathBuf>,
    pub config: Option<PathBuf>,
    state: Option<PathBuf>,
}

impl Places {
    /// Reads the variables that the programs themselves use.
    pub fn new(project: PathBuf, home: PathBuf, variable: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
        Self {
            project,
            home,
            claude: absolute("CLAUDE_CONFIG_DIR"),
            codex: absolute("CODEX_HOME"),
            gemini: absolute("GEMINI_CLI_HOME"),
            config: absolute("XDG_CONFIG_HOME"),
            state: absolute("XDG_STATE_HOME"),
        }
    }

    /// The user's folder for the state of programs.
    pub fn state(&self) -> PathBuf {
        self.state.clone().unwrap_or_else(|| self.home.join(".local/state"))
    }

    /// The folder of a program's settings.
    pub fn folder(&self, program: Program, scope: Scope) -> PathBuf {
        let name = match program {
            Program::ClaudeCode => ".claude",
            Program::Codex => ".codex",
            Program::Gemini => ".gemini",
            Program::OpenCode => ".opencode",
            Program::Cursor => ".cursor",
        };
        if scope == Scope::Project {
            return self.project.join(name);
        }
        match program {
            Program::ClaudeCode => self.claude.clone().unwrap_or_else(|| self.home.join(name)),
            Program::Codex => self.codex.clone().unwrap_or_else(|| self.home.join(name)),
            Program::Gemini => self.gemini.as_ref().unwrap_or(&self.home).join(name),
            Program::OpenCode => self.config.clone().unwrap_or_else(|| self.home.join(".config")).join("opencode"),
            Program::Cursor => self.home.join(name),
        }
    }
}

/// The commands that start a program.
pub fn binaries(program: Program) -> &'static [&'static str] {
    match program {
        Program::ClaudeCode => &["claude"],
        Program::Codex => &["codex"],
        Program::Gemini => &["gemini"],
        Program::OpenCode => &["opencode"],
        Program::Cursor => &["cursor-agent", "cursor"],
    }
}

/// The events of `poste hook`, each with the program's own name for it. Not every program has all of them.
pub fn events(program: Program) -> &'static [(&'static str, &'static str)] {
    match program {
        Program::ClaudeCode => &[
            ("SessionStart", "session-start"),
            ("UserPromptSubmit", "prompt"),
            ("PostToolUse", "tool"),
            ("Stop", "stop"),
            ("SessionEnd", "session-end"),
        ],
        // Codex has no hook for the end of a session.
        Program::Codex => &[
            ("SessionStart", "session-start"),
            ("UserPromptSubmit", "prompt"),
            ("PostToolUse", "tool"),
            ("Stop", "stop"),
        ],
        Program::Gemini => &[
            ("SessionStart", "session-start"),
            ("BeforeAgent", "prompt"),
            ("AfterTool", "tool"),
            ("AfterAgent", "stop"),
            ("SessionEnd", "session-end"),
        ],
        Program::OpenCode => &[
            ("session.created", "session-start"),
            ("chat.message", "prompt"),
            ("tool.execute.after", "tool"),
            ("session.idle", "stop"),
            ("session.deleted", "session-end"),
        ],
        Program::Cursor => &[
            ("sessionStart", "session-start"),
            ("beforeSubmitPrompt", "prompt"),
            ("postToolUse", "tool"),
            ("stop", "stop"),
            ("sessionEnd", "session-end"),
        ],
    }
}

/// The program ends a hook after this time; none of Poste's should ever take that long.
const HOOK_SECONDS: u64 = 30;
/// The end of a session must not take long.
const END_SECONDS: u64 = 5;
/// With the default of ten minutes, an idle session would be left without a waiter.
const WAITER_SECONDS: u64 = 86_400;
/// Long, because `wait_for_mail` waits as long as its arguments say.
const TOOL_SECONDS: u64 = 600;

/// All files and entries of a program.
pub fn targets(program: Program, scope: Scope, places: &Places, poste: &Invocation) -> Vec<Target> {
    let folder = places.folder(program, scope);
    let mut targets = Vec::new();
    let mut put = |path: PathBuf, what: What| {
        let below = (scope == Scope::Project).then(|| places.project.clone());
        targets.push(Target { path, what, below });
    };
    match program {
        Program::ClaudeCode => {
            let file = match (scope, &places.claude) {
                (Scope::Project, _) => places.project.join(".mcp.json"),
                (Scope::User, Some(folder)) => folder.join(".claude.json"),
                (Scope::User, None) => places.home.join(".claude.json"),
            };
            put(file, What::Json(vec![server("mcpServers", stdio(poste))]));
            put(folder.join("settings.json"), What::Json(hooks(program, poste)));
            put(folder.join("skills/poste/SKILL.md"), What::Sealed(texts::skill()));
        }
        Program::Codex => {
            let entry = toml::Edit { group: "mcp_servers", value: codex_server(poste) };
            put(folder.join("config.toml"), What::Toml(entry));
            put(folder.join("hooks.json"), What::Json(hooks(program, poste)));
            let notes = if scope == Scope::Project { &places.project } else { &folder };
            put(notes.join("AGENTS.md"), What::Section(texts::section()));
        }
        Program::Gemini => {
            let mut edits = vec![server("mcpServers", gemini_server(poste))];
            edits.extend(hooks(program, poste));
            put(folder.join("settings.json"), What::Json(edits));
            let notes = if scope == Scope::Project { &places.project } else { &folder };
            put(notes.join("GEMINI.md"), What::Section(texts::section()));
        }
        Program::OpenCode => {
            let notes = if scope == Scope::Project { &places.project } else { &folder };
            put(open_code_file(notes), What::Json(vec![server("mcp", open_code_server(poste))]));
            put(folder.join("plugins/poste.js"), What::Sealed(texts::open_code_plugin(poste)));
            put(notes.join("AGENTS.md"), What::Section(texts::section()));
        }
        Program::Cursor => {
            put(folder.join("mcp.json"), What::Json(vec![server("mcpServers", stdio(poste))]));
            let mut edits = vec![Edit::Default { key: "version", value: json!(1) }];
            edits.extend(hooks(program, poste));
            put(folder.join("hooks.json"), What::Json(edits));
            // Cursor keeps a user's rules in the program, not in a file.
            if scope == Scope::Project {
                put(places.project.join("AGENTS.md"), What::Section(texts::section()));
            }
        }
    }
    targets
}

/// OpenCode reads either name, and people have either.
fn open_code_file(folder: &Path) -> PathBuf {
    let [plain, with_comments] = ["opencode.json", "opencode.jsonc"].map(|name| folder.join(name));
    match with_comments.symlink_metadata().is_ok() && plain.symlink_metadata().is_err() {
        true => with_comments,
        false => plain,
    }
}

fn server(group: &'static str, value: Value) -> Edit {
    Edit::Server { group, value }
}

fn environment(poste: &Invocation) -> Option<Value> {
    let set: Map<String, Value> =
        poste.environment().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    (!set.is_empty()).then_some(Value::Object(set))
}

fn stdio(poste: &Invocation) -> Value {
    let mut entry = json!({ "type": "stdio", "command": poste.poste, "args": ["mcp"] });
    if let Some(set) = environment(poste) {
        entry["env"] = set;
    }
    entry
}

fn gemini_server(poste: &Invocation) -> Value {
    let mut entry = json!({ "command": poste.poste, "args": ["mcp"], "timeout": TOOL_SECONDS * 1000 });
    if let Some(set) = environment(poste) {
        entry["env"] = set;
    }
    entry
}

/// Codex scrubs the environment of its servers, and passes only `env_vars` through.
fn codex_server(poste: &Invocation) -> Value {
    let mut entry = json!({
        "command": poste.poste,
        "args": ["mcp"],
        "env_vars": ["POSTE_AGENT", "POSTE_SESSION", "POSTE_HOME"],
        "tool_timeout_sec": TOOL_SECONDS,
    });
    if let Some(set) = environment(poste) {
        // A variable that is set here must not be passed through as well.
        let through = entry["env_vars"].as_array_mut();
        through
            .into_iter()
            .for_each(|names| names.retain(|name| name.as_str().is_none_or(|name| set.get(name).is_none())));
        entry["env"] = set;
    }
    entry
}

fn open_code_server(poste: &Invocation) -> Value {
    let mut entry = json!({ "type": "local", "command": [poste.poste, "mcp"], "enabled": true });
    if let Some(set) = environment(poste) {
        entry["environment"] = set;
    }
    entry
}

/// The hooks of a program that keeps them in JSON.
pub fn hooks(program: Program, poste: &Invocation) -> Vec<Edit> {
    let edit =
        |&(event, word): &(&'static str, &'static str)| Edit::Hook { event, value: hook(program, poste, event, word) };
    events(program).iter().map(edit).collect()
}

fn gemini_name(word: &str) -> String {
    format!("poste-{word}")
}

fn hook(program: Program, poste: &Invocation, event: &str, word: &str) -> Value {
    let seconds = if word == "session-end" { END_SECONDS } else { HOOK_SECONDS };
    let command = poste.hook(word, program);
    match program {
        Program::Cursor => json!({ "command": command, "timeout": seconds }),
        Program::Gemini => {
            let hook =
                json!({ "name": gemini_name(word), "type": "command", "command": command, "timeout": seconds * 1000 });
            json!({ "hooks": [hook] })
        }
        Program::ClaudeCode | Program::Codex | Program::OpenCode => {
            let mut hooks = vec![json!({ "type": "command", "command": command, "timeout": seconds })];
            if program == Program::ClaudeCode && matches!(event, "SessionStart" | "Stop") {
                hooks.push(json!({
                    "type": "command",
                    "command": poste.hook("wait", program),
                    "asyncRewake": true,
                    "timeout": WAITER_SECONDS,
                }));
            }
            json!({ "hooks": hooks })
        }
    }
}

/// The setting in a file of the program that switches hooks off, as written there.
pub fn hooks_off(program: Program, file: &Value) -> Option<&'static str> {
    let switches: &[(&str, bool, &'static str)] = match program {
        Program::ClaudeCode => &[("/disableAllHooks", true, "disableAllHooks is true")],
        Program::Codex => &[
            ("/features/hooks", false, "features.hooks is false"),
            ("/features/codex_hooks", false, "features.codex_hooks is false"),
        ],
        Program::Gemini => &[("/hooksConfig/enabled", false, "hooksConfig.enabled is false")],
        Program::OpenCode | Program::Cursor => &[],
    };
    let off = switches.iter().find(|(path, off, _)| file.pointer(path) == Some(&json!(off)));
    off.map(|(_, _, words)| *words).or_else(|| {
        let disabled = file.pointer("/hooksConfig/disabled").filter(|_| program == Program::Gemini)?.as_array()?;
        // A hook is listed by its name or by its command.
        let is_name = |name: &str| events(program).iter().any(|(_, word)| name == gemini_name(word));
        let is_ours = |name: &str| is_name(name) || ours::event(name).is_some();
        let is_disabled = disabled.iter().filter_map(Value::as_str).any(is_ours);
        is_disabled.then_some("hooksConfig.disabled names a hook of Poste's")
    })
}

/// The setting in a file of the program that switches the server off.
pub fn server_off(program: Program, file: &Value) -> Option<&'static str> {
    let names = |path: &str| Some(file.pointer(path)?.as_array()?.iter().any(|name| name == super::json::SERVER));
    let is_off = |path: &str| file.pointer(path) == Some(&json!(false));
    match program {
        Program::ClaudeCode if names("/disabledMcpjsonServers") == Some(true) => {
            Some("disabledMcpjsonServers names poste")
        }
        Program::Codex if is_off("/mcp_servers/poste/enabled") => Some("mcp_servers.poste.enabled is false"),
        Program::Gemini if names("/mcp/excluded") == Some(true) => Some("mcp.excluded names poste"),
        Program::Gemini if names("/mcp/allowed") == Some(false) => Some("mcp.allowed does not name poste"),
        Program::OpenCode if is_off("/mcp/poste/enabled") => Some("mcp.poste.enabled is false"),
        _ => None,
    }
}

/// What the user has to confirm before a program uses what was written.
pub fn trust(program: Program, scope: Scope) -> Option<&'static str> {
    match (program, scope) {
        (Program::ClaudeCode, Scope::Project) => {
            Some("start claude here once, trust the folder and allow the server poste")
        }
        (Program::Codex, Scope::Project) => {
            Some("start codex here once and trust the folder; then /hooks, and trust each hook of poste")
        }
        (Program::Codex, Scope::User) => Some("start codex once; then /hooks, and trust each hook of poste"),
        (Program::Gemini, Scope::Project) => Some("start gemini here once and trust the folder"),
        (Program::Cursor, Scope::Project) => Some("open the folder in Cursor, trust it and enable the server poste"),
        (Program::ClaudeCode | Program::Gemini | Program::Cursor, Scope::User) | (Program::OpenCode, _) => None,
    }
}
