//! Overdue responses and work, and who is notified.

use crate::assert_transcript;
use crate::common::Desk;

fn desk_with_a_lead() -> Desk {
    Desk::with(&[
        "lead --role lead",
        "boss",
        "coder --role builder --lead boss",
        "reviewer --role reviewer",
        "anna --kind human",
    ])
}

#[test]
fn what_is_late_is_listed_by_what_is_missing() {
    let mut desk = desk_with_a_lead();
    desk.play("poste overdue");
    desk.quietly("poste send coder 'Ship it?' --type question --respond-by 30m --as anna");
    desk.quietly("poste send reviewer 'Review the plan' --type directive --as anna");
    desk.quietly("poste send role:builder 'Build it' --type directive --as anna");
    desk.quietly("poste send coder 'News' --as anna");
    desk.quietly("poste claim 3 --lease 62m --as coder");
    desk.later("61m");
    desk.play(
        "
        poste overdue
        poste overdue --older 2h --within 10s
        poste overdue --older 2h
        poste overdue --within 1h --json
        # an answer ends it, an ack does not
        poste ack 1 --as coder
        poste overdue --older 2h --within 10s
        poste reply 1 'Yes' --as coder
        poste overdue --older 2h --within 10s
        poste overdue --older 2h --within 10s --json
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_missing_response_is_told_once_to_the_sender_and_the_recipients_lead() {
    let mut desk = desk_with_a_lead();
    desk.play("poste send coder,reviewer 'Ship it?' --type question --respond-by 30m --as anna");
    desk.later("29m");
    desk.play("poste inbox --as anna");
    // For hours no command runs, and there is no daemon.
    desk.later("5h");
    desk.play(
        "
        # coder is registered with a lead; of reviewer the role lead is told
        poste inbox --as boss
        poste inbox --as lead
        poste inbox --as anna
        poste read 2 --as anna
        poste track 1
        poste log why 1
        poste overdue
        ",
    );
    desk.later("5h");
    desk.play(
        "
        # told once
        poste inbox --as anna
        poste inbox --as boss
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn nobody_is_reminded_of_what_was_answered_or_ended_in_time() {
    let mut desk = desk_with_a_lead();
    desk.quietly("poste send coder 'One?' --type question --respond-by 30m --as anna");
    desk.quietly("poste send coder 'Two?' --type question --respond-by 30m --as anna");
    desk.quietly("poste send coder 'Three?' --type question --respond-by 30m --as anna");
    desk.quietly("poste reply 1 'Yes' --as coder");
    desk.quietly("poste done 2 --as coder");
    desk.quietly("poste thread close 3 --outcome 'Never mind' --as anna");
    desk.later("2h");
    desk.play(
        "
        poste inbox --as boss
        poste inbox --as anna
        poste overdue --older 10h
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_lead_is_never_told_of_its_own_silence_nor_of_its_own_question() {
    let mut desk = desk_with_a_lead();
    // A question by the lead; a question to the lead; a question to an agent by its registered lead.
    desk.quietly("poste send reviewer 'From the lead' --type question --respond-by 30m --as lead");
    desk.quietly("poste send lead 'To the lead' --type question --respond-by 30m --as anna");
    desk.quietly("poste send coder 'From the boss' --type question --respond-by 30m --as boss");
    desk.later("1h");
    for agent in ["lead", "anna", "boss", "reviewer", "coder"] {
        desk.play(&format!("poste inbox --from poste --as {agent}"));
    }
    assert_transcript!(desk);
}

#[test]
fn a_lead_is_registered_changed_and_taken_back() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste register new --lead lead
        poste register new --lead lead
        poste register new --lead anna
        poste register new --lead anna --update
        poste register new --no-lead --update
        poste register newer --lead nobody
        poste register newer --lead newer
        poste register new --no-lead
        poste register new --lead anna --no-lead --update
        poste agents --json
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn who_says_nothing_while_mail_waits_is_named() {
    let mut desk = desk_with_a_lead();
    desk.quietly("poste send coder 'One' --as anna");
    desk.later("30m");
    desk.quietly("poste send reviewer 'Two' --as anna");
    desk.later("45m");
    desk.play(
        "
        poste overdue
        poste overdue --older 30m
        # a word is enough
        poste ack 2 --as reviewer
        poste overdue --older 30m
        poste overdue --older soon
        poste overdue --within
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_list_that_is_cut_says_so() {
    let mut desk = desk_with_a_lead();
    let line = |number: usize| {
        format!("{{\"to\":\"coder\",\"subject\":\"{number}\",\"type\":\"question\",\"respond_by\":\"1m\"}}\n")
    };
    let batch: String = (0..102).map(line).collect();
    let _ = desk.call(&["send", "--batch", "-", "--as", "anna"], batch.as_bytes()).ok();
    desk.later("2h");
    let late = desk.peek("poste overdue --json").json();
    assert_eq!(late["responses"].as_array().unwrap().len(), 100);
    assert_eq!(late["more"], true);
    assert!(desk.peek("poste overdue").ok().out().ends_with("(more not shown)\n"));
    // Messages that ask for no work may precede work, so that the work is not read at all.
    let mut desk = desk_with_a_lead();
    let batch = "{\"to\":\"coder\",\"subject\":\"news\",\"priority\":\"high\"}\n".repeat(250);
    let _ = desk.call(&["send", "--batch", "-", "--as", "anna"], batch.as_bytes()).ok();
    desk.quietly("poste send coder 'Work' --type directive --priority high --as anna");
    desk.later("2h");
    let late = desk.peek("poste overdue --json").json();
    assert_eq!((late["unclaimed"].as_array().unwrap().len(), &late["more"]), (0, &true.into()));
}

#[test]
fn why_says_who_was_told_and_no_more() {
    let mut desk = Desk::with(&["anna", "coder", "boss", "tester --lead boss"]);
    desk.quietly("poste send coder 'Ship it?' --type question --respond-by 30m --as anna");
    desk.quietly("poste send tester 'Tested?' --type question --respond-by 30m --as boss");
    desk.quietly("poste send coder 'Who hears this?' --type question --respond-by 30m --as boss");
    desk.quietly("poste retire boss --as anna");
    desk.later("1h");
    desk.play(
        "
        poste log why 1
        poste log why 2
        poste log why 3
        poste done 1 --as coder
        poste done 3 --as coder
        ",
    );
    desk.quietly("poste ack 4 --as anna");
    desk.later("4d");
    desk.play(
        "
        poste archive --as anna
        # the archive knows it too
        poste log why 1
        poste log why 3
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_deadline_before_it_may_be_read_is_refused() {
    let mut desk = desk_with_a_lead();
    desk.play(
        "
        poste send coder 'Ship it?' --type question --respond-by 1s --not-before 3s --as anna
        poste send coder 'Ship it?' --type question --respond-by 3s --not-before 3s --as anna
        poste send coder 'Ship it?' --type question --respond-by 4s --not-before 3s --as anna
        ",
    );
    assert_transcript!(desk);
}
