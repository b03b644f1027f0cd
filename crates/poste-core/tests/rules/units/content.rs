//! Content: bytes are kept unchanged, and bad JSON is refused.

use poste_core::limits;
use poste_core::log::{Body, Content};
use serde_json::value::RawValue;

fn round_trip(content: &Content) -> Content {
    Content::decode(&content.encode()).expect("encoded content decodes")
}

#[test]
fn bodies_that_are_no_utf8_come_back_byte_for_byte() {
    for bytes in [&b""[..], b"plain", b"\xff\xfe\x00", b"nul\0inside", "bom\u{feff}".as_bytes()] {
        let content = Content { body: Body(bytes.to_vec()), ..Content::default() };
        assert_eq!(round_trip(&content).body.0, bytes);
    }
}

#[test]
fn payloads_keep_every_digit_and_the_order_of_keys() {
    let text = r#"{"z":1e400,"a":9007199254740993,"a":2}"#;
    let content = Content { payload: Some(RawValue::from_string(text.to_owned()).unwrap()), ..Content::default() };
    assert_eq!(round_trip(&content).payload.unwrap().get(), text);
}

#[test]
fn a_payload_with_half_a_character_is_refused() {
    let check = |json: &str| {
        let payload = Some(RawValue::from_string(json.to_owned()).unwrap());
        Content { payload, ..Content::default() }.check()
    };
    for whole in [r#""plain""#, r#""\ud83d\ude42""#, r#""\\ud800""#, r#"{"\u00e9":"\\\\"}"#, r#""\uD83D\uDE42x""#] {
        assert!(check(whole).is_ok(), "{whole}");
        assert!(serde_json::from_str::<serde_json::Value>(whole).is_ok(), "{whole}");
    }
    for half in
        [r#""\ud800""#, r#""\udc00""#, r#""\ud800x""#, r#""\ud800\ud800""#, r#"{"\\\uDBFF":1}"#, r#""\ude42\ud83d""#]
    {
        assert!(check(half).is_err(), "{half}");
        assert!(serde_json::from_str::<serde_json::Value>(half).is_err(), "{half}");
    }
}

#[test]
fn a_payload_with_a_key_twice_is_refused() {
    let check = |json: &str| {
        let payload = Some(RawValue::from_string(json.to_owned()).unwrap());
        Content { payload, ..Content::default() }.check()
    };
    for once in [r#"{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]}"#, "[]", "{}", "1e400", r#"{"A":1e400,"a":[1e400]}"#] {
        assert_eq!(check(once), Ok(()), "{once}");
    }
    for twice in [
        r#"{"env":"c","env":"a"}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"[1e400,{"b":[{"a":1e400,"a":2}]}]"#,
        r#"{"x":{"":1,"":2}}"#,
    ] {
        assert!(check(twice).unwrap_err().contains("twice"), "{twice}");
    }
}

#[test]
fn a_subject_is_one_short_line() {
    let with = |subject: &str| Content { subject: subject.to_owned(), ..Content::default() };
    assert!(with("a line").check().is_ok());
    assert!(with("two\nlines").check().is_err());
    assert!(with(&"x".repeat(limits::SUBJECT_BYTES_MAX)).check().is_ok());
    assert!(with(&"x".repeat(limits::SUBJECT_BYTES_MAX + 1)).check().is_err());
}
