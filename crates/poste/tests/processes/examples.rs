//! Complete scenarios with agents that work concurrently, each through its own processes: the reports must match what
//! happened.

use std::thread;

use serde_json::Value;

use crate::common::Desk;

/// One of the agents. It knows about the others only what it gets by mail.
#[derive(Clone, Copy)]
struct Agent<'a> {
    desk: &'a Desk,
    name: &'static str,
}

impl Agent<'_> {
    fn does(self, args: &[&str]) -> Value {
        self.desk.json(&[args, &["--as", self.name]].concat())
    }

    /// Waits for mail of this type, reads it and returns it.
    fn receives(self, kind: &str) -> Value {
        let news = self.does(&["wait", "--type", kind, "--limit", "1", "--timeout", "60s"]);
        let number = news["messages"][0]["number"].to_string();
        self.does(&["read", &number])
    }
}

fn number(message: &Value) -> String {
    message["number"].to_string()
}

fn texts<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    list.as_array().expect("a list").iter().map(|entry| entry[key].as_str().unwrap_or_default()).collect()
}

/// Timestamps sort as text in the order of time.
fn in_order(moments: &[&Value]) -> bool {
    moments.iter().all(|moment| moment.is_string()) && moments.is_sorted_by_key(|moment| moment.as_str())
}

#[test]
fn a_decision_is_broadcast_and_every_agent_acknowledges_it() {
    let desk = Desk::new(&["architect-1", "builder-1", "builder-2", "validator-1"]);
    let [architect, first, second, third] =
        ["architect-1", "builder-1", "builder-2", "validator-1"].map(|name| Agent { desk: &desk, name });

    let decision = r#"{
        "decision_id": "DEC-001",
        "decision": "Use RS256 algorithm for JWT signing",
        "impact": { "affected_components": ["jwt-service", "auth-middleware"], "breaking_change": false },
        "effective_date": "immediate"
    }"#;
    thread::scope(|scope| {
        for agent in [first, second] {
            scope.spawn(move || {
                let message = agent.receives("decision_announcement");
                assert_eq!(message["payload"]["decision_id"], "DEC-001");
                let comply = r#"{"decision_id":"DEC-001","will_comply":true}"#;
                let words = ["Acknowledged decision DEC-001", "--type", "acknowledgment", "--payload", comply];
                agent.does(&[&["reply", number(&message).as_str()][..], &words].concat());
            });
        }
        // The third agent only acknowledges.
        scope.spawn(move || {
            let message = third.receives("decision_announcement");
            third.does(&["ack", &number(&message), "--note", "Will check every token"]);
        });
        let sent = architect.does(&[
            "broadcast",
            "JWT Algorithm Decision: RS256",
            "--type",
            "decision_announcement",
            "--payload",
            decision,
            "--ref",
            "https://tools.ietf.org/html/rfc7519",
        ]);
        assert_eq!(sent["number"], 1);
    });
    // Both acknowledgements reached the architect as mail, too.
    for _ in 0..2 {
        let message = architect.receives("acknowledgment");
        assert_eq!(message["payload"]["will_comply"], true);
        architect.does(&["ack", &number(&message)]);
    }

    let report = desk.json(&["report", "broadcast", "1"]);
    assert_eq!((&report["acknowledged"], &report["recipients"]), (&Value::from(3), &Value::from(3)));
    assert_eq!(report["missing"], Value::Array(Vec::new()));
    assert_eq!(report["subject"], "JWT Algorithm Decision: RS256");
    assert_eq!(report["references"][0], "https://tools.ietf.org/html/rfc7519");
    let receipts = &report["receipts"];
    assert_eq!(texts(receipts, "recipient"), ["builder-1", "builder-2", "validator-1"]);
    assert_eq!(texts(receipts, "response"), ["acknowledged"; 3]);
    let compliance = "Acknowledged decision DEC-001";
    assert_eq!(texts(receipts, "note"), [compliance, compliance, "Will check every token"]);
    for receipt in receipts.as_array().unwrap() {
        assert!(in_order(&[&report["at"], &receipt["received_at"], &receipt["responded_at"]]), "{receipt}");
    }
    let text = desk.run(&["report", "broadcast", "1"]);
    assert!(text.contains("- Status: **acknowledged 3/3**\n"), "{text}");
    let diagram = desk.run(&["report", "broadcast", "1", "--mermaid"]);
    assert_eq!(diagram.matches("participant ").count(), 4, "{diagram}");

    let day = &report["at"].as_str().unwrap()[..10];
    let day = desk.json(&["report", "day", day]);
    assert_eq!((&day["broadcasts"][0]["number"], &day["broadcasts"][0]["acknowledged"]), (&1.into(), &3.into()));
    let builder = desk.json(&["report", "agent", "builder-1"]);
    assert_eq!((&builder["sent"], &builder["received"]), (&Value::from(1), &Value::from(1)));
    assert_eq!(builder["answered"]["count"], 1);
    desk.verify();
}

