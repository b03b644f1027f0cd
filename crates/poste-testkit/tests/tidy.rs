//! The fold reads nothing but its tables and the record, and a verb only what its caller gives it. Lints ensure that.
//! These tests guard the lints: they may not be switched off, and the fold may not even mention what they forbid.

use std::fs;
use std::path::{Path, PathBuf};

/// Anything that could make two machines fold differently: clocks, randomness, the environment, files, map order,
/// floats.
const FORBIDDEN_IN_FOLD: &[&str] = &[
    "SystemTime",
    "Instant::now",
    "std::env",
    "std::fs",
    "HashMap",
    "HashSet",
    "rand",
    "f32",
    "f64",
    "clippy::disallowed*",
];

/// Where the lints may be switched off, in the order of the files: the file, and the item under the attribute. The
/// store is the machine itself, and not listed.
const LINT_EXCEPTIONS: &[(&str, &[(&str, &str)])] = &[
    ("poste-core", &[("lib.rs", "mod sabotage;"), ("lib.rs", "pub mod store;"), ("office.rs", "fn now_instant()")]),
    (
        "poste-verbs",
        &[
            ("lib.rs", "pub mod actions;"),
            ("lib.rs", "pub mod live;"),
            ("lib.rs", "pub mod wake;"),
            ("workflow/mod.rs", "mod files;"),
        ],
    ),
    (
        "poste-dispatch",
        &[
            ("lib.rs", "pub mod engine;"),
            ("lib.rs", "pub mod ingest;"),
            ("lib.rs", "pub mod notify;"),
            ("lib.rs", "pub mod run;"),
            ("lib.rs", "pub mod wake;"),
            ("team/mod.rs", "fn now_instant()"),
        ],
    ),
];

/// What belongs to the command line alone: its parser, and the arguments of this process.
const FORBIDDEN_BELOW_THE_COMMAND_LINE: &[&str] = &["clap", "args_os", "env::args", "parse_from", "ArgMatches"];

fn core_sources() -> PathBuf {
    sources_of("poste-core")
}

fn sources_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src")
}

fn sources_below(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found.sort();
    found
}

/// Whether `line` contains `word` as a whole word: `operand` does not contain `rand`. A `*` matches any ending.
fn mentions(line: &str, word: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (beginning, any_ending) = word.strip_suffix('*').map_or((word, false), |beginning| (beginning, true));
    line.match_indices(beginning).any(|(start, _)| {
        !line[..start].chars().next_back().is_some_and(is_word)
            && (any_ending || !line[start + beginning.len()..].chars().next().is_some_and(is_word))
    })
}

/// Comments may mention what the code must not use.
fn code_of(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

fn forbidden_mentions(forbidden: &[&str], name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let word = forbidden.iter().find(|word| mentions(code_of(line), word));
        if let Some(word) = word {
            found.push(format!("{name}:{}: {word}: {}", number + 1, line.trim()));
        }
    }
    found
}

#[test]
fn the_fold_mentions_nothing_that_could_differ_between_machines() {
    let sources = sources_below(&core_sources().join("fold"));
    assert!(sources.len() >= 10, "the fold has moved: only {} files found", sources.len());
    let found: Vec<String> = sources
        .iter()
        .flat_map(|(path, text)| {
            forbidden_mentions(FORBIDDEN_IN_FOLD, &path.file_name().unwrap().to_string_lossy(), text)
        })
        .collect();
    assert!(found.is_empty(), "the fold mentions forbidden items:\n{}", found.join("\n"));
}

/// Anyone who can set such a variable could set the clock of the program, and end another agent's lease. Release builds
/// leave them out; `cargo xtask dist` looks into the program itself.
#[test]
fn test_switches_are_in_the_one_module_that_release_builds_leave_out() {
    const PREFIX: &str = "POSTE_TEST_";
    const MODULE: &str = "#[cfg(debug_assertions)]\nmod debug {\n";
    for name in ["poste", "poste-config", "poste-connect", "poste-core", "poste-dispatch", "poste-run", "poste-verbs"] {
        for (path, text) in sources_below(&sources_of(name)) {
            let shown = path.display();
            if !path.ends_with("poste/src/switches.rs") {
                assert!(!text.contains(PREFIX), "{shown} mentions {PREFIX}: test switches belong in switches.rs");
                continue;
            }
            let (before, rest) = text.split_once(MODULE).unwrap_or_else(|| panic!("{shown} has no module for tests"));
            let (debug, after) = rest.split_once("\n}\n").expect("the end of the module");
            assert!(debug.contains(PREFIX), "{shown}: the switches have moved");
            assert!(!before.contains(PREFIX) && !after.contains(PREFIX), "{shown} has a switch outside of that module");
        }
    }
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap();
    for profile in ["release", "dist"] {
        let section = manifest.split_once(&format!("[profile.{profile}]\n")).expect("the profile").1;
        let section = section.split("\n[").next().unwrap_or_default();
        assert!(!section.contains("debug-assertions"), "the profile {profile} has debug assertions");
    }
}

