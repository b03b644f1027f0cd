//! Set up, set up again, remove: the original bytes come back, whatever they were.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use poste_connect::setup::files::{Change, FileFault, Memory, Outcome, Plan};
use poste_connect::setup::programs::{Places, targets};
use poste_connect::setup::{Invocation, Scope, Target, json};
use poste_verbs::program::Program;
use proptest::prelude::*;
use serde_json::Value;

/// The maximum size of a file, and the mark that may precede its text.
const BYTES_MAX: usize = 16 * 1024 * 1024;
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A home and a project in a folder of its own.
struct House {
    folder: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        fs::create_dir(folder.path().join("project")).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn memory(&self) -> Memory {
        Memory::new(self.path("state"), self.folder.path())
    }

    fn targets(&self, program: Program, scope: Scope, agent: Option<&str>) -> Vec<Target> {
        let places = Places::new(self.path("project"), self.path("home"), |_| None);
        let poste = Invocation { poste: "poste".into(), agent: agent.map(str::to_owned), office: None };
        targets(program, scope, &places, &poste)
    }

    fn change(&self, targets: &[Target], program: Program, remove: bool) -> Result<Vec<Change>, FileFault> {
        let _lock = self.memory().lock()?;
        let mut plan = Plan::new(self.memory());
        for target in targets {
            if remove { plan.remove(program, target) } else { plan.set_up(program, target) }?;
        }
        plan.carry_out()?;
        Ok(plan.changes())
    }

    fn set_up(&self, program: Program, scope: Scope) -> Result<Vec<Change>, FileFault> {
        self.change(&self.targets(program, scope, None), program, false)
    }

    fn remove(&self, program: Program, scope: Scope) -> Result<Vec<Change>, FileFault> {
        self.change(&self.targets(program, scope, None), program, true)
    }

    /// Every file below home and project with its bytes and mode, every link with its target, and every folder.
    fn everything(&self) -> BTreeMap<PathBuf, String> {
        fn walk(folder: &Path, into: &mut BTreeMap<PathBuf, String>) {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                if kind.is_dir() {
                    into.insert(path.clone(), "folder".into());
                    walk(&path, into);
                } else if kind.is_symlink() {
                    into.insert(path.clone(), format!("link to {}", fs::read_link(&path).unwrap().display()));
                } else if kind.is_file() {
                    let mode = entry.metadata().unwrap().permissions().mode();
                    let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                    into.insert(path, format!("{mode:o} {text}"));
                }
            }
        }
        let mut all = BTreeMap::new();
        walk(&self.path("home"), &mut all);
        walk(&self.path("project"), &mut all);
        all
    }
}

fn records(house: &House) -> usize {
    fs::read_dir(house.path("state")).unwrap().flatten().filter(|entry| entry.file_name() != "lock").count()
}

#[test]
fn every_program_comes_and_goes_without_a_trace() {
    for scope in [Scope::Project, Scope::User] {
        let house = House::new();
        let before = house.everything();
        for program in Program::ALL {
            let made = house.set_up(program, scope).unwrap();
            assert!(made.iter().any(Change::is_change), "{program}");
        }
        let set_up = house.everything();
        for program in Program::ALL {
            let again = house.set_up(program, scope).unwrap();
            assert!(again.iter().all(|change| change.outcome == Outcome::Unchanged), "{program}: {again:?}");
        }
        assert_eq!(house.everything(), set_up);
        for program in Program::ALL {
            house.remove(program, scope).unwrap();
        }
        assert_eq!(house.everything(), before, "{scope:?}");
        assert_eq!(records(&house), 0);
    }
}

#[test]
fn a_shared_section_stays_until_the_last_program_goes() {
    let house = House::new();
    house.set_up(Program::Codex, Scope::Project).unwrap();
    house.set_up(Program::OpenCode, Scope::Project).unwrap();
    let left = house.remove(Program::Codex, Scope::Project).unwrap();
    assert_eq!(left.last().unwrap().outcome, Outcome::Kept);
    assert!(house.path("project/AGENTS.md").exists());
    house.remove(Program::OpenCode, Scope::Project).unwrap();
    assert!(!house.path("project/AGENTS.md").exists());
}

