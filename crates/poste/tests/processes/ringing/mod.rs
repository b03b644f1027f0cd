//! Each source of mail × each way to ring its recipient. The process that commits mail of urgency `now` rings for it,
//! be it a send, a notice of the office, a tick, a workflow step, or what a supervisor or a rule writes.

mod scene;
mod server;
mod sources;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use poste_core::log::{Author, Content, Intent, Sealed, Send, SessionStart, Via, WakeWay};
use poste_core::office::{Office, Place, Rules};
use poste_core::store::Options;
use poste_core::store::clock::SystemClock;
use poste_core::store::tables::Notice;
use poste_verbs::actions::Carrier;
use poste_verbs::live::Reach;
use serde_json::{Value, json};

use crate::common::{Reaped, until};
use scene::Scene;
use server::Server;
use sources::{Make, SOURCES, Source};
use ways::{CHANNEL, CLAUDE_SOCKET, CODEX_QUEUE, COMMAND, Heard, OPENCODE, REWAKE, TMUX, Way};

/// One office for each way, in which every source creates mail that is rung for.
macro_rules! matrix {
    ($($test:ident: $way:expr;)+) => {
        const WAYS: &[Way] = &[$($way),+];

        $(
            #[test]
            fn $test() {
                every_source_rings_by(&$way);
            }
        )+
    };
}

matrix! {
    by_a_command: COMMAND;
    by_the_socket_of_the_session: CLAUDE_SOCKET;
    by_the_queue_of_codex: CODEX_QUEUE;
    by_a_server_over_http: OPENCODE;
    by_the_pane_of_tmux: TMUX;
    by_the_waiter_of_an_idle_session: REWAKE;
    by_the_channel_of_its_tools: CHANNEL;
}

/// Ways that are not used for new mail.
const NOT_BY_MAIL: [(WakeWay, &str); 2] = [
    (WakeWay::Spawn, "a program is started by a dispatcher, or by a person who runs `poste wake`"),
    (WakeWay::Nothing, "it says that there was no way"),
];

fn every_source_rings_by(way: &Way) {
    let scene = Scene::new();
    let begin = (way.open)(&scene);
    let mut prepared = BTreeMap::new();
    let sources =
        || SOURCES.iter().filter(|source| !source.not_by.as_ref().is_some_and(|never| never.ways.contains(&way.name)));
    for source in sources() {
        prepared.insert(source.name, (source.prepare)(&scene, source.name));
    }
    // Their deadlines run in parallel.
    let mut under_way = Vec::new();
    for source in sources() {
        if let Make::Later(start) = source.make {
            let pair = Pair { scene: &scene, way, source, after: scene.head(), heard: begin(&scene, source.name) };
            start(&scene, source.name, &prepared[source.name]);
            under_way.push(pair);
        }
    }
    under_way.into_iter().for_each(Pair::await_ring);
    for source in sources() {
        if let Make::Now(make) = source.make {
            let pair = Pair { scene: &scene, way, source, after: scene.head(), heard: begin(&scene, source.name) };
            make(&scene, source.name, &prepared[source.name]);
            pair.await_ring();
        }
    }
    every_notice_was_made(&scene);
    // The other ways leave out some sources.
    if way.name == COMMAND.name {
        every_kind_of_mail_was_made(&scene);
    }
    scene.desk.verify();
}

/// One source's mail, to be rung for in one way.
struct Pair<'s> {
    scene: &'s Scene,
    way: &'s Way,
    source: &'s Source,
    /// The newest record before the mail.
    after: u64,
    heard: Heard,
}

impl Pair<'_> {
    fn await_ring(mut self) {
        let (source, way) = (self.source.name, self.way.name);
        until(&format!("a ring for {source} by {way}"), || {
            if let Make::Later(_) = self.source.make {
                self.scene.look();
            }
            (self.heard)()
        });
        if self.way.is_recorded {
            until(&format!("the record of a ring for {source} by {way}"), || {
                self.scene.rung_by(source, self.after).contains(way)
            });
        }
    }
}

/// Checks that the office made every kind of notice.
fn every_notice_was_made(scene: &Scene) {
    let office = rusqlite::Connection::open(scene.desk.office().join("office.db")).expect("opened");
    let mut made = office.prepare("SELECT DISTINCT notice FROM messages WHERE notice IS NOT NULL").expect("a query");
    let made = made.query_map([], |row| row.get(0)).expect("rows");
    let made: BTreeSet<&str> =
        made.map(|number| Notice::of_number(number.expect("a number")).expect("a notice").word()).collect();
    let all = Notice::ALL.iter().map(|notice| notice.word());
    assert_eq!(made, all.collect());
}

