//! Each way mail comes into being × each way its recipient is rung. Whoever commits what must be seen now rings for it, whatever
//! it was: a send, a notice the office makes itself, a tick, a step of a workflow, what a supervisor or a rule writes.
//!
//! Each recipient has a name of its own, so that no ring of one is covered by that of another.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use poste_verbs::live::{Live, Reach};
use serde_json::{Value, json};

use crate::common::{Desk, Reaped, expect_success, until, until_all_wait};
use crate::hooking::Session;

/// An office with `peer`, who makes the mail, and one recipient for each way it comes into being.
struct Scene {
    desk: Desk,
    /// Stands for the programs of all recipients.
    program: Reaped,
}

/// How mail comes into being that the recipient has to see now.
struct Source {
    name: &'static str,
    /// Whatever must be said before the recipient's session begins: a recipient that speaks is awake.
    prepare: fn(&Scene, &str),
    /// What makes the mail.
    make: fn(&Scene, &str),
}

fn nothing(_: &Scene, _: &str) {}

/// Something `peer` is asked for, by the recipient.
fn asks_peer(scene: &Scene, who: &str) {
    scene.run(&["send", "peer", &about(who), "--type", "directive", "--as", who]);
}

fn about(who: &str) -> String {
    format!("For {who}")
}

const SOURCES: &[Source] = &[
    Source {
        name: "send",
        prepare: nothing,
        make: |scene, who| scene.run(&["send", who, "Fire", "--type", "alert", "--as", "peer"]),
    },
    Source {
        name: "group",
        prepare: nothing,
        make: |scene, who| {
            scene.run(&["send", &format!("role:{who}"), "Stuck", "--type", "blocker_notification", "--as", "peer"]);
        },
    },
    Source {
        name: "subscriber",
        prepare: |scene, who| scene.run(&["subscribe", who, "--as", who]),
        make: |scene, who| scene.run(&["send", &format!("topic:{who}"), "Fire", "--type", "alert", "--as", "peer"]),
    },
    Source {
        name: "reply",
        prepare: asks_peer,
        make: |scene, who| {
            let number = scene.number_of("peer", &about(who));
            scene.run(&["reply", &number, "It burns", "--type", "alert", "--as", "peer"]);
        },
    },
    Source {
        name: "forward",
        prepare: |scene, who| scene.run(&["send", "peer", &about(who), "--type", "alert", "--as", who]),
        make: |scene, who| scene.run(&["forward", &scene.number_of("peer", &about(who)), who, "--as", "peer"]),
    },
    Source {
        name: "publish",
        prepare: |scene, who| scene.run(&["subscribe", who, "--as", who]),
        make: |scene, who| scene.run(&["publish", who, "Fire", "--type", "alert", "--as", "peer"]),
    },
    Source {
        name: "retry",
        prepare: |scene, who| {
            scene.run(&["send", who, "Fire", "--type", "alert", "--as", "peer"]);
            let number = scene.number_of(who, "Fire");
            scene.run(&["fail", &number, "--reason", "No", "--as", who]);
            scene.write("failed", &number);
        },
        make: |scene, _| {
            let number = fs::read_to_string(scene.desk.folder.path().join("failed")).expect("read");
            scene.run(&["retry", &number, "--as", "peer"]);
        },
    },
    Source {
        name: "batch",
        prepare: nothing,
        make: |scene, who| {
            let lines = json!({ "to": who, "subject": "Fire", "type": "alert" });
            let file = scene.write(&format!("{who}.jsonl"), &format!("{lines}\n"));
            scene.run(&["send", "--batch", &file.display().to_string(), "--as", "peer"]);
        },
    },
    Source {
        name: "operator",
        prepare: nothing,
        make: |scene, who| {
            let file = scene.write(&format!("{who}.txt"), "The disk is full\n");
            scene.run(&["ingest", "stdin", who, "--file", &file.display().to_string()]);
        },
    },
    Source {
        name: "fail",
        prepare: asks_peer,
        make: |scene, who| {
            scene.run(&["fail", &scene.number_of("peer", &about(who)), "--reason", "No", "--as", "peer"]);
        },
    },
    Source {
        name: "retire",
        prepare: |scene, who| {
            scene.run(&["register", "leaver"]);
            scene.run(&["send", "leaver", "Please", "--type", "directive", "--as", who]);
        },
        make: |scene, _| scene.run(&["retire", "leaver", "--as", "leaver"]),
    },
    Source {
        name: "plan",
        prepare: nothing,
        make: |scene, who| scene.run(&["ask", who, "Is this the plan?", "--plan", "--as", "peer"]),
    },
    Source {
        name: "decision",
        prepare: |scene, who| scene.run(&["ask", "peer", &about(who), "--plan", "--as", who]),
        make: |scene, who| scene.run(&["approve", &scene.number_of("peer", &about(who)), "--as", "peer"]),
    },
    // Three that only time makes: whoever looks settles them, and need not even have a name.
    Source {
        name: "expiry",
        prepare: nothing,
        make: |scene, who| {
            scene.run(&["send", "peer", &about(who), "--type", "directive", "--expires", "1s", "--as", who]);
            until("the notice", || scene.pending(who) > 0);
        },
    },
    Source {
        name: "overdue",
        prepare: nothing,
        make: |scene, who| {
            scene.run(&["send", "peer", &about(who), "--type", "directive", "--respond-by", "1s", "--as", who]);
            until("the notice", || scene.pending(who) > 0);
        },
    },
    Source {
        name: "not-before",
        prepare: nothing,
        make: |scene, who| {
            let sent = scene.json(&["send", who, "Fire", "--type", "alert", "--not-before", "1s", "--as", "peer"]);
            let number = sent["number"].to_string();
            until("its time", || scene.json(&["track", &number])["deliveries"][0]["ready"] == true);
        },
    },
    Source {
        name: "workflow",
        prepare: nothing,
        make: |scene, who| {
            let definition = format!(
                "[[step]]\nkey = \"first\"\nagent = \"peer\"\nrequest = \"{}\"\n\
                 [[step]]\nkey = \"second\"\nagent = \"{who}\"\nneeds = [\"first\"]\ntype = \"alert\"\nrequest = \"Now\"\n",
                about(who)
            );
            scene.write(&format!("workflows/{who}.toml"), &definition);
            scene.run(&["workflow", "run", who, "--as", "peer"]);
            let first = scene.inbox("peer").into_iter().find(|mail| mail["conversation"] == format!("{who}-1"));
            let number = first.expect("the first step")["number"].to_string();
            scene.run(&["reply", &number, "Here", "--done", "--as", "peer"]);
        },
    },
    Source {
        name: "supervisor",
        prepare: |scene, who| scene.run(&["send", "bot", "Please", "--type", "directive", "--as", who]),
        make: |scene, _| {
            let ran = scene.output(&["dispatch", "--once", "--agent", "bot"]);
            assert_eq!(ran.status.code(), Some(11), "its program fails: {}", String::from_utf8_lossy(&ran.stderr));
        },
    },
    Source {
        name: "rule",
        prepare: |scene, who| {
            let rule = format!(
                "\n[[on]]\nname = \"{who}\"\ntext = \"tell of it\"\nhandler = \"exec\"\ncommand = [\"false\"]\n\
                 attempts = 1\nsince = \"start\"\ntell = [\"{who}\"]\n"
            );
            let path = scene.desk.office().join("local.toml");
            let before = fs::read_to_string(&path).unwrap_or_default();
            fs::write(path, before + &rule).expect("written");
            scene.run(&["send", "peer", "tell of it", "--as", "peer"]);
        },
        make: |scene, who| drop(scene.output(&["watch", "--once", "--rule", who])),
    },
];

