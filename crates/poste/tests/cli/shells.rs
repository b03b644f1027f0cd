//! Completions and manual pages, tested with bash and groff.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::Desk;

/// The completions bash offers for these words.
fn offered_by_bash(desk: &mut Desk, words: &[&str]) -> Vec<String> {
    let script = desk.path("poste.bash");
    let last = words.len() - 1;
    let program = format!(
        "source {}; COMP_WORDS=({}); COMP_CWORD={last}; _poste poste '{}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        words.join(" "),
        words[last],
        words[last - 1],
    );
    let output = Command::new("bash").args(["--norc", "-c", &program]).output().expect("bash runs");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").split_whitespace().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_their_subcommands_and_their_options() {
    let mut desk = Desk::new();
    let script = desk.peek("poste completions bash").ok();
    desk.file("poste.bash", script.out());
    assert_eq!(offered_by_bash(&mut desk, &["poste", "conf"]), ["config"]);
    assert_eq!(offered_by_bash(&mut desk, &["poste", "config", "s"]), ["show", "set"]);
    assert_eq!(offered_by_bash(&mut desk, &["poste", "send", "--allow"]), ["--allow-secret"]);
    assert_eq!(offered_by_bash(&mut desk, &["poste", "inbox", "--time", "i"]), ["iso"]);
}

#[test]
fn every_shell_has_completions() {
    let mut desk = Desk::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = desk.peek(&format!("poste completions {shell}")).ok();
        assert!(script.out().contains("diff-digest"), "{shell}");
        let json = desk.peek(&format!("poste completions {shell} --json")).json();
        assert_eq!(json["script"], script.out(), "{shell}");
    }
    let _ = desk.peek("poste completions csh").exits(2);
}

/// The formatted page, and groff's warnings.
fn formatted(roff: &str) -> (String, String) {
    let mut groff = Command::new("groff");
    groff.args(["-man", "-Tascii", "-ww", "-rLL=200n", "-P-cbou"]);
    let groff = groff.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut groff = groff.expect("groff is missing; cargo xtask test installs it");
    groff.stdin.take().expect("a pipe").write_all(roff.as_bytes()).expect("groff reads");
    let output = groff.wait_with_output().expect("groff ends");
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn manual_pages_are_printed_and_written_and_can_be_read() {
    let mut desk = Desk::new();
    let page = desk.peek("poste man send").ok();
    assert!(page.out().contains(".TH poste-send 1") && page.out().contains("allow\\-secret"), "{}", page.out());
    let written = desk.peek("poste man --dir pages --json").json();
    let pages: Vec<&str> = written["pages"].as_array().unwrap().iter().filter_map(|page| page.as_str()).collect();
    for name in ["poste.1", "poste-send.1", "poste-log-diff-digest.1", "poste-config-set.1"] {
        assert!(pages.contains(&name), "{name} is not in {pages:?}");
    }
    assert_eq!(std::fs::read_dir(desk.path("pages")).unwrap().count(), pages.len());
    for name in pages {
        let roff = std::fs::read_to_string(desk.path("pages").join(name)).unwrap();
        let (text, complaints) = formatted(&roff);
        assert_eq!(complaints, "", "{name}");
        let title = name.trim_end_matches(".1");
        assert!(text.contains("SYNOPSIS") && text.contains(title), "{name}:\n{text}");
        assert!(
            text.contains("Example") || text.contains("Start here") || text.contains("SUBCOMMANDS"),
            "{name}:\n{text}"
        );
    }
    let _ = desk.peek("poste man sned").exits(3);
}
