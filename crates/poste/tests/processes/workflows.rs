//! Workflows from end to end: the shipped examples with their agents, each its own process, and a long one whose engine
//! is killed again and again.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::common::{Desk, until, without_inheritance};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/workflows")
        .canonicalize()
        .expect("the examples are there")
}

/// An office with the example workflows, a person, and agents with a role each.
fn office(agents: &[(&str, &str)]) -> Desk {
    let desk = Desk::new(&[]);
    desk.run(&["register", "ann", "--kind", "human"]);
    for (agent, role) in agents {
        desk.run(&["register", agent, "--role", role]);
    }
    let folder = desk.folder.path().join("workflows");
    std::fs::create_dir(&folder).unwrap();
    for entry in std::fs::read_dir(examples()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
        }
    }
    desk.trust();
    desk
}

/// Works as an agent until told to stop: claims, runs its script on the request, and replies with the script's output.
fn work(desk: &Desk, agent: &str, script: &str, is_over: &AtomicBool) {
    let script = examples().join("agents").join(script);
    while !is_over.load(Ordering::SeqCst) {
        let claim = desk.command(&["--json", "claim", "--as", agent]).output().unwrap();
        if !claim.status.success() {
            thread::sleep(Duration::from_millis(20));
            continue;
        }
        let claimed: Value = serde_json::from_slice(&claim.stdout).unwrap();
        // A message stopped by its gates went back to its sender.
        let Some(message) = claimed["claims"].get(0).map(|claim| &claim["message"]) else { continue };
        let number = message["number"].to_string();
        if message["type"] == "response" || message["type"] == "alert" {
            desk.run(&["ack", &number, "--as", agent]);
            continue;
        }
        let mut child = without_inheritance(Command::new(&script), &desk.folder.path().join("home"))
            .current_dir(desk.folder.path())
            .env("POSTE", env!("CARGO_BIN_EXE_poste"))
            .env("POSTE_HOME", desk.office())
            .env("POSTE_AGENT", agent)
            .env("POSTE_MESSAGE", &number)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(message["body"].as_str().unwrap().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        if !output.status.success() {
            desk.run(&["fail", &number, "--reason", "the script failed", "--as", agent]);
        } else if !text.trim().is_empty() {
            desk.run(&["reply", &number, text.trim(), "--done", "--as", agent]);
        }
    }
}

/// Runs `act` while agents work.
fn while_working<T>(desk: &Desk, agents: &[(&str, &str)], act: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for (agent, script) in agents {
            let is_over = &is_over;
            scope.spawn(move || work(desk, agent, script, is_over));
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        is_over.store(true, Ordering::SeqCst);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn steps(view: &Value) -> Vec<(&str, &str, u64)> {
    let steps = view["steps"].as_array().unwrap().iter();
    steps
        .map(|step| (step["key"].as_str().unwrap(), step["state"].as_str().unwrap(), step["round"].as_u64().unwrap()))
        .collect()
}

#[test]
fn research_becomes_a_skill() {
    let agents = [("explore", "explore.sh"), ("skill-writer", "skill-writer.sh"), ("validator", "validator.sh")];
    let desk = office(&agents.map(|(agent, _)| (agent, "worker")));
    let view = while_working(&desk, &agents, || {
        desk.json(&[
            "workflow",
            "run",
            "research-skill",
            "--input",
            "topic=Python testing",
            "--wait",
            "--timeout",
            "60s",
            "--as",
            "ann",
        ])
    });
    assert_eq!(view["state"], "finished");
    assert_eq!(steps(&view), [("explore", "done", 1), ("write-skill", "done", 1), ("validate", "done", 1)]);
    let page = desk.run(&["workflow", "show", "research-skill-1"]);
    assert!(page.contains("> Created skills/testing/SKILL.md with 2 findings."), "{page}");
    assert!(std::fs::read_to_string(desk.folder.path().join("skills/testing/SKILL.md")).unwrap().contains("fixtures"));
    desk.verify();
}

#[test]
fn code_is_reviewed_until_it_is_approved() {
    let agents = [("coder", "coder.sh"), ("reviewer", "reviewer.sh")];
    let desk = office(&agents.map(|(agent, _)| (agent, "worker")));
    let view = while_working(&desk, &agents, || {
        desk.json(&[
            "workflow",
            "run",
            "code-review",
            "--input",
            "task=Fix the login",
            "--wait",
            "--timeout",
            "60s",
            "--as",
            "ann",
        ])
    });
    assert_eq!(steps(&view), [("write", "done", 2), ("review", "done", 2), ("merge", "done", 1)]);
    let texts: Vec<&str> = view["steps"][1]["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["result"]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["rejected: there is no test", "Approved. Thank you."]);
    desk.verify();
}

#[test]
fn a_draft_passes_its_gate_before_it_is_published() {
    let agents = [("writer", "writer.sh"), ("publisher", "publisher.sh")];
    let desk = office(&agents.map(|(agent, _)| (agent, "worker")));
    let text = std::fs::read_to_string(examples().join("publish.toml")).unwrap();
    let gate: String =
        text.lines().filter_map(|line| line.strip_prefix("#   ")).map(|line| format!("{line}\n")).collect();
    assert!(gate.starts_with("[[gate]]"), "{gate}");
    std::fs::write(desk.folder.path().join("poste.toml"), gate).unwrap();
    desk.trust();
    let run = |subject: &str| {
        let input = format!("subject={subject}");
        let name = desk.run(&["workflow", "run", "publish", "--input", &input, "--as", "ann"]).trim().to_owned();
        let show = || desk.json(&["workflow", "show", &name]);
        until("the draft", || show()["steps"][1]["tasks"][0]["choices"].is_array());
        desk.run(&["workflow", "approve", &name, "--as", "ann"]);
        until("the workflow to end", || show()["state"] != "open");
        show()
    };
    let (good, bad) = while_working(&desk, &agents, || {
        let good = run("bees");
        std::fs::remove_file(desk.folder.path().join("public/post.md")).expect("it was published");
        (good, run("nothing"))
    });
    assert_eq!(steps(&good), [("draft", "done", 1), ("approve", "done", 1), ("publish", "done", 1)]);
    assert_eq!(good["steps"][2]["tasks"][0]["result"]["text"], "Published public/post.md.");
    // The gate stopped it, and it was not published.
    assert_eq!((bad["state"].as_str(), bad["steps"][2]["state"].as_str()), (Some("failed"), Some("failed")));
    assert_eq!(bad["steps"][2]["tasks"][0]["why"], "gate_failed");
    assert!(!desk.folder.path().join("public/post.md").exists());
    desk.verify();
}

#[test]
fn files_are_read_by_whoever_is_free_and_summarised() {
    let desk = office(&[("reader-1", "reader"), ("reader-2", "reader"), ("summariser", "writer")]);
    let names: Vec<String> = (1..=5).map(|number| format!("file-{number}.txt")).collect();
    for (index, name) in names.iter().enumerate() {
        std::fs::write(desk.folder.path().join(name), "line\n".repeat(index + 1)).unwrap();
    }
    std::fs::write(desk.folder.path().join("list.txt"), names.join("\n")).unwrap();
    let agents = [("reader-1", "reader.sh"), ("reader-2", "reader.sh"), ("summariser", "summariser.sh")];
    let view = while_working(&desk, &agents, || {
        desk.json(&[
            "workflow",
            "run",
            "digest",
            "--input",
            "files=@list.txt",
            "--wait",
            "--timeout",
            "60s",
            "--as",
            "ann",
        ])
    });
    assert_eq!(view["steps"][0]["tasks"].as_array().unwrap().len(), 5);
    assert_eq!(view["steps"][1]["tasks"][0]["result"]["text"], "In all there are 15 lines.");
    desk.verify();
}

#[test]
fn a_long_workflow_goes_on_whenever_its_engine_is_killed() {
    const STEPS: usize = 20;
    let desk = Desk::new(&["lead", "worker-1"]);
    let mut text = "title = \"A chain\"\n".to_owned();
    for step in 1..=STEPS {
        let needs = if step > 1 { format!("needs = [\"s{}\"]\n", step - 1) } else { String::new() };
        text.push_str(&format!("[[step]]\nkey = \"s{step}\"\nagent = \"worker-1\"\n{needs}request = \"Do {step}\"\n"));
    }
    std::fs::create_dir(desk.folder.path().join("workflows")).unwrap();
    std::fs::write(desk.folder.path().join("workflows/chain.toml"), text).unwrap();
    let run = ["--json", "workflow", "run", "chain", "--wait", "--id", "the-chain", "--as", "lead"];
    let is_over = AtomicBool::new(false);
    let kills = thread::scope(|scope| {
        // Two engines at once, each killed at varying moments, over and over.
        let engines = [3_u64, 7].map(|pace| {
            let (desk, is_over) = (&desk, &is_over);
            scope.spawn(move || {
                let mut kills = 0;
                while !is_over.load(Ordering::SeqCst) {
                    let mut child = desk.spawn(&run);
                    thread::sleep(Duration::from_millis(5 + (kills * pace * 11) % 60));
                    // Killed or done: both are fine.
                    kills += u64::from(child.kill().is_ok());
                    child.wait().unwrap();
                }
                kills
            })
        });
        let answer = || {
            for _ in 0..2_000 {
                let claim = desk.command(&["--json", "claim", "--as", "worker-1"]).output().unwrap();
                if let Ok(claimed) = serde_json::from_slice::<Value>(&claim.stdout)
                    && let Some(message) = claimed["claims"].get(0).map(|claim| &claim["message"])
                {
                    let number = message["number"].to_string();
                    desk.run(&["reply", &number, message["step"].as_str().unwrap(), "--done", "--as", "worker-1"]);
                }
                let shown = desk.command(&["--json", "workflow", "show", "chain-1"]).output().unwrap();
                let view: Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
                if view["state"] == "finished" {
                    return;
                }
            }
            panic!("the workflow never ends");
        };
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(answer));
        is_over.store(true, Ordering::SeqCst);
        let kills: u64 = engines.into_iter().map(|engine| engine.join().unwrap()).sum();
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        kills
    });
    assert!(kills >= 4, "{kills}");
    let view = desk.json(&["workflow", "show", "chain-1"]);
    for (index, step) in view["steps"].as_array().unwrap().iter().enumerate() {
        let tasks = step["tasks"].as_array().unwrap();
        assert_eq!(tasks.len(), 1, "step {} was sent once", index + 1);
        assert_eq!(tasks[0]["result"]["text"], format!("s{}", index + 1));
    }
    assert_eq!(desk.json(&["workflow", "list", "--all"])["workflows"].as_array().unwrap().len(), 1);
    desk.verify();
}

#[test]
fn an_agent_of_a_trusted_file_need_not_be_registered() {
    let desk = office(&[]);
    let section = |name: &str| format!("[agent.{name}]\nrole = \"reader\"\nrun = [\"true\"]\n");
    let lint = |name: &str| desk.command(&["workflow", "lint", name]).output().unwrap().status.success();
    assert!(!lint("digest"), "its agents are not registered");
    std::fs::write(desk.folder.path().join("poste.toml"), section("reader") + &section("summariser")).unwrap();
    assert!(!lint("digest"), "poste.toml is not trusted");
    std::fs::write(desk.office().join("local.toml"), section("reader") + &section("summariser")).unwrap();
    desk.trust();
    assert!(lint("digest"));
    let output = desk.command(&["workflow", "run", "digest", "--input", "files=a", "--as", "ann"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("poste dispatch"), "{said}");
    let agents = desk.run(&["agents"]);
    assert!(agents.contains("summariser") && agents.contains("reader"), "{agents}");
}

#[test]
fn what_only_time_tells_is_gone_on_with_by_whoever_looks() {
    let desk = Desk::new(&["lead", "slow", "next"]);
    std::fs::create_dir(desk.folder.path().join("workflows")).unwrap();
    let text = "[[step]]\nkey = \"a\"\nagent = \"slow\"\ntime_limit = \"1s\"\non_fail = \"skip\"\nrequest = \"A\"\n\
                [[step]]\nkey = \"b\"\nneeds = [\"a\"]\nagent = \"next\"\nrequest = \"B\"\n";
    std::fs::write(desk.folder.path().join("workflows/late.toml"), text).unwrap();
    let no_dispatch = desk.command(&["dispatch", "--once"]).output().unwrap();
    assert!(!no_dispatch.status.success(), "there is nothing to dispatch");
    let looks: [&[&str]; 5] = [
        &["workflow", "list"],
        &["workflow", "advance"],
        &["send", "lead", "A word", "--as", "slow"],
        &["wait", "--type", "directive", "--as", "next", "--timeout", "60s"],
        &["dispatch", "--once"],
    ];
    for look in looks {
        desk.run(&["workflow", "run", "late", "--as", "lead"]);
        // `wait` starts before the time limit has passed.
        if look[0] != "wait" {
            thread::sleep(Duration::from_millis(1_200));
        }
        desk.run(look);
        let sent = desk.json(&["inbox", "--as", "next"])["messages"].as_array().unwrap().clone();
        assert_eq!(sent.len(), 1, "{look:?}: {sent:?}");
        desk.run(&["done", &sent[0]["number"].to_string(), "--as", "next"]);
    }
    desk.verify();
}

#[test]
fn one_definition_that_cannot_be_read_hides_no_other() {
    let desk = office(&[("reader", "reader"), ("summariser", "summariser")]);
    std::fs::create_dir(desk.folder.path().join("workflows/folder.toml")).unwrap();
    let names = |list: &Value| -> Vec<String> {
        list["definitions"].as_array().unwrap().iter().map(|line| line["name"].as_str().unwrap().to_owned()).collect()
    };
    let listed = names(&desk.json(&["workflow", "list", "--definitions"]));
    assert!(listed.contains(&"digest".to_owned()), "{listed:?}");
    let lint = desk.command(&["workflow", "lint"]).output().unwrap();
    let said = String::from_utf8_lossy(&lint.stdout).into_owned();
    assert!(said.contains("folder.toml: it is not a regular file") && said.contains("digest.yaml"), "{said}");
}
