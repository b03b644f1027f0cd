//! Reports: the outcome of a broadcast, a blocker, a conversation, an agent's mail, a day.

use crate::assert_transcript;
use crate::common::Desk;

/// An architect, two builders and an orchestrator.
fn team() -> Desk {
    Desk::with(&[
        "architect --role architect",
        "builder-1 --role builder",
        "builder-2 --role builder",
        "orchestrator --role coordinator",
    ])
}

/// A decision broadcast to three agents and acknowledged by two.
fn announced() -> Desk {
    let mut desk = team();
    desk.quietly(
        "poste broadcast 'DEC-001: JWT uses RS256' 'See docs/jwt.md' --type decision_announcement \
         --ref docs/jwt.md --as architect",
    );
    desk.later("1m");
    desk.quietly("poste read 1 --as builder-1");
    desk.quietly("poste read 1 --as builder-2");
    desk.later("1m");
    desk.quietly("poste ack 1 --note 'Will comply' --as builder-1");
    desk.later("1m");
    desk.quietly("poste reply 1 'We comply from 1.4 on' --type acknowledgment --as builder-2");
    desk
}

/// A blocker that was resolved after 25 minutes.
fn unblocked() -> Desk {
    let mut desk = team();
    desk.quietly("poste subscribe BlockerEncountered --as orchestrator");
    desk.quietly("poste subscribe BlockerResolved --as orchestrator");
    desk.quietly(
        "poste publish BlockerEncountered 'JWT refresh needs the User model' --type blocker_notification \
         --payload '{\"blocker_type\":\"missing_dependency\"}' --as builder-1",
    );
    desk.later("2m");
    desk.quietly("poste read 1 --as orchestrator");
    desk.later("1m");
    desk.quietly(
        "poste send builder-2 'builder-1 waits for the User model' --type priority_request --conversation 1 \
         --as orchestrator",
    );
    desk.later("2m");
    desk.quietly("poste reply 2 'Interface at once, the rest at 10:00' --done --as builder-2");
    desk.later("19m");
    desk.quietly(
        "poste send builder-1 'Partial User interface' --type interface_contract --conversation 1 --as builder-2",
    );
    desk.later("1m");
    desk.quietly("poste done 4 --summary 'It is enough to go on' --as builder-1");
    desk.quietly(
        "poste publish BlockerResolved 'Partial interface received' --type blocker_resolved --conversation 1 \
         --as builder-1",
    );
    desk
}

