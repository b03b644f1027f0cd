//! Redaction erases content and keeps who wrote it and how it ended.

use crate::assert_transcript;
use crate::common::Desk;

fn desk_with_a_secret() -> Desk {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'The key' 'hunter2' --type directive --as lead");
    desk.quietly("poste claim 1 --as coder");
    desk.quietly("poste done 1 --summary 'Used hunter2' --as coder");
    desk
}

#[test]
fn content_is_erased_and_who_and_why_stays() {
    let mut desk = desk_with_a_secret();
    desk.play(
        "
        poste redact 1 --reason 'carried a password' --as lead
        poste read 1 --as coder
        poste read 1 --for-model
        poste read 1 --json
        poste inbox --all --as coder
        poste thread 1
        poste thread 1 --summary
        poste threads
        poste track 1
        poste log why 1
        # what others said of it is theirs
        poste redact 1 --results --reason 'carried a password' --as lead
        poste redact 1 --results --reason 'carried a password' --as anna
        poste track 1
        poste log why 1
        poste log verify
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn only_its_author_or_a_human_redacts_and_only_what_is_there() {
    let mut desk = desk_with_a_secret();
    desk.play(
        "
        poste redact
        poste redact 1 --as lead
        poste redact 1 --reason 'x'
        poste redact 1 --reason 'x' --as coder
        poste redact 1 --reason 'x' --as coder --json
        poste redact 99 --reason 'x' --as lead
        poste redact --record 99 --reason 'x' --as lead
        poste redact --record 1 --reason 'x' --as anna
        poste redact --record one --reason 'x' --as anna
        poste redact --finish 1 --as lead
        poste redact 1 --reason 'x' --as lead
        poste redact 1 --reason 'x' --as lead
        poste redact --finish --as lead
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn redacting_is_idempotent_under_an_id() {
    let mut desk = desk_with_a_secret();
    desk.play(
        "
        poste redact 1 --reason 'x' --id r-1 --as lead --json
        poste redact 1 --reason 'x' --id r-1 --as lead --json
        poste redact 1 --reason 'y' --id r-1 --as lead
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn what_repeats_the_words_is_named() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'The key' 'hunter2' --type question --as lead");
    desk.quietly("poste reply 1 'Thanks' --as coder");
    desk.quietly("poste reply 1 'A word of my own' --subject 'Mine' --as coder");
    desk.quietly("poste forward 1 reviewer --as coder");
    desk.play("poste redact 1 --reason 'carried a password' --as lead");
    desk.play("poste redact 4 --reason 'carried a password' --as anna");
    assert_transcript!(desk);
}

#[test]
fn an_archived_message_is_redacted_in_its_file() {
    let mut desk = desk_with_a_secret();
    desk.later("4d");
    let files = desk.peek("poste archive --as lead --json").json()["files"].clone();
    let path = desk.path(format!(".poste/archive/{}", files[0].as_str().unwrap()));
    let before = std::fs::read_to_string(&path).unwrap();
    assert!(before.contains("hunter2"));
    desk.play(
        "
        poste redact 1 --results --reason 'carried a password' --as anna
        poste read 1
        poste track 1
        poste thread 1
        poste log verify
        ",
    );
    let after = std::fs::read_to_string(&path).unwrap();
    assert!(!after.contains("hunter2"));
    assert_eq!(before.len(), after.len(), "no byte moved");
    assert_transcript!(desk);
}
