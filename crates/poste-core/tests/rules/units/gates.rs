//! Gates: which messages they apply to, and which may run commands.

use poste_core::gates::{CheckReport, Gate, GateReport, Gates, Program, Report, Source};
use poste_core::text::{Label, TypeName};
use poste_core::{MessageNo, Position, limits, secrets};

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
    let gates = Gates { gates: vec![gate(Some("draft_ready"), None, None)], trusted: Vec::new() };
    assert_eq!(gates.of_all(std::slice::from_ref(&draft)).len(), 1);
    assert!(gates.of_all(&[]).is_empty() && gates.of_all(&[draft.clone(), alert]).is_empty());
    let step = Gates { gates: vec![gate(Some("draft_ready"), Some("blog"), None)], trusted: Vec::new() };
    assert!(step.of_all(&[draft]).is_empty());
}

#[test]
fn only_commands_need_trust_and_each_file_its_own() {
    let checks = gate(None, None, None);
    let program = Some(Program::Words(vec!["true".to_owned()]));
    let ours = Gate { program: program.clone(), ..checks.clone() };
    let theirs = Gate { program, source: Source::Office, ..checks.clone() };
    let files = Gate { source: Source::Office, ..checks };
    let mut gates = Gates { gates: vec![ours.clone(), theirs.clone(), files], trusted: Vec::new() };
    let all: Vec<&Gate> = gates.gates.iter().collect();
    assert_eq!(gates.untrusted(&all), [&ours, &theirs]);
    gates.trusted = vec![Source::Office];
    let all: Vec<&Gate> = gates.gates.iter().collect();
    assert_eq!(gates.untrusted(&all), [&ours]);
    gates.trusted.push(Source::Machine);
    let all: Vec<&Gate> = gates.gates.iter().collect();
    assert!(gates.untrusted(&all).is_empty());
}

fn report(output: &str) -> Report {
    let check = |check, artifact: Option<&str>, reason: Option<&str>| CheckReport {
        check,
        artifact: artifact.map(str::to_owned),
        passed: reason.is_none(),
        reason: reason.map(str::to_owned),
        output: reason.map(|_| output.to_owned()),
        duration_ms: None,
    };
    let gate = |name: &str, passed, checks| GateReport { name: name.parse().unwrap(), passed, checks };
    let command = check("command", None, Some("it ended with 1"));
    let gates = vec![
        gate("draft", true, vec![check("exists", Some("a.md"), None)]),
        gate("quality", false, vec![command.clone(), CheckReport { reason: None, ..command }]),
    ];
    Report::new(MessageNo(7), gates)
}

#[test]
fn one_failed_check_fails_its_gate_and_the_message() {
    let report = report("no headline\n");
    assert!(!report.passed && report.gates[0].passed && !report.gates[1].passed);
    assert_eq!(report.summary(), "quality: command: it ended with 1 (\"no headline\")");
    let result = report.result(Position(40));
    assert_eq!((result.message, result.token, result.passed), (MessageNo(7), Position(40), false));
    assert_eq!(result.gates.iter().map(|gate| gate.passed).collect::<Vec<_>>(), [true, false]);
    let text = report.text();
    assert!(text.contains("passed draft\n  ok     exists of a.md\nfailed quality\n"), "{text}");
    assert!(text.contains("    | no headline\n"), "{text}");
}

#[test]
fn output_is_bounded_and_never_carries_a_secret() {
    let content = report(&"x".repeat(40_000)).content();
    assert!(content.body.0.len() < 60_000);
    assert!(content.body.text().contains("output omitted: too long"));
    let secret = report("token=ghp_0123456789abcdefghijABCDEFGHIJ012345\n").content();
    assert!(secrets::find(&secret).is_empty());
    assert!(secret.body.text().contains("it may contain a secret"));
    assert!(secret.body.text().contains("it ended with 1"), "the reason is kept");
}
