//! Row 28, sizes, and row 29, encodings: bodies are kept byte for byte, or refused before anything is written.

use poste_core::limits::{ARTIFACTS_MAX, CONTENT_BYTES_MAX};
use poste_core::log::{Body, Content};
use poste_testkit::corpus;
use serde_json::{Value, json};

use crate::desk::{Desk, flood, lines, write_file};

const SEND: [&str; 6] = ["send", "coder", "Big", "-", "--as", "lead"];

#[test]
fn a_body_of_nothing_and_one_of_the_limit_are_sent_and_one_byte_more_is_refused() {
    let desk = Desk::new();
    desk.accepts(&SEND);
    let around = Content { subject: "Big".to_owned(), body: Body::from("x"), ..Content::default() }.encode().len() - 1;
    let most = CONTENT_BYTES_MAX - around;
    desk.accepts_input(&SEND, &mut flood(most as u64));
    desk.refuses_input(4, &SEND, &mut flood(most as u64 + 1), None);
    let read = desk.accepts(&["read", "2", "--json"]).json();
    assert_eq!(read["body"].as_str().map(str::len), Some(most));
    assert_eq!(desk.accepts(&["read", "1", "--json"]).json()["body"], "");
}

/// Enough for the largest message in all its intermediate forms, and far less than what is sent.
const MEMORY_KIB: u64 = 144 * 1024;
const FLOOD: u64 = 256 * 1024 * 1024;

#[test]
fn a_flood_is_refused_after_the_limit_was_read_and_no_more_is_held() {
    let desk = Desk::new();
    let ran = desk.refuses_input(4, &SEND, &mut flood(FLOOD), Some(MEMORY_KIB));
    assert!(ran.read < 10 * 1024 * 1024, "{} bytes were read", ran.read);
    assert!(ran.peak_kib < 40 * 1024, "{} KiB of memory were used", ran.peak_kib);

    std::fs::File::create(desk.path("sparse")).unwrap().set_len(FLOOD).unwrap();
    let from_file = ["send", "coder", "Big", "--payload", "@sparse", "--as", "lead"];
    let ran = desk.refuses_input(4, &from_file, &mut std::io::empty(), Some(MEMORY_KIB));
    assert!(ran.peak_kib < 40 * 1024, "{} KiB of memory were used", ran.peak_kib);
}

#[test]
fn a_line_of_a_batch_without_end_is_refused_alone() {
    let desk = Desk::new();
    let next = lines(&[json!({ "to": "coder", "subject": "after the flood" })]);
    let mut input = std::io::Read::chain(flood(FLOOD), std::io::Cursor::new([b"\n".as_slice(), &next].concat()));
    let ran = desk.call(&["send", "--batch", "-", "--as", "lead", "--json"], &mut input, Some(MEMORY_KIB));
    assert_eq!(ran.code, 4, "{}", ran.err);
    let answer: Value = ran.json();
    assert_eq!((&answer["sent"], &answer["refused"][0]["line"]), (&json!(1), &json!(1)), "{answer}");
}

#[test]
fn a_million_of_anything_is_refused_by_a_limit() {
    let desk = Desk::new();
    write_file(&desk.path("a"), b"a file");
    let many = |item: &'static str| vec![item; 1_000_000];
    let batch = ["send", "--batch", "-", "--as", "lead", "--json"];
    for line in [
        json!({ "to": "coder", "subject": "s", "references": many("r") }),
        json!({ "to": "coder", "subject": "s", "artifacts": many("a") }),
        json!({ "to": many("coder"), "subject": "s" }),
        json!({ "to": "coder", "subject": "s", "metadata": (0..300_000).map(|key| (key.to_string(), "v")).collect::<std::collections::BTreeMap<_, _>>() }),
        json!({ "to": "coder", "subject": "s", "payload": many("p"), "body": "x".repeat(5_000_000) }),
    ] {
        let started = std::time::Instant::now();
        let ran = desk.refuses_input(4, &batch, &mut std::io::Cursor::new(line.to_string()), None);
        let reason = ran.json()["refused"][0]["reason"].as_str().unwrap_or_default().to_owned();
        assert!(reason.contains("more than") || reason.contains("at most"), "{reason:.300}");
        assert!(started.elapsed().as_secs() < 60, "{reason}: {:?}", started.elapsed());
    }
}

