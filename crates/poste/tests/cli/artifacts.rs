//! Artifacts: files that messages refer to.

use std::os::unix::fs::symlink;

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn an_artifact_must_be_a_file_of_the_worktree_with_something_in_it() {
    let mut desk = Desk::staffed();
    desk.file("src/login.rs", "fn login() {}\n");
    desk.file("empty.txt", "");
    std::fs::write(desk.root().join("secret.txt"), "secret").unwrap();
    symlink(desk.root().join("secret.txt"), desk.path("leaf")).unwrap();
    symlink(desk.root(), desk.path("out")).unwrap();
    symlink("src/login.rs", desk.path("inside")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        desk.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    desk.play(
        "
        poste send lead 'Here it is' --artifact src/login.rs --as coder
        poste send lead 'A link that stays inside' --artifact inside --as coder
        poste send lead 'Missing' --artifact missing.txt --as coder
        poste send lead 'Empty' --artifact empty.txt --as coder
        poste send lead 'A folder' --artifact src --as coder
        poste send lead 'Outside' --artifact ../secret.txt --as coder
        poste send lead 'Outside' --artifact /etc/passwd --as coder
        poste send lead 'A link out' --artifact leaf --as coder
        poste send lead 'Through a link out' --artifact out/secret.txt --as coder
        poste send lead 'A pipe' --artifact pipe --as coder
        poste send lead 'Attach a link out' --attach leaf --as coder
        poste send lead 'It will come' --artifact-later missing.txt --artifact-later empty.txt --as coder
        poste send lead 'It will come outside' --artifact-later ../later.txt --as coder
        poste done 1 --file src/login.rs --as lead
        # only three were stored
        poste inbox --all --as lead
        poste read 3 --as lead
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_file_of_a_result_must_be_there_too() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' --type directive --as lead");
    let refused = desk.peek("poste done 1 --file missing.txt --as coder").exits(4);
    assert!(refused.err().starts_with("error: missing.txt: there is no such file\n"), "{}", refused.err());
    assert_eq!(desk.peek("poste track 1 --json").json()["deliveries"][0]["state"], "pending");
}

#[test]
fn a_hint_names_only_what_the_command_has() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' --type directive --as lead");
    let refused = desk.peek("poste done 1 --file missing.txt --as coder").exits(4);
    assert!(!refused.err().contains("--artifact-later"), "{}", refused.err());
}

#[test]
fn an_attached_file_is_copied_into_the_office_and_outlives_the_original() {
    let mut desk = Desk::staffed();
    let log = desk.file("run.log", "all tests pass\n".repeat(1_000));
    desk.play("poste send lead 'The log' --attach run.log --as coder --json");
    std::fs::remove_file(&log).unwrap();
    let artifact = desk.peek("poste read 1 --json").json()["artifacts"][0].clone();
    assert_eq!(artifact["state"], "attached");
    assert_eq!(artifact["size"], 15_000);
    let digest = artifact["digest"].as_str().unwrap();
    let mut folders = vec![desk.path(".poste/blobs")];
    let mut copies = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the office keeps blobs").flatten() {
            if entry.path().is_dir() { folders.push(entry.path()) } else { copies.push(entry.path()) }
        }
    }
    let [copy] = copies.as_slice() else { panic!("expected one blob, found {copies:?}") };
    assert_eq!(std::fs::read(copy).unwrap(), "all tests pass\n".repeat(1_000).as_bytes());
    let name = copy.strip_prefix(desk.path(".poste/blobs")).unwrap().to_string_lossy().replace('/', "");
    assert!(name.contains(&digest[4..]), "{name} is not named after {digest}");
}

#[test]
fn artifacts_are_looked_for_where_the_command_runs_whatever_was_registered() {
    let mut desk = Desk::staffed();
    desk.cd("builder-tree/src");
    desk.file("new.rs", "fn new() {}\n");
    desk.cd("project");
    desk.file("old.rs", "fn old() {}\n");
    let tree = desk.root().join("builder-tree");
    let tree = tree.to_str().unwrap().to_owned();
    desk.play(&format!(
        "
        poste register builder --worktree {tree}
        poste register builder --worktree {tree}
        poste register other --worktree {tree}/missing
        poste register other --worktree old.rs
        poste agents
        poste send lead 'In the worktree' --artifact {tree}/src/new.rs --as builder
        poste send lead 'Beside it' --artifact old.rs --as builder
        poste read 1 --as lead
        "
    ));
    desk.cd("builder-tree/src");
    desk.play("poste send lead 'From inside' --artifact new.rs --as builder --office ../../project/.poste");
    assert_transcript!(desk);
}

#[test]
fn an_attached_copy_that_is_gone_or_damaged_is_found() {
    let mut desk = Desk::staffed();
    desk.file("plan.md", "# Plan\n");
    desk.quietly("poste send coder Plan --attach plan.md --as lead");
    let blobs = desk.path(".poste/blobs");
    let blob = std::fs::read_dir(&blobs).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&blob, "tampered").unwrap();
    let damaged = desk.peek("poste log verify");
    assert!(damaged.out().contains("the attached copy of plan.md is damaged"), "{}", damaged.out());
    std::fs::remove_file(&blob).unwrap();
    let missing = desk.peek("poste log verify");
    assert!(missing.out().contains("the attached copy of plan.md is missing"), "{}", missing.out());
}
