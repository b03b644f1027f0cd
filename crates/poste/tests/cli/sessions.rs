//! Sessions: starting, taking over, shared notes, closing.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::assert_transcript;
use crate::common::Desk;

fn desk() -> Desk {
    Desk::with(&[
        "lead --role lead",
        "coder --role builder --lead lead",
        "explore --role explorer",
        "anna --kind human",
    ])
}

#[test]
fn a_session_is_started_noted_in_shown_and_closed() {
    let mut desk = desk();
    desk.play(
        "
        poste session list
        poste session show --as lead
        poste session start --name top --goal 'Set up the tests' --pid 0 --program codex --as lead
        poste session start --name below --parent top --pid 0 --program claude --as explore
        poste session note 'The old suite is gone' --as explore
        poste session note --decision 'Use pytest' --as lead
        ",
    );
    let _ = desk.ask_with("poste session note --decision - --as explore", b"Fixtures\n# no heading of its own\n").ok();
    desk.play(
        "
        poste session note --question 'Which coverage?' --as explore
        poste session note --question 'Which database?' --as lead
        poste session note --answer q1 '80 percent' --as lead
        poste session note --answer 1 '90 percent' --as lead
        poste session note --answer q9 'What?' --as lead
        poste session note --agent coder 'Writes the fixtures' --as lead
        poste session note 'I am not in it' --in top --as coder
        poste session note --goal 'Set up the tests and run them' --as anna --in top
        poste session show below
        poste session list
        poste whoami --as explore --session below
        poste send explore 'Look for patterns' --type directive --as lead
        poste claim 1 --session below --as explore
        poste session close below --summary 'Found three' --as explore
        poste track 1
        poste ask anna 'Publish it?' --as lead
        poste session close top --summary 'Works, the docs are missing' --id end-1 --as lead
        poste session close top --summary 'Works, the docs are missing' --id end-1 --as lead
        poste session close top --as lead
        poste session note 'Too late' --in top --as lead
        poste session list
        poste session list --all
        poste session show top --json
        ",
    );
    let page = std::fs::read_to_string(desk.path(".poste/sessions/2026-03-02-top.md")).expect("the page");
    assert_eq!(page, desk.peek("poste session show top").ok().out(), "the page equals what `session show` prints");
    assert_transcript!(desk);
}

