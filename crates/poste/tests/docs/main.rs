//! Runs every `console` block of the documentation and checks that the answers are as shown.
//!
//! The blocks of a page run in order, in one shell, in an empty folder. A line `$ …` is typed, `> …` continues it, and
//! the rest is the answer; `…` alone on a line stands for any number of lines. Times, ids and digests may differ, see
//! `compare.rs`. `POSTE_BLESS=1 cargo test -p poste --test docs` updates the pages with the program's current answers.

mod compare;
mod page;
mod shell;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use page::Page;
use shell::Shell;

/// One test for each page; `saves` names the file that the page's only `bash` block is saved as.
macro_rules! pages {
    ($($name:ident: $path:literal $(saves $script:literal)?,)*) => {
        const PAGES: &[&str] = &[$($path),*];
        $(
            #[test]
            fn $name() {
                check($path, None$(.or(Some($script)))?);
            }
        )*
    };
}

pages! {
    readme: "README.md",
    start: "docs/README.md",
    addresses: "docs/addresses.md",
    agents: "docs/agents.md",
    approvals: "docs/approvals.md",
    agreements: "docs/agreements.md",
    archive: "docs/archive.md",
    artifacts: "docs/artifacts.md",
    backup: "docs/backup.md",
    claims: "docs/claims.md" saves "worker.sh",
    configuration: "docs/configuration.md",
    contexts: "docs/contexts.md",
    conversations: "docs/conversations.md",
    dead_letters: "docs/dead-letters.md",
    deadlines: "docs/deadlines.md",
    deliveries: "docs/deliveries.md",
    doctor: "docs/doctor.md",
    for_models: "docs/for-models.md",
    from_files: "docs/guides/from-files.md",
    gates: "docs/gates.md",
    handlers: "docs/handlers.md",
    ingest: "docs/ingest.md",
    handoffs: "docs/handoffs.md",
    hooks: "docs/hooks.md",
    log: "docs/log.md",
    mcp: "docs/mcp.md",
    messages: "docs/messages.md",
    offices: "docs/offices.md",
    dispatch: "docs/dispatch.md",
    guard: "docs/guard.md",
    reservations: "docs/reservations.md",
    reports: "docs/reports.md",
    runners: "docs/runners.md",
    search: "docs/search.md",
    sessions: "docs/sessions.md",
    teams: "docs/teams.md",
    status: "docs/status.md",
    topics: "docs/topics.md",
    types: "docs/types.md",
    waiting: "docs/waiting.md" saves "listen.sh",
    wake: "docs/wake.md",
    workflows: "docs/workflows.md",
}

#[test]
fn every_page_with_a_transcript_has_a_test() {
    let mut found = BTreeSet::from(["README.md".to_owned()]);
    for folder in ["docs", "docs/guides"] {
        for entry in std::fs::read_dir(root().join(folder)).expect("the folder is there") {
            let name = entry.expect("an entry").file_name().into_string().expect("a name in UTF-8");
            let path = format!("{folder}/{name}");
            if name.ends_with(".md") && Page::read(&root().join(&path)).has_transcripts() {
                found.insert(path);
            }
        }
    }
    let tested = PAGES.iter().map(|&path| path.to_owned()).collect();
    assert_eq!(found, tested, "left: pages with a console block; right: those named in pages! of tests/docs/main.rs");
}

/// External programs that the pages use. `cargo xtask test` installs them; a page that lacks one fails.
const TOOLS: [&str; 3] = ["git", "jq", "pkill"];

/// Commands that cannot run here: `cargo` would build and install the program under test. They are skipped, and their
/// answers stay as they are.
fn cannot_run(command: &str) -> bool {
    command.starts_with("cargo ")
}

fn check(path: &str, script: Option<&str>) {
    let file = root().join(path);
    let mut page = Page::read(&file);
    assert!(page.has_transcripts(), "{path} has no console block");
    let missing = TOOLS.into_iter().find(|tool| page.uses(tool) && !shell::finds(tool));
    assert_eq!(missing, None, "{path} needs a program that is not installed");

    let mut shell = Shell::start();
    match (script, page.scripts().as_slice()) {
        (Some(name), [script]) => std::fs::write(shell.folder().join(name), script).expect("the script is saved"),
        (None, []) => {}
        (name, scripts) => panic!("{path} has {} bash blocks, to be saved as {name:?}", scripts.len()),
    }

    let bless = std::env::var_os("POSTE_BLESS").is_some_and(|value| value == "1");
    let mut differences = String::new();
    for step in page.steps_mut() {
        if cannot_run(&step.command) {
            continue;
        }
        let answer = shell.run(&step.command).unwrap_or_else(|why| panic!("{path}:{}: {why}", step.line));
        if compare::same(&step.answer, &answer) {
            continue;
        }
        // A person chose what `…` leaves out, so a person has to update it.
        if bless && !step.answer.iter().any(|line| compare::is_gap(line)) {
            step.answer = answer;
        } else {
            let diff = compare::diff(&step.answer, &answer);
            differences += &format!("\n{path}:{}: $ {}\n{diff}", step.line, step.command.replace('\n', "\n> "));
        }
    }
    if bless {
        page.write(&file);
    }
    assert!(
        differences.is_empty(),
        "the page (-) and the program (+) differ; if the program is right: POSTE_BLESS=1 cargo test -p poste --test docs\n\
         {differences}"
    );
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
