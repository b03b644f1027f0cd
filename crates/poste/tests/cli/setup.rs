//! `poste setup`: the files it writes for every program and scope, and what the proof reports about broken ones.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use poste_connect::setup::proof::{Finding, State, Wiring, prove};
use poste_connect::setup::{Invocation, Scope, Target, What, json};
use poste_verbs::program::Program;

use crate::assert_transcript;
use crate::common::{Desk, Ran};

/// An office, and a folder `bin` with `poste` in it.
fn desk() -> Desk {
    let desk = Desk::with(&[]);
    fs::create_dir(desk.root().join("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_poste"), desk.root().join("bin/poste")).unwrap();
    desk
}

fn with_path(desk: &Desk, line: &str) -> String {
    format!("PATH={}/bin:/usr/bin:/bin poste {line}", desk.root().display())
}

/// Runs a command and records it as it would be typed.
fn ask(desk: &mut Desk, line: &str) -> Ran {
    let ran = peek(desk, line);
    desk.note(&format!("$ poste {line}"));
    let root = desk.root().display().to_string();
    for text in [ran.out(), ran.err()] {
        text.lines().for_each(|line| desk.note(&line.replace(&root, "$DIR")));
    }
    ran
}

fn peek(desk: &mut Desk, line: &str) -> Ran {
    let line = with_path(desk, line);
    desk.peek(&line)
}

/// Every file below project and home except the office and Poste's own records.
fn files(desk: &Desk) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(folder: &Path, into: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true if path.ends_with(".poste") || path.ends_with(".local") => {}
                true => {
                    into.insert(path.clone(), b"folder".to_vec());
                    walk(&path, into);
                }
                false => drop(into.insert(path.clone(), fs::read(&path).unwrap())),
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(&desk.root().join("project"), &mut all);
    walk(&desk.root().join("home"), &mut all);
    all
}

fn show_all(desk: &mut Desk) {
    let root = desk.root().to_owned();
    for (path, bytes) in files(desk).into_iter().filter(|(path, _)| path.is_file()) {
        desk.note(&format!("=== {}", path.strip_prefix(&root).unwrap().display()));
        let text = String::from_utf8(bytes).unwrap();
        for line in text.lines() {
            let line = line.escape_debug().to_string();
            desk.note(&format!("| {}", line.replace("\\\"", "\"").replace("\\\\", "\\").replace("\\'", "'")));
        }
    }
}

