//! Conversations: messages and replies, status, closing.

use crate::assert_transcript;
use crate::common::Desk;

/// A question that was answered and forwarded, and a pending directive.
fn busy_desk() -> Desk {
    let mut desk = Desk::staffed();
    desk.quietly("poste send reviewer,coder 'RS256 or ES256?' --type question --conversation tokens --as lead");
    desk.later("5m");
    desk.quietly("poste reply 1 'RS256' --done --as reviewer");
    desk.quietly("poste forward 1 anna --note 'Your call' --as coder");
    desk.later("5m");
    desk.quietly("poste send coder 'Fix the login' --type directive --as lead");
    desk
}

#[test]
fn a_conversation_is_told_in_order_with_how_each_message_stands() {
    let mut desk = busy_desk();
    desk.play(
        "
        poste thread 1
        # any message of it will do, also as it is written
        poste thread '#3' --after 1
        poste thread 1 --limit 2
        poste thread 1 --after 3
        poste thread 1 --after 99
        poste thread 1 --summary
        poste thread 4 --summary
        poste thread 1 --limit 1 --json
        poste thread 4 --summary --json
        # looking is not showing
        poste track 3
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_conversation_is_closed_with_an_outcome_and_a_new_message_opens_it_again() {
    let mut desk = busy_desk();
    desk.play(
        "
        poste thread close 1 --outcome 'RS256, see the minutes' --as lead
        poste thread 1
        poste thread 1 --summary
        # what was open went back; whoever closed it is not told of its own
        poste track 3
        poste inbox --as coder
        poste inbox --as lead
        poste threads --status closed
        poste threads --status open
        poste thread close 1 --outcome 'Again' --as lead
        poste thread close 1 --outcome 'RS256, see the minutes' --id close-1 --as anna --json
        ",
    );
    desk.later("1h");
    desk.play(
        "
        poste send coder 'One more thing' --conversation tokens --as lead
        poste thread 1 --summary
        poste ack 6 --as coder
        poste thread 1 --summary
        poste log why 3
        poste retry 3 --as coder
        poste threads --status open
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn closing_is_idempotent_under_an_id() {
    let mut desk = busy_desk();
    desk.play(
        "
        poste thread close 4 --outcome 'Not needed' --id close-4 --as lead
        poste thread close 4 --outcome 'Not needed' --id close-4 --as lead
        poste thread close 4 --outcome 'Something else' --id close-4 --as lead
        poste thread 4 --summary
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn what_cannot_be_shown_or_closed_is_an_error_with_a_way_out() {
    let mut desk = busy_desk();
    desk.play(
        "
        poste thread
        poste thread twelve
        poste thread 99
        poste thread 99 --json
        poste thread 1 --limit 0
        poste thread 1 --summary --after 2
        poste thread close 1
        poste thread close 99 --outcome 'Over' --as lead
        poste thread close 1 --outcome 'Over'
        poste thread close 1 --outcome 'Over' --as ledd
        # a stranger to the conversation may not; a person may always
        poste register stranger
        poste thread close 1 --outcome 'Over' --as stranger
        poste thread close 4 --outcome 'Over' --as anna
        poste threads --agent nobody
        poste threads --status archived
        poste threads --status lost
        poste threads --limit 0
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn conversations_are_listed_the_newest_first_and_in_pages() {
    let mut desk = Desk::staffed();
    desk.play("poste threads");
    for number in 1..=5 {
        desk.quietly(&format!("poste send coder 'Topic {number}' --conversation c{number} --as lead"));
        desk.later("1m");
    }
    // A message in an older conversation moves it to the front, and it is not listed twice.
    desk.quietly("poste send reviewer 'Back to it' --conversation c2 --as lead");
    desk.quietly("poste ack 1 --as coder");
    desk.play(
        "
        poste threads
        poste threads --limit 2
        poste threads --limit 2 --before 5
        poste threads --limit 2 --before 3
        poste threads --before 1
        poste threads --agent reviewer
        poste threads --status finished
        poste threads --status closed
        poste threads --limit 1 --json
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn pages_hold_every_conversation_once() {
    let mut desk = Desk::staffed();
    for number in 0..30 {
        desk.quietly(&format!("poste send coder 'x' --conversation c{} --as lead", number * 7 % 11));
    }
    for limit in [1, 2, 3, 10, 11, 12] {
        let mut found = Vec::new();
        let mut before = String::new();
        loop {
            let page = desk.peek(&format!("poste threads --limit {limit} {before} --json")).json();
            let names = page["threads"].as_array().unwrap().iter().map(|thread| thread["conversation"].to_string());
            found.extend(names);
            match page["next"].as_u64() {
                Some(next) => before = format!("--before {next}"),
                None => break,
            }
        }
        found.sort_unstable();
        assert_eq!(found.len(), 11, "pages of {limit}: {found:?}");
        found.dedup();
        assert_eq!(found.len(), 11, "pages of {limit}: {found:?}");
    }
}

#[test]
fn hostile_words_take_one_line_of_every_list() {
    let mut desk = Desk::staffed();
    let subject = "red \u{1b}[31m and \u{202e}turned";
    let words = "first\nsecond \u{1b}[31m\u{202e}";
    // A subject must be one line; reasons and outcomes may have several.
    let _ = desk.call(&["send", "coder", words, "--as", "lead"], b"").exits(4);
    let _ = desk.call(&["send", "coder", subject, "--type", "directive", "--as", "lead"], b"").ok();
    let _ = desk.call(&["fail", "1", "--reason", words, "--as", "coder"], b"").ok();
    let _ = desk.call(&["send", "reviewer", "Fine", "--as", "lead"], b"").ok();
    let _ = desk.call(&["thread", "close", "3", "--outcome", words, "--as", "lead"], b"").ok();
    let _ = desk.call(&["send", "coder", subject, "--type", "directive", "--as", "lead"], b"").ok();
    desk.later("2h");
    desk.play(
        "
        poste threads
        poste thread 1
        poste thread 3
        poste thread 4 --summary
        poste dead list
        poste overdue
        ",
    );
    assert_transcript!(desk);
}

/// A listing reads only the start and the end of a long conversation, and says so.
#[test]
fn a_long_conversation_is_counted_up_to_a_thousand_and_its_status_is_still_that_of_the_whole() {
    let mut desk = Desk::staffed();
    let line = |number: usize| {
        let (to, expires) = if number == 600 { ("reviewer", "") } else { ("coder", ",\"expires\":\"1h\"") };
        format!("{{\"to\":\"{to}\",\"subject\":\"{number}\",\"conversation\":\"long\"{expires}}}\n")
    };
    let batch: String = (1..=1_200).map(line).collect();
    let _ = desk.call(&["send", "--batch", "-", "--as", "lead"], batch.as_bytes()).ok();
    let brief = desk.peek("poste threads --json").json()["threads"][0].clone();
    assert_eq!(brief["messages"], serde_json::json!({ "count": 1000, "at_least": true }));
    assert_eq!(brief["open"], serde_json::json!({ "count": 400, "at_least": true }));
    assert_eq!(brief["participants"], serde_json::json!(["coder", "lead"]), "reviewer appears only in the middle");
    assert_eq!((&brief["partial"], &brief["last"], &brief["subject"]), (&true.into(), &1200.into(), &"1".into()));
    let whole = desk.peek("poste thread 1 --summary --json").json();
    assert_eq!(whole["messages"], serde_json::json!({ "count": 1200, "at_least": false }));
    assert_eq!(whole["open"], serde_json::json!({ "count": 1200, "at_least": false }));
    assert_eq!(whole["participants"], serde_json::json!(["coder", "lead", "reviewer"]));
    desk.play("poste threads");
    // All but the one in the middle expire, and their retired sender gets no notices: the list does not read the open
    // delivery, and its status is correct all the same.
    desk.quietly("poste retire lead --as anna");
    desk.later("2h");
    desk.play("poste threads --status open");
    desk.quietly("poste ack 600 --as reviewer");
    desk.play("poste threads --status open\nposte threads");
    assert_transcript!(desk);
}

#[test]
fn whoever_works_on_what_is_closed_hears_of_it() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix the login' --type directive --as lead");
    desk.quietly("poste claim 1 --as coder");
    desk.play(
        "
        poste thread close 1 --outcome 'Not needed any more' --as lead
        poste wait --as coder --timeout 1s
        poste done 1 --as coder
        ",
    );
    assert_transcript!(desk);
}
