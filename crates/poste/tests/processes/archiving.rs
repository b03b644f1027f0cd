//! Archiving while others write, and archives that are killed midway.

use std::collections::BTreeMap;
use std::process::Child;
use std::time::Duration;

use crate::common::{Desk, expect_success, finish};

/// Sends `count` messages, each in its own conversation, and acknowledges them.
fn finished_mail(desk: &Desk, count: usize, prefix: &str) {
    let line = |n: usize| {
        format!(
            "{{\"to\":\"coder\",\"subject\":\"{prefix} {n}\",\"body\":\"{n}\",\"conversation\":\"{prefix}-{n}\"}}\n"
        )
    };
    let lines: String = (0..count).map(line).collect();
    std::fs::write(desk.folder.path().join("batch.jsonl"), lines).unwrap();
    desk.run(&["send", "--batch", "batch.jsonl", "--as", "lead"]);
    let last = desk.json(&["status"])["messages"].as_u64().unwrap();
    for number in last + 1 - count as u64..=last {
        desk.run(&["ack", &number.to_string(), "--as", "coder"]);
    }
}

/// Number, subject and body of every message, archived or not.
fn all_mail(desk: &Desk) -> BTreeMap<u64, (String, String)> {
    let last = desk.json(&["status"])["messages"].as_u64().unwrap();
    (1..=last)
        .map(|number| {
            let message = desk.json(&["read", &number.to_string()]);
            let text = |name: &str| message[name].as_str().unwrap().to_owned();
            (number, (text("subject"), text("body")))
        })
        .collect()
}

#[test]
fn an_archive_beside_four_senders_loses_nothing_and_stands_in_nobodys_way() {
    let desk = Desk::new(&["lead", "coder"]);
    finished_mail(&desk, 60, "old");
    // They write to the conversations that are being archived.
    let senders: Vec<Child> = (0..4)
        .map(|sender| {
            let lines: String = (0..60)
                .map(|n| {
                    format!("{{\"to\":\"coder\",\"subject\":\"new {sender} {n}\",\"conversation\":\"old-{n}\"}}\n")
                })
                .collect();
            let file = format!("sender-{sender}.jsonl");
            std::fs::write(desk.folder.path().join(&file), lines).unwrap();
            desk.spawn(&["send", "--batch", &file, "--as", "lead"])
        })
        .collect();
    let archivers: Vec<Child> = (0..3).map(|_| desk.spawn(&["archive", "--older", "0s", "--as", "lead"])).collect();
    for output in finish(senders).iter().chain(&finish(archivers)) {
        expect_success(&["send or archive"], output);
    }
    let mail = all_mail(&desk);
    assert_eq!(mail.len(), 60 + 4 * 60);
    assert_eq!(desk.pending("coder"), 240);
    for n in 0..60 {
        assert_eq!(mail[&(n + 1)], (format!("old {n}"), n.to_string()));
    }
    desk.verify();
}

#[test]
fn an_archive_killed_at_any_moment_leaves_a_sound_office_and_loses_nothing() {
    let desk = Desk::new(&["lead", "coder"]);
    let mut killed = 0;
    for round in 0..20_u64 {
        finished_mail(&desk, 6, &format!("round-{round}"));
        let mut archive = desk.spawn(&["archive", "--older", "0s", "--as", "lead"]);
        // Killed at moments from before it opens the office to after it answers, which takes some 35 ms.
        std::thread::sleep(Duration::from_micros(round * 2_500));
        let _ = archive.kill();
        killed += u32::from(!archive.wait().unwrap().success());
        desk.verify();
    }
    assert!(killed > 0, "no archive was killed before it was done");
    desk.run(&["archive", "--older", "0s", "--as", "lead"]);
    let mail = all_mail(&desk);
    assert_eq!(mail.len(), 20 * 6);
    for (number, (subject, body)) in mail {
        let (round, n) = ((number - 1) / 6, (number - 1) % 6);
        assert_eq!((subject, body), (format!("round-{round} {n}"), n.to_string()));
    }
    assert_eq!(desk.json(&["threads"])["threads"], serde_json::json!([]), "everything is archived in the end");
    desk.verify();
}
