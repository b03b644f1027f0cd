use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{BOTH, Desk, PATIENCE, PROGRESS, Revision};

#[test]
fn work_goes_from_one_agent_to_another_and_back() {
    for revision in BOTH {
        let desk = Desk::new(&["lead", "coder"]);
        let mut lead = desk.server(Some("lead"), &[], revision);
        let mut coder = desk.server(Some("coder"), &[], revision);
        let sent = lead.call(
            "send_message",
            json!({ "to": "coder", "subject": "Fix the login", "body": "--help\nIt fails with a 500.", "type": "directive" }),
        );
        assert_eq!(sent["structuredContent"]["number"], 1, "{sent}");
        assert!(sent["structuredContent"]["next"].as_str().unwrap().contains("office action=track number=1"));

        let inbox = coder.call("check_inbox", json!({}));
        assert_eq!(inbox["structuredContent"]["messages"][0]["subject"], "Fix the login");
        assert!(!desk.is_shown("coder", 1), "a listing does not mark messages as shown");

        let read = coder.tool("read_message", json!({ "number": 1 }));
        assert!(read.contains("from: lead (trust: agent)") && read.contains("--help\nIt fails"), "{read}");
        assert!(read.contains("claim_work number=1"), "{read}");
        coder.tool("check_inbox", json!({})); // the previous answer is marked by now
        assert!(desk.is_shown("coder", 1));

        let claimed = coder.tool("claim_work", json!({}));
        assert!(claimed.contains("It fails with a 500.") && claimed.contains("#1 is yours until"), "{claimed}");
        let extended = coder.tool("finish_work", json!({ "number": 1, "outcome": "extend", "lease": "30m" }));
        assert!(extended.contains("extended"), "{extended}");
        coder.tool("finish_work", json!({ "number": 1, "outcome": "release" }));
        coder.tool("claim_work", json!({ "number": 1 }));
        let done = coder.tool("finish_work", json!({ "number": 1, "outcome": "done", "summary": "A null check" }));
        assert!(done.contains("#1 done"), "{done}");
        let track = lead.tool("office", json!({ "action": "track", "number": 1 }));
        assert!(track.contains("A null check") && track.starts_with("<poste-output-"), "{track}");
        assert!(track.contains("from lead via mcp, stored"), "{track}");
        let steps = desk.json(&["track", "1"])["deliveries"][0]["history"].clone();
        assert!(steps.as_array().unwrap().iter().all(|step| step["origin"]["via"] == "mcp"), "{steps}");

        coder.tool("send_message", json!({ "to": "lead", "subject": "May I?", "type": "question" }));
        let reply = lead.tool("reply", json!({ "number": 2, "body": "- yes\n- do", "done": true }));
        assert!(reply.contains("#3 stored for coder"), "{reply}");
        let news = coder.tool("wait_for_mail", json!({ "seconds": 5 }));
        assert!(news.contains("- yes\n- do"), "{news}");
        let nothing = coder.call("wait_for_mail", json!({ "seconds": 0 }));
        assert_eq!(nothing["structuredContent"]["messages"], json!([]), "{nothing}");
        assert_ne!(nothing["isError"], true);
    }
}

