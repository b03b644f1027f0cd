//! Supervisors with real programs, most of them hostile: no process is left, nothing is lost, no message has two runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use poste_core::log::{Intent, Proof, Proposal, RunEnd, RunOutcome, Via};
use poste_core::office::{Office, Place, Rules};
use poste_core::store::clock::SystemClock;
use poste_core::views;
use poste_dispatch::run;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Desk, SOON, until, without_inheritance};

/// An office with a lead and a worker whose program is one of the test kit's.
pub(crate) struct Stage {
    pub desk: Desk,
}

impl Stage {
    pub(crate) fn new(agent: &str, config: &str) -> Self {
        let agent = Path::new(env!("CARGO_MANIFEST_DIR")).join("../poste-testkit/agents").join(agent);
        Self::running(&format!("run = [\"{}\"]\n{config}", agent.display()))
    }

    pub(crate) fn running(config: &str) -> Self {
        Self::running_in(Desk::new(&["lead", "worker"]), config)
    }

    /// In a project with files of its own.
    fn running_in(desk: Desk, config: &str) -> Self {
        fs::write(desk.folder.path().join("poste.toml"), "[delivery]\nretry_delay = \"0s\"\n").unwrap();
        let config = format!("[agent.worker]\n{config}\nenvironment = [\"AGENT_*\"]\n");
        fs::write(desk.office().join("local.toml"), config).unwrap();
        desk.trust();
        desk.run(&["config", "check"]);
        Self { desk }
    }

    /// Sends a question to the worker.
    pub(crate) fn ask(&self) -> String {
        let sent = self.desk.json(&["send", "worker", "A question", "How many?", "--type", "question", "--as", "lead"]);
        sent["number"].to_string()
    }

    /// Also configures another agent with the role of the worker.
    pub(crate) fn with(self, name: &str, config: &str) -> Self {
        let local = self.desk.office().join("local.toml");
        let more = format!("[agent.{name}]\n{config}\nenvironment = [\"AGENT_*\"]\n");
        fs::write(&local, fs::read_to_string(&local).unwrap() + &more).unwrap();
        self.desk.trust();
        self.desk.run(&["register", name, "--role", "worker"]);
        self
    }

    pub(crate) fn policy(self, delivery: &str) -> Self {
        fs::write(self.file("poste.toml"), format!("[delivery]\n{delivery}\n")).unwrap();
        self
    }

    /// Makes the project a repository whose first commit has `poste.toml`.
    pub(crate) fn in_git(self) -> Self {
        for words in [&["init", "-q"][..], &["add", "poste.toml"], &["commit", "-qm", "first"]] {
            let mut git = without_inheritance(Command::new("git"), self.desk.folder.path());
            git.args(["-c", "user.name=n", "-c", "user.email=e@x"]).args(words).current_dir(self.desk.folder.path());
            let ran = git.output().unwrap();
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        }
        self
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.desk.folder.path().join(name)
    }

    pub(crate) fn supervisor(&self, numbers: &[&str]) -> Command {
        self.supervisor_of("worker", numbers)
    }

    pub(crate) fn supervisor_of(&self, agent: &str, numbers: &[&str]) -> Command {
        let mut command = self.desk.command(&[&["run-agent", agent], numbers].concat());
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.desk.programs().display());
        command.env("PATH", path).env("AGENT_FOLDER", self.desk.folder.path());
        command
    }

    pub(crate) fn run(&self, numbers: &[&str]) -> Output {
        self.supervisor(numbers).output().expect("it runs")
    }

    /// Runs a supervisor, expects success and returns the delivery.
    pub(crate) fn ran(&self, number: &str) -> Value {
        let output = self.run(&[number]);
        assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        self.delivery(number)
    }

    pub(crate) fn delivery(&self, number: &str) -> Value {
        self.desk.json(&["track", number])["deliveries"][0].clone()
    }

    pub(crate) fn state(&self, number: &str) -> String {
        self.delivery(number)["state"].as_str().expect("a state").to_owned()
    }

    /// The answers the lead got.
    pub(crate) fn answers(&self) -> Vec<Value> {
        let inbox = self.desk.json(&["inbox", "--as", "lead", "--all"]);
        let numbers: Vec<String> = inbox["messages"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|item| item["type"] == "response")
            .map(|item| item["number"].to_string())
            .collect();
        numbers.iter().map(|number| self.desk.json(&["read", number])).collect()
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.desk.folder.path().join("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    pub(crate) fn run_folders(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.desk.office().join("runs")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.join("run.json").exists()).collect()
    }

    /// How the only run ended, according to its folder.
    pub(crate) fn end(&self) -> Value {
        let ends: Vec<Value> = self
            .run_folders()
            .iter()
            .filter_map(|path| fs::read(path.join("end.json")).ok())
            .map(|bytes| serde_json::from_slice(&bytes).expect("JSON"))
            .collect();
        assert_eq!(ends.len(), 1, "{:?}", self.run_folders());
        ends[0].clone()
    }

    /// Checks that no process of any run of this office is left.
    pub(crate) fn expect_nobody(&self) {
        let office = format!("POSTE_HOME={}", self.desk.office().canonicalize().unwrap().display());
        let left: Vec<u32> = processes()
            .filter(|pid| {
                let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environment.split(|byte| *byte == 0).any(|pair| pair == office.as_bytes())
            })
            .collect();
        assert_eq!(left, Vec::<u32>::new(), "processes of this office are left");
        for pid in self.pids() {
            assert!(!is_there(pid), "process {pid} is left");
        }
    }
}