impl Scene {
    fn new() -> Self {
        let program = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().expect("sleep runs");
        let scene = Self { desk: Desk::new(&["peer"]), program: Reaped(program) };
        // A message is dead after its first attempt.
        scene.write("poste.toml", "[delivery]\nmax_attempts = 1\n");
        fs::create_dir(scene.desk.folder.path().join("workflows")).expect("made");
        fs::write(scene.desk.office().join("local.toml"), "[agent.bot]\nrun = [\"false\"]\n").expect("written");
        scene.run(&["register", "bot"]);
        for Source { name, prepare, .. } in SOURCES {
            scene.run(&["register", name, "--role", name]);
            prepare(&scene, name);
        }
        scene
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.desk.command(args);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.desk.folder.path().display()));
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program runs")
    }

    fn run(&self, args: &[&str]) {
        expect_success(args, &self.output(args));
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.output(&[&["--json"], args].concat());
        expect_success(args, &output);
        serde_json::from_slice(&output.stdout).expect("an answer in JSON")
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.desk.folder.path().join(name);
        fs::write(&path, text).expect("written");
        path
    }

    fn inbox(&self, who: &str) -> Vec<Value> {
        let inbox = self.json(&["inbox", "--as", who]);
        inbox["messages"].as_array().cloned().expect("a list")
    }

    fn number_of(&self, who: &str, subject: &str) -> String {
        let found = self.inbox(who).into_iter().find(|mail| mail["subject"] == subject);
        found.expect("the mail is there")["number"].to_string()
    }

    /// How much waits for an agent. Asked without a name: the agent itself would be awake, and what is due is settled here.
    fn pending(&self, who: &str) -> u64 {
        let agents = self.json(&["agents"]);
        let agents = agents["agents"].as_array().cloned().expect("a list");
        let agent = agents.into_iter().find(|agent| agent["name"] == who).expect("it is registered");
        agent["pending"].as_u64().expect("a number")
    }

    /// Begins the session of a recipient, reached in this way.
    fn sleeps(&self, who: &str, pid: u32, reach: Reach) {
        let session = format!("run-{who}");
        self.run(&["session", "start", "--name", &session, "--pid", &pid.to_string(), "--as", who]);
        let session = session.parse().expect("a session");
        let changed = Live::change(&self.desk.office(), &session, |live| {
            live.reach = reach;
            Ok::<_, std::io::Error>(())
        });
        changed.expect("saved");
    }

    /// The ways in which its mail was rung for.
    fn rung_by(&self, who: &str) -> BTreeSet<String> {
        let mut ways = BTreeSet::new();
        for mail in self.inbox(who) {
            let track = self.json(&["track", &mail["number"].to_string()]);
            for wake in track["deliveries"]
                .as_array()
                .into_iter()
                .flatten()
                .flat_map(|found| found["wakes"].as_array())
                .flatten()
            {
                if wake["outcome"] == "requested" && wake["agent"] == who {
                    ways.insert(wake["how"].as_str().expect("a way").to_owned());
                }
            }
        }
        ways
    }

    /// Makes every kind of mail and waits until each was rung for by the way, and heard.
    fn each_rings_by(&self, way: &str, heard: impl Fn(&str) -> bool) {
        for Source { name, make, .. } in SOURCES {
            make(self, name);
            until(&format!("a ring of {name} by {way}"), || heard(name));
            until(&format!("the record of a ring of {name}"), || self.rung_by(name).contains(way));
        }
        self.desk.verify();
    }
}