/// Sets up a project without files and a user with unusual ones: writes, writes again, removes.
fn golden(program: &str, odd: &[(&str, &str)]) -> Desk {
    let mut desk = desk();
    let before = files(&desk);
    let _ = ask(&mut desk, &format!("setup {program} --no-proof")).ok();
    show_all(&mut desk);
    let _ = ask(&mut desk, &format!("setup {program} --no-proof")).ok();
    let _ = ask(&mut desk, &format!("setup {program} --remove")).ok();
    assert_eq!(files(&desk), before);

    for (name, text) in odd {
        let path = desk.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let before = files(&desk);
    let _ = ask(&mut desk, &format!("setup {program} --scope user --agent coder --dry-run")).ok();
    assert_eq!(files(&desk), before, "a dry run writes nothing");
    let _ = ask(&mut desk, &format!("setup {program} --scope user --agent coder --no-proof")).ok();
    show_all(&mut desk);
    let again = peek(&mut desk, &format!("setup {program} --scope user --agent coder --no-proof --json")).json();
    assert_eq!(again["changed"], false);
    let _ = ask(&mut desk, &format!("setup {program} --scope user --remove")).ok();
    assert_eq!(files(&desk), before, "removal restores the original bytes");
    desk
}

const ODD_CLAUDE: &str = "{\"numStartups\":7, // how often\n  \"mcpServers\" : {\n\t\"other\": {\"command\":\"x\"},\n  },\n \"last\": 1.50e3 }";
const ODD_HOOKS: &str = "{\r\n  \"model\": \"opus\", /* mine */\r\n  \"hooks\": {\r\n    \"Stop\": [\r\n      { \"hooks\": [ { \"type\": \"command\", \"command\": \"date\" } ] }\r\n    ]\r\n  }\r\n}\r\n";

#[test]
fn claude_code_as_it_is_written() {
    let desk = golden("claude-code", &[("home/.claude.json", ODD_CLAUDE), ("home/.claude/settings.json", ODD_HOOKS)]);
    assert_transcript!(desk);
}

#[test]
fn codex_as_it_is_written() {
    let config = "model = \"o9\"   # the best\r\n\r\n[mcp_servers.other]\r\ncommand = 'x'\r\n# the end";
    let notes = "# How I work\n\nBriefly.";
    let desk = golden(
        "codex",
        &[("home/.codex/config.toml", config), ("home/.codex/hooks.json", ODD_HOOKS), ("home/.codex/AGENTS.md", notes)],
    );
    assert_transcript!(desk);
}

#[test]
fn gemini_as_it_is_written() {
    let desk = golden("gemini", &[("home/.gemini/settings.json", "{}"), ("home/.gemini/GEMINI.md", "")]);
    assert_transcript!(desk);
}

#[test]
fn opencode_as_it_is_written() {
    let config = "{\n  // \"theme\": \"x\",\n  \"$schema\": \"https://opencode.ai/config.json\"\n}\n";
    let desk = golden("opencode", &[("home/.config/opencode/opencode.jsonc", config)]);
    assert_transcript!(desk);
}

#[test]
fn cursor_as_it_is_written() {
    let desk = golden(
        "cursor",
        &[
            ("home/.cursor/mcp.json", "{\"mcpServers\":{}}"),
            ("home/.cursor/hooks.json", "{\"version\":1,\"hooks\":{}}\n"),
        ],
    );
    assert_transcript!(desk);
}

#[test]
fn the_plugin_as_it_is_written() {
    let mut desk = desk();
    let before = files(&desk);
    let _ = ask(&mut desk, "setup claude-code --plugin plugin").ok();
    show_all(&mut desk);
    desk.file("plugin/commands/inbox.md", "mine");
    let _ = ask(&mut desk, "setup claude-code --plugin plugin").exits(5);
    let _ = ask(&mut desk, "setup claude-code --plugin plugin --remove").exits(5);
    fs::remove_dir_all(desk.path("plugin")).unwrap();
    assert_eq!(files(&desk), before);
    let _ = ask(&mut desk, "setup gemini --plugin plugin").exits(2);
    assert_transcript!(desk);
}

#[test]
fn programs_are_found_and_what_is_in_the_way_is_named() {
    let mut desk = desk();
    let _ = ask(&mut desk, "setup").exits(3);
    fs::create_dir_all(desk.root().join("home/.gemini")).unwrap();
    fs::write(desk.root().join("bin/codex"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(desk.root().join("bin/codex"), fs::Permissions::from_mode(0o755)).unwrap();
    let _ = ask(&mut desk, "setup --no-proof").ok();
    let _ = ask(&mut desk, "setup --remove").ok();
    desk.file(".codex/config.toml", "[mcp_servers.poste]\ncommand = 'npx'\nargs = ['secret']\n");
    let _ = ask(&mut desk, "setup codex").exits(5);
    fs::remove_dir_all(desk.path(".codex")).unwrap();
    desk.file(".gemini/settings.json", "{\n  \"a\": 1,,\n}\n");
    let _ = ask(&mut desk, "setup all").exits(4);
    let error = peek(&mut desk, "setup all --json").exits(4).error_json();
    assert_eq!(error["code"], "unusable_file");
    assert!(!desk.path(".mcp.json").exists(), "if one file cannot be set up, no file is touched");
    desk.cd("elsewhere");
    let _ = ask(&mut desk, "setup gemini --no-proof").exits(3);
    assert_transcript!(desk);
}

#[test]
fn an_office_that_is_not_found_upward_is_named_in_the_entries() {
    let mut desk = desk();
    desk.cd("elsewhere");
    let office = desk.root().join("project/.poste");
    let line = format!("setup claude-code --no-proof --office {}", office.display());
    let _ = peek(&mut desk, &line).ok();
    let entry: serde_json::Value = serde_json::from_slice(&fs::read(desk.path(".mcp.json")).unwrap()).unwrap();
    assert_eq!(entry["mcpServers"]["poste"]["env"]["POSTE_HOME"], office.to_str().unwrap());
}

#[test]
fn an_office_elsewhere_is_remembered_by_the_entries_that_name_it() {
    let mut desk = desk();
    desk.cd("elsewhere");
    fs::create_dir(desk.path(".git")).unwrap();
    desk.quietly("poste init");
    let original = "{ \"mcpServers\": { } }";
    desk.file(".mcp.json", original);
    let office = desk.root().join("project/.poste");
    let _ = peek(&mut desk, &format!("setup claude-code --no-proof --office {}", office.display())).ok();
    let again = peek(&mut desk, "setup claude-code --no-proof --json").json();
    assert_eq!(again["changed"], false, "{again:#}");
    let _ = peek(&mut desk, "setup claude-code --remove").ok();
    assert_eq!(fs::read_to_string(desk.path(".mcp.json")).unwrap(), original);
    assert!(!desk.path(".claude").exists());
}

#[test]
fn an_entry_by_hand_and_a_name_stay() {
    let mut desk = desk();
    desk.quietly("poste register coder");
    let entry =
        r#"{ "mcpServers": { "poste": { "command": "poste", "args": ["mcp"], "env": { "POSTE_AGENT": "coder" } } } }"#;
    desk.file(".mcp.json", entry);
    let _ = peek(&mut desk, "setup claude-code --no-proof").ok();
    assert_eq!(fs::read_to_string(desk.path(".mcp.json")).unwrap(), entry);
    let hooks = fs::read_to_string(desk.path(".claude/settings.json")).unwrap();
    assert_eq!(hooks.matches("POSTE_AGENT=coder poste hook").count(), 7, "the hooks act as the server's agent");
    for _ in 0..2 {
        let removed = peek(&mut desk, "setup claude-code --remove").ok();
        assert!(removed.err().contains(".mcp.json still starts Poste"), "{}", removed.err());
        assert!(!removed.err().contains("no entries of Poste's"), "{}", removed.err());
        assert_eq!(fs::read_to_string(desk.path(".mcp.json")).unwrap(), entry);
    }

    fs::remove_file(desk.path(".mcp.json")).unwrap();
    let _ = peek(&mut desk, "setup all --agent coder --no-proof").ok();
    let before = files(&desk);
    let again = peek(&mut desk, "setup all --no-proof").ok();
    assert_eq!(files(&desk), before);
    for program in Program::ALL {
        assert!(again.err().contains(&format!("{program} still acts as coder")), "{}", again.err());
    }
}

#[test]
fn an_entry_by_hand_is_tried_where_it_does_no_harm() {
    let mut desk = desk();
    desk.quietly("poste register coder");
    let log = desk.peek("poste log show --json").ok();
    let office = desk.path(".poste");
    let entry = serde_json::json!({ "mcpServers": { "poste": {
        "command": "poste",
        "args": ["mcp", "--office", office, "--as=coder", "--profile", "full"],
        "env": { "POSTE_AGENT": "coder", "POSTE_LOCK_TIMEOUT": "none of the proof's business" },
    } } });
    desk.file(".mcp.json", entry.to_string());
    let answer = peek(&mut desk, "setup claude-code --json").ok().json();
    let proof = &answer["programs"][0]["proof"];
    assert_eq!(proof[1]["state"], "works", "{answer:#}");
    let note = proof[0]["note"].as_str().unwrap();
    assert!(note.ends_with("not tested: 5 arguments and the variables \"POSTE_LOCK_TIMEOUT\" in its entry"), "{note}");
    assert_eq!(fs::read_to_string(desk.path(".mcp.json")).unwrap(), entry.to_string());
    assert_eq!(desk.peek("poste log show --json").ok().out, log.out);
}

#[test]
fn a_name_nobody_has_is_a_slip() {
    let mut desk = desk();
    desk.quietly("poste register coder");
    let before = files(&desk);
    let refused = peek(&mut desk, "setup claude-code --agent codr").exits(3);
    assert!(refused.err().contains("did you mean coder?"), "{}", refused.err());
    assert_eq!(files(&desk), before);
}

#[test]
fn a_project_that_moved_or_was_copied_is_cleaned() {
    let mut desk = desk();
    let before = files(&desk);
    let _ = peek(&mut desk, "setup all --no-proof").ok();
    fs::rename(desk.root().join("project"), desk.root().join("moved")).unwrap();
    desk.cd("moved");
    let removed = peek(&mut desk, "setup all --remove").ok();
    assert!(
        !removed.err().contains("since") && !removed.out().contains("unchanged"),
        "{}{}",
        removed.out(),
        removed.err()
    );
    fs::rename(desk.root().join("moved"), desk.root().join("project")).unwrap();
    assert_eq!(files(&desk), before);

    // As after a clone: the files exist, without a record of the original content.
    desk.cd("project");
    let _ = peek(&mut desk, "setup all --no-proof").ok();
    let office = poste_config::adopt::key_of(&desk.path(".poste")).unwrap();
    fs::remove_dir_all(poste_testkit::state::home().join("poste/setup").join(office)).unwrap();
    let removed = peek(&mut desk, "setup all --remove").ok();
    assert!(removed.err().contains("there is no record of the original content"), "{}", removed.err());
    assert!(
        !removed.err().contains("since") && !removed.out().contains("unchanged"),
        "{}{}",
        removed.out(),
        removed.err()
    );
    assert_eq!(files(&desk), before);
}

#[test]
fn what_was_changed_by_hand_is_left_and_told() {
    let mut desk = desk();
    desk.file(".claude/skills/poste/SKILL.md", "mine");
    desk.file(".opencode/plugins/poste.js", "export default 1 // poste hook\n");
    let set_up = peek(&mut desk, "setup all --no-proof").ok();
    assert_eq!(set_up.err().matches("was changed by hand and is left as it is").count(), 2, "{}", set_up.err());
    assert!(desk.path(".cursor/mcp.json").exists(), "everything else is set up");
    let again = peek(&mut desk, "setup all --no-proof").ok();
    assert!(!again.err().contains("nothing changed"), "{}", again.err());
    let proof = peek(&mut desk, "setup opencode").exits(11);
    assert!(proof.out().contains("poste.js was changed by hand and was not tested"), "{}", proof.out());
    for _ in 0..2 {
        let removed = peek(&mut desk, "setup all --remove").exits(5);
        assert!(removed.err().contains("2 files were changed by hand and are left as they are"), "{}", removed.err());
        assert!(removed.err().contains("poste.js") && !removed.err().contains("nothing changed"), "{}", removed.err());
    }
    assert!(!desk.path(".cursor").exists());
}

#[test]
fn what_a_file_switches_off_does_not_work() {
    let hooks = ["mid-turn delivery", "stop guard"];
    let server = ["listed", "tools"];
    for (program, file, text, off, key) in [
        ("claude-code", ".claude/settings.json", r#"{"disableAllHooks": true}"#, hooks, "disableAllHooks"),
        (
            "claude-code",
            ".claude/settings.json",
            r#"{"disabledMcpjsonServers": ["poste"]}"#,
            server,
            "disabledMcpjsonServers",
        ),
        ("codex", ".codex/config.toml", "[features]\nhooks = false\n", hooks, "features.hooks"),
        (
            "codex",
            ".codex/config.toml",
            "[mcp_servers.poste]\ncommand = 'poste'\nargs = ['mcp']\nenabled = false\n",
            server,
            "mcp_servers.poste.enabled",
        ),
        ("gemini", ".gemini/settings.json", r#"{"hooksConfig": {"enabled": false}}"#, hooks, "hooksConfig.enabled"),
        (
            "gemini",
            ".gemini/settings.json",
            r#"{"hooksConfig": {"disabled": ["poste-stop"]}}"#,
            hooks,
            "hooksConfig.disabled",
        ),
        ("gemini", ".gemini/settings.json", r#"{"mcp": {"excluded": ["poste"]}}"#, server, "mcp.excluded"),
        ("gemini", ".gemini/settings.json", r#"{"mcp": {"allowed": ["other"]}}"#, server, "mcp.allowed"),
        (
            "opencode",
            "opencode.json",
            r#"{"mcp": {"poste": {"type": "local", "command": ["poste", "mcp"], "enabled": false}}}"#,
            server,
            "mcp.poste.enabled",
        ),
    ] {
        let mut desk = desk();
        desk.file(file, text);
        let proof = peek(&mut desk, &format!("setup {program} --json")).exits(11);
        let answer: serde_json::Value = serde_json::from_str(proof.out()).unwrap();
        for line in answer["programs"][0]["proof"].as_array().unwrap() {
            let is_off = off.contains(&line["what"].as_str().unwrap())
                || (line["what"] == "idle wake" && program == "claude-code" && off == hooks);
            assert_eq!(line["state"] == "fails", is_off, "{key}: {line}");
            assert!(!is_off || line["note"].as_str().unwrap().contains(key), "{key}: {line}");
        }
    }
}

#[test]
fn what_is_said_besides_is_true() {
    let mut desk = desk();
    // Nothing is listed if nothing was set up.
    let nothing = peek(&mut desk, "setup claude-code --remove").ok();
    assert_eq!(nothing.out(), "");
    assert!(nothing.err().contains("there are no entries of Poste's; nothing changed"), "{}", nothing.err());

    let _ = peek(&mut desk, "setup claude-code --scope user --no-proof").ok();
    let wrong = peek(&mut desk, "setup claude-code --remove").ok();
    assert!(wrong.err().contains("poste setup claude-code --scope user --remove"), "{}", wrong.err());
    let twice = peek(&mut desk, "setup claude-code --no-proof").ok();
    assert!(twice.err().contains("its hooks may run twice"), "{}", twice.err());
    let _ = peek(&mut desk, "setup claude-code --scope user --remove").ok();
    let once = peek(&mut desk, "setup claude-code --no-proof").ok();
    assert!(!once.err().contains("twice"), "{}", once.err());

    let ignored = peek(&mut desk, "setup gemini --scope user --no-proof --office .poste").ok();
    assert!(ignored.err().contains("--scope user ignores --office"), "{}", ignored.err());

    let plug = peek(&mut desk, "setup claude-code --plugin ../plug").ok();
    let root = desk.root().display().to_string();
    assert!(
        plug.out().starts_with(&format!("{root}/plug/")) && !plug.err().contains(".."),
        "{}{}",
        plug.out(),
        plug.err()
    );

    let other = stand_in(&desk, "home/poste", "exit 0");
    let line = format!("PATH={root}/home:/usr/bin:/bin poste setup codex --no-proof");
    let said = desk.peek(&line).ok();
    assert!(
        said.err().contains(&format!("the poste on the PATH is a different one ({})", other.display())),
        "{}",
        said.err()
    );
}

/// A script that stands in for `poste`.
fn stand_in(desk: &Desk, name: &str, script: &str) -> PathBuf {
    let path = desk.root().join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The proof's findings if this command were the program, and the settings start it.
fn proven(desk: &Desk, poste: &Path) -> BTreeMap<&'static str, Finding> {
    let poste = poste.to_str().unwrap();
    let hook = |event: &str| serde_json::json!([{ "hooks": [{ "type": "command", "command": format!("{poste} hook {event} --program claude-code") }] }]);
    let settings = serde_json::json!({
        "mcpServers": { "poste": { "command": poste, "args": ["mcp"] } },
        "hooks": { "A": hook("session-start"), "B": hook("prompt"), "C": hook("tool"), "D": hook("stop"), "E": hook("wait") },
    });
    let path = desk.file("settings.json", settings.to_string());
    let edits = vec![json::Edit::Server { group: "mcpServers", value: serde_json::Value::Null }];
    let target = Target { path, what: What::Json(edits), below: None };
    let poste = Invocation { poste: poste.to_owned(), agent: None, office: None };
    let wiring = Wiring::read(Program::ClaudeCode, &[target], &poste);
    let found = prove(Program::ClaudeCode, Scope::User, &wiring, &poste, Path::new(&poste.poste));
    found.into_iter().map(|finding| (finding.what, finding)).collect()
}

#[test]
fn what_does_not_work_is_told_and_why() {
    let desk = desk();
    let hello = r#"read line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; read line; read line;"#;
    let ten = "send_message check_inbox read_message claim_work finish_work reply wait_for_mail context handoff office";
    let tools = ten.split(' ').map(|name| format!("{{\"name\":\"{name}\"}}")).collect::<Vec<_>>().join(",");
    let listed =
        format!("{hello} echo '{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{{\"tools\":[{tools}]}}}}'; read line;");
    for (script, why) in [
        ("echo 'no such command' >&2; exit 2".to_owned(), "the server exited at initialize: \"no such command\""),
        ("echo hello; cat >/dev/null".to_owned(), "is not valid JSON: \"hello\""),
        (
            format!("{hello} echo '{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{{\"tools\":[]}}}}'; cat >/dev/null"),
            "no tool send_message",
        ),
        (
            format!("{listed} echo '{{\"id\":3,\"error\":{{\"message\":\"no office\"}}}}'; cat >/dev/null"),
            "refused tools/call: \"no office\"",
        ),
        (
            format!(
                "{listed} echo '{{\"id\":3,\"result\":{{}}}}'; read line; echo '{{\"id\":4,\"result\":{{\"content\":[]}}}}'; cat >/dev/null"
            ),
            "is not in check_inbox",
        ),
        (format!("{listed} exit 0"), "the server exited at tools/call"),
        (format!("{listed} exec sleep 100"), "did not answer tools/call within 10 s"),
    ] {
        let poste = stand_in(&desk, "poste-server", &format!("[ \"$1\" = mcp ] || exit 0\n{script}"));
        let tools = &proven(&desk, &poste)["tools"];
        assert_eq!(tools.state, State::Fails, "{script}");
        assert!(tools.note.as_ref().unwrap().contains(why), "{script}: {tools:?}");
    }
}

#[test]
fn hooks_that_say_nothing_or_fail_are_told() {
    let desk = desk();
    let silent = proven(&desk, &stand_in(&desk, "poste-silent", "cat >/dev/null"));
    assert!(silent["mid-turn delivery"].note.as_ref().unwrap().contains("was not shown"), "{silent:?}");
    assert!(silent["stop guard"].note.as_ref().unwrap().contains("may stop"), "{silent:?}");
    assert!(silent["idle wake"].note.as_ref().unwrap().contains("ended before mail came"), "{silent:?}");
    assert_eq!(silent["listed"].state, State::Works);

    // Exit code 2 means "wake", but also "usage error".
    let broken = proven(&desk, &stand_in(&desk, "poste-broken", "echo usage >&2; exit 2"));
    for what in ["tools", "mid-turn delivery", "stop guard", "idle wake"] {
        assert_eq!(broken[what].state, State::Fails, "{broken:?}");
        assert!(broken[what].note.as_ref().unwrap().contains("usage"), "{broken:?}");
    }

    let gone = proven(&desk, &desk.root().join("poste-gone"));
    assert!(gone["tools"].note.as_ref().unwrap().contains("cannot create a temporary office"), "{gone:?}");

    // A waiter that wakes without naming the mail.
    let wakes = "[ \"$2\" = wait ] || exit 0; sleep 0.5; echo 'something' >&2; exit 2";
    let wakes = proven(&desk, &stand_in(&desk, "poste-wakes", wakes));
    assert!(wakes["idle wake"].note.as_ref().unwrap().contains("did not say why"), "{wakes:?}");
}