pub(crate) fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("a list of processes").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|pid| is_there(*pid))
}

pub(crate) fn is_there(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

pub(crate) fn kill(child: &Child, signal: Signal) {
    let _ = kill_process(Pid::from_child(child), signal);
}

#[test]
fn an_answer_goes_to_who_asked_and_ends_the_work() {
    let stage = Stage::new("answer.sh", "");
    let number = stage.ask();
    assert_eq!(stage.ran(&number)["state"], "done");
    let answers = stage.answers();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0]["body"], format!("the answer to {number}"));
    assert_eq!(answers[0]["subject"], "Re: A question");
    assert_eq!(answers[0]["reply_to"].to_string(), number);
    assert_eq!(answers[0]["payload"]["request_id"].to_string(), number);
    assert!(answers[0]["payload"]["duration_seconds"].as_f64().is_some_and(|seconds| seconds < 60.0));
    let folder = &stage.run_folders()[0];
    let prompt = fs::read_to_string(folder.join("prompt.md")).unwrap();
    assert!(prompt.contains("<poste-message-") && prompt.contains("How many?"), "{prompt}");
    // A second supervisor comes too late.
    let again = stage.run(&[&number]);
    assert_eq!(again.status.code(), Some(75), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(stage.run_folders().len(), 1, "a run that claimed nothing leaves no folder");
    stage.expect_nobody();
    stage.desk.verify();
}

#[test]
fn of_many_supervisors_one_has_the_message() {
    let stage = Stage::new("alone.sh", "concurrency = 20");
    let number = stage.ask();
    let all: Vec<Child> =
        (0..8).map(|_| stage.supervisor(&[&number]).env("AGENT_PAUSE", "0.1").spawn().unwrap()).collect();
    let codes: Vec<Option<i32>> = crate::common::finish(all).iter().map(|output| output.status.code()).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, Some(0 | 75))), "{codes:?}");
    assert_eq!(fs::read_to_string(stage.desk.folder.path().join("begun")).unwrap().lines().count(), 1);
    stage.expect_nobody();
}

#[test]
fn no_more_runs_than_allowed_are_under_way() {
    let stage = Stage::running(
        "run = [\"/bin/sh\", \"-c\", \"echo >> begun; until [ -e go ]; do sleep 0.02; done; echo x\"]\nconcurrency = 2",
    );
    let numbers: Vec<String> = (0..4).map(|_| stage.ask()).collect();
    let begun = stage.desk.folder.path().join("begun");
    let first: Vec<Child> = numbers[..2].iter().map(|number| stage.supervisor(&[number]).spawn().unwrap()).collect();
    until("two runs", || fs::read_to_string(&begun).is_ok_and(|text| text.lines().count() == 2));
    for number in &numbers[2..] {
        assert_eq!(stage.run(&[number]).status.code(), Some(75));
    }
    fs::write(stage.file("go"), "").unwrap();
    assert!(crate::common::finish(first).iter().all(|output| output.status.success()));
    assert_eq!(stage.ran(&numbers[2])["state"], "done");
}

#[test]
fn whoever_ignores_the_request_is_ended_and_the_message_comes_back() {
    let stage = Stage::new("ignores-term.sh", "time_limit = \"1s\"\ngrace = \"200ms\"");
    let number = stage.ask();
    let began = Instant::now();
    assert_eq!(stage.ran(&number)["state"], "pending");
    assert!(began.elapsed() < SOON);
    assert_eq!(stage.pids().len(), 2);
    stage.expect_nobody();
    assert_eq!(stage.end()["how"], "timed_out");
    assert_eq!(stage.delivery(&number)["attempts"], 1);
}

#[test]
fn what_got_away_from_its_group_and_session_ends_with_the_run() {
    let stage = Stage::new("double-forks.sh", "");
    let number = stage.ask();
    assert_eq!(stage.ran(&number)["state"], "done");
    assert_eq!(stage.pids().len(), 4);
    stage.expect_nobody();
}

