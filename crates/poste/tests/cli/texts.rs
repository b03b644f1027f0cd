//! People, models and programs call verbs, so the texts of verbs name no option and no variable. A note names a field,
//! and each surface prints it in its own form.

use std::path::{Path, PathBuf};

use poste_verbs::Spec;
use poste_verbs::note::{COMMANDS, SPEAKER};
use poste_verbs::verb::{self, OUTSIDE, VERBS};

/// Crates whose notes are checked. The command line's own notes may name options.
const CRATES: &[&str] = &["poste-verbs", "poste-dispatch", "poste-connect"];

/// Modules that start or set up programs, and so contain command lines.
const STARTING_PROGRAMS: &[&str] = &[
    "poste-verbs/src/actions",
    "poste-verbs/src/wake",
    "poste-dispatch/src/run",
    "poste-connect/src/setup",
    "poste-connect/src/hook",
    "poste-connect/src/guard",
];

/// The option of every command that stores text. Its verb takes it as `secrets`.
const ALLOW_SECRET: &str = "allow_secret";

#[test]
fn texts_name_no_option_and_no_variable() {
    let mut found = Vec::new();
    for Source { path, text } in sources() {
        if STARTING_PROGRAMS.iter().any(|module| path.to_string_lossy().contains(module)) {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
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

/// A surface drops names it does not know, so nothing else would catch a wrong one.
#[test]
fn notes_name_verbs_and_fields_that_exist() {
    let mut wrong = Vec::new();
    let (mut calls, mut fields) = (0, 0);
    for Source { path, text } in sources() {
        for part in text.split("note!(").skip(1).flat_map(parts) {
            let is_known = match &part {
                Part::Call(call) => {
                    calls += 1;
                    is_known_call(call)
                }
                Part::Field(field) => {
                    fields += 1;
                    is_known_field(&text, field)
                }
            };
            if !is_known {
                wrong.push(format!("{}: {part:?}", path.display()));
            }
        }
        let words = text.split("said(\"").skip(1).filter_map(|rest| rest.split_once('"'));
        for (field, _) in words.filter(|(_, rest)| rest.starts_with(", ")) {
            fields += 1;
            if !is_known_field(&text, field) {
                wrong.push(format!("{}: said({field:?}, …)", path.display()));
            }
        }
    }
    assert!(calls > 150 && fields > 40, "only {calls} verbs and {fields} fields were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The doctor's findings name verbs without `note!`.
#[test]
fn findings_name_verbs_and_fields_that_exist() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for Source { path, text } in ["poste-core", "poste-config"].into_iter().flat_map(sources_of) {
        for (verb, rest) in text.split(".verb(\"").skip(1).filter_map(|rest| rest.split_once('"')) {
            seen += 1;
            let input = rest.split_once("))").map_or("", |(input, _)| input);
            let mut keys = input.split(['{', ',']).filter_map(|part| part.trim().strip_prefix('"')?.split_once("\": "));
            if !verb::exists(verb) || keys.any(|(key, _)| key != SPEAKER && !has_field(verb, key)) {
                wrong.push(format!("{}: {verb} {input}", path.display()));
            }
        }
    }
    assert!(seen > 15, "only {seen} verbs were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn verbs_and_fields_of_notes_are_found() {
    let found = parts(r#""a {b}: " [send, to = "[x]"] {merge = true} " or " {r#in} (at));  [no] {no}"#);
    assert_eq!(
        found,
        [Part::Call(r#"send, to = "[x]""#.to_owned()), Part::Field("merge".to_owned()), Part::Field("in".to_owned())]
    );
}

/// A verb named in a note, or a field of the note's own verb.
#[derive(Debug, PartialEq)]
enum Part {
    Call(String),
    Field(String),
}

fn is_known_call(call: &str) -> bool {
    let mut parts = call.split(',').map(str::trim);
    let verb = parts.next().unwrap_or_default();
    let mut fields = parts.filter_map(|part| Some(part.split_once(" = ")?.0.trim_start_matches("r#")));
    let is_verb = verb::exists(verb) || dispatch_verb(verb).is_some();
    COMMANDS.contains(&verb) || is_verb && fields.all(|field| field == SPEAKER || has_field(verb, field))
}

fn dispatch_verb(name: &str) -> Option<&'static Spec> {
    poste_dispatch::VERBS.iter().find(|spec| spec.name == name)
}

fn has_field(verb: &str, field: &str) -> bool {
    verb::has_field(verb, field) || dispatch_verb(verb).is_some_and(|spec| spec.has_field(field))
}

/// A verb's file names that verb's fields; a shared file may name a field of any verb.
fn is_known_field(source: &str, field: &str) -> bool {
    let own = source.split("const NAME: &'static str = \"").nth(1).and_then(|rest| rest.split('"').next());
    match own {
        _ if field == ALLOW_SECRET => true,
        Some(verb) => has_field(verb, field),
        None => {
            VERBS.iter().chain(poste_dispatch::VERBS).any(|spec| spec.has_field(field))
                || OUTSIDE.iter().any(|outside| outside.has_field(field))
        }
    }
}

/// The verbs and fields in the arguments of a `note!`, given the file from there on.
fn parts(arguments: &str) -> Vec<Part> {
    let (mut depth, mut in_text, mut escaped) = (1, false, false);
    let (mut parts, mut part) = (Vec::new(), None::<(char, String)>);
    for c in arguments.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_text => escaped = true,
            '"' => in_text = !in_text,
            _ if in_text => {}
            '[' | '{' if depth == 1 => {
                depth += 1;
                part = Some((c, String::new()));
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 1
            && let Some((open, text)) = part.take()
        {
            let field = || text.split(" = ").next().unwrap_or_default().trim_start_matches("r#").to_owned();
            parts.push(if open == '[' { Part::Call(text) } else { Part::Field(field()) });
        }
        if depth == 0 {
            break;
        }
        part.iter_mut().for_each(|(_, text)| text.push(c));
    }
    parts
}

struct Source {
    path: PathBuf,
    text: String,
}

fn sources() -> Vec<Source> {
    CRATES.iter().flat_map(|name| sources_of(name)).collect()
}

fn sources_of(name: &str) -> Vec<Source> {
    fn below(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let paths = below(&crates.join(name).join("src")).into_iter();
    let read = |path: PathBuf| Source { text: std::fs::read_to_string(&path).unwrap(), path };
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).map(read).collect()
}

/// The string literals of a line.
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

/// A literal that is a single word is not text but a name, for example of a variable set for a program.
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
