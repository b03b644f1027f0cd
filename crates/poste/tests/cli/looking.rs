//! Reading commands: the log, other agents' messages, output to pipes, colours.

use std::io::pipe;
use std::process::Stdio;

use poste_core::store::{Options, Store};

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn the_log_is_shown_explained_and_verified() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' 'Now.' --type directive --as lead");
    desk.quietly("poste claim 1 --as coder --session run-1");
    desk.later("5m");
    desk.quietly("poste done 1 --summary Fixed --as coder --session run-1");
    desk.play(
        "
        poste log show
        poste log show 6
        poste log show 6 --json
        poste log show --after 7 --limit 1
        poste log show --limit 2 --time iso
        poste log show 99
        poste log show --after 99
        poste log why 1
        poste log why 1 --json
        poste log why 99
        poste log why
        poste log verify
        poste log
        ",
    );
    assert_transcript!(desk);
    let report = desk.peek("poste log verify --json").json();
    assert_eq!(report["problems"], serde_json::json!([]));
    assert_eq!(report["records"], 9);
}

/// Opens the office's database to damage it.
fn open(desk: &Desk) -> Store {
    Store::open(&desk.path(".poste"), Options::default()).expect("the office opens")
}

#[test]
fn a_damaged_record_is_found_by_verify() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' --as lead");
    desk.quietly("poste log verify");
    let flipped = open(&desk)
        .conn()
        .execute("UPDATE log SET envelope = CAST(replace(CAST(envelope AS TEXT), 'coder', 'codex') AS BLOB) WHERE position = 6", [])
        .expect("a byte can be flipped");
    assert_eq!(flipped, 1);
    let report = desk.peek("poste log verify").exits(1);
    assert!(report.out().starts_with("problem: record 6: the checksum does not match: the record is damaged\n"));
    assert!(report.out().contains("\nnot sound, digest "));
    assert!(report.err().ends_with("hint: copy the office folder before doing anything else\n"));
    let report = desk.peek("poste log verify --json").exits(1);
    assert_eq!(report.error_json()["kind"], "internal");
    // Showing the damaged record fails, too.
    let _ = desk.peek("poste log show 6").exits(1);
}

#[test]
fn one_damage_is_one_problem() {
    let mut desk = Desk::staffed();
    let sql =
        "UPDATE log SET envelope = CAST(replace(CAST(envelope AS TEXT), 'lead', 'read') AS BLOB) WHERE position = 2";
    assert_eq!(open(&desk).conn().execute(sql, []).expect(sql), 1);
    let report = desk.peek("poste log verify --json").exits(1);
    let report: serde_json::Value = serde_json::from_str(report.out()).unwrap();
    assert_eq!(report["problems"].as_array().unwrap().len(), 1, "{}", report["problems"]);
}

#[test]
fn damage_of_content_tables_and_blobs_is_found_too() {
    for (sql, found) in [
        (
            "UPDATE content SET bytes = CAST(replace(CAST(bytes AS TEXT), 'Fix', 'Mix') AS BLOB)",
            "its content does not match its digest",
        ),
        ("UPDATE deliveries SET attempts = 3 WHERE message = 1", "table deliveries does not match the log"),
        ("DELETE FROM log WHERE position = 6", "missing"),
        ("UPDATE log SET chain = zeroblob(32) WHERE position = 6", "record 6: the chain is broken"),
    ] {
        let mut desk = Desk::staffed();
        desk.quietly("poste send coder 'Fix it' --as lead");
        desk.quietly("poste send coder 'Another' --as lead");
        assert_ne!(open(&desk).conn().execute(sql, []).expect(sql), 0, "{sql}");
        let report = desk.peek("poste log verify").exits(1);
        assert!(report.out().contains(found), "{sql}: {}", report.out());
        assert!(report.err().contains("copy the office folder"), "{sql}: {}", report.err());
    }
    let mut desk = Desk::staffed();
    let _ = desk.call(&["send", "coder", "Big", "-", "--as", "lead"], &[b'x'; 100_000]).ok();
    std::fs::remove_dir_all(desk.path(".poste/blobs")).unwrap();
    std::fs::create_dir(desk.path(".poste/blobs")).unwrap();
    assert!(desk.peek("poste log verify").exits(1).out().contains("is missing"));
}

#[test]
fn reading_marks_as_shown_only_what_is_ones_own_and_only_with_a_speaker() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' 'Now.' --as lead");
    let shown = |desk: &mut Desk| desk.peek("poste track 1 --json").json()["deliveries"][0]["shown_at"].clone();
    desk.play(
        "
        poste read 1
        poste read 1 --as reviewer
        poste read 1 --as lead
        poste read 1 --json
        poste track 1
        ",
    );
    assert!(shown(&mut desk).is_null());
    desk.later("1m");
    desk.play(
        "
        poste read '#1' --as coder
        poste track 1
        poste read 1 --as coder
        poste log why 1
        ",
    );
    assert!(shown(&mut desk).is_string());
    assert_transcript!(desk);
}

