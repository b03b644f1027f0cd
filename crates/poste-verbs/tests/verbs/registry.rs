//! The registry of all verbs.

use poste_verbs::verb::OUTSIDE;
use poste_verbs::{Spec, VERBS};
use serde_json::Value;

#[test]
fn verbs_are_listed_once_and_in_order() {
    let names: Vec<&str> = VERBS.iter().map(|spec| spec.name).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(names, sorted);
}

#[test]
fn every_verb_takes_an_object_and_answers_with_something() {
    let verbs = VERBS.iter().map(|spec| (spec.name, spec.input, spec.answer));
    for (name, input, answer) in
        verbs.chain(OUTSIDE.iter().map(|outside| (outside.name, outside.input, outside.answer)))
    {
        assert_eq!(input().get("type").and_then(Value::as_str), Some("object"), "{name}");
        assert!(answer().as_object().is_some_and(|schema| !schema.is_empty()), "{name}");
    }
}

/// Each verb in these lists is one more that a permission has to cover.
#[test]
fn what_verbs_do_beyond_the_office_is_known() {
    let names = |is: fn(&Spec) -> bool| VERBS.iter().filter(|spec| is(spec)).map(|spec| spec.name).collect::<Vec<_>>();
    assert_eq!(names(|spec| spec.runs_commands), ["claim", "handoff accept", "verify"]);
    assert_eq!(names(|spec| spec.acts_outside), ["handoff export", "snapshot"]);
}