#[test]
fn a_flood_is_bounded_on_disk_and_in_the_log() {
    let stage = Stage::new("floods.sh", "");
    let number = stage.ask();
    assert_eq!(stage.ran(&number)["state"], "done");
    let folder = stage.run_folders().remove(0);
    let size: u64 = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.metadata().unwrap().len()).sum();
    assert!(size < 12 * 1024 * 1024, "{size}");
    let body = stage.answers()[0]["body"].as_str().unwrap().len();
    assert!(body < 1_200_000, "{body}");
}

#[test]
fn an_end_without_an_answer_is_no_answer() {
    let stage = Stage::new("silent.sh", "retries = 2\nbackoff = \"0s\"");
    let number = stage.ask();
    assert_eq!(stage.ran(&number)["state"], "pending");
    let history = stage.delivery(&number)["history"].to_string();
    assert!(history.contains("it ended without an answer"), "{history}");
    // The second attempt is the last one, by the agent's own limit.
    assert_eq!(stage.ran(&number)["state"], "failed");
}

#[test]
fn a_crash_each_time_ends_dead_and_its_sender_is_told() {
    let stage = Stage::new("crashes.sh", "");
    let number = stage.ask();
    for _ in 0..4 {
        assert_eq!(stage.ran(&number)["state"], "pending");
    }
    assert_eq!(stage.ran(&number)["state"], "dead");
    let history = stage.delivery(&number)["history"].to_string();
    assert!(history.contains("signal 11"), "{history}");
    assert!(stage.desk.pending("lead") > 0, "the sender is notified");
}

#[test]
fn the_agents_own_backoff_holds() {
    let stage = Stage::new("silent.sh", "backoff = \"1h\"");
    let number = stage.ask();
    assert_eq!(stage.ran(&number)["state"], "pending");
    assert_eq!(stage.run(&[&number]).status.code(), Some(75), "the retry is not due yet");
}

#[test]
fn who_closes_its_output_may_finish_by_itself() {
    let stage = Stage::new("closes-stdout.sh", "");
    let number = stage.ask();
    let delivery = stage.ran(&number);
    assert_eq!(delivery["state"], "done");
    assert!(delivery.to_string().contains("done in silence"), "{delivery}");
    assert_eq!(stage.answers().len(), 0);
}

#[test]
fn bytes_that_are_no_text_are_an_answer_all_the_same() {
    let stage = Stage::new("binary.sh", "");
    let number = stage.ask();
    assert_eq!(stage.ran(&number)["state"], "done");
    let body = stage.answers()[0]["body"].as_str().unwrap().to_owned();
    assert!(body.starts_with("before \u{fffd}") && body.ends_with("after"), "{body:?}");
}

#[test]
fn who_does_not_read_is_not_waited_for() {
    let stage = Stage::new("deaf.sh", "");
    let body = "x".repeat(900_000);
    let file = stage.desk.folder.path().join("body");
    fs::write(&file, body).unwrap();
    let mut send = stage.desk.command(&["--json", "send", "worker", "Long", "-", "--type", "question", "--as", "lead"]);
    let sent = send.stdin(fs::File::open(file).unwrap()).output().unwrap();
    let number = serde_json::from_slice::<Value>(&sent.stdout).unwrap()["number"].to_string();
    assert_eq!(stage.ran(&number)["state"], "done");
    assert_eq!(stage.answers()[0]["body"], "I did not listen");
}

#[test]
fn an_answer_of_its_own_stands_and_no_second_one_is_made_of_what_it_printed() {
    let stage = Stage::new("answers-twice.sh", "");
    let number = stage.ask();
    assert_eq!(stage.ran(&number)["state"], "done");
    let bodies: Vec<String> =
        stage.answers().iter().map(|answer| answer["body"].as_str().unwrap().to_owned()).collect();
    assert_eq!(bodies, ["the first answer"]);
}

#[test]
fn asked_to_stop_it_ends_the_program_and_gives_the_message_back() {
    let stage = Stage::new("hangs.sh", "grace = \"1s\"");
    let number = stage.ask();
    let child = stage.supervisor(&[&number]).spawn().unwrap();
    until("the program to start", || !stage.pids().is_empty());
    assert_eq!(stage.state(&number), "claimed");
    kill(&child, Signal::TERM);
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(stage.end()["how"], "stopped");
    let delivery = stage.delivery(&number);
    assert_eq!((delivery["state"].as_str(), delivery["attempts"].as_u64()), (Some("pending"), Some(0)));
    stage.expect_nobody();
}

