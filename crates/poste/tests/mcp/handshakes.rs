use serde_json::{Value, json};

use crate::client::{BOTH, Desk, Revision};

#[test]
fn both_revisions_are_greeted_and_served_on_one_endpoint() {
    let desk = Desk::new(&["lead", "coder"]);
    for revision in BOTH {
        let mut client = desk.server(Some("coder"), &[], revision);
        match revision {
            Revision::Handshake => {
                assert_eq!(client.greeting["serverInfo"]["name"], "poste");
                assert_eq!(client.greeting["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
                assert_eq!(client.greeting["protocolVersion"], "2025-06-18");
            }
            Revision::Stateless => {
                let versions = client.greeting["supportedVersions"].as_array().unwrap();
                assert!(
                    versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-06-18")),
                    "{versions:?}"
                );
            }
        }
        assert!(client.greeting["instructions"].as_str().unwrap().contains("check_inbox"));
        assert!(client.greeting["capabilities"]["resources"]["subscribe"].as_bool().unwrap());
        assert!(client.greeting["capabilities"].get("experimental").is_none());
        let tools = client.request("tools/list", json!({}));
        let names: Vec<&str> =
            tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        let expected = [
            "send_message",
            "check_inbox",
            "read_message",
            "claim_work",
            "finish_work",
            "reply",
            "wait_for_mail",
            "context",
            "handoff",
            "office",
        ];
        assert_eq!(names, expected);
        assert!(client.tool("check_inbox", json!({})).contains("no mail for coder"));
        assert!(client.hang_up().success());
    }
}

#[test]
fn a_client_of_the_stateless_revision_needs_no_greeting_at_all() {
    let desk = Desk::new(&["coder"]);
    let mut client = desk.mute_server(Some("coder"), &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "check_inbox", "arguments": {}, "_meta": meta });
    client.send(&json!({ "jsonrpc": "2.0", "id": "first", "method": "tools/call", "params": params }));
    let answer = client.next(crate::client::PATIENCE).unwrap();
    assert_eq!(answer["id"], "first");
    assert_eq!(answer["result"]["resultType"], "complete");
}

#[test]
fn every_definition_is_whole_and_has_nothing_clients_warn_of() {
    fn check(path: &str, value: &Value) {
        match value {
            Value::Object(object) => {
                let in_properties = path.ends_with("properties");
                for (key, inner) in object {
                    assert!(
                        in_properties || !["format", "$ref", "$defs", "$schema"].contains(&key.as_str()),
                        "{path}.{key}"
                    );
                    assert!(in_properties || key != "type" || inner.is_string(), "{path}: more than one type: {inner}");
                    check(&format!("{path}.{key}"), inner);
                }
            }
            Value::Array(values) => values.iter().for_each(|value| check(path, value)),
            _ => {}
        }
    }
    let desk = Desk::new(&["coder"]);
    let mut client = desk.server(Some("coder"), &["--profile", "full"], Revision::Handshake);
    let tools = client.request("tools/list", json!({}));
    let tools = tools["tools"].as_array().unwrap();
    assert!(tools.len() >= 15);
    for tool in tools {
        let name = tool["name"].as_str().unwrap();
        assert!(tool["description"].as_str().unwrap().len() > 10, "{name}");
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object", "{name}");
            check(&format!("{name}.{schema}"), &tool[schema]);
        }
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
        assert_eq!(tool["annotations"]["openWorldHint"], false, "{name}");
        assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{name}");
    }
}

#[test]
fn prompts_and_resources_are_listed_and_read() {
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["send", "coder", "Fix the login", "It fails.", "--type", "directive", "--as", "lead"]);
    desk.run(&["context", "create", "decisions", "We use RS256.", "--as", "lead"]);
    for revision in BOTH {
        let mut client = desk.server(Some("coder"), &[], revision);
        let prompts = client.request("prompts/list", json!({}));
        let names: Vec<&Value> = prompts["prompts"].as_array().unwrap().iter().map(|prompt| &prompt["name"]).collect();
        assert_eq!(names, ["inbox", "handoff", "workflow-dispatch", "start-session", "close-session"]);
        let prompt = client.request("prompts/get", json!({ "name": "handoff", "arguments": { "to": "role:builder" } }));
        let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
        assert!(text.contains("to=role:builder") && !text.contains("{task}"), "{text}");
        assert_eq!(client.error("prompts/get", json!({ "name": "handoff" }))["code"], -32602);
        assert_eq!(client.error("prompts/get", json!({ "name": "nothing" }))["code"], -32602);

        let resources = client.request("resources/list", json!({}));
        let uris: Vec<&Value> = resources["resources"].as_array().unwrap().iter().map(|it| &it["uri"]).collect();
        assert_eq!(uris, ["poste://inbox", "poste://roster", "poste://context/decisions"]);
        let templates = client.request("resources/templates/list", json!({}));
        assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 2);
        for (uri, expected) in [
            ("poste://inbox", "Fix the login"),
            ("poste://roster", "lead"),
            ("poste://thread/1", "Fix the login"),
            ("poste://context/decisions", "We use RS256."),
        ] {
            let read = client.request("resources/read", json!({ "uri": uri }));
            let text = read["contents"][0]["text"].as_str().unwrap();
            assert!(text.contains(expected) && text.starts_with("<poste-"), "{uri}: {text}");
        }
        let not_found = if revision == Revision::Handshake { -32002 } else { -32602 };
        for uri in ["poste://thread/99", "poste://nothing", "file:///etc/passwd", "poste://context/--help"] {
            assert_eq!(client.error("resources/read", json!({ "uri": uri }))["code"], not_found, "{uri}");
        }
    }
}

#[test]
fn lists_come_in_pages() {
    let desk = Desk::new(&["lead"]);
    for number in 0..60 {
        desk.run(&["context", "create", &format!("notes-{number}"), "text", "--as", "lead"]);
    }
    let mut client = desk.server(Some("lead"), &[], Revision::Handshake);
    let first = client.request("resources/list", json!({}));
    assert_eq!(first["resources"].as_array().unwrap().len(), 50);
    let second = client.request("resources/list", json!({ "cursor": first["nextCursor"] }));
    assert_eq!(second["resources"].as_array().unwrap().len(), 12);
    assert!(second.get("nextCursor").is_none());
    assert_eq!(client.error("resources/list", json!({ "cursor": "nonsense" }))["code"], -32602);
}