/// Some records carry a message besides their own change. The golden records have every field, so they show which.
fn every_kind_of_mail_was_made(scene: &Scene) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../poste-testkit/tests/records/v1");
    let golden = fs::read_dir(golden).expect("there are golden records").map(|entry| entry.expect("an entry").path());
    let mut carry_mail = BTreeSet::new();
    for path in golden.filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
        let record = Sealed::open(fs::read(path).expect("read")).expect("a record");
        let intent = record.intent().expect("it decodes").expect("a known kind");
        carry_mail.extend(intent.mail().map(|_| intent.kind().name.to_owned()));
    }
    let records = scene.records(0);
    let is_mail = |record: &&Value| record["name"] == "message.send" || record["header"]["mail"].is_object();
    let made = records.iter().filter(is_mail).map(|record| record["name"].as_str().expect("a name").to_owned());
    assert_eq!(made.collect::<BTreeSet<String>>(), carry_mail);
}

#[test]
fn every_way_is_in_the_table() {
    let in_table = WAYS.iter().filter(|way| way.is_recorded).map(|way| way.name);
    let not_by_mail = NOT_BY_MAIL.iter().map(|(way, why)| {
        assert!(!why.is_empty());
        way.word()
    });
    let found: BTreeSet<&str> = in_table.chain(not_by_mail).collect();
    assert_eq!(found, WakeWay::ALL.iter().map(|way| way.word()).collect());
    for never in SOURCES.iter().filter_map(|source| source.not_by.as_ref()) {
        let is_way = |name: &&str| WAYS.iter().any(|way| way.name == *name);
        assert!(!never.why.is_empty() && never.ways.iter().all(is_way), "{}", never.why);
    }
}

// ── Who is rung, and for what ────────────────────────────────────────────────────────────────────────────────

/// Configures a command that rings any agent.
fn rung_by_command(scene: &Scene) {
    let rung = scene.desk.folder.path().join("rung-for-{agent}").display().to_string();
    scene.configure(&format!("[wake]\ncommand = [\"touch\", \"{rung}\"]\n"));
}

/// Opens the office in this process.
fn open(scene: &Scene, options: Options) -> Office {
    let place = Place { path: scene.desk.office(), clock: Arc::new(SystemClock), options };
    place.open().expect("the office opens")
}

fn owed(scene: &Scene) -> u32 {
    let office = rusqlite::Connection::open(scene.desk.office().join("office.db")).expect("opened");
    office.query_row("SELECT count(*) FROM owed_rings", [], |row| row.get(0)).expect("a number")
}