#[test]
fn when_a_person_ends_the_message_the_program_is_ended() {
    let stage = Stage::new("ignores-term.sh", "grace = \"5m\"");
    let number = stage.ask();
    let child = stage.supervisor(&[&number]).spawn().unwrap();
    until("the program to start", || stage.pids().len() == 2);
    stage.desk.run(&["done", &number, "--summary", "I did it", "--as", "worker"]);
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(stage.end()["how"], "lease_lost");
    assert_eq!(stage.state(&number), "done");
    stage.expect_nobody();
}

#[test]
fn a_short_lease_is_kept_for_as_long_as_it_takes() {
    let stage = Stage::running("run = [\"/bin/sh\", \"-c\", \"sleep 9; echo slow\"]");
    fs::write(stage.desk.folder.path().join("poste.toml"), "[delivery]\nlease = \"4s\"\nretry_delay = \"0s\"\n")
        .unwrap();
    let number = stage.ask();
    assert_eq!(stage.ran(&number)["state"], "done");
    assert_eq!(stage.delivery(&number)["attempts"], 0);
    assert_eq!(stage.answers()[0]["body"], "slow");
}

#[test]
fn while_the_office_cannot_be_written_the_answer_waits() {
    let stage = Stage::running("run = [\"/bin/sh\", \"-c\", \"echo $$ > started; sleep 1; echo patient\"]");
    let number = stage.ask();
    let child = stage.supervisor(&[&number]).spawn().unwrap();
    let started = stage.desk.folder.path().join("started");
    until("the program to start", || started.exists());
    let lock = fs::OpenOptions::new().write(true).open(stage.desk.office().join("write.lock")).unwrap();
    lock.lock().unwrap();
    std::thread::sleep(Duration::from_secs(5));
    assert!(is_there(child.id()), "the supervisor gave up");
    lock.unlock().unwrap();
    drop(lock);
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(stage.state(&number), "done");
    assert_eq!(stage.answers()[0]["body"], "patient");
}

#[test]
fn what_cannot_be_started_is_told_and_counts_as_a_try() {
    for (config, told) in [
        ("run = [\"no-such-program\"]", "program not found: no-such-program"),
        ("run = [\"/bin/true\"]\nfolder = \"nowhere\"", "working folder not found: "),
        ("run = [\"/bin/true\"]\nworktree = true", "git"),
    ] {
        let stage = Stage::running(config);
        let number = stage.ask();
        let delivery = stage.ran(&number);
        assert_eq!((delivery["state"].as_str(), delivery["attempts"].as_u64()), (Some("pending"), Some(1)), "{config}");
        assert!(delivery.to_string().contains(told), "{config}: {delivery}");
        assert_eq!(stage.end()["how"], "not_started");
    }
}

