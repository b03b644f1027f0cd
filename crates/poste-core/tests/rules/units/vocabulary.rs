//! The built-in vocabulary.

use poste_core::text::TypeName;
use poste_core::vocabulary::{BUILT_IN, Priority};

#[test]
fn the_vocabulary_is_the_documented_one() {
    let names: Vec<&str> = BUILT_IN.iter().map(|word| word.name).collect();
    assert_eq!(names.len(), 27);
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len());
    for name in names {
        name.parse::<TypeName>().expect("a built-in type follows its own grammar");
    }
}

#[test]
fn a_type_that_wants_a_response_asks_for_work_so_that_an_ack_cannot_end_it() {
    for word in BUILT_IN {
        assert!(!word.response || word.work, "{}", word.name);
    }
}

#[test]
fn critical_is_read_as_urgent() {
    assert_eq!("critical".parse(), Ok(Priority::Urgent));
    assert_eq!(serde_json::from_str::<Priority>("\"critical\"").unwrap(), Priority::Urgent);
    assert!(Priority::Low < Priority::Normal && Priority::High < Priority::Urgent);
}
