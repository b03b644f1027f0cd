//! Reserving from many processes: one wins, and waiters are woken.

use serde_json::Value;

use crate::common::{Desk, finish, until_all_wait};

#[test]
fn of_many_who_want_overlapping_paths_one_gets_them() {
    let names: Vec<String> = (0..16).map(|number| format!("a{number}")).collect();
    let desk = Desk::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let wanted = ["src/**", "src/auth", "**/login.rs", "src/*/login.rs"];
    let children = names.iter().enumerate();
    let children = children.map(|(n, name)| desk.spawn(&["reserve", wanted[n % wanted.len()], "--as", name]));
    let codes: Vec<_> = finish(children.collect()).iter().map(|output| output.status.code()).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == Some(5)).count(), 15, "{codes:?}");
    assert_eq!(desk.json(&["reservations"])["reservations"].as_array().map(Vec::len), Some(1));
    desk.verify();
}

#[test]
fn who_waits_gets_it_when_it_is_freed_or_its_time_is_up() {
    let desk = Desk::new(&["ann", "bob", "cy"]);
    desk.run(&["reserve", "src", "--as", "ann"]);
    desk.run(&["reserve", "docs", "--for", "1500ms", "--as", "ann"]);
    let freed = desk.spawn(&["--json", "reserve", "src/*", "--wait", "60s", "--ask", "--as", "bob"]);
    let timed = desk.spawn(&["--json", "reserve", "docs/x", "--wait", "60s", "--as", "cy"]);
    let children = vec![freed, timed];
    until_all_wait(&desk, &children);
    desk.run(&["wait", "--timeout", "60s", "--type", "resource_conflict", "--as", "ann"]);
    desk.run(&["release", "src", "--as", "ann"]);
    for output in finish(children) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["reserved"].as_array().map(Vec::len), Some(1));
    }
    let output = desk.command(&["reserve", "src", "--wait", "300ms", "--as", "cy"]).output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{talk}");
    assert!(talk.contains("bob holds src/*"), "{talk}");
    desk.verify();
}
