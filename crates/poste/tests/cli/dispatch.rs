//! `poste dispatch` where no run is started: dry runs, holds and their reasons.

use crate::assert_transcript;
use crate::common::Desk;

const AGENTS: &str = r#"[team]
lead = "lead"
members = ["coder", "tester"]

[agent.coder]
run = ["true"]
concurrency = 2
max_hops = 3
budget = { runs = 20, minutes = 90, cost = 2.5, per = "day" }

[agent.tester]
preset = "codex"
quiet = "08:00-17:30"
schedule = "0 18 * * *"
"#;

#[test]
fn what_would_be_started_and_why_not() {
    let mut desk = Desk::with(&["lead --kind human", "coder", "tester --lead lead"]);
    desk.play("poste dispatch status\nposte dispatch --once\nposte dispatch runs");
    desk.file("poste.toml", AGENTS);
    desk.play(
        "
        poste dispatch status
        poste send coder 'Fix the login' --type directive --as lead
        poste dispatch --dry-run
        # nothing of a file that nobody here trusts is run
        poste dispatch --once
        poste dispatch status
        poste track 1
        poste read 2 --as lead
        poste dispatch --once
        poste trust --as lead
        poste dispatch --dry-run
        ",
    );
    desk.play(
        "
        poste dispatch send coder 'And the logout' --priority high --as lead
        poste send tester 'Test it' --type question --as lead
        poste send tester 'The findings' --type audit_report --as lead
        poste dispatch --dry-run --agent tester
        poste dispatch status --agent tester
        poste dispatch status --agent tester --json
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn what_is_held_is_let_go_by_hand() {
    let mut desk = Desk::with(&["lead --kind human", "coder"]);
    desk.file("poste.toml", "[agent.coder]\nrun = [\"true\"]\n");
    desk.play(
        "
        poste send coder 'Fix the login' --type directive --as lead
        poste dispatch --once
        poste dispatch resume coder
        poste dispatch resume nobody --as lead
        poste dispatch resume coder 1 --as lead
        poste dispatch resume coder --reason 'I have read it' --id mine --as lead
        poste dispatch resume coder --reason 'I have read it' --id mine --as lead
        poste dispatch resume coder --as lead
        poste dispatch status
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn what_is_asked_wrongly_is_explained() {
    let mut desk = Desk::with(&["lead", "coder"]);
    desk.file(".poste/local.toml", "[agent.coder]\nrun = [\"true\"]\n");
    desk.play(
        "
        poste dispatch --agent codr --once
        poste dispatch --no-wait
        poste dispatch --dry-run --once
        poste dispatch runs
        poste dispatch runs nobody
        poste dispatch logs 1
        poste dispatch logs 0198-none
        poste dispatch stop 1
        poste dispatch send nobody 'Hello' --as lead
        poste dispatch --dry-run
        poste dispatch --dry-run --json
        poste dispatch --once
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_supervisor_says_what_it_is() {
    let mut desk = Desk::with(&["lead"]);
    desk.play("poste run-agent --help");
    assert_transcript!(desk);
}
