//! Commands of a handoff, for people to read.

use poste_core::handoff::VerifyCommand;

#[test]
fn a_command_is_shown_as_it_would_be_typed() {
    let line = |argv: &[&str], shell| {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        VerifyCommand { argv, shell, timeout_ms: 1 }.line()
    };
    assert_eq!(line(&["cargo", "test", "--", "a b"], false), "cargo test -- 'a b'");
    assert_eq!(line(&["echo", "it's", ""], false), r"echo 'it'\''s' ''");
    assert_eq!(line(&["make && ./run"], true), "sh -c 'make && ./run'");
}
