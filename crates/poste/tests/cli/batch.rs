//! `send --batch`: many messages, each accepted or refused on its own.

use serde_json::json;

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn good_lines_are_sent_and_bad_ones_named_by_their_number() {
    let mut desk = Desk::staffed();
    desk.file("plan.md", "# Plan\n");
    desk.file(
        "messages.jsonl",
        concat!(
            "{\"to\":\"coder\",\"subject\":\"First\",\"id\":\"b-1\"}\n",
            "\n",
            "{\"to\":[\"coder\",\"reviewer\"],\"subject\":\"Second\",\"body\":\"Both\",\"type\":\"question\",",
            "\"respond_by\":\"2h\",\"artifacts\":[\"plan.md\"],\"payload\":{\"n\":1},\"id\":\"b-2\"}\n",
            "no json\n",
            "{\"to\":\"coder\"}\n",
            "{\"to\":\"codr\",\"subject\":\"Nobody\"}\n",
            "{\"to\":\"Coder\",\"subject\":\"No name\"}\n",
            "{\"to\":\"coder\",\"subject\":\"Typo\",\"priorty\":\"high\"}\n",
            "{\"to\":\"coder\",\"subject\":\"Soon\",\"respond_by\":\"soon\"}\n",
            "{\"to\":\"coder\",\"subject\":\"Type\",\"type\":\"directiv\"}\n",
            "{\"to\":\"coder\",\"subject\":\"Missing\",\"artifacts\":[\"missing.md\"]}\n",
            "{\"to\":[],\"subject\":\"To nobody\"}\n",
            "{\"to\":\"coder\",\"subject\":\"Other content\",\"id\":\"b-1\"}\n",
            "{\"to\":\"role:reviewer\",\"subject\":\"Last\",\"metadata\":{\"a\":\"b\"}}",
        ),
    );
    desk.play(
        "
        poste send --batch messages.jsonl --as lead
        poste inbox --as coder
        poste inbox --as reviewer
        # again: what has an id is not sent twice
        poste send --batch messages.jsonl --as lead --json
        poste send --batch missing.jsonl --as lead
        poste send --batch messages.jsonl coder --as lead
        poste read 2
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_batch_comes_from_stdin_and_shows_no_progress_off_a_terminal() {
    let mut desk = Desk::staffed();
    let lines: String = (1..=250)
        .map(|number| format!("{{\"to\":\"coder\",\"subject\":\"Message {number}\",\"id\":\"m-{number}\"}}\r\n"))
        .collect();
    let _ = desk.ask_with("poste send --batch - --as lead < 250-lines.jsonl", lines.as_bytes()).ok();
    let _ = desk.ask_with("poste send --batch - --as lead < 250-lines.jsonl", lines.as_bytes()).ok();
    let _ = desk.ask_with("poste send --batch - --as lead --json < 250-lines.jsonl", lines.as_bytes()).ok();
    let _ = desk.ask_with("poste send --batch - --as lead < nothing", b"").ok();
    let _ =
        desk.ask_with("poste send --batch - --as lead < latin1.jsonl", b"{\"to\":\"coder\",\"subject\":\"\xe9\"}\n");
    desk.play("poste inbox --limit 1 --as coder");
    assert_transcript!(desk);
}

#[test]
fn a_batch_line_over_a_limit_is_refused_alone() {
    let mut desk = Desk::staffed();
    let long = "x".repeat(poste_core::limits::CONTENT_BYTES_MAX);
    let subject = "s".repeat(513);
    let lines = format!(
        "{{\"to\":\"coder\",\"subject\":\"One\"}}\n{{\"to\":\"coder\",\"subject\":\"Big\",\"body\":\"{long}\"}}\n\
         {{\"to\":\"coder\",\"subject\":\"{subject}\"}}\n{{\"to\":\"coder\",\"subject\":\"Deep\",\"payload\":{}{}}}\n\
         {{\"to\":\"coder\",\"subject\":\"Two\"}}\n",
        "[".repeat(101),
        "]".repeat(101),
    );
    let _ = desk.ask_with("poste send --batch - --as lead < some-too-big.jsonl", lines.as_bytes()).exits(4);
    assert_transcript!(desk);
}

#[test]
fn a_batch_without_a_speaker_is_a_usage_error() {
    let mut desk = Desk::staffed();
    desk.file("messages.jsonl", "{\"to\":\"coder\",\"subject\":\"First\"}\n");
    let refused = desk.ask("poste send --batch messages.jsonl").exits(2);
    assert!(refused.err().contains("no sender was given"));
}

#[test]
fn line_numbers_are_right_after_a_line_that_is_far_too_long() {
    let mut desk = Desk::staffed();
    let lines = format!("{}\nno json\n", "x".repeat(2 * poste_core::limits::CONTENT_BYTES_MAX + 10));
    let answer = desk.call(&["send", "--batch", "-", "--as", "lead", "--json"], lines.as_bytes()).exits(4);
    let answer: serde_json::Value = serde_json::from_str(answer.out()).unwrap();
    let numbers: Vec<u64> =
        answer["refused"].as_array().unwrap().iter().map(|refused| refused["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2]);
}

#[test]
fn a_line_attaches_files_and_promises_others() {
    let mut desk = Desk::staffed();
    desk.file("plan.md", "# Plan\n");
    let line =
        br#"{"to":"coder","subject":"Files","artifacts":["plan.md"],"attach":["plan.md"],"artifact_later":["out.md"]}"#;
    let _ = desk.call(&["send", "--batch", "-", "--as", "lead"], line).ok();
    let message = desk.peek("poste read 1 --as coder --json").json();
    let states: Vec<&str> =
        message["artifacts"].as_array().unwrap().iter().filter_map(|artifact| artifact["state"].as_str()).collect();
    assert_eq!(states, ["present", "attached", "later"]);
    let missing = br#"{"to":"coder","subject":"Files","attach":["nowhere.md"]}"#;
    let _ = desk.call(&["send", "--batch", "-", "--as", "lead"], missing).exits(4);
}

#[test]
fn a_batch_with_an_id_is_resumed_when_it_is_repeated() {
    let mut desk = Desk::staffed();
    let line = |subject: &str| format!("{{\"to\":\"coder\",\"subject\":\"{subject}\"}}\n");
    let named = "{\"to\":\"coder\",\"subject\":\"Named\",\"id\":\"own\"}\n";
    desk.file("mail.jsonl", format!("{}\n{}{named}", line("First"), "no json\n"));
    assert_eq!(desk.peek("poste send --batch mail.jsonl --id plan --as lead").code, 4, "one line is refused");
    // The refused line is fixed and another line is added: messages already sent keep their numbers.
    desk.file("mail.jsonl", format!("{}\n{}{named}{}", line("First"), line("Second"), line("Third")));
    let again = desk.peek("poste send --batch mail.jsonl --id plan --as lead --json").json();
    assert_eq!((&again["sent"], &again["repeats"], &again["refused"]), (&json!(2), &json!(2), &json!([])));
    let again = desk.peek("poste send --batch mail.jsonl --id plan --as lead --json").json();
    assert_eq!((&again["sent"], &again["repeats"]), (&json!(0), &json!(4)));
    let inbox = desk.peek("poste inbox --as coder --json").json();
    assert_eq!(inbox["messages"].as_array().map(Vec::len), Some(4), "{inbox}");
}
