//! Sending: recipients, options, ids, limits.

use crate::assert_transcript;
use crate::common::Desk;
use serde_json::json;

#[test]
fn a_message_with_everything_is_read_by_a_person_a_program_and_a_model() {
    let mut desk = Desk::staffed();
    desk.file("src/login.rs", "fn login() {}\n");
    desk.file("logs/failure.txt", "500\n");
    desk.file("details.json", "{\"ticket\": 17, \"big\": 9007199254740993}");
    desk.quietly("poste send coder 'Something before' --as anna");
    desk.play(
        "
        poste send coder 'Fix the login' 'It fails with a **500**.' --type directive --priority urgent --payload @details.json --artifact src/login.rs --attach logs/failure.txt --artifact-later src/login_test.rs --conversation login-17 --wants-response --respond-by 2h --expires 1d --not-before 2026-03-02T09:00:00Z --workflow release-4 --step 2:fix --context 'Customers cannot enter' --expect 'A commit with a test' --ref 'issue 17' --ref https://example.org/17 --meta team=web --meta area=login --id fix-login-17 --reply-to 1 --as lead
        ",
    );
    desk.later("5m");
    desk.play(
        "
        poste read 2 --as coder
        poste read 2 --as coder --time iso
        poste read 2 --as coder --for-model
        poste read 2 --as coder --json
        poste track 2
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn what_is_typed_wrong_is_answered_with_what_is_right() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send codr 'Fix it' --as lead
        poste send zzz 'Fix it' --as lead
        poste send coder --as lead
        poste send coder 'Fix it' --type directiv --as lead
        poste send coder 'Fix it' --type Directive --as lead
        poste send coder 'Fix it' --priority hgih --as lead
        poste send coder 'Fix it' --respond-by tomorrow --as lead
        poste send coder 'Fix it' --meta team --as lead
        poste send coder 'Fix it' --meta team=a --meta team=b --as lead
        poste send coder 'Fix it' --reply-to 9 --as lead
        poste send coder,codr 'Fix it' --as lead
        poste send coder,, 'Fix it' --as lead
        poste send squad:web 'Fix it' --as lead
        poste send everyone:x 'Fix it' --as lead
        poste send role:gardener 'Water it' --as lead
        poste send role:coordinator 'To myself' --as lead
        poste sned coder hello
        poste send coder hello --asap
        poste read twelve
        poste read 12
        poste done 12 --as coder
        poste schema inbx
        # nothing of it was stored
        poste inbox --as coder
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn several_recipients_get_a_delivery_each_and_nobody_gets_two() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send coder,reviewer 'For both' --as lead
        poste send coder 'For three' --to reviewer --to anna --to coder --as lead
        poste send 'coder, reviewer,every:can:rust' 'Each once' --as lead
        poste send lead 'To myself' --as lead
        poste track 2
        poste inbox --as coder
        ",
    );
    for number in 1..=5 {
        desk.quietly(&format!("poste register extra-{number}"));
    }
    desk.note("five more agents later");
    desk.play("poste broadcast 'Too many to name' --as lead");
    assert_transcript!(desk);
}

