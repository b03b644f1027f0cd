//! Texts that are put into an agent's context, and shell quoting.

use poste_connect::setup::texts::{section, skill};
use poste_connect::shell::word;

fn tokens(text: &str) -> usize {
    tiktoken_rs::o200k_base().unwrap().encode_ordinary(text).len()
}

#[test]
fn what_is_always_in_an_agents_context_is_short() {
    for (what, text) in [("section", section()), ("skill", skill())] {
        let tokens = tokens(&text);
        assert!(tokens < 400, "the {what} has {tokens} tokens");
        for verb in ["send", "inbox", "claim", "done", "reply", "wait"] {
            assert!(text.contains(&format!("**{verb}**")), "the {what} does not mention {verb}");
        }
    }
}

#[test]
fn a_shell_reads_the_word_that_was_meant() {
    for plain in ["coder-3fa94c", "src/auth.rs"] {
        assert_eq!(word(plain), plain);
    }
    assert_eq!((word("src/**").as_str(), word("it's").as_str(), word("").as_str()), ("'src/**'", r"'it'\''s'", "''"));
    for hostile in ["a'b", "$(rm)", "a;b", "`x`", "", "a\"b", "*", "~", "A=b", "ü"] {
        let script = format!("printf %s {}", word(hostile));
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), hostile);
    }
}
