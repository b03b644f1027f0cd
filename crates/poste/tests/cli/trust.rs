//! `poste trust` and `poste adopt`: commands of files do not run, and offices are not used, before a person has looked.

use std::os::unix::fs::PermissionsExt;

use crate::assert_transcript;
use crate::common::Desk;

const FILE: &str = "[wake]\ncommand = ['notify', '{agent}']\n[agent.coder]\nrun = ['coder', '-p']\n\
                    environment = ['API_KEY']\nprompt = '''\nYou code.\nBe brief.'''\n";

#[test]
fn a_file_is_trusted_as_it_is_and_not_after_a_change() {
    let mut desk = Desk::staffed();
    desk.play("poste trust");
    desk.file("poste.toml", FILE);
    desk.file(".poste/local.toml", "[agent.tester]\nrun = ['tester']\n");
    desk.play(
        "
        POSTE_TEST_PERSON=0 poste trust
        POSTE_TEST_PERSON=0 poste trust --as anna
        poste trust --as anna
        poste trust
        ",
    );
    desk.later("1h");
    desk.file("poste.toml", FILE.replace("coder', '-p", "coder', '--yolo', '-p"));
    desk.play(
        "
        POSTE_TEST_PERSON=0 poste trust
        poste dispatch send coder 'A task' --as lead --wait 1s
        ",
    );
    let shown = desk.peek("POSTE_TEST_PERSON=0 poste trust --json").json()["files"][0].clone();
    assert_eq!((&shown["state"], &shown["by"], &shown["trusted"]), (&"changed".into(), &"anna".into(), &false.into()));
    desk.play(
        "
        poste trust --as anna
        poste trust --list
        poste trust --revoke
        poste trust --revoke
        poste trust --list
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_workflow_speaks_for_a_person_once_they_trust_it() {
    let mut desk = Desk::staffed();
    desk.file("workflows/ship.toml", "[[step]]\nkey = \"do\"\nagent = \"coder\"\nrequest = \"Ship it\"\n");
    desk.play(
        "
        poste workflow run ship --as anna
        poste trust ship --as anna
        poste workflow run ship --as anna
        ",
    );
    desk.file("workflows/ship.toml", "[[step]]\nkey = \"do\"\nagent = \"coder\"\nrequest = \"Sink it\"\n");
    desk.play(
        "
        poste workflow run ship --as anna
        poste workflow run workflows/ship.toml --as anna
        poste workflow run ship --as lead
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn trust_stays_in_this_place_and_out_of_the_log() {
    let mut desk = Desk::staffed();
    desk.file("poste.toml", FILE);
    desk.trust();
    let state = |desk: &mut Desk| {
        desk.peek("POSTE_TEST_PERSON=0 poste trust --json").json()["files"][0]["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(state(&mut desk), "trusted");
    assert!(!desk.peek("poste log show").ok().out().contains("trust"));

    // A copy of the folder is neither adopted nor trusted.
    let elsewhere = desk.root().join("elsewhere");
    let copied = std::process::Command::new("cp").arg("-a").arg(desk.path(".")).arg(&elsewhere).status().unwrap();
    assert!(copied.success());
    desk.cd("elsewhere");
    let _ = desk.peek("poste trust").exits(14);
    desk.quietly("poste adopt");
    assert_eq!(state(&mut desk), "never");
    desk.cd("project");
    assert_eq!(state(&mut desk), "trusted");

    // A project that is renamed stays what it was.
    std::fs::rename(desk.root().join("project"), desk.root().join("renamed")).unwrap();
    desk.cd("renamed");
    assert_eq!(state(&mut desk), "trusted");
    assert_eq!(state(&mut desk), "trusted");
}

#[test]
fn a_copied_office_is_looked_at_and_adopted_by_a_person() {
    let mut desk = Desk::staffed();
    desk.file("poste.toml", FILE);
    desk.quietly("poste send anna Hello --as lead");
    let copied = std::process::Command::new("cp").arg("-a").arg(desk.path(".")).arg(desk.root().join("copy")).status();
    assert!(copied.unwrap().success());
    desk.cd("copy");
    desk.play(
        "
        POSTE_TEST_PERSON=0 poste inbox --as anna
        poste send coder Hi --as lead
        poste send coder Hi --as lead --json
        poste inbox --as anna
        poste read 1 --as anna
        poste send coder Hi --as anna
        ",
    );
    // The office's id differs each time.
    let shown = desk.peek("POSTE_TEST_PERSON=0 poste adopt").ok();
    let lines: Vec<&str> = shown.out().lines().skip(2).collect();
    desk.note(&lines.join("\n# "));
    assert!(shown.err().contains("only a person"), "{}", shown.err());
    desk.quietly("poste adopt");
    desk.play(
        "
        poste inbox --as anna
        poste init
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn an_office_is_not_made_if_it_could_not_be_adopted() {
    let mut desk = Desk::new();
    let state = desk.root().join("state");
    std::fs::create_dir(&state).unwrap();
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(state.join("poste"), "in the way").unwrap();
    let mut command = desk.command(&["init"]);
    let output = command.env("XDG_STATE_HOME", &state).output().unwrap();
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!desk.path(".poste").exists());
}

#[test]
fn where_nothing_was_ever_adopted_the_id_is_enough() {
    let mut desk = Desk::staffed();
    let state = desk.root().join("state");
    std::fs::create_dir(&state).unwrap();
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut run = |arguments: &[&str]| {
        let output =
            desk.command(arguments).env("POSTE_TEST_PERSON", "0").env("XDG_STATE_HOME", &state).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = run(&["agents"]);
    let id = said.rsplit("poste adopt ").next().unwrap().trim().to_owned();
    assert!(code == 14 && id.len() > 20, "{said}");
    let (code, said) = run(&["adopt", "another"]);
    assert!(code == 4 && said.contains("another one"), "{said}");
    assert_eq!(run(&["adopt", &id]).0, 0);
    assert_eq!(run(&["agents"]).0, 0);
    // From then on there is a store, and so somebody to ask.
    assert_eq!(run(&["init", "--in", state.to_str().unwrap()]).0, 0);
}
