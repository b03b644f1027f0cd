//! How each program is installed, configured and started.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::Result;
use crate::rig::Rig;

/// Claude Code remembers an approved key by its last 20 characters.
const KEY: &str = "sk-ant-scripted-0123456789-0123456789-0123456789";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Program {
    ClaudeCode,
    Codex,
    Gemini,
    #[value(name = "opencode")]
    OpenCode,
    Aider,
}

impl Program {
    pub const ALL: [Self; 5] = [Self::ClaudeCode, Self::Codex, Self::Gemini, Self::OpenCode, Self::Aider];

    /// Whether its set-up is tested, too. For the others, only runs by a dispatcher are.
    pub fn is_set_up(self) -> bool {
        !matches!(self, Self::OpenCode | Self::Aider)
    }

    /// Its name for `poste setup`.
    pub fn word(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::OpenCode => "opencode",
            Self::Aider => "aider",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::OpenCode => "OpenCode",
            Self::Aider => "aider",
        }
    }

    /// The version that `cargo xtask agents` installs.
    pub fn version(self) -> &'static str {
        match self {
            Self::ClaudeCode => "2.1.325",
            Self::Codex => "0.166.0",
            Self::Gemini => "0.61.0",
            Self::OpenCode => "1.18.33",
            Self::Aider => "0.86.2",
        }
    }

    fn executable(self, tools: &Path) -> PathBuf {
        let place = match self {
            Self::ClaudeCode => "node_modules/.bin/claude",
            Self::Codex => "node_modules/.bin/codex",
            Self::Gemini => "node_modules/.bin/gemini",
            Self::OpenCode => "node_modules/.bin/opencode",
            Self::Aider => "bin/aider",
        };
        let folder = format!("{}-{}", self.word(), self.version());
        tools.join("agents").join(folder).join(place)
    }

    /// The folder of its executable.
    pub fn folder(self, rig: &Rig) -> PathBuf {
        self.executable(rig.tools()).parent().unwrap_or(Path::new("/")).to_owned()
    }

    /// The tool that runs a shell command, and its arguments.
    pub fn shell(self, command: &str) -> (&'static str, Value) {
        match self {
            Self::ClaudeCode => ("Bash", json!({ "command": command, "description": "Wait" })),
            Self::Codex => ("exec_command", json!({ "cmd": command, "yield_time_ms": 30000 })),
            Self::Gemini => ("run_shell_command", json!({ "command": command, "description": "Wait" })),
            Self::OpenCode | Self::Aider => ("bash", json!({ "command": command, "description": "Wait" })),
        }
    }

    /// What a user of the program already has before `poste setup`: a model, a key, and trust in this folder.
    pub fn prepare(self, rig: &Rig) -> Result {
        let home = rig.home();
        match self {
            Self::ClaudeCode => {
                let project = json!({ "hasTrustDialogAccepted": true, "enabledMcpjsonServers": ["poste"] });
                let known = json!({
                    "hasCompletedOnboarding": true, "theme": "dark",
                    "customApiKeyResponses": { "approved": [&KEY[KEY.len() - 20..]], "rejected": [] },
                    "projects": { rig.project().to_string_lossy(): project },
                });
                write(&home.join(".claude.json"), &known.to_string())
            }
            Self::Codex => {
                let config = format!(
                    "model = \"scripted\"\nmodel_provider = \"scripted\"\napproval_policy = \"never\"\n\
                     sandbox_mode = \"danger-full-access\"\n\n\
                     [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{}/v1\"\nenv_key = \"SCRIPTED_KEY\"\n\
                     wire_api = \"responses\"\n\n[projects.\"{}\"]\ntrust_level = \"trusted\"\n",
                    rig.model().url(),
                    rig.project().display()
                );
                write(&home.join(".codex/config.toml"), &config)
            }
            Self::Gemini => {
                let settings = json!({ "security": { "auth": { "selectedType": "gemini-api-key" } } });
                write(&home.join(".gemini/settings.json"), &settings.to_string())
            }
            Self::OpenCode => {
                let options = json!({ "baseURL": format!("{}/v1", rig.model().url()), "apiKey": "scripted" });
                let settings = json!({
                    "model": "anthropic/claude-sonnet-4-5", "small_model": "anthropic/claude-haiku-4-5",
                    "autoupdate": false, "share": "disabled", "provider": { "anthropic": { "options": options } },
                });
                write(&home.join(".config/opencode/opencode.json"), &settings.to_string())
            }
            Self::Aider => Ok(()),
        }
    }

    pub fn environment(self, rig: &Rig) -> Vec<(&'static str, OsString)> {
        let path = [
            rig.tools().join("node-24/node_modules/.bin"),
            rig.poste().parent().unwrap_or(Path::new("/")).to_owned(),
            "/usr/local/bin".into(),
            "/usr/bin".into(),
            "/bin".into(),
        ];
        let path = std::env::join_paths(path).unwrap_or_default();
        let mut all: Vec<(&str, OsString)> = vec![
            ("PATH", path),
            ("HOME", rig.home().into()),
            ("XDG_STATE_HOME", rig.state().into()),
            ("LANG", "C.UTF-8".into()),
            ("TERM", "xterm-256color".into()),
        ];
        let url = OsString::from(rig.model().url());
        match self {
            Self::ClaudeCode => all.extend([
                ("ANTHROPIC_BASE_URL", url),
                ("ANTHROPIC_API_KEY", KEY.into()),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
                ("DISABLE_AUTOUPDATER", "1".into()),
            ]),
            Self::Codex => all.push(("SCRIPTED_KEY", "scripted".into())),
            Self::Gemini => all.extend([
                ("GOOGLE_GEMINI_BASE_URL", url),
                ("GEMINI_API_KEY", "scripted".into()),
                ("GEMINI_CLI_TRUST_WORKSPACE", "true".into()),
            ]),
            Self::OpenCode => {}
            Self::Aider => {
                let base = format!("{}/v1", rig.model().url());
                all.extend([
                    ("AIDER_MODEL", "openai/scripted".into()),
                    ("OPENAI_API_BASE", base.into()),
                    ("OPENAI_API_KEY", "scripted".into()),
                ]);
            }
        }
        all
    }

    /// One turn without a terminal, in a new session or continuing the last one.
    pub fn turn(self, rig: &Rig, prompt: &str, again: bool) -> Vec<OsString> {
        let words: Vec<&str> = match self {
            Self::ClaudeCode => {
                let again = if again { vec!["--continue"] } else { vec![] };
                let allowed = ["--allowedTools", "mcp__poste,Bash,ToolSearch"];
                let output = ["--output-format", "stream-json", "--verbose"];
                [&again[..], &["-p", prompt], &allowed, &output].concat()
            }
            Self::Codex => {
                let exec = ["exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", "--json"];
                let again = if again { vec!["resume", "--last"] } else { vec![] };
                [&exec[..], &again, &[prompt]].concat()
            }
            Self::Gemini => {
                let options = ["-m", "gemini-2.5-flash", "--approval-mode", "yolo", "--output-format", "json"];
                let again = if again { vec!["--resume", "latest"] } else { vec![] };
                [&options[..], &again, &["-p", prompt]].concat()
            }
            Self::OpenCode => {
                let again = if again { vec!["--continue"] } else { vec![] };
                [&["run", "--format", "json"][..], &again, &[prompt]].concat()
            }
            Self::Aider => vec!["--yes-always", "--message", prompt],
        };
        let mut all = vec![self.executable(rig.tools()).into_os_string()];
        all.extend(words.into_iter().map(OsString::from));
        all
    }

    /// With a terminal, for programs that a test can drive that way.
    pub fn at_terminal(self, rig: &Rig) -> Option<Vec<OsString>> {
        (self == Self::ClaudeCode).then(|| {
            let mut all = vec![self.executable(rig.tools()).into_os_string()];
            let options = ["--permission-mode", "default", "--allowedTools", "mcp__poste,Bash,ToolSearch"];
            all.extend(options.map(OsString::from));
            all
        })
    }

    /// The set-up as a user would request it.
    pub fn set_up(self, name: Option<&'static str>) -> Vec<&'static str> {
        let name = name.map(|name| ["--agent", name]);
        ["setup", self.word(), "--scope", "project"].into_iter().chain(name.into_iter().flatten()).collect()
    }
}

fn write(path: &Path, text: &str) -> Result {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
    fs::write(path, text).map_err(failed)
}
