//! The office in which mail is created and rung for.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use poste_verbs::live::{Live, Reach};
use serde_json::Value;

use super::sources::SOURCES;
use crate::common::{Desk, Reaped, expect_success};

/// Only urgency `now` rings, and most types default to a lower one. Here they all get it, so that all mail rings.
const TYPES: &str = r#"
[delivery]
max_attempts = 1

[types]
broadcast = { urgency = "now" }
context_updated = { urgency = "now" }
handoff_accepted = { urgency = "now" }
handoff_rejected = { urgency = "now" }
handoff_request = { urgency = "now" }
message = { urgency = "now" }
resource_conflict = { urgency = "now" }
response = { urgency = "now" }
task_completed = { urgency = "now" }
# It may be tried twice.
page = { urgency = "now", work = true, max_attempts = 2, retry_delay = "0s" }

# Nobody has trusted what is run here.
[agent.stranger]
run = ["true"]
"#;

const AGENTS: &str = r#"
[agent.bot]
run = ["false"]

[agent.clerk]
run = ["echo", "Done"]
"#;

/// An office with `peer`, who creates the mail, and one recipient for each source.
pub(super) struct Scene {
    pub(super) desk: Desk,
    /// Stands in for the programs of all recipients.
    pub(super) program: Reaped,
}

impl Scene {
    /// The office before any mail.
    pub(super) fn new() -> Self {
        let program = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().expect("sleep runs");
        let scene = Self { desk: Desk::new(&["peer"]), program: Reaped(program) };
        scene.write("poste.toml", TYPES);
        scene.configure(AGENTS);
        fs::create_dir(scene.desk.folder.path().join("workflows")).expect("made");
        for agent in ["bot", "clerk", "stranger"] {
            scene.run(&["register", agent]);
        }
        scene.run(&["register", "boss", "--kind", "human"]);
        for source in SOURCES {
            let kind = if source.is_person { "human" } else { "agent" };
            scene.run(&["register", source.name, "--role", source.name, "--kind", kind]);
        }
        scene
    }

    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.desk.command(args);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.desk.programs().display()));
        command
    }

    pub(super) fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program runs")
    }

    pub(super) fn run(&self, args: &[&str]) {
        expect_success(args, &self.output(args));
    }

    pub(super) fn json(&self, args: &[&str]) -> Value {
        let output = self.output(&[&["--json"], args].concat());
        expect_success(args, &output);
        serde_json::from_slice(&output.stdout).expect("an answer in JSON")
    }

    /// Sends a message and returns its number.
    pub(super) fn sent(&self, args: &[&str]) -> String {
        self.json(args)["number"].to_string()
    }

    /// Claims a message and returns the token.
    pub(super) fn claimed(&self, number: &str, who: &str) -> String {
        self.json(&["claim", number, "--as", who])["token"].to_string()
    }

    /// Registers another agent with the role of a recipient.
    pub(super) fn mate(&self, who: &str) -> String {
        let mate = format!("{who}-mate");
        self.run(&["register", &mate, "--role", who]);
        mate
    }

    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.desk.folder.path().join(name);
        fs::write(&path, text).expect("written");
        path
    }

    /// Appends to this machine's own configuration.
    pub(super) fn configure(&self, more: &str) {
        let path = self.desk.office().join("local.toml");
        let before = fs::read_to_string(&path).unwrap_or_default();
        fs::write(path, format!("{before}\n{more}")).expect("written");
        poste_testkit::state::trust_own(&self.desk.office());
    }

    /// Starts a workflow as `owner` and returns its label and the message of its first step.
    pub(super) fn workflow(&self, name: &str, owner: &str, steps: &str) -> [String; 2] {
        self.write(&format!("workflows/{name}.toml"), steps);
        let begun = self.json(&["workflow", "run", name, "--as", owner]);
        let label = begun["workflow"].as_str().expect("a label").to_owned();
        let first = begun["steps"][0]["tasks"][0]["message"].to_string();
        [label, first]
    }

    /// Starts the session of a recipient, to be reached in this way.
    pub(super) fn sleeps(&self, who: &str, pid: u32, reach: Reach) {
        let session = format!("run-{who}");
        if !self.output(&["session", "show", &session]).status.success() {
            self.starts_session(who, &session, pid, &[]);
        }
        let session = session.parse().expect("a session");
        let changed = Live::change(&self.desk.office(), &session, |live| {
            live.reach = reach;
            Ok::<_, std::io::Error>(())
        });
        changed.expect("saved");
    }

    pub(super) fn starts_session(&self, who: &str, session: &str, pid: u32, more: &[&str]) {
        let pid = pid.to_string();
        self.run(&[&["session", "start", "--name", session, "--pid", &pid, "--as", who], more].concat());
    }

    /// Settles what is due without acting as an agent: an agent that runs a command is awake.
    pub(super) fn look(&self) {
        self.json(&["agents"]);
    }

    pub(super) fn head(&self) -> u64 {
        let log = self.json(&["log", "show", "--limit", "1"]);
        log["records"][0]["position"].as_u64().expect("a position")
    }

    /// Every record after this position.
    pub(super) fn records(&self, after: u64) -> Vec<Value> {
        let mut records: Vec<Value> = Vec::new();
        loop {
            let last = records.last().map_or(after, |record| record["position"].as_u64().expect("a position"));
            let log = self.json(&["log", "show", "--after", &last.to_string(), "--limit", "1000"]);
            match log["records"].as_array().expect("a list") {
                page if page.is_empty() => return records,
                page => records.extend_from_slice(page),
            }
        }
    }

    /// The ways in which an agent was rung after this position.
    pub(super) fn rung_by(&self, who: &str, after: u64) -> BTreeSet<String> {
        let records = self.records(after);
        let wakes = records.iter().filter(|record| record["name"] == "delivery.wake").map(|record| &record["header"]);
        let requested = wakes.filter(|wake| wake["agent"] == who && wake["outcome"] == "requested");
        requested.map(|wake| wake["how"].as_str().expect("a way").to_owned()).collect()
    }
}
