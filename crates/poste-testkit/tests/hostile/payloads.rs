//! Row 34: JSON that parsers disagree on. It is kept as given or refused, and never half read.

use poste_core::limits::PAYLOAD_DEPTH_MAX;
use poste_testkit::corpus;
use serde::de::IgnoredAny;

use crate::desk::{Desk, write_file};

#[test]
fn a_payload_is_kept_as_given_or_refused_and_every_answer_stays_one_line_of_json() {
    let desk = Desk::new();
    let (mut taken, mut refused) = (0, 0);
    for json in corpus::JSON_TEXTS {
        let words = ["send", "coder", "s", "--as", "lead", &format!("--payload={json}")];
        let is_json = serde_json::from_str::<IgnoredAny>(json).is_ok();
        let is_readable = serde_json::from_str::<serde_json::Value>(json)
            .map_or_else(|error| error.to_string().contains("number out of range"), |_| true);
        // Some readers take the first of two equal keys, some the last, so the meaning would be undefined.
        let has_a_key_twice = *json == corpus::KEY_TWICE;
        if !is_readable || has_a_key_twice {
            // Invalid JSON is a usage error; JSON that not every reader can read is refused.
            desk.refuses(if is_json { 4 } else { 2 }, &words);
            refused += 1;
            continue;
        }
        desk.accepts(&words);
        taken += 1;
        let read = desk.accepts(&["read", &taken.to_string(), "--json"]);
        assert_eq!(read.out.lines().count(), 1, "{json:?}: {}", read.out);
        assert!(serde_json::from_str::<IgnoredAny>(&read.out).is_ok(), "{json:?}: {}", read.out);
        if let Ok(value) = serde_json::from_str::<serde_json::Value>(json) {
            assert_eq!(read.json()["payload"], value);
        }
        if !json.contains(char::is_whitespace) && json.is_ascii() {
            assert!(read.out.contains(&format!("\"payload\":{json},")), "{json}: {}", read.out);
        }
        desk.accepts(&["read", &taken.to_string()]);
    }
    assert!(taken > 10 && refused > 20, "{taken} {refused}");
    let inbox = desk.accepts(&["wait", "--timeout", "0s", "--as", "coder", "--json"]);
    assert!(inbox.out.lines().all(|line| serde_json::from_str::<IgnoredAny>(line).is_ok()), "{:.3000}", inbox.out);
}

#[test]
fn depth_and_size_have_a_limit() {
    let desk = Desk::new();
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    for (depth, code) in [(PAYLOAD_DEPTH_MAX, 0), (PAYLOAD_DEPTH_MAX + 1, 4), (10_000, 4), (4_000_000, 4)] {
        write_file(&desk.path("deep.json"), nested(depth).as_bytes());
        let words = ["send", "coder", "s", "--as", "lead", "--payload", "@deep.json"];
        if code == 0 {
            desk.accepts(&words);
        } else {
            desk.refuses(code, &words);
        }
        let line = format!("{{\"to\":\"coder\",\"subject\":\"s\",\"payload\":{}}}", nested(depth));
        let ran = desk.call(&["send", "--batch", "-", "--as", "lead"], &mut std::io::Cursor::new(line), None);
        assert_eq!(ran.code, code, "{depth} in a batch: {}", ran.err);
    }
    write_file(&desk.path("large.json"), format!("\"{}\"", "x".repeat(10_000_000)).as_bytes());
    desk.refuses(4, &["send", "coder", "s", "--as", "lead", "--payload", "@large.json"]);
    write_file(&desk.path("latin.json"), b"\"caf\xe9\"");
    desk.refuses(2, &["send", "coder", "s", "--as", "lead", "--payload", "@latin.json"]);
}

#[test]
fn lines_of_a_batch_are_objects_of_the_schema_and_nothing_else() {
    let desk = Desk::new();
    let ends = "\"to\":\"coder\",\"subject\":\"s\"";
    let mut wrong: Vec<String> = [
        format!("{{{ends}}} trailing"),
        format!("{{{ends}}}{{{ends}}}"),
        format!("{{{ends},\"to\":\"lead\"}}"),
        format!("{{{ends},\"id\":\"a\",\"id\":\"b\"}}"),
        format!("{{{ends},\"unknown\":1}}"),
        format!("{{{ends},\"payload\":NaN}}"),
        format!("{{{ends},\"reply_to\":1e400}}"),
        format!("{{{ends},\"reply_to\":-1}}"),
        format!("{{{ends},\"reply_to\":18446744073709551616}}"),
        format!("{{{ends},\"body\":\"\\ud800\"}}"),
        format!("{{{ends},\"body\":{{\"base64\":\"AA\"}}}}"),
        format!("{{{ends},\"metadata\":{{\"a\":1}}}}"),
        format!("{{{ends},\"expires\":\"soon\"}}"),
        format!("\u{feff}{{{ends}}}"),
        "[\"coder\",\"s\"]".to_owned(),
        "{\"to\":[],\"subject\":\"s\"}".to_owned(),
        "{\"to\":\"coder\",\"subject\":\" \"}".to_owned(),
        "{\"to\":[[\"coder\"]],\"subject\":\"s\"}".to_owned(),
    ]
    .into();
    wrong.extend(
        corpus::JSON_TEXTS.iter().filter(|json| !json.trim().is_empty()).map(|json| json.replace(['\n', '\r'], " ")),
    );
    let count = wrong.len();
    let mut bytes = wrong.join("\n").into_bytes();
    bytes
        .extend_from_slice(b"\n{\"to\":\"coder\",\"subject\":\"caf\xe9\"}\n{\"to\":\"coder\",\"subject\":\"nul\0\"}\n");
    let batch = ["send", "--batch", "-", "--as", "lead", "--json"];
    let ran = desk.refuses_input(4, &batch, &mut std::io::Cursor::new(bytes), None);
    assert_eq!(ran.json()["sent"], 0, "{}", ran.out);
    assert_eq!(ran.json()["refused"].as_array().map(Vec::len), Some(count + 2), "{}", ran.out);
}
