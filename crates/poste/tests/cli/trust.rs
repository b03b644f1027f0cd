//! `poste trust`: commands of a poste.toml do not run until a person on this machine trusts it.

use std::os::unix::fs::PermissionsExt;

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn a_file_is_trusted_as_it_is_and_not_after_a_change() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste trust
        poste trust --yes --as anna
        ",
    );
    desk.file("poste.toml", "[delivery]\nlease = '20m'\n");
    desk.play(
        "
        poste trust
        poste trust --yes
        poste trust --yes --as nobody
        poste trust --yes --as anna
        poste trust
        ",
    );
    desk.later("1h");
    desk.note("one more comment");
    desk.file("poste.toml", "[delivery]\nlease = '20m'\n# hello\n");
    desk.play("poste trust");
    let shown = desk.peek("poste trust --json").json();
    assert_eq!((&shown["state"], &shown["by"], &shown["trusted"]), (&"changed".into(), &"anna".into(), &false.into()));
    desk.play(
        "
        poste trust --yes --as anna
        poste trust --revoke
        poste trust --revoke
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn trust_stays_on_this_machine_in_this_place_and_in_a_file_nobody_else_can_write() {
    let mut desk = Desk::staffed();
    desk.file("poste.toml", "[delivery]\nlease = '20m'\n");
    desk.quietly("poste trust --yes --as anna");
    let mark = desk.path(".poste/trust.json");
    assert_eq!(std::fs::metadata(&mark).unwrap().permissions().mode() & 0o777, 0o600);
    let state = |desk: &mut Desk| desk.peek("poste trust --json").json()["state"].as_str().unwrap().to_owned();
    assert_eq!(state(&mut desk), "trusted");

    // A copy of the folder is not trusted.
    let elsewhere = desk.root().join("elsewhere");
    let copied = std::process::Command::new("cp").arg("-a").arg(desk.path(".")).arg(&elsewhere).status().unwrap();
    assert!(copied.success());
    desk.cd("elsewhere");
    assert_eq!(state(&mut desk), "never");
    desk.cd("project");

    // Trust is neither in the log nor in the digest of the tables.
    let verified = desk.peek("poste log verify").ok();
    assert!(verified.out().contains("tables equal the folded log"));
    assert!(!desk.peek("poste log show").ok().out().contains("trust"));

    std::fs::set_permissions(&mark, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(desk.peek("poste trust").exits(2).err().contains("not a file that only you can write"));
    std::fs::set_permissions(&mark, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&mark, "{}").unwrap();
    assert!(desk.peek("poste trust").exits(2).err().contains("trust the file again"));
    desk.quietly("poste trust --revoke");
    assert_eq!(state(&mut desk), "never");
}

/// The exit code when a person at a terminal gives this answer.
fn answered(desk: &mut Desk, answer: &str) -> i32 {
    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::os::unix::ffi::OsStrExt;
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("a terminal");
    let name = ptsname(&ours, Vec::new()).expect("its name");
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
    let theirs = rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("its other end");
    rustix::io::write(&ours, answer.as_bytes()).expect("the answer is typed");
    let mut command = desk.command(&["trust", "--as", "anna"]);
    command.stdin(theirs.try_clone().expect("a copy")).stderr(theirs);
    command.output().expect("it runs").status.code().expect("an exit code")
}

#[test]
fn at_a_terminal_a_person_is_asked() {
    let mut desk = Desk::staffed();
    desk.file("poste.toml", "[delivery]\nlease = '20m'\n");
    let trusted = |desk: &mut Desk| desk.peek("poste trust --json").json()["trusted"].clone();
    for no in ["\n", "n\n", "yesterday\n"] {
        assert_eq!(answered(&mut desk, no), 4, "{no:?}");
        assert_eq!(trusted(&mut desk), false, "{no:?}");
    }
    assert_eq!(answered(&mut desk, "Yes\n"), 0);
    assert_eq!(trusted(&mut desk), true);
}
