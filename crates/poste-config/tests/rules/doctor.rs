//! What the doctor finds in the files of an office.

use std::fs;

use poste_config::doctor::examine;
use poste_core::doctor::{Finding, Severity};
use poste_core::log::{Intent, Policy, Settings};

use crate::common::*;

/// Exactly one finding, of this check.
#[track_caller]
fn only(desk: &Desk, severity: Severity, check: &str) -> Finding {
    let mut findings = examine(&desk.place);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!((findings[0].severity, findings[0].check), (severity, check), "{findings:#?}");
    findings.remove(0)
}

#[track_caller]
fn assert_content(desk: &Desk) {
    let findings = examine(&desk.place);
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn a_poste_toml_that_is_wrong_or_not_in_force_is_told() {
    let mut desk = Desk::with(&["ann"]);
    let write = |desk: &Desk, text: &str| fs::write(desk.config(), text).unwrap();
    write(&desk, "[delivry]\n");
    assert!(only(&desk, Severity::Problem, "policy").what.contains("did you mean delivery?"));
    write(&desk, "[delivery]\nmax_attempts = 2\n");
    only(&desk, Severity::Note, "policy");
    poste_config::sync_policy(&mut desk.office).unwrap();
    assert_content(&desk);
    let elsewhere = Policy {
        replaces: 1,
        machine: "elsewhere".parse().unwrap(),
        host: "other-host".to_owned(),
        settings: Settings { max_attempts: Some(7), ..Settings::default() },
        types: Vec::new(),
    };
    accepted(desk.ask("poste", Intent::Policy(elsewhere)));
    assert!(only(&desk, Severity::Warning, "policy").what.contains("policy 2 from other-host"));
    write(&desk, "[delivery]\nmax_attempts = 3\n");
    assert!(only(&desk, Severity::Problem, "policy").what.contains("would replace policy 1, but policy 2"));
    assert!(poste_config::sync_policy(&mut desk.office).is_err(), "a command that writes reports the same");
    write(&desk, "[delivery]\nmax_attempts = 7\n");
    assert_content(&desk);
}