#[test]
fn what_comes_with_the_repository_is_not_run_before_it_is_trusted() {
    let stage = Stage::new("answer.sh", "");
    let local = stage.desk.office().join("local.toml");
    let config = fs::read_to_string(&local).unwrap();
    fs::remove_file(local).unwrap();
    fs::write(stage.desk.folder.path().join("poste.toml"), config).unwrap();
    let number = stage.ask();
    let output = stage.run(&[&number]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not trusted"));
    assert_eq!(stage.state(&number), "pending");
    let trouble = fs::read_to_string(stage.desk.office().join("runs/.trouble/worker")).unwrap();
    assert!(trouble.contains("not trusted"));
    stage.desk.run(&["register", "anna", "--kind", "human"]);
    stage.desk.trust();
    assert_eq!(stage.ran(&number)["state"], "done");
}

#[test]
fn a_worktree_is_made_once_and_used_again() {
    let script = "pwd; git branch --show-current; ls";
    let stage = Stage::running(&format!("run = [\"/bin/sh\", \"-c\", \"{script}\"]\nworktree = true")).in_git();
    for _ in 0..2 {
        let number = stage.ask();
        assert_eq!(stage.ran(&number)["state"], "done", "{}", stage.delivery(&number));
    }
    for answer in stage.answers() {
        let body = answer["body"].as_str().unwrap().to_owned();
        assert!(body.contains("/.poste/worktrees/worker\nposte/worker\nposte.toml"), "{body}");
    }
}

#[test]
fn a_secret_in_what_it_printed_is_not_recorded() {
    let key = concat!("gh", "p_", "16C7e42F292c6912E7710c838347Ae178B4a");
    let stage = Stage::running(&format!("run = [\"/bin/sh\", \"-c\", \"echo token {key} >&2; exit 3\"]"));
    let number = stage.ask();
    stage.ran(&number);
    let has = |text: &str| {
        let bytes =
            ["office.db", "office.db-wal"].map(|name| fs::read(stage.desk.office().join(name)).unwrap_or_default());
        bytes.iter().any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    };
    assert!(has("it ended with exit code 3"), "the end is recorded");
    assert!(!has(key), "the key is in the log");
    let folder = stage.run_folders().remove(0);
    assert!(fs::read_to_string(folder.join("output")).unwrap().contains(key), "the run folder keeps all output");
}

#[test]
fn what_the_program_sends_is_one_hop_further_and_nothing_of_the_environment_is_passed_on_unnamed() {
    let script = "poste send lead hello --as worker > /dev/null 2>&1; env | sort";
    let stage = Stage::running(&format!("run = [\"/bin/sh\", \"-c\", \"{script}\"]"));
    let number = stage.ask();
    let output = stage.supervisor(&[&number]).env("A_SECRET", "x").env("AGENT_KIND", "y").output().unwrap();
    assert!(output.status.success());
    let body = stage.answers()[0]["body"].as_str().unwrap().to_owned();
    assert!(
        !body.contains("A_SECRET") && !body.contains("POSTE_SUPERVISES") && body.contains("AGENT_KIND=y"),
        "{body}"
    );
    for name in
        ["POSTE_AGENT=worker", "POSTE_HOME=", "POSTE_RUN=", "POSTE_SESSION=", &format!("POSTE_MESSAGE={number}")]
    {
        assert!(body.contains(name), "{name}: {body}");
    }
}

#[test]
fn a_subagent_has_a_name_of_its_own_that_goes_with_it() {
    let stage = Stage::running("run = [\"/bin/sh\", \"-c\", \"poste whoami --json\"]\nmode = \"subagent\"");
    let number = stage.ask();
    assert_eq!(stage.ran(&number)["state"], "done");
    let who: Value = serde_json::from_str(stage.answers()[0]["body"].as_str().unwrap()).expect("the output of whoami");
    let name = who["name"].as_str().unwrap_or_default().to_owned();
    assert!(name.starts_with("worker-"), "{who}");
    let agents = stage.desk.json(&["agents", "--all"]).to_string();
    let gone = stage.desk.json(&["whoami", "--as", &name]);
    assert!(agents.contains(&name) && gone["retired_at"].is_string(), "{gone}");
}

#[test]
fn a_resident_is_started_again_until_it_is_asked_to_stop() {
    let stage = Stage::running(
        "run = [\"/bin/sh\", \"-c\", \"echo $$ >> \\\"$AGENT_FOLDER/pids\\\"; sleep 0.1; exit 1\"]\nmode = \"resident\"\nbackoff = \"50ms\"",
    );
    let child = stage.supervisor(&[]).spawn().unwrap();
    until("three starts", || stage.pids().len() >= 3);
    kill(&child, Signal::TERM);
    assert!(child.wait_with_output().unwrap().status.success());
    stage.expect_nobody();
    assert!(stage.run_folders().iter().all(|folder| folder.join("end.json").exists()));
}

#[test]
fn with_no_number_it_takes_what_waits_in_the_inbox() {
    let stage = Stage::running("run = [\"/bin/sh\", \"-c\", \"echo all of $POSTE_MESSAGES\"]\nbatch = 5");
    assert_eq!(stage.run(&[]).status.code(), Some(75), "nothing waits");
    let numbers: Vec<String> = (0..3).map(|_| stage.ask()).collect();
    let output = stage.run(&[]);
    assert!(output.status.success());
    assert!(numbers.iter().all(|number| stage.state(number) == "done"));
    assert_eq!(stage.answers().len(), 3);
    assert_eq!(stage.answers()[0]["body"], format!("all of {}", numbers.join(",")));
}

#[test]
fn a_supervisor_that_is_killed_at_any_moment_leaves_nobody_and_loses_nothing() {
    let stage = Stage::new("alone.sh", "concurrency = 1");
    let rounds = 24;
    for round in 0..rounds {
        let number = stage.ask();
        let mut child = stage.supervisor(&[&number]).env("AGENT_PAUSE", "0.05").spawn().unwrap();
        // Killed at moments from before the claim to after the answer.
        std::thread::sleep(Duration::from_millis(round * 9));
        kill(&child, Signal::KILL);
        child.wait().unwrap();
        // The next one sweeps what the last one left before it begins.
        let mut tries = 0;
        while stage.state(&number) != "done" {
            let output = stage.supervisor(&[&number]).env("AGENT_PAUSE", "0.05").output().unwrap();
            assert!(matches!(output.status.code(), Some(0 | 75)), "{}", String::from_utf8_lossy(&output.stderr));
            tries += 1;
            assert!(tries < 5, "round {round}: {}", stage.delivery(&number));
        }
    }
    // One more, whose supervisor sweeps what the last round left.
    let last = stage.ask();
    assert!(stage.supervisor(&[&last]).env("AGENT_PAUSE", "0.05").output().unwrap().status.success());
    stage.expect_nobody();
    let violations = fs::read_to_string(stage.desk.folder.path().join("violations")).unwrap_or_default();
    assert_eq!(violations, "");
    assert_eq!(stage.answers().len(), usize::try_from(rounds).unwrap() + 1, "each was answered once");
    stage.desk.verify();
}

#[test]
fn a_stopped_supervisor_that_lost_its_lease_is_ended_with_its_program() {
    let stage = Stage::new("hangs.sh", "");
    fs::write(stage.desk.folder.path().join("poste.toml"), "[delivery]\nlease = \"2s\"\nretry_delay = \"0s\"\n")
        .unwrap();
    let number = stage.ask();
    let mut child = stage.supervisor(&[&number]).spawn().unwrap();
    until("the program to start", || !stage.pids().is_empty());
    kill(&child, Signal::STOP);
    until("the lease to end", || stage.state(&number) == "pending");
    // It sweeps, and starts its own run only if the first one has ended.
    let mut next = stage.supervisor(&[&number]).spawn().unwrap();
    child.wait().unwrap();
    let first = stage.pids()[0];
    until("the first program to end", || !is_there(first));
    kill(&next, Signal::TERM);
    next.wait().unwrap();
    let mut last = stage.supervisor(&[&number]).spawn().unwrap();
    until("the next program to start", || stage.pids().len() >= 2);
    kill(&last, Signal::TERM);
    last.wait().unwrap();
    stage.expect_nobody();
}

pub(crate) fn open(stage: &Stage) -> Office {
    open_at(stage.desk.office())
}

fn open_at(path: PathBuf) -> Office {
    let place = Place { path, clock: Arc::new(SystemClock), options: poste_testkit::state::options() };
    place.open().expect("the office opens")
}

#[test]
fn an_end_that_is_refused_does_not_cost_the_answer() {
    let stage = Stage::running(
        "run = [\"/bin/sh\", \"-c\", \"echo > begun; until [ -e go ]; do sleep 0.02; done; echo here you are\"]",
    );
    let number = stage.ask();
    let child = stage.supervisor(&[&number]).spawn().unwrap();
    until("the program to start", || stage.file("begun").exists());
    let run = stage.desk.json(&["dispatch", "runs"])["runs"][0]["run"].as_str().unwrap().to_owned();
    // As if another process had taken it for dead.
    let mut office = open(&stage);
    let end = RunEnd { run: run.parse().unwrap(), how: RunOutcome::Lost, code: None, took_ms: 1, cost_micros: None };
    let proposal = Proposal {
        id: "end".parse().unwrap(),
        actor: "worker".parse().unwrap(),
        session: Some(run.parse().unwrap()),
        via: Via::Cli,
        proof: Proof::None,
        sent_at: office.wall(),
        intent: Intent::RunEnd(end),
        content: None,
    };
    office.submit(&[proposal], &Rules::none()).unwrap().pop().unwrap().verdict.accepted().unwrap();
    fs::write(stage.file("go"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(stage.state(&number), "done");
    assert_eq!(stage.answers().len(), 1);
    let runs = stage.desk.json(&["dispatch", "runs"])["runs"].clone();
    assert_eq!((runs.as_array().unwrap().len(), &runs[0]["how"]), (1, &"lost".into()), "the run keeps its first end");
    stage.expect_nobody();
    stage.desk.verify();
}

/// Kills the supervisor of a run that has a detached process: the message, and that process.
fn killed(stage: &Stage) -> (String, u32) {
    let number = stage.ask();
    let mut child = stage.supervisor(&[&number]).env("AGENT_PAUSE", "60").spawn().unwrap();
    let begun = stage.desk.folder.path().join("begun");
    until("the program to start", || fs::read_to_string(&begun).is_ok_and(|text| !text.is_empty()));
    let run = stage.run_folders()[0].file_name().unwrap().to_str().unwrap().to_owned();
    let mark = poste_dispatch::run::mark(open(stage).machine().unwrap(), &run.parse().unwrap());
    let away = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep\x00600"));
    let mut found = None;
    until("the detached process", || {
        found = poste_run::with_mark(&mark).into_iter().find(away);
        found.is_some()
    });
    kill(&child, Signal::KILL);
    child.wait().unwrap();
    (number, found.unwrap())
}

#[test]
fn a_dead_run_is_swept_once_however_many_sweep() {
    let stage = Stage::new("alone.sh", "");
    let (number, away) = killed(&stage);
    assert!(is_there(away), "it is not swept yet");
    assert_eq!(stage.state(&number), "claimed");
    let lost: Vec<usize> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| run::sweep(&mut open(&stage), None).expect("it sweeps").lost.len()))
            .collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(lost.iter().sum::<usize>(), 1, "{lost:?}");
    stage.expect_nobody();
    let delivery = stage.delivery(&number);
    assert_eq!((delivery["state"].as_str(), delivery["attempts"].as_u64()), (Some("pending"), Some(1)));
    assert_eq!(stage.end()["how"], "lost");
    assert_eq!(run::sweep(&mut open(&stage), None).unwrap(), run::Swept::default());
    stage.desk.verify();
}

#[test]
fn a_dead_run_whose_folder_is_gone_is_found_by_the_log() {
    let stage = Stage::new("alone.sh", "");
    let (number, away) = killed(&stage);
    fs::remove_dir_all(stage.desk.office().join("runs")).unwrap();
    assert_eq!(run::sweep(&mut open(&stage), None).unwrap().lost.len(), 1);
    assert!(!is_there(away));
    assert_eq!(stage.state(&number), "pending");
    stage.expect_nobody();
}

#[test]
fn a_living_run_is_not_swept() {
    let stage = Stage::new("alone.sh", "");
    let number = stage.ask();
    let child = stage.supervisor(&[&number]).env("AGENT_PAUSE", "0.9").spawn().unwrap();
    while !stage.desk.folder.path().join("finished").exists() {
        assert_eq!(run::sweep(&mut open(&stage), None).unwrap(), run::Swept::default());
    }
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(stage.state(&number), "done");
    assert_eq!(stage.answers().len(), 1);
}

#[test]
fn a_copied_office_leaves_the_runs_of_the_original_alone() {
    let script = "echo > begun; until [ -e go ]; do sleep 0.02; done; echo here";
    let stage = Stage::running(&format!("run = [\"/bin/sh\", \"-c\", \"{script}\"]"))
        .policy("lease = \"4s\"\nretry_delay = \"0s\"");
    let number = stage.ask();
    let child = stage.supervisor(&[&number]).spawn().unwrap();
    until("the program to start", || stage.file("begun").exists());
    fs::create_dir(stage.file("copy")).unwrap();
    let copied = Command::new("cp").arg("-R").arg(stage.desk.office()).arg(stage.file("copy")).status().unwrap();
    assert!(copied.success());
    let path = stage.file("copy/.poste");
    poste_testkit::state::adopt(&path);
    let run = views::all_running(open(&stage).store()).unwrap()[0].run.to_string();
    let mut copy = open_at(path.clone());
    assert_eq!(run::sweep(&mut copy, None).unwrap(), run::Swept::default());
    let stop = stage.desk.command(&["dispatch", "stop", &run, "--office", path.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&stop.stderr).into_owned();
    assert!(!stop.status.success() && said.contains("stop it there"), "{said}");
    // In the copy its lease is not extended, and a run that lost its message has ended.
    until("the run to end in the copy", || {
        copy.settle().unwrap();
        run::sweep(&mut copy, None).unwrap();
        views::all_running(copy.store()).unwrap().is_empty()
    });
    fs::write(stage.file("go"), "").unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(stage.end()["how"], "exited");
    assert_eq!(stage.state(&number), "done");
    stage.expect_nobody();
}

#[test]
fn an_agent_started_from_within_a_run_outlives_it() {
    let first = "poste run-agent other $(cat next) & until [ -e up ]; do sleep 0.02; done; echo first";
    let stage = Stage::running(&format!("run = [\"/bin/sh\", \"-c\", \"{first}\"]"));
    let local = stage.desk.office().join("local.toml");
    let second = "echo > up; until [ -e go ]; do sleep 0.02; done; echo second";
    let second = format!("[agent.other]\nrun = [\"/bin/sh\", \"-c\", \"{second}\"]\n");
    fs::write(&local, fs::read_to_string(&local).unwrap() + &second).unwrap();
    stage.desk.trust();
    stage.desk.run(&["register", "other"]);
    let next = stage.desk.json(&["send", "other", "Later", "When?", "--type", "question", "--as", "lead"])["number"]
        .to_string();
    fs::write(stage.desk.folder.path().join("next"), &next).unwrap();
    let number = stage.ask();
    assert_eq!(stage.ran(&number)["state"], "done");
    assert_eq!(stage.state(&next), "claimed", "the second run continues on its own");
    fs::write(stage.file("go"), "").unwrap();
    until("the second answer", || stage.state(&next) == "done");
    until("both runs to end", || {
        processes().all(|pid| {
            !environment_of(pid).contains("POSTE_SUPERVISES")
                || !environment_of(pid).contains(&*stage.desk.folder.path().to_string_lossy())
        })
    });
    stage.expect_nobody();
}

fn environment_of(pid: u32) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()).into_owned()
}

