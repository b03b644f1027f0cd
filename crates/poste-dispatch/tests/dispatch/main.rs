//! Dispatch without processes: what is started, what is shown, what is read from outside; and workflows against a real
//! office.
#![allow(clippy::disallowed_methods, reason = "these tests stand where a surface would: outside of the core")]

mod choose;
mod email;
mod sign;
mod team;
mod webhook;
mod workflows;

#[test]
fn verbs_are_listed_once_and_in_order() {
    let names: Vec<&str> = poste_dispatch::VERBS.iter().map(|spec| spec.name).collect();
    assert!(names.is_sorted_by(|one, next| one < next), "{names:?}");
}

/// Each verb in this list is one more that a permission has to cover.
#[test]
fn what_verbs_do_beyond_the_office_is_known() {
    let verbs = poste_dispatch::VERBS.iter();
    let names: Vec<&str> = verbs.filter(|spec| spec.acts_outside || spec.runs_commands).map(|spec| spec.name).collect();
    assert_eq!(names, ["dispatch stop", "team stop", "team up"]);
}