#[test]
fn another_name_changes_only_the_entries_and_goes_back_as_well() {
    let house = House::new();
    let original = "{\r\n\t// mine\r\n\t\"mcpServers\": { \"other\": { \"command\": \"x\" } , },\r\n}\r\n";
    house.put("project/.mcp.json", original);
    for agent in [None, Some("coder"), Some("lead"), None] {
        let targets = house.targets(Program::ClaudeCode, Scope::Project, agent);
        house.change(&targets, Program::ClaudeCode, false).unwrap();
        let text = house.text("project/.mcp.json");
        assert_eq!(text.matches("\"poste\":").count(), 1, "{text}");
        assert_eq!(text.contains("POSTE_AGENT"), agent.is_some(), "{text}");
        assert!(!text.replace("\r\n", "").contains('\n'), "a line ends without CR: {text:?}");
    }
    house.remove(Program::ClaudeCode, Scope::Project).unwrap();
    assert_eq!(house.text("project/.mcp.json"), original);
}

#[test]
fn what_somebody_changed_since_is_kept() {
    let house = House::new();
    house.put("project/.mcp.json", "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"a\"}\n  }\n}\n");
    house.set_up(Program::ClaudeCode, Scope::Project).unwrap();
    let changed = house.text("project/.mcp.json").replace("\"command\": \"a\"", "\"command\": \"b\"");
    house.put("project/.mcp.json", changed);
    let settings = house.text("project/.claude/settings.json");
    let mine = r#"{ "type": "command", "command": "date" }, "#;
    house.put(
        "project/.claude/settings.json",
        settings.replacen("\"hooks\": [\n          {", &format!("\"hooks\": [\n          {mine}{{"), 1),
    );
    let skill = house.text("project/.claude/skills/poste/SKILL.md");
    house.put("project/.claude/skills/poste/SKILL.md", skill.replace("Messages", "Letters"));

    let removed = house.remove(Program::ClaudeCode, Scope::Project).unwrap();
    let outcomes: Vec<Outcome> = removed.iter().map(|change| change.outcome).collect();
    assert_eq!(outcomes, [Outcome::TakenOut, Outcome::TakenOut, Outcome::Left]);
    assert_eq!(house.text("project/.mcp.json"), "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"b\"}\n  }\n}\n");
    let settings: Value = serde_json::from_str(&house.text("project/.claude/settings.json")).unwrap();
    let wanted =
        serde_json::json!({ "hooks": { "SessionStart": [{ "hooks": [{ "type": "command", "command": "date" }] }] } });
    assert_eq!(settings, wanted);
}

#[test]
fn entries_are_found_without_anything_being_remembered() {
    let house = House::new();
    let config = "model = \"x\"\n\n[mcp_servers.poste]\ncommand = '/opt/poste'\nargs = ['mcp']\nenv_vars = ['POSTE_SESSION', 'POSTE_HOME']\ntool_timeout_sec = 600\nenv = { POSTE_AGENT = 'ann' }\n";
    house.put("home/.codex/config.toml", config);
    let settings = r#"{"mcpServers":{"poste":{"command":"/opt/poste","args":["mcp"],"timeout":600000}}}"#;
    house.put("home/.gemini/settings.json", settings);
    for program in [Program::Codex, Program::Gemini] {
        house.remove(program, Scope::User).unwrap();
    }
    assert_eq!(house.text("home/.codex/config.toml"), "model = \"x\"\n");
    assert!(!house.path("home/.gemini/settings.json").exists(), "the file had no other content");
}

#[test]
fn what_nobody_remembers_and_poste_does_not_write_so_is_somebodys_own() {
    for (program, file, original, _) in OWN {
        let house = House::new();
        house.put(file, original);
        let before = house.everything();
        for _ in 0..2 {
            let removed = house.remove(program, Scope::Project).unwrap();
            assert_eq!(house.everything(), before);
            assert!(
                removed.iter().any(|change| change.keeps_own && change.outcome == Outcome::Unchanged),
                "{removed:?}"
            );
            // The second time after a set-up and removal.
            house.set_up(program, Scope::Project).unwrap();
            let removed = house.remove(program, Scope::Project).unwrap();
            assert_eq!(house.everything(), before);
            assert!(removed.iter().any(|change| change.keeps_own), "{removed:?}");
        }
    }
}

