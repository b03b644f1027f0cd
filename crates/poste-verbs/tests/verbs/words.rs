//! Small texts that verbs and surfaces share.

use std::collections::BTreeSet;
use std::io;

use poste_verbs::draft::prefixed;
use poste_verbs::mark::{all_in, of};
use poste_verbs::model::subject::{quoted, short};
use poste_verbs::model::tokens::estimate;
use poste_verbs::program::Program;
use poste_verbs::{Error, Kind};

#[test]
fn a_program_is_stored_as_it_is_typed() {
    for program in Program::ALL {
        assert_eq!(program.word().parse(), Ok(program));
        assert_eq!(serde_json::to_value(program).unwrap(), program.word());
    }
    assert!("vim".parse::<Program>().unwrap_err().to_string().contains("\"vim\""));
}

#[test]
fn a_disk_that_may_only_be_read_is_a_refusal() {
    for kind in [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::PermissionDenied] {
        let error = poste_core::Error::Io { path: "/mnt/.poste".into(), source: kind.into() };
        let error = Error::from(error);
        assert_eq!((error.kind, error.hints.len()), (Kind::Refused, 1), "{kind:?}");
    }
}

#[test]
fn a_mark_is_found_wherever_it_stands() {
    let mark = of("an id");
    assert_eq!(all_in(&format!("In-Reply-To: <key.{mark}@host>, {mark}\nposte-office-é")), [mark].into());
    assert_eq!(all_in("poste-office-123"), BTreeSet::new());
}

#[test]
fn a_subject_cannot_close_its_quotes() {
    assert_eq!(quoted("plain"), r#""plain""#);
    assert_eq!(quoted(r#"a" b \" c"#), r#""a\" b \\\" c""#);
    assert_eq!(quoted("two\nlines \u{1b}"), r#""two⏎lines \\u{1b}""#);
    assert_eq!(short(&"漢".repeat(101)), format!("{}…", "漢".repeat(100)));
    assert_eq!(short(&"漢".repeat(100)), "漢".repeat(100));
}

#[test]
fn the_estimate_errs_on_the_high_side() {
    assert_eq!(estimate(""), 0);
    assert!(estimate("The quick brown fox jumps over the lazy dog.") >= 10);
    assert!(estimate("漢字") >= 3);
}

#[test]
fn a_prefix_is_put_once_and_the_subject_stays_within_its_limit() {
    assert_eq!(prefixed("Re: ", "hello"), "Re: hello");
    assert_eq!(prefixed("Re: ", "Re: hello"), "Re: hello");
    let long = "ä".repeat(poste_core::limits::SUBJECT_BYTES_MAX / 2);
    assert!(prefixed("Re: ", &long).len() <= poste_core::limits::SUBJECT_BYTES_MAX);
    assert_eq!(prefixed("Re: ", ""), "Re: ");
}