#[test]
fn what_was_not_passed_by_its_gate_is_not_worked_on() {
    let stage = Stage::new("answer.sh", "");
    let local = stage.desk.office().join("local.toml");
    let gate = "[[gate]]\nname = \"never\"\ntype = \"question\"\ncommand = [\"false\"]\n";
    fs::write(&local, fs::read_to_string(&local).unwrap() + gate).unwrap();
    stage.desk.trust();
    let number = stage.ask();
    assert_eq!(stage.ran(&number)["state"], "returned");
    assert_eq!(stage.end()["how"], "not_started");
    assert_eq!(stage.answers().len(), 0);
}

#[test]
fn what_is_redacted_is_erased_from_the_folders_of_runs_too() {
    let stage = Stage::running("run = [\"/bin/sh\", \"-c\", \"tee copy; echo private words\"]");
    let number = stage.ask();
    assert_eq!(stage.ran(&number)["state"], "done");
    let other = stage.ask();
    assert_eq!(stage.ran(&other)["state"], "done");
    let texts = |folder: &Path| ["prompt.md", "output", "answer"].map(|name| folder.join(name).exists());
    let all_there = |folder: &PathBuf| texts(folder) == [true; 3];
    assert!(stage.run_folders().iter().all(all_there));
    stage.desk.run(&["redact", &number, "--reason", "private", "--as", "lead"]);
    assert_eq!(stage.run_folders().iter().filter(|folder| texts(folder) == [false; 3]).count(), 1);
    assert_eq!(stage.run_folders().iter().filter(|folder| all_there(folder)).count(), 1, "the other run is not erased");
    // Redacting an answer erases the run that gave it.
    let answer = stage.answers().iter().map(|answer| answer["number"].as_u64().unwrap()).max().unwrap();
    stage.desk.run(&["redact", &answer.to_string(), "--reason", "private", "--as", "worker"]);
    assert!(stage.run_folders().iter().all(|folder| texts(folder) == [false; 3]));
}

