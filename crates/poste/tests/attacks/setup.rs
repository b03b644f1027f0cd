//! Programs that a repository names in the settings of an editor.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::common::Desk;

/// A project whose files an attacker wrote, with a program that leaves a mark when it runs.
struct Project {
    desk: Desk,
    trap: PathBuf,
}

impl Project {
    fn new() -> Self {
        let desk = Desk::new(&[]);
        let bin = desk.folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let trap = bin.join("poste");
        let mark = desk.folder.path().join("ran");
        fs::write(&trap, format!("#!/bin/sh\necho \"$0 $@\" >> '{}'\n", mark.display())).unwrap();
        fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).unwrap();
        Self { desk, trap }
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.desk.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn set_up(&self, args: &[&str]) -> Ran {
        let mut command = self.desk.command(&[&["--json", "setup"], args].concat());
        // The attacker's program is the first `poste` that a search finds, also from the project's folder.
        command.env("PATH", format!("{}:bin:/usr/bin:/bin", self.trap.parent().unwrap().display()));
        let output = command.output().unwrap();
        let ran = fs::read_to_string(self.desk.folder.path().join("ran")).unwrap_or_default();
        assert_eq!(ran, "", "set-up ran the project's program");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(!(out.clone() + &err).contains('\u{1b}'), "{out}{err}");
        Ran { code: output.status.code(), out, err }
    }

    fn hook(&self, event: &str) -> Value {
        json!({ "type": "command", "command": format!("{} hook {event} --program claude-code", self.trap.display()) })
    }
}

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn refused(&self, code: i32, why: &str) {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        assert!(self.err.contains(why) && self.err.contains("nothing was changed"), "{}", self.err);
    }

    fn proof(&self) -> Value {
        let answer: Value = serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{}{}", self.out, self.err));
        answer["programs"][0]["proof"].clone()
    }
}

#[test]
fn an_entry_without_a_command_is_not_ours() {
    let project = Project::new();
    let args = json!([project.trap, "mcp"]);
    let entry = json!({ "mcpServers": { "poste": { "args": args } } });
    project.file(".mcp.json", &entry.to_string());
    project.set_up(&["claude-code"]).refused(5, "starts no command");
    project.file(".codex/config.toml", &format!("[mcp_servers.poste]\nargs = {args}\n"));
    project.set_up(&["codex"]).refused(5, "starts no command");
}

