//! Rules for the files of this test suite.

use std::path::Path;

use crate::common::DOCUMENTED_EXIT_CODES;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli")
}

#[test]
fn every_file_here_is_a_module() {
    let main = include_str!("main.rs");
    let mut files = 0;
    for entry in std::fs::read_dir(folder()).expect("this folder").flatten() {
        let path = entry.path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a plain name");
        if path.extension().is_some_and(|extension| extension == "rs") && name != "main" {
            files += 1;
            assert!(main.lines().any(|line| line == format!("mod {name};")), "main.rs does not name {name}");
        }
    }
    assert_eq!(files, main.lines().filter(|line| line.starts_with("mod ")).count());
}

#[test]
fn every_exit_code_of_a_transcript_is_documented_and_no_machine_is_in_it() {
    assert_eq!(*DOCUMENTED_EXIT_CODES, (0..=14).chain([75]).collect::<Vec<i32>>());
    let mut seen = std::collections::BTreeSet::new();
    let temporary = std::env::temp_dir();
    for entry in std::fs::read_dir(folder().join("snapshots")).expect("the snapshots").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("a snapshot is text");
        let name = entry.file_name();
        let codes = text.lines().filter_map(|line| line.strip_prefix("[exit ")?.strip_suffix(']')?.parse().ok());
        seen.extend(codes.inspect(|code| assert!(DOCUMENTED_EXIT_CODES.contains(code), "{name:?}: exit {code}")));
        for path in [temporary.join("poste-cli-"), env!("CARGO_MANIFEST_DIR").into()] {
            assert!(!text.contains(path.to_str().expect("a plain path")), "{name:?} names {path:?}");
        }
    }
    assert!(seen.is_superset(&[2, 3, 4, 5, 7].into()), "the transcripts cover too few exit codes: {seen:?}");
}

#[test]
fn every_snapshot_belongs_to_a_test() {
    for entry in std::fs::read_dir(folder().join("snapshots")).expect("the snapshots").flatten() {
        let name = entry.file_name().into_string().expect("a plain name");
        let test = name.strip_prefix("cli__").and_then(|rest| rest.strip_suffix(".snap")?.split_once("__"));
        let (module, test) = test.unwrap_or_else(|| panic!("{name} is not an accepted snapshot"));
        let source = std::fs::read_to_string(folder().join(module).with_extension("rs")).expect("its module");
        assert!(source.contains(&format!("fn {test}()")), "{name} has no test");
    }
}