#[test]
fn contexts_and_handoffs_are_shared() {
    let desk = Desk::new(&["lead", "coder"]);
    std::fs::write(desk.path().join("design.md"), "The design").unwrap();
    let mut lead = desk.server(Some("lead"), &[], Revision::Handshake);
    let mut coder = desk.server(Some("coder"), &[], Revision::Handshake);
    lead.tool("context", json!({ "action": "create", "name": "decisions", "text": "# Decisions" }));
    coder.tool("context", json!({ "action": "append", "name": "decisions", "title": "Tokens", "text": "RS256" }));
    let since = lead.tool("context", json!({ "action": "since", "name": "decisions" }));
    assert!(since.contains("+RS256") && since.starts_with("<poste-"), "{since}");
    let shown = coder.tool("context", json!({ "action": "show", "name": "decisions" }));
    assert!(shown.starts_with("<poste-context-") && shown.contains("RS256"), "{shown}");
    let stale = lead.refused("context", json!({ "action": "replace", "name": "decisions", "text": "x", "version": 1 }));
    assert!(stale.contains("hint:") && !stale.contains("--"), "a text for a model names no options: {stale}");
    lead.tool("context", json!({ "action": "replace", "name": "decisions", "text": "x", "version": 2 }));
    assert!(coder.tool("context", json!({ "action": "list" })).contains("decisions"));
    let near = lead.refused("context", json!({ "action": "show", "name": "decision" }));
    assert!(near.contains("decisions"), "{near}");

    let made = lead.call(
        "handoff",
        json!({ "action": "create", "to": "coder", "task": "Build it", "files": ["design.md"], "checks": ["Understood"] }),
    );
    let number = made["structuredContent"]["number"].as_u64().unwrap_or_else(|| panic!("{made}"));
    let shown = coder.tool("handoff", json!({ "action": "show", "number": number }));
    assert!(shown.contains("Build it") && shown.contains("design.md"), "{shown}");
    let unchecked = coder.refused("handoff", json!({ "action": "accept", "number": number }));
    assert!(unchecked.contains("Understood") && unchecked.contains("checks=1,2 or checks=all"), "{unchecked}");
    assert!(!unchecked.contains("--") && !unchecked.contains("override"), "{unchecked}");
    coder.tool("handoff", json!({ "action": "accept", "number": number, "checks": ["1"] }));
    assert!(lead.tool("handoff", json!({ "action": "list" })).contains("accepted"));
    assert!(coder.refused("handoff", json!({ "action": "reject", "number": number })).contains("text"));
}

