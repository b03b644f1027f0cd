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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_word_that_was_meant() {
        for plain in ["coder-3fa94c", "src/auth.rs"] {
            assert_eq!(word(plain), plain);
        }
        assert_eq!(
            (word("src/**").as_str(), word("it's").as_str(), word("").as_str()),
            ("'src/**'", r"'it'\''s'", "''")
        );
        for hostile in ["a'b", "$(rm)", "a;b", "`x`", "", "a\"b", "*", "~", "A=b", "ü"] {
            let script = format!("printf %s {}", word(hostile));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), hostile);
        }
    }
}
