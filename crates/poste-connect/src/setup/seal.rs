//! Files that are all Poste's contain a sum of themselves: if it does not match, the file was changed by hand.

const MARK: &str = "poste setup, sum ";

/// Adds a last line with the sum of the text, as a comment of its language.
pub fn seal(text: &str, open: &str, close: &str) -> String {
    format!("{text}{open}{MARK}{}{close}\n", sum(text))
}

/// Whether it is unchanged since some version of Poste wrote it.
pub fn is_whole(text: &str) -> bool {
    let Some((before, last)) = text.strip_suffix('\n').and_then(|text| text.rsplit_once('\n')) else { return false };
    let Some((_, after)) = last.split_once(MARK) else { return false };
    after.starts_with(&sum(&format!("{before}\n")))
}

pub fn sum(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_breaks_the_seal() {
        let text = seal("one\ntwo\n", "// ", "");
        assert!(is_whole(&text), "{text}");
        for changed in
            [text.replace("two", "2"), format!("{text}\n"), format!("x{text}"), "one\n".into(), String::new()]
        {
            assert!(!is_whole(&changed), "{changed}");
        }
    }
}
