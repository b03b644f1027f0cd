//! Sources of mail that its recipient must see now.

use serde_json::json;

use super::scene::Scene;
use super::server::Server;

pub(super) struct Source {
    /// Also the recipient's name and role, so that a ring for one source does not cover another.
    pub(super) name: &'static str,
    pub(super) is_person: bool,
    /// Runs before the recipient's session starts, since an agent that acts is awake. Returns what `make` needs.
    pub(super) prepare: fn(&Scene, &str) -> Vec<String>,
    pub(super) make: Make,
    /// Ways that cannot ring for it.
    pub(super) not_by: Option<Never>,
}

pub(super) enum Make {
    /// By a command.
    Now(fn(&Scene, &str, &[String])),
    /// By time, after this command. Any process that looks settles what is due, even without acting as an agent.
    Later(fn(&Scene, &str, &[String])),
}

/// Why some ways cannot ring for a source.
pub(super) struct Never {
    pub(super) ways: &'static [&'static str],
    pub(super) why: &'static str,
}

/// The recipient's own command creates the mail.
const OWN_COMMAND: Never = Never {
    ways: &["command", "claude-socket", "codex-queue", "opencode", "tmux"],
    why: "a command does not ring the agent it acts as: that agent is awake",
};

const SOURCE: Source =
    Source { name: "", is_person: false, prepare: |_, _| Vec::new(), make: Make::Now(|_, _, _| ()), not_by: None };

fn about(who: &str) -> String {
    format!("For {who}")
}

/// A request from the recipient to `peer`.
fn asks_peer(scene: &Scene, who: &str) -> Vec<String> {
    vec![scene.sent(&["send", "peer", &about(who), "--type", "directive", "--as", who])]
}

/// A request that the recipient has claimed.
fn holds_work(scene: &Scene, who: &str) -> Vec<String> {
    let number = scene.sent(&["send", who, &about(who), "--type", "directive", "--as", "peer"]);
    scene.claimed(&number, who);
    vec![number]
}

/// A page for the recipient's role, which another agent has as well.
fn paged_with_mate(scene: &Scene, who: &str) -> Vec<String> {
    let mate = scene.mate(who);
    vec![scene.sent(&["send", &format!("role:{who}"), "Fire", "--type", "page", "--as", "peer"]), mate]
}

/// An open numbered step for `peer`, and a later one for the recipient.
fn comes_second(scene: &Scene, who: &str) -> Vec<String> {
    let step = |to: &str, step: &str| {
        let what = ["--type", "blocker_notification", "--workflow", who, "--step", step, "--as", "boss"];
        scene.sent(&[&["send", to, &about(who)], &what[..]].concat())
    };
    let first = step("peer", "1");
    step(who, "2");
    vec![first]
}

