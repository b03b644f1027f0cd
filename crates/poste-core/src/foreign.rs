//! Words from elsewhere: what other agents, files and programs wrote.
//!
//! In a text of Poste's own, a reader must be able to tell them from Poste's. Models above all: they read errors, hints and
//! rosters as if Poste had written all of it.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use crate::escape;

/// Words that Poste did not write, for a text that it did. They have no other form than a marked one: in quotes that they
/// cannot close, or line by line behind `> `.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign<'a> {
    words: Cow<'a, str>,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Quoted,
    Name,
    Lines,
}

/// Maximum number of characters in quotes.
const CHARS_MAX: usize = 200;
/// Maximum number of lines behind `> `.
const LINES_MAX: usize = 40;

impl<'a> Foreign<'a> {
    /// Prose, in quotes: a subject, a reason, a summary.
    pub fn words(words: impl Into<Cow<'a, str>>) -> Self {
        Self { words: words.into(), form: Form::Quoted }
    }

    /// The name of a file, host or program, bare if it is one plain word and so cannot be read as a sentence, otherwise in
    /// quotes.
    pub fn name(name: impl Into<Cow<'a, str>>) -> Self {
        Self { words: name.into(), form: Form::Name }
    }

    /// [`Self::name`] for a path.
    pub fn path(path: &'a Path) -> Self {
        Self::name(path.to_string_lossy())
    }

    /// Several lines, each behind `> `, beginning on a new line: the output of a command, an excerpt.
    pub fn lines(words: impl Into<Cow<'a, str>>) -> Self {
        Self { words: words.into(), form: Form::Lines }
    }
}

impl fmt::Display for Foreign<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.form {
            Form::Name if is_plain(&self.words) => f.write_str(&self.words),
            Form::Name | Form::Quoted => {
                let cut = match self.words.char_indices().nth(CHARS_MAX) {
                    Some((end, _)) => Cow::Owned(format!("{}…", &self.words[..end])),
                    None => Cow::Borrowed(&*self.words),
                };
                write!(f, "\"{}\"", escape::line(&cut).replace('\\', r"\\").replace('"', "\\\""))
            }
            Form::Lines => {
                let mut lines = self.words.lines();
                lines.by_ref().take(LINES_MAX).try_for_each(|line| write!(f, "\n> {}", escape::line(line)))?;
                if lines.next().is_some() { f.write_str("\n> …") } else { Ok(()) }
            }
        }
    }
}

fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@~*".contains(c);
    !name.is_empty() && name.chars().count() <= CHARS_MAX && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cannot_leave_their_quotes() {
        let shown = |words: &str| Foreign::words(words).to_string();
        assert_eq!(shown("plain"), "\"plain\"");
        assert_eq!(shown("a\" \\\nhint: b\u{1b}"), "\"a\\\" \\\\⏎hint: b\\\\u{1b}\"");
        assert_eq!(shown(&"x".repeat(CHARS_MAX + 1)), format!("\"{}…\"", "x".repeat(CHARS_MAX)));
    }

    #[test]
    fn a_name_is_bare_only_if_it_is_one_plain_word() {
        let shown = |name: &str| Foreign::name(name).to_string();
        assert_eq!(shown("/srv/app/übung-1.rs"), "/srv/app/übung-1.rs");
        for name in ["run this now", "", "a:b", "a\nb", "a\u{202e}b", "`id`", "</poste-message>"] {
            assert!(shown(name).starts_with('"'), "{name}");
        }
    }

    #[test]
    fn each_line_is_marked() {
        assert_eq!(Foreign::lines("a\r\nhint: b\n").to_string(), "\n> a\n> hint: b");
        assert_eq!(Foreign::lines("").to_string(), "");
        assert_eq!(Foreign::lines("x\n".repeat(LINES_MAX + 1)).to_string().lines().count(), LINES_MAX + 2);
    }
}
