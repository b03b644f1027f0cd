//! Dispatchers with real processes: order, limits, kills, several dispatchers at once, holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Desk, Reaped, expect_success, finish, until};

/// An office whose agents are small shell scripts, which record what they do in files next to it.
struct Stage {
    desk: Desk,
}

/// Records its run, whether another run has the same message, and how many runs its agent has at once.
const WORKS: &str = r#"cat >/dev/null
cd "$AGENT_FOLDER"
mkdir "live-$POSTE_MESSAGE" || echo "twice $POSTE_MESSAGE" >>wrong
mkdir "slot-$POSTE_AGENT-$POSTE_MESSAGE"
ls -d slot-$POSTE_AGENT-* | wc -l >>"peak-$POSTE_AGENT"
echo "$POSTE_AGENT $POSTE_MESSAGE" >>ran
sleep ${AGENT_SLEEP:-0}
while [ "${AGENT_WAITS:-no}" = yes ] && [ ! -e go ]; do sleep 0.02; done
rmdir "slot-$POSTE_AGENT-$POSTE_MESSAGE" "live-$POSTE_MESSAGE"
echo done
"#;

impl Stage {
    /// Each agent has a name, a script and more of its section. They need no trust: the file is this machine's own.
    fn new(agents: &[(&str, &str, &str)], more: &str) -> Self {
        let names: Vec<&str> = std::iter::once("lead").chain(agents.iter().map(|(name, ..)| *name)).collect();
        let stage = Self { desk: Desk::new(&names) };
        stage.configure(agents, more);
        stage
    }

    fn configure(&self, agents: &[(&str, &str, &str)], more: &str) {
        let text = format!("{more}\n{}", self.sections(agents));
        fs::write(self.desk.office().join("local.toml"), text).unwrap();
        self.desk.trust();
        fs::write(self.path("poste.toml"), "[delivery]\nretry_delay = \"0s\"\n").unwrap();
    }

    fn sections(&self, agents: &[(&str, &str, &str)]) -> String {
        let mut text = String::new();
        for (name, script, lines) in agents {
            let path = self.path(&format!("{name}.sh"));
            fs::write(&path, script).unwrap();
            let path = path.display();
            text.push_str(&format!(
                "[agent.{name}]\nrun = [\"sh\", \"{path}\"]\nenvironment = [\"AGENT_*\"]\n{lines}\n"
            ));
        }
        text
    }

    fn path(&self, name: &str) -> PathBuf {
        self.desk.folder.path().join(name)
    }

    fn send(&self, to: &str, kind: &str) -> u64 {
        let sent = self.desk.json(&["send", to, "Please", "Do it.", "--type", kind, "--as", "lead"]);
        sent["number"].as_u64().unwrap()
    }

    fn dispatch(&self, args: &[&str]) -> Command {
        let mut command = self.desk.command(&[&["dispatch"], args].concat());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("AGENT_FOLDER", self.desk.folder.path());
        command.env("TZ", "UTC");
        command
    }

    /// Lifts a hold as a person.
    fn resume(&self, args: &[&str]) {
        self.desk.run(&["register", "boss", "--kind", "human"]);
        self.desk.run(&[&["dispatch", "resume"], args, &["--as", "boss"]].concat());
    }

    fn once(&self) -> Output {
        let output = self.dispatch(&["--once"]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        // All runs succeeded, or a run failed or mail is held.
        assert!(matches!(output.status.code(), Some(0 | 11)), "{}: {said}", output.status);
        output
    }

    /// Which agent ran for which message, in order.
    fn ran(&self) -> Vec<(String, u64)> {
        let text = fs::read_to_string(self.path("ran")).unwrap_or_default();
        let line = |line: &str| {
            let (agent, number) = line.split_once(' ')?;
            Some((agent.to_owned(), number.parse().ok()?))
        };
        text.lines().filter_map(line).collect()
    }

    fn numbers(&self) -> Vec<u64> {
        self.ran().into_iter().map(|(_, number)| number).collect()
    }

    fn state(&self, number: u64) -> String {
        let track = self.desk.json(&["track", &number.to_string()]);
        track["deliveries"][0]["state"].as_str().unwrap().to_owned()
    }

    fn agent(&self, name: &str) -> Value {
        self.desk.json(&["dispatch", "status", "--agent", name])["agents"][0].clone()
    }

    fn alerts(&self, of: &str) -> Vec<Value> {
        let inbox = self.desk.json(&["inbox", "--as", of, "--all"]);
        let all = inbox["messages"].as_array().unwrap().iter();
        all.filter(|message| message["type"] == "alert").cloned().collect()
    }

    fn runs(&self) -> Vec<Value> {
        self.desk.json(&["dispatch", "runs", "--limit", "1000"])["runs"].as_array().unwrap().clone()
    }

    /// Whether any process of this office is running.
    fn is_somebody(&self) -> bool {
        let home = format!("POSTE_HOME={}", self.desk.office().canonicalize().unwrap().display());
        fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|pair| pair == home.as_bytes())
        })
    }

    fn until_nobody(&self) {
        until("every process to end", || !self.is_somebody());
    }

    /// Checks what must hold once no work is left.
    fn expect_each_once(&self, messages: &[u64], limits: &[(&str, u64)]) {
        assert_eq!(fs::read_to_string(self.path("wrong")).unwrap_or_default(), "");
        let mut times: BTreeMap<u64, usize> = BTreeMap::new();
        self.numbers().into_iter().for_each(|number| *times.entry(number).or_default() += 1);
        let expected: BTreeMap<u64, usize> = messages.iter().map(|number| (*number, 1)).collect();
        assert_eq!(times, expected);
        for (agent, limit) in limits {
            let text = fs::read_to_string(self.path(&format!("peak-{agent}"))).unwrap();
            let peak = text.lines().filter_map(|line| line.trim().parse::<u64>().ok()).max().unwrap();
            assert!(peak <= *limit, "{agent} ran {peak} times at once");
        }
        messages.iter().for_each(|number| assert_eq!(self.state(*number), "done", "message {number}"));
        self.desk.verify();
    }
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).expect("the process exists");
}

