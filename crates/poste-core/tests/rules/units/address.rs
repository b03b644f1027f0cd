//! The addresses of messages.

use poste_core::Address;

#[test]
fn addresses_print_as_they_are_read() {
    for text in [
        "coder",
        "role:reviewer",
        "can:typescript",
        "every:role:reviewer",
        "every:can:go",
        "everyone",
        "topic:TaskCompleted",
    ] {
        assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
    }
}

#[test]
fn what_is_no_address_is_refused() {
    for text in
        ["", "role:", "role:a:b", "every:", "every:coder", "topic:*", "squad:a", "every:role:", "Coder", "poste"]
    {
        assert!(text.parse::<Address>().is_err(), "{text}");
    }
}
