//! `poste wait` and `poste tail`.

use crate::assert_transcript;
use crate::common::Desk;
use serde_json::json;

#[test]
fn wait_returns_what_is_new_marks_it_shown_and_gives_a_cursor() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste wait --timeout 0s --as coder
        poste wait --timeout 0s --as coder --json
        poste send coder 'First' 'Body one' --as lead
        poste send coder 'Second' --type question --as anna
        poste publish Builds 'Nobody listens' --as lead
        poste wait --timeout 0s --from lead --as coder
        poste wait --timeout 0s --as coder
        poste wait --timeout 0s --as coder
        # shown to this agent, but not to this session
        poste wait --timeout 0s --type question --as coder --session run-2
        poste wait --timeout 0s --type question --as coder --session run-2
        # after a cursor: shown or not
        poste wait --timeout 0s --after 6 --as coder
        poste wait --timeout 0s --after 7 --as coder
        poste wait --timeout 0s --as coder --topic Builds
        poste wait --timeout soon --as coder
        poste wait --timeout 0s
        poste track 1
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn wait_for_a_model_is_fenced_and_for_a_program_json() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'First' 'Body' --as lead");
    desk.quietly("poste send coder 'Second' --as lead");
    desk.play("poste wait --timeout 0s --for-model --as coder");
    let news = desk.peek("poste wait --timeout 0s --after 0 --json --as coder").json();
    assert_eq!(news["messages"].as_array().unwrap().len(), 2);
    assert_eq!(news["cursor"], 8);
    assert_transcript!(desk);
}

#[test]
fn a_cursor_never_skips_what_a_limit_left_out() {
    let mut desk = Desk::staffed();
    for number in 1..=5 {
        desk.quietly(&format!("poste send coder 'Message {number}' --as lead"));
    }
    let mut cursor = json!(0);
    let mut seen = Vec::new();
    for _ in 0..5 {
        let ran = desk.peek(&format!("poste wait --timeout 0s --after {cursor} --limit 2 --json --as coder"));
        if ran.code == 7 {
            break;
        }
        let news = ran.json();
        seen.extend(news["messages"].as_array().unwrap().iter().map(|message| message["number"].as_u64().unwrap()));
        cursor = news["cursor"].clone();
    }
    seen.sort_unstable();
    assert_eq!(seen, [1, 2, 3, 4, 5]);
}

#[test]
fn a_cursor_sees_what_a_late_subscription_brings() {
    let mut desk = Desk::staffed();
    desk.quietly("poste publish Builds 'Build 1' --as coder");
    let cursor = desk.peek("poste inbox --json --as lead").json()["as_of"].clone();
    desk.quietly("poste subscribe Builds --from 0 --as lead");
    let _ = desk.peek(&format!("poste wait --timeout 0s --after {cursor} --as lead")).ok();
}

#[test]
fn wait_for_replies_ends_when_all_or_any_have_answered_and_names_who_has_not() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send coder,reviewer,anna 'RS256?' --type question --as lead
        poste wait --replies 1 --timeout 0s --as lead
        poste wait --replies 1 --any --timeout 0s --as lead
        poste reply 1 'Yes' --as coder
        poste wait --replies 1 --any --timeout 0s --as lead
        poste wait --replies 1 --timeout 0s --as lead
        poste wait --replies 1 --all --timeout 0s --as lead --json
        poste done 1 --as reviewer
        poste wait --replies 1 --timeout 0s --as lead
        poste reply 1 'No' --done --as anna
        poste wait --replies 1 --all --as lead
        poste wait --replies 1 --json
        poste wait --replies 9
        poste wait --any --as lead
        poste wait --replies 1 --any --all --as lead
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_waiter_is_woken_by_what_comes_while_it_waits() {
    let mut desk = Desk::staffed();
    let mut waiter = desk.command(&["wait", "--timeout", "60s", "--as", "coder"]).spawn().expect("the program starts");
    drop(waiter.stdin.take());
    // The waiter must find the message whether it is waiting or still starting.
    desk.quietly("poste send coder 'Wake up' --as lead");
    let output = waiter.wait_with_output().expect("the program ends");
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("#1  Wake up\n"));
}

#[test]
fn tail_follows_the_log_an_inbox_or_a_topic() {
    let mut desk = Desk::staffed();
    desk.quietly("poste subscribe Builds --as anna");
    desk.later("90m");
    desk.quietly("poste send coder 'Fix the login' --type directive --as lead");
    desk.quietly("poste send role:reviewer 'Review it' --as lead");
    desk.quietly("poste publish Builds 'Build 1 is green' --as coder");
    desk.quietly("poste broadcast 'Lunch' --as lead");
    desk.quietly("poste claim 1 --as coder");
    desk.quietly("poste extend 1 --as coder");
    desk.quietly("poste release 1 --as coder");
    desk.play(
        "
        poste tail --log --after 0 --for 0s
        poste tail --after 6 --for 0s --as coder
        poste tail --after 6 --for 0s --as reviewer
        poste tail --after 6 --for 0s
        poste tail --topic Builds --after 0 --for 0s
        poste tail --log --after 11 --for 0s --time iso
        poste tail --log --after 12 --for 0s --json
        # from now on: nothing yet
        poste tail --log --for 0s
        poste tail --log --topic Builds --for 0s
        poste tail --for 0s --as nobody
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn tail_of_an_inbox_shows_the_notices_that_come_to_it() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' --type directive --as lead");
    desk.quietly("poste fail 1 --reason 'No access' --as coder");
    assert_eq!(desk.peek("poste inbox --json --as lead").json()["messages"][0]["number"], 2);
    let followed = desk.peek("poste tail --after 0 --for 0s --as lead").ok();
    assert!(followed.out().contains("#2"), "{:?}", followed.out());
}

#[test]
fn a_cursor_of_another_log_is_refused_and_not_waited_after() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' --as lead");
    desk.play(
        "
        poste wait --after 500 --timeout 1s --as coder
        poste wait --after 500 --timeout 1s --as coder --json
        poste tail --log --after 500 --for 1s
        ",
    );
    assert_transcript!(desk);
}