#[test]
fn the_process_that_rings_is_told_whom_to_ring_not_for_what() {
    let scene = Scene::new();
    rung_by_command(&scene);
    let mate = scene.mate("send");
    for who in ["send", &mate] {
        scene.sleeps(who, scene.program.0.id(), Reach::default());
    }
    // Stands in for `poste` and records its arguments.
    let folder = scene.desk.folder.path().to_owned();
    let script = scene.write("ringer", "#!/bin/sh\nprintf '%s\\n' \"$@\" > ../args.new && mv ../args.new ../args\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("set");
    let mut office = open(&scene, poste_testkit::state::options());
    let author = Author::new("peer".parse().expect("a name"), Via::Mcp);
    let sends = ["role:send", "send"].map(|to| {
        let send = Send::plain("blocker_notification".parse().expect("a type"), vec![to.parse().expect("an address")]);
        let content = Content { subject: "Stuck".to_owned(), ..Content::default() };
        office.proposal(&author, Intent::Send(send), Some(content))
    });
    office.submit(&sends, &Rules::none()).expect("stored");
    Carrier { program: Some(script), via: Via::Mcp, ..Carrier::default() }.carry_out(&mut office);
    until("the process that rings to start", || folder.join("args").exists());
    let args = fs::read_to_string(folder.join("args")).expect("read");
    // The first message is claimed before that process looks.
    scene.claimed("1", &mate);
    scene.run(&[&args.lines().collect::<Vec<_>>()[..], &["--as", "peer"]].concat());
    let records = scene.records(0);
    let wakes = records.iter().filter(|record| record["name"] == "delivery.wake");
    let wakes: Vec<[&Value; 3]> =
        wakes.map(|wake| [&wake["header"]["agent"], &wake["header"]["message"], &wake["via"]]).collect();
    assert_eq!(wakes, [[&json!("send"), &json!(2), &json!("mcp")]]);
    scene.desk.verify();
}

#[test]
fn a_session_of_another_machine_is_left_to_it() {
    let scene = Scene::new();
    rung_by_command(&scene);
    let elsewhere = Options { machine_mark: "another system".to_owned(), ..poste_testkit::state::options() };
    let mut other = open(&scene, elsewhere);
    let start = SessionStart {
        id: "run-send".parse().expect("a session"),
        parent: None,
        process: None,
        host: "there".to_owned(),
        program: "codex".to_owned(),
        worktree: None,
        takes_over: None,
        resumes: false,
    };
    let author = Author::new("send".parse().expect("a name"), Via::Cli);
    let start = other.proposal(&author, Intent::SessionStart(start), None);
    other.propose(&start, &Rules::none()).expect("stored").verdict.accepted().expect("accepted");
    let number = scene.sent(&["send", "send", "Fire", "--type", "alert", "--as", "peer"]);
    for who in ["send", &number] {
        let by_hand = scene.output(&["wake", who, "--as", "peer"]);
        let said = String::from_utf8_lossy(&by_hand.stdout).into_owned();
        assert!(!by_hand.status.success() && said.contains("on another machine (there)"), "{said}");
    }
    let track = scene.json(&["track", &number]);
    assert_eq!((&track["deliveries"][0]["wakes"], owed(&scene)), (&json!([]), 1), "the ring stays owed there");
}

#[test]
fn mail_behind_a_thousand_others_is_rung_for_and_all_of_it_is_recorded() {
    const SENT: u32 = 60;
    let scene = Scene::new();
    rung_by_command(&scene);
    scene.sleeps("send", scene.program.0.id(), Reach::default());
    let send = |count: u32, kind: &str, priority: &str| {
        let line = json!({ "to": "send", "subject": "Work", "type": kind, "priority": priority });
        let batch = scene.write("batch.jsonl", &format!("{line}\n").repeat(count as usize));
        scene.run(&["send", "--batch", &batch.display().to_string(), "--as", "peer"]);
    };
    send(1_000, "directive", "urgent");
    assert_eq!(owed(&scene), 0, "mail for the next tool call needs no ring");
    send(SENT, "alert", "low");
    until("a record for each message", || owed(&scene) == 0);
    assert!(scene.desk.folder.path().join("rung-for-send").exists());
    let records = scene.records(1_000);
    assert_eq!(records.iter().filter(|record| record["name"] == "delivery.wake").count(), SENT as usize);
    scene.desk.verify();
}

#[test]
fn a_server_of_tools_rings_its_own_agent_for_what_falls_due() {
    let scene = Scene::new();
    rung_by_command(&scene);
    scene.starts_session("send", "session-of-send", scene.program.0.id(), &[]);
    let mut server = Server::start(&scene, "send", &["--channel"]);
    assert_ne!(server.call("check_inbox", &json!({}))["isError"], true);
    scene.run(&["send", "peer", "Soon", "--type", "directive", "--expires", "1s", "--as", "send"]);
    // No other process looks: the server settles what is due.
    until("a ring by the server", || scene.desk.folder.path().join("rung-for-send").exists());
    drop(server);
}

// ── Lost rings, and workflows that only time moves ───────────────────────────────────────────────────────────

#[test]
fn a_ring_that_was_lost_is_found_by_whoever_rings_next() {
    let scene = Scene::new();
    let folder = scene.desk.folder.path().to_owned();
    let rung = folder.join("rung-for-{agent}").display().to_string();
    let ring = format!("[wake]\ncommand = [\"touch\", \"{rung}\"]\n");
    // Committed while nothing could be rung, as by a process that died right after its commit.
    scene.run(&["send", "send", "Fire", "--type", "alert", "--as", "peer"]);
    scene.sleeps("send", scene.program.0.id(), Reach::default());
    fs::write(scene.desk.office().join("local.toml"), ring).expect("written");
    scene.desk.trust();
    assert_eq!(scene.rung_by("send", 0), BTreeSet::new());
    let answer = scene.json(&["wake", "--as", "peer"]);
    assert_eq!((&answer["rung"][0]["agent"], &answer["rung"][0]["outcome"]), (&"send".into(), &"requested".into()));
    assert!(folder.join("rung-for-send").exists());
    assert_eq!(scene.rung_by("send", 0), BTreeSet::from(["command".to_owned()]));
    let answer = scene.json(&["wake", "--as", "peer"]);
    assert_eq!(answer["rung"], json!([]), "nothing is owed any more");
    scene.desk.verify();
}

#[test]
fn a_server_on_another_host_is_asked_by_a_dispatcher_only() {
    let scene = Scene::new();
    // An address that does not count as this machine.
    let listener = TcpListener::bind("127.0.0.2:0").expect("bound");
    listener.set_nonblocking(true).expect("set");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    scene.configure("[wake]\nhosts = [\"127.0.0.2\"]\n");
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
    scene.configure(&format!(
        "[wake]\ncommand = [\"touch\", \"{}\"]\n\
         [[on]]\nname = \"fresh\"\ntext = \"never said\"\nhandler = \"exec\"\ncommand = [\"false\"]\n",
        rung.display()
    ));
    scene.sleeps("send", scene.program.0.id(), Reach::default());
    scene.run(&["send", "send", "Fire", "--type", "alert", "--not-before", "1s", "--as", "peer"]);
    std::thread::sleep(Duration::from_millis(1_200));
    // No other process writes or looks: the watcher settles what is due when it begins a rule.
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
        // No other process writes or looks: the tick that ends the step is in the same transaction as the mail.
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

/// The number of steps sent, counted in the log: showing a workflow would advance it.
fn sent_steps(scene: &Scene) -> usize {
    let log = scene.desk.run(&["log", "show", "--json", "--after", "0", "--limit", "1000"]);
    log.matches("workflow.step").count()
}
