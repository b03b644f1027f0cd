//! A team of real programs: starting, status, stopping by agreement and by force, alerts.

use std::fs;
use std::path::Path;
use std::process::{Child, Output};
use std::sync::Arc;

use poste_core::office::Place;
use poste_core::store::clock::SystemClock;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Desk, expect_success, until};

/// An office whose lead has teammates that are programs of the test kit.
struct Crew {
    desk: Desk,
}

impl Crew {
    /// Each teammate has a name, a program and more lines of its section.
    fn new(team: &[(&str, &str, &str)], of_team: &str) -> Self {
        let desk = Desk::new(&["lead", "anna"]);
        let kit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../poste-testkit/agents");
        let names: Vec<String> = team.iter().map(|(name, ..)| format!("\"{name}\"")).collect();
        let shared = format!(
            "[delivery]\nretry_delay = \"0s\"\n[team]\nlead = \"lead\"\nmembers = [{}]\n{of_team}\n",
            names.join(", ")
        );
        fs::write(desk.folder.path().join("poste.toml"), shared).unwrap();
        let own: Vec<String> = team
            .iter()
            .map(|(name, program, more)| {
                let program = kit.join(program);
                format!(
                    "[agent.{name}]\nrun = [\"{}\"]\nenvironment = [\"AGENT_*\"]\ngrace = \"300ms\"\n{more}\n",
                    program.display()
                )
            })
            .collect();
        fs::write(desk.office().join("local.toml"), own.join("\n")).unwrap();
        desk.trust();
        Self { desk }
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let programs = Path::new(env!("CARGO_BIN_EXE_poste")).parent().unwrap();
        let mut command = self.desk.command(args);
        command
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display()))
            .env("AGENT_FOLDER", self.desk.folder.path());
        if args.contains(&"spawn") {
            command.env("POSTE_TEST_PERSON", "1");
        }
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program runs")
    }

    fn json(&self, args: &[&str]) -> Value {
        let args = [&["--json"], args].concat();
        let output = self.output(&args);
        expect_success(&args, &output);
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn stop(&self, args: &[&str]) -> Value {
        self.json(&[&["team", "stop", "--as", "lead"], args].concat())["stopped"][0].clone()
    }

    fn status(&self, name: &str) -> Value {
        self.json(&["team", "status", name])["team"][0].clone()
    }

    fn state(&self, name: &str) -> String {
        self.status(name)["state"].as_str().expect("a state").to_owned()
    }

    fn send(&self, from: &str, to: &str, kind: &str) -> String {
        self.json(&["send", to, "Something", "--type", kind, "--as", from])["number"].to_string()
    }

    fn delivery(&self, number: &str) -> Value {
        self.json(&["track", number])["deliveries"][0].clone()
    }

    /// Starts a supervisor, as a dispatcher would.
    fn dispatch(&self, name: &str, numbers: &[&str]) -> Child {
        self.command(&[&["run-agent", name], numbers].concat()).spawn().expect("it starts")
    }

    fn alerts(&self) -> Vec<String> {
        let place =
            Place { path: self.desk.office(), clock: Arc::new(SystemClock), options: poste_testkit::state::options() };
        let mut office = place.open().expect("an office");
        let sent = poste_dispatch::team::alerts(&mut office).expect("alerts");
        sent.iter().map(ToString::to_string).collect()
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.desk.folder.path().join(name)
    }

    /// Waits until no process that was started here is left.
    fn expect_nobody(&self) {
        let home = format!("POSTE_HOME={}", self.desk.office().canonicalize().unwrap().display());
        let is_ours = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|pair| pair == home.as_bytes())
        };
        let pids = || -> Vec<u32> {
            let entries = fs::read_dir("/proc").expect("a list of processes").flatten();
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_ours).collect()
        };
        until("every process to end", || pids().is_empty());
    }
}