#[test]
fn errors_teach() {
    let desk = Desk::new(&["lead", "coder"]);
    let mut lead = desk.server(Some("lead"), &[], Revision::Handshake);
    let near = lead.refused("send_message", json!({ "to": "codr", "subject": "x" }));
    assert!(near.contains("coder"), "{near}");
    let missing = lead.refused("send_message", json!({ "to": "coder" }));
    assert!(missing.contains("subject") && missing.contains("it needs to, subject"), "{missing}");
    let unknown = lead.error("tools/call", json!({ "name": "sned", "arguments": {} }));
    assert!(unknown["message"].as_str().unwrap().contains("send_message"), "{unknown}");

    // After a lost lease, the error names the new holder.
    lead.tool("send_message", json!({ "to": "role:worker", "subject": "work", "type": "directive" }));
    desk.run(&["register", "other", "--role", "worker"]);
    let mut coder = desk.server(Some("coder"), &[], Revision::Handshake);
    coder.tool("claim_work", json!({ "number": 1, "lease": "1s" }));
    std::thread::sleep(Duration::from_millis(1_300));
    desk.run(&["inbox", "--as", "other"]);
    let claimed = Instant::now();
    while claimed.elapsed() < Duration::from_secs(60) {
        // The expired lease counts as an attempt, so the message can be claimed only after the retry delay.
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_poste"))
            .args(["claim", "1", "--as", "other"])
            .current_dir(desk.path())
            .env_clear()
            .env("XDG_STATE_HOME", poste_testkit::state::home())
            .output()
            .unwrap();
        if output.status.success() {
            break;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    let lost = coder.refused("finish_work", json!({ "number": 1, "outcome": "done", "summary": "late" }));
    assert!(lost.contains("held by other"), "{lost}");
}

#[test]
fn an_error_is_data_for_the_program_too() {
    let desk = Desk::new(&["lead"]);
    let mut lead = desk.server(Some("lead"), &[], Revision::Handshake);
    let refused = lead.call("read_message", json!({ "number": 99 }));
    let error = &refused["structuredContent"]["error"];
    assert_eq!((&refused["isError"], &error["kind"]), (&json!(true), &json!("not_found")), "{refused}");
    assert_eq!((&error["stored"], &error["partial"]), (&json!([]), &Value::Null), "{refused}");
    assert!(error["calls"].is_array() && error["message"].is_string(), "{refused}");
}

#[test]
fn a_living_agent_keeps_what_it_claimed() {
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["send", "coder", "work", "--type", "directive", "--as", "lead"]);
    let mut coder = desk.server(Some("coder"), &[], Revision::Handshake);
    coder.tool("claim_work", json!({ "lease": "8s" }));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(12) {
        coder.tool("check_inbox", json!({}));
        std::thread::sleep(Duration::from_millis(300));
    }
    let done = coder.tool("finish_work", json!({ "number": 1, "outcome": "done", "summary": "it took longer" }));
    assert!(done.contains("#1 done"), "{done}");
}

#[test]
fn who_speaks_is_no_argument() {
    let desk = Desk::new(&["lead", "coder"]);
    let mut coder = desk.server(Some("coder"), &[], Revision::Handshake);
    for (tool, arguments) in [
        ("send_message", json!({ "to": "coder", "subject": "x", "as": "lead" })),
        ("check_inbox", json!({ "agent": "lead" })),
        ("office", json!({ "action": "register", "name": "lead" })),
        ("office", json!({ "action": "register", "name": "mallory" })),
        ("office", json!({ "action": "whoami", "as": "lead" })),
        ("office", json!({ "action": "whoami", "office": "/tmp" })),
        ("office", json!({ "action": "whoami", "session": "s" })),
    ] {
        coder.refused(tool, arguments);
    }
    coder.tool("send_message", json!({ "to": "lead", "subject": "--as=lead" }));
    let page = desk.json(&["inbox", "--as", "lead"]);
    assert_eq!(page["messages"][0]["from"], "coder");
    assert_eq!(page["messages"][0]["subject"], "--as=lead");
    assert_eq!(page["messages"].as_array().unwrap().len(), 1);
    assert!(!desk.run(&["agents"]).contains("mallory"));
}

/// Only a person at a terminal may lift a check, run a program or leave the worktree.
#[test]
fn no_tool_takes_a_command_line_or_lifts_a_check() {
    let desk = Desk::new(&["coder"]);
    let mut coder = desk.server(Some("coder"), &["--profile", "full"], Revision::Handshake);
    let tools = coder.request("tools/list", json!({}));
    for tool in tools["tools"].as_array().unwrap() {
        let fields = tool["inputSchema"]["properties"].as_object().unwrap();
        for field in fields.keys() {
            let a_persons = ["args", "allow_secret", "override", "worktree", "kind", "verify", "force", "shell", "out"];
            assert!(!a_persons.contains(&field.as_str()), "{} takes {field}", tool["name"]);
        }
    }
    let unknown = coder.error("tools/call", json!({ "name": "poste", "arguments": { "args": ["agents"] } }));
    assert!(unknown["message"].as_str().unwrap().contains("there is no tool"), "{unknown}");
    let stray = coder.refused("send_message", json!({ "to": "coder", "subject": "x", "allow_secret": true }));
    assert!(stray.contains("allow_secret"), "{stray}");
}

#[test]
fn a_session_without_a_name_takes_one_and_keeps_it() {
    let desk = Desk::new(&["lead"]);
    let mut client = desk.server(None, &[], Revision::Handshake);
    let unnamed = client.refused("check_inbox", json!({}));
    assert!(unnamed.contains("register"), "{unnamed}");
    assert!(client.tool("office", json!({ "action": "agents" })).contains("lead"));
    client.tool("office", json!({ "action": "register", "name": "coder", "role": "builder" }));
    assert!(client.tool("check_inbox", json!({})).contains("no mail for coder"));
    let sessions = desk.json(&["session", "list"]);
    assert_eq!(sessions["sessions"][0]["agent"], "coder");
    assert_eq!(
        sessions["sessions"][0]["pid"],
        std::process::id(),
        "the session is bound to the program that started the server"
    );
    assert!(client.hang_up().success());
    // The name is stored in the session record: the next server of the same program finds it.
    let mut again = desk.server(None, &[], Revision::Stateless);
    assert!(again.tool("office", json!({ "action": "whoami" })).contains("coder"));
}

#[test]
fn a_name_in_use_is_not_taken_from_whoever_has_it() {
    let desk = Desk::new(&["lead"]);
    desk.run(&["session", "start", "--as", "lead", "--pid", "1"]);
    let mut client = desk.server(None, &[], Revision::Handshake);
    let refused = client.refused("office", json!({ "action": "register", "name": "lead", "role": "worker" }));
    assert!(refused.contains("own_name=true") && refused.contains("ask a person"), "{refused}");
    client.refused("check_inbox", json!({}));
    // A program that names its session is believed.
    let params = json!({
        "name": "office",
        "arguments": { "action": "register", "name": "lead", "role": "worker", "own_name": true },
        "_meta": { "sessionId": "0199-of-the-program" },
    });
    let result = client.request("tools/call", params);
    assert_ne!(result["isError"], true, "{result}");
    let sessions = desk.json(&["session", "list"]);
    let own = sessions["sessions"].as_array().unwrap().iter().find(|session| session["agent"] == "lead-2").unwrap();
    assert_eq!(own["id"], "0199-of-the-program");
    assert!(client.tool("check_inbox", json!({})).contains("no mail for lead-2"));
}

#[test]
fn waiting_is_told_cancelled_and_woken() {
    for revision in BOTH {
        let desk = Desk::new(&["lead", "coder"]);
        let mut client = desk.server(Some("coder"), &[], revision);
        // Woken by mail.
        let id = client.begin_waiting(600);
        desk.run(&["send", "coder", "first", "--as", "lead"]);
        let answer = client.answer(id);
        assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("subject: first"), "{answer}");

        // Cancelled: no answer, and later mail is not marked as shown.
        let id = client.begin_waiting(600);
        let progress = client.notification(PROGRESS, PATIENCE).expect("more progress");
        assert_eq!(progress["params"]["progressToken"], "p");
        assert_eq!(progress["params"]["total"], 600.0);
        assert!(progress["params"]["progress"].as_f64().unwrap() > 1.0, "{progress}");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
        desk.run(&["send", "coder", "second", "--as", "lead"]);
        assert!(client.tool("check_inbox", json!({})).contains("second"));
        let stray: Vec<&Value> = client.notifications.iter().filter(|message| message["id"] == id).collect();
        assert!(stray.is_empty(), "{stray:?}");
        assert!(!desk.is_shown("coder", 2));
        // It stopped waiting, so the server exits at once.
        assert!(client.hang_up().success());
    }
}

