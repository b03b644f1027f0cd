//! Team commands: listing, status, adding, stopping, resuming. See `processes/team.rs` for tests with real programs.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::assert_transcript;
use crate::common::Desk;

const TEAM: &str = "[team]\nlead = \"boss\"\nmembers = [\"coder\", \"tester\"]\n\n\
                    [agent.coder]\nrun = [\"./coder.sh\", \"--fast\"]\nrole = \"builder\"\n\n\
                    [agent.tester]\npreset = \"codex\"\nmode = \"subagent\"\n";

/// A project with the programs that its team starts.
fn desk() -> Desk {
    let desk = Desk::with(&["boss --role lead", "anna --kind human"]);
    for program in ["coder.sh", "lint.sh"] {
        let path = desk.file(program, "#!/bin/sh\n");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    desk
}

#[test]
fn what_comes_with_a_repository_is_started_once_it_is_trusted() {
    let mut desk = desk();
    desk.play(
        "
        poste team list
        poste team status
        poste team up
        ",
    );
    desk.file("poste.toml", TEAM);
    desk.play(
        "
        poste team list
        poste team up
        poste team status
        poste trust --as anna
        poste team up
        poste team up
        poste team up coder nobody
        poste agents
        poste team status
        poste team status coder --json
        poste team status anna
        poste team status nobody
        poste team logs coder
        poste team logs nobody
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_teammate_is_added_on_this_machine() {
    let mut desk = desk();
    desk.play(
        "
        poste spawn tester --role tester
        poste spawn tester --preset claude
        poste spawn tester -- ./test.sh {nonsense}
        poste spawn tester --role tester --prompt 'You test.' --preset claude-code --lead boss
        poste spawn tester --role tester --prompt 'You test.' --preset claude-code --lead boss
        poste team add tester --preset codex
        poste team add linter --mode subagent --lead boss -- ./lint.sh '{number}'
        poste team list
        poste agents
        poste team list --json
        poste config check
        ",
    );
    desk.note("what the file says");
    let local = std::fs::read_to_string(desk.path(".poste/local.toml")).unwrap();
    desk.note(&local);
    desk.file("poste.toml", TEAM);
    desk.play("poste team add coder --preset codex");
    assert_transcript!(desk);
}

#[test]
fn a_teammate_is_stopped_its_senders_are_told_and_it_goes_on() {
    let mut desk = desk();
    desk.file("poste.toml", TEAM);
    desk.trust();
    desk.quietly("poste team up");
    desk.play(
        "
        poste send coder 'Fix the login' --type directive --as anna
        poste team stop coder
        poste team stop --as boss
        poste team stop nobody --as boss
        poste team stop coder --reason 'Enough for today' --as boss
        poste team stop coder --as boss
        poste team status coder
        poste inbox --as coder
        poste read 4 --as boss
        poste inbox --as anna
        poste read 2 --as anna
        poste send coder 'And the logout' --type directive --as boss
        poste send coder 'And the mail' --type directive --as boss
        poste inbox --as boss
        poste read 6 --as boss
        poste track 1
        ",
    );
    desk.later("1h");
    desk.play(
        "
        poste team status
        poste team up
        poste team status coder
        poste team stop --all --as boss
        poste log verify
        ",
    );
    let stopped = desk.peek("poste team stop coder --as boss --json").json();
    assert_eq!(stopped["stopped"][0]["how"], json!("already"));
    assert_transcript!(desk);
}

#[test]
fn stopping_again_under_the_same_id_asks_nobody_twice() {
    let mut desk = desk();
    desk.file("poste.toml", TEAM);
    desk.trust();
    desk.quietly("poste team up");
    let stop = "poste team stop coder tester --id evening --as boss --json";
    let asked = |stopped: &serde_json::Value| {
        let all = stopped["stopped"].as_array().cloned().unwrap_or_default();
        all.iter().map(|one| (one["request"].clone(), one["response"].clone())).collect::<Vec<_>>()
    };
    let first = asked(&desk.peek(stop).json());
    assert!(first.len() == 2 && first.iter().all(|(request, _)| request.is_u64()), "{first:?}");
    assert_eq!(asked(&desk.peek(stop).json()), first);
    assert_eq!(desk.peek("poste inbox --as boss --json").json()["messages"].as_array().map(Vec::len), Some(2));
}