#[test]
fn an_answer_with_a_secret_is_not_sent() {
    let key = concat!("gh", "p_", "16C7e42F292c6912E7710c838347Ae178B4a");
    let stage = Stage::running(&format!("run = [\"/bin/sh\", \"-c\", \"echo token {key}\"]"));
    let number = stage.ask();
    let delivery = stage.ran(&number);
    assert_eq!(delivery["state"], "failed");
    assert!(delivery.to_string().contains("it seems to hold"), "{delivery}");
    assert_eq!(stage.answers().len(), 0);
    let folder = stage.run_folders().remove(0);
    assert!(fs::read_to_string(folder.join("answer")).unwrap().contains(key));
}

#[test]
fn a_conversation_goes_on_its_cost_is_recorded_and_one_that_is_gone_is_begun_anew() {
    // Answers like Claude Code; its argument names the conversation to resume.
    let script = r#"#!/bin/sh
[ "$2" = lost ] && { echo 'No conversation found with session ID' >&2; exit 1; }
printf '{"type":"result","is_error":false,"result":"%s","session_id":"%s","total_cost_usd":0.25}' "${2:-none}" "$(cat next)"
"#;
    let desk = Desk::new(&["lead", "worker"]);
    fs::write(desk.folder.path().join("agent.sh"), script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(desk.folder.path().join("agent.sh"), mode).unwrap();
    let stage = Stage::running_in(
        desk,
        "preset = \"claude-code\"\nrun = [\"./agent.sh\", \"--resume\", \"{conversation}\"]\nresume = true\nbackoff = \"0s\"",
    );
    let project = stage.desk.folder.path();
    let answer = |next: &str| {
        fs::write(project.join("next"), next).unwrap();
        let number = stage.ask();
        let state = stage.ran(&number)["state"].as_str().unwrap().to_owned();
        let said = stage
            .answers()
            .iter()
            .find(|answer| answer["reply_to"].as_u64() == number.parse().ok())
            .map(|answer| answer["body"].clone());
        (number, state, said)
    };
    assert_eq!(answer("first").2.unwrap(), "none");
    assert_eq!(answer("lost").2.unwrap(), "first");
    let (number, state, _) = answer("x");
    assert_eq!(state, "pending", "the conversation does not exist any more");
    assert_eq!(stage.ran(&number)["state"], "done", "so the next run begins a new one");
    let newest = open(&stage).store().tables().unwrap().newest_runs(1).unwrap().remove(0);
    assert_eq!(newest.end.unwrap().cost_micros, Some(250_000));
}