#[test]
fn reading_as_somebody_who_is_not_registered_is_an_error() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' --as lead");
    let refused = desk.peek("poste read 1 --as codr").exits(3);
    assert!(refused.err().contains("did you mean coder?"), "{}", refused.err());
}

#[test]
fn the_line_of_a_record_does_not_change_with_what_comes_after_it() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' --as lead");
    desk.quietly("poste claim --as coder");
    let before = desk.peek("poste tail --log --after 6 --for 0s").ok();
    desk.quietly("poste release 1 --as coder");
    let after = desk.peek("poste tail --log --after 6 --for 0s").ok();
    assert!(after.out().starts_with(before.out()), "{}\n{}", before.out(), after.out());
}

#[test]
fn an_explanation_is_short_even_when_the_answer_was_long() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Explain' --type question --as lead");
    let _ = desk.call(&["reply", "1", "-", "--done", "--as", "coder"], &[b'x'; 300_000]).ok();
    for command in ["log why 1", "track 1 --history"] {
        let longest = desk.peek(&format!("poste {command}")).ok().out().lines().map(str::len).max();
        assert!(longest < Some(10_000), "{command}: a line of {longest:?} bytes");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error_and_nothing_counts_as_shown() {
    let mut desk = Desk::staffed();
    let _ = desk.call(&["send", "coder", "Long", "-", "--type", "directive", "--as", "lead"], &[b'x'; 300_000]).ok();
    desk.quietly("poste send reviewer 'Short' --as lead");
    for arguments in [
        vec!["read", "1", "--as", "coder"],
        vec!["read", "1", "--json", "--as", "coder"],
        vec!["read", "1", "--for-model", "--as", "coder"],
        vec!["wait", "--timeout", "0s", "--as", "coder"],
        vec!["wait", "--timeout", "0s", "--for-model", "--as", "coder"],
        vec!["read", "2", "--as", "reviewer"],
        vec!["inbox", "--as", "coder"],
        vec!["log", "show"],
        vec!["tail", "--log", "--after", "0", "--for", "0s"],
        vec!["types"],
        vec!["schema", "inbox"],
        vec!["--help"],
        vec!["send", "--help"],
    ] {
        let (reader, writer) = pipe().expect("a pipe");
        drop(reader);
        let mut command = desk.command(&arguments);
        command.stdin(Stdio::null()).stdout(writer);
        let output = command.output().expect("the program ends");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
    for number in [1, 2] {
        let track = desk.peek(&format!("poste track {number} --json")).json();
        assert!(track["deliveries"][0]["shown_at"].is_null(), "#{number}");
        assert_eq!(track["deliveries"][0]["state"], "pending");
    }
}

#[test]
fn a_claim_whose_answer_nobody_read_is_still_a_claim_and_not_shown() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' --as lead");
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    let status = desk.command(&["claim", "1", "--as", "coder"]).stdin(Stdio::null()).stdout(writer).status();
    // The claim is stored, but its token was never printed, so the exit code must not be 0.
    assert_eq!(status.expect("the program ends").code(), Some(8));
    let track = desk.peek("poste track 1 --json").json();
    assert_eq!(track["deliveries"][0]["state"], "claimed");
    assert!(track["deliveries"][0]["shown_at"].is_null());
}

#[test]
fn colours_come_only_when_they_are_asked_for_off_a_terminal() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Burning' --type alert --as lead");
    let has_colour = |desk: &mut Desk, line: &str| desk.peek(line).ok().out().contains("\u{1b}[");
    assert!(!has_colour(&mut desk, "poste inbox --as coder"));
    assert!(!has_colour(&mut desk, "poste inbox --as coder --color auto"));
    assert!(!has_colour(&mut desk, "poste inbox --as coder --color never"));
    assert!(has_colour(&mut desk, "poste inbox --as coder --color always"));
    assert!(has_colour(&mut desk, "poste track 1 --color always"));
    // An option takes precedence over an environment variable.
    assert!(has_colour(&mut desk, "NO_COLOR=1 poste inbox --as coder --color always"));
    assert!(!has_colour(&mut desk, "NO_COLOR=1 poste inbox --as coder"));
    // JSON never has colours.
    assert!(!has_colour(&mut desk, "poste inbox --as coder --color always --json"));
    let _ = desk.peek("poste inbox --as coder --color sometimes").exits(2);
}

#[test]
fn times_are_shown_as_they_are_asked_for() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' --respond-by 2h --as lead");
    desk.later("25h");
    desk.play(
        "
        poste inbox --as coder
        poste inbox --as coder --time iso
        poste inbox --as coder --time unix
        poste track 1 --time iso
        poste inbox --as coder --time local
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn the_vocabulary_is_shown_with_its_defaults() {
    let mut desk = Desk::new();
    desk.play("poste types");
    assert_transcript!(desk);
    assert_eq!(desk.peek("poste types --json").json()["types"].as_array().unwrap().len(), 27);
}
