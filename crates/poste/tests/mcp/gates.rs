//! Gates that run during a call: other calls are still answered, and cancelling the call ends the gate.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, Desk, PATIENCE, Revision};

/// An office whose gate for this type takes longer than any test.
fn slow_office(kind: &str) -> Desk {
    let desk = Desk::new(&["lead", "coder"]);
    fs::create_dir(desk.path().join("home")).unwrap();
    let shell = r#"echo $$ > "$HOME/new"; mv "$HOME/new" "$HOME/pid"; exec sleep 600"#;
    let gate = format!("[[gate]]\nname = \"slow\"\ntype = \"{kind}\"\nshell = '{shell}'\ntimeout = '15m'\n");
    fs::write(desk.path().join(".poste/local.toml"), gate).unwrap();
    poste_testkit::state::trust(&desk.path().join(".poste"));
    desk
}

/// Calls a tool that runs the gate and, once it runs, returns the request's id and the gate's process.
fn begin(desk: &Desk, client: &mut Client, tool: &str, arguments: Value) -> (i64, PathBuf) {
    let id = client.begin("tools/call", json!({ "name": tool, "arguments": arguments }));
    let pid = desk.path().join("home/pid");
    until(|| pid.exists(), "the gate to run");
    let process = PathBuf::from("/proc").join(fs::read_to_string(&pid).unwrap().trim());
    assert!(process.exists(), "no gate runs in {}", process.display());
    (id, process)
}

fn until(is_so: impl Fn() -> bool, what: &str) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn cancel(client: &mut Client, id: i64) {
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
}

#[test]
fn a_cancelled_claim_ends_its_gate_and_is_given_back() {
    let desk = slow_office("directive");
    desk.run(&["send", "coder", "work", "--type", "directive", "--as", "lead"]);
    let mut client = desk.server(Some("coder"), &[], Revision::Handshake);
    let (id, gate) = begin(&desk, &mut client, "claim_work", json!({}));
    // While it runs, other calls read and write, and new mail is received.
    assert!(client.tool("check_inbox", json!({})).contains("work"));
    client.tool("send_message", json!({ "to": "lead", "subject": "soon" }));
    desk.run(&["send", "coder", "news", "--as", "lead"]);
    assert!(client.tool("wait_for_mail", json!({ "seconds": 600 })).contains("subject: news"));
    assert_eq!((desk.state("coder", 1).as_str(), gate.exists()), ("claimed", true));

    cancel(&mut client, id);
    until(|| !gate.exists(), "the gate to end");
    until(|| desk.state("coder", 1) == "pending", "the message to be released");
    assert!(client.notifications.iter().all(|message| message["id"] != id), "{:?}", client.notifications);

    // Without the gate it can be claimed again.
    fs::remove_file(desk.path().join(".poste/local.toml")).unwrap();
    assert!(client.tool("claim_work", json!({ "number": 1 })).contains("#1 is yours"));
    assert!(client.hang_up().success());
}

#[test]
fn a_client_that_leaves_ends_its_gate_and_gives_back_the_claim() {
    let desk = slow_office("directive");
    desk.run(&["send", "coder", "work", "--type", "directive", "--as", "lead"]);
    let mut client = desk.server(Some("coder"), &[], Revision::Handshake);
    let (_, gate) = begin(&desk, &mut client, "claim_work", json!({}));
    assert!(client.hang_up().success());
    assert!(!gate.exists(), "{} outlives the server", gate.display());
    assert_eq!(desk.state("coder", 1), "pending");
}

#[test]
fn a_cancelled_acceptance_ends_its_gate_and_accepts_nothing() {
    let desk = slow_office("handoff_request");
    desk.run(&["handoff", "create", "coder", "--task", "Take it", "--as", "lead"]);
    let mut client = desk.server(Some("coder"), &[], Revision::Handshake);
    let (id, gate) = begin(&desk, &mut client, "handoff", json!({ "action": "accept", "number": 1 }));
    assert!(client.tool("check_inbox", json!({})).contains("Take it"));
    cancel(&mut client, id);
    until(|| !gate.exists(), "the gate to end");
    assert!(client.tool("handoff", json!({ "action": "show", "number": 1 })).contains("pending"));
}
