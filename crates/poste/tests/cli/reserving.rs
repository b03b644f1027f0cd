//! Reservations: overlaps, asking the holder, and how they end.

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn what_overlaps_is_refused_and_the_holder_is_named() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste reservations
        poste reserve 'src/auth/**' --for 1h --why 'the new login' --as coder
        poste reserve 'docs/**' --shared --as coder
        poste reserve 'src/*/login.rs' --as reviewer
        poste reserve 'src/*/login.rs' --as reviewer --json
        poste reserve docs/guide.md --shared --for 30m --as reviewer
        poste reserve docs/guide.md --as lead
        poste reserve src --as lead
        poste reservations
        poste reservations --json
        poste reservations --mine --as reviewer
        poste reservations --path src/auth/login.rs
        poste reservations --path src/api
        ",
    );
    desk.later("45m");
    desk.play(
        "
        # the reviewer's share is over, the coder's are not
        poste reservations
        poste reservations --all
        poste log why --reservation 3
        poste log why --reservation 9
        poste extend 'src/auth/**' --for 2h --as coder
        poste release 'docs/**' --as coder
        poste release 'docs/**' --as coder
        poste release all --as coder --json
        poste extend all --as coder
        poste reserve src --as lead
        poste log show --after 7
        poste tail --after 5 --for 1ms
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn the_holder_is_asked_once() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste reserve 'src/**' --why 'a refactoring' --as coder
        poste reserve src/api.rs --ask --why 'a fix' --as reviewer
        poste reserve src/api.rs --ask --why 'a fix' --as reviewer
        poste inbox --as coder
        poste read 1 --as coder
        poste reply 1 'In ten minutes.' --as coder
        poste release 'src/**' --as coder
        poste reserve src/api.rs --ask --as reviewer
        poste status
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_number_is_a_message_and_anything_else_a_path() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send coder 'Fix it' --type directive --as lead
        poste claim 1 --as coder
        poste reserve ./1 12 all --as coder
        poste reservations
        poste extend 1 --lease 30m --as coder
        poste extend ./1 --for 2h --as coder
        poste release 1 --as coder
        poste release ./1 --as coder
        poste release 12 --as coder
        poste release 12 docs --as coder
        poste release ./all ./12 --as coder
        poste release 1 --of coder --reason x --as anna
        poste extend 1 --for 1h --as coder
        poste extend ./x --lease 1h --as coder
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn paths_count_from_the_top_and_may_not_leave_it() {
    let mut desk = Desk::staffed();
    std::fs::create_dir_all(desk.path("app/[id]")).unwrap();
    desk.file("app/[id]/page.tsx", "x");
    desk.cd("project/app");
    desk.play(
        "
        poste reserve '*.rs' ../docs/ ./x//y --as coder
        poste reserve '[id]' --as coder
        poste reserve --literal '[id]/page.tsx' --as coder
        poste reservations --path '[id]/page.tsx'
        poste reserve ../../elsewhere --as coder
        poste reserve /etc/passwd --as coder
        poste reserve 'a/[b' --as coder
        poste reserve '' --as coder
        poste reserve --as coder -- -x
        poste release --as coder -- -x
        poste reserve x --for 8d --as coder
        poste reserve x --why ' ' --as coder
        poste reserve x --as nobody
        poste reserve x
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn somebody_who_is_gone_keeps_nobody_waiting() {
    let mut desk = Desk::with(&["lead", "coder --lead lead", "reviewer", "anna --kind human"]);
    desk.play(
        "
        poste reserve src docs --as coder
        poste release src --of coder --as lead
        poste release src --of coder --reason 'mine now' --as reviewer
        poste release src --of coder --reason 'it hangs' --as lead
        poste inbox --as coder
        poste read 1 --as coder
        poste release all --of coder --reason 'it hangs' --as anna --json
        poste release all --of codr --reason 'it hangs' --as anna
        poste reserve src --id mine --as coder
        poste reserve src --id mine --as coder
        poste retire coder --as anna
        poste reserve src --as reviewer
        poste reserve src --id mine --as coder
        poste reservations --all
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn reasons_are_data_and_can_be_taken_back() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste reserve src --why 'token ghp_abcdefghijklmnopqrstuvwxyz0123456789' --as coder
        poste reserve src --why 'one line\u{1b}[2J' --as coder
        poste reserve src --as lead
        poste redact --record 6 --reason 'not for everybody' --as coder
        poste reservations
        poste reserve src --as lead
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn paths_of_the_guard_can_be_checked_by_name() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste reserve 'src/auth/**' --why 'the new login' --as coder
        poste guard check src/auth/login.rs README.md --as reviewer
        poste guard check src/auth/login.rs --as reviewer --json
        poste guard check src --as reviewer
        poste guard check src/auth/login.rs --as coder
        poste guard check src/auth/login.rs
        ",
    );
    assert_transcript!(desk);
}