impl Drop for Crew {
    /// Leaves nothing running after a test that fails.
    fn drop(&mut self) {
        let args = ["team", "stop", "--all", "--within", "0s", "--force", "--as", "lead"];
        let _ = self.command(&args).output();
    }
}

fn signal(pid: &Value, signal: Signal) {
    let pid = i32::try_from(pid.as_i64().expect("a pid")).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// The pid of a teammate's supervisor.
fn supervisor(crew: &Crew, name: &str) -> Value {
    let run = crew.status(name)["runs"][0]["run"].as_str().expect("a run").to_owned();
    let about = fs::read(crew.desk.office().join("runs").join(run).join("run.json")).expect("a folder");
    let about: Value = serde_json::from_slice(&about).expect("JSON");
    about["supervisor"]["pid"].clone()
}

#[test]
fn a_team_comes_up_once_works_and_stops_as_it_is_asked() {
    let crew =
        Crew::new(&[("keeper", "polite.sh", "mode = \"resident\"\nrole = \"watch\""), ("coder", "answer.sh", "")], "");
    assert_eq!(crew.state("keeper"), "stopped");
    let up = crew.json(&["team", "up"])["team"].clone();
    let how = |up: &Value| {
        up.as_array().unwrap().iter().map(|one| format!("{} {}", one["agent"], one["how"])).collect::<Vec<_>>()
    };
    let expected = ["\"lead\" \"registered\"", "\"keeper\" \"started\"", "\"coder\" \"ready\""];
    assert_eq!(how(&up), expected);
    let run = up[1]["run"].clone();
    let again = crew.json(&["team", "up"])["team"].clone();
    assert_eq!((&again[1]["how"], &again[1]["run"]), (&Value::from("running"), &run));
    let keeper = crew.json(&["agents", "--all"]).to_string();
    assert!(keeper.contains("\"role\":\"watch\"") && keeper.contains("\"lead\":\"lead\""), "{keeper}");
    until("keeper to be idle", || crew.state("keeper") == "idle");
    assert_eq!(crew.state("coder"), "idle");

    let number = crew.send("lead", "keeper", "directive");
    until("the message to be done", || crew.delivery(&number)["state"] == "done");
    until("its output", || {
        let logs = crew.json(&["team", "logs", "keeper"]);
        let text = logs["text"].as_str().unwrap_or_default();
        logs["run"] == run && text.starts_with(&format!("ready\nworking on {number}\n"))
    });

    let stopped = crew.json(&["team", "stop", "--all", "--within", "20s", "--as", "lead"])["stopped"].clone();
    let how: Vec<(&Value, &Value)> =
        stopped.as_array().unwrap().iter().map(|one| (&one["agent"], &one["how"])).collect();
    assert_eq!(how, [(&"coder".into(), &"finished".into()), (&"keeper".into(), &"answered".into())]);
    let answer = crew.json(&["read", &stopped[1]["response"].to_string()]);
    assert_eq!((&answer["type"], &answer["body"]), (&"shutdown_response".into(), &"Bye".into()));
    let for_it = crew.json(&["read", &stopped[0]["response"].to_string()]);
    assert_eq!((&for_it["type"], &for_it["payload"]["forced"]), (&"shutdown_response".into(), &false.into()));
    crew.expect_nobody();
    assert_eq!((crew.state("keeper").as_str(), crew.state("coder").as_str()), ("stopped", "stopped"));
    assert_eq!(crew.stop(&["keeper"])["how"], "already");
    crew.desk.verify();
}

#[test]
fn whoever_does_not_stop_is_ended_and_what_it_held_comes_back() {
    let crew = Crew::new(&[("coder", "holds-on.sh", "mode = \"resident\"")], "");
    crew.json(&["team", "up"]);
    let number = crew.send("lead", "coder", "directive");
    until("coder to hold the message", || crew.file("holds").exists());
    assert_eq!(crew.state("coder"), "working");
    let run = crew.status("coder")["runs"][0]["run"].as_str().expect("a run").to_owned();
    let itself = crew.command(&["team", "stop", "coder", "--as", "lead"]).env("POSTE_RUN", run).output().unwrap();
    assert_eq!(itself.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&itself.stderr).contains("this command runs as coder"));
    let stopped = crew.stop(&["coder", "--within", "500ms", "--reason", "Too slow"]);
    assert_eq!((&stopped["how"], &stopped["returned"][0].to_string()), (&"forced".into(), &number));
    crew.expect_nobody();
    let back = crew.delivery(&number);
    assert_eq!((&back["state"], &back["attempts"]), (&"pending".into(), &0.into()), "handed back, not failed: {back}");
    let answer = crew.json(&["read", &stopped["response"].to_string()]);
    assert_eq!((&answer["payload"]["forced"], &answer["payload"]["killed"]), (&true.into(), &false.into()));
    assert!(answer["body"].as_str().unwrap().contains(&format!("Handed back: #{number}")), "{answer}");
    let log = crew.desk.run(&["--json", "log", "show", "--limit", "1000"]);
    assert!(log.contains("\"how\":\"stopped\""), "the run did not end as stopped: {log}");
    assert_eq!(crew.state("coder"), "stopped");
    crew.desk.verify();
}

