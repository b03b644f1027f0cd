//! Everyday views must cost the same in an old office: none of their queries may scan a table that grows with the
//! history, or sort everything it finds.
//!
//! The statements are read from the sources, so a new one is always covered.

use std::path::Path;

use poste_core::store::Store;

/// Tables that grow with the history or with the waiting mail.
const GROWING: [&str; 9] =
    ["messages", "deliveries", "log", "events", "content", "ids", "shown", "archived_messages", "archived_content"];

/// The sources with the statements of everyday views.
const SOURCES: [&str; 21] = [
    "views/dead.rs",
    "views/health.rs",
    "views/inbox.rs",
    "views/overdue.rs",
    "views/replies.rs",
    "views/report/agent.rs",
    "views/report/blocker.rs",
    "views/report/broadcast.rs",
    "views/report/conversation.rs",
    "views/report/day.rs",
    "views/report/happening.rs",
    "views/report/span.rs",
    "views/roster.rs",
    "views/rows.rs",
    "views/status.rs",
    "views/thread.rs",
    "views/timeline.rs",
    "views/track.rs",
    "store/tables/conversations.rs",
    "store/tables/messages.rs",
    "store/tables/silence.rs",
];

/// The string literals of a source file. No statement of ours contains an escaped quote.
fn literals(source: &str) -> Vec<String> {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    code.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// A statement, or the part of one that `count_up_to` completes.
fn statement(literal: &str) -> Option<String> {
    let text = literal.replace("\\\n", " ");
    if text.starts_with("SELECT ") && !text.contains('{') {
        return Some(text);
    }
    let counts = GROWING.iter().any(|table| text.starts_with(&format!("{table} WHERE ")));
    counts.then(|| format!("SELECT count(*) FROM (SELECT 1 FROM {text} LIMIT 1000)"))
}

/// The steps of a query plan that are too slow.
fn faults(store: &Store, sql: &str) -> Vec<String> {
    let mut statement = store.conn().prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect(sql);
    let parameters = vec![None::<i64>; statement.parameter_count()];
    let steps = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get::<_, String>(3)).expect(sql);
    let steps = steps.collect::<Result<Vec<_>, _>>().expect(sql);
    // Topics and agents may be sorted: their number does not grow with the age of the office.
    let words = || sql.split(|character: char| !character.is_alphanumeric() && character != '_');
    let grows = words().any(|word| GROWING.contains(&word) || word == "due");
    let is_fault = |step: &String| {
        let mut words = step.split_whitespace();
        let walks = words.next() == Some("SCAN");
        let table = words.next().unwrap_or_default();
        let aliases = [("m", "messages"), ("d", "deliveries")];
        let table = aliases.iter().find(|(alias, _)| *alias == table).map_or(table, |(_, name)| name);
        (walks && GROWING.contains(&table)) || (grows && step.contains("TEMP B-TREE"))
    };
    steps.into_iter().filter(is_fault).collect()
}

#[test]
fn no_query_of_an_everyday_view_walks_through_the_history() {
    let store = Store::in_memory().expect("tables in memory");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = 0;
    for file in SOURCES {
        let source = std::fs::read_to_string(folder.join(file)).expect("a source file");
        let (source, _) = source.split_once("#[cfg(test)]").unwrap_or((&source, ""));
        for sql in literals(source).iter().filter_map(|literal| statement(literal)) {
            seen += 1;
            let faults = faults(&store, &sql);
            assert!(faults.is_empty(), "{file}: {faults:?}\n{sql}");
        }
    }
    assert!(seen >= 42, "the statements were found: {seen}");
}

#[test]
fn a_claim_of_types_walks_through_what_waits_at_its_address_and_nothing_else() {
    let store = Store::in_memory().expect("tables in memory");
    let condition = "address = ?1 AND state = 0 AND ready = 1 ORDER BY rank, message";
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/tables/deliveries.rs");
    assert!(std::fs::read_to_string(source).expect("a source file").contains(condition));
    assert_eq!(faults(&store, &format!("SELECT number FROM deliveries WHERE {condition}")), Vec::<String>::new());
}

#[test]
fn a_query_that_walks_or_sorts_is_noticed() {
    let store = Store::in_memory().expect("tables in memory");
    assert_eq!(faults(&store, "SELECT number FROM messages WHERE at > ?1").len(), 1);
    assert_eq!(faults(&store, "SELECT number FROM messages m WHERE m.sender = ?1").len(), 1);
    assert_eq!(faults(&store, "SELECT number FROM messages WHERE conversation = ?1 ORDER BY at").len(), 1);
    assert_eq!(faults(&store, "SELECT number FROM messages WHERE conversation = ?1 ORDER BY number").len(), 0);
}