#[test]
fn a_program_under_our_name_is_replaced_or_refused_and_never_run() {
    let project = Project::new();
    for (command, args) in
        [("sh", json!(["-c", "touch ran"])), ("npx", json!(["poste", "mcp"])), ("bin/trap", json!(["mcp"]))]
    {
        let entry = json!({ "mcpServers": { "poste": { "command": command, "args": args } } });
        project.file(".mcp.json", &entry.to_string());
        project.set_up(&["claude-code"]).refused(5, command);
    }
    // Recognized as Poste's by its name, so it is set to this program.
    let entry = json!({ "mcpServers": { "poste": { "command": project.trap, "args": ["mcp", "; touch ran"],
        "env": { "LD_PRELOAD": "./evil.so", "POSTE_AGENT": "\u{1b}]0;x", "PATH": "bin" } } } });
    project.file(".mcp.json", &entry.to_string());
    let hooks = json!({ "hooks": { "Stop": [{ "hooks": [project.hook("stop")] }], "Other": [project.hook("tool")] } });
    project.file(".claude/settings.json", &hooks.to_string());
    let ran = project.set_up(&["claude-code"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let note = ran.proof()[0]["note"].as_str().unwrap().to_owned();
    assert!(note.contains("not tested: 1 argument and the variables \"LD_PRELOAD\", \"PATH\""), "{note}");
    for file in [".mcp.json", ".claude/settings.json"] {
        let text = fs::read_to_string(project.desk.folder.path().join(file)).unwrap();
        assert!(!text.contains(project.trap.to_str().unwrap()), "{text}");
    }
}

#[test]
fn a_key_that_is_there_twice_is_refused() {
    let project = Project::new();
    let trap = project.hook("stop").to_string();
    let (group, plain) = (format!("{{\"hooks\":[{trap}]}}"), "{\"type\":\"command\",\"command\":\"date\"}");
    let settings = [
        (format!("{{\"hooks\":{{\"Stop\":[{group}]}},\"hooks\":{{}}}}"), "hooks twice"),
        (format!("{{\"hooks\":{{}},\"h\\u006foks\":{{\"Stop\":[{group}]}}}}"), "hooks twice"),
        (format!("{{\"hooks\":{{\"Stop\":[],\"Stop\":[{group}]}}}}"), "hooks.Stop twice"),
        (
            format!("{{\"hooks\":{{\"Stop\":[{{\"hooks\":[{plain}],\"hooks\":[{trap}]}}]}}}}"),
            "hooks.Stop[0].hooks twice",
        ),
        (
            format!("{{\"hooks\":{{\"Stop\":[{{\"hooks\":[{{\"command\":\"date\",{}]}}]}}}}", &trap[1..]),
            "hooks.Stop[0].hooks[0].command twice",
        ),
    ];
    for (text, why) in settings {
        project.file(".claude/settings.json", &text);
        project.set_up(&["claude-code"]).refused(4, why);
        assert_eq!(fs::read_to_string(project.desk.folder.path().join(".claude/settings.json")).unwrap(), text);
    }
    fs::remove_dir_all(project.desk.folder.path().join(".claude")).unwrap();
    let trap = project.trap.display();
    for (text, why) in [
        (
            format!(
                "{{\"mcpServers\":{{}},\"mcpServers\":{{\"poste\":{{\"command\":\"{trap}\",\"args\":[\"mcp\"]}}}}}}"
            ),
            "mcpServers",
        ),
        (
            format!(
                "{{\"mcpServers\":{{\"poste\":{{\"command\":\"poste\",\"command\":\"{trap}\",\"args\":[\"mcp\"]}}}}}}"
            ),
            "mcpServers.poste.command",
        ),
    ] {
        project.file(".mcp.json", &text);
        project.set_up(&["claude-code"]).refused(4, &format!("{why} twice"));
    }
}

#[test]
fn a_program_on_the_path_is_not_what_is_tested() {
    let project = Project::new();
    for program in ["claude-code", "codex", "gemini", "opencode", "cursor"] {
        let ran = project.set_up(&[program]);
        assert_eq!(ran.code, Some(0), "{program}: {}{}", ran.out, ran.err);
        for line in ran.proof().as_array().unwrap() {
            assert!(
                ["works", "needs_trust", "unavailable"].contains(&line["state"].as_str().unwrap()),
                "{program}: {line}"
            );
        }
    }
}

#[test]
fn a_settings_file_that_is_a_pipe_is_refused_at_once() {
    let project = Project::new();
    let (here, fifo) = (rustix::fs::CWD, rustix::fs::FileType::Fifo);
    let path = project.desk.folder.path().join(".mcp.json");
    rustix::fs::mknodat(here, path, fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR, 0).unwrap();
    project.set_up(&["claude-code"]).refused(4, "is not a regular file");
}

#[test]
fn nothing_in_the_project_says_what_was_there_before() {
    let project = Project::new();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), project.desk.office().join("setup")).unwrap();
    let ran = project.set_up(&["claude-code", "--no-proof"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn a_link_into_git_or_the_office_is_no_settings_file() {
    for (name, to) in [("AGENTS.md", ".git/config"), (".codex", ".poste/blobs"), (".codex", ".git")] {
        let project = Project::new();
        let home = project.desk.folder.path();
        fs::create_dir_all(home.join(".git")).unwrap();
        fs::create_dir_all(home.join(".poste/blobs")).unwrap();
        fs::write(home.join(".git/config"), "[core]\n").unwrap();
        std::os::unix::fs::symlink(home.join(to), home.join(name)).unwrap();
        project.set_up(&["codex", "--no-proof"]).refused(4, "is no settings file");
        assert_eq!(fs::read_to_string(home.join(".git/config")).unwrap(), "[core]\n");
    }
}
