//! Help texts.

use std::fmt::Write as _;

use crate::common::Desk;

/// The commands a help text lists.
fn commands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Continuation lines are indented deeper.
    let named = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    named.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The section on global options, which every help text has.
fn everywhere(help: &str) -> &str {
    let start = help.find("\nGlobal options:\n").expect("a section on global options");
    let end = help.find("\nExample").or_else(|| help.find("\nStart here:")).unwrap_or(help.len());
    &help[start..end]
}

/// The help of a command and its subcommands, with the global options only once.
fn write_help(desk: &mut Desk, path: &str, text: &mut String) {
    let help = desk.peek(&format!("poste {path} --help")).ok();
    assert_eq!(help.err(), "");
    let same = everywhere(help.out());
    let shown =
        if text.contains(same) { help.out().replace(same, "\nGlobal options: …\n") } else { help.out().to_owned() };
    let _ = writeln!(text, "{}\n{shown}", format!("$ poste {path} --help").replace("  ", " "));
    for command in commands(help.out()) {
        write_help(desk, format!("{path} {command}").trim(), text);
    }
}

#[test]
fn every_command_has_a_help_text() {
    let mut desk = Desk::new();
    let mut text = String::new();
    write_help(&mut desk, "", &mut text);
    for command in ["log verify", "clock accept", "send"] {
        assert!(text.contains(&format!("$ poste {command} --help\n")), "{command}");
    }
    insta::with_settings!({ omit_expression => true }, {
        insta::assert_snapshot!(text);
    });
}

#[test]
fn help_fits_the_width_of_the_terminal() {
    let mut desk = Desk::new();
    let mut text = String::new();
    write_help(&mut desk, "", &mut text);
    // Examples are not wrapped, so that they can be copied.
    let prose = text.lines().filter(|line| !line.trim_start().starts_with("poste ") && !line.contains(" | poste "));
    for line in prose {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn short_help_version_and_nothing_at_all() {
    let mut desk = Desk::new();
    let version = desk.peek("poste --version").ok();
    assert_eq!(version.out(), concat!("poste ", env!("CARGO_PKG_VERSION"), "\n"));
    let short = desk.peek("poste send -h").ok();
    assert!(short.out().starts_with("Send a message\n"));
    let nothing = desk.peek("poste").exits(2);
    assert!(nothing.out().is_empty() && nothing.err().contains("Usage: poste"));
}