#[test]
fn the_most_urgent_is_first_and_then_everybody_in_turn() {
    let agents = [("anna", WORKS, ""), ("ben", WORKS, ""), ("carl", WORKS, "")];
    let stage = Stage::new(&agents, "[dispatch]\nconcurrency = 1");
    let anna: Vec<u64> = (0..3).map(|_| stage.send("anna", "question")).collect();
    let ben: Vec<u64> = (0..2).map(|_| stage.send("ben", "question")).collect();
    let carl = stage.send("carl", "alert");
    stage.once();
    assert_eq!(stage.numbers(), [carl, anna[0], ben[0], anna[1], ben[1], anna[2]]);
    stage.expect_each_once(&[anna, ben, vec![carl]].concat(), &[("anna", 1), ("ben", 1)]);
    stage.until_nobody();
}

#[test]
fn two_dispatchers_start_nothing_twice_and_no_more_than_may_run() {
    let agents =
        [("anna", WORKS, "concurrency = 2"), ("ben", WORKS, "concurrency = 1"), ("carl", WORKS, "concurrency = 3")];
    let stage = Stage::new(&agents, "");
    let messages: Vec<u64> =
        (0..8).flat_map(|_| ["anna", "ben", "carl"].map(|agent| stage.send(agent, "question"))).collect();
    let both = (0..2).map(|_| stage.dispatch(&["--once"]).env("AGENT_SLEEP", "0.05").spawn().unwrap()).collect();
    for output in finish(both) {
        expect_success(&["dispatch"], &output);
    }
    // Neither dispatcher waited for messages it had left to the other.
    stage.once();
    stage.expect_each_once(&messages, &[("anna", 2), ("ben", 1), ("carl", 3)]);
    stage.until_nobody();
}

#[test]
fn a_dispatcher_that_is_killed_costs_nothing() {
    let stage = Stage::new(&[("anna", WORKS, "concurrency = 2")], "");
    let messages: Vec<u64> = (0..8).map(|_| stage.send("anna", "question")).collect();
    for round in 1..=3 {
        let mut dispatcher = stage.dispatch(&[]).env("AGENT_SLEEP", "0.2").spawn().unwrap();
        until("a run to start", || stage.numbers().len() > round * 2 - 2);
        signal(&dispatcher, Signal::KILL);
        dispatcher.wait().unwrap();
    }
    // Runs continue without a dispatcher, and the next dispatcher does not take them over.
    until("the runs to end", || stage.runs().iter().all(|run| !run["ended_at"].is_null()));
    assert!(stage.numbers().len() < messages.len());
    stage.once();
    stage.expect_each_once(&messages, &[("anna", 2)]);
    stage.until_nobody();
}

#[test]
fn a_dispatcher_that_goes_on_is_woken_by_new_mail() {
    let stage = Stage::new(&[("anna", WORKS, "")], "");
    let mut dispatcher = stage.dispatch(&["--json"]).spawn().unwrap();
    let first = stage.send("anna", "question");
    until("the first answer", || stage.state(first) == "done");
    let second = stage.send("anna", "question");
    until("the second answer", || stage.state(second) == "done");
    signal(&dispatcher, Signal::INT);
    assert!(dispatcher.wait().unwrap().success());
    stage.expect_each_once(&[first, second], &[("anna", 1)]);
}

#[test]
fn the_first_interrupt_waits_for_what_runs_and_the_second_stops_it() {
    let stage = Stage::new(&[("anna", WORKS, "grace = \"1s\"")], "");
    let first = stage.send("anna", "question");
    let mut dispatcher = stage.dispatch(&[]).env("AGENT_WAITS", "yes").stderr(Stdio::piped()).spawn().unwrap();
    until("the run to start", || stage.numbers() == [first]);
    let second = stage.send("anna", "question");
    signal(&dispatcher, Signal::INT);
    let mut said = BufReader::new(dispatcher.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("nothing more is started")), "the dispatcher handled the signal");
    fs::write(stage.path("go"), "").unwrap();
    assert!(dispatcher.wait().unwrap().success());
    assert_eq!((stage.state(first), stage.state(second)), ("done".to_owned(), "pending".to_owned()));

    let mut dispatcher = stage.dispatch(&[]).env("AGENT_SLEEP", "60").spawn().unwrap();
    until("the run to start", || stage.numbers() == [first, second]);
    signal(&dispatcher, Signal::INT);
    std::thread::sleep(Duration::from_millis(200));
    assert!(dispatcher.try_wait().unwrap().is_none(), "the dispatcher still waits");
    signal(&dispatcher, Signal::INT);
    assert!(dispatcher.wait().unwrap().success());
    assert_eq!(stage.state(second), "pending");
    assert_eq!(stage.runs()[0]["how"], "stopped");
    stage.until_nobody();
}

