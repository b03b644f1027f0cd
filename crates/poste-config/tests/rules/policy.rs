//! Policy is a record: the rules of `poste.toml` apply from its log position on.

use std::fs;

use poste_core::Error;
use poste_core::fold::Code;
use poste_core::log::{Intent, Policy, Settings};
use poste_core::store::tables::{PolicyRow, State};
use poste_core::vocabulary::Priority;

use crate::common::*;

fn write(desk: &Desk, text: &str) {
    fs::write(desk.config(), text).unwrap();
}

/// Reads the file as a command would; whether that made a record.
fn sync(desk: &mut Desk) -> bool {
    let before = desk.head();
    poste_config::sync_policy(&mut desk.office).expect("the file is taken");
    match desk.kinds_after(before).as_slice() {
        [] => false,
        [one] if one == "policy" => true,
        other => panic!("unexpected records: {other:?}"),
    }
}

fn in_force(desk: &Desk) -> PolicyRow {
    desk.office.store().tables().unwrap().policy().unwrap()
}

/// A policy as another machine's file would propose it.
fn from_elsewhere(replaces: u64, max_attempts: u32) -> Intent {
    Intent::Policy(Policy {
        replaces,
        machine: "elsewhere".parse().unwrap(),
        host: "other-host".to_owned(),
        settings: Settings { max_attempts: Some(max_attempts), ..Settings::default() },
        types: Vec::new(),
    })
}

#[test]
fn without_a_file_nothing_is_proposed() {
    let mut desk = Desk::new();
    assert!(!sync(&mut desk));
    assert_eq!(in_force(&desk).version, 0);
}

#[test]
fn a_file_that_sets_nothing_proposes_nothing() {
    let mut desk = Desk::new();
    write(&desk, "# nothing yet\n[delivery]\n");
    assert!(!sync(&mut desk));
}

#[test]
fn a_type_of_the_file_can_be_used_from_then_on() {
    let mut desk = Desk::with(&["ann", "bob"]);
    refused(desk.post("ann", letter("bob", "deploy")), Code::UnknownType);
    write(&desk, "[types.deploy]\npriority = 'urgent'\nwork = true\n");
    assert!(sync(&mut desk));
    let number = desk.send("ann", "bob", "deploy");
    assert_eq!(desk.message(number).priority, Priority::Urgent);
    accepted(desk.ack("bob", number));
    assert_eq!(desk.state(number), State::Pending, "it asks for work");
}

#[test]
fn an_unchanged_file_proposes_nothing() {
    let mut desk = Desk::new();
    write(&desk, "[delivery]\nmax_attempts = 2\n");
    assert!(sync(&mut desk));
    assert!(!sync(&mut desk));
    write(&desk, "# the same in other words\n[delivery]\nmax_attempts=2\n");
    assert!(!sync(&mut desk));
    write(&desk, "[delivery]\nmax_attempts = 3\n");
    assert!(sync(&mut desk));
    assert_eq!(in_force(&desk).version, 2);
}

#[test]
fn attempts_delay_and_lease_of_the_file_are_honoured() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let earlier = desk.send("ann", "bob", "directive");
    write(
        &desk,
        "[delivery]\nmax_attempts = 2\nretry_delay = '3s'\nlease = '1m'\n[types.question]\nmax_attempts = 1\n",
    );
    assert!(sync(&mut desk));
    let number = desk.send("ann", "bob", "directive");
    accepted(desk.claim("bob", number));
    assert_eq!(desk.delivery(number).lease_until, Some(desk.now().plus_ms(MINUTE)));
    desk.pass(MINUTE);
    assert_eq!(desk.delivery(number).ready_at, Some(desk.now().plus_ms(3 * SECOND)));
    desk.pass(3 * SECOND);
    accepted(desk.claim("bob", number));
    desk.pass(MINUTE);
    assert_eq!(desk.state(number), State::Dead);

    let question = desk.send("ann", "bob", "question");
    accepted(desk.fail_retry("bob", question, None));
    assert_eq!(desk.state(question), State::Dead, "a type may set its own limit");

    desk.fail_until("bob", earlier, 1);
    assert_eq!(desk.state(earlier), State::Pending, "earlier messages keep the rules they were sent under");
}

#[test]
fn limits_of_the_file_are_honoured() {
    let mut desk = Desk::with(&["ann", "bob", "cid", "dan"]);
    write(&desk, "[limits]\nmessage_bytes = 100\nfan_out = 2\n");
    assert!(sync(&mut desk));
    refused(desk.post("ann", letter("everyone", "broadcast")), Code::TooLarge);
    accepted(desk.post("ann", letter("bob cid", "broadcast")));
    let long = text(&"x".repeat(101));
    refused(desk.say("ann", Intent::Send(letter("bob", "message")), Some(long)), Code::TooLarge);
}

