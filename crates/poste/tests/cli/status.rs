//! `poste status` and `poste stats`.

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn an_office_at_a_glance() {
    let mut desk = Desk::staffed();
    desk.play("poste status");
    desk.quietly("poste send coder 'Fix the login' --type directive --as lead");
    desk.quietly("poste send coder,reviewer 'Ship it?' --type question --respond-by 30m --as lead");
    desk.quietly("poste send coder 'Broken' --type directive --as lead");
    desk.quietly("poste fail 3 --reason 'No' --as coder");
    desk.quietly("poste register gone");
    desk.quietly("poste retire gone --as lead");
    desk.quietly("poste claim 1 --lease 2h --as coder");
    desk.later("1h");
    desk.play("poste status");
    let status = desk.peek("poste status --json").json();
    assert_eq!(status["pending"], serde_json::json!({ "count": 5, "at_least": false }));
    assert_eq!(status["overdue"], serde_json::json!({ "count": 2, "at_least": false }));
    assert_eq!(status["busiest"][0]["name"], "lead");
    desk.play("poste status --at noon");
    assert_transcript!(desk);
}

#[test]
fn what_is_many_is_counted_up_to_a_thousand() {
    let mut desk = Desk::staffed();
    let batch = "{\"to\":\"coder\",\"subject\":\"x\"}\n".repeat(1_001);
    let _ = desk.call(&["send", "--batch", "-", "--as", "lead"], batch.as_bytes()).ok();
    let status = desk.peek("poste status --json").json();
    assert_eq!(status["pending"], serde_json::json!({ "count": 1000, "at_least": true }));
    let text = desk.peek("poste status").ok();
    assert!(text.out().contains("pending       1000+, oldest #1 since just now\n"), "{}", text.out());
}

#[test]
fn mail_is_counted_and_measured_by_type_and_by_agent() {
    let mut desk = Desk::staffed();
    desk.play("poste stats");
    for (number, wait) in [(1, "10s"), (2, "2m"), (3, "1h")] {
        desk.quietly(&format!("poste send coder 'Job {number}' --type directive --as lead"));
        desk.later("5s");
        desk.quietly(&format!("poste claim {number} --lease 2h --as coder"));
        desk.later(wait);
        desk.quietly(&format!("poste done {number} --as coder"));
    }
    desk.quietly("poste send reviewer 'News' --as lead");
    desk.quietly("poste send role:reviewer 'For one of you' --type question --as lead");
    desk.quietly("poste fail 5 --reason 'No' --as reviewer");
    desk.play(
        "
        poste stats
        poste stats --by agent
        poste stats --since 10m
        poste stats --since 2026-03-02T09:00:00Z --by agent
        poste stats --since 1s
        ",
    );
    let stats = desk.peek("poste stats --since 2h --json").json();
    assert_eq!((&stats["messages"], &stats["messages_per_hour"]), (&6.into(), &3.0.into()));
    let directives = stats["by_type"].as_array().unwrap().iter().find(|group| group["name"] == "directive").unwrap();
    assert_eq!(directives["finished"]["p50_ms"], 125_000);
    assert_eq!(directives["worked"]["max_ms"], 3_600_000);
    let volume: u64 = stats["volume"].as_array().unwrap().iter().filter_map(|part| part.as_u64()).sum();
    assert_eq!(volume, 6);
    desk.later("4d");
    desk.play(
        "
        poste stats
        poste stats --since 7d
        poste archive --as lead
        # what is archived still counts as stored
        poste stats --since 7d
        poste stats --since -1d
        poste stats --since 2030-01-01T00:00:00Z
        poste stats --since yesterday
        poste stats --by moon
        ",
    );
    assert_transcript!(desk);
}