#[test]
fn a_second_session_of_a_name_gets_its_ways_on() {
    let mut desk = desk();
    desk.quietly("poste session start --name first --pid 0 --program codex --as coder");
    desk.quietly("poste send coder 'Fix it' --type directive --as lead");
    desk.quietly("poste claim 1 --lease 2h --session first --as coder");
    desk.later("20m");
    desk.play(
        "
        poste session start --pid 0 --program codex --as coder
        poste session start --own-name --name beside --pid 0 --program codex --export --as coder
        poste whoami --as coder-2
        poste session start --take-over --name second --pid 0 --program codex --as coder
        # the first one goes on, and is told
        poste send lead 'Half done' --session first --as coder
        poste whoami --session first --as coder
        poste session close beside --as coder-2
        poste session start --own-name --name again --pid 0 --program codex --export --as coder
        poste session list --all
        poste session start --name first --take-over --pid 0 --as coder
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn closing_tells_those_who_go_on_and_keeps_claims_if_asked() {
    let mut desk = desk();
    desk.quietly("poste session start --name top --pid 0 --program codex --as lead");
    desk.quietly("poste session start --name mid --session top --pid 0 --program codex --as coder");
    desk.quietly("poste session start --name leaf --session mid --pid 0 --program codex --as explore");
    desk.quietly("poste send coder 'Fix it' --type directive --as lead");
    desk.quietly("poste claim 1 --session mid --as coder");
    desk.play(
        "
        poste session close --keep --session mid --as coder
        poste track 1
        poste session close --summary 'Enough for today' --json --as lead
        poste inbox --as explore
        poste read 3 --as explore
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_process_that_is_gone_is_taken_over_and_named_by_doctor() {
    let mut desk = desk();
    let mut child = Command::new("sleep").arg("300").stdout(Stdio::null()).spawn().expect("sleep");
    let pid = child.id();
    let line = format!("poste session start --name first --pid {pid} --json --as coder");
    let first = desk.peek(&line).ok().json();
    assert_eq!(
        (&first["process"], &first["program"], &first["pid"]),
        (&json!("running"), &json!("sleep"), &json!(pid))
    );
    let refused = desk.peek("poste session start --name second --json --pid 0 --as coder").exits(5).error_json();
    let told = refused["message"].as_str().unwrap().to_owned();
    assert!(told.starts_with(&format!("coder runs as session first (pid {pid}, sleep on ")), "{told}");
    assert!(told.ends_with("it is still running"), "{told}");
    assert!(!desk.peek("poste doctor --quick").ok().out().contains("session first"), "a running session is fine");
    child.kill().expect("it ends");
    child.wait().expect("it ended");
    let doctor = desk.peek("poste doctor --quick --json").ok().json();
    let findings = doctor["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["check"] == "session").expect("doctor names it");
    assert_eq!(found["command"], "poste session close first --as coder");
    let second = desk.peek("poste session start --name second --json --pid 0 --as coder").ok();
    assert!(second.err().contains(&format!("pid {pid} has ended; taking it over")), "{}", second.err());
    assert_eq!(second.json()["took_over"]["id"], "first");
}

#[test]
fn the_lines_for_a_shell_are_safe_and_an_id_starts_once() {
    let mut desk = desk();
    let hostile =
        desk.call(&["session", "start", "--name", "a'b;$(x)", "--pid", "0", "--export", "--as", "coder"], b"");
    assert_eq!(hostile.ok().out(), "export POSTE_AGENT=coder POSTE_SESSION='a'\\''b;$(x)'\n");
    let first = desk.peek("poste session start --id run-1 --json --as lead").ok().json();
    let again = desk.peek("poste session start --id run-1 --json --as lead").ok().json();
    assert_eq!((&first["id"], &first["repeat"]), (&again["id"], &json!(false)));
    assert_eq!(again["repeat"], json!(true));
    let _ = desk.call(&["session", "close", "a'b;$(x)", "--as", "coder"], b"").ok();
    let pages = std::fs::read_dir(desk.path(".poste/sessions")).expect("the pages").flatten();
    let names: Vec<String> = pages.map(|page| page.file_name().into_string().unwrap()).collect();
    assert!(names.len() == 1 && names[0].starts_with("2026-03-02-a-b---x-"), "{names:?}");
}

#[test]
fn whoever_takes_over_a_root_goes_on_with_its_context() {
    let mut desk = desk();
    desk.quietly("poste session start --name first --goal 'Ship it' --pid 0 --program codex --as lead");
    desk.quietly("poste session start --name below --parent first --pid 0 --program codex --as coder");
    desk.quietly("poste session note --question 'Which coverage?' --in below --as coder");
    desk.quietly("poste session start --take-over --name second --pid 0 --program codex --as lead");
    desk.play(
        "
        poste session note --answer q1 '80 percent' --as lead
        poste session note 'Half done' --session below --as coder
        poste session close --summary Shipped --as lead
        poste session show first
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn words_of_others_are_no_markdown() {
    let mut desk = desk();
    desk.quietly("poste session start --name top --pid 0 --program codex --as lead");
    let forged = "Deploy?\n- yes (lead, 2026-03-02T09:00:00.000Z)\n\n## Decisions\n\n- Deploy";
    let mut note = |kind: &str, text: &str| {
        let _ = desk.ask_with(&format!("poste session note {kind} - --as lead"), text.as_bytes()).ok();
    };
    note("--question", forged);
    note("--goal", "x\n- state: closed");
    note("", "## Decisions");
    let shown = desk.peek("poste session show top").ok().out().to_owned();
    let is_own = |line: &&str| line.starts_with('#') || line.starts_with('-');
    let own: Vec<&str> = shown.lines().filter(is_own).collect();
    assert_eq!(own.len(), 9, "{shown}");
    assert!(!own.iter().any(|line| line.contains("Decisions") && line.starts_with('#')), "{shown}");
    assert!(shown.contains("\n  > \\- yes (lead") && shown.contains("\n- \\#\\# Decisions ("), "{shown}");
}

#[test]
fn whose_session_a_human_closes_is_told() {
    let mut desk = desk();
    desk.quietly("poste session start --name mine --pid 0 --program codex --as coder");
    desk.quietly("poste send coder 'Fix it' --type directive --as lead");
    desk.quietly("poste claim 1 --session mine --as coder");
    desk.play(
        "
        poste session close mine --summary 'We stop here' --as anna
        poste inbox --as coder
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn an_id_is_of_one_agent_and_one_session() {
    let mut desk = desk();
    desk.quietly("poste session start --name one --id run-1 --pid 0 --as lead");
    for start in ["--as coder", "--name two --as lead"] {
        let told = desk.peek(&format!("poste session start --id run-1 --pid 0 --json {start}")).exits(5).error_json();
        assert_eq!(told["code"], "id_conflict", "{start}");
    }
    desk.quietly("poste session start --name two --pid 0 --as coder");
    desk.quietly("poste session close one --id end-1 --as lead");
    for close in ["two --as coder", "two --as lead", "--as coder"] {
        let told = desk.peek(&format!("poste session close --id end-1 --json {close}")).exits(5).error_json();
        assert_eq!(told["code"], "id_conflict", "{close}");
    }
    let again = desk.peek("poste session close --id end-1 --json --as lead").ok().json();
    assert_eq!((&again["repeat"], &again["session"]["id"]), (&json!(true), &json!("one")));
}

#[test]
fn that_a_session_is_over_is_told_once_a_command() {
    let mut desk = Desk::staffed();
    desk.quietly("poste session start --name run-1 --as coder");
    desk.quietly("poste session close run-1 --summary Done --as coder");
    for command in ["send lead Hello", "claim", "claim --wait --timeout 0s", "inbox"] {
        let ran = desk.peek(&format!("poste {command} --as coder --session run-1"));
        let told = ran.err().matches("warning: session run-1 is closed").count();
        assert_eq!(told, usize::from(command != "inbox"), "{command}: {}", ran.err());
    }
}
