//! Words for a shell: hooks are command lines, and so is much of what is proposed to people.

/// A word as a shell takes it, wherever it stands.
pub fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | ',' | ':' | '@' | '+');
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// `NAME=value`, which stands before a command.
pub fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}
