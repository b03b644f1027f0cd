//! `log follow`, `log replay` and `log diff-digest`.

use crate::assert_transcript;
use crate::common::Desk;

fn a_day() -> Desk {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix the login' 'It fails.' --type directive --as lead"); // 6
    desk.later("1m");
    desk.quietly("poste send coder 'Which branch?' --type question --as lead"); // 7
    desk.later("1m");
    desk.quietly("poste claim 1 --as coder"); // 8, 9
    desk.later("1m");
    desk.quietly("poste done 1 --summary 'A null check was missing' --as coder"); // 10
    desk.quietly("poste register late --as late"); // 11
    desk
}

#[test]
fn the_log_is_followed_from_a_position() {
    let mut desk = a_day();
    desk.play(
        "
        poste log follow --after 5 --for 0s
        poste log follow --for 0s --as coder
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn the_office_is_shown_as_it_was() {
    let mut desk = a_day();
    desk.play(
        "
        poste log replay --until 5
        poste log replay --until 7 --inbox coder
        poste log replay --until 6 --message 1
        poste log replay --until 9 --message 1
        poste log replay --until 10 --message 1
        poste log replay --until 6 --message 2
        poste log replay --until 9 --inbox late
        poste log replay --until 10 --inbox reviewer
        poste log replay --until 99
        poste log replay --until 0
        poste log replay
        ",
    );
    let replayed = desk.peek("poste log replay --json").json();
    let verified = desk.peek("poste log verify --json").json();
    assert_eq!(replayed["digest"], verified["tables"], "a full replay equals the live office");
    let past = desk.peek("poste log replay --until 9 --json").json();
    assert_ne!(past["digest"], verified["tables"]);
    assert_transcript!(desk);
}

fn copy(desk: &Desk, to: &str) {
    let copied = std::process::Command::new("cp").arg("-a").arg(desk.path(".poste")).arg(desk.path(to)).status();
    assert!(copied.unwrap().success());
    poste_testkit::state::adopt(&desk.path(to));
}

/// The tables that differ, and the rest of the answer. Not recorded: any change of a table would change the snapshot.
fn compared(desk: &mut Desk, line: &str, code: i32) -> (Vec<String>, serde_json::Value) {
    let ran = desk.peek(&format!("poste log diff-digest {line} --json")).exits(code);
    let mut answer: serde_json::Value = serde_json::from_str(ran.out()).unwrap();
    let tables = answer.as_object_mut().unwrap().remove("tables").unwrap();
    let tables = tables.as_array().unwrap();
    assert!(tables.len() > 10, "{tables:?}");
    let different = tables.iter().filter(|table| table["equal"] == false);
    let names = different.map(|table| {
        assert_ne!(table["ours"], table["theirs"]);
        table["table"].as_str().unwrap().to_owned()
    });
    (names.collect(), answer)
}

#[test]
fn digests_are_compared_with_the_fold_and_with_other_copies() {
    use serde_json::json;
    let mut desk = a_day();
    copy(&desk, "copy");
    let same = json!({ "position": 11, "ours": 11, "theirs": 11, "equal": true, "parted_at": null });
    assert_eq!(compared(&mut desk, "", 0), (vec![], same.clone()));
    assert_eq!(compared(&mut desk, "copy --find", 0), (vec![], same));

    desk.quietly("poste send coder 'One more' --as lead");
    let ahead = json!({ "position": 11, "ours": 12, "theirs": 11, "equal": true, "parted_at": null });
    assert_eq!(compared(&mut desk, "copy/office.db --find", 0), (vec![], ahead));

    desk.quietly("poste send reviewer 'Another one' --as lead --office copy");
    desk.quietly("poste send reviewer 'And one' --as lead --office copy");
    let (different, answer) = compared(&mut desk, "copy --find", 5);
    assert_eq!(different, ["cursor", "deliveries", "ids", "log"]);
    assert_eq!(answer, json!({ "position": 12, "ours": 12, "theirs": 13, "equal": false, "parted_at": 12 }));
    let text = desk.peek("poste log diff-digest copy --find").exits(5);
    let end = "not equal at record 12; the other one has 1 more\nthe logs differ from record 12 on\n";
    assert!(text.out().ends_with(end), "{}", text.out());
    assert!(text.out().contains("  different\n") && text.out().contains("  equal\n"));

    desk.file("theirs.db", "not a database");
    desk.play(
        "
        poste log diff-digest nowhere
        poste log diff-digest --find
        poste log diff-digest theirs.db
        poste log diff-digest project
        ",
    );
    assert_transcript!(desk);
}
