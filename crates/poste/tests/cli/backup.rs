//! `poste snapshot` and `poste restore`.

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn an_office_is_copied_and_made_again_from_the_copy() {
    let mut desk = Desk::staffed();
    desk.file("plan.md", "# Plan\n");
    desk.play(
        "
        poste send coder 'Follow the plan' --type directive --attach plan.md --as lead
        poste snapshot ../monday
        poste snapshot ../monday
        poste snapshot .poste/monday
        poste snapshot ../missing/monday
        # work goes on
        poste done 1 --as coder
        # an office that is there is not replaced by accident
        poste restore ../monday
        poste restore ../monday --replace
        poste track 1
        poste log verify
        poste doctor
        # the copy goes elsewhere, too
        ",
    );
    desk.cd("elsewhere");
    desk.play(
        "
        poste restore ../monday
        poste inbox --as coder
        poste restore ../nothing
        poste restore ../monday --in missing
        ",
    );
    desk.note("a file of the copy is changed");
    let database = desk.root().join("monday/office.db");
    let mut bytes = std::fs::read(&database).unwrap();
    bytes[5_000] ^= 1;
    std::fs::write(&database, bytes).unwrap();
    desk.play("poste restore ../monday --replace");
    assert_transcript!(desk);
}

#[test]
fn an_office_whose_database_was_emptied_is_not_begun_anew_and_can_be_restored() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send coder 'Fix the login' --as lead
        poste snapshot ../monday
        # somebody empties the database
        ",
    );
    desk.file(".poste/office.db", "");
    desk.play(
        "
        poste init
        poste inbox --as coder
        poste restore ../monday --replace
        poste inbox --as coder
        ",
    );
    assert_transcript!(desk);
}
