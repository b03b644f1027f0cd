//! Payload schemas are checked before the append, in the same way for every surface.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use poste_config::{KeyPath, ValueKind};
use poste_core::Error;
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
    poste_config::sync_policy(&mut desk.office).expect("the file is taken");
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
    assert_eq!(code_of(&mut desk, &proposal), None, "other types accept any payload");
}

#[test]
fn in_a_batch_only_the_unfit_are_refused_and_every_answer_has_its_place() {
    let mut desk = office_with(DEPLOY);
    let payloads = [Some("{\"env\":1}"), None, Some("{\"env\":2}"), Some("[]")];
    let batch: Vec<Proposal> = payloads.iter().map(|payload| with_payload(&mut desk, "deploy", *payload)).collect();
    let outcomes = poste_config::submit(&mut desk.office, &batch).unwrap();
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
    poste_config::sync_policy(&mut desk.office).unwrap();
    assert!(poste_config::propose(&mut desk.office, &stored).unwrap().repeat);
    let fresh = with_payload(&mut desk, "message", Some("[]"));
    assert_eq!(code_of(&mut desk, &fresh), Some(Code::PayloadUnfit));
}

#[test]
fn a_surface_that_never_looks_at_the_file_is_held_to_it_all_the_same() {
    let mut desk = Desk::with(&["ann", "bob"]);
    fs::write(desk.config(), "[types.message.schema]\ntype = 'object'\n").unwrap();
    let mut office = desk.place.open().unwrap();
    let proposal = with_payload(&mut desk, "message", None);
    let verdict = poste_config::propose(&mut office, &proposal).unwrap().verdict;
    assert!(matches!(verdict, Verdict::Rejected(rejection) if rejection.code == Code::PayloadUnfit));
}

#[test]
fn a_schema_file_that_changes_is_read_again() {
    let mut desk = office_with("");
    let schema = desk.config().with_file_name("alert.json");
    fs::write(&schema, "{\"type\":\"object\"}").unwrap();
    fs::write(desk.config(), "[types.alert]\nschema = 'alert.json'\n").unwrap();
    poste_config::sync_policy(&mut desk.office).unwrap();
    assert_eq!(desk.office.store().tables().unwrap().policy().unwrap().version, 0, "a schema is not policy");
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
    // Each would be a valid schema but for one fault.
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
        poste_config::sync_policy(&mut desk.office).expect("only messages of this type are refused");
        let proposal = with_payload(&mut desk, "alert", Some("{}"));
        let key: KeyPath = "types.alert.schema".parse().unwrap();
        let change =
            poste_config::change_config(&desk.office, &key, Some(&ValueKind::Schema.parse(path).unwrap()), None);
        assert_eq!(change.is_ok(), is_fine, "{path}");
        match poste_config::propose(&mut desk.office, &proposal) {
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

/// The check is quick whatever a schema and a payload ask for. Without a limit each of these takes minutes.
#[track_caller]
fn soon<T>(what: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let answer = what();
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    answer
}

#[test]
fn alternatives_that_double_with_each_level_are_refused_with_the_schema() {
    let mut desk = office_with("");
    let levels = |count: usize| {
        let mut defs = serde_json::Map::new();
        for level in 0..count {
            let next = serde_json::json!({"$ref": format!("#/$defs/l{}", level + 1)});
            defs.insert(format!("l{level}"), serde_json::json!({"anyOf": [next.clone(), next]}));
        }
        defs.insert(format!("l{count}"), serde_json::json!({"type": "object"}));
        serde_json::json!({"$ref": "#/$defs/l0", "$defs": defs}).to_string()
    };
    fs::write(desk.config(), "[types.alert]\nschema = 'alert.json'\n").unwrap();
    let schema = desk.config().with_file_name("alert.json");
    fs::write(&schema, levels(28)).unwrap();
    poste_config::sync_policy(&mut desk.office).unwrap();
    let proposal = with_payload(&mut desk, "alert", Some("[]"));
    let error = soon(|| poste_config::propose(&mut desk.office, &proposal)).unwrap_err().to_string();
    assert!(error.contains("one value would have to be checked more than 100000 times"), "{error}");
    fs::write(&schema, levels(12)).unwrap();
    assert_eq!(soon(|| code_of(&mut desk, &proposal)), Some(Code::PayloadUnfit), "the largest schema that is accepted");
    let proposal = with_payload(&mut desk, "alert", Some("{}"));
    assert_eq!(soon(|| code_of(&mut desk, &proposal)), None);
}

#[test]
fn a_schema_may_refer_to_itself_as_far_as_the_payload_bounds_it() {
    let mut desk = office_with(
        "[types.tree.schema]\ntype = 'object'\nadditionalProperties = { '$ref' = '#' }\n
         [types.doubled.schema]\nanyOf = [
            { type = 'object', properties = { a = { '$ref' = '#' } } },
            { type = 'object', properties = { a = { '$ref' = '#' } } }, { type = 'null' }]\n",
    );
    let nested = |depth: usize, last: &str| format!("{}{last}{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    for (kind, depth, last, expected) in [
        ("tree", 90, "{}", None),
        ("tree", 90, "1", Some(Code::PayloadUnfit)),
        ("doubled", 8, "null", None),
        ("doubled", 8, "1", Some(Code::PayloadUnfit)),
        ("doubled", 16, "1", Some(Code::PayloadUnfit)),
    ] {
        let proposal = with_payload(&mut desk, kind, Some(&nested(depth, last)));
        assert_eq!(soon(|| code_of(&mut desk, &proposal)), expected, "{kind} {depth} {last}");
    }
    let proposal = with_payload(&mut desk, "doubled", Some(&nested(90, "null")));
    let verdict = soon(|| desk.outcome(&proposal)).verdict;
    let Verdict::Rejected(rejection) = verdict else { panic!("{verdict:?}") };
    assert!(rejection.reason.contains("would take more than 20000000 checks"), "{}", rejection.reason);
}

#[test]
fn of_many_violations_only_the_first_is_looked_for() {
    let mut desk = office_with("[types.alert.schema]\nitems = { type = 'string' }\n");
    for (count, more) in [(2, "at /0, it is not of type \"string\"; at /1"), (500_000, "at /0, it is not of type")] {
        let payload = format!("[1{}]", ",1".repeat(count - 1));
        let proposal = with_payload(&mut desk, "alert", Some(&payload));
        let Verdict::Rejected(rejection) = soon(|| desk.outcome(&proposal)).verdict else { panic!("it was taken") };
        assert!(rejection.reason.contains(more), "{}", rejection.reason);
        assert_eq!(rejection.reason.contains("; "), count == 2, "{}", rejection.reason);
    }
}
