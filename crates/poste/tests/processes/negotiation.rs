//! Two builders, each with its own processes, propose, change and agree on an interface and write it to a context.

use serde_json::{Value, json};

use crate::common::{Desk, finish};

const PROPOSED: &str = r#"{"interface":"IUserService","methods":[
  {"name":"findById","params":["id: string"],"returns":"Promise<User>"},
  {"name":"create","params":["data: CreateUserDto"],"returns":"Promise<User>"}]}"#;
const CHANGED: &str = r#"{"interface":"IUserService","methods":[
  {"name":"findById","params":["id: string"],"returns":"Promise<User | null>"},
  {"name":"create","params":["data: CreateUserDto"],"returns":"Promise<User>"}]}"#;
const SCHEMA: &str = r#"{"type":"object","additionalProperties":{"type":"object","required":["interface","methods"],
  "properties":{"methods":{"type":"array","items":{"type":"object","required":["name","returns"]}}}}}"#;

#[test]
fn an_interface_is_proposed_changed_agreed_on_and_written_down() {
    let desk = Desk::new(&["builder-1", "builder-2", "lead"]);
    std::fs::write(desk.folder.path().join("schema.json"), SCHEMA).unwrap();
    let create = ["context", "create", "api-contracts", "# Interfaces", "--schema", "schema.json", "--as", "lead"];
    desk.run(&create);
    desk.run(&["subscribe", "context.api-contracts", "--as", "lead"]);

    // Builder 2 waits before there is any mail, and is woken by the proposal.
    let waiting = desk.spawn(&["wait", "--type", "interface_contract", "--json", "--as", "builder-2"]);
    let propose = [
        "send",
        "builder-2",
        "Proposed IUserService interface",
        "--type",
        "interface_contract",
        "--priority",
        "high",
        "--conversation",
        "conv_auth_contracts_001",
    ];
    let first = desk.json(&[&propose[..], &["--payload", PROPOSED, "--as", "builder-1"]].concat());
    let first = first["number"].to_string();
    let woken = finish(vec![waiting]).pop().unwrap();
    let woken: Value = serde_json::from_slice(&woken.stdout).unwrap();
    assert_eq!(woken["messages"][0]["payload"]["methods"][0]["returns"], "Promise<User>");

    let asks = json!({
        "status": "modification_requested",
        "changes": [{"method": "findById", "change": "Return type should be Promise<User | null>"}],
        "rationale": "Avoids throwing exceptions for normal control flow",
    });
    let asks = asks.to_string();
    let answer = ["reply", &first, "It may not be found.", "--done", "--payload", &asks, "--as", "builder-2"];
    let answer = desk.json(&answer)["number"].to_string();
    desk.run(&["read", &answer, "--as", "builder-1"]);
    desk.run(&["ack", &answer, "--as", "builder-1"]);

    // Builder 1 puts the change into a new proposal, which replaces the first.
    let second = [&propose[..], &["--reply-to", &answer, "--payload", CHANGED, "--as", "builder-1"]].concat();
    let second = desk.json(&second)["number"].to_string();
    let too_old = desk.command(&["agree", &first, "--as", "builder-2"]).output().unwrap();
    let talk = String::from_utf8_lossy(&too_old.stderr).into_owned();
    assert_eq!(too_old.status.code(), Some(5), "{talk}");
    assert!(talk.contains(&format!("message {second} is a newer proposal")), "{talk}");

    let agreed = desk.json(&["agree", &second, "--context", "api-contracts", "--as", "builder-2"]);
    assert_eq!(agreed["agreed"], true, "{agreed}");
    let parties: Vec<&Value> = agreed["parties"].as_array().unwrap().iter().map(|party| &party["agreed_by"]).collect();
    assert_eq!(parties, ["builder-1", "builder-2"]);
    assert_eq!(agreed["written"][0], json!({"context": "api-contracts", "version": 2, "stands": true}));

    // It is in the context, with the agreement, and the context's subscribers are notified.
    let shown = desk.json(&["context", "show", "api-contracts"]);
    assert_eq!(shown["data"]["IUserService"], serde_json::from_str::<Value>(CHANGED).unwrap());
    assert_eq!(shown["history"][0]["agreement"].to_string(), second);
    assert_eq!(shown["history"][0]["agreed_by"], json!(["builder-1", "builder-2"]));
    let mirror = std::fs::read_to_string(desk.office().join("contexts/api-contracts.md")).unwrap();
    assert!(mirror.contains("Promise<User | null>") && mirror.contains("by builder-1, builder-2"), "{mirror}");
    assert_eq!(desk.pending("lead"), 1);
    // Agreeing again, from either side, changes nothing.
    for who in ["builder-1", "builder-2"] {
        let again = desk.json(&["agree", &second, "--context", "api-contracts", "--as", who]);
        assert_eq!((&again["version"], again["written"].as_array().unwrap().len()), (&Value::Null, 1));
    }

    desk.run(&["ack", &agreed["message"].to_string(), "--as", "builder-1"]);
    desk.run(&["thread", "close", &second, "--outcome", "IUserService is agreed", "--as", "builder-1"]);
    let summary = desk.json(&["thread", "conv_auth_contracts_001", "--summary"]);
    assert_eq!(summary["participants"], json!(["builder-1", "builder-2"]), "{summary}");
    assert_eq!(summary["messages"]["count"], 4, "{summary}");
    assert_eq!(summary["status"], "closed", "{summary}");
    assert_eq!(summary["outcome"]["text"], "IUserService is agreed", "{summary}");
    desk.verify();
}

#[test]
fn many_agreements_are_written_into_one_context_at_once_and_none_is_lost() {
    const INTERFACES: usize = 12;
    let desk = Desk::new(&["builder-1", "builder-2"]);
    desk.run(&["context", "create", "api", "--as", "builder-1"]);
    let proposals: Vec<String> = (0..INTERFACES)
        .map(|number| {
            let payload = format!("{{\"interface\":\"I{number}\",\"methods\":[]}}");
            let args = ["send", "builder-2", "An interface", "--type", "interface_contract", "--as", "builder-1"];
            desk.json(&[&args[..], &["--payload", &payload]].concat())["number"].to_string()
        })
        .collect();
    let agreeing = proposals
        .iter()
        .map(|number| desk.spawn(&["agree", number, "--context", "api", "--as", "builder-2", "--lock-timeout", "60s"]));
    for output in finish(agreeing.collect()) {
        crate::common::expect_success(&["agree"], &output);
    }
    let data = &desk.json(&["context", "show", "api"])["data"];
    for number in 0..INTERFACES {
        assert_eq!(data[format!("I{number}")]["interface"], format!("I{number}"), "{data}");
    }
    desk.verify();
}