#[test]
fn a_blocker_is_escalated_mediated_and_resolved() {
    let desk = Desk::new(&["builder-1", "builder-2", "orchestrator"]);
    let [blocked, helper, orchestrator] =
        ["builder-1", "builder-2", "orchestrator"].map(|name| Agent { desk: &desk, name });
    for topic in ["BlockerEncountered", "BlockerResolved"] {
        orchestrator.does(&["subscribe", topic]);
    }

    let blocker = r#"{
        "task_id": "pg2-task-1",
        "blocker_type": "missing_dependency",
        "description": "Cannot implement JWT refresh without User model",
        "dependency": { "required_artifact": "User model with refreshToken field", "responsible_agent": "builder-2" }
    }"#;
    thread::scope(|scope| {
        scope.spawn(move || {
            let message = orchestrator.receives("blocker_notification");
            let helper = message["payload"]["dependency"]["responsible_agent"].as_str().unwrap();
            let request = r#"{"urgency":"high","blocked_agent":"builder-1","requested_eta":"within 30 minutes"}"#;
            let conversation = message["conversation"].as_str().unwrap();
            orchestrator.does(&[
                "send",
                helper,
                "builder-1 is blocked and waits for the User model",
                "--type",
                "priority_request",
                "--conversation",
                conversation,
                "--payload",
                request,
            ]);
            let answer = orchestrator.receives("response");
            assert_eq!(answer["payload"]["status"], "acknowledged");
            orchestrator.does(&["ack", &number(&answer)]);
            let resolved = orchestrator.receives("blocker_resolved");
            orchestrator.does(&["ack", &number(&resolved)]);
            orchestrator.does(&["done", &number(&message), "--summary", "Minimal impact: partly unblocked"]);
        });
        scope.spawn(move || {
            let request = helper.receives("priority_request");
            let eta = r#"{"status":"acknowledged","current_progress":"75%","eta":"16:15"}"#;
            helper.does(&["ack", &number(&request), "--note", "On it"]);
            helper.does(&["reply", &number(&request), "Interface now, the rest later", "--payload", eta, "--done"]);
            let interface = r#"{"interface":"User","fields":["id","email","refreshToken"]}"#;
            let conversation = request["conversation"].as_str().unwrap();
            let blocked = request["payload"]["blocked_agent"].as_str().unwrap();
            helper.does(&[
                "send",
                blocked,
                "Partial User interface",
                "--type",
                "interface_contract",
                "--conversation",
                conversation,
                "--payload",
                interface,
            ]);
        });
        let title = "Cannot implement JWT refresh without User model";
        blocked.does(&["publish", "BlockerEncountered", title, "--type", "blocker_notification", "--payload", blocker]);
        // The blocker is open until it is reported as resolved, whatever is done about it.
        let interface = blocked.receives("interface_contract");
        let open = desk.json(&["report", "blocker", "1"]);
        assert_eq!((&open["status"], &open["resolution_ms"]), (&Value::from("open"), &Value::Null));
        blocked.does(&["done", &number(&interface), "--summary", "Enough to go on"]);
        let conversation = interface["conversation"].as_str().unwrap();
        blocked.does(&[
            "publish",
            "BlockerResolved",
            "Partial interface received from builder-2",
            "--type",
            "blocker_resolved",
            "--conversation",
            conversation,
        ]);
    });

    // Any message of the conversation identifies the blocker.
    let report = desk.json(&["report", "blocker", "4"]);
    assert_eq!(report, desk.json(&["report", "blocker", "1"]));
    assert_eq!((&report["number"], &report["status"]), (&Value::from(1), &Value::from("resolved")));
    assert_eq!((&report["reported_by"], &report["resolved_by"]), (&"builder-1".into(), &"builder-1".into()));
    assert_eq!(report["blocker_type"], "missing_dependency");
    assert_eq!(report["resolution"], "Partial interface received from builder-2");
    assert!(report["resolution_ms"].as_i64().unwrap() > 0);
    assert!(in_order(&[&report["reported_at"], &report["resolved_at"]]));
    assert_eq!(report["waiting"], Value::Array(Vec::new()));

    let timeline = report["timeline"].as_array().unwrap();
    let told: Vec<String> = timeline
        .iter()
        .map(|step| {
            let (by, what) = (step["by"].as_str().unwrap(), step["what"].as_str().unwrap());
            format!("{by} {what} {}", step["number"])
        })
        .collect();
    // The steps of a chain happen in order; those of different chains may interleave.
    let chains: [&[&str]; 3] = [
        &[
            "builder-1 reported 1",
            "orchestrator shown 1",
            "orchestrator sent 2",
            "builder-2 shown 2",
            "builder-2 acknowledged 2",
            "builder-2 answered 3",
            "orchestrator shown 3",
            "orchestrator acknowledged 3",
            "orchestrator shown 5",
            "orchestrator acknowledged 5",
            "orchestrator done 1",
        ],
        &["builder-2 answered 3", "builder-2 sent 4", "builder-1 shown 4", "builder-1 done 4", "builder-1 resolved 5"],
        &["builder-1 resolved 5", "orchestrator shown 5"],
    ];
    for chain in chains {
        let places: Vec<usize> = chain
            .iter()
            .map(|step| told.iter().position(|told| told == step).unwrap_or_else(|| panic!("no {step}: {told:#?}")))
            .collect();
        assert!(places.is_sorted(), "{chain:?}: {told:#?}");
    }
    let moments: Vec<&Value> = timeline.iter().map(|step| &step["at"]).collect();
    assert!(in_order(&moments));

    let text = desk.run(&["report", "blocker", "1"]);
    for part in ["- Reported by: builder-1\n", "- Status: **resolved** by builder-1: Partial", "- Resolution time: "] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let diagram = desk.run(&["report", "blocker", "1", "--mermaid"]);
    assert!(diagram.starts_with("sequenceDiagram\n    participant p0 as builder-1\n"), "{diagram}");
    let conversation = desk.json(&["report", "conversation", "1"]);
    assert_eq!((&conversation["status"], &conversation["messages"]["count"]), (&"resolved".into(), &5.into()));
    desk.verify();
}
