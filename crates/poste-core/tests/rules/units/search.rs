//! The words of a search, and their places in a text.

use poste_core::store::Store;
use poste_core::store::search::{Document, InvalidQuery, Piece, Words};
use poste_core::views::{SearchQuery, search};

fn mark(words: &str, subject: &str, body: &str) -> (String, String) {
    let mut document = Document::default();
    document.subject.push_str(subject);
    document.body.push_str(body);
    let words: Words = words.parse().unwrap();
    let marks = words.mark(&[document]).unwrap().remove(0);
    let joined = |pieces: &[Piece]| {
        pieces.iter().map(|p| if p.matched { format!("[{}]", p.text) } else { p.text.clone() }).collect::<String>()
    };
    (joined(&marks.subject), joined(&marks.text))
}

#[test]
fn what_was_found_is_marked_where_it_stands() {
    let (subject, text) = mark("login fails", "Fix the LOGIN", "It fails.\nThe login page.");
    assert_eq!((subject.as_str(), text.as_str()), ("Fix the [LOGIN]", "It [fails]. The [login] page."));
    let (_, text) = mark("ecole src/auth.rs", "", "à l'École: see src/auth.rs, line 3");
    assert_eq!(text, "à l'[École]: see [src/auth.rs], line 3");
    let (_, text) = mark("漢字", "", "これは漢字です");
    assert_eq!(text, "これは[漢字]です");
}

#[test]
fn a_long_text_is_cut_to_the_place_of_the_match() {
    let body = format!("{} needle {}", "hay ".repeat(500), "straw ".repeat(500));
    let (_, text) = mark("needle", "s", &body);
    assert!(text.contains("[needle]") && text.len() < 300, "{text}");
}

#[test]
fn long_words_do_not_make_a_long_snippet() {
    let long = "x".repeat(3_000);
    let (_, text) = mark("needle", "s", &format!("{long} needle {long} needle {long}"));
    assert!(text.contains("[needle]") && text.chars().count() < 400, "{text}");
    let (_, text) = mark("subject", "subject", &long);
    assert!(text.chars().count() < 200, "{text}");
    let (_, text) = mark("xxx*", "s", &long);
    assert!(text.starts_with("[xxx") && text.chars().count() < 200, "{text}");
}

#[test]
fn a_message_cannot_forge_a_mark() {
    let (_, text) = mark("login", "s", "no \u{2}bold\u{3} here, login");
    assert_eq!(text, "no  bold  here, [login]");
}

#[test]
fn what_cannot_be_searched_is_told() {
    let error = |text: &str| text.parse::<Words>().unwrap_err();
    assert_eq!(error(""), InvalidQuery::Empty);
    assert_eq!(error(" \t\n"), InvalidQuery::Empty);
    assert_eq!(error("-draft"), InvalidQuery::OnlyExcluded);
    assert_eq!(error("login ++"), InvalidQuery::NotAWord("++".to_owned()));
    assert_eq!(error("\"\""), InvalidQuery::NotAWord(String::new()));
    assert_eq!(error("-"), InvalidQuery::NotAWord("-".to_owned()));
    assert_eq!(error("a*"), InvalidQuery::PrefixTooShort("a".to_owned()));
    assert_eq!(error("src/a*"), InvalidQuery::PrefixTooShort("src/a".to_owned()));
    assert_eq!(error(&"x".repeat(100_000)), InvalidQuery::TooLong(100_000));
    assert_eq!(error(&"ab ".repeat(33)), InvalidQuery::TooManyWords);
}

#[test]
fn without_a_folder_to_write_to_the_index_is_made_for_one_search() {
    let store = Store::in_memory().unwrap();
    let (page, refreshed) = search(&store, &SearchQuery::new("word".parse().unwrap()), |_| {}).unwrap();
    assert!(refreshed.borrowed && page.hits.is_empty());
}