#[test]
fn by_a_command() {
    let scene = Scene::new();
    let pid = scene.program.0.id();
    let folder = scene.desk.folder.path().to_owned();
    let path = scene.desk.office().join("local.toml");
    let before = fs::read_to_string(&path).expect("read");
    let rung = folder.join("rung-for-{agent}").display().to_string();
    fs::write(&path, format!("{before}\n[wake]\ncommand = [\"touch\", \"{rung}\"]\n")).expect("written");
    SOURCES.iter().for_each(|source| scene.sleeps(source.name, pid, Reach::default()));
    scene.each_rings_by("command", |who| folder.join(format!("rung-for-{who}")).exists());
}

#[test]
fn by_the_socket_of_the_session() {
    let scene = Scene::new();
    let pid = scene.program.0.id();
    let heard: Arc<Mutex<BTreeSet<&'static str>>> = Arc::default();
    // The paths of sockets are short.
    let folder = tempfile::tempdir().expect("a folder");
    for Source { name, .. } in SOURCES {
        let socket = folder.path().join(name);
        let listener = UnixListener::bind(&socket).expect("bound");
        scene.sleeps(name, pid, Reach { socket: Some(socket), ..Reach::default() });
        let heard = Arc::clone(&heard);
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody rings");
            let mut said = String::new();
            stream.read_to_string(&mut said).expect("a line");
            assert!(said.contains("run poste inbox"), "{said}");
            heard.lock().expect("no panic").insert(name);
        });
    }
    scene.each_rings_by("claude-socket", |who| heard.lock().expect("no panic").contains(who));
}

#[test]
fn by_the_queue_of_codex() {
    let scene = Scene::new();
    let pid = scene.program.0.id();
    let folder = scene.desk.folder.path().to_owned();
    let script = scene.write("codex", &format!("#!/bin/sh\ntouch \"{}/queued-$3\"\n", folder.display()));
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("set");
    for Source { name, .. } in SOURCES {
        scene.sleeps(name, pid, Reach { codex_thread: Some((*name).to_owned()), ..Reach::default() });
    }
    scene.each_rings_by("codex-queue", |who| folder.join(format!("queued-{who}")).exists());
}

