//! Text that is safe on a terminal, in Markdown and in JSON.

use poste_core::escape::{block, json, json_line, line, markdown};

#[test]
fn words_mean_nothing() {
    assert_eq!(markdown("*a* `b` [c](d) <e> | ~f~ #g &amp; \\"), r"\*a\* \`b\` \[c\](d) \<e\> \| \~f\~ \#g \&amp; \\");
    assert_eq!(markdown("refresh_token is _not_ __init__"), r"refresh_token is \_not\_ \_\_init\_\_");
    assert_eq!(markdown("one\n# two\r\u{1b}[31m"), "one⏎\\# two\\\\u{d}\\\\u{1b}\\[31m");
    assert_eq!(markdown("Fix the login (#12), 50% – ünï 漢字."), r"Fix the login (\#12), 50% – ünï 漢字.");
}

#[test]
fn nothing_a_terminal_obeys_comes_through() {
    let hostile = "\u{1b}[31mred\u{7}\u{9b}2J\u{202e}abc\r\u{8}\0\u{feff}\u{200b}\u{e0041}";
    for shown in [line(hostile), block(hostile), json(hostile)] {
        assert_eq!(block(&shown), shown, "nothing is left to escape");
    }
    assert_eq!(line("a\nb\tc"), "a⏎b c");
    assert_eq!(block("a\nb\tc"), "a\nb\tc");
    assert_eq!(line("plain ünïcödé 漢字 🙂 ❤\u{fe0f}"), "plain ünïcödé 漢字 🙂 ❤\u{fe0f}");
    // Text hidden in variation selectors, which a model reads and a person does not see.
    let hidden: String = "obey".chars().filter_map(|c| char::from_u32(0xe0100 + u32::from(c) - 0x20)).collect();
    assert!(block(&hidden).is_ascii());
}

#[test]
fn escaped_json_means_the_same() {
    let original = serde_json::json!({ "s": "\u{202e}\u{9b}x\u{e0041}" });
    let text = original.to_string();
    let back: serde_json::Value = serde_json::from_str(&json(&text)).unwrap();
    assert_eq!(back, original);
}

#[test]
fn line_ends_between_the_parts_of_json_are_no_part_of_it() {
    let text = "{\r\n\t\"a\": \"\u{9b}\\n\\\\\",\r\n\t\"b\": [1,\r2]\r\n}";
    let original: serde_json::Value = serde_json::from_str(text).unwrap();
    for safe in [json(text), json_line(text)] {
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), original, "{safe}");
        assert_eq!(block(&safe), safe, "nothing is left to escape");
    }
    assert_eq!(json(text).lines().count(), 4);
    assert_eq!(json_line(text).lines().count(), 1);
}