#[test]
fn the_office_tells_who_is_here_and_what_became_of_mail() {
    let desk = Desk::new(&["lead", "coder"]);
    let mut coder = desk.server(Some("coder"), &[], Revision::Handshake);
    coder.tool("send_message", json!({ "to": "lead", "subject": "findme please" }));
    assert!(coder.tool("office", json!({ "action": "track", "number": 1 })).contains("lead"));
    assert!(coder.tool("office", json!({ "action": "search", "words": "findme" })).contains("findme"));
    assert!(coder.tool("office", json!({ "action": "thread", "number": 1 })).contains("findme"));
    assert!(coder.tool("office", json!({ "action": "agents" })).contains("lead"));
    coder.tool("office", json!({ "action": "status" }));
    desk.run(&["send", "coder", "news", "--as", "lead"]);
    coder.tool("office", json!({ "action": "ack", "number": 2 }));
}

#[test]
fn the_full_profile_decides_reserves_and_agrees() {
    let desk = Desk::new(&["lead", "coder"]);
    let mut coder = desk.server(Some("coder"), &["--profile", "full"], Revision::Handshake);
    let asked =
        coder.call("ask", json!({ "to": "lead", "question": "Ship it?", "deadline": "1h", "choices": ["yes", "no"] }));
    assert_ne!(asked["isError"], true, "{asked}");
    assert!(coder.tool("approvals", json!({})).contains("Ship it?"));
    let mut lead = desk.server(Some("lead"), &["--profile", "full"], Revision::Handshake);
    lead.tool("decide", json!({ "number": 1, "decision": "approve", "choice": "yes", "reason": "go" }));
    coder.tool("reserve", json!({ "action": "reserve", "patterns": ["src/**"], "reason": "refactoring" }));
    assert!(lead.tool("reserve", json!({ "action": "list" })).contains("src/**"));
    assert!(lead.refused("reserve", json!({ "action": "reserve", "patterns": ["src/main.rs"] })).contains("coder"));
    coder.tool("reserve", json!({ "action": "release", "patterns": ["src/**"] }));
}

/// Texts that look like an option, a command or a pipe.
#[test]
fn a_text_may_say_anything() {
    let desk = Desk::new(&["lead", "coder"]);
    let mut coder = desk.server(Some("coder"), &[], Revision::Handshake);
    let texts = ["call it with --body=-", "--wait", "edit", "follow", "--fix"];
    for text in texts {
        coder.tool("send_message", json!({ "to": "lead", "subject": text, "body": text }));
        coder.tool("send_message", json!({ "to": "lead", "subject": "x", "body": text }));
    }
    coder.tool("send_message", json!({ "to": "lead", "subject": "-", "body": "-" }));
    coder.tool("context", json!({ "action": "create", "name": "notes", "text": "-" }));
    coder.tool("context", json!({ "action": "append", "name": "notes", "title": "edit", "text": "--wait" }));
    assert!(coder.tool("office", json!({ "action": "search", "words": "follow" })).contains("follow"));
    assert_eq!(desk.json(&["whoami", "--as", "lead"])["pending"], 2 * texts.len() + 1);
}