#[test]
fn as_many_arguments_as_a_machine_takes_are_refused_by_a_limit() {
    let desk = Desk::new();
    write_file(&desk.path("a"), b"a file");
    let send = ["send", "coder", "Many", "--as", "lead"];
    for option in ["--ref", "--artifact", "--attach", "--artifact-later", "--to"] {
        let value = if option == "--to" { "coder" } else { "a" };
        let many: Vec<&str> = send.into_iter().chain([option, value].into_iter().cycle().take(40_000)).collect();
        desk.refuses(4, &many);
    }
    let meta: Vec<String> = (0..20_000).flat_map(|key| ["--meta".to_owned(), format!("k{key}=v")]).collect();
    let many: Vec<&str> = send.into_iter().chain(meta.iter().map(String::as_str)).collect();
    desk.refuses(4, &many);
    // As many as the limit allows are accepted: the limit refuses, not the number of arguments.
    let most: Vec<&str> =
        send.into_iter().chain(["--attach", "a"].into_iter().cycle().take(2 * ARTIFACTS_MAX)).collect();
    desk.accepts(&most);
}

#[test]
fn bodies_that_are_no_text_are_kept_byte_for_byte() {
    let desk = Desk::new();
    let bodies: [&[u8]; 9] = [
        b"\xff\xfe\x00\x01",
        b"nul\0inside",
        b"\xef\xbb\xbfwith a BOM",
        b"\xfe\xffU\0T\0F\0",
        b"\xed\xa0\x80 half a character",
        b"\xc0\xaf overlong",
        b"\xf4\x90\x80\x80 beyond Unicode",
        b"cut \xe2\x82",
        b"\x1b[31m\x9b2J\x07",
    ];
    for (body, number) in bodies.into_iter().zip(1..) {
        desk.accepts_input(&SEND, &mut std::io::Cursor::new(body));
        let read = desk.accepts(&["read", &number.to_string(), "--json"]).json();
        match std::str::from_utf8(body) {
            Ok(text) => assert_eq!(read["body"], text),
            Err(_) => assert_eq!(read["body_base64"], base64(body), "{read}"),
        }
        desk.accepts(&["read", &number.to_string()]);
        desk.accepts(&["read", &number.to_string(), "--for-model"]);
    }
}

/// A separate implementation, so that the tested one is not compared with itself.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0_usize, |bits, at| bits << 8 | usize::from(*group.get(at).unwrap_or(&0)));
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            text.push(if digit <= group.len() { char::from(DIGITS[value]) } else { '=' });
        }
    }
    text
}

#[test]
fn every_text_in_every_field_comes_back_whole_and_is_shown_safely() {
    let desk = Desk::new();
    let one_line = |text: &&&str| !text.contains(['\n', '\r', '\0']);
    let messages: Vec<Value> = corpus::TEXTS
        .iter()
        .filter(one_line)
        .map(|text| {
            json!({
                "to": "coder", "subject": text, "body": text, "payload": { *text: text }, "context": text,
                "expect": text, "references": [text], "metadata": { *text: text },
            })
        })
        .collect();
    assert!(messages.len() > 15);
    desk.accepts_input(&["send", "--batch", "-", "--as", "lead"], &mut std::io::Cursor::new(lines(&messages)));
    for (number, sent) in (1..).zip(&messages) {
        let number = number.to_string();
        let read = desk.accepts(&["read", &number, "--json"]).json();
        for field in ["subject", "body", "payload", "context", "expect", "references", "metadata"] {
            assert_eq!(read[field], sent[field], "{field}");
        }
        desk.accepts(&["read", &number]);
        desk.accepts(&["read", &number, "--for-model"]);
    }
    for words in [
        &["inbox", "--as", "coder", "--all"][..],
        &["inbox", "--as", "coder", "--all", "--json"],
        &["log", "show", "--limit", "1000"],
        &["tail", "--log", "--after", "0", "--for", "0s"],
        &["threads"],
        &["status"],
        &["overdue"],
        &["wait", "--timeout", "0s", "--as", "coder"],
    ] {
        desk.accepts(words);
    }
    for text in corpus::TEXTS.iter().filter(|text| !one_line(text)) {
        let line = lines(&[json!({ "to": "coder", "subject": text })]);
        desk.refuses_input(4, &["send", "--batch", "-", "--as", "lead"], &mut std::io::Cursor::new(line), None);
        let line = lines(&[json!({ "to": "coder", "subject": "s", "body": text })]);
        desk.accepts_input(&["send", "--batch", "-", "--as", "lead"], &mut std::io::Cursor::new(line));
    }
}