/// Files that people write themselves, with the parts that must survive the set-up.
const OWN: [(Program, &str, &str, &[&str]); 5] = [
    (
        Program::ClaudeCode,
        "project/.mcp.json",
        r#"{ "mcpServers": { "poste": { "command": "poste", "args": ["mcp"], "env": { "POSTE_AGENT": "coder" } } } }"#,
        &[],
    ),
    (
        Program::ClaudeCode,
        "project/.mcp.json",
        "{\r\n  // mine\r\n  \"mcpServers\": {\r\n    \"poste\": { \"command\": \"/opt/poste\", /* all */ \"args\": [\"mcp\", \"--profile\", \"full\"],\r\n      \"env\": { \"RUST_LOG\": \"info\", /* loud */ }, },\r\n  },\r\n}\r\n",
        &["// mine", "/* all */ \"args\": [\"mcp\", \"--profile\", \"full\"]", "\"RUST_LOG\": \"info\"", "/* loud */"],
    ),
    (
        Program::Codex,
        "project/.codex/config.toml",
        "model = \"x\" # best\r\n\r\n[mcp_servers.poste]\r\ncommand = '/opt/poste'\r\nargs = [\"mcp\", \"--channel\"]\r\nstartup_timeout_sec = 20 # mine\r\n\r\n[mcp_servers.poste.env]\r\nRUST_LOG = 'info'\r\n\r\n[tui] # last\r\n",
        &[
            "model = \"x\" # best\r\n",
            "startup_timeout_sec = 20 # mine\r\n",
            "[tui] # last\r\n",
            "\"--channel\"",
            "RUST_LOG = 'info'",
        ],
    ),
    (
        Program::OpenCode,
        "project/opencode.json",
        r#"{"mcp":{"poste":{"type":"local","command":["/opt/poste","mcp","--channel"],"enabled":true}}}"#,
        &["\"--channel\""],
    ),
    (
        Program::Gemini,
        "project/.gemini/settings.json",
        r#"{"hooks":{"AfterAgent":[{"hooks":[{"type":"command","command":"/opt/poste hook stop --program gemini","timeout":9}, {"command":"date"}]}]}}"#,
        &["\"timeout\":9", "{\"command\":\"date\"}"],
    ),
];

#[test]
fn an_entry_of_somebodys_own_is_used_and_comes_back() {
    for (program, file, original, kept) in OWN {
        for agent in ["coder", "lead"] {
            let house = House::new();
            house.put(file, original);
            let before = house.everything();
            let targets = house.targets(program, Scope::Project, Some(agent));
            house.change(&targets, program, false).unwrap();
            let text = house.text(file);
            assert!(kept.iter().all(|kept| text.contains(kept)), "{text}");
            assert!(text.contains(agent) && !text.contains("/opt/"), "{text}");
            assert!(
                !original.contains('\r') || !text.replace("\r\n", "").contains('\n'),
                "a line ends without CR: {text:?}"
            );
            let again = house.change(&targets, program, false).unwrap();
            assert!(again.iter().all(|change| change.outcome == Outcome::Unchanged), "{again:?}");
            house.remove(program, Scope::Project).unwrap();
            assert_eq!(house.everything(), before, "{file}");
            assert_eq!(records(&house), 0);
        }
    }
}

#[test]
fn an_entry_of_somebodys_own_outlives_a_change_of_its_file() {
    for (program, file, original, kept) in OWN {
        let house = House::new();
        house.put(file, original);
        house.change(&house.targets(program, Scope::Project, Some("lead")), program, false).unwrap();
        house.put(file, format!("{}\n\n", house.text(file)));
        let removed = house.remove(program, Scope::Project).unwrap();
        assert!(house.path(file).exists(), "{removed:?}");
        let text = house.text(file);
        assert!(text.contains("poste") && kept.iter().all(|kept| text.contains(kept)), "{file}: {text}");
    }
}

#[test]
fn what_somebody_changed_in_the_entries_is_not_reset() {
    let house = House::new();
    for program in Program::ALL {
        house.set_up(program, Scope::Project).unwrap();
    }
    for (file, from, to) in [
        ("project/.claude/settings.json", "\"timeout\": 5", "\"timeout\": 55"),
        ("project/.gemini/settings.json", "\"timeout\": 600000", "\"timeout\": 700000"),
        ("project/.codex/config.toml", "tool_timeout_sec = 600", "tool_timeout_sec = 700 # mine"),
        ("project/.cursor/hooks.json", "\"timeout\": 5", "\"timeout\": 55"),
        ("project/AGENTS.md", "**claim**", "**CLAIM**"),
        ("project/GEMINI.md", "**claim**", "**CLAIM**"),
    ] {
        assert!(house.text(file).contains(from), "{file}");
        house.put(file, house.text(file).replace(from, to));
    }
    let changed = house.everything();
    for program in Program::ALL {
        let again = house.set_up(program, Scope::Project).unwrap();
        for change in again {
            let is_text = change.path.extension().is_some_and(|end| end == "md");
            let wanted = if is_text && program != Program::ClaudeCode { Outcome::Left } else { Outcome::Unchanged };
            assert_eq!(change.outcome, wanted, "{change:?}");
        }
    }
    assert_eq!(house.everything(), changed);
    // The same with another name.
    for program in Program::ALL {
        house.change(&house.targets(program, Scope::Project, Some("coder")), program, false).unwrap();
    }
    for (file, kept) in [
        ("project/.claude/settings.json", "\"timeout\": 55"),
        ("project/.codex/config.toml", "tool_timeout_sec = 700 # mine"),
        ("project/AGENTS.md", "**CLAIM**"),
    ] {
        assert!(house.text(file).contains(kept), "{}", house.text(file));
    }
    assert_eq!(house.text("project/.claude/settings.json").matches("POSTE_AGENT=coder poste hook").count(), 7);
    for program in Program::ALL {
        house.remove(program, Scope::Project).unwrap();
    }
    assert_eq!(house.everything(), BTreeMap::new());
}

