//! Verbs are called by people, models and programs: their texts name no option and no variable. A note names a field, and
//! each surface writes it in its own form.

use std::path::{Path, PathBuf};

use poste_verbs::note::{COMMANDS, SPEAKER};
use poste_verbs::verb::{exists, has_field};

/// Modules that start programs, and so have command lines in them.
const STARTING_PROGRAMS: &[&str] = &["actions", "wake"];

#[test]
fn texts_name_no_option_and_no_variable() {
    let mut found = Vec::new();
    for path in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let source = std::fs::read_to_string(&path).unwrap();
        for (number, line) in (1..).zip(source.lines()) {
            let is_comment = line.trim_start().starts_with("//");
            if !is_comment && literals(line).any(names_option_or_variable) {
                found.push(format!("{}:{number}: {}", path.display(), line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "name a field with `note!(… {{field = value}} …)` instead:\n{}", found.join("\n"));
}

#[test]
fn options_and_variables_are_found() {
    for text in ["say so: --merge", "--reason is empty", "set POSTE_AGENT", " --as NAME"] {
        assert!(names_option_or_variable(text), "{text}");
    }
    for text in ["a -- b", "POSTE_HOME", "one|--two", "3 --", "say so"] {
        assert!(!names_option_or_variable(text), "{text}");
    }
    let line = r#"error.hint("a \" b").hint(c, "d --e")"#;
    assert_eq!(literals(line).collect::<Vec<_>>(), [r#"a \" b"#, "d --e"]);
}

/// What a surface does not know it drops, so a wrong name would only be missed by whoever reads the note.
#[test]
fn notes_name_verbs_and_fields_that_exist() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let source = std::fs::read_to_string(&path).unwrap();
        for call in source.split("note!(").skip(1).flat_map(calls) {
            seen += 1;
            let mut parts = call.split(',').map(str::trim);
            let verb = parts.next().unwrap_or_default();
            let mut fields = parts.filter_map(|part| Some(part.split_once(" = ")?.0.trim_start_matches("r#")));
            let is_known = exists(verb) && fields.all(|field| field == SPEAKER || has_field(verb, field));
            if !is_known && !COMMANDS.contains(&verb) {
                wrong.push(format!("{}: [{call}]", path.display()));
            }
        }
    }
    assert!(seen > 100, "only {seen} were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The verbs in the arguments of `note!`, of which this is the rest of the file.
fn calls(arguments: &str) -> Vec<String> {
    let (mut depth, mut in_text, mut escaped) = (1, false, false);
    let (mut calls, mut call) = (Vec::new(), None::<String>);
    for c in arguments.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_text => escaped = true,
            '"' => in_text = !in_text,
            _ if in_text => {}
            '[' if depth == 1 => {
                depth += 1;
                call = Some(String::new());
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 1
            && let Some(call) = call.take()
        {
            calls.push(call);
        }
        if depth == 0 {
            break;
        }
        call.iter_mut().for_each(|call| call.push(c));
    }
    calls
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let kept = entries.filter(|path| !STARTING_PROGRAMS.iter().any(|module| path.ends_with(module)));
    kept.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// What stands between double quotes.
fn literals(line: &str) -> impl Iterator<Item = &str> {
    let mut quotes = Vec::new();
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quotes.push(at),
            _ => {}
        }
    }
    quotes.chunks_exact(2).map(|pair| &line[pair[0] + 1..pair[1]]).collect::<Vec<_>>().into_iter()
}

/// A name that stands alone is no text: it is set for a program, or is the name of something.
fn names_option_or_variable(text: &str) -> bool {
    let begins = |word: &str, prefix: &str, is_first: fn(char) -> bool| {
        word.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(is_first))
    };
    let mut words = text.split(|c: char| c.is_whitespace() || c == '(').filter(|word| !word.is_empty());
    let has_several = text.contains(char::is_whitespace);
    has_several
        && words.any(|word| {
            begins(word, "--", |c| c.is_ascii_lowercase()) || begins(word, "POSTE_", |c| c.is_ascii_uppercase())
        })
}