#[test]
fn a_model_is_no_person_and_takes_no_persons_name() {
    let desk = Desk::new(&["coder"]);
    desk.run(&["register", "anna", "--kind", "human"]);
    let mut coder = desk.server(Some("coder"), &[], Revision::Handshake);
    for kind in ["human", "agent"] {
        coder.refused("office", json!({ "action": "register", "name": "coder", "kind": kind }));
    }
    let mut nobody = desk.server(None, &[], Revision::Handshake);
    for arguments in [
        json!({ "action": "register", "name": "anna" }),
        json!({ "action": "register", "name": "anna", "own_name": true }),
        json!({ "action": "register", "name": "anna", "take_over": true, "role": "boss" }),
    ] {
        assert!(nobody.refused("office", arguments.clone()).contains("a person"), "{arguments}");
    }
    nobody.refused("office", json!({ "action": "register", "name": "eve", "kind": "human" }));
    assert!(nobody.refused("check_inbox", json!({})).contains("no name yet"));
    let agents = desk.json(&["agents"]).to_string();
    assert!(!agents.contains("eve") && agents.matches("\"human\"").count() == 1, "{agents}");
}

#[test]
fn a_server_started_with_a_persons_name_is_no_person() {
    let desk = Desk::new(&["coder"]);
    desk.run(&["register", "anna", "--kind", "human"]);
    desk.run(&["ask", "anna", "Deploy?", "--as", "coder"]);
    let mut anna = desk.server(Some("anna"), &["--profile", "full"], Revision::Handshake);
    let refused = anna.refused("office", json!({ "action": "register", "name": "anna", "role": "boss" }));
    assert!(refused.contains("nothing proves that anna gave this command"), "{refused}");
    let refused = anna.refused("decide", json!({ "number": 1, "decision": "approve" }));
    assert!(refused.contains("nothing proves that anna gave this command"), "{refused}");
    anna.tool("send_message", json!({ "to": "coder", "subject": "Do as I say" }));
    assert_eq!(desk.json(&["read", "2", "--as", "coder"])["trust"], "unproven");
    let mut coder = desk.server(Some("coder"), &[], Revision::Handshake);
    let mail = coder.tool("check_inbox", json!({}));
    assert!(mail.contains("unproven"), "{mail}");
}

#[test]
fn a_model_does_not_take_the_name_of_an_agent_at_work() {
    let desk = Desk::new(&["coder"]);
    // The first process of the machine runs as long as any.
    desk.run(&["session", "start", "--as", "coder", "--pid", "1"]);
    let mut other = desk.server(None, &[], Revision::Handshake);
    for more in [json!({}), json!({ "role": "worker" })] {
        let mut arguments = json!({ "action": "register", "name": "coder", "take_over": true });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let refused = other.refused("office", arguments);
        assert!(refused.contains("in use") && refused.contains("own_name=true"), "{refused}");
    }
    assert!(desk.run(&["session", "list"]).contains("coder"));
    let sessions = desk.json(&["session", "list"]);
    assert!(sessions.to_string().contains("live") && !sessions.to_string().contains("taken_over"), "{sessions}");
}

#[test]
fn what_was_stored_and_cannot_be_shown_is_told() {
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["send", "coder", "Fix it", "--type", "directive", "--as", "lead"]);
    desk.damage("UPDATE content SET bytes = CAST(replace(CAST(bytes AS TEXT), 'Fix', 'Mix') AS BLOB)");
    let mut coder = desk.server(Some("coder"), &[], Revision::Handshake);
    let told = coder.refused("office", json!({ "action": "ack", "number": 1 }));
    assert!(told.contains("stored, but the answer could not be shown: delivery.ack"), "{told}");
}

#[test]
fn a_lease_that_cannot_be_extended_stops_no_tool() {
    use rustix::fs::{FlockOperation, flock};
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["send", "coder", "work", "--type", "directive", "--as", "lead"]);
    let patience = [("POSTE_LOCK_TIMEOUT", "100ms")];
    let mut coder = desk.server_with(&patience, Some("coder"), &[], Revision::Handshake);
    coder.tool("claim_work", json!({ "lease": "12s" }));
    std::thread::sleep(Duration::from_millis(6_200)); // more than half of the lease
    let lock = std::fs::File::open(desk.path().join(".poste/write.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    assert!(coder.tool("check_inbox", json!({})).contains("claimed"));
    drop(lock);
    coder.tool("finish_work", json!({ "number": 1, "outcome": "done", "summary": "x" }));
}

#[test]
fn work_of_one_type_is_claimed_before_older_work() {
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["send", "coder", "which port?", "--type", "question", "--as", "lead"]);
    desk.run(&["send", "coder", "work", "--type", "directive", "--as", "lead"]);
    let mut coder = desk.server(Some("coder"), &[], Revision::Handshake);
    assert!(coder.tool("claim_work", json!({ "type": "question" })).contains("#1 is yours"));
    assert!(coder.tool("claim_work", json!({ "type": "directive" })).contains("#2 is yours"));
    assert!(coder.refused("claim_work", json!({ "type": "no type" })).contains("no type"));
}

