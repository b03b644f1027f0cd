//! Row 30: names have one grammar, and every surface enforces it.

use std::ffi::OsStr;
use std::str::FromStr;

use poste_core::text::{Label, Name, RecordId, Session, Topic, TypeName, Word};
use poste_testkit::corpus;
use serde_json::json;

use crate::desk::{Desk, lines};

/// A command line cannot contain NUL, and clap itself refuses an option with an empty value.
fn wanted<T: FromStr>(text: &str) -> i32 {
    if text.parse::<T>().is_ok() { 0 } else { 2 }
}

#[test]
fn no_hostile_name_is_an_agent() {
    let desk = Desk::new();
    for name in corpus::NAMES {
        assert!(name.parse::<Name>().is_err(), "{name:?}");
        desk.refuses(2, &["register", "--", name]);
        desk.refuses(2, &["whoami", &format!("--as={name}")]);
        // An empty variable counts as unset, and a missing sender is a usage error as well.
        let ran = desk.call_with(&["whoami"], &mut std::io::empty(), None, &[("POSTE_AGENT", OsStr::new(name))]);
        assert_eq!(ran.code, 2, "{name:?}: {}", ran.err);
    }
}

#[test]
fn no_hostile_address_is_sent_to() {
    let desk = Desk::new();
    let hostile: Vec<&str> = corpus::NAMES.iter().copied().filter(|name| *name != "everyone").collect();
    let messages: Vec<_> = hostile.iter().map(|name| json!({ "to": name, "subject": "Hello" })).collect();
    let batch = ["send", "--batch", "-", "--as", "lead", "--json"];
    let ran = desk.refuses_input(4, &batch, &mut std::io::Cursor::new(lines(&messages)), None);
    assert_eq!(ran.json()["refused"].as_array().map(Vec::len), Some(hostile.len()), "{}", ran.out);
    assert_eq!(ran.json()["sent"], 0);
    for name in hostile {
        // Blanks around an address are ignored.
        let code = if name.trim() == "a" { 3 } else { 2 };
        desk.refuses(code, &["send", "--as", "lead", "--", name, "Hello"]);
    }
}

#[test]
fn words_of_every_other_kind_are_taken_as_their_grammar_says() {
    let desk = Desk::new();
    for (text, count) in corpus::NAMES.iter().zip(0..) {
        let send = |option: &str| {
            vec!["send".to_owned(), "coder".into(), "s".into(), "--as=lead".into(), format!("{option}={text}")]
        };
        let new = format!("new-{count}");
        let ends = |code: i32, words: &[String]| {
            let ran = desk.call(words, &mut std::io::empty(), None);
            // A type may follow the grammar and still be unknown.
            let unknown = code == 0 && ran.code == 3 && words[4].starts_with("--type");
            assert!(ran.code == code || unknown, "{words:?}: {} instead of {code}: {}", ran.code, ran.err);
        };
        ends(wanted::<TypeName>(text), &send("--type"));
        ends(wanted::<Label>(text), &send("--conversation"));
        ends(wanted::<Label>(text), &send("--workflow"));
        ends(wanted::<Session>(text), &send("--session"));
        ends(wanted::<RecordId>(text), &send("--id"));
        ends(wanted::<Word>(text), &["register".to_owned(), new, format!("--role={text}")]);
        ends(
            wanted::<Topic>(text),
            &["publish".to_owned(), "--as=lead".into(), "--".into(), (*text).into(), "s".into()],
        );
    }
    assert_eq!(desk.accepts(&["log", "verify", "--json"]).json()["problems"], json!([]));
}
