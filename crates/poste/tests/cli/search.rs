//! `poste search`, as text and as JSON.

use crate::assert_transcript;
use crate::common::Desk;

/// An office with a little history.
fn history() -> Desk {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix the login' 'It fails with a 500 in src/auth.rs.' --type directive --as lead");
    desk.later("2h");
    desk.quietly("poste send coder,reviewer 'Lunch?' 'The login can wait.' --type question --as anna");
    desk.quietly("poste done 1 --summary 'A null check was missing' --as coder");
    desk.later("1h");
    desk.quietly("poste broadcast 'Login is back' --as lead");
    desk
}

#[test]
fn messages_are_found_newest_first_with_their_words_marked() {
    let mut desk = history();
    desk.play(
        "
        poste search login
        poste search login fails
        poste search 'login -lunch'
        poste search -- login -lunch
        poste search '\"null check\"'
        poste search 'miss*'
        poste search src/auth.rs --color always
        poste search login --rank --limit 1
        poste search login --limit 1
        poste search login --limit 1 --before 3
        poste search login --json --limit 1
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn filters_narrow_a_search_and_unknown_ones_are_told() {
    let mut desk = history();
    desk.play(
        "
        poste search login --from lead
        poste search login --to reviewer
        poste search null --agent coder
        poste search login --type question
        poste search login --conversation 1
        poste search login --state done
        poste search login --since 90m
        poste search login --until 90m
        poste search login --since 2027-01-01T00:00:00Z
        poste search login --from nobody
        poste search login --agent revewer
        poste search login --to everyone
        poste search login --type questoin
        poste search login --state finished
        poste search login --since yesterday
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_search_that_cannot_be_made_or_finds_nothing_says_what_to_do() {
    let mut desk = history();
    desk.play(
        "
        poste search
        poste search ''
        poste search ++
        poste search -- -login
        poste search 'l*'
        poste search login -lunch
        poste search zebra
        poste search zebra --json
        poste search login --from coder
        poste search 'AND \"'
        poste search 'NEAR(login)'
        poste search login --rank --before 3
        ",
    );
    assert_transcript!(desk);
    let long = "x".repeat(100_000);
    let told = desk.call(&["search", &long], b"").exits(2);
    assert!(told.err().contains("at most 4096"), "{}", told.err());
}

#[test]
fn a_search_shows_nothing_to_anybody_and_an_odd_index_is_made_anew_aloud() {
    let mut desk = history();
    desk.file(".poste/search.db", "this is no database");
    let first = desk.peek("poste search login").ok();
    assert_eq!(first.err(), "the search index was rebuilt: it is damaged\n");
    let second = desk.peek("poste search login").ok();
    assert_eq!((second.err(), second.out()), ("", first.out()));
    assert_eq!(desk.peek("poste search login --json --as reviewer").ok().json()["not_indexed"], 0);
    let track = desk.peek("poste track 2 --json").json();
    for delivery in track["deliveries"].as_array().unwrap() {
        assert!(delivery["shown_at"].is_null(), "{delivery}");
    }
}
