//! The scripted model, called over HTTP as agent programs call it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use poste_agents::{Model, Rule, Say};
use serde_json::{Value, json};

fn post(model: &Model, path: &str, body: &Value) -> (u16, String) {
    let address = model.url().strip_prefix("http://").unwrap().to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// The events of a stream.
fn events(body: &str) -> Vec<Value> {
    body.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

fn started() -> (Model, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Model::start(&folder.path().join("requests.jsonl")).unwrap(), folder)
}

#[test]
fn a_hidden_tool_is_searched_for_first_and_that_costs_no_step() {
    let (model, folder) = started();
    model.then([Rule::next(Say::call("reply", json!({ "number": 1 }))), Rule::next(Say::text("over"))]);
    let mut request = json!({
        "stream": true,
        "tools": [{ "name": "Bash" }, { "name": "ToolSearch" }],
        "messages": [{ "role": "user", "content": "deferred: mcp__poste__reply" }],
    });
    let called = |body: &str| events(body)[1]["content_block"]["name"].clone();
    assert_eq!(called(&post(&model, "/v1/messages?beta=true", &request).1), "ToolSearch");
    request["tools"] = json!([{ "name": "mcp__poste__reply" }, { "name": "ToolSearch" }]);
    assert_eq!(called(&post(&model, "/v1/messages", &request).1), "mcp__poste__reply");
    request["stream"] = json!(false);
    let last: Value = serde_json::from_str(&post(&model, "/v1/messages", &request).1).unwrap();
    assert_eq!((&last["content"][0]["text"], &last["stop_reason"]), (&json!("over"), &json!("end_turn")));
    assert!(model.is_spent() && model.wait_for(3, Duration::ZERO));
    let record = std::fs::read_to_string(folder.path().join("requests.jsonl")).unwrap();
    assert_eq!(record.lines().count(), 3);
}

#[test]
fn each_program_gets_a_call_as_it_wants_it() {
    let (model, _folder) = started();
    model.then([
        Rule::next(Say::call("reply", json!({ "number": 1 }))),
        Rule::next(Say::call("reply", json!({ "number": 2 }))),
    ]);
    let group =
        json!({ "type": "namespace", "name": "mcp__poste", "tools": [{ "type": "function", "name": "reply" }] });
    let request = json!({ "tools": [{ "type": "function", "name": "reply" }, group], "input": [] });
    let item = events(&post(&model, "/v1/responses", &request).1)[1]["item"].clone();
    // The tool of the MCP server, not the program's own one of the same name.
    assert_eq!((&item["name"], &item["namespace"]), (&json!("reply"), &json!("mcp__poste")));
    assert_eq!(item["arguments"], "{\"number\":1}");

    let declared = json!([{ "functionDeclarations": [{ "name": "mcp_poste_reply" }] }]);
    let request = json!({ "tools": declared, "contents": [] });
    let path = "/v1beta/models/some:streamGenerateContent?alt=sse";
    let part = events(&post(&model, path, &request).1)[0]["candidates"][0]["content"]["parts"][0].clone();
    assert_eq!(part, json!({ "functionCall": { "name": "mcp_poste_reply", "args": { "number": 2 } } }));
}

#[test]
fn what_is_asked_beside_the_conversation_uses_up_no_step() {
    let (model, _folder) = started();
    model.then([Rule::next(Say::text("the step"))]);
    let title = json!({ "messages": [{ "role": "user", "content": "a title, please" }] });
    assert!(!post(&model, "/v1/messages", &title).1.contains("the step"));
    assert_eq!(post(&model, "/v1/messages/count_tokens", &title).0, 200);
    assert_eq!(post(&model, "/v1/nowhere", &title).0, 404);
    assert!(!model.is_spent());
    assert!(!model.wait_for(1, Duration::from_millis(1)));
}

#[test]
fn a_rule_with_a_text_goes_first_and_stays() {
    let (model, _folder) = started();
    model.then([Rule::next(Say::text("step")), Rule::whenever("sum it up", Say::text("summary"))]);
    let ask = |text: &str| {
        let request = json!({ "tools": [{ "name": "Bash" }], "messages": [{ "role": "user", "content": text }] });
        post(&model, "/v1/messages", &request).1
    };
    assert!(ask("now sum it up").contains("summary"));
    assert!(ask("sum it up again").contains("summary"));
    assert!(ask("go on").contains("step"));
    assert!(model.is_spent());
}