#[test]
fn one_run_can_be_stopped_and_what_it_printed_read() {
    let stage =
        Stage::new(&[("anna", "cat >/dev/null; echo here I am; echo >>\"$AGENT_FOLDER/up\"; sleep 60", "")], "");
    let number = stage.send("anna", "question").to_string();
    let mut dispatcher = stage.dispatch(&["--once", "--no-wait"]).spawn().unwrap();
    assert!(dispatcher.wait().unwrap().success());
    until("the program to start", || stage.path("up").exists());
    until("its output", || stage.desk.run(&["dispatch", "logs", &number]) == "here I am\n");
    let stopped = stage.desk.command(&["dispatch", "stop", &number]).output().unwrap();
    assert!(String::from_utf8_lossy(&stopped.stderr).contains("poste team stop anna"), "how to stop the agent");
    until("the run to end", || stage.runs()[0]["how"] == "stopped");
    let again = stage.desk.command(&["dispatch", "stop", &number]).output().unwrap();
    assert!(String::from_utf8_lossy(&again.stderr).contains("has already ended"));
    assert_eq!(stage.desk.run(&["dispatch", "logs", &number]), "here I am\n");
    stage.until_nobody();
}

/// A script that sends a message to the other agent and finishes its own.
fn writes_to(other: &str) -> String {
    format!(
        "cat >/dev/null; echo \"$POSTE_AGENT $POSTE_MESSAGE\" >>\"$AGENT_FOLDER/ran\"\n\
         poste send {other} Again --type directive && poste done \"$POSTE_MESSAGE\"\n"
    )
}

#[test]
fn two_agents_that_start_each_other_are_stopped_and_somebody_is_told() {
    let (to_ben, to_anna) = (writes_to("ben"), writes_to("anna"));
    let agents = [("anna", to_ben.as_str(), "max_hops = 3"), ("ben", to_anna.as_str(), "max_hops = 3")];
    let stage = Stage::new(&agents, "");
    for agent in ["anna", "ben"] {
        stage.desk.run(&["register", agent, "--update", "--lead", "lead"]);
    }
    let first = stage.send("anna", "directive");
    stage.once();
    let names: Vec<String> = stage.ran().into_iter().map(|(agent, _)| agent).collect();
    assert_eq!(names, ["anna", "ben", "anna", "ben"]);
    let held = stage.agent("anna")["holds"][0].clone();
    assert_eq!((&held["why"], stage.state(held["message"].as_u64().unwrap())), (&"hops".into(), "pending".to_owned()));
    assert!(held["message"].as_u64().unwrap() > first);
    let [alert] = &stage.alerts("lead")[..] else { panic!("the lead gets one alert: {:?}", stage.alerts("lead")) };
    assert!(alert["subject"].as_str().unwrap().contains("anna is not started"), "{alert}");
    assert_eq!(stage.alerts("ben").len(), 1, "the sender is alerted, too, and not started for the alert");
    // It stays held on every pass, and is started once the hold is lifted.
    stage.once();
    assert_eq!((stage.ran().len(), stage.alerts("lead").len()), (4, 1));
    let number = held["message"].to_string();
    stage.resume(&["anna", &number, "--reason", "Once more"]);
    stage.once();
    assert_eq!(
        (stage.ran().len(), stage.alerts("lead").len()),
        (5, 2),
        "one more run, and the chain is too long again"
    );
    stage.desk.verify();
}

#[test]
fn an_agent_that_starts_workflows_for_itself_is_stopped() {
    let script = "cat >/dev/null; echo \"$POSTE_AGENT $POSTE_MESSAGE\" >>\"$AGENT_FOLDER/ran\"\n\
                  poste workflow run again && poste done \"$POSTE_MESSAGE\"\n";
    let stage = Stage::new(&[("anna", script, "max_hops = 3")], "");
    fs::create_dir(stage.path("workflows")).unwrap();
    let definition = "title = \"Again\"\n[[step]]\nkey = \"again\"\nagent = \"anna\"\nrequest = \"Again.\"\n";
    fs::write(stage.path("workflows/again.toml"), definition).unwrap();
    stage.send("anna", "directive");
    stage.once();
    // Each run causes two more: one for the step it started, and one for the end of that workflow.
    assert_eq!(stage.ran().len(), 1 + 2 + 4 + 8);
    assert_eq!(stage.agent("anna")["holds"][0]["why"], "hops");
    stage.desk.verify();
}

#[test]
fn without_a_lead_whoever_began_a_loop_and_every_person_is_told() {
    let (to_ben, to_anna) = (writes_to("ben"), writes_to("anna"));
    let agents = [("anna", to_ben.as_str(), "max_hops = 3"), ("ben", to_anna.as_str(), "max_hops = 3")];
    let stage = Stage::new(&agents, "");
    stage.desk.run(&["register", "mary", "--kind", "human"]);
    stage.send("anna", "directive");
    stage.once();
    let told: Vec<usize> = ["lead", "mary", "ben"].map(|name| stage.alerts(name).len()).to_vec();
    assert_eq!(told, [1, 1, 1]);
}

