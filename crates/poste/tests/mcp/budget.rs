use serde_json::{Value, json};
use tiktoken_rs::CoreBPE;

use crate::client::{Desk, Revision, text};

fn tokens(tokenizer: &CoreBPE, text: &str) -> usize {
    tokenizer.encode_with_special_tokens(text).len()
}

/// The tokens a model spends on tool definitions.
#[test]
fn definitions_are_cheap() {
    let tokenizer = tiktoken_rs::o200k_base().unwrap();
    let desk = Desk::new(&["coder"]);
    let mut client = desk.server(Some("coder"), &[], Revision::Handshake);
    let tools = client.request("tools/list", json!({}));
    let tools = tools["tools"].as_array().unwrap();
    assert!(tools.len() <= 10);
    let mut counted = String::new();
    let mut all = 0;
    for tool in tools {
        let count = tokens(&tokenizer, &tool.to_string());
        all += count;
        counted.push_str(&format!("{} {count}\n", tool["name"].as_str().unwrap()));
    }
    let instructions = client.greeting["instructions"].as_str().unwrap();
    counted.push_str(&format!("all {all}\ninstructions {}\n", tokens(&tokenizer, instructions)));
    assert!(all < 2_500, "{counted}");
    insta::assert_snapshot!("definitions", counted);
}

fn within(tokenizer: &CoreBPE, result: &Value, budget: usize) {
    let (text, structured) = (text(result), result["structuredContent"].to_string());
    for part in [&text, &structured] {
        let count = tokens(tokenizer, part);
        assert!(count <= budget, "{count} tokens of {budget}: {part}");
    }
}

#[test]
fn a_huge_inbox_stays_within_its_budget_and_noise_is_folded() {
    let tokenizer = tiktoken_rs::o200k_base().unwrap();
    let desk = Desk::new(&["lead", "ci", "coder"]);
    let mut lines = String::new();
    for number in 0..300 {
        let mail = json!({ "to": ["coder"], "subject": format!("Do thing {number} {}", "漢字 ".repeat(20)), "type": "directive" });
        lines.push_str(&format!("{mail}\n"));
    }
    std::fs::write(desk.path().join("mail.jsonl"), lines).unwrap();
    desk.run(&["send", "--batch", "mail.jsonl", "--as", "lead"]);
    let mut lines = String::new();
    for number in 0..14 {
        let mail = json!({ "to": ["coder"], "subject": format!("build {number}"), "type": "progress_update" });
        lines.push_str(&format!("{mail}\n"));
    }
    std::fs::write(desk.path().join("noise.jsonl"), lines).unwrap();
    desk.run(&["send", "--batch", "noise.jsonl", "--as", "ci"]);
    let mut client = desk.server(Some("coder"), &[], Revision::Handshake);
    for (asked, budget) in
        [(json!({}), 1_500), (json!({ "max_tokens": 300 }), 300), (json!({ "max_tokens": 4_000 }), 4_000)]
    {
        let result = client.call("check_inbox", asked);
        within(&tokenizer, &result, budget);
        let text = text(&result);
        assert!(text.contains("more; type, from") && text.contains("next: read_message number=1"), "{text}");
    }
    let noise = client.call("check_inbox", json!({ "from": "ci" }));
    assert!(text(&noise).contains("14 progress_update from ci: #301…#314, the newest: \"build 13\""), "{noise}");
    // Much new mail at once: what fits is shown, the rest is listed and stays new.
    let result = client.call("wait_for_mail", json!({ "seconds": 5 }));
    within(&tokenizer, &result, 1_500);
    client.tool("check_inbox", json!({}));
    assert!(desk.is_shown("coder", 1));
    assert!(!desk.is_shown("coder", 20));
}

#[test]
fn a_long_body_is_read_in_parts_without_a_gap() {
    let tokenizer = tiktoken_rs::o200k_base().unwrap();
    let desk = Desk::new(&["lead", "coder"]);
    let words: String = (0..100_000).map(|n| format!("word{n:06}\n")).collect(); // 1.1 MB
    std::fs::write(
        desk.path().join("body.json"),
        json!({ "to": ["coder"], "subject": "long", "body": words }).to_string(),
    )
    .unwrap();
    desk.run(&["send", "--batch", "body.json", "--as", "lead"]);
    let mut client = desk.server(Some("coder"), &[], Revision::Handshake);
    let mut offset = 0;
    let mut body = String::new();
    for _ in 0..5 {
        let result = client.call("read_message", json!({ "number": 1, "offset": offset, "max_tokens": 2_000 }));
        within(&tokenizer, &result, 2_000);
        let text = text(&result);
        let part: String =
            text.lines().filter(|line| line.starts_with("word")).map(|line| format!("{line}\n")).collect();
        let shown = text.rsplit_once("offset=").unwrap().1;
        offset = shown.split(')').next().unwrap().parse::<usize>().unwrap();
        body.push_str(&part);
    }
    // Parts may end in the middle of a line; nothing is missing between them.
    let joined: String = body.split_whitespace().collect();
    let whole: String = words.split_whitespace().collect();
    assert!(whole.replace('\n', "").starts_with(&joined[..2_000]), "{}", &joined[..200]);
    assert!(offset > 5_000);
    let claimed = client.call("claim_work", json!({ "number": 1 }));
    within(&tokenizer, &claimed, 1_500);
}

#[test]
fn what_counts_as_shown_was_shown_however_small_the_budget() {
    let desk = Desk::new(&["lead", "coder"]);
    for subject in ["Disk full", "Disk still full"] {
        desk.run(&["send", "coder", subject, "the cellar disk", "--type", "alert", "--as", "lead"]);
    }
    let mut client = desk.server(Some("coder"), &[], Revision::Handshake);
    let first = client.tool("wait_for_mail", json!({ "seconds": 1, "max_tokens": 10 }));
    assert!(first.starts_with("<poste-message-"), "{first}");
    assert!(first.contains("subject: Disk full") && first.contains("\nthe cellar disk"), "{first}");
    client.tool("check_inbox", json!({})); // the previous answer is marked by now
    assert!(desk.is_shown("coder", 1) && !desk.is_shown("coder", 2), "{first}");
    let second = client.tool("read_message", json!({ "number": 2, "max_tokens": 1 }));
    assert!(second.contains("subject: Disk still full") && second.contains("\nthe cellar disk"), "{second}");
}
