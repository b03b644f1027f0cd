//! The inbox: order, filters, budgets.

use crate::assert_transcript;
use crate::common::Desk;

/// The token estimate of `ui::tokens`.
fn estimate(text: &str) -> usize {
    let ascii = text.chars().filter(char::is_ascii).count();
    let other = text.chars().count() - ascii;
    ascii.div_ceil(3) + 2 * other
}

fn numbers(listing: &serde_json::Value) -> Vec<u64> {
    listing["messages"].as_array().unwrap().iter().map(|line| line["number"].as_u64().unwrap()).collect()
}

#[test]
fn an_inbox_is_sorted_by_priority_then_age_and_filtered() {
    let mut desk = Desk::staffed();
    for (subject, more) in [
        ("Low and old", "--priority low"),
        ("A question", "--type question"),
        ("A directive", "--type directive"),
        ("Burning", "--type alert"),
        ("Critical is urgent", "--priority critical"),
        ("Plain", ""),
    ] {
        desk.play(&format!("poste send coder '{subject}' {more} --as lead"));
        desk.later("1m");
    }
    desk.play("poste send coder 'From a person' --as anna");
    desk.quietly("poste send coder 'Tomorrow' --priority urgent --not-before 1d --as lead");
    desk.play(
        "
        poste inbox --as coder
        poste read 4 --as coder
        poste claim 3 --lease 30m --as coder
        poste ack 2 --as coder
        poste done 6 --as coder
        poste inbox --as coder
        poste inbox --unread --as coder
        poste inbox --type question --as coder
        poste inbox --from anna --as coder
        poste inbox --from nobody --as coder
        poste inbox --limit 2 --as coder
        poste inbox --all --as coder
        poste inbox --limit 1 --json --as coder
        poste inbox --as anna
        poste inbox --limit 0 --as coder
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn listing_marks_nothing_as_shown() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' --as lead");
    for look in ["inbox", "inbox --json", "inbox --all", "tail --after 0 --for 0s"] {
        desk.quietly(&format!("poste {look} --as coder"));
    }
    assert!(desk.peek("poste track 1 --json").json()["deliveries"][0]["shown_at"].is_null());
    desk.quietly("poste read 1 --as coder");
    assert!(desk.peek("poste track 1 --json").json()["deliveries"][0]["shown_at"].is_string());
}

/// Forty messages of various lengths, some not in ASCII.
fn crowded() -> Desk {
    let mut desk = Desk::staffed();
    let lines: Vec<String> = (1..=40)
        .map(|number: usize| {
            let subject = format!("Message {number} {}{}", "word ".repeat(number % 7), "漢".repeat(number % 5));
            serde_json::json!({ "to": "coder", "subject": subject }).to_string()
        })
        .collect();
    let _ = desk.call(&["send", "--batch", "-", "--as", "lead"], lines.join("\n").as_bytes()).ok();
    desk
}

#[test]
fn a_token_budget_is_held_and_what_is_left_out_is_counted() {
    let mut desk = crowded();
    desk.play(
        "
        poste inbox --tokens 100 --as coder
        poste inbox --tokens 100 --limit 2 --as coder
        ",
    );
    assert_transcript!(desk);
    let mut fewer_than_all = false;
    for budget in [12, 20, 50, 75, 100, 150, 300, 700, 5_000] {
        let listing = desk.peek(&format!("poste inbox --tokens {budget} --as coder")).ok();
        assert!(estimate(listing.out()) <= budget, "{budget} tokens: {}", listing.out());
        let (rows, notes): (Vec<&str>, Vec<&str>) = listing.out().lines().partition(|line| line.starts_with('#'));
        let left_out = 40 - rows.len();
        fewer_than_all |= left_out > 0;
        let note = notes.first().copied().unwrap_or_default();
        let wanted = if left_out > 0 { format!("({left_out} more not shown)") } else { String::new() };
        assert_eq!(note, wanted);
    }
    assert!(fewer_than_all, "no budget was too small for everything");
}

#[test]
fn a_token_budget_is_held_in_json_too() {
    let mut desk = crowded();
    for budget in (45..=400).step_by(5) {
        let listing = desk.peek(&format!("poste inbox --tokens {budget} --json --as coder")).ok();
        let page = listing.json();
        assert_eq!(numbers(&page).len() as u64 + page["left_out"]["count"].as_u64().unwrap(), 40);
        assert!(estimate(listing.out()) <= budget, "{budget} tokens: {} used", estimate(listing.out()));
    }
}

#[test]
fn a_token_budget_holds_what_is_said_of_contexts_too() {
    let mut desk = crowded();
    for number in 1..=14 {
        desk.quietly(&format!("poste context create plan-{number} one --as lead"));
        desk.quietly(&format!("poste context show plan-{number} --as coder"));
        desk.quietly(&format!("poste context append plan-{number} two --as lead"));
    }
    let (mut some, mut none) = (false, false);
    for (json, budget) in (60..=2_500).step_by(61).flat_map(|budget| [(" --json", budget), ("", budget)]) {
        let listing = desk.peek(&format!("poste inbox --tokens {budget}{json} --as coder")).ok();
        assert!(estimate(listing.out()) <= budget, "{budget} tokens: {} used", estimate(listing.out()));
        let told = listing.out().matches("plan-").count();
        some |= told > 0;
        none |= told == 0;
        let says_more = ["(more contexts have changed", "\"more_stale_contexts\":true"];
        assert!(says_more.iter().any(|words| listing.out().contains(words)), "{budget}{json}: {}", listing.out());
    }
    assert!(some && none);
}

#[test]
fn a_limit_counts_what_it_leaves_out_also_under_a_filter() {
    let mut desk = Desk::staffed();
    for number in 1..=5 {
        desk.quietly(&format!("poste send coder 'Question {number}' --type question --as lead"));
    }
    for filter in ["", "--unread", "--type question", "--from lead"] {
        let page = desk.peek(&format!("poste inbox --limit 2 {filter} --json --as coder")).json();
        assert_eq!(numbers(&page), [1, 2], "{filter}");
        assert_eq!(page["left_out"]["count"], 3, "{filter}");
    }
}

#[test]
fn a_budget_that_leaves_everything_out_does_not_say_that_nothing_waits() {
    let mut desk = crowded();
    let listing = desk.peek("poste inbox --tokens 12 --as coder").ok();
    assert_eq!(listing.out(), "(40 more not shown)\n");
    assert!(!listing.err().contains("no pending mail"), "{}", listing.err());
}

#[test]
fn a_filter_by_a_name_or_type_that_is_not_there_is_an_error() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' --type question --as lead");
    let _ = desk.peek("poste inbox --from laed --as coder").exits(3);
    let _ = desk.peek("poste inbox --type qestion --as coder").exits(3);
}