#[test]
fn a_budget_that_is_used_up_is_seen_and_can_be_lifted() {
    let budget = |runs: u32| format!("budget = {{ runs = {runs}, per = \"day\" }}");
    let stage = Stage::new(&[("anna", WORKS, &budget(2))], "");
    let messages: Vec<u64> = (0..5).map(|_| stage.send("anna", "question")).collect();
    let output = String::from_utf8(stage.once().stdout).unwrap();
    assert!(output.contains("held anna (budget, ends in"), "{output}");
    assert_eq!(stage.numbers(), messages[..2]);
    let agent = stage.agent("anna");
    assert_eq!((&agent["state"], &agent["holds"][0]["why"]), (&"held".into(), &"budget".into()));
    assert_eq!((&agent["spent"]["runs"], &agent["queue"]), (&2.into(), &3.into()));
    assert_eq!(stage.alerts("lead").len(), 1);
    // A person lifts the hold, for the same budget again.
    stage.resume(&["anna"]);
    stage.once();
    assert_eq!(stage.numbers(), messages[..4]);
    // A larger budget lifts the hold automatically.
    stage.configure(&[("anna", WORKS, &budget(9))], "");
    let output = String::from_utf8(stage.once().stdout).unwrap();
    assert!(output.starts_with("anna can be started again"), "{output}");
    stage.expect_each_once(&messages, &[("anna", 1)]);
}

#[test]
fn what_nobody_trusts_is_not_run() {
    let stage = Stage::new(&[("anna", WORKS, "")], "");
    stage.desk.run(&["register", "mary", "--kind", "human"]);
    fs::remove_file(stage.desk.office().join("local.toml")).unwrap();
    fs::write(stage.path("poste.toml"), stage.sections(&[("anna", WORKS, "")])).unwrap();
    let message = stage.send("anna", "question");
    let output = stage.once();
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not trusted"));
    assert_eq!((stage.numbers(), stage.state(message)), (vec![], "pending".to_owned()));
    assert_eq!(stage.agent("anna")["holds"][0]["why"], "misconfigured");
    assert_eq!(stage.alerts("lead").len(), 1);
    stage.desk.trust();
    stage.once();
    stage.expect_each_once(&[message], &[("anna", 1)]);
}

