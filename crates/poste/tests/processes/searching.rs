//! Searches while others send and search, and searches that are killed while they fill the index.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use serde_json::Value;

use crate::common::{Desk, expect_success, finish};

/// Sends the messages `from..to`.
fn send_many(desk: &Desk, from: usize, to: usize) {
    let lines: String = (from..to)
        .map(|n| {
            format!(
                "{{\"to\":\"coder\",\"subject\":\"line {n}\",\"body\":\"word third{} {}\"}}\n",
                n % 3,
                "filler ".repeat(30)
            )
        })
        .collect();
    let file = format!("batch-{from}.jsonl");
    std::fs::write(desk.folder.path().join(&file), lines).unwrap();
    desk.run(&["send", "--batch", &file, "--as", "lead"]);
}

/// Everything a few searches find, page by page.
fn found(desk: &Desk) -> Vec<Vec<u64>> {
    let all = |words: &str| {
        let (mut numbers, mut before) = (Vec::new(), u64::MAX.to_string());
        loop {
            let page = desk.json(&["search", words, "--limit", "1000", "--before", &before]);
            assert_eq!((&page["not_indexed"], &page["indexed_to"]), (&Value::from(0), &page["as_of"]));
            numbers.extend(page["hits"].as_array().unwrap().iter().map(|hit| hit["number"].as_u64().unwrap()));
            match page["next_before"].as_u64() {
                Some(next) => before = next.to_string(),
                None => return numbers,
            }
        }
    };
    ["word", "third1", "line 77", "\"third2 filler\" -line2"].map(all).to_vec()
}

#[test]
fn a_search_killed_while_it_fills_the_index_leaves_a_sound_one_to_go_on_with() {
    let desk = Desk::new(&["lead", "coder"]);
    send_many(&desk, 0, 6_000);
    let mut killed = 0;
    for attempt in 0..8 {
        let mut search = desk.spawn(&["search", "word"]);
        std::thread::sleep(Duration::from_millis(20 + 40 * attempt));
        let _ = search.kill();
        killed += usize::from(search.wait().unwrap().signal().is_some());
    }
    assert!(killed > 0, "no search was killed before it ended");
    let went_on = found(&desk);
    assert_eq!(went_on[0].len(), 6_000);
    assert!(went_on[0].is_sorted_by(|newer, older| newer > older));
    std::fs::remove_file(desk.office().join("search.db")).unwrap();
    assert_eq!(found(&desk), went_on, "an index built in one go finds the same");
}

#[test]
fn searches_beside_senders_and_beside_each_other_all_come_to_their_end() {
    const SENDERS: usize = 4;
    const EACH: usize = 12;
    let desk = Desk::new(&["lead", "coder"]);
    send_many(&desk, 0, 500);
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let desk = &desk;
            scope.spawn(move || {
                for n in 0..EACH {
                    desk.run(&["send", "coder", &format!("beside {sender}-{n}"), "word", "--as", "lead"]);
                }
            });
        }
        for _ in 0..5 {
            let searches = (0..3).map(|_| desk.spawn(&["search", "word", "--json"])).collect();
            for output in finish(searches) {
                expect_success(&["search"], &output);
                let page: Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(page["hits"].as_array().unwrap().len(), 20);
            }
        }
    });
    let page = desk.json(&["search", "beside", "--limit", "1000"]);
    assert_eq!(page["hits"].as_array().unwrap().len(), SENDERS * EACH, "every message sent before is found");
    desk.verify();
}