#[test]
fn a_group_has_one_delivery_that_one_member_takes() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send role:reviewer 'Review this' --type question --as lead
        poste send can:rust 'Who knows lifetimes?' --type question --as lead
        poste send every:can:rust 'Read the new style guide' --as lead
        poste send every:role:gardener 'Water the plants' --as lead
        poste inbox --as reviewer
        poste inbox --as coder
        poste claim 2 --as coder
        poste claim 2 --as reviewer
        poste inbox --as reviewer
        poste done 2 --as reviewer
        poste claim 1 --as coder
        poste done 2 --summary 'Explained' --as coder
        poste track 2
        poste inbox --as reviewer
        # a sender does not get what it sent to its own group
        poste send can:rust 'One for the other' --type question --as coder
        poste inbox --as coder
        poste claim 5 --as coder
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn zero_recipients_are_said_aloud() {
    let mut desk = Desk::with(&["lead"]);
    desk.play(
        "
        poste broadcast 'Anybody here?' --as lead
        poste send everyone 'Anybody?' --as lead
        poste publish Nothing 'Nobody listens' --as lead
        poste send topic:Nothing 'Nobody listens' --as lead
        poste send every:role:builder 'Builders?' --as lead
        poste send role:builder 'A builder?' --as lead
        poste send every:role:builder 'Builders?' --as lead --json
        poste track 1
        poste read 1
        poste log why 1
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn the_same_id_is_one_message_for_ever_and_another_content_a_conflict() {
    let mut desk = Desk::staffed();
    desk.play("poste send coder 'Fix it' 'Now.' --id fix-1 --respond-by 1h --as lead");
    desk.later("3d");
    desk.play(
        "
        poste send coder 'Fix it' 'Now.' --id fix-1 --respond-by 1h --as lead
        poste send coder 'Fix it' 'Later.' --id fix-1 --respond-by 1h --as lead
        poste send coder 'Fix it' 'Now.' --id fix-1 --respond-by 1h --as anna
        poste send coder 'Fix it' 'Now.' --id fix-1 --respond-by 1h --as lead --json
        poste send reviewer 'Fix it' 'Now.' --id fix-1 --as lead --json
        poste inbox --as coder
        poste log why --id fix-1
        poste log why --id fix-2
        poste log why --id fix-2 --json
        # the other writes have ids, too
        poste done 1 --summary Fixed --id done-1 --as coder
        poste done 1 --summary Fixed --id done-1 --as coder
        poste done 1 --summary Fixed --id done-2 --as coder
        poste log why --id done-1
        # a refusal is not kept: its id may be looked up and is absent
        poste log why --id done-2
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_payload_is_json_from_the_line_or_a_file_and_kept_as_it_is() {
    let mut desk = Desk::staffed();
    desk.file("payload.json", "{\"z\":1e400,\"a\":9007199254740993}\n");
    desk.file("broken.json", "{\"a\":");
    desk.file("latin1.json", b"\"\xe9\"");
    desk.play(
        "
        poste send coder 'By line' --payload '{\"passed\": 24, \"ratio\": 0.10}' --as lead
        poste send coder 'By file' --payload @payload.json --as lead
        poste send coder 'A bare word' --payload word --as lead
        poste send coder 'Broken' --payload @broken.json --as lead
        poste send coder 'No UTF-8' --payload @latin1.json --as lead
        poste send coder 'Missing' --payload @missing.json --as lead
        poste send coder 'Two' --payload '1 2' --as lead
        poste read 1
        poste read 2
        ",
    );
    assert_transcript!(desk);
    // Numbers and the order of keys are kept as sent.
    assert!(desk.peek("poste read 2 --json").out().contains(r#""payload":{"z":1e400,"a":9007199254740993}"#));
}

#[test]
fn a_payload_may_be_a_hundred_levels_deep_and_no_deeper() {
    let mut desk = Desk::staffed();
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let send =
        |payload: String| ["send", "coder", "Deep", "--as", "lead", "--payload", payload.as_str()].map(String::from);
    let _ = desk.call(&send(nested(100)), b"").ok();
    let refused = desk.call(&send(nested(101)), b"").exits(4);
    assert_eq!(refused.err(), "error: the payload is nested deeper than 100 levels\n");
    let _ = desk.call(&send(format!("{{\"a\":{}}}", nested(100))), b"").exits(4);
    // Brackets in strings do not count.
    let _ = desk.call(&send(format!("[\"{}\\\"{}\"]", "[".repeat(300), "{".repeat(300))), b"").ok();
    // Brackets that are never closed must not crash the program.
    let _ = desk.call(&send("[".repeat(100_000)), b"").exits(2);
    assert_eq!(desk.peek("poste inbox --as coder --json").json()["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn a_body_from_stdin_is_kept_byte_for_byte() {
    let mut desk = Desk::staffed();
    let _ = desk.ask_with("poste send coder 'A diff' - --as lead < diff.txt", b"- old\n+ new\n\ttabbed\n\n").ok();
    desk.play("poste read 1 --as coder");
    let _ = desk.ask_with("poste send coder 'No text' - --as lead < picture.png", b"\x89PNG\0\xff\xfe").ok();
    let _ = desk.ask_with("poste send coder 'A NUL' - --as lead < nul.txt", b"before\0after").ok();
    desk.play(
        "
        poste read 2 --as coder
        poste read 3 --as coder
        poste read 2 --json
        # a body of no text in an answer, a result
        ",
    );
    let _ = desk.ask_with("poste reply 2 - --as coder < answer.bin", b"\xc3\x28").ok();
    let _ = desk.ask_with("poste done 2 --result - --as coder < result.bin", b"\xff\xff").ok();
    desk.play("poste track 2");
    assert_transcript!(desk);
    let read = |desk: &mut Desk, number: u64| desk.peek(&format!("poste read {number} --json")).json();
    assert_eq!(read(&mut desk, 1)["body"], "- old\n+ new\n\ttabbed\n\n");
    assert_eq!(read(&mut desk, 1).get("body_base64"), None);
    assert_eq!(read(&mut desk, 2)["body_base64"], json!("iVBORwD//g=="));
    assert_eq!(read(&mut desk, 3)["body"], "before\0after");
    assert_eq!(read(&mut desk, 4)["body_base64"], json!("wyg="));
}

#[test]
fn a_body_may_fill_a_message_and_not_one_byte_more() {
    const MAX: usize = poste_core::limits::CONTENT_BYTES_MAX;
    let mut desk = Desk::staffed();
    let around = r#"{"subject":"Big","body":""}"#.len();
    let full = vec![b'x'; MAX - around];
    let _ = desk.ask_with("poste send coder Big - --as lead < full.txt", &full).ok();
    let _ = desk.ask_with("poste send coder Big - --as lead < one-more.txt", &vec![b'x'; full.len() + 1]).exits(4);
    let _ = desk.ask_with("poste send coder Big - --as lead < 8-MiB-and-1.txt", &vec![b'x'; MAX + 1]).exits(4);
    desk.play("poste inbox --as coder");
    assert_transcript!(desk);
    assert_eq!(desk.peek("poste read 1 --json").json()["body"].as_str().unwrap().as_bytes(), full);
    let _ = desk.peek("poste log verify").ok();
}

#[test]
fn a_subject_is_one_line_of_at_most_512_bytes() {
    let mut desk = Desk::staffed();
    let mut send = |subject: &str| desk.call(&["send", "coder", subject, "--as", "lead"], b"");
    let _ = send(&"s".repeat(512)).ok();
    let _ = send(&"s".repeat(513)).exits(4);
    let _ = send("two\nlines").exits(4);
    let _ = send("carriage\rreturn").exits(4);
    // An empty subject is a usage error.
    let _ = send("").exits(2);
}

#[test]
fn a_message_for_tomorrow_is_not_said_to_be_told_at_the_next_tool_call() {
    let mut desk = Desk::staffed();
    let sent = desk.peek("poste send coder 'Tomorrow' --not-before 1d --as lead").ok();
    assert!(!sent.err().contains("at the next tool call"), "{}", sent.err());
}

#[test]
fn the_bytes_of_a_result_come_back_too() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Draw it' --type directive --as lead");
    let _ = desk.call(&["done", "1", "--result", "-", "--as", "coder"], b"\xff\xfe").ok();
    let track = desk.peek("poste track 1 --json").ok();
    assert!(track.out().contains("//4="), "{}", track.out());
}
