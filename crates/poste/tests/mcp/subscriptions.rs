use std::time::Duration;

use serde_json::json;

use crate::client::{Desk, PATIENCE, Revision};

const UPDATED: &str = "notifications/resources/updated";

#[test]
fn an_older_client_subscribes_to_resources() {
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["context", "create", "decisions", "one", "--as", "lead"]);
    let mut client = desk.server(Some("coder"), &[], Revision::Handshake);
    client.request("resources/subscribe", json!({ "uri": "poste://inbox" }));
    client.request("resources/subscribe", json!({ "uri": "poste://context/decisions" }));
    desk.run(&["send", "coder", "news", "--as", "lead"]);
    let told = client.notification(UPDATED, PATIENCE).expect("a notification");
    assert_eq!(told["params"]["uri"], "poste://inbox");
    desk.run(&["context", "append", "decisions", "two", "--as", "lead"]);
    let told = client.notification(UPDATED, PATIENCE).expect("a notification");
    assert_eq!(told["params"]["uri"], "poste://context/decisions");
    // No notification for another agent's mail, nor after unsubscribing.
    desk.run(&["send", "lead", "to myself", "--as", "lead"]);
    client.request("resources/unsubscribe", json!({ "uri": "poste://inbox" }));
    desk.run(&["send", "coder", "more", "--as", "lead"]);
    assert_eq!(client.notification(UPDATED, Duration::from_millis(1_500)), None);
    assert!(client.hang_up().success());
}

#[test]
fn a_client_of_the_stateless_revision_listens() {
    let desk = Desk::new(&["lead", "coder"]);
    let mut client = desk.server(Some("coder"), &[], Revision::Stateless);
    assert_eq!(client.error("resources/subscribe", json!({ "uri": "poste://inbox" }))["code"], -32601);
    let filter = json!({ "resourceSubscriptions": ["poste://inbox", "poste://roster"] });
    let id = client.begin("subscriptions/listen", json!({ "notifications": filter }));
    let told = client.notification("notifications/subscriptions/acknowledged", PATIENCE).expect("it is acknowledged");
    assert_eq!(
        told["params"]["notifications"]["resourceSubscriptions"],
        json!(["poste://inbox", "poste://roster"]),
        "{told}"
    );
    desk.run(&["send", "coder", "news", "--as", "lead"]);
    // The roster may be reported first, because of a change before it was read.
    let told = loop {
        let told = client.notification(UPDATED, PATIENCE).expect("a notification");
        if told["params"]["uri"] == "poste://inbox" {
            break told;
        }
    };
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id, "{told}");
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
    assert!(client.tool("check_inbox", json!({})).contains("news"));
    client.notifications.clear();
    desk.run(&["send", "coder", "more", "--as", "lead"]);
    assert_eq!(client.notification(UPDATED, Duration::from_millis(1_500)), None);
    assert!(client.hang_up().success());
}

#[test]
fn a_channel_pushes_new_mail_once() {
    const PUSHED: &str = "notifications/claude/channel";
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["send", "coder", "old", "--as", "lead"]);
    let mut client = desk.server(Some("coder"), &["--channel"], Revision::Handshake);
    assert!(client.greeting["capabilities"]["experimental"]["claude/channel"].is_object());
    desk.run(&["send", "coder", "fresh \"news\"", "the body", "--as", "lead"]);
    let pushed = client.notification(PUSHED, PATIENCE).expect("it is pushed");
    let content = pushed["params"]["content"].as_str().unwrap();
    assert!(
        content.contains("#2") && content.contains("read_message number=2") && !content.contains("the body"),
        "{content}"
    );
    assert_eq!(pushed["params"]["meta"]["from"], "lead");
    desk.run(&["send", "lead", "to myself", "--as", "lead"]);
    assert_eq!(client.notification(PUSHED, Duration::from_millis(1_500)), None);
    assert!(!desk.is_shown("coder", 2), "a push does not mark the message as shown");
}

#[test]
fn whoever_only_watches_keeps_no_claim() {
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["send", "coder", "work", "--type", "directive", "--as", "lead"]);
    let mut client = desk.server(Some("coder"), &["--channel"], Revision::Handshake);
    client.request("resources/subscribe", json!({ "uri": "poste://inbox" }));
    client.tool("claim_work", json!({ "number": 1, "lease": "3s" }));
    let claimed = std::time::Instant::now();
    let mut number = 1;
    while claimed.elapsed() < Duration::from_millis(4_500) {
        desk.run(&["send", "coder", "news", "--as", "lead"]);
        number += 1;
        let told = format!("#{number} ");
        while !client.notification("notifications/claude/channel", PATIENCE).expect("a push")["params"]["content"]
            .as_str()
            .unwrap()
            .contains(&told)
        {}
        client.request("resources/read", json!({ "uri": "poste://inbox" }));
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(desk.state("coder", 1), "pending");
}

#[test]
fn what_is_no_resource_is_not_watched() {
    let desk = Desk::new(&["lead", "coder"]);
    let nonsense = ["poste://nothing".to_owned(), "file:///etc/passwd".to_owned(), "x".repeat(100_000)];
    let mut client = desk.server(Some("coder"), &[], Revision::Handshake);
    for uri in &nonsense {
        let error = client.error("resources/subscribe", json!({ "uri": uri }));
        assert!(error["message"].as_str().unwrap().contains("no resource"), "{error}");
    }
    let mut client = desk.server(Some("coder"), &[], Revision::Stateless);
    let threads = (0..1_200).map(|number| format!("poste://thread/{number}"));
    let uris: Vec<String> = nonsense.into_iter().chain(threads).collect();
    client.begin("subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": uris } }));
    let told = client.notification("notifications/subscriptions/acknowledged", PATIENCE).expect("it is acknowledged");
    let watched = told["params"]["notifications"]["resourceSubscriptions"].as_array().unwrap();
    assert_eq!((&watched[0], watched.len()), (&json!("poste://thread/0"), 1_000));
}

#[test]
fn a_channel_pushes_everything_that_came_at_once() {
    const MANY: usize = 50;
    let desk = Desk::new(&["lead", "coder"]);
    let mut client = desk.server(Some("coder"), &["--channel"], Revision::Handshake);
    let lines: String = (0..MANY).map(|_| "{ \"to\": [\"coder\"], \"subject\": \"x\" }\n").collect();
    std::fs::write(desk.path().join("mail.jsonl"), lines).unwrap();
    desk.run(&["send", "--batch", "mail.jsonl", "--as", "lead"]);
    let mut told = std::collections::BTreeSet::new();
    while told.len() < MANY {
        let pushed = client.notification("notifications/claude/channel", PATIENCE).expect("it is pushed");
        assert!(told.insert(pushed["params"]["meta"]["number"].to_string()), "{pushed}");
    }
}