/// Sources that create mail for others as well come last.
pub(super) const SOURCES: &[Source] = &[
    // ── Written ──────────────────────────────────────────────────────────────────────────────────────────────
    Source {
        name: "send",
        make: Make::Now(|scene, who, _| scene.run(&["send", who, "Fire", "--type", "alert", "--as", "peer"])),
        ..SOURCE
    },
    Source {
        name: "mcp-tool",
        make: Make::Now(|scene, who, _| {
            let mut server = Server::start(scene, "peer", &[]);
            let sent = server.call("send_message", &json!({ "to": [who], "subject": "Fire", "type": "alert" }));
            assert_ne!(sent["isError"], true, "{sent}");
        }),
        ..SOURCE
    },
    Source {
        name: "group",
        make: Make::Now(|scene, who, _| {
            scene.run(&["send", &format!("role:{who}"), "Stuck", "--type", "blocker_notification", "--as", "peer"]);
        }),
        ..SOURCE
    },
    Source {
        name: "subscriber",
        prepare: subscribes,
        make: Make::Now(|scene, who, _| {
            scene.run(&["send", &format!("topic:{who}"), "Fire", "--type", "alert", "--as", "peer"]);
        }),
        ..SOURCE
    },
    Source {
        name: "publish",
        prepare: subscribes,
        make: Make::Now(|scene, who, _| scene.run(&["publish", who, "Fire", "--type", "alert", "--as", "peer"])),
        ..SOURCE
    },
    Source {
        name: "late-subscriber",
        prepare: |scene, who| vec![scene.sent(&["publish", who, "Fire", "--type", "alert", "--as", "peer"])],
        make: Make::Now(|scene, who, _| scene.run(&["subscribe", who, "--from", "0", "--as", who])),
        not_by: Some(OWN_COMMAND),
        ..SOURCE
    },
    Source {
        name: "reply",
        prepare: asks_peer,
        make: Make::Now(|scene, _, asked| {
            scene.run(&["reply", &asked[0], "It burns", "--type", "alert", "--as", "peer"]);
        }),
        ..SOURCE
    },
    Source {
        name: "forward",
        prepare: |scene, who| vec![scene.sent(&["send", "peer", &about(who), "--type", "alert", "--as", who])],
        make: Make::Now(|scene, who, sent| scene.run(&["forward", &sent[0], who, "--as", "peer"])),
        ..SOURCE
    },
    Source {
        name: "batch",
        make: Make::Now(|scene, who, _| {
            let line = json!({ "to": who, "subject": "Fire", "type": "alert" });
            let file = scene.write(&format!("{who}.jsonl"), &format!("{line}\n"));
            scene.run(&["send", "--batch", &file.display().to_string(), "--as", "peer"]);
        }),
        ..SOURCE
    },
    Source {
        name: "operator",
        make: Make::Now(|scene, who, _| {
            let file = scene.write(&format!("{who}.txt"), "The disk is full\n");
            scene.run(&["ingest", "stdin", who, "--file", &file.display().to_string()]);
        }),
        ..SOURCE
    },
    Source {
        name: "context-create",
        prepare: |scene, who| {
            scene.run(&["subscribe", &format!("context.{who}"), "--as", who]);
            Vec::new()
        },
        make: Make::Now(|scene, who, _| scene.run(&["context", "create", who, "One", "--as", "peer"])),
        ..SOURCE
    },
    Source {
        name: "context-replace",
        prepare: follows_context,
        make: Make::Now(|scene, who, _| {
            scene.run(&["context", "replace", who, "Two", "--if-version", "1", "--as", "peer"]);
        }),
        ..SOURCE
    },
    Source {
        name: "context-unlock",
        prepare: |scene, who| {
            scene.run(&["context", "create", who, "One", "--as", "peer"]);
            scene.run(&["context", "lock", who, "--as", who]);
            Vec::new()
        },
        make: Make::Now(|scene, who, _| {
            scene.run(&["context", "unlock", who, "--force", "--reason", "It is needed", "--as", "boss"]);
        }),
        ..SOURCE
    },
    Source {
        name: "context",
        prepare: follows_context,
        make: Make::Now(|scene, who, _| scene.run(&["context", "append", who, "Two", "--as", "peer"])),
        ..SOURCE
    },
    // ── Handoffs and agreements ──────────────────────────────────────────────────────────────────────────────
    Source {
        name: "handoff",
        make: Make::Now(|scene, who, _| scene.run(&["handoff", "create", who, "--task", "Do it", "--as", "peer"])),
        ..SOURCE
    },
    Source {
        name: "handoff-accept",
        prepare: hands_over,
        make: Make::Now(|scene, _, offered| scene.run(&["handoff", "accept", &offered[0], "--as", "peer"])),
        ..SOURCE
    },
    Source {
        name: "handoff-reject",
        prepare: hands_over,
        make: Make::Now(|scene, _, offered| {
            scene.run(&["handoff", "reject", &offered[0], "--reason", "No", "--as", "peer"]);
        }),
        ..SOURCE
    },
    Source {
        name: "handoff-withdraw",
        prepare: |scene, who| vec![scene.sent(&["handoff", "create", who, "--task", "Do it", "--as", "peer"])],
        make: Make::Now(|scene, _, offered| {
            scene.run(&["handoff", "withdraw", &offered[0], "--reason", "Not needed", "--as", "peer"]);
        }),
        ..SOURCE
    },
    Source {
        name: "agree-proposer",
        prepare: |scene, who| {
            vec![scene.sent(&["send", "peer", &about(who), "--type", "interface_contract", "--as", who])]
        },
        make: Make::Now(|scene, _, proposed| scene.run(&["agree", &proposed[0], "--as", "peer"])),
        ..SOURCE
    },
    Source {
        name: "agree-other-party",
        prepare: |scene, who| {
            let parties = format!("peer,{who}");
            vec![scene.sent(&["send", &parties, &about(who), "--type", "interface_contract", "--as", "boss"])]
        },
        make: Make::Now(|scene, _, proposed| scene.run(&["agree", &proposed[0], "--as", "peer"])),
        ..SOURCE
    },
    Source {
        name: "agree-context",
        prepare: |scene, who| {
            scene.run(&["context", "create", who, "Interfaces", "--as", "peer"]);
            scene.run(&["subscribe", &format!("context.{who}"), "--as", who]);
            let what = ["--type", "interface_contract", "--payload", r#"{"name": "it"}"#, "--as", "boss"];
            vec![scene.sent(&[&["send", "peer", &about(who)], &what[..]].concat())]
        },
        make: Make::Now(|scene, who, proposed| {
            scene.run(&["agree", &proposed[0], "--context", who, "--as", "peer"]);
        }),
        ..SOURCE
    },
    // ── Questions ────────────────────────────────────────────────────────────────────────────────────────────
    Source {
        name: "plan",
        make: Make::Now(|scene, who, _| scene.run(&["ask", who, "Is this the plan?", "--plan", "--as", "peer"])),
        ..SOURCE
    },
    Source {
        name: "decision",
        prepare: |scene, who| vec![scene.sent(&["ask", "peer", &about(who), "--plan", "--as", who])],
        make: Make::Now(|scene, _, asked| scene.run(&["approve", &asked[0], "--as", "peer"])),
        ..SOURCE
    },
    Source {
        name: "decided-by-another",
        prepare: |scene, who| {
            let number = scene.sent(&["ask", who, &about(who), "--as", "peer"]);
            scene.claimed(&number, who);
            vec![number]
        },
        make: Make::Now(|scene, _, asked| scene.run(&["approve", &asked[0], "--as", "boss"])),
        ..SOURCE
    },
    // The first of those by time: it must be claimed before a process that rings for another looks for lost rings.
    Source {
        name: "lease",
        prepare: paged_with_mate,
        make: Make::Later(|scene, _, page| scene.run(&["claim", &page[0], "--lease", "1s", "--as", &page[1]])),
        not_by: Some(Never {
            ways: &["rewake"],
            why: "a waiter announces nothing twice, and the session was told of the page when it began",
        }),
        ..SOURCE
    },
    Source {
        name: "default-for-asker",
        make: Make::Later(|scene, who, _| {
            scene.run(&["ask", "peer", &about(who), "--default", "deny", "--by", "1s", "--as", who]);
        }),
        ..SOURCE
    },
    Source {
        name: "default-for-asked",
        make: Make::Later(|scene, who, _| {
            scene.run(&["ask", who, &about(who), "--default", "deny", "--by", "1s", "--as", "peer"]);
        }),
        ..SOURCE
    },
    Source {
        name: "unanswered",
        make: Make::Later(|scene, who, _| scene.run(&["ask", "peer", &about(who), "--by", "1s", "--as", who])),
        ..SOURCE
    },
    // ── Work that ends or comes back ─────────────────────────────────────────────────────────────────────────
    Source {
        name: "fail",
        prepare: asks_peer,
        make: Make::Now(|scene, _, asked| scene.run(&["fail", &asked[0], "--reason", "No", "--as", "peer"])),
        ..SOURCE
    },
    Source {
        name: "retry",
        prepare: |scene, who| {
            let number = scene.sent(&["send", who, "Fire", "--type", "alert", "--as", "peer"]);
            scene.run(&["fail", &number, "--reason", "No", "--as", who]);
            vec![number]
        },
        make: Make::Now(|scene, _, failed| scene.run(&["retry", &failed[0], "--as", "peer"])),
        ..SOURCE
    },
    Source {
        name: "retry-seen",
        prepare: |scene, who| {
            let number = scene.sent(&["send", who, "Fire", "--type", "alert", "--as", "peer"]);
            scene.run(&["read", &number, "--as", who]);
            scene.run(&["fail", &number, "--reason", "No", "--as", who]);
            vec![number]
        },
        make: Make::Now(|scene, _, failed| scene.run(&["retry", &failed[0], "--as", "peer"])),
        ..SOURCE
    },
    Source {
        name: "release-seen",
        prepare: |scene, who| {
            let page = paged_with_mate(scene, who);
            scene.run(&["read", &page[0], "--as", who]);
            scene.claimed(&page[0], &page[1]);
            page
        },
        make: Make::Now(|scene, _, page| scene.run(&["release", &page[0], "--as", &page[1]])),
        ..SOURCE
    },
    Source {
        name: "release",
        prepare: |scene, who| {
            let page = paged_with_mate(scene, who);
            scene.claimed(&page[0], &page[1]);
            page
        },
        make: Make::Now(|scene, _, page| scene.run(&["release", &page[0], "--as", &page[1]])),
        ..SOURCE
    },
    Source {
        name: "late-result",
        prepare: |scene, who| {
            let mate = scene.mate(who);
            let number = scene.sent(&["send", &format!("role:{who}"), "Do it", "--type", "directive", "--as", "peer"]);
            let token = scene.claimed(&number, &mate);
            scene.run(&["release", &number, "--as", &mate]);
            scene.claimed(&number, who);
            vec![number, mate, token]
        },
        make: Make::Now(|scene, _, late| {
            // The result is kept, and the exit code says that it was late.
            scene.output(&["done", &late[0], "--token", &late[2], "--as", &late[1]]);
        }),
        ..SOURCE
    },
    Source {
        name: "retire",
        prepare: |scene, who| {
            let mate = scene.mate(who);
            scene.run(&["send", &mate, "Please", "--type", "directive", "--as", who]);
            vec![mate]
        },
        make: Make::Now(|scene, _, mate| scene.run(&["retire", &mate[0], "--as", &mate[0]])),
        ..SOURCE
    },
    Source {
        name: "close-for-sender",
        prepare: asks_peer,
        make: Make::Now(|scene, _, asked| {
            scene.run(&["thread", "close", &asked[0], "--outcome", "Over", "--as", "peer"]);
        }),
        ..SOURCE
    },
    Source {
        name: "close-for-holder",
        prepare: holds_work,
        make: Make::Now(|scene, _, held| {
            scene.run(&["thread", "close", &held[0], "--outcome", "Over", "--as", "peer"]);
        }),
        ..SOURCE
    },
    Source {
        name: "expiry",
        make: Make::Later(|scene, who, _| {
            scene.run(&["send", "peer", &about(who), "--type", "directive", "--expires", "1s", "--as", who]);
        }),
        ..SOURCE
    },
    Source {
        name: "overdue",
        make: Make::Later(|scene, who, _| {
            scene.run(&["send", "peer", &about(who), "--type", "directive", "--respond-by", "1s", "--as", who]);
        }),
        ..SOURCE
    },
    Source {
        name: "not-before",
        make: Make::Later(|scene, who, _| {
            scene.run(&["send", who, "Fire", "--type", "alert", "--not-before", "1s", "--as", "peer"]);
        }),
        ..SOURCE
    },
    Source {
        name: "dead-letter",
        prepare: asks_peer,
        make: Make::Later(|scene, _, asked| scene.run(&["claim", &asked[0], "--lease", "1s", "--as", "peer"])),
        ..SOURCE
    },
    // ── Reservations ─────────────────────────────────────────────────────────────────────────────────────────
    Source {
        name: "reservation-ask",
        prepare: reserves,
        make: Make::Now(|scene, who, _| {
            // It is refused, and the holder is asked.
            scene.output(&["reserve", who, "--ask", "--as", "peer"]);
        }),
        ..SOURCE
    },
    Source {
        name: "reservation-freed",
        prepare: reserves,
        make: Make::Now(|scene, who, _| {
            scene.run(&["release", "all", "--of", who, "--reason", "It is needed", "--as", "boss"]);
        }),
        ..SOURCE
    },
    // ── Workflows ────────────────────────────────────────────────────────────────────────────────────────────
    Source {
        name: "workflow-step",
        make: Make::Now(|scene, who, _| {
            let steps = format!(
                "[[step]]\nkey = \"first\"\nagent = \"peer\"\nrequest = \"Begin\"\n\
                 [[step]]\nkey = \"second\"\nagent = \"{who}\"\nneeds = [\"first\"]\ntype = \"alert\"\nrequest = \"Now\"\n"
            );
            let [_, first] = scene.workflow(who, "peer", &steps);
            scene.run(&["reply", &first, "Here", "--done", "--as", "peer"]);
        }),
        ..SOURCE
    },
    Source {
        name: "workflow-ask",
        make: Make::Now(|scene, who, _| {
            let step = format!("[[step]]\nkey = \"only\"\napproval = \"{who}\"\nplan = true\nrequest = \"May it?\"\n");
            scene.workflow(who, "peer", &step);
        }),
        ..SOURCE
    },
    Source {
        name: "workflow-end",
        prepare: |scene, who| {
            let step = "[[step]]\nkey = \"only\"\nagent = \"peer\"\nrequest = \"Do it\"\n";
            scene.workflow(who, who, step).to_vec()
        },
        make: Make::Now(|scene, _, flow| scene.run(&["done", &flow[1], "--as", "peer"])),
        ..SOURCE
    },
    Source {
        name: "workflow-cancel",
        prepare: |scene, who| {
            let step = format!("[[step]]\nkey = \"only\"\nagent = \"{who}\"\nrequest = \"Do it\"\n");
            let [label, first] = scene.workflow(who, "peer", &step);
            scene.claimed(&first, who);
            vec![label]
        },
        make: Make::Now(|scene, _, flow| scene.run(&["workflow", "cancel", &flow[0], "--as", "peer"])),
        ..SOURCE
    },
    Source {
        name: "numbered-step",
        prepare: comes_second,
        make: Make::Now(|scene, _, first| scene.run(&["done", &first[0], "--as", "peer"])),
        ..SOURCE
    },
    Source {
        name: "archived-step",
        prepare: |scene, who| {
            let first = comes_second(scene, who);
            scene.run(&["fail", &first[0], "--reason", "No", "--as", "peer"]);
            for mail in scene.json(&["inbox", "--as", "boss"])["messages"].as_array().expect("a list") {
                scene.run(&["ack", &mail["number"].to_string(), "--as", "boss"]);
            }
            first
        },
        make: Make::Now(|scene, _, _| scene.run(&["archive", "--older", "0s", "--as", "boss"])),
        ..SOURCE
    },
    // ── Runs, rules, teams ───────────────────────────────────────────────────────────────────────────────────
    // Before any dispatcher runs, which would process the rule as well.
    Source {
        name: "rule",
        prepare: |scene, who| {
            scene.configure(&format!(
                "[[on]]\nname = \"{who}\"\ntext = \"tell of it\"\nhandler = \"exec\"\ncommand = [\"false\"]\n\
                 attempts = 1\nsince = \"start\"\ntell = [\"{who}\"]\n"
            ));
            vec![scene.sent(&["send", "peer", "tell of it", "--as", "peer"])]
        },
        make: Make::Now(|scene, who, _| drop(scene.output(&["watch", "--once", "--rule", who]))),
        ..SOURCE
    },
    Source {
        name: "run-failed",
        prepare: |scene, who| vec![scene.sent(&["send", "bot", "Please", "--type", "directive", "--as", who])],
        make: Make::Now(|scene, _, _| {
            let ran = scene.output(&["dispatch", "--once", "--agent", "bot"]);
            assert_eq!(ran.status.code(), Some(11), "its program fails: {}", String::from_utf8_lossy(&ran.stderr));
        }),
        ..SOURCE
    },
    Source {
        name: "run-answered",
        prepare: |scene, who| vec![scene.sent(&["send", "clerk", "Please", "--type", "directive", "--as", who])],
        make: Make::Now(|scene, _, _| scene.run(&["dispatch", "--once", "--agent", "clerk"])),
        ..SOURCE
    },
    Source {
        name: "run-hold",
        prepare: |scene, who| vec![scene.sent(&["send", "stranger", "Please", "--type", "directive", "--as", who])],
        make: Make::Now(|scene, _, _| drop(scene.output(&["dispatch", "--once", "--agent", "stranger"]))),
        ..SOURCE
    },
    Source {
        name: "shutdown",
        make: Make::Now(|scene, who, _| {
            // Its session is still running, so it is not stopped.
            scene.output(&["team", "stop", who, "--within", "0s", "--as", "peer"]);
        }),
        ..SOURCE
    },
    Source {
        name: "stop-with-mail",
        prepare: |scene, who| {
            let mate = scene.mate(who);
            scene.run(&["send", &mate, "Please", "--type", "directive", "--as", who]);
            vec![mate]
        },
        make: Make::Now(|scene, _, mate| scene.run(&["team", "stop", &mate[0], "--within", "0s", "--as", "peer"])),
        ..SOURCE
    },
    Source {
        name: "mail-to-stopped",
        prepare: |scene, who| {
            let mate = scene.mate(who);
            scene.run(&["team", "stop", &mate, "--within", "0s", "--as", "peer"]);
            vec![mate]
        },
        make: Make::Now(|scene, who, mate| {
            scene.run(&["send", &mate[0], "Please", "--type", "directive", "--as", who]);
        }),
        not_by: Some(OWN_COMMAND),
        ..SOURCE
    },
    Source {
        name: "session-close",
        prepare: |scene, who| {
            let mate = scene.mate(who);
            let above = format!("above-{who}");
            scene.starts_session(&mate, &above, scene.program.0.id(), &[]);
            scene.starts_session(who, &format!("run-{who}"), scene.program.0.id(), &["--parent", &above]);
            vec![mate, above]
        },
        make: Make::Now(|scene, _, above| scene.run(&["session", "close", &above[1], "--as", &above[0]])),
        not_by: Some(Never { ways: &["tmux"], why: "its session began before there was a pane" }),
        ..SOURCE
    },
    // ── For others as well ───────────────────────────────────────────────────────────────────────────────────
    Source {
        name: "orphaned",
        is_person: true,
        prepare: |scene, who| {
            let owner = scene.mate(who);
            let step = "[[step]]\nkey = \"only\"\nagent = \"peer\"\nrequest = \"Do it\"\n";
            scene.workflow(who, &owner, step);
            vec![owner]
        },
        make: Make::Now(|scene, _, owner| scene.run(&["retire", &owner[0], "--as", &owner[0]])),
        ..SOURCE
    },
    Source {
        name: "broadcast",
        make: Make::Now(|scene, _, _| scene.run(&["broadcast", "Fire", "--as", "peer"])),
        ..SOURCE
    },
];

fn subscribes(scene: &Scene, who: &str) -> Vec<String> {
    scene.run(&["subscribe", who, "--as", who]);
    Vec::new()
}

fn follows_context(scene: &Scene, who: &str) -> Vec<String> {
    scene.run(&["context", "create", who, "One", "--as", "peer"]);
    scene.run(&["subscribe", &format!("context.{who}"), "--as", who]);
    Vec::new()
}

fn hands_over(scene: &Scene, who: &str) -> Vec<String> {
    vec![scene.sent(&["handoff", "create", "peer", "--task", &about(who), "--as", who])]
}

fn reserves(scene: &Scene, who: &str) -> Vec<String> {
    scene.run(&["reserve", who, "--as", who]);
    Vec::new()
}