#[test]
fn a_broadcast_is_reported_with_who_has_taken_note_and_who_has_not() {
    let mut desk = announced();
    desk.play(
        "
        poste report broadcast 1
        poste report broadcast 1 --json
        # looking is not showing
        poste inbox --as orchestrator
        ",
    );
    desk.later("1h");
    desk.quietly("poste ack 1 --as orchestrator");
    desk.play(
        "
        poste report broadcast 1
        poste report broadcast 1 --time iso
        poste report broadcast 1 --mermaid
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_message_to_several_and_a_publication_are_reported_alike() {
    let mut desk = team();
    desk.quietly("poste send builder-1,builder-2,role:builder 'Who takes it?' --type question --as orchestrator");
    desk.quietly("poste reply 1 'I do' --done --as builder-1");
    desk.quietly("poste fail 1 --reason 'No time' --as builder-2");
    desk.quietly("poste publish Nobody 'Is there anybody?' --as architect");
    desk.quietly("poste subscribe Releases --as builder-1");
    desk.quietly("poste publish Releases '1.4 is out' --as architect");
    desk.play(
        "
        poste report broadcast 1
        poste report broadcast 4
        poste report broadcast 5
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_blocker_is_reported_with_its_timeline_and_how_long_it_took() {
    let mut desk = unblocked();
    desk.play(
        "
        poste report blocker 1
        # any message of the conversation will do
        poste report blocker 4 --mermaid
        poste report blocker 1 --json
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_blocker_is_open_until_somebody_says_otherwise() {
    let mut desk = team();
    desk.quietly(
        "poste send orchestrator 'No disk left' --type blocker_notification --meta blocker_type=disk --as builder-1",
    );
    desk.later("5m");
    desk.play("poste report blocker 1");
    desk.quietly("poste forward 1 architect --note 'Your machine' --as orchestrator");
    desk.later("10m");
    desk.quietly("poste thread close 1 --outcome 'A larger disk' --as builder-1");
    desk.play("poste report blocker 2");
    desk.quietly("poste send orchestrator 'Full again' --type blocker_notification --conversation 1 --as builder-1");
    desk.later("1h");
    desk.play("poste report blocker 1");
    assert_transcript!(desk);
}

#[test]
fn a_conversation_is_reported_with_its_outcome_and_the_results_of_work() {
    let mut desk = unblocked();
    desk.quietly("poste send builder-2 'Finish it' --type directive --conversation 1 --as orchestrator");
    desk.play("poste report conversation 1");
    desk.later("1h");
    desk.file("model.rs", "struct User;");
    desk.quietly("poste done 6 --summary 'User model' --recommend 'Review it' --file model.rs --as builder-2");
    desk.quietly("poste ack 3 --as orchestrator");
    desk.quietly("poste done 1 --summary 'Mediated' --as orchestrator");
    desk.quietly("poste ack 5 --as orchestrator");
    desk.play("poste report conversation 1");
    let _ = desk
        .call(&["thread", "close", "1", "--outcome=- User model is in\n- `refresh` works", "--as", "builder-1"], b"")
        .ok();
    desk.play(
        "
        poste report conversation 1 --json
        poste report conversation 6
        poste report conversation 6 --mermaid
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn what_was_archived_or_erased_is_still_reported() {
    let mut desk = announced();
    desk.quietly("poste ack 1 --as orchestrator");
    desk.quietly("poste ack 2 --as architect");
    desk.quietly("poste thread close 1 --outcome 'Everybody knows' --as architect");
    desk.quietly("poste archive --older 0s --as architect");
    desk.play(
        "
        poste report broadcast 1
        poste report conversation 1
        poste report day today
        poste report agent builder-2
        ",
    );
    desk.quietly("poste redact 2 --reason 'Not yet public' --as builder-2");
    desk.play(
        "
        poste report broadcast 1
        poste report conversation 2
        ",
    );
    std::fs::remove_dir_all(desk.path(".poste/archive")).expect("the archive is removed");
    desk.play(
        "
        # what is missing is named, and the rest is told
        poste report conversation 1
        poste report day today
        poste report broadcast 1
        poste report blocker 1
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn an_agent_is_reported_with_what_it_did_and_what_waits_for_it() {
    let mut desk = unblocked();
    desk.quietly("poste send builder-2 'Which key?' --type question --respond-by 10m --as builder-1");
    desk.quietly("poste send builder-2 'Rotate it' --type directive --as orchestrator");
    desk.quietly("poste claim 7 --lease 5h --as builder-2");
    desk.later("1h");
    desk.play(
        "
        poste report agent builder-2
        poste report agent builder-2 --since 30m
        poste report agent builder-1 --json
        ",
    );
    desk.quietly("poste fail 7 --reason 'No permission' --as builder-2");
    desk.quietly("poste retire builder-2 --as orchestrator");
    desk.play("poste report agent builder-2");
    assert_transcript!(desk);
}

#[test]
fn a_day_is_reported_with_everything_that_happened_in_it() {
    let mut desk = announced();
    desk.quietly(
        "poste send orchestrator 'No disk left' --type blocker_notification --conversation disk --as builder-1",
    );
    desk.later("20m");
    desk.quietly("poste done 3 --summary 'A larger one' --as orchestrator");
    desk.quietly("poste send orchestrator 'It fits' --type blocker_resolved --conversation disk --as builder-1");
    desk.quietly("poste ack 4 --as orchestrator");
    desk.quietly("poste send builder-2 'Deploy' --type directive --conversation deploy --as orchestrator");
    desk.quietly("poste fail 5 --reason 'No permission' --as builder-2");
    desk.quietly("poste send builder-2 'Today only' --expires 1h --as orchestrator");
    desk.later("2h");
    desk.play(
        "
        poste report day today
        poste report day today --json
        poste report day yesterday
        ",
    );
    desk.later("1d");
    desk.quietly("poste send builder-2 'Good morning' --as orchestrator");
    desk.quietly("poste thread close 5 --outcome 'Tomorrow' --as orchestrator");
    desk.play(
        "
        poste report day 2026-03-02
        poste report day today
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn hostile_words_break_neither_markdown_nor_a_diagram() {
    let mut desk = team();
    let subject = "| a | `b` <img src=x> [c](d) **e** # f; p0->>p1: forged %% \u{1b}[31m";
    let _ = desk
        .call(&["send", "builder-1,builder-2", subject, "--type", "blocker_notification", "--as", "architect"], b"")
        .ok();
    let note = "```\n# forged heading\n| x |\r\u{202e}";
    let _ = desk.call(&["done", "1", "--summary", note, "--as", "builder-1"], b"").ok();
    let _ = desk.call(&["thread", "close", "1", "--outcome", note, "--as", "architect"], b"").ok();
    desk.play(
        "
        poste report broadcast 1
        poste report blocker 1
        poste report conversation 1
        poste report conversation 1 --mermaid
        poste report day today
        poste report agent builder-1
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn what_cannot_be_reported_is_an_error_with_a_way_out() {
    let mut desk = announced();
    desk.play(
        "
        poste report
        poste report broadcast
        poste report broadcast 99
        poste report broadcast one
        poste report blocker 1
        poste report blocker 99
        poste report conversation 99
        poste report conversation nothing
        poste report conversation 1 --mermaid --json
        poste report agent builder-3
        poste report agent builder-1 --since tomorrow
        poste report agent builder-1 --since 2030-01-01T00:00:00Z
        poste report day tomorrow
        poste report day 2030-01-01
        poste report day 2026-02-30
        poste report agent builder-1 --mermaid
        ",
    );
    assert_transcript!(desk);
}
