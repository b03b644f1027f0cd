//! The grammars of names, labels and ids.

use poste_core::text::{Label, Name, RecordId, Topic, TypeName, Word, nearest};

#[test]
fn hostile_names_are_refused_by_every_grammar_that_reaches_a_path_or_a_subject() {
    let long = "a".repeat(300);
    let hostile = [
        "",
        "..",
        "/",
        "a/../b",
        "-rf",
        &long,
        "*",
        ">",
        ".",
        " ",
        "a b",
        "a\n",
        "a\0",
        "é",
        "e\u{301}",
        "\u{202e}abc",
        "аdmin",
        "CON",
        "a\u{1b}[31m",
    ];
    for text in hostile {
        assert!(text.parse::<Name>().is_err(), "name {text:?}");
        assert!(text.parse::<Word>().is_err(), "word {text:?}");
        assert!(text.parse::<TypeName>().is_err(), "type {text:?}");
    }
    for text in ["", "..", "/", "a/b", "-rf", &long, "*", ">", "a b", "é", "a\n"] {
        assert!(text.parse::<Topic>().is_err(), "topic {text:?}");
        assert!(text.parse::<Label>().is_err(), "label {text:?}");
    }
}

#[test]
fn reserved_words_are_no_agents_but_may_be_roles() {
    for word in ["poste", "everyone", "all", "role", "human", "topic"] {
        assert!(word.parse::<Name>().is_err(), "{word}");
        assert!(word.parse::<Word>().is_ok(), "{word}");
    }
}

#[test]
fn grammars_take_what_the_documentation_promises() {
    assert!("builder-1".parse::<Name>().is_ok());
    assert!("7zip_agent".parse::<Name>().is_ok());
    assert!("a".repeat(64).parse::<Name>().is_ok());
    assert!("a".repeat(65).parse::<Name>().is_err());
    assert!("TaskCompleted".parse::<Topic>().is_ok());
    assert!("conv_auth_contracts_001".parse::<Label>().is_ok());
    assert!("blog-writer-1709468234-x7k2".parse::<RecordId>().is_ok());
    assert!("x".repeat(128).parse::<RecordId>().is_ok());
    assert!("x".repeat(129).parse::<RecordId>().is_err());
    assert!("tab\there".parse::<RecordId>().is_err());
}

#[test]
fn nearest_names_come_best_first() {
    let known = ["coder", "codex", "reviewer", "lead"];
    assert_eq!(nearest("codr", known), ["coder"]);
    assert_eq!(nearest("coders", known), ["coder", "codex"]);
    assert_eq!(nearest("rev", known), ["reviewer"]);
    assert!(nearest("zebra", known).is_empty());
}

#[test]
fn an_invalid_text_is_safe_to_print() {
    let error = "a\u{1b}[31m".parse::<Name>().unwrap_err();
    assert!(error.to_string().is_ascii(), "{error}");
}