/// The time of day, as hours and minutes, this many hours from now.
fn clock(hours: i64) -> String {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let minutes = (seconds / 60 + hours * 60).rem_euclid(24 * 60);
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

#[test]
fn in_quiet_hours_only_what_cannot_wait_is_started() {
    let quiet = format!("quiet = \"{}-{}\"", clock(-2), clock(2));
    let stage = Stage::new(&[("anna", WORKS, &quiet)], "");
    let (patient, urgent) = (stage.send("anna", "question"), stage.send("anna", "alert"));
    stage.once();
    assert_eq!(stage.numbers(), [urgent]);
    assert_eq!((stage.agent("anna")["state"].clone(), stage.state(patient)), ("quiet".into(), "pending".to_owned()));
    stage.configure(&[("anna", WORKS, "")], "");
    stage.once();
    stage.expect_each_once(&[urgent, patient], &[("anna", 1)]);
}

#[test]
fn the_clock_starts_an_agent_once_for_what_was_to_wait() {
    let stage = Stage { desk: Desk::without_office() };
    let hours_ago = std::time::SystemTime::now() - Duration::from_secs(2 * 3_600);
    let hours_ago = hours_ago.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let back_then = format!("{}Z", utc(hours_ago));
    let send: &[&str] = &["send", "anna", "Findings", "--type", "audit_report", "--as", "lead"];
    let steps: [&[&str]; 4] = [&["init"], &["register", "lead"], &["register", "anna"], send];
    for args in steps {
        let output = stage.desk.command(args).env("POSTE_TEST_CLOCK", &back_then).output().unwrap();
        expect_success(args, &output);
    }
    stage.configure(&[("anna", WORKS, "")], "");
    stage.once();
    assert!(stage.numbers().is_empty(), "a report alone starts no run");
    stage.configure(&[("anna", WORKS, "schedule = \"0 * * * *\"")], "");
    // Two scheduled times were missed, and one run makes up for both.
    stage.once();
    assert_eq!(stage.numbers(), [1]);
    let later = stage.send("anna", "audit_report");
    stage.once();
    assert_eq!((stage.numbers(), stage.state(later)), (vec![1], "pending".to_owned()), "it waits for the next hour");
    assert!(stage.agent("anna")["schedule_next"].is_string());
}

/// A time in RFC 3339, without its zone.
fn utc(seconds: u64) -> String {
    let output =
        Command::new("date").args(["-u", "-d", &format!("@{seconds}"), "+%Y-%m-%dT%H:%M:%S"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn who_is_kept_running_runs_once_and_is_stopped_with_the_dispatcher() {
    let script = "echo $$ >>\"$AGENT_FOLDER/up\"; exec sleep 600";
    let stage = Stage::new(&[("anna", script, "mode = \"resident\"\ngrace = \"1s\"")], "");
    let mut dispatcher = stage.dispatch(&["--stop-runs"]).spawn().unwrap();
    until("the run to start", || stage.path("up").exists() && stage.agent("anna")["state"] == "running");
    let second = stage.dispatch(&["--once"]).output().unwrap();
    expect_success(&["dispatch", "--once"], &second);
    assert_eq!(fs::read_to_string(stage.path("up")).unwrap().lines().count(), 1);
    signal(&dispatcher, Signal::INT);
    assert!(dispatcher.wait().unwrap().success());
    stage.until_nobody();
}

#[test]
fn who_is_kept_running_goes_on_without_the_dispatcher_and_that_is_said() {
    let script = "echo $$ >>\"$AGENT_FOLDER/up\"; exec sleep 600";
    let stage = Stage::new(&[("anna", script, "mode = \"resident\"\ngrace = \"1s\"")], "");
    let mut dispatcher = Reaped(stage.dispatch(&[]).spawn().unwrap());
    until("the run to start", || stage.path("up").exists() && stage.agent("anna")["state"] == "running");
    signal(&dispatcher.0, Signal::INT);
    let (status, said) = dispatcher.finish();
    assert!(status.success(), "{said}");
    assert!(said.contains("anna is resident and keeps running; stop it: poste team stop anna"), "{said}");
    assert_eq!(stage.agent("anna")["state"], "running");
    stage.desk.run(&["team", "stop", "anna", "--within", "0s", "--force", "--as", "lead"]);
    assert!(!stage.is_somebody());
}

#[test]
fn a_program_that_crashes_is_kept_by_one_however_many_start_it() {
    let stage = Stage::new(&[("anna", "exit 9", "mode = \"resident\"\nbackoff = \"300ms\"")], "");
    let both = [(); 2].map(|()| Reaped(stage.dispatch(&[]).spawn().unwrap()));
    until("a run to start", || !stage.runs().is_empty());
    stage.desk.run(&["team", "up", "anna"]);
    until("a few more starts", || stage.runs().len() >= 4);
    let supervisors: BTreeSet<u64> = stage.runs().iter().filter_map(|run| run["supervisor"].as_u64()).collect();
    assert_eq!(supervisors.len(), 1, "{supervisors:?}");
    // It is not held, so there is no hold to lift; the output says what is wrong and what to do.
    until("the restarts to be noticed", || stage.agent("anna")["state"] == "restarting");
    let agent = stage.agent("anna");
    assert!(agent["why"].as_str().is_some_and(|why| why.contains("each ended with exit code 9")), "{agent}");
    let output = stage.dispatch(&["status"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("stop it: poste team stop anna"));
    stage.desk.run(&["register", "boss", "--kind", "human"]);
    let output = stage.dispatch(&["resume", "anna", "--as", "boss"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(4) && said.contains("poste team logs anna"), "{said}");
    stage.desk.run(&["team", "stop", "anna", "--within", "0s", "--force", "--as", "lead"]);
    assert!(!stage.is_somebody(), "no process of a stopped agent is left");
    let runs = stage.runs().len();
    for mut dispatcher in both {
        signal(&dispatcher.0, Signal::INT);
        let (status, said) = dispatcher.finish();
        assert!(status.success(), "{said}");
    }
    assert_eq!(stage.runs().len(), runs);
}

#[test]
fn whoever_dispatches_once_learns_by_the_code_whether_all_is_well() {
    let (fails, budget) = ("cat >/dev/null; exit 3", "budget = { runs = 1, per = \"day\" }");
    let agents = [("anna", WORKS, ""), ("ben", fails, "retries = 1"), ("carl", WORKS, budget)];
    let stage = Stage::new(&agents, "");
    let once = |args: &[&str]| {
        let output = stage.dispatch(&[&["--once"], args].concat()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    stage.send("anna", "question");
    assert_eq!(once(&[]).0, Some(0));
    stage.send("ben", "question");
    let (code, said) = once(&[]);
    assert_eq!(code, Some(11), "{said}");
    assert!(said.contains("1 run failed") && said.contains("poste dispatch logs RUN"), "{said}");
    assert_eq!(once(&[]).0, Some(0), "the failed run is not reported again");
    for _ in 0..2 {
        stage.send("carl", "question");
    }
    for _ in 0..2 {
        let (code, said) = once(&[]);
        assert!(code == Some(11) && said.contains("mail is held for carl"), "{code:?}: {said}");
    }
    assert_eq!(once(&["--agent", "anna"]).0, Some(0), "the hold concerns another agent");
    stage.resume(&["carl"]);
    assert_eq!(once(&[]).0, Some(0));
    // A supervisor that cannot start: the gate is not trusted.
    let gate = "[[gate]]\nname = \"checked\"\ntype = \"question\"\ncommand = [\"true\"]\n";
    fs::write(stage.path("poste.toml"), gate).unwrap();
    stage.send("anna", "question");
    let (code, said) = once(&[]);
    assert!(code == Some(11) && said.contains("1 run could not be started"), "{code:?}: {said}");
    stage.until_nobody();
}

#[test]
fn a_budget_holds_whatever_else_an_agent_is_held_for() {
    let limits = "starts_per_minute = 2\nbudget = { runs = 3, per = \"day\" }";
    let stage = Stage::new(&[("anna", WORKS, limits)], "");
    let messages: Vec<u64> = (0..7).map(|_| stage.send("anna", "question")).collect();
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    // Noon, so that the day does not end during the test.
    let noon = (seconds / 86_400 + 1) * 86_400 + 43_200;
    let mut ran = Vec::new();
    for minutes in 0..4 {
        let now = format!("{}Z", utc(noon + minutes * 61));
        stage.dispatch(&["--once"]).env("POSTE_TEST_CLOCK", &now).output().unwrap();
        ran.push(stage.numbers().len());
    }
    assert_eq!(ran, [2, 3, 3, 3], "a pause of a minute does not reset the daily budget");
    assert_eq!(stage.state(messages[3]), "pending");
    let track = stage.desk.json(&["track", &messages[3].to_string()]);
    assert_eq!((&track["holds"][0]["agent"], &track["holds"][0]["why"]), (&"anna".into(), &"budget".into()));
}

#[test]
fn a_request_is_answered_without_a_dispatcher() {
    let stage = Stage::new(&[("anna", "cat >/dev/null; echo forty-two", "")], "");
    let output =
        stage.dispatch(&["send", "anna", "How many?", "--wait", "30s", "--as", "lead", "--json"]).output().unwrap();
    expect_success(&["dispatch", "send"], &output);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["from"], &answer["body"]), (&"anna".into(), &"forty-two".into()));
    assert_eq!(answer["payload"]["request_id"], 1);
    stage.until_nobody();
}

#[test]
fn an_agent_that_fails_whatever_it_is_for_is_given_a_rest() {
    let stage = Stage::new(&[("anna", "cat >/dev/null; exit 3", "retries = 1")], "");
    let messages: Vec<u64> = (0..8).map(|_| stage.send("anna", "question")).collect();
    stage.once();
    let states: Vec<String> = messages.iter().map(|number| stage.state(*number)).collect();
    assert_eq!(states.iter().filter(|state| *state == "failed").count(), 5, "{states:?}");
    assert_eq!(states.iter().filter(|state| *state == "pending").count(), 3, "the agent is paused");
    assert_eq!(stage.agent("anna")["holds"][0]["why"], "failing");
}

#[test]
fn whoever_has_no_session_is_woken_by_starting_it() {
    let quiet = format!("quiet = \"{}-{}\"", clock(-2), clock(2));
    let stage = Stage::new(&[("anna", WORKS, ""), ("ben", WORKS, &quiet)], "");
    let message = stage.send("anna", "question");
    let wake = |who: &str| {
        let mut command = stage.desk.command(&["wake", who, "--as", "lead", "--json"]);
        command.env("PATH", "/usr/bin:/bin").env("AGENT_FOLDER", stage.desk.folder.path()).env("TZ", "UTC");
        serde_json::from_slice::<Value>(&command.output().unwrap().stdout).unwrap()["rung"][0].clone()
    };
    let rung = wake("anna");
    assert_eq!((&rung["tried"][0]["how"], &rung["outcome"]), (&"spawn".into(), &"requested".into()));
    until("the answer", || stage.state(message) == "done");
    let track = stage.desk.json(&["track", &message.to_string()]).to_string();
    assert!(track.contains("wake_requested") && track.contains("run_started"), "{track}");
    // `wake` does not start what a dispatcher would not start.
    let patient = stage.send("ben", "question");
    let rung = wake("ben");
    assert_eq!((&rung["tried"][0]["how"], &rung["outcome"]), (&"none".into(), &"failed".into()));
    assert!(rung["tried"][0]["reason"].as_str().unwrap().contains("quiet hours"), "{rung}");
    assert_eq!(stage.state(patient), "pending");
    stage.expect_each_once(&[message], &[("anna", 1)]);
    stage.until_nobody();
}

#[test]
fn what_comes_back_later_and_what_a_run_said_can_be_seen() {
    let stage = Stage::new(&[("anna", "cat >/dev/null; echo I cannot connect; exit 3", "")], "");
    fs::write(stage.path("poste.toml"), "[delivery]\nretry_delay = \"1h\"\n").unwrap();
    let message = stage.send("anna", "question");
    stage.once();
    let agent = stage.agent("anna");
    let later = &agent["later"][0];
    assert_eq!((&agent["state"], &later["why"]), (&"waiting".into(), &"attempt".into()), "{agent}");
    assert_eq!((&later["attempts"], &later["max_attempts"]), (&1.into(), &5.into()), "{agent}");
    assert!(later["until"].is_string());
    let plan = stage.dispatch(&["--dry-run"]).output().unwrap();
    let plan = String::from_utf8_lossy(&plan.stdout).into_owned();
    assert!(plan.contains(&format!("#{message} waits for anna: retry in")) && plan.contains("1 of 5 failed"), "{plan}");
    let track = stage.desk.run(&["track", &message.to_string()]);
    let said = "last run exit code 3: last output: I cannot connect; its output: poste dispatch logs";
    assert!(track.contains(&format!("{said} {message}")), "{track}");
    let runs = stage.desk.run(&["dispatch", "runs"]);
    assert!(runs.contains("exit code 3") && runs.contains("last output: I cannot connect"), "{runs}");
}

#[test]
fn whoever_waits_for_a_run_that_failed_is_told_what_it_printed_last() {
    let script = "cat >/dev/null; echo nothing of that; printf 'I cannot \\033[31mconnect\\n\\n'; exit 3";
    let stage = Stage::new(&[("anna", script, "retries = 1"), ("ben", "", "retries = 1")], "");
    let local = stage.desk.office().join("local.toml");
    let text = fs::read_to_string(&local).unwrap();
    let missing = stage.path("ben.sh").display().to_string();
    fs::write(&local, text.replace(&format!("\"sh\", \"{missing}\""), "\"poste-no-such-program\"")).unwrap();
    stage.desk.trust();
    let failed = stage.send("anna", "question");
    let not_started = stage.send("ben", "question");
    stage.once();
    let inbox = stage.desk.json(&["inbox", "--as", "lead", "--all"]);
    let about = |number: u64| {
        let all = inbox["messages"].as_array().unwrap();
        let subject = format!("#{number} ");
        let found = all.iter().find(|message| message["subject"].as_str().unwrap().starts_with(&subject));
        stage.desk.run(&["read", &found.expect("an alert")["number"].to_string(), "--as", "lead"])
    };
    let alert = about(failed);
    assert!(alert.contains("> it ended with exit code 3; last output: I cannot"), "{alert}");
    assert!(alert.contains(&format!("poste dispatch logs {failed}")) && !alert.contains('\u{1b}'), "{alert}");
    let why = "program not found: poste-no-such-program";
    assert!(about(not_started).contains(why));
    let runs = stage.desk.run(&["dispatch", "runs", "ben"]);
    assert!(runs.contains("not_started") && runs.contains(why), "{runs}");
    let logs = stage.dispatch(&["logs", &not_started.to_string()]).output().unwrap();
    assert!(String::from_utf8_lossy(&logs.stderr).contains(why));
    assert!(stage.desk.json(&["dispatch", "logs", &not_started.to_string()])["why"].as_str().unwrap().contains(why));
}

#[test]
fn what_waits_for_an_earlier_step_or_for_a_person_is_seen() {
    let (to_ben, to_anna) = (writes_to("ben"), writes_to("anna"));
    let agents = [("anna", to_ben.as_str(), "max_hops = 1"), ("ben", to_anna.as_str(), "max_hops = 1")];
    let stage = Stage::new(&[agents[0], agents[1], ("carl", WORKS, "")], "");
    stage.send("anna", "directive");
    stage.once();
    let held = stage.agent("anna")["holds"][0]["message"].as_u64().unwrap();
    let step = |to: &str, step: &str| {
        let words = ["send", to, "Do it", "--type", "directive", "--workflow", "w", "--step", step, "--as", "lead"];
        stage.desk.json(&words)["number"].as_u64().unwrap()
    };
    let (first, second) = (step("lead", "1"), step("carl", "2"));
    let plan = stage.dispatch(&["--dry-run"]).output().unwrap();
    let plan = String::from_utf8_lossy(&plan.stdout).into_owned();
    let of_held = format!("#{held} waits for anna: held; lift the hold: poste dispatch resume anna {held}\n");
    let of_step = format!("#{second} waits for carl: after #{first}, an earlier step\n");
    assert!(plan.contains(&of_held) && plan.contains(&of_step), "{plan}");
    let carl = stage.agent("carl");
    assert_eq!((&carl["state"], &carl["later"][0]["after"]), (&"waiting".into(), &first.into()), "{carl}");
    let status = stage.desk.run(&["dispatch", "status"]);
    assert!(status.contains(&format!("#{second} after #{first}, an earlier step")), "{status}");
    assert_eq!(stage.agent("anna")["state"], "waiting");
}

#[test]
fn whoever_writes_to_who_is_held_hears_of_it() {
    let stage = Stage::new(&[("anna", WORKS, "budget = { runs = 1, per = \"day\" }")], "");
    for _ in 0..2 {
        stage.send("anna", "question");
    }
    stage.once();
    let output = stage.dispatch(&["send", "anna", "More", "--wait", "1s", "--as", "lead"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert_eq!(said.matches("anna is not started: held (budget, ends").count(), 2, "at once and at the end: {said}");
    assert!(said.contains("poste dispatch resume anna"), "{said}");
    let refused = stage.dispatch(&["resume", "anna", "--as", "anna"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(4), "{}", String::from_utf8_lossy(&refused.stderr));
}

#[test]
fn nobody_waits_for_what_is_not_trusted() {
    let stage = Stage::new(&[("anna", WORKS, "")], "");
    fs::remove_file(stage.desk.office().join("local.toml")).unwrap();
    fs::write(stage.path("poste.toml"), stage.sections(&[("anna", WORKS, ""), ("new", WORKS, "")])).unwrap();
    for name in ["anna", "new"] {
        let output = stage.dispatch(&["send", name, "Please", "--wait", "1h", "--as", "lead"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.contains("poste trust")), (Some(4), true), "{said}");
    }
}

/// A pseudoterminal of this size: our end, and the program's.
fn terminal(columns: u16, rows: u16) -> (fs::File, fs::File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::os::unix::ffi::OsStrExt as _;
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("a terminal");
    let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&ours, size).expect("a size");
    let name = ptsname(&ours, Vec::new()).expect("its name");
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
    let theirs = fs::OpenOptions::new().read(true).write(true).open(path).expect("its other end");
    (ours.into(), theirs)
}

/// What a terminal shows after this output. Supports what a dispatcher's table uses: lines, and moving up over them.
fn shown(signs: &str) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    let mut rest = signs;
    while let Some(sign) = rest.chars().next() {
        rest = &rest[sign.len_utf8()..];
        match sign {
            '\n' => lines.push(String::new()),
            '\r' => {}
            '\u{1b}' => {
                let end = rest.find(|sign: char| sign.is_ascii_alphabetic()).expect("a whole sequence");
                let (number, letter) = (rest[1..end].parse().unwrap_or(1), &rest[end..=end]);
                rest = &rest[end + 1..];
                match letter {
                    "F" => lines.truncate(lines.len() - number),
                    "J" => *lines.last_mut().expect("a line") = String::new(),
                    _ => {} // a colour
                }
            }
            sign => lines.last_mut().expect("a line").push(sign),
        }
    }
    lines
}

#[test]
fn at_a_terminal_a_table_is_drawn_anew_in_its_place() {
    // A terminal that does not report its size is treated as an ordinary one.
    for (columns, rows) in [(100, 30), (0, 0)] {
        let stage = Stage::new(&[("anna", WORKS, ""), ("ben", WORKS, "")], "");
        let (ours, theirs) = terminal(columns, rows);
        let mut command = stage.dispatch(&[]);
        command.stdout(theirs.try_clone().unwrap()).stderr(std::process::Stdio::null()).env("AGENT_SLEEP", "2");
        let mut dispatcher = Reaped(command.spawn().unwrap());
        drop((command, theirs));
        let signs = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = std::sync::Arc::clone(&signs);
        let reader = std::thread::spawn(move || {
            let (mut ours, mut bytes) = (ours, [0; 4096]);
            // Reading fails once the last handle of the other end is closed.
            while let Ok(read @ 1..) = std::io::Read::read(&mut ours, &mut bytes) {
                seen.lock().unwrap().extend_from_slice(&bytes[..read]);
            }
        });
        let screen = || shown(&String::from_utf8_lossy(&signs.lock().unwrap()));
        let row = |name: &str, state: &str| {
            let is_row = |line: &&String| line.trim_start().starts_with(name) && line.contains("waiting");
            screen().iter().filter(is_row).map(|line| line.contains(&format!(" {state} "))).eq([true])
        };
        until("a table", || row("anna", "idle") && row("ben", "idle"));
        let number = stage.send("anna", "question");
        until("anna to be shown as running", || row("anna", "running") && row("ben", "idle"));
        until("the run to end", || stage.state(number) == "done");
        until("anna to be shown as idle", || row("anna", "idle"));
        signal(&dispatcher.0, Signal::INT);
        assert!(dispatcher.finish().0.success());
        reader.join().unwrap();
        let screen = screen();
        let count = |what: &str| screen.iter().filter(|line| line.contains(what)).count();
        assert_eq!(count("places taken"), 1, "the table is redrawn in its place: {screen:#?}");
        assert_eq!((count("anna started for #1"), count("anna ended for #1")), (1, 1), "{screen:#?}");
    }
}

#[test]
fn whoever_waited_for_a_decision_is_not_started_for_it_again() {
    const PLANS: &str = "cat >/dev/null\necho x >>\"$AGENT_FOLDER/asked\"\n\
        poste ask lead Plan 'I will.' --plan --wait >/dev/null && echo went on\n";
    let stage = Stage::new(&[("planner", PLANS, "")], "");
    stage.send("planner", "directive");
    let mut child = Reaped(stage.dispatch(&["--once"]).spawn().expect("it starts"));
    let open = || stage.desk.json(&["approvals", "--as", "lead"])["approvals"].as_array().map_or(0, Vec::len);
    until("its question", || open() == 1);
    let asked = stage.desk.json(&["approvals", "--as", "lead"])["approvals"][0]["number"].to_string();
    expect_success(&["approve"], &stage.desk.command(&["approve", &asked, "--as", "lead"]).output().unwrap());
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    assert_eq!(fs::read_to_string(stage.path("asked")).unwrap(), "x\n", "once");
    stage.until_nobody();
}

#[test]
fn who_ends_well_without_an_answer_failed() {
    let stage = Stage::new(&[("silent", "cat >/dev/null\n", "retries = 1\nconcurrency = 1")], "");
    for _ in 0..7 {
        stage.send("silent", "directive");
    }
    let output = stage.once();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(11) && said.contains(" 0 succeeded"), "{said}");
    let runs = stage.runs();
    assert!(runs.iter().all(|run| run["how"] == "unanswered"), "{runs:?}");
    assert_eq!(runs[0]["said"], "it ended without an answer");
    assert_eq!(runs.len(), 5, "after that the agent is paused");
    assert_eq!(stage.agent("silent")["state"], "held");
}

#[test]
fn once_sees_to_the_rules_too() {
    let rule = "[[on]]\nname = \"lines\"\ntype = \"alert\"\nhandler = \"log\"\n";
    let stage = Stage::new(&[("silent", "cat >/dev/null\n", "retries = 1")], rule);
    stage.send("silent", "directive");
    let output = stage.once();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("lines (log)  #2"), "no notification of the failure: {said}");
}