#[test]
fn a_claim_made_elsewhere_in_the_session_is_finished_here() {
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["send", "coder", "work", "--type", "directive", "--as", "lead"]);
    let mut coder = desk.server(Some("coder"), &[], Revision::Handshake);
    coder.tool("claim_work", json!({ "number": 1 }));
    let session = ["--as", "coder", "--session", "session-of-coder"];
    desk.run(&[&["release", "1"], &session[..]].concat());
    desk.run(&[&["claim", "1"], &session[..]].concat());
    let done = coder.tool("finish_work", json!({ "number": 1, "outcome": "done", "summary": "x" }));
    assert!(done.contains("#1 done"), "{done}");
}

#[test]
fn what_can_only_be_meant_in_one_way_is_taken_so() {
    let desk = Desk::new(&["lead", "coder", "other"]);
    let mut lead = desk.server(Some("lead"), &[], Revision::Handshake);
    lead.tool("send_message", json!({ "to": ["coder", "other"], "subject": 12, "wants_response": "true" }));
    lead.tool("send_message", json!({ "to": "everyone", "subject": "to everybody" }));
    let mut coder = desk.server(Some("coder"), &[], Revision::Handshake);
    assert!(coder.tool("read_message", json!({ "number": "#1" })).contains("subject: 12"));
    assert!(coder.tool("read_message", json!({ "number": "2" })).contains("to everybody"));
    assert!(lead.refused("send_message", json!({ "to": "all", "subject": "x" })).contains("everyone"));
    let refused = coder.refused("read_message", json!({ "number": "two" }));
    assert!(refused.contains("number"), "{refused}");
}

#[test]
fn who_is_registered_is_taken_as_it_is() {
    let desk = Desk::new(&["lead"]);
    desk.run(&["register", "builder-of-things", "--role", "builder", "--capability", "typescript"]);
    let mut client = desk.server(None, &[], Revision::Handshake);
    client.tool("office", json!({ "action": "register", "name": "builder-of-things", "role": "dev" }));
    let known = client.tool("office", json!({ "action": "whoami" }));
    assert!(known.contains("role builder") && known.contains("can typescript"), "{known}");
}

#[test]
fn a_name_that_runs_elsewhere_is_told_once_and_a_name_of_its_own_is_followed() {
    let desk = Desk::new(&["lead", "coder"]);
    let mut elsewhere = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    desk.run(&["session", "start", "--as", "coder", "--pid", &elsewhere.id().to_string()]);
    let mut client = desk.server_with(&[("POSTE_AGENT", "coder")], None, &[], Revision::Handshake);
    let warned = client.tool("check_inbox", json!({}));
    assert!(warned.contains("warning: coder also runs as session") && warned.contains("own_name=true"), "{warned}");
    assert!(!client.tool("check_inbox", json!({})).contains("warning"));
    client.tool("office", json!({ "action": "register", "name": "coder", "own_name": true }));
    assert!(client.tool("check_inbox", json!({})).contains("no mail for coder-2"));
    elsewhere.kill().unwrap();
    elsewhere.wait().unwrap();
}

#[test]
fn a_request_that_cannot_be_read_is_told_from_one_that_does_not_exist() {
    let desk = Desk::new(&["lead"]);
    let mut client = desk.server(Some("lead"), &[], Revision::Handshake);
    let unreadable = client.error("tools/call", json!({ "name": "check_inbox", "arguments": "all" }));
    assert_eq!(unreadable["code"], -32602, "{unreadable}");
    let unknown = client.error("tools/cull", json!({}));
    assert_eq!(unknown["code"], -32601, "{unknown}");
    assert!(unknown["message"].as_str().unwrap().contains("there is no method tools/cull"), "{unknown}");
}
