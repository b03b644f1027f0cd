//! Archiving finished conversations into files, and what still works on them afterwards.

use crate::assert_transcript;
use crate::common::Desk;

/// A finished conversation, a closed one, one with a pending delivery, and a recent one.
fn desk_with_history() -> Desk {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix the login' 'It fails.' --type directive --conversation login --as lead");
    desk.quietly("poste done 1 --summary 'A null check was missing' --result 'Two lines.' --as coder");
    desk.quietly("poste send reviewer 'Which way?' --type question --as lead");
    desk.quietly("poste thread close 2 --outcome 'Neither' --as lead");
    desk.quietly("poste send reviewer 'Still to do' --type directive --as lead");
    desk.later("4d");
    desk.quietly("poste send coder 'Young' --as lead");
    desk.quietly("poste ack 4 --as coder");
    desk
}

#[test]
fn finished_conversations_move_into_a_file_and_can_still_be_read() {
    let mut desk = desk_with_history();
    desk.play(
        "
        poste archive --dry-run
        poste archive --as lead
        poste threads
        poste read 1 --as coder
        poste read 1 --for-model
        poste track 1 --history
        poste log why 1
        poste thread 1
        poste thread 1 --summary
        poste thread 2 --summary
        poste inbox --all --as coder
        poste log verify
        # nothing is left to do
        poste archive --as lead
        poste archive --as lead --json
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn what_is_archived_cannot_be_changed_and_the_error_says_how_to_go_on() {
    let mut desk = desk_with_history();
    desk.quietly("poste archive --as lead");
    desk.play(
        "
        poste claim 1 --as coder
        poste done 1 --as coder
        poste ack 1 --as coder
        poste reply 1 'More of it' --as coder
        poste forward 1 reviewer --as coder
        poste retry 1 --as lead
        poste dead drop 1 --as lead
        poste thread close 1 --outcome 'Over' --as lead
        poste claim 1 --as coder --json
        poste send coder 'It fails again' --conversation login --as lead
        poste thread 1
        poste thread 5 --summary
        ",
    );
    desk.later("5d");
    desk.play(
        "
        poste ack 5 --as coder
        poste archive --older 1h --as lead
        poste archive --older 0s --as lead
        poste thread 1
        poste log verify
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn an_archive_is_written_by_somebody_and_leaves_nothing_behind_otherwise() {
    let mut desk = desk_with_history();
    desk.play(
        "
        poste archive
        poste archive --as ledd
        poste archive --as ledd --json
        poste archive --older soon --as lead
        poste archive --older -1h --as lead
        ",
    );
    assert!(!desk.path(".poste/archive").exists(), "no archive file is written without a record");
    assert_transcript!(desk);
}

#[test]
fn the_retention_is_that_of_poste_toml() {
    let mut desk = desk_with_history();
    desk.file("poste.toml", "[retention]\nfinished = \"5d\"\n");
    desk.play("poste archive --as lead");
    desk.later("2d");
    desk.play("poste archive --as lead");
    assert_transcript!(desk);
}

#[test]
fn a_repeated_send_of_what_is_archived_is_still_a_repeat() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Once' --id once --as lead");
    desk.quietly("poste ack 1 --as coder");
    desk.later("4d");
    desk.quietly("poste archive --as lead");
    desk.play(
        "
        poste send coder 'Once' --id once --as lead --json
        poste send coder 'Twice' --id once --as lead
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn the_file_has_one_line_a_record_and_the_content_last() {
    let mut desk = desk_with_history();
    let files = desk.peek("poste archive --as lead --json").json()["files"].clone();
    let path = desk.path(format!(".poste/archive/{}", files[0].as_str().unwrap()));
    let text = std::fs::read_to_string(path).unwrap();
    let mut last = 0;
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let position = value["position"].as_u64().unwrap();
        assert!(position >= last, "records are in log order");
        last = position;
        let (_, content) = line.rsplit_once(",\"content\":").unwrap();
        assert!(content.ends_with('}') && !content.ends_with("}}"), "the content is last: {line}");
    }
    let kinds: Vec<&str> = text.lines().map(|line| line.split("\"kind\":\"").nth(1).unwrap()).collect();
    let count = |kind: &str| kinds.iter().filter(|rest| rest.starts_with(kind)).count();
    assert_eq!((count("message.send"), count("delivery.done"), count("conversation.close")), (2, 1, 1));
}

#[test]
fn a_damaged_archive_is_noticed_where_it_is_read() {
    let mut desk = desk_with_history();
    let files = desk.peek("poste archive --as lead --json").json()["files"].clone();
    let path = desk.path(format!(".poste/archive/{}", files[0].as_str().unwrap()));
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("It fails.", "It works.")).unwrap();
    desk.play("poste log verify");
    std::fs::write(&path, text.replace("\"sender\":\"lead\"", "\"sender\":\"anna\"")).unwrap();
    desk.play("poste log verify");
    std::fs::remove_file(&path).unwrap();
    desk.play(
        "
        poste read 1
        poste thread 1
        poste log verify
        poste inbox --as reviewer
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_missing_archive_does_not_hide_what_is_whole() {
    let mut desk = desk_with_history();
    let files = desk.peek("poste archive --as lead --json").json()["files"].clone();
    desk.quietly("poste send coder 'It fails again' --conversation login --as lead");
    let path = desk.path(format!(".poste/archive/{}", files[0].as_str().unwrap()));
    std::fs::remove_file(&path).unwrap();
    desk.play(
        "
        poste threads
        poste threads --agent coder
        poste thread 5 --summary
        poste threads --json
        poste log follow --after 0 --for 0s
        poste tail --after 0 --for 0s --as coder
        ",
    );
    let follow = desk.peek("poste log follow --after 0 --for 0s --json");
    let lines: Vec<serde_json::Value> = follow.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let unreadable = |number: u64| {
        let line = lines.iter().find(|line| line["number"] == number && line["kind"] == "message.send");
        line.unwrap()["unreadable"].clone()
    };
    assert_eq!(unreadable(1), format!("the archive {} is missing", files[0].as_str().unwrap()));
    assert_eq!(unreadable(3), serde_json::Value::Null);
    assert_transcript!(desk);
}