#[test]
fn by_a_server_over_http() {
    let scene = Scene::new();
    let pid = scene.program.0.id();
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    for Source { name, .. } in SOURCES {
        let (opencode_url, opencode_session) = (Some(url.clone()), Some((*name).to_owned()));
        scene.sleeps(name, pid, Reach { opencode_url, opencode_session, ..Reach::default() });
    }
    let heard: Arc<Mutex<String>> = Arc::default();
    let asked = Arc::clone(&heard);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("somebody asks");
            let (mut request, mut part) = (String::new(), [0; 1024]);
            while !request.ends_with("}]}") {
                let read = stream.read(&mut part).expect("read");
                request += &String::from_utf8_lossy(&part[..read]);
            }
            asked.lock().expect("no panic").push_str(&request);
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("answered");
        }
    });
    scene.each_rings_by("opencode", |who| heard.lock().expect("no panic").contains(&format!("POST /session/{who}/")));
}

/// One window of tmux for each recipient; what is typed there is kept in a file.
struct Tmux(tempfile::TempDir);

impl Tmux {
    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        let output = command.arg("-S").arg(self.0.path().join("socket")).args(arguments).output();
        let output = output.expect("tmux is there; cargo xtask test installs it");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    fn typed(&self, who: &str) -> PathBuf {
        self.0.path().join(who)
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(self.0.path().join("socket")).arg("kill-server").status();
    }
}

#[test]
fn by_the_pane_of_tmux() {
    let scene = Scene::new();
    let tmux = Tmux(tempfile::tempdir().expect("a folder"));
    tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "sleep 600"]);
    for Source { name, .. } in SOURCES {
        let typed = tmux.typed(name).display().to_string();
        let agent = format!("while read -r line; do echo \"$line\" >> '{typed}'; done");
        let made = tmux.run(&["new-window", "-P", "-F", "#{pane_id} #{pane_pid}", &agent]);
        let (pane, pid) = made.split_once(' ').expect("two words");
        let server = Some(format!("{},1,0", tmux.0.path().join("socket").display()));
        let reach = Reach { tmux: server, tmux_pane: Some(pane.to_owned()), ..Reach::default() };
        scene.sleeps(name, pid.parse().expect("a number"), reach);
    }
    let is_typed = |who: &str| fs::read_to_string(tmux.typed(who)).is_ok_and(|text| text.contains("run poste inbox"));
    scene.each_rings_by("tmux", is_typed);
}

#[test]
fn by_the_waiter_of_an_idle_session() {
    let scene = Scene::new();
    let mut waiters: Vec<(&str, Child)> = Vec::new();
    for Source { name, .. } in SOURCES {
        let session = Session { agent: Some(name), ..Session::new(&scene.desk, &format!("run-{name}"), "claude-code") };
        session.hook("session-start");
        let waiter = session.start("wait", &json!({}));
        until_all_wait(&scene.desk, std::slice::from_ref(&waiter));
        waiters.push((name, waiter));
    }
    let waiters: Mutex<Vec<(&str, Reaped)>> =
        Mutex::new(waiters.into_iter().map(|(name, waiter)| (name, Reaped(waiter))).collect());
    scene.each_rings_by("rewake", |who| {
        let mut waiters = waiters.lock().expect("no panic");
        let (_, waiter) = waiters.iter_mut().find(|(name, _)| *name == who).expect("it waits");
        // It ends with 2 to wake its session.
        waiter.ended(Duration::from_millis(10)) && waiter.0.wait().is_ok_and(|status| status.code() == Some(2))
    });
}

// ── Lost rings, and workflows that only time moves ───────────────────────────────────────────────────────────

#[test]
fn a_ring_that_was_lost_is_found_by_whoever_rings_next() {
    let scene = Scene::new();
    let folder = scene.desk.folder.path().to_owned();
    let rung = folder.join("rung-for-{agent}").display().to_string();
    let ring = format!("[wake]\ncommand = [\"touch\", \"{rung}\"]\n");
    // Committed while nobody could be rung, as by somebody who died right after its commit.
    scene.run(&["send", "send", "Fire", "--type", "alert", "--as", "peer"]);
    scene.sleeps("send", scene.program.0.id(), Reach::default());
    fs::write(scene.desk.office().join("local.toml"), ring).expect("written");
    assert_eq!(scene.rung_by("send"), BTreeSet::new());
    let answer = scene.json(&["wake", "--as", "peer"]);
    assert_eq!((&answer["rung"][0]["agent"], &answer["rung"][0]["outcome"]), (&"send".into(), &"requested".into()));
    assert!(folder.join("rung-for-send").exists());
    assert_eq!(scene.rung_by("send"), BTreeSet::from(["command".to_owned()]));
    let answer = scene.json(&["wake", "--as", "peer"]);
    assert_eq!(answer["rung"], json!([]), "nothing is owed any more");
    scene.desk.verify();
}