#[test]
fn hooks_that_are_there_twice_or_at_another_event_are_put_right() {
    let house = House::new();
    house.set_up(Program::ClaudeCode, Scope::Project).unwrap();
    let file = "project/.claude/settings.json";
    let good = house.text(file);
    let stop = r#"{ "type": "command", "command": "poste hook stop --program claude-code", "timeout": 30 }"#;
    house.put(
        file,
        good.replace("\"SessionEnd\": [", &format!("\"SessionEnd\": [\n      {{ \"hooks\": [ {stop}, {stop} ] }},")),
    );
    house.set_up(Program::ClaudeCode, Scope::Project).unwrap();
    assert_eq!(plain(&house.text(file)), plain(&good));
    house.put(file, good.replace("\"Stop\": [", &format!("\"Stop\": [\n      {{ \"hooks\": [ {stop}, {stop} ] }},")));
    house.set_up(Program::ClaudeCode, Scope::Project).unwrap();
    assert_eq!(house.text(file).matches("poste hook stop").count(), 1, "{}", house.text(file));
}

/// The records are kept in the project, as with an office in it.
fn change_all(house: &House, project: &str, remove: bool) -> Vec<Change> {
    let memory = || Memory::new(house.path(project).join(".poste/setup"), &house.path(project));
    let places = Places::new(house.path(project), house.path("home"), |_| None);
    let poste = Invocation { poste: "poste".into(), agent: None, office: None };
    let _lock = memory().lock().unwrap();
    let mut plan = Plan::new(memory());
    for program in Program::ALL {
        for target in targets(program, Scope::Project, &places, &poste) {
            if remove { plan.remove(program, &target) } else { plan.set_up(program, &target) }.unwrap();
        }
    }
    plan.carry_out().unwrap();
    plan.changes()
}

