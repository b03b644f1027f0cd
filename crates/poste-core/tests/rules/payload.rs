//! Payload schemas are checked before the append, for every surface alike.

use std::fs;
use std::os::unix::fs::symlink;

use poste_core::Error;
use poste_core::config::{KeyPath, Takes};
use poste_core::fold::{Code, Verdict};
use poste_core::log::{Content, Intent, Proposal};
use serde_json::value::RawValue;

use crate::common::*;

fn with_payload(desk: &mut Desk, kind: &str, payload: Option<&str>) -> Proposal {
    let payload = payload.map(|text| RawValue::from_string(text.to_owned()).expect("JSON"));
    let content = Content { subject: "a subject".to_owned(), payload, ..Content::default() };
    desk.proposal("ann", Intent::Send(letter("bob", kind)), Some(content))
}

fn office_with(toml: &str) -> Desk {
    let mut desk = Desk::with(&["ann", "bob"]);
    fs::write(desk.config(), toml).unwrap();
    desk.office.sync_policy().expect("the file is taken");
    desk
}

const DEPLOY: &str = "[types.deploy.schema]\ntype = 'object'\nrequired = ['env']\n";

fn code_of(desk: &mut Desk, proposal: &Proposal) -> Option<Code> {
    match desk.outcome(proposal).verdict {
        Verdict::Accepted(_) => None,
        Verdict::Rejected(rejection) => Some(rejection.code),
    }
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_no_record() {
    let mut desk = office_with(DEPLOY);
    let before = desk.head();
    for payload in [None, Some("[]"), Some("{}"), Some("null"), Some("{\"env\":1e999}")] {
        let proposal = with_payload(&mut desk, "deploy", payload);
        assert_eq!(code_of(&mut desk, &proposal), Some(Code::PayloadUnfit), "{payload:?}");
    }
    assert_eq!(desk.head(), before);
    let proposal = with_payload(&mut desk, "deploy", Some("{\"env\":1}"));
    assert_eq!(code_of(&mut desk, &proposal), None);
    let proposal = with_payload(&mut desk, "message", Some("[]"));
    assert_eq!(code_of(&mut desk, &proposal), None, "other types take anything");
}

#[test]
fn in_a_batch_only_the_unfit_are_refused_and_every_answer_has_its_place() {
    let mut desk = office_with(DEPLOY);
    let payloads = [Some("{\"env\":1}"), None, Some("{\"env\":2}"), Some("[]")];
    let batch: Vec<Proposal> = payloads.iter().map(|payload| with_payload(&mut desk, "deploy", *payload)).collect();
    let outcomes = desk.office.submit(&batch).unwrap();
    let accepted: Vec<bool> = outcomes.iter().map(|outcome| matches!(outcome.verdict, Verdict::Accepted(_))).collect();
    assert_eq!(accepted, [true, false, true, false]);
    for (proposal, outcome) in batch.iter().zip(&outcomes) {
        assert_eq!(proposal.id, outcome.id);
    }
}

#[test]
fn what_was_stored_stays_a_repeat_whatever_the_schema_says_later() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let stored = with_payload(&mut desk, "message", Some("[]"));
    assert_eq!(code_of(&mut desk, &stored), None);
    fs::write(desk.config(), "[types.message.schema]\ntype = 'object'\n").unwrap();
    desk.office.sync_policy().unwrap();
    assert!(desk.office.propose(&stored).unwrap().repeat);
    let fresh = with_payload(&mut desk, "message", Some("[]"));
    assert_eq!(code_of(&mut desk, &fresh), Some(Code::PayloadUnfit));
}

#[test]
fn a_surface_that_never_looks_at_the_file_is_held_to_it_all_the_same() {
    let mut desk = Desk::with(&["ann", "bob"]);
    fs::write(desk.config(), "[types.message.schema]\ntype = 'object'\n").unwrap();
    let mut office = desk.place.open().unwrap();
    let proposal = with_payload(&mut desk, "message", None);
    let verdict = office.propose(&proposal).unwrap().verdict;
    assert!(matches!(verdict, Verdict::Rejected(rejection) if rejection.code == Code::PayloadUnfit));
}

#[test]
fn a_schema_file_that_changes_is_read_again() {
    let mut desk = office_with("");
    let schema = desk.config().with_file_name("alert.json");
    fs::write(&schema, "{\"type\":\"object\"}").unwrap();
    fs::write(desk.config(), "[types.alert]\nschema = 'alert.json'\n").unwrap();
    desk.office.sync_policy().unwrap();
    assert_eq!(desk.office.store().tables().unwrap().policy().unwrap().version, 0, "a schema is no policy");
    let array = |desk: &mut Desk| {
        let proposal = with_payload(desk, "alert", Some("[]"));
        code_of(desk, &proposal)
    };
    assert_eq!(array(&mut desk), Some(Code::PayloadUnfit));
    fs::write(&schema, "{\"type\":\"array\"}").unwrap();
    assert_eq!(array(&mut desk), None);
}

#[test]
fn a_schema_is_a_small_regular_file_below_the_folder() {
    let mut desk = office_with("");
    let folder = desk.config().parent().unwrap().to_owned();
    // Each would do as a schema if it were not for the one thing that is wrong with it.
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("good.json"), "{}").unwrap();
    fs::write(folder.join("good.json"), "{}").unwrap();
    fs::write(folder.join("large.json"), format!("{{}}{}", " ".repeat(256 * 1024 - 1))).unwrap();
    fs::write(folder.join("text.json"), "no JSON").unwrap();
    fs::write(folder.join("empty.json"), "").unwrap();
    fs::create_dir(folder.join("folder.json")).unwrap();
    symlink(elsewhere.path().join("good.json"), folder.join("link.json")).unwrap();
    let absolute = folder.join("good.json").display().to_string();
    let up = format!("../{}/good.json", elsewhere.path().file_name().unwrap().display());
    assert!(folder.join(&up).is_file(), "{up}");
    let wrong =
        ["missing.json", "large.json", "text.json", "empty.json", "folder.json", "link.json", &up, absolute.as_str()];
    for (path, is_fine) in wrong.map(|path| (path, false)).into_iter().chain([("good.json", true)]) {
        fs::write(desk.config(), format!("[types.alert]\nschema = '{path}'\n")).unwrap();
        desk.office.sync_policy().expect("only who sends such a message is stopped");
        let proposal = with_payload(&mut desk, "alert", Some("{}"));
        let key: KeyPath = "types.alert.schema".parse().unwrap();
        let change = desk.office.change_config(&key, Some(&Takes::Schema.parse(path).unwrap()));
        assert_eq!(change.is_ok(), is_fine, "{path}");
        match desk.office.propose(&proposal) {
            Ok(outcome) => assert!(is_fine && matches!(outcome.verdict, Verdict::Accepted(_)), "{path}"),
            Err(Error::Config { message, .. }) if !is_fine => {
                assert!(message.starts_with("types.alert.schema: "), "{message}");
            }
            Err(error) => panic!("{path}: {error}"),
        }
    }
}

#[test]
fn a_pattern_cannot_keep_the_office_busy() {
    let mut desk = office_with("[types.alert.schema]\ntype = 'string'\npattern = '^(a+)+$'\n");
    let long = format!("\"{}b\"", "a".repeat(50_000));
    let proposal = with_payload(&mut desk, "alert", Some(&long));
    assert_eq!(code_of(&mut desk, &proposal), Some(Code::PayloadUnfit));
}