#[test]
fn a_supervisor_that_does_not_answer_is_killed_and_swept_after() {
    let crew = Crew::new(&[("coder", "holds-on.sh", "mode = \"resident\"")], "");
    crew.json(&["team", "up"]);
    let number = crew.send("lead", "coder", "directive");
    until("coder to hold the message", || crew.file("holds").exists());
    signal(&supervisor(&crew, "coder"), Signal::STOP);
    let stopped = crew.stop(&["coder", "--within", "0s"]);
    assert_eq!(stopped["how"], "forced");
    let answer = crew.json(&["read", &stopped["response"].to_string()]);
    assert_eq!(answer["payload"]["killed"], true);
    crew.expect_nobody();
    assert_eq!(crew.delivery(&number)["state"], "pending");
    assert!(crew.desk.run(&["--json", "log", "show", "--limit", "1000"]).contains("\"how\":\"lost\""));
    crew.desk.verify();
}

#[test]
fn a_no_is_heard_unless_force_is_meant() {
    let crew = Crew::new(&[("coder", "says-no.sh", "mode = \"resident\"")], "");
    crew.json(&["team", "up"]);
    let output = crew.output(&["team", "stop", "coder", "--within", "20s", "--as", "lead"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(12), "{said}");
    assert!(said.contains("still running: it refused") && said.contains("The release is half done"), "{said}");
    until("coder to be idle", || crew.state("coder") == "idle");
    let stopped = crew.stop(&["coder", "--within", "1s", "--force"]);
    assert_eq!(stopped["how"], "forced");
    crew.expect_nobody();
}

#[test]
fn mail_to_who_is_stopped_waits_and_its_sender_knows() {
    let crew = Crew::new(&[("coder", "answer.sh", "")], "");
    crew.json(&["team", "up"]);
    let before = crew.send("lead", "coder", "question");
    assert_eq!(crew.stop(&["coder", "--within", "5s", "--reason", "Enough for today"])["how"], "finished");
    let [first, second] = [0, 1].map(|_| crew.send("anna", "coder", "question"));
    let refused = crew.dispatch("coder", &[&before]).wait().unwrap();
    assert_eq!(refused.code(), Some(75), "nothing is started for a stopped agent");
    for number in [&before, &first, &second] {
        assert_eq!(crew.delivery(number)["state"], "pending");
    }
    let notices = |who: &str| {
        let inbox = crew.json(&["inbox", "--as", who, "--type", "alert"]);
        let subjects =
            inbox["messages"].as_array().unwrap().iter().map(|item| item["subject"].as_str().unwrap().to_owned());
        subjects.collect::<Vec<String>>()
    };
    assert_eq!(notices("anna"), [format!("#{first} to coder is waiting: its recipient is stopped")]);
    assert_eq!(notices("lead"), [format!("#{before} to coder is waiting: its recipient is stopped")]);
    let up = crew.json(&["team", "up", "coder"])["team"][0].clone();
    assert_eq!((&up["how"], &up["resumed"]), (&"ready".into(), &true.into()));
    assert!(crew.dispatch("coder", &[&before]).wait().unwrap().success());
    assert_eq!(crew.delivery(&before)["state"], "done");
}

#[test]
fn who_works_is_seen_to_and_who_is_stuck_is_told_of_once() {
    let crew = Crew::new(&[("coder", "slow.sh", "")], "stuck_after = \"2s\"");
    crew.json(&["team", "up"]);
    let number = crew.send("anna", "coder", "question");
    let mut child = crew.dispatch("coder", &[&number]);
    until("coder to work", || crew.state("coder") == "working");
    let status = crew.status("coder");
    assert_eq!(status["runs"][0]["messages"][0].to_string(), number);
    assert!(status["runs"][0]["lease_left_ms"].as_i64().is_some_and(|left| left > 60_000), "{status}");
    until("its output", || crew.desk.run(&["team", "logs", "coder"]).contains("thinking"));
    assert!(!crew.desk.run(&["team", "logs", "coder"]).contains('\u{1b}'));
    assert_eq!(crew.alerts(), Vec::<String>::new(), "nothing is wrong yet");
    until("coder to be stuck", || crew.state("coder") == "stuck");
    assert!(crew.status("coder")["why"].as_str().unwrap().contains("no output"));
    let told = crew.alerts();
    assert_eq!(told.len(), 1);
    assert_eq!(crew.alerts(), Vec::<String>::new(), "alerted only once");
    let alert = crew.json(&["read", &told[0], "--as", "lead"]);
    assert_eq!((&alert["type"], &alert["payload"]["trouble"]), (&"alert".into(), &"silent".into()));
    fs::write(crew.file("go"), "").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!((crew.state("coder").as_str(), crew.delivery(&number)["state"].as_str()), ("idle", Some("done")));
    crew.expect_nobody();
}

#[test]
fn a_teammate_whose_supervisor_died_is_not_said_to_work() {
    let crew = Crew::new(&[("coder", "slow.sh", "")], "");
    crew.json(&["team", "up"]);
    let number = crew.send("anna", "coder", "question");
    let mut child = crew.dispatch("coder", &[&number]);
    until("coder to work", || crew.state("coder") == "working");
    child.kill().unwrap();
    child.wait().unwrap();
    let status = crew.status("coder");
    assert_eq!((&status["state"], &status["why"]), (&"stuck".into(), &"its supervisor has died".into()));
    let stopped = crew.stop(&["coder", "--within", "0s"]);
    assert_eq!(stopped["how"], "finished", "there was no process to end: {stopped}");
    assert_eq!((crew.state("coder").as_str(), crew.delivery(&number)["state"].as_str()), ("stopped", Some("pending")));
    crew.expect_nobody();
}

#[test]
fn the_same_failure_thrice_is_told_once() {
    let crew = Crew::new(&[("coder", "crashes.sh", "retries = 9\nbackoff = \"0s\"")], "");
    crew.json(&["team", "up"]);
    let number = crew.send("anna", "coder", "question");
    for round in 1..=4 {
        assert!(crew.dispatch("coder", &[&number]).wait().unwrap().success());
        let told = crew.alerts();
        assert_eq!(told.len(), usize::from(round == 3), "round {round}");
    }
    assert_eq!(crew.state("coder"), "stuck");
    let subject = crew.json(&["inbox", "--as", "lead", "--type", "alert"])["messages"][0]["subject"].clone();
    assert!(subject.as_str().unwrap().starts_with("coder is stuck: its last 3 runs each ended"), "{subject}");
}

#[test]
fn a_plan_waits_for_its_approval_and_then_goes_on() {
    let crew = Crew::new(&[("coder", "plans.sh", "")], "");
    crew.json(&["team", "up"]);
    let number = crew.send("anna", "coder", "directive");
    let mut child = crew.dispatch("coder", &[&number]);
    let open = || crew.json(&["approvals", "--mine", "--as", "lead"])["approvals"].clone();
    until("the question", || open().as_array().is_some_and(|open| open.len() == 1));
    assert_eq!(crew.state("coder"), "working");
    assert!(child.try_wait().unwrap().is_none(), "the program still waits");
    crew.json(&["approve", &open()[0]["number"].to_string(), "--as", "lead"]);
    assert!(child.wait().unwrap().success());
    let delivery = crew.delivery(&number);
    assert_eq!(delivery["state"], "done");
    let answer = crew.json(&["read", &delivery["answer"].to_string()]);
    assert_eq!(answer["body"], "went on after: approve");
}

#[test]
fn a_teammate_is_added_while_the_others_work() {
    let crew = Crew::new(&[], "");
    let polite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../poste-testkit/agents/polite.sh");
    let polite = polite.display().to_string();
    let words = ["spawn", "helper", "--role", "builder", "--mode", "resident", "--prompt", "You help.", "--", &polite];
    let added = crew.json(&words);
    assert_eq!((&added["added"], &added["how"]), (&true.into(), &"started".into()));
    let again = crew.json(&words);
    assert_eq!((&again["added"], &again["how"]), (&false.into(), &"running".into()));
    let listed = crew.json(&["team", "list"])["team"].clone();
    assert_eq!(
        (&listed[1]["agent"], &listed[1]["file"], &listed[1]["listed"]),
        (&"helper".into(), &"local.toml".into(), &true.into())
    );
    assert_eq!(crew.stop(&["helper", "--within", "20s"])["how"], "answered");
    // Adding it again resumes it.
    assert_eq!(crew.json(&words)["resumed"], true);
    until("helper to be idle", || crew.state("helper") == "idle");
    assert_eq!(crew.stop(&["helper", "--within", "20s"])["how"], "answered");
    crew.expect_nobody();
}

#[test]
fn a_teammate_that_crashes_has_one_supervisor_and_none_when_it_is_stopped() {
    let desk = Desk::new(&["lead"]);
    fs::write(desk.folder.path().join("poste.toml"), "[team]\nlead = \"lead\"\nmembers = [\"crash\"]\n").unwrap();
    let own = "[agent.crash]\nrun = [\"sh\", \"-c\", \"exit 9\"]\nmode = \"resident\"\n";
    fs::write(desk.office().join("local.toml"), own).unwrap();
    desk.trust();
    let crew = Crew { desk };
    let supervisors = || {
        let office = crew.desk.office();
        let office = office.canonicalize().unwrap();
        let found = fs::read_dir("/proc").unwrap().flatten().filter(|process| {
            let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).into_owned();
            words.contains("run-agent") && fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == office)
        });
        found.count()
    };
    for _ in 0..3 {
        crew.output(&["team", "up"]);
        std::thread::sleep(std::time::Duration::from_millis(400));
    }
    until("one supervisor", || supervisors() == 1);
    let stopped = crew.stop(&["crash", "--within", "0s", "--force"]);
    assert_eq!(supervisors(), 0, "{stopped}");
}

#[test]
fn no_program_speaks_for_a_person() {
    let crew = Crew::new(&[], "");
    crew.desk.run(&["register", "berta", "--kind", "human"]);
    let refused = crew.output(&["spawn", "berta", "--as", "lead", "--", "sh", "-c", "echo approved"]);
    assert_eq!(refused.status.code(), Some(4), "{}", String::from_utf8_lossy(&refused.stderr));
    let local = "[agent.berta]\nrun = [\"true\"]\n";
    fs::write(crew.desk.office().join("local.toml"), local).unwrap();
    crew.desk.trust();
    let refused = crew.output(&["dispatch", "--once"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("registered as human"));
}
