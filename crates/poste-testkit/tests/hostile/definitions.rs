//! Workflow definitions come with a repository too: YAML that expands, is deep or odd, or is no workflow at all.

use crate::desk::{Desk, write_file};

/// Nine lists, each nine times as long as the one before.
fn laughs() -> String {
    let mut text = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for pair in ('a'..='j').collect::<Vec<_>>().windows(2) {
        let before = vec![format!("*{}", pair[0]); 9].join(", ");
        text.push_str(&format!("{0}: &{0} [{before}]\n", pair[1]));
    }
    text
}

#[test]
fn a_wrong_definition_is_a_usage_error_and_nothing_is_started() {
    let desk = Desk::new();
    std::fs::create_dir_all(desk.path(".poste/workflows")).unwrap();
    let file = desk.path(".poste/workflows/odd.yaml");
    let started = std::time::Instant::now();
    for text in [
        laughs(),
        "title: &t [*t]\nstep: []\n".to_owned(),
        format!("step: {}", "[".repeat(20_000)),
        format!("step: {}", "{a: ".repeat(20_000)),
        (0..600).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect(),
        "title: a\ntitle: b\nstep: []\n".to_owned(),
        "title: !!python/object/apply:os.system ['true']\nstep: []\n".to_owned(),
        "title: a\n---\ntitle: b\n".to_owned(),
        "title: a\0b\nstep: []\n".to_owned(),
        format!("title: {}\nstep: []\n", "x".repeat(400_000)),
        (0..20_000).map(|number| format!("k{number}: 1\n")).collect(),
        "step:\n\t- key: a\n".to_owned(),
        String::new(),
        "just words".to_owned(),
        "step: [{key: \"a\\e]0;x\", agent: coder, request: x}]\n".to_owned(),
        format!(
            "step:\n{}",
            (0..3_000).map(|n| format!("  - {{key: s{n}, agent: coder, request: x}}\n")).collect::<String>()
        ),
    ] {
        write_file(&file, text.as_bytes());
        let words = ["workflow", "run", "odd", "--as", "lead"];
        let ran = desk.refuses_input(2, &words, &mut std::io::empty(), Some(256 * 1024));
        assert!(ran.err.contains("odd.yaml") && ran.err.len() < 2_000, "{:.300} for {text:.100}", ran.err);
    }
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}
