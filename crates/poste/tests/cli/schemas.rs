//! `poste schema`, and that every answer matches its schema.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn schemas_are_printed_for_commands_lines_of_a_batch_and_types() {
    let mut desk = Desk::new();
    desk.play(
        "
        poste schema send
        poste schema 'wait --replies'
        poste schema question
        poste schema nothing-of-that-name
        poste schema
        ",
    );
    assert_transcript!(desk);
}

/// How a value violates a schema. Supports the keywords that our schemas use, and reports any other.
fn mismatches(root: &Value, schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let Some(rules) = schema.as_object() else {
        return if schema == &Value::Bool(true) { Vec::new() } else { vec![format!("{path}: no schema: {schema}")] };
    };
    let mut wrong = Vec::new();
    for (keyword, rule) in rules {
        match keyword.as_str() {
            "$schema" | "title" | "description" | "default" | "format" | "$defs" | "additionalProperties" => {}
            "$ref" => {
                let name = rule.as_str().and_then(|name| name.strip_prefix("#/$defs/")).unwrap_or_default();
                wrong.extend(mismatches(root, &root["$defs"][name], value, path));
            }
            "type" => {
                let allowed: Vec<&str> = match rule {
                    Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
                    word => word.as_str().into_iter().collect(),
                };
                if !allowed.iter().any(|word| is_a(value, word)) {
                    wrong.push(format!("{path}: {value} is none of {allowed:?}"));
                }
            }
            "enum" if !rule.as_array().is_some_and(|words| words.contains(value)) => {
                wrong.push(format!("{path}: {value} is not listed"));
            }
            "const" if rule != value => wrong.push(format!("{path}: {value} is not {rule}")),
            "maximum" if value.is_number() && value.as_f64() > rule.as_f64() => {
                wrong.push(format!("{path}: {value} is too large"));
            }
            "minimum" if value.is_number() && value.as_f64() < rule.as_f64() => {
                wrong.push(format!("{path}: {value} is too small"));
            }
            "anyOf" | "oneOf" => {
                let mut branches = rule.as_array().into_iter().flatten();
                if !branches.any(|branch| mismatches(root, branch, value, path).is_empty()) {
                    wrong.push(format!("{path}: {value} fits no branch"));
                }
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    wrong.extend(mismatches(root, rule, item, &format!("{path}[{index}]")));
                }
            }
            "properties" => {
                for (name, inner) in value.as_object().into_iter().flatten() {
                    match rule.get(name) {
                        Some(rule) => wrong.extend(mismatches(root, rule, inner, &format!("{path}.{name}"))),
                        None => wrong.push(format!("{path}.{name}: the schema does not know it")),
                    }
                }
            }
            "required" => {
                let names = rule.as_array().into_iter().flatten().filter_map(Value::as_str);
                let missing = names.filter(|name| value.is_object() && value.get(name).is_none());
                wrong.extend(missing.map(|name| format!("{path}.{name}: it is missing")));
            }
            "pattern" if value.as_str() == Some("") => wrong.push(format!("{path}: no pattern matches an empty text")),
            "enum" | "const" | "minimum" | "maximum" | "pattern" => {}
            other => wrong.push(format!("{path}: the test does not know the keyword {other}")),
        }
    }
    wrong
}