#[test]
fn a_project_that_moved_is_still_known() {
    let house = House::new();
    let original = "{ \"mcpServers\": {}, \"hooks\": { \"Stop\": [] } }";
    house.put("project/.mcp.json", original);
    house.put("project/.claude/settings.json", original);
    change_all(&house, "project", false);
    fs::rename(house.path("project"), house.path("moved")).unwrap();
    let removed = change_all(&house, "moved", true);
    let outcomes: BTreeSet<&str> = removed
        .iter()
        .map(|change| match change.outcome {
            Outcome::Restored => "restored",
            Outcome::Removed => "removed",
            _ => panic!("{change:?}"),
        })
        .collect();
    assert_eq!(outcomes.len(), 2);
    assert_eq!(house.text("moved/.mcp.json"), original);
    assert_eq!(house.text("moved/.claude/settings.json"), original);
    let left: Vec<_> = fs::read_dir(house.path("moved")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(!house.path("moved/.claude/skills").exists());
}

#[test]
fn what_nobody_remembers_is_taken_out_without_leaving_shells() {
    let house = House::new();
    house.put("project/opencode.json", "{\n  \"theme\": \"x\"\n}\n");
    let before = house.everything();
    for renewed in [false, true] {
        change_all(&house, "project", false);
        fs::remove_dir_all(house.path("project/.poste")).unwrap();
        if renewed {
            // With another path to Poste, the entries are written again.
            let file = "project/.claude/settings.json";
            house.put(file, house.text(file).replace("poste hook", "/opt/poste hook"));
            change_all(&house, "project", false);
        }
        let removed = change_all(&house, "project", true);
        assert!(removed.iter().all(|change| change.is_change()), "{removed:?}");
        assert!(
            removed.iter().all(|change| change.outcome
                == if change.path.ends_with("opencode.json") { Outcome::TakenOut } else { Outcome::Removed }),
            "{removed:?}"
        );
        assert_eq!(removed.iter().filter(|change| change.is_recorded).count(), usize::from(renewed));
        fs::remove_dir_all(house.path("project/.poste")).unwrap();
        assert_eq!(house.everything(), before);
    }
}

fn refused(house: &House, program: Program, scope: Scope) -> FileFault {
    let before = house.everything();
    let fault = house.set_up(program, scope).unwrap_err();
    assert_eq!(house.everything(), before, "{fault}");
    assert_eq!(records(house), 0);
    fault
}

#[test]
fn what_cannot_be_set_up_is_named_and_nothing_is_touched() {
    for (program, file, bytes, why) in [
        (Program::ClaudeCode, "project/.claude/settings.json", &b"{ \"hooks\": { }"[..], "is not valid JSON"),
        (Program::ClaudeCode, "project/.claude/settings.json", b"[]", "not an object"),
        (Program::ClaudeCode, "project/.mcp.json", b"{ 'a': 1 }", "is not valid JSON"),
        (Program::ClaudeCode, "project/.mcp.json", b"\xff\xfe{}", "is not valid UTF-8"),
        (Program::ClaudeCode, "project/.mcp.json", b"{\"mcpServers\": []}", "mcpServers that is not an object"),
        (Program::ClaudeCode, "project/.mcp.json", b"{\"mcpServers\": {}, \"mcpServers\": {}}", "mcpServers twice"),
        (
            Program::ClaudeCode,
            "project/.mcp.json",
            b"{\"mcpServers\": {\"poste\": {\"command\": \"npx\", \"args\": [\"x\"]}}}",
            "not Poste's: it starts \"npx\"",
        ),
        (
            Program::ClaudeCode,
            "project/.claude/settings.json",
            b"{\"hooks\": {\"Stop\": {}}}",
            "hooks.Stop that is not a list",
        ),
        (Program::Codex, "project/.codex/config.toml", b"a = 1\nb = = 2\n", "is not valid TOML: "),
        (
            Program::Codex,
            "project/.codex/config.toml",
            b"mcp_servers = { a = { command = 'x' } }\n",
            "cannot be extended",
        ),
        (Program::Codex, "project/.codex/config.toml", b"[mcp_servers.poste]\nurl = 'http://x'\n", "not Poste's"),
        (Program::Codex, "project/AGENTS.md", b"<!-- poste: end -->\n", "marks"),
        (Program::Gemini, "project/.gemini", b"a file", "is not a folder"),
    ] {
        let house = House::new();
        house.put(file, bytes);
        let fault = refused(&house, program, Scope::Project);
        assert!(fault.to_string().contains(why), "{file}: {fault}");
    }
}

#[test]
fn deep_and_large_files_are_refused_in_good_time() {
    let house = House::new();
    house.put("project/.mcp.json", "[".repeat(1_000_000));
    assert!(refused(&house, Program::ClaudeCode, Scope::Project).to_string().contains("is not valid JSON"));
    house.put("project/.mcp.json", format!("{{\"a\":{}1{}}}", "[".repeat(400), "]".repeat(400)));
    house.set_up(Program::ClaudeCode, Scope::Project).unwrap();
    let house = House::new();
    house.put("project/.mcp.json", vec![b' '; BYTES_MAX + 1]);
    assert!(refused(&house, Program::ClaudeCode, Scope::Project).to_string().contains("larger than"));
}

#[test]
fn a_large_file_of_another_program_keeps_every_byte() {
    let house = House::new();
    let projects: Vec<String> =
        (0..20_000).map(|number| format!("    \"/home/ann/{number}\": {{ \"history\": [\"{number}\"] }}")).collect();
    let original = format!("{{\n  \"projects\": {{\n{}\n  }},\n  \"last\": 1.50e3\n}}", projects.join(",\n"));
    house.put("home/.claude.json", &original);
    house.set_up(Program::ClaudeCode, Scope::User).unwrap();
    assert!(house.text("home/.claude.json").starts_with(original.trim_end_matches("\n}")));
    house.remove(Program::ClaudeCode, Scope::User).unwrap();
    assert_eq!(house.text("home/.claude.json"), original);
}

#[test]
fn links_stay_links_and_lead_nowhere_else() {
    let house = House::new();
    let dotfile = house.put("home/dotfiles/claude.json", "{}");
    fs::set_permissions(&dotfile, Permissions::from_mode(0o640)).unwrap();
    symlink(&dotfile, house.path("home/.claude.json")).unwrap();
    house.put("project/notes/AGENTS.md", "# Notes\n");
    symlink("notes/AGENTS.md", house.path("project/AGENTS.md")).unwrap();
    symlink("AGENTS.md", house.path("project/GEMINI.md")).unwrap();
    let before = house.everything();
    house.set_up(Program::ClaudeCode, Scope::User).unwrap();
    house.set_up(Program::Codex, Scope::Project).unwrap();
    house.set_up(Program::Gemini, Scope::Project).unwrap();
    assert!(house.text("home/dotfiles/claude.json").contains("mcpServers"));
    assert_eq!(house.text("project/AGENTS.md").matches("poste: begin").count(), 1);
    for link in ["home/.claude.json", "project/AGENTS.md", "project/GEMINI.md"] {
        assert!(house.path(link).symlink_metadata().unwrap().is_symlink(), "{link}");
    }
    house.remove(Program::Gemini, Scope::Project).unwrap();
    assert!(house.text("project/AGENTS.md").contains("poste: begin"), "Codex still needs it");
    house.remove(Program::Codex, Scope::Project).unwrap();
    house.remove(Program::ClaudeCode, Scope::User).unwrap();
    assert_eq!(house.everything(), before);

    // The content of a project must not affect files outside of it.
    for (link, to) in [("project/AGENTS.md", "../home/.bashrc"), ("project/.codex", "../home")] {
        let house = House::new();
        house.put("home/.bashrc", "alias ll='ls -l'\n");
        symlink(to, house.path(link)).unwrap();
        let fault = refused(&house, Program::Codex, Scope::Project);
        assert!(fault.to_string().contains("leads out of"), "{fault}");
    }
    let house = House::new();
    symlink("gone", house.path("project/AGENTS.md")).unwrap();
    assert!(refused(&house, Program::Codex, Scope::Project).to_string().contains("is a broken link"));
}

#[test]
fn a_pipe_or_a_folder_in_the_place_of_a_file_is_refused_at_once() {
    let house = House::new();
    rustix::fs::mknodat(rustix::fs::CWD, house.path("project/.mcp.json"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    assert!(refused(&house, Program::ClaudeCode, Scope::Project).to_string().contains("is not a regular file"));
    let house = House::new();
    fs::create_dir(house.path("project/.mcp.json")).unwrap();
    assert!(refused(&house, Program::ClaudeCode, Scope::Project).to_string().contains("is not a regular file"));
}

#[test]
fn if_one_file_cannot_be_written_none_is() {
    let house = House::new();
    house.put("project/.mcp.json", "{}");
    house.put("project/.claude/settings.json", "{}");
    let before = house.everything();
    let targets = house.targets(Program::ClaudeCode, Scope::Project, None);
    let mut plan = Plan::new(house.memory());
    let _lock = house.memory().lock().unwrap();
    for target in &targets {
        plan.set_up(Program::ClaudeCode, target).unwrap();
    }
    // Between the plan and the write, another process creates the last file.
    house.put("project/.claude/skills/poste/SKILL.md", "mine");
    let fault = plan.carry_out().unwrap_err();
    assert!(fault.to_string().contains("has just changed it"), "{fault}");
    assert!(fault.left.is_empty(), "{fault:?}");
    fs::remove_dir_all(house.path("project/.claude/skills")).unwrap();
    assert_eq!(house.everything(), before);
    assert_eq!(records(&house), 0);
}

#[test]
fn what_is_remembered_is_for_its_owner_alone_and_no_more_than_needed() {
    let house = House::new();
    house.put("home/.claude.json", "{\n  \"apiKey\": \"secret-one\"\n}\n");
    // The original content is recorded only if removing the entries does not restore it.
    house.put("home/.gemini/settings.json", "{\"apiKey\": \"secret-two\"}");
    house.set_up(Program::ClaudeCode, Scope::User).unwrap();
    house.set_up(Program::Gemini, Scope::User).unwrap();
    let mut kept = String::new();
    for entry in fs::read_dir(house.path("state")).unwrap().flatten() {
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        kept.push_str(&fs::read_to_string(entry.path()).unwrap());
    }
    assert_eq!(fs::metadata(house.path("state")).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(!kept.contains("secret-one"));
}

/// White space and comments where JSON may have them.
fn gap() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(String::new()),
        3 => "[ \t]{1,3}",
        3 => "(\n|\r\n) {0,4}",
        1 => "/\\*[a-z \n]{0,6}\\*/",
        1 => "//[a-z\",{}]{0,6}\n",
    ]
}

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?[1-9][0-9]{0,3}(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?",
        Just("true".to_owned()),
        Just("null".to_owned()),
        "\"([a-zäß{}\\[\\], /]|\\\\u00e9|\\\\n|\\\\\"){0,8}\"",
    ]
}

fn list(open: char, close: char, items: Vec<(String, String, String)>, trailing: bool, inner: String) -> String {
    let count = items.len();
    let body: String = items
        .into_iter()
        .enumerate()
        .map(|(index, (before, item, after))| {
            let comma = if index + 1 < count || trailing { "," } else { "" };
            format!("{before}{item}{after}{comma}")
        })
        .collect();
    format!("{open}{body}{inner}{close}")
}

fn value() -> impl Strategy<Value = String> {
    scalar().prop_recursive(3, 24, 4, |inner| {
        let item = (gap(), inner.clone(), gap());
        let pair = (gap(), "[a-z]{1,4}", gap(), gap(), inner, gap());
        prop_oneof![
            (prop::collection::vec(item, 0..4), any::<bool>(), gap())
                .prop_map(|(items, trailing, gap)| list('[', ']', items, trailing, gap)),
            (prop::collection::vec(pair, 0..4), any::<bool>(), gap())
                .prop_map(|(pairs, trailing, gap)| { list('{', '}', distinct(pairs), trailing, gap) }),
        ]
    })
}

/// Duplicate properties are covered by another test.
fn distinct(pairs: Vec<(String, String, String, String, String, String)>) -> Vec<(String, String, String)> {
    pairs
        .into_iter()
        .enumerate()
        .map(|(index, (a, key, b, c, value, d))| (a, format!("\"{key}{index}\"{b}:{c}{value}"), d))
        .collect()
}

/// A settings file with random content, and with or without the sections that Poste writes to.
fn settings() -> impl Strategy<Value = String> {
    let pair = (gap(), "[a-z]{1,4}", gap(), gap(), value(), gap());
    let servers = prop_oneof![
        Just(None),
        (gap(), gap()).prop_map(|(a, b)| Some(format!("{{{a}}}{b}"))),
        (gap(), gap(), any::<bool>()).prop_map(|(a, b, trailing)| {
            Some(format!("{{{a}\"other\":{b}{{\"command\":\"x\"}}{}{a}}}", if trailing { "," } else { "" }))
        }),
    ];
    let hooks = prop_oneof![
        Just(None),
        (gap(), gap()).prop_map(|(a, b)| Some(format!("{{{a}\"SessionEnd\"{b}:[{a}]}}"))),
        (gap(), gap()).prop_map(|(a, b)| {
            Some(format!("{{\"AfterTool\":[{a}{{\"hooks\":[{{\"type\":\"command\",\"command\":\"date\"}}]}}{b}]}}"))
        }),
    ];
    let rest = prop::collection::vec(pair, 0..4);
    (rest, servers, hooks, any::<bool>(), (gap(), gap(), gap()), any::<bool>()).prop_map(
        |(pairs, servers, hooks, trailing, (before, inner, after), mark)| {
            let mut items = distinct(pairs);
            items.extend(servers.map(|text| (String::new(), format!("\"mcpServers\":{text}"), String::new())));
            items.extend(hooks.map(|text| ("\n".to_owned(), format!("\"hooks\" : {text}"), String::new())));
            let trailing = trailing && !items.is_empty();
            let mark = if mark { "\u{feff}" } else { "" };
            format!("{mark}{before}{}{after}", list('{', '}', items, trailing, inner))
        },
    )
}

/// All comments of a file, in order.
fn comments(text: &str) -> Vec<String> {
    fn walk(node: &jsonc_parser::cst::CstNode, into: &mut Vec<String>) {
        if node.is_comment() {
            into.push(node.to_string());
        }
        node.children().iter().for_each(|child| walk(child, into));
    }
    let root = jsonc_parser::cst::CstRootNode::parse(text, &jsonc_parser::ParseOptions::default()).unwrap();
    let mut all = Vec::new();
    root.children().iter().for_each(|child| walk(child, &mut all));
    all
}

fn plain(text: &str) -> Value {
    json::value(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn json_of_any_shape_comes_back_byte_for_byte(original in settings()) {
        let house = House::new();
        let name = "home/.gemini/settings.json";
        house.put(name, &original);
        house.set_up(Program::Gemini, Scope::User).unwrap();
        let written = house.text(name);
        // Poste only adds.
        let bare = |text: &str| text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).to_owned();
        prop_assert_eq!(comments(&bare(&written)), comments(&bare(&original)));
        let mut after = plain(&written);
        let mut before = plain(&original);
        prop_assert!(ours_only_added(&mut before, &mut after), "{}\n{}", original, written);
        prop_assert_eq!(written.starts_with(BYTE_ORDER_MARK), original.starts_with(BYTE_ORDER_MARK));
        let again = house.set_up(Program::Gemini, Scope::User).unwrap();
        prop_assert!(again.iter().all(|change| change.outcome == Outcome::Unchanged));
        house.remove(Program::Gemini, Scope::User).unwrap();
        prop_assert_eq!(&house.text(name), &original);

        // Without the records, only the entries are removed, and everything else is kept.
        house.set_up(Program::Gemini, Scope::User).unwrap();
        fs::remove_dir_all(house.path("state")).unwrap();
        house.remove(Program::Gemini, Scope::User).unwrap();
        // An empty file is removed.
        let left = fs::read_to_string(house.path(name)).unwrap_or_else(|_| "{}".to_owned());
        prop_assert_eq!(comments(&bare(&left)), comments(&bare(&original)));
        prop_assert_eq!(without_empty(plain(&left)), without_empty(plain(&original)));
    }

    #[test]
    fn toml_of_any_shape_comes_back_byte_for_byte(original in toml_file()) {
        let house = House::new();
        house.put("home/.codex/config.toml", &original);
        house.set_up(Program::Codex, Scope::User).unwrap();
        let written = house.text("home/.codex/config.toml");
        prop_assert!(written.starts_with(original.as_str()), "{}", written);
        prop_assert!(house.set_up(Program::Codex, Scope::User).unwrap().iter().all(|change| !change.is_change()));
        house.remove(Program::Codex, Scope::User).unwrap();
        prop_assert_eq!(house.text("home/.codex/config.toml"), original);
    }

    #[test]
    fn text_of_any_shape_comes_back_byte_for_byte(original in "(\u{feff})?([a-z#<>!-]{0,5}(\n|\r\n| )){0,12}[a-z]{0,3}") {
        let house = House::new();
        house.put("project/AGENTS.md", &original);
        house.set_up(Program::Codex, Scope::Project).unwrap();
        prop_assert!(house.text("project/AGENTS.md").starts_with(original.as_str()));
        house.remove(Program::Codex, Scope::Project).unwrap();
        prop_assert_eq!(house.text("project/AGENTS.md"), original);
    }
}

/// Whether `after` is `before` plus only Poste's entries.
fn ours_only_added(before: &mut Value, after: &mut Value) -> bool {
    let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else { return false };
    before.iter().all(|(key, value)| match (key.as_str(), after.get(key)) {
        (_, None) => false,
        ("mcpServers", Some(after)) => {
            value.as_object().unwrap().iter().all(|(key, value)| after.get(key) == Some(value))
        }
        ("hooks", Some(after)) => value.as_object().unwrap().iter().all(|(event, list)| {
            let (list, after) = (list.as_array().unwrap(), after[event].as_array().unwrap());
            after.starts_with(list) && after.len() == list.len() + 1
        }),
        (_, Some(after)) => value == after,
    })
}

/// Without records, lists and objects that were created for the entries may be left.
fn without_empty(mut value: Value) -> Value {
    if let Some(hooks) = value.get_mut("hooks").and_then(Value::as_object_mut) {
        hooks.retain(|_, list| !list.as_array().unwrap().is_empty());
    }
    if let Some(all) = value.as_object_mut() {
        all.retain(|key, value| {
            !(["hooks", "mcpServers"].contains(&key.as_str()) && value.as_object().unwrap().is_empty())
        });
    }
    value
}

fn toml_file() -> impl Strategy<Value = String> {
    let end = prop_oneof![Just("\n"), Just("\r\n")];
    let line = prop_oneof![
        Just("# [mcp_servers.poste]".to_owned()),
        Just(String::new()),
        Just("   ".to_owned()),
        "KEY = \"[a-z #\\[\\]]{0,6}\"",
        Just("KEY = '''\n[mcp_servers.poste]\ncommand = \"no\"\n'''".to_owned()),
        Just("KEY = [\n  1, # one\n  2,\n]".to_owned()),
    ];
    let table = prop_oneof!["\\[KEY\\.[a-z]{2}\\]  # [a-z]{0,4}", "\\[mcp_servers\\.KEY\\]", "\\[\\[KEY\\]\\]"];
    let tables = prop::collection::vec((table, prop::collection::vec(line.clone(), 0..3)), 0..4);
    (prop::collection::vec(line, 0..4), tables, end, any::<bool>()).prop_map(|(lines, tables, end, ended)| {
        let mut all = lines;
        for (header, lines) in tables {
            all.push(header);
            all.extend(lines);
        }
        let numbered = all.iter().enumerate().map(|(number, line)| line.replace("KEY", &format!("key{number}")));
        let text = numbered.collect::<Vec<_>>().join("\n").replace('\n', end);
        if ended { format!("{text}{end}") } else { text }
    })
}
