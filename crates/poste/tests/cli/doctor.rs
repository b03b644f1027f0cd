//! `poste doctor`: its findings, fixes and exit codes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::assert_transcript;
use crate::common::Desk;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_office_is_examined_mended_and_examined_again() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste doctor
        poste doctor --quick
        ",
    );
    desk.note("somebody opens the folder to everybody, and deletes the bell");
    set_mode(&desk.path(".poste"), 0o755);
    std::fs::remove_file(desk.path(".poste/bell")).unwrap();
    desk.play(
        "
        poste doctor
        poste doctor --json
        poste doctor --fix
        poste doctor
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn agents_that_do_not_answer_and_claims_that_do_not_end_are_told() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' --type directive --as lead");
    desk.quietly("poste send role:reviewer 'Look at it' --type directive --as lead");
    desk.quietly("poste claim 2 --lease 5m --as reviewer");
    desk.later("90m");
    desk.play(
        "
        poste doctor
        poste doctor --silent-after 2h
        poste doctor --fix --silent-after 2h
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_broken_office_is_explained_and_not_touched() {
    let mut desk = Desk::staffed();
    desk.file("poste.toml", "[delivry]\n");
    desk.play("poste doctor");
    std::fs::remove_file(desk.path("poste.toml")).unwrap();
    desk.set_clock_ahead("3d");
    desk.play("poste doctor");
    desk.set_clock_back("3d");
    desk.note("the database is cut off, and what belongs to it is gone");
    for name in ["office.db-wal", "office.db-shm"] {
        std::fs::remove_file(desk.path(".poste").join(name)).unwrap();
    }
    desk.file(".poste/office.db", "");
    desk.play(
        "
        poste doctor
        poste doctor --fix
        ",
    );
    desk.file(".poste/office.db", "this is no database, whatever its name says".repeat(200));
    desk.play("poste doctor");
    desk.cd("elsewhere");
    desk.play("poste doctor");
    desk.file(".poste", "");
    desk.play("poste doctor");
    assert_transcript!(desk);
}
