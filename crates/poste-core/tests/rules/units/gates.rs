//! Gates: which messages they are for, and which may run commands.

use poste_core::gates::{Gate, Gates, Program, Source};
use poste_core::limits;
use poste_core::text::{Label, TypeName};

fn gate(kind: Option<&str>, workflow: Option<&str>, step: Option<&str>) -> Gate {
    Gate {
        kind: kind.map(|kind| kind.parse().unwrap()),
        workflow: workflow.map(|label| label.parse().unwrap()),
        step: step.map(|label| label.parse().unwrap()),
        name: "artifacts".parse().unwrap(),
        exists: true,
        not_empty: false,
        digest: true,
        size_min: None,
        size_max: None,
        name_matches: None,
        artifact_schema: None,
        payload_schema: None,
        program: None,
        timeout_ms: limits::GATE_TIMEOUT_MS_DEFAULT,
        source: Source::Machine,
        line: 0,
    }
}

#[test]
fn a_gate_is_for_what_fits_all_of_it() {
    let draft: TypeName = "draft_ready".parse().unwrap();
    let alert: TypeName = "alert".parse().unwrap();
    let (blog, edit): (Label, Label) = ("blog".parse().unwrap(), "edit".parse().unwrap());
    let of_type = gate(Some("draft_ready"), None, None);
    assert!(of_type.applies(&draft, None, None) && of_type.applies(&draft, Some(&blog), Some(&edit)));
    assert!(!of_type.applies(&alert, None, None));
    let of_step = gate(None, Some("blog"), Some("edit"));
    assert!(of_step.applies(&alert, Some(&blog), Some(&edit)));
    assert!(!of_step.applies(&alert, Some(&blog), None) && !of_step.applies(&alert, None, Some(&edit)));
    let of_both = gate(Some("draft_ready"), Some("blog"), None);
    assert!(of_both.applies(&draft, Some(&blog), Some(&edit)) && !of_both.applies(&alert, Some(&blog), None));
}

#[test]
fn what_is_for_everything_asked_for_is_known_before_it_is_claimed() {
    let draft: TypeName = "draft_ready".parse().unwrap();
    let alert: TypeName = "alert".parse().unwrap();
    let gates = Gates { gates: vec![gate(Some("draft_ready"), None, None)], trusted: false };
    assert_eq!(gates.of_all(std::slice::from_ref(&draft)).len(), 1);
    assert!(gates.of_all(&[]).is_empty() && gates.of_all(&[draft.clone(), alert]).is_empty());
    let step = Gates { gates: vec![gate(Some("draft_ready"), Some("blog"), None)], trusted: false };
    assert!(step.of_all(&[draft]).is_empty());
}

#[test]
fn only_commands_of_the_versioned_file_need_trust() {
    let checks = gate(None, None, None);
    let program = Some(Program::Words(vec!["true".to_owned()]));
    let ours = Gate { program: program.clone(), ..checks.clone() };
    let theirs = Gate { program, source: Source::Office, ..checks.clone() };
    let files = Gate { source: Source::Office, ..checks };
    let mut gates = Gates { gates: vec![ours, theirs.clone(), files], trusted: false };
    let all: Vec<&Gate> = gates.gates.iter().collect();
    assert_eq!(gates.untrusted(&all), [&theirs]);
    gates.trusted = true;
    let all: Vec<&Gate> = gates.gates.iter().collect();
    assert!(gates.untrusted(&all).is_empty());
}
