//! Message content is data: nothing in it may move the cursor, colour a line or reverse the text direction.

use std::borrow::Cow;
use std::fmt::Write as _;

/// One line: makes every control character visible, including line ends.
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, |character| is_dangerous(character) || character == '\n' || character == '\t')
}

/// Several lines: keeps line ends and tabs.
pub fn block(text: &str) -> Cow<'_, str> {
    escape(text, is_dangerous)
}

/// Text on one line, for the middle of a line, a heading or a table cell. Never for the beginning of a line, where a
/// number or a hyphen alone would start a list.
pub fn markdown(text: &str) -> String {
    let line = line(text);
    let mut safe = String::with_capacity(line.len() + 8);
    let mut before = None;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let is_in_word = |neighbour: Option<&char>| neighbour.is_some_and(|c| c.is_alphanumeric());
        let means_something = match character {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '$' | '#' => true,
            // Between two letters or digits, an underscore is part of the word.
            '_' => !(is_in_word(before.as_ref()) && is_in_word(characters.peek())),
            _ => false,
        };
        if means_something {
            safe.push('\\');
        }
        safe.push(character);
        before = Some(character);
    }
    safe
}

/// Text for Mermaid in which no character is part of its language: `;` ends a statement, `#` begins an entity, `%%` a
/// comment, `<` a tag. Special characters become Mermaid's own entities. The characters that Mermaid uses internally
/// for entities are escaped too.
pub fn mermaid(text: &str) -> String {
    let line = line(text);
    let mut safe = String::with_capacity(line.len() + 16);
    for character in line.chars() {
        let is_plain = match character {
            'ﬂ' | '¶' => false,
            ' ' | '-' | '_' | '.' | ',' | '/' | '(' | ')' | '!' | '?' | '\'' | '+' | '=' => true,
            other => !other.is_ascii() || other.is_ascii_alphanumeric(),
        };
        if is_plain {
            safe.push(character);
        } else {
            let _ = write!(safe, "#{};", u32::from(character));
        }
    }
    safe
}

/// JSON that is safe on a terminal: escapes what serde_json leaves unescaped as `\u….`.
pub fn json(text: &str) -> Cow<'_, str> {
    escape_json(text, is_dangerous)
}

/// Like [`json`], but on one line: a payload is kept as given, including the line ends between its parts.
pub fn json_line(text: &str) -> Cow<'_, str> {
    escape_json(text, |character| is_dangerous(character) || character == '\n' || character == '\t')
}

fn escape_json(text: &str, bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&bad) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    let (mut in_string, mut escaped) = (false, false);
    for character in text.chars() {
        match character {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ => {}
        }
        if !bad(character) {
            safe.push(character);
        } else if in_string {
            // Inside a string, and only there, the escape means the same.
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            // Between the parts of JSON there is only white space.
            safe.push(' ');
        }
    }
    Cow::Owned(safe)
}

fn escape(text: &str, bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&bad) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\n' if bad('\n') => safe.push('⏎'),
            '\t' if bad('\t') => safe.push(' '),
            character if bad(character) => {
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(character));
            }
            character => safe.push(character),
        }
    }
    Cow::Owned(safe)
}

/// Text for a file or a chat: line breaks stay, and each character that would act instead of being seen is replaced.
pub fn plain(text: &str) -> String {
    let shown = |character: char| if is_dangerous(character) { char::REPLACEMENT_CHARACTER } else { character };
    text.replace("\r\n", "\n").chars().map(shown).collect()
}

/// Controls (C0, DEL, C1), characters that change the text direction, and invisible ones.
fn is_dangerous(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        // The selector that turns a character into an emoji is harmless and common.
        '\u{fe0f}' => false,
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0e}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        other => other.is_control(),
    }
}