/// Tools, hooks, runs and verbs take typed inputs. Code that reads a command line is above them.
#[test]
fn nothing_below_the_command_line_names_its_parser_or_its_arguments() {
    for name in ["poste-connect", "poste-dispatch", "poste-verbs"] {
        let sources = sources_below(&sources_of(name));
        assert!(sources.len() >= 10, "{name} has moved: only {} files found", sources.len());
        let found: Vec<String> = sources
            .iter()
            .flat_map(|(path, text)| {
                forbidden_mentions(FORBIDDEN_BELOW_THE_COMMAND_LINE, &path.display().to_string(), text)
            })
            .collect();
        assert!(found.is_empty(), "{name} mentions the command line:\n{}", found.join("\n"));
        let manifest = fs::read_to_string(sources_of(name).with_file_name("Cargo.toml")).unwrap();
        assert!(!manifest.contains("clap"), "{name} depends on clap");
    }
}

/// Attributes that switch `clippy::disallowed_…` off: the line, and what comes after the attribute.
fn switched_off(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (start, _) in text.match_indices("#[").chain(text.match_indices("#![")) {
        let Some(length) = text[start..].find(']') else { continue };
        let attribute = &text[start..start + length];
        let is_off = attribute.contains("allow(") || attribute.contains("expect(");
        if is_off && attribute.contains("clippy::disallowed") {
            let line = text[..start].matches('\n').count() + 1;
            let stands_on = text[start + length + 1..].trim_start().lines().next().unwrap_or_default();
            found.push((line, stands_on.to_owned()));
        }
    }
    found
}

#[test]
fn the_lints_are_switched_off_only_where_the_machine_is_touched() {
    for (name, exceptions) in LINT_EXCEPTIONS {
        let root = sources_of(name);
        assert!(root.with_file_name("clippy.toml").is_file(), "{name} has no lints of its own");
        let mut found = Vec::new();
        for (path, text) in sources_below(&root) {
            let file = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            if *name == "poste-core" && file.starts_with("store/") {
                continue;
            }
            found.extend(switched_off(&text).into_iter().map(|(line, stands_on)| (file.clone(), line, stands_on)));
        }
        let is_same = |((file, _, on), (excepted, start)): (&(String, usize, String), &(&str, &str))| {
            file == excepted && on.starts_with(start)
        };
        let is_listed = found.len() == exceptions.len() && found.iter().zip(*exceptions).all(is_same);
        assert!(is_listed, "{name}: clippy::disallowed is switched off at {found:#?}, and may be at {exceptions:#?}");
    }
}

/// The crates between core and people. Test and verification crates may read the tables themselves.
const SURFACES: &[&str] = &["poste-config", "poste-verbs", "poste-connect", "poste-dispatch", "poste"];

#[test]
fn only_views_read_the_tables() {
    let mut found = Vec::new();
    for surface in SURFACES {
        let sources = sources_below(&core_sources().join("../..").join(surface).join("src"));
        assert!(sources.len() >= 5, "{surface} has moved: only {} files found", sources.len());
        for (path, text) in sources {
            let lines = text.lines().enumerate().filter(|(_, line)| code_of(line).contains(".tables()"));
            found.extend(lines.map(|(number, _)| format!("{}:{}", path.display(), number + 1)));
        }
    }
    assert!(found.is_empty(), "ask a view instead of the tables:\n{}", found.join("\n"));
}

#[test]
fn the_search_finds_what_it_is_for() {
    let bad = "use std::collections::HashMap;\nlet operand = 1; // rand in a comment\nlet x: f64 = rand::random();\n#[allow(clippy::disallowed_methods)]\n";
    let found = forbidden_mentions(FORBIDDEN_IN_FOLD, "example.rs", bad);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("example.rs:1: HashMap") && found[1].starts_with("example.rs:3: rand"), "{found:?}");
    let bad = "use clap::Parser;\nlet words = std::env::args();\nlet argv = overclap; // clap\n";
    let found = forbidden_mentions(FORBIDDEN_BELOW_THE_COMMAND_LINE, "example.rs", bad);
    assert_eq!(found.len(), 2, "{found:?}");
    let off = switched_off(
        "fn a() {}\n#[allow(\n    clippy::disallowed_methods,\n)]\nfn b() {}\n#[warn(clippy::disallowed)]",
    );
    assert_eq!(off, [(2, "fn b() {}".to_owned())]);
}

/// An office that its user has not adopted must not be opened, so every surface asks first.
#[test]
fn surfaces_open_offices_in_one_place() {
    for name in ["poste", "poste-connect", "poste-dispatch", "poste-verbs"] {
        for (path, text) in sources_below(&sources_of(name)) {
            let product = text.split("#[cfg(test)]").next().unwrap_or_default();
            for (number, line) in (1..).zip(product.lines()) {
                let opens = [".open()", ".create()"].iter().any(|call| line.contains(call));
                let is_one = opens && line.to_lowercase().contains("place");
                assert!(!is_one, "{}:{number}: use poste_config::open, or poste_config::adopt::create", path.display());
            }
        }
    }
}
