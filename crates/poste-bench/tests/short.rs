//! The short form runs every measurement. It asserts no times: a test machine is no benchmark.

use std::process::Command;

#[test]
fn the_short_form_measures_everything_and_writes_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let ran = Command::new(env!("CARGO_BIN_EXE_poste-bench"))
        .args(["--short", "--poste", env!("CARGO_BIN_EXE_poste-measured")])
        .arg("--cache")
        .arg(folder.path().join("cache"))
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let mut extensions: Vec<String> = std::fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().path().extension().unwrap().to_string_lossy().into_owned())
        .collect();
    extensions.sort_unstable();
    assert_eq!(extensions, ["json", "md", "svg"]);
    let json = std::fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().unwrap() == "json");
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(json.unwrap()).unwrap()).unwrap();
    let groups: std::collections::BTreeSet<&str> =
        report["lines"].as_array().unwrap().iter().map(|line| line["group"].as_str().unwrap()).collect();
    for group in [
        "Sending",
        "The whole program",
        "Many at once",
        "Waking",
        "Waiting",
        "Broadcast",
        "Reservations",
        "Handoffs",
        "Shared contexts",
        "The whole log",
        "Memory",
    ] {
        assert!(groups.contains(group), "{group} is missing from {groups:?}");
    }
}