fn is_a(value: &Value, word: &str) -> bool {
    match word {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

/// A use of every command, with the name of its answer's schema.
const DAY: &[(&str, &str)] = &[
    ("init", "init --in ."),
    ("register", "register extra --role helper --capability prose"),
    ("agents", "agents --all"),
    ("whoami", "whoami --as coder --session run-1"),
    (
        "send",
        "send coder 'Fix it' 'Now.' --type directive --artifact plan.md --payload '{\"a\":[1]}' --meta a=b --as lead",
    ),
    ("send", "send coder,reviewer 'Which?' --type question --respond-by 2h --as lead"),
    ("send --batch", "send --batch lines.jsonl --as lead"),
    ("broadcast", "broadcast Lunch --as lead"),
    ("subscribe", "subscribe Builds --as lead"),
    ("publish", "publish Builds 'Build 1' --as coder"),
    ("topics", "topics"),
    ("unsubscribe", "unsubscribe Builds --as lead"),
    ("inbox", "inbox --as coder"),
    ("read", "read 1 --as coder"),
    ("verify", "verify 1"),
    ("claim", "claim 1 --as coder --session run-1"),
    ("extend", "extend 1 --as coder --session run-1"),
    ("release", "release 1 --as coder --session run-1"),
    ("claim", "claim 1 --as coder --session run-1"),
    ("reserve", "reserve 'src/**' docs --why 'a change' --as coder"),
    ("reserve", "reserve notes --shared --as lead"),
    ("extend PATTERN", "extend docs --for 2h --as coder"),
    ("release PATTERN", "release docs --as coder"),
    ("reservations", "reservations --all"),
    ("log why --reservation", "log why --reservation 2"),
    ("guard check", "guard check src/a.rs --as coder"),
    ("done", "done 1 --summary Fixed --file plan.md --as coder --session run-1"),
    ("reply", "reply 2 Left --done --as coder"),
    ("ack", "ack 2 --as reviewer"),
    ("wait --replies", "wait --replies 2 --any --as lead"),
    ("forward", "forward 2 anna --as reviewer"),
    ("wake", "wake coder --as lead"),
    ("fail", "fail 3 --reason No --as coder"),
    ("retry", "retry 3 --as lead"),
    ("wait", "wait --timeout 0s --as lead"),
    ("tail", "tail --log --after 0 --for 0s"),
    ("track", "track 1"),
    ("track", "track 2"),
    ("search", "search fix"),
    ("log show", "log show"),
    ("log why", "log why 2"),
    ("log why --id", "log why --id nothing"),
    ("log why --id", "log why --id line-1"),
    ("log verify", "log verify"),
    ("thread", "thread 2"),
    ("thread", "thread 2 --summary"),
    ("send", "send coder 'Plan the release' --type directive --conversation release --as lead"),
    ("thread close", "thread close 9 --outcome Cancelled --as lead"),
    ("threads", "threads"),
    ("dead list", "dead list"),
    ("dead show", "dead show 9"),
    ("dead drop", "dead drop 9 --reason Cancelled --as lead"),
    ("dead list", "dead list --dropped"),
    ("dead retry", "dead retry 9 --as lead"),
    ("overdue", "overdue --older 0s --within 1h"),
    ("ask", "ask anna 'Ship it?' --by 1h --default deny --as lead"),
    ("ask", "ask anna 'Really?' --as lead"),
    ("read", "read 10 --as anna"),
    ("approvals", "approvals --as anna"),
    ("approve", "approve 10 --note Yes --as anna"),
    ("deny", "deny 11 --reason No --as anna"),
    ("approvals N", "approvals 10"),
    ("session start", "session start --name top --goal 'Ship it' --as lead"),
    ("session start", "session start --name below --parent top --as coder"),
    ("session note", "session note --question 'Which?' --in below --as coder"),
    ("session note", "session note --answer q1 This --as lead"),
    ("session note", "session note --decision 'This one' --as lead"),
    ("session list", "session list --all"),
    ("session show", "session show top"),
    ("whoami", "whoami --as lead"),
    ("session close", "session close top --summary Done --as lead"),
    ("status", "status"),
    ("stats", "stats"),
    ("context create", "context create api '# Api' --as lead"),
    (
        "handoff create",
        "handoff create coder --task 'Take it' --artifact plan.md --context api --check One --verify true --as lead",
    ),
    ("handoff list", "handoff list"),
    ("handoff show", "handoff show NEWEST"),
    ("handoff accept", "handoff accept NEWEST --check 1 --verify --notes Fine --as coder"),
    ("handoff show", "handoff show NEWEST"),
    ("handoff export", "handoff export NEWEST package"),
    ("handoff create", "handoff create coder --task 'Take it' --as lead"),
    ("handoff reject", "handoff reject NEWEST --reason No --as coder"),
    ("handoff create", "handoff create coder --task 'Take it' --as lead"),
    ("handoff withdraw", "handoff withdraw NEWEST --reason No --as lead"),
    ("handoff show", "handoff show NEWEST"),
    ("send", "send lead 'No disk left' --type blocker_notification --conversation disk --as coder"),
    ("report broadcast", "report broadcast 2"),
    ("report blocker", "report blocker disk"),
    ("report conversation", "report conversation 2"),
    ("report agent", "report agent coder"),
    ("report day", "report day today"),
    ("redact", "redact 1 --results --reason 'A password' --as anna"),
    ("read", "read 1 --as coder"),
    ("archive", "archive --older 0s --as lead"),
    ("track", "track 1"),
    ("report conversation", "report conversation 1"),
    ("log follow", "log follow --after 0 --for 0s"),
    ("log replay", "log replay --until 9"),
    ("log replay --inbox", "log replay --until 9 --inbox coder"),
    ("log replay --message", "log replay --until 9 --message 1"),
    ("log diff-digest", "log diff-digest"),
    ("types", "types"),
    ("clock accept", "clock accept --as anna"),
    ("config check", "config check"),
    ("config show", "config show"),
    ("config set", "config set delivery.lease 20m"),
    ("trust", "trust"),
    ("adopt", "adopt"),
    ("token person", "token person"),
    ("token list", "token list"),
    // The only hook that always prints something.
    ("hook", "hook stop --program codex"),
    ("setup", "setup gemini --no-proof"),
    ("setup", "setup gemini --dry-run --remove"),
    ("completions", "completions bash"),
    ("man", "man"),
    ("spawn", "spawn helper --role helper --mode subagent --preset codex"),
    ("team add", "team add other --preset aider"),
    ("team list", "team list"),
    ("team status", "team status"),
    ("team stop", "team stop helper --within 0s --as lead"),
    ("team up", "team up"),
    ("context create", "context create plan '# Plan' --data '{\"a\":1}' --as lead"),
    ("context append", "context append plan 'A section' --title One --as coder"),
    ("context replace", "context replace plan '# Another plan' --if-version 2 --as lead"),
    ("context set", "context set plan --data '{\"a\":2}' --if-version 3 --as lead"),
    ("context show", "context show plan --as reviewer"),
    ("context append", "context append plan 'More' --as coder"),
    ("inbox", "inbox --as reviewer"),
    ("context since", "context since plan --as reviewer"),
    ("context history", "context history plan"),
    ("context diff", "context diff plan 1.."),
    ("context lock", "context lock plan --as lead"),
    ("context list", "context list --as coder"),
    ("context unlock", "context unlock plan --force --reason Stuck --as anna"),
    ("context mirror", "context mirror plan"),
    ("send", "send coder IUser --type interface_contract --payload '{\"name\":\"IUser\"}' --as lead"),
    ("agree", "agree NEWEST --context plan --as coder"),
    ("agree", "agree NEWEST --list"),
    ("ingest stdin", "ingest stdin coder --subject 'From outside'"),
    ("watch list", "watch list"),
    ("watch", "watch --once"),
    ("watch status", "watch status"),
    ("watch dead", "watch dead"),
    ("watch test", "watch test lines"),
    ("workflow lint", "workflow lint"),
    ("workflow list --definitions", "workflow list --definitions"),
    ("workflow run", "workflow run flow --as lead"),
    ("workflow list", "workflow list --all"),
    ("workflow approve", "workflow approve flow-1 go --as lead"),
    ("workflow show", "workflow show flow-1"),
    ("workflow advance", "workflow advance --as lead"),
    ("workflow graph", "workflow graph flow-1"),
    ("workflow cancel", "workflow cancel flow-1 --as lead"),
    ("workflow run", "workflow run flow --as lead"),
    ("workflow approve", "workflow approve flow-2 --choice deny --as lead"),
    ("workflow retry", "workflow retry flow-2 --as lead"),
    ("dispatch send", "dispatch send robot Go --as lead"),
    ("dispatch --dry-run", "dispatch --dry-run"),
    ("dispatch poll", "dispatch poll"),
    ("dispatch status", "dispatch status"),
    ("dispatch runs", "dispatch runs"),
    ("dispatch logs", "dispatch logs NEWEST"),
    ("retire", "retire extra --as lead"),
    ("demo", "demo --pace 0s --in played"),
    ("doctor", "doctor --verbose"),
    ("snapshot", "snapshot copy"),
    ("restore", "restore copy --replace"),
];

/// Every JSON line these commands print, with its schema.
fn day() -> Vec<(String, Value, Value)> {
    let mut desk = Desk::staffed();
    desk.file("plan.md", "# Plan\n");
    let flow = "[[step]]\nkey = \"go\"\napproval = \"lead\"\nrequest = \"Go?\"\n\
                [[step]]\nkey = \"do\"\nagent = \"coder\"\nneeds = [\"go\"]\nrequest = \"Do\"\n";
    desk.file("workflows/flow.toml", flow);
    desk.file(
        ".poste/local.toml",
        "[wake]\ncommand = [\"true\"]\n[agent.robot]\nrun = [\"/bin/sh\", \"-c\", \"echo done\"]\n\
         [[on]]\nname = \"lines\"\npriority = \"low\"\nsince = \"start\"\nhandler = \"log\"\n",
    );
    desk.trust();
    desk.file("lines.jsonl", "{\"to\":\"coder\",\"subject\":\"From a batch\",\"id\":\"line-1\"}\n");
    let mut answers = Vec::new();
    let mut newest = String::new();
    for (name, command) in DAY {
        let command = &command.replace("NEWEST", &newest);
        let schema = desk.call(&["schema", name], b"").ok();
        let schema: Value = serde_json::from_str(schema.out()).expect("a schema is JSON");
        if *name == "handoff accept" {
            let number = command.split(' ').nth(2).unwrap_or_default();
            desk.quietly(&format!("poste trust --handoff {number}"));
        }
        let ran = desk.peek(&format!("poste {command} --json")).ok();
        assert_ne!(ran.out(), "", "{command} printed nothing");
        for line in ran.out().lines() {
            let value: Value = serde_json::from_str(line).expect("an answer is JSON");
            if ["send", "dispatch send", "handoff create"].contains(name) {
                newest = value["number"].to_string();
            }
            answers.push(((*command).to_owned(), schema.clone(), value));
        }
    }
    answers
}

#[test]
fn every_answer_is_what_its_schema_says() {
    let answers = day();
    assert!(answers.len() > DAY.len());
    for (command, schema, value) in &answers {
        let wrong = mismatches(schema, schema, value, "answer");
        assert!(wrong.is_empty(), "poste {command} --json: {wrong:#?}\n{value:#}");
    }
    // The check itself can fail: a missing field, an extra field, a wrong value.
    let (_, schema, value) = answers.into_iter().find(|(command, ..)| command.starts_with("agents")).unwrap();
    let spoiled = |change: &dyn Fn(&mut Value)| {
        let mut spoiled = value.clone();
        change(&mut spoiled["agents"][0]);
        mismatches(&schema, &schema, &spoiled, "answer").len()
    };
    assert_eq!(spoiled(&|agent| drop(agent.as_object_mut().unwrap().remove("name"))), 1);
    assert_eq!(spoiled(&|agent| agent["more"] = Value::Null), 1);
    assert_eq!(spoiled(&|agent| agent["pending"] = Value::from("many")), 1);
    assert_eq!(spoiled(&|agent| agent["kind"] = Value::from("robot")), 1);
}

#[test]
fn every_command_that_has_a_schema_is_used_in_that_day() {
    let mut desk = Desk::new();
    let used: BTreeSet<&str> = DAY.iter().map(|(name, _)| *name).collect();
    let help = desk.peek("poste --help").ok();
    let commands =
        help.out().lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let mut known = 0;
    for command in commands.filter_map(|line| line.split_whitespace().next()) {
        known += 1;
        let is_used = used.iter().any(|name| name.split(' ').next() == Some(command));
        assert!(is_used || ["schema", "mcp"].contains(&command), "{command} is not in DAY");
    }
    assert!(known >= 30, "too few commands were found: {known}");
}

/// Collects the optional properties of every object in a schema.
fn optional_properties(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let optional = properties.keys().filter(|name| !required.iter().any(|word| word == name.as_str()));
        found.extend(optional.map(|name| format!("{path}.{name}")));
    }
    for (name, inner) in schema.get("$defs").and_then(Value::as_object).into_iter().flatten() {
        optional_properties(inner, name, found);
    }
}

#[test]
fn what_an_answer_always_has_its_schema_requires() {
    let mut optional = BTreeSet::new();
    for (_, schema, _) in day() {
        let title = schema["title"].as_str().unwrap_or_default().to_owned();
        optional_properties(&schema, &title, &mut optional);
    }
    // Only these may be missing: base64 of bytes that are text, and what a file promised for later cannot have yet.
    optional.retain(|name| !name.ends_with("_base64") && !name.starts_with("Artifact."));
    assert!(optional.is_empty(), "{optional:#?}");
}

#[test]
fn a_line_that_fits_the_schema_of_its_type_is_sent() {
    let mut desk = Desk::staffed();
    let schema: Value = serde_json::from_str(desk.peek("poste schema question").ok().out()).unwrap();
    let line = serde_json::json!({
        "to": ["coder"], "subject": "Which?", "type": "question", "priority": "high", "wants_response": true,
        "respond_by": "1h", "payload": { "a": 1 }, "references": ["a"], "metadata": { "a": "b" }, "reply_to": null,
    });
    assert_eq!(mismatches(&schema, &schema, &line, "line"), Vec::<String>::new());
    let _ = desk.call(&["send", "--batch", "-", "--as", "lead"], line.to_string().as_bytes()).ok();
    let other = serde_json::json!({ "to": "coder", "subject": "Which?", "type": "alert" });
    assert!(!mismatches(&schema, &schema, &other, "line").is_empty());
}