#[test]
fn a_server_on_another_host_is_asked_by_a_dispatcher_only() {
    let scene = Scene::new();
    // Not one of the addresses that stand for this machine.
    let listener = TcpListener::bind("127.0.0.2:0").expect("bound");
    listener.set_nonblocking(true).expect("set");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let path = scene.desk.office().join("local.toml");
    let before = fs::read_to_string(&path).expect("read");
    fs::write(&path, before + "\n[wake]\nhosts = [\"127.0.0.2\"]\n").expect("written");
    let (opencode_url, opencode_session) = (Some(url), Some("send".to_owned()));
    let reach = Reach { opencode_url, opencode_session, ..Reach::default() };
    scene.sleeps("send", scene.program.0.id(), reach);
    scene.run(&["send", "send", "Fire", "--type", "alert", "--as", "peer"]);
    let by_hand = scene.output(&["wake", "send", "--as", "peer"]);
    let said = String::from_utf8_lossy(&by_hand.stdout).into_owned();
    assert!(!by_hand.status.success() && said.contains("a dispatcher asks it"), "{said}");
    assert_eq!(listener.accept().map(drop).map_err(|error| error.kind()), Err(std::io::ErrorKind::WouldBlock));
    let _dispatcher = Reaped(scene.command(&["dispatch"]).spawn().expect("it starts"));
    until("a request by the dispatcher", || listener.accept().is_ok());
}

#[test]
fn a_watcher_rings_for_what_it_settles() {
    let scene = Scene::new();
    let rung = scene.desk.folder.path().join("rung-for-send");
    let path = scene.desk.office().join("local.toml");
    let before = fs::read_to_string(&path).expect("read");
    let more = format!(
        "\n[wake]\ncommand = [\"touch\", \"{}\"]\n\
         [[on]]\nname = \"fresh\"\ntext = \"never said\"\nhandler = \"exec\"\ncommand = [\"false\"]\n",
        rung.display()
    );
    fs::write(&path, before + &more).expect("written");
    scene.sleeps("send", scene.program.0.id(), Reach::default());
    scene.run(&["send", "send", "Fire", "--type", "alert", "--not-before", "1s", "--as", "peer"]);
    std::thread::sleep(Duration::from_millis(1_200));
    // Nobody else writes or looks: what is due is settled as the watcher begins with a rule.
    scene.run(&["watch", "--once", "--rule", "fresh"]);
    until("a ring by the watcher", || rung.exists());
    scene.desk.verify();
}

#[test]
fn a_batch_and_an_ingest_advance_what_their_ticks_end() {
    for way in ["batch", "ingest"] {
        let scene = Scene::new();
        let definition = "[[step]]\nkey = \"first\"\nagent = \"peer\"\nrequest = \"Slowly\"\ntime_limit = \"1s\"\non_fail = \"skip\"\n\
             [[step]]\nkey = \"second\"\nagent = \"send\"\nneeds = [\"first\"]\nrequest = \"Now\"\n";
        scene.write("workflows/slow.toml", definition);
        scene.run(&["workflow", "run", "slow", "--as", "peer"]);
        let lines = json!({ "to": "bot", "subject": "Anything" });
        let batch = scene.write("lines.jsonl", &format!("{lines}\n")).display().to_string();
        let text = scene.write("line.txt", "Anything\n").display().to_string();
        // Nobody else writes or looks here: what ends the step is in the same transaction as the mail.
        until(&format!("the second step after a {way}"), || {
            match way {
                "batch" => scene.run(&["send", "--batch", &batch, "--as", "peer"]),
                _ => scene.run(&["ingest", "stdin", "bot", "--file", &text]),
            }
            sent_steps(&scene) == 2
        });
        scene.desk.verify();
    }
}

/// How many steps were sent, by the log alone: looking at a workflow would move it.
fn sent_steps(scene: &Scene) -> usize {
    let log = scene.desk.run(&["log", "show", "--json", "--after", "0", "--limit", "1000"]);
    log.matches("workflow.step").count()
}