#[test]
fn removing_the_file_brings_the_built_in_rules_back() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let words = "[delivery]\nmax_attempts = 1\n[types.deploy]\n";
    write(&desk, words);
    assert!(sync(&mut desk));
    fs::remove_file(desk.config()).unwrap();
    assert!(sync(&mut desk));
    assert!(!sync(&mut desk));
    assert_eq!(in_force(&desk).settings, Settings::default());
    refused(desk.post("ann", letter("bob", "deploy")), Code::UnknownType);
    let number = desk.send("ann", "bob", "directive");
    desk.fail_until("bob", number, 1);
    assert_eq!(desk.state(number), State::Pending);

    write(&desk, words);
    assert!(sync(&mut desk), "restoring the file is a change again");
    assert_eq!(in_force(&desk).version, 3);
}

#[test]
fn a_bad_file_is_an_error_that_names_it_and_changes_nothing() {
    let mut desk = Desk::new();
    let before = desk.tables();
    for bad in ["[delivry]\n", "[delivery]\nmax_attempts = 0\n", "[delivery]\nlease = '2d'\n", "no toml"] {
        write(&desk, bad);
        let error = poste_config::sync_policy(&mut desk.office).unwrap_err();
        assert!(matches!(&error, Error::Config { path, .. } if *path == desk.config()), "{error}");
        assert_eq!(desk.tables(), before);
    }
}

#[test]
fn a_policy_that_replaces_another_than_the_one_in_force_is_refused_naming_the_host() {
    let mut desk = Desk::new();
    accepted(desk.ask("poste", from_elsewhere(0, 2)));
    for stale in [0, 2, 7] {
        let why = refused(desk.ask("poste", from_elsewhere(stale, 3)), Code::PolicyClash);
        assert!(why.contains("other-host"), "{why}");
    }
    accepted(desk.ask("poste", from_elsewhere(1, 3)));
    assert_eq!(in_force(&desk).settings.max_attempts, Some(3));
}

#[test]
fn an_unchanged_file_does_not_fight_another_machines_policy() {
    let mut desk = Desk::new();
    write(&desk, "[delivery]\nmax_attempts = 2\n");
    assert!(sync(&mut desk));
    accepted(desk.ask("poste", from_elsewhere(1, 9)));
    assert!(!sync(&mut desk), "this machine's file is what it last proposed");
    assert_eq!(in_force(&desk).settings.max_attempts, Some(9));
}

#[test]
fn a_file_changed_while_another_machine_set_the_policy_is_a_clash_that_names_its_host() {
    let mut desk = Desk::new();
    write(&desk, "[delivery]\nmax_attempts = 2\n");
    assert!(sync(&mut desk));
    accepted(desk.ask("poste", from_elsewhere(1, 9)));
    write(&desk, "[delivery]\nmax_attempts = 3\n");
    let before = desk.tables();
    let error = poste_config::sync_policy(&mut desk.office)
        .expect_err("this machine replaces its own policy 1, but 2 is in force");
    assert!(matches!(error, Error::Rejected(_)) && error.to_string().contains("other-host"), "{error}");
    assert_eq!(desk.tables(), before);
}

#[test]
fn only_the_office_itself_proposes_policy() {
    let mut desk = Desk::with(&["ann"]);
    refused(desk.ask("ann", from_elsewhere(0, 2)), Code::NotAllowed);
    refused(desk.ask("poste", from_elsewhere(0, 0)), Code::Malformed);
    assert_eq!(in_force(&desk).version, 0);
}

#[test]
fn a_machine_that_died_before_remembering_its_own_policy_is_not_in_its_own_way() {
    let mut desk = Desk::new();
    write(&desk, "[delivery]\nmax_attempts = 2\n");
    assert!(sync(&mut desk));
    // The state after a process was killed right after committing the record.
    desk.office.store().conn().execute("UPDATE machine SET policy_seen = 0", []).unwrap();
    write(&desk, "[delivery]\nmax_attempts = 3\n");
    assert!(sync(&mut desk));
    assert_eq!(in_force(&desk).settings.max_attempts, Some(3));
}

#[test]
fn a_limit_of_messages_does_not_lose_a_result_that_is_larger() {
    let mut desk = Desk::with(&["lead", "bob"]);
    let number = desk.send("lead", "bob", "directive");
    write(&desk, "[limits]\nmessage_bytes = 100\n");
    assert!(sync(&mut desk));
    let result = "a long result ".repeat(6_000);
    desk.done_saying("bob", number, &result);
    assert_eq!(desk.track(number).result.expect("there is one").text, result);
}

#[test]
fn a_policy_that_raises_the_limit_counts_for_what_is_proposed_with_it() {
    let mut desk = Desk::with(&["lead", "bob"]);
    write(&desk, "[limits]\nmessage_bytes = 100\n");
    assert!(sync(&mut desk));
    let policy = desk.proposal("poste", from_elsewhere(1, 3), None);
    let words = "a long message ".repeat(6_000);
    let send = desk.proposal("lead", Intent::Send(letter("bob", "message")), Some(text(&words)));
    for outcome in poste_config::submit(&mut desk.office, &[policy, send]).expect("the office answers") {
        accepted(outcome.verdict.accepted());
    }
    let view = poste_core::views::message(desk.office.store(), poste_core::MessageNo(1)).expect("it reads");
    assert_eq!(view.expect("it is there").body, words);
}
