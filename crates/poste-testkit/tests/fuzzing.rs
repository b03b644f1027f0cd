//! A short, seeded run of every fuzz target: none finds a fault, and each reaches many different outcomes. `poste-fuzz`
//! does the long run.

use poste_testkit::fuzz::{TARGETS, engine};

/// The number of inputs for each target, and the least number of different outcomes. The latter reveals a target that
/// has become useless, because every input is refused at the first byte.
const SHORT: &[(&str, u64, usize)] = &[
    ("record", 2_000, 80),
    ("content", 2_000, 25),
    ("fold", 150, 60),
    ("words", 1_000, 12),
    ("times", 1_000, 4),
    ("config", 600, 30),
    ("archive", 600, 70),
    ("batch", 1_500, 30),
    ("search", 300, 5),
    ("schema", 300, 12),
    ("arguments", 300, 25),
    ("escape", 2_000, 15),
    ("fence", 500, 30),
];

#[test]
fn every_target_holds() {
    let names: Vec<&str> = SHORT.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, TARGETS.iter().map(|target| target.name).collect::<Vec<_>>());
    for (target, (name, inputs, ends_min)) in TARGETS.iter().zip(SHORT) {
        let report = engine::run(target, 1, |done, _| done < *inputs);
        if let Some(finding) = report.findings.first() {
            panic!("{name}: {}: {:?}", finding.why, String::from_utf8_lossy(&finding.input));
        }
        let ends = report.outcomes.len();
        assert!(ends >= *ends_min, "{name} is too uniform: {inputs} inputs had only {ends} outcomes");
    }
}
