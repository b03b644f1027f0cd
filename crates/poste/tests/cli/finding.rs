//! Which office a command finds from which folder.

use crate::assert_transcript;
use crate::common::{Desk, git};

#[test]
fn an_office_is_found_from_every_folder_below_it_and_not_from_beside_it() {
    let mut desk = Desk::with(&["lead"]);
    desk.cd("project/src/deep/down");
    desk.play("poste whoami --as lead");
    desk.cd("elsewhere");
    desk.play("poste whoami --as lead");
    assert_transcript!(desk);
}

#[test]
fn the_nearest_office_wins_and_poste_home_and_then_office_win_over_it() {
    let mut desk = Desk::with(&["outer"]);
    desk.cd("project/inner");
    desk.play(
        "
        poste init
        poste register inner
        poste agents
        POSTE_HOME=../.poste poste agents
        POSTE_HOME=../.poste poste agents --office .poste
        poste agents --office ../.poste
        ",
    );
    desk.cd("elsewhere/kept");
    desk.cd("elsewhere/other");
    desk.cd("elsewhere");
    desk.play(
        "
        # an office made where it was told to be made
        POSTE_HOME=kept/here poste init
        poste init --in other
        POSTE_HOME=kept/here poste register lead
        POSTE_HOME=kept/here poste agents
        poste agents
        poste agents --office other/.poste
        poste agents --office other
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn every_worktree_of_a_repository_shares_the_office_of_the_main_one() {
    let mut desk = Desk::new();
    let main = desk.path("");
    let linked = desk.root().join("linked");
    git(&desk, &main, &["init", "--quiet", "--initial-branch=main"]);
    desk.file("README.md", "a project\n");
    git(&desk, &main, &["add", "README.md"]);
    git(&desk, &main, &["commit", "--quiet", "--message=first"]);
    git(&desk, &main, &["worktree", "add", "--quiet", linked.to_str().unwrap(), "-b", "feature"]);
    desk.cd("linked/src");
    desk.play("poste init");
    desk.cd("project/docs");
    desk.play("poste init");
    desk.play("poste register lead");
    desk.cd("linked/src");
    desk.play(
        "
        poste whoami --as lead
        # a file of the linked worktree is this worktree's file
        poste register coder
        ",
    );
    desk.file("new.rs", "fn main() {}\n");
    desk.play(
        "
        poste send lead 'See new.rs' --artifact new.rs --as coder
        poste read 1 --json
        ",
    );
    assert_transcript!(desk);
    // Git ignores the office.
    let status = std::process::Command::new("git")
        .args(["status", "--porcelain"])
        .current_dir(&main)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .expect("git runs");
    assert_eq!(String::from_utf8_lossy(&status.stdout), "");
}

#[test]
fn an_office_made_in_a_subfolder_of_a_repository_goes_to_its_top() {
    let mut desk = Desk::new();
    let main = desk.path("");
    git(&desk, &main, &["init", "--quiet"]);
    desk.cd("project/src");
    let made = desk.ask("poste init --json").ok();
    assert_eq!(made.json()["office"].as_str(), main.join(".poste").to_str());
    assert_eq!(made.json()["made"], true);
    assert_eq!(desk.ask("poste init --json").ok().json()["made"], false);
}

#[test]
fn making_an_office_in_a_folder_that_is_not_there_is_no_internal_error() {
    let mut desk = Desk::new();
    let refused = desk.ask("poste init --in missing/folder");
    assert_ne!(refused.code, 1, "{}", refused.err());
}

#[test]
fn a_project_is_no_folder_for_an_office() {
    let mut desk = Desk::new();
    std::fs::write(desk.path(".gitignore"), "target\n").unwrap();
    desk.play(
        "
        poste --office . init
        poste --office mail init
        poste --office mail register lead
        ",
    );
    assert_eq!(std::fs::read_to_string(desk.path(".gitignore")).unwrap(), "target\n");
    assert_transcript!(desk);
}
