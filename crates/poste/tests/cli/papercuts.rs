//! Small things a new user stumbles over.

use serde_json::json;

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn a_body_may_begin_like_an_option_and_a_mistyped_option_is_no_body() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send coder 'A list' '- one item' --as lead
        poste send coder '- A list' --as lead --type directive
        poste send --as lead coder 'A rule' -- ---
        poste send --as lead -- coder --subject -body
        poste read 1 --as coder
        poste reply 1 '- an answer' --as coder
        poste publish News '- a subject' '- a body' --as lead
        poste broadcast '- a subject' '- a body' --as lead
        poste send coder 'A list' --prioritty --as lead
        poste send coder 'A list' --prioritty high --as lead
        poste send coder '--prioritty' --as lead
        poste reply 1 -x --as coder
        ",
    );
    assert_eq!(desk.ask_with("poste send coder 'From stdin' - --as lead", b"- one\n- two\n").ok().code, 0);
    assert_transcript!(desk);
}

#[test]
fn help_is_a_command_too() {
    let mut desk = Desk::new();
    for (words, same) in [
        ("poste help", "poste --help"),
        ("poste help send", "poste send --help"),
        ("poste help log why", "poste log why --help"),
    ] {
        assert_eq!(desk.peek(words).ok().out(), desk.peek(same).ok().out(), "{words}");
    }
    let _ = desk.peek("poste help sedn").exits(2);
}

#[test]
fn a_conversation_is_found_by_its_name() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix the login' --conversation login --as lead");
    desk.quietly("poste send coder 'Something else' --as lead");
    desk.play(
        "
        poste thread login
        poste thread login --summary
        poste thread 1
        poste thread '#2'
        poste thread nothing
        poste thread 9
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_search_takes_a_day() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix the login' --as lead");
    desk.play(
        "
        poste search login --since 2026-03-02
        poste search login --since 2026-03-03
        poste search login --until 2026-03-02
        poste search login --since 2026-3-2
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn the_last_attempt_is_told_as_such_with_its_reason() {
    let mut desk = Desk::staffed();
    desk.file("poste.toml", "[types.directive]\nmax_attempts = 1\n");
    desk.quietly("poste send coder,reviewer 'Build it' --type directive --as lead");
    desk.play(
        "
        poste fail 1 --retry --reason 'The network is down' --as coder
        poste track 1
        poste track 1 --json
        # whom it is dead for, and whom not
        poste dead drop 1 --to nobody --as lead
        poste retry 1 --to reviewer --as lead
        poste dead drop 1 --to coder --as lead
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn what_says_nothing_is_refused_and_a_secret_is_named_where_it_stands() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' --type directive --as lead");
    desk.play(
        "
        poste thread close 1 --outcome '' --as lead
        poste thread close 1 --outcome '  ' --as lead
        poste redact 1 --reason '' --as lead
        poste workflow cancel shipping --reason ' ' --as lead
        poste dispatch resume lead --reason ' ' --as lead
        poste session start --name s1 --pid 0 --export --as lead
        poste session note ' ' --session s1 --as lead
        poste ack 1 --note 'password=hunter2-Xk29sLpQ' --as coder
        poste fail 1 --reason 'password=hunter2-Xk29sLpQ' --as coder
        poste done 1 --result 'password=hunter2-Xk29sLpQ' --as coder
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn an_error_tells_programs_what_helps_and_what_was_stored() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' --type directive --as lead");
    let error = desk.peek("poste report blocker 1 --json").exits(3).error_json();
    assert_eq!(error["calls"], json!([{ "verb": "report conversation", "input": { "conversation": "1" } }]), "{error}");
    assert_eq!((&error["stored"], &error["partial"]), (&json!([]), &json!(null)), "{error}");
    let late = desk.peek("poste ask coder 'Ship it?' --id q1 --wait --timeout 1ms --as lead --json");
    let error = late.exits(7).error_json();
    assert_eq!(error["stored"][0]["id"], "q1", "{error}");
}

#[test]
fn a_payload_with_a_key_twice_is_refused() {
    let mut desk = Desk::staffed();
    desk.play(
        r#"
        poste send coder 'Deploy' --payload '{"env":"c","env":"a"}' --as lead
        poste send coder 'Deploy' --payload '{"env":{"a":1},"b":{"a":2}}' --as lead
        "#,
    );
    assert_transcript!(desk);
}

#[test]
fn what_config_check_says_is_stopped_is_stopped() {
    let mut desk = Desk::staffed();
    desk.file("poste.toml", "[types.deploy]\nschema = \"gone.json\"\n");
    desk.play(
        "
        poste config check
        poste send coder 'It goes on' --as lead
        poste send coder 'Deploy' --type deploy --payload {} --as lead
        ",
    );
    desk.file("poste.toml", "");
    desk.file(".poste/local.toml", "wrong = true\n");
    desk.play(
        "
        poste config check
        poste send coder 'It goes on' --as lead
        poste claim --as coder
        poste done 1 --as coder
        ",
    );
    desk.file("poste.toml", "wrong = true\n");
    desk.play(
        "
        poste config check
        poste send coder 'It goes on' --as lead
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn what_was_redacted_is_told_as_gone_and_why_says_who_did_it() {
    let mut desk = Desk::staffed();
    desk.file("plan.md", "the plan");
    desk.quietly("poste send coder 'Follow the plan' 'As written.' --type directive --attach plan.md --as lead");
    desk.quietly("poste done 1 --summary 'All of it' --as coder");
    desk.quietly("poste redact 1 --results --reason 'Names of customers' --as anna");
    desk.play(
        "
        poste read 1
        poste read 1 --for-model
        poste log why 1
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn only_a_person_may_trust() {
    let mut desk = Desk::staffed();
    desk.file("poste.toml", "[wake]\ncommand = ['notify']\n");
    desk.play(
        "
        POSTE_TEST_PERSON=0 poste trust --as coder
        POSTE_TEST_PERSON=0 poste trust --as anna --json
        poste trust --as anna
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_snapshot_clears_away_what_killed_ones_left_under_any_name() {
    let mut desk = Desk::staffed();
    let left = desk.path(format!("backup/.monday.unfinished-{}", "0".repeat(32)));
    let other = desk.path("backup/.monday.unfinished-notes");
    for folder in [&left, &other] {
        std::fs::create_dir_all(folder).expect("a folder");
    }
    desk.quietly("poste snapshot backup/tuesday");
    assert!(!left.exists(), "the leftover of a killed snapshot is removed");
    assert!(other.exists(), "a folder that Poste did not create is kept");
}
