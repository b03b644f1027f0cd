//! The names of session pages.

use poste_core::Timestamp;
use poste_core::store::session_pages::page_name;

#[test]
fn a_page_is_named_by_its_session_whatever_the_id_holds() {
    let at = Timestamp::from_ms(1_772_442_000_000);
    let name = |id: &str| page_name(&id.parse().unwrap(), at);
    assert_eq!(name("coder-3fa94c"), "2026-03-02-coder-3fa94c.md");
    for hostile in ["../../etc/passwd", "a/b", "a'b", "$(rm)", &"x".repeat(128)] {
        let name = name(hostile);
        assert!(name.len() < 100 && !name.contains(['/', '\'', '$', '(']), "{name}");
    }
    assert_ne!(name("a/b"), name("a:b"), "two sessions never share a page");
}
