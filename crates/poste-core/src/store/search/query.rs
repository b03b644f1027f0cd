//! Search queries: words, "phrases", prefixes* and -excluded words.
//!
//! Nothing typed reaches SQLite as syntax: every word becomes a quoted string in the expression, which the tokenizer
//! splits. So a word with punctuation (`src/auth.rs`, `ISSUE-12`, `foo_bar`) becomes a phrase of its parts. Such text
//! is found as a whole and by each part.

use std::borrow::Cow;
use std::str::FromStr;

/// A longer query is a mistake.
pub const QUERY_BYTES_MAX: usize = 4_096;
/// Maximum number of words and phrases in one query.
pub const QUERY_WORDS_MAX: usize = 32;
/// A prefix of one letter would match a large part of the index.
pub const PREFIX_CHARS_MIN: usize = 2;

/// The parsed and validated words of a query. There is at least one to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    wanted: Vec<Word>,
    excluded: Vec<Word>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    /// Match every word that begins with this.
    prefix: bool,
}

/// Why a query is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuery {
    #[error("no search words were given")]
    Empty,
    #[error("only excluded words were given, no search words")]
    OnlyExcluded,
    #[error("the search has {0} bytes, at most {QUERY_BYTES_MAX} are allowed")]
    TooLong(usize),
    #[error("the search has more than {QUERY_WORDS_MAX} words")]
    TooManyWords,
    #[error("{} contains no letter or digit to search for", crate::text::quoted(.0))]
    NotAWord(String),
    #[error("{} is too short a prefix: use at least {PREFIX_CHARS_MIN} letters or digits", crate::text::quoted(.0))]
    PrefixTooShort(String),
}

impl FromStr for Words {
    type Err = InvalidQuery;

    fn from_str(text: &str) -> Result<Self, InvalidQuery> {
        if text.len() > QUERY_BYTES_MAX {
            return Err(InvalidQuery::TooLong(text.len()));
        }
        let mut words = Self { wanted: Vec::new(), excluded: Vec::new() };
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (excluded, word, left) = next_word(rest);
            rest = left.trim_start();
            word.check()?;
            if excluded { &mut words.excluded } else { &mut words.wanted }.push(word);
            if words.wanted.len() + words.excluded.len() > QUERY_WORDS_MAX {
                return Err(InvalidQuery::TooManyWords);
            }
        }
        match (words.wanted.is_empty(), words.excluded.is_empty()) {
            (false, _) => Ok(words),
            (true, true) => Err(InvalidQuery::Empty),
            (true, false) => Err(InvalidQuery::OnlyExcluded),
        }
    }
}

/// Splits off the first word: whether it is excluded, the word, and the rest. An unclosed quote extends to the end.
fn next_word(text: &str) -> (bool, Word, &str) {
    // People search for `--force`, so only a single dash excludes.
    let after_dash = text.strip_prefix('-').filter(|rest| !rest.is_empty() && !rest.starts_with(['-', ' ']));
    let (excluded, text) = (after_dash.is_some(), after_dash.unwrap_or(text));
    let (word, rest) = match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
        None => text.split_at(text.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(text.len())),
    };
    let is_phrase = text.starts_with('"');
    let (word, prefix, rest) = match is_phrase {
        true => (word, rest.starts_with('*'), rest.trim_start_matches('*')),
        false => (word.trim_end_matches('*'), word.ends_with('*'), rest),
    };
    (excluded, Word { text: word.to_owned(), prefix }, rest)
}

impl Word {
    fn check(&self) -> Result<(), InvalidQuery> {
        if !self.text.chars().any(char::is_alphanumeric) {
            return Err(InvalidQuery::NotAWord(self.text.clone()));
        }
        let last_part = self.text.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        let is_short = last_part.chars().count() < PREFIX_CHARS_MIN && !last_part.chars().any(stands_alone);
        if self.prefix && is_short {
            return Err(InvalidQuery::PrefixTooShort(self.text.clone()));
        }
        Ok(())
    }

    fn expression(&self) -> String {
        // A word contains no quote, because a quote ends it. A NUL would end the whole expression, which SQLite reads
        // as a C string.
        let text = apart(&self.text).replace('\0', " ");
        format!("\"{text}\"{}", if self.prefix { " *" } else { "" })
    }
}

impl Words {
    /// For the columns that hold text.
    pub(super) fn expression(&self) -> String {
        let list = |words: &[Word], with: &str| words.iter().map(Word::expression).collect::<Vec<_>>().join(with);
        let wanted = format!("{{body subject}} : ({})", list(&self.wanted, " AND "));
        match self.excluded.is_empty() {
            true => wanted,
            false => format!("({wanted}) NOT {{body subject}} : ({})", list(&self.excluded, " OR ")),
        }
    }
}

/// Characters of scripts written without spaces, each of which counts as a word.
fn stands_alone(character: char) -> bool {
    matches!(character,
        '\u{2e80}'..='\u{2fdf}' // radicals
        | '\u{3005}'..='\u{3007}'
        | '\u{3041}'..='\u{30ff}' // Hiragana, Katakana
        | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}' // Hangul
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Put around such characters: a separator for the tokenizer, and invisible.
pub(super) const BREAK: char = '\u{200b}';

/// Separates the characters of scripts without spaces. Otherwise a run of them would be one long token, and no word in
/// it could be found.
pub(super) fn apart(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !text.chars().any(stands_alone) {
        return Cow::Borrowed(text);
    }
    let mut spaced = String::with_capacity(text.len() * 2);
    for character in text.chars() {
        if stands_alone(character) {
            spaced.extend([BREAK, character, BREAK]);
        } else {
            spaced.push(character);
        }
    }
    Cow::Owned(spaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(text: &str) -> String {
        text.parse::<Words>().unwrap_or_else(|error| panic!("{text}: {error}")).expression()
    }

    #[test]
    fn words_phrases_beginnings_and_exclusions_are_read() {
        assert_eq!(expression("login fails"), r#"{body subject} : ("login" AND "fails")"#);
        assert_eq!(expression(r#""null check" log*"#), r#"{body subject} : ("null check" AND "log" *)"#);
        assert_eq!(
            expression(r#"login -draft -"not now""#),
            r#"({body subject} : ("login")) NOT {body subject} : ("draft" OR "not now")"#
        );
        assert_eq!(expression(r#""null che"* x"#), r#"{body subject} : ("null che" * AND "x")"#);
        assert_eq!(expression("--force"), r#"{body subject} : ("--force")"#);
        assert_eq!(expression(r#"open "and never closed"#), r#"{body subject} : ("open" AND "and never closed")"#);
        assert_eq!(expression(r#"glued"phrase here""#), r#"{body subject} : ("glued" AND "phrase here")"#);
    }

    #[test]
    fn nothing_typed_is_syntax() {
        assert_eq!(
            expression("a AND b OR NOT NEAR(c) ^d col:e (f) {g}"),
            concat!(
                r#"{body subject} : ("a" AND "AND" AND "b" AND "OR" AND "NOT" AND "NEAR(c)" AND "^d" AND "col:e" "#,
                r#"AND "(f)" AND "{g}")"#
            )
        );
        assert_eq!(expression("nul\0inside"), r#"{body subject} : ("nul inside")"#);
    }

    #[test]
    fn characters_of_scripts_without_spaces_stand_apart() {
        assert_eq!(apart("login"), "login");
        assert_eq!(apart("größe"), "größe");
        assert_eq!(apart("漢字").replace(BREAK, "|"), "|漢||字|");
        assert!("漢*".parse::<Words>().is_ok());
    }
}
