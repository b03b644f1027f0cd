//! Supervisors against programs that interfere with them, and against each other: none hangs, none follows a link
//! out of its folder, and no two work on the same message.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use poste_core::log::{Intent, MessageNo, Proof, Proposal, RunStart, Via};
use poste_core::office::Rules;
use poste_core::store::{host_name, processes};
use poste_core::text::Session;
use poste_dispatch::run;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Reaped, SOON, until};
use crate::run_agent::{Stage, is_there, kill, open};

impl Stage {
    fn send(&self, words: &[&str]) -> String {
        self.desk.json(&[&["send"], words, &["--as", "lead"]].concat())["number"].to_string()
    }

    /// Makes git run this line after it has made a worktree.
    fn hook(&self, line: &str) -> PathBuf {
        let hook = self.desk.programs().join("git");
        let git = "case \"$*\" in *'worktree add'*) command -p git \"$@\" || exit;; *) exec /bin/sh -c 'exec \"$0\" \"$@\"' \"$(command -pv git)\" \"$@\";; esac";
        let pid = self.file("hook");
        fs::write(&hook, format!("#!/bin/sh\n{git}\necho $$ > {}\n{line}\n", pid.display())).unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        hook
    }

    fn in_the_log(&self, text: &str) -> bool {
        let read = |name: &&str| fs::read(self.desk.office().join(name)).unwrap_or_default();
        ["office.db", "office.db-wal"]
            .iter()
            .map(read)
            .any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    }
}

/// Writes its pid to a file and works for ever.
const WORKS: &str = "run = [\"/bin/sh\", \"-c\", \"echo $$ >> \\\"$AGENT_FOLDER/$POSTE_AGENT\\\"; exec sleep 600\"]";

fn pid_in(file: &Path) -> u32 {
    until("a program to start", || fs::read_to_string(file).is_ok_and(|text| text.ends_with('\n')));
    fs::read_to_string(file).unwrap().lines().last().unwrap().parse().unwrap()
}

#[test]
fn mail_of_a_role_has_one_worker_when_the_first_ones_supervisor_was_stopped() {
    let stage = Stage::running(WORKS).with("other", WORKS).policy("lease = \"2s\"\nretry_delay = \"0s\"");
    let number = stage.send(&["role:worker", "Do it", "--type", "question"]);
    let first = Reaped(stage.supervisor(&[&number]).spawn().unwrap());
    let program = pid_in(&stage.file("worker"));
    kill(&first.0, Signal::STOP);
    until("the lease to end", || stage.state(&number) == "pending");
    assert!(is_there(program), "it is not swept yet");
    let second = Reaped(stage.supervisor_of("other", &[&number]).spawn().unwrap());
    pid_in(&stage.file("other"));
    assert!(!is_there(program), "two programs work on one message");
    kill(&second.0, Signal::TERM);
    until("the message to be released", || stage.state(&number) == "pending");
}

#[test]
fn mail_of_a_role_has_one_worker_when_the_first_ones_supervisor_was_killed() {
    let leaves =
        "run = [\"/bin/sh\", \"-c\", \"sh -c 'echo $$ > \\\"$AGENT_FOLDER/worker\\\"; exec sleep 600'; true\"]";
    let stage = Stage::running(leaves).with("other", WORKS).policy("lease = \"2s\"\nretry_delay = \"0s\"");
    let number = stage.send(&["role:worker", "Do it", "--type", "question"]);
    let first = Reaped(stage.supervisor(&[&number]).spawn().unwrap());
    let below = pid_in(&stage.file("worker"));
    drop(first);
    until("the lease to end", || stage.state(&number) == "pending");
    assert!(is_there(below), "it is not swept yet");
    let second = Reaped(stage.supervisor_of("other", &[&number]).spawn().unwrap());
    pid_in(&stage.file("other"));
    assert!(!is_there(below), "two programs work on one message");
    kill(&second.0, Signal::TERM);
    until("the message to be released", || stage.state(&number) == "pending");
    stage.expect_nobody();
}

#[test]
fn pipes_where_the_supervisor_writes_do_not_hold_it_up() {
    let script = "d=$AGENT_FOLDER/.poste/runs/$POSTE_RUN; mkfifo $d/output.new $d/end.json.new; \
                  rm -f $d/answer; mkfifo $d/answer; mkfifo $POSTE_ANSWER_FILE; yes | head -c 6000000; echo done";
    let stage = Stage::running(&format!("run = [\"/bin/sh\", \"-c\", \"{script}\"]\ntime_limit = \"5m\""));
    let number = stage.ask();
    let mut first = Reaped(stage.supervisor(&[&number]).spawn().unwrap());
    assert!(first.ended(SOON), "the supervisor hangs");
    assert_eq!(stage.state(&number), "done");
    assert_eq!(stage.end()["how"], "exited");
}

#[test]
fn links_where_the_supervisor_writes_lead_nowhere() {
    let script = "d=$AGENT_FOLDER/.poste/runs/$POSTE_RUN; \
                  for f in answer end.json.new output.new; do ln -sf $AGENT_FOLDER/precious $d/$f; done; \
                  yes | head -c 6000000; echo done";
    let stage = Stage::running(&format!("run = [\"/bin/sh\", \"-c\", \"{script}\"]"));
    fs::write(stage.file("precious"), "kept").unwrap();
    let number = stage.ask();
    assert_eq!(stage.ran(&number)["state"], "done");
    assert_eq!(fs::read_to_string(stage.file("precious")).unwrap(), "kept");
    let folder = &stage.run_folders()[0];
    assert!(fs::symlink_metadata(folder.join("answer")).unwrap().is_file());
}

#[test]
fn an_answer_that_is_a_link_or_a_pipe_is_none() {
    let stage = Stage::running(
        "run = [\"/bin/sh\", \"-c\", \"ln -s $AGENT_FOLDER/poste.toml $POSTE_ANSWER_FILE\"]\nanswer = \"file\"",
    );
    let number = stage.ask();
    assert_eq!(stage.ran(&number)["state"], "pending");
    assert_eq!(stage.answers().len(), 0);
}

#[test]
fn what_one_program_puts_in_place_of_its_file_harms_no_other() {
    for spoil in ["mkfifo x; mv x run.json", "ln -sf /dev/zero run.json", "rm lock; mkfifo lock"] {
        let script =
            format!("cd $AGENT_FOLDER/.poste/runs/$POSTE_RUN; {spoil}; echo x > $AGENT_FOLDER/spoilt; sleep 600");
        let stage = Stage::running(&format!("run = [\"/bin/sh\", \"-c\", \"{script}\"]"))
            .with("good", "run = [\"/bin/sh\", \"-c\", \"echo fine\"]");
        let number = stage.ask();
        let first = Reaped(stage.supervisor(&[&number]).spawn().unwrap());
        until("the program to start", || stage.file("spoilt").exists());
        let other = stage.send(&["good", "Q", "--type", "question"]);
        let mut second = Reaped(stage.supervisor_of("good", &[&other]).spawn().unwrap());
        assert!(second.ended(SOON), "{spoil}: the supervisor hangs");
        assert_eq!(stage.state(&other), "done", "{spoil}");
        assert_eq!(stage.state(&number), "claimed", "{spoil}");
        // It is swept all the same once it is killed.
        drop(first);
        assert_eq!(run::sweep(&mut open(&stage), None).unwrap().lost.len(), 1, "{spoil}");
        assert_eq!(stage.state(&number), "pending", "{spoil}");
        stage.expect_nobody();
    }
}

#[test]
fn a_supervisor_that_hangs_is_ended_once_it_has_held_nothing_for_a_lease() {
    let stage = Stage::new("answer.sh", "concurrency = 2").policy("lease = \"2s\"\nretry_delay = \"0s\"");
    let number = stage.ask();
    let run: Session = "hangs".parse().unwrap();
    let mut office = open(&stage);
    poste_config::sync_policy(&mut office).unwrap();
    // Like a supervisor up to the start of its run; then it only holds its lock.
    let lock = stage.file(".poste/runs/hangs/lock");
    let line = "until [ -s \"$2\" ]; do sleep 0.01; done; exec 9>> \"$1\"; flock 9; echo > \"$3\"; exec sleep 600";
    let (ready, holds) = (stage.file("ready"), stage.file("holds"));
    let mut command = Command::new("/bin/sh");
    let mut first = Reaped(command.args(["-c", line, "sh"]).args([&lock, &ready, &holds]).spawn().unwrap());
    until("the shell to start", || is_there(first.0.id()));
    let supervisor = processes::written_down(first.0.id());
    let messages = vec![MessageNo(number.parse().unwrap())];
    let about = run::About {
        run: run.clone(),
        agent: "worker".parse().unwrap(),
        messages: messages.clone(),
        runner: "command".to_owned(),
        supervisor: supervisor.clone(),
        program: None,
        started_at: office.wall(),
    };
    let (_, held) = run::RunFolder::create(office.path().unwrap(), &about).unwrap();
    drop(held);
    fs::write(&ready, "x").unwrap();
    until("its lock", || holds.exists());
    let start = RunStart {
        run: run.clone(),
        messages,
        lease_ms: None,
        limit: None,
        runner: "command".to_owned(),
        host: host_name(),
        supervisor,
    };
    let proposal = Proposal {
        id: "start".parse().unwrap(),
        actor: "worker".parse().unwrap(),
        session: Some(run),
        via: Via::Cli,
        proof: Proof::None,
        sent_at: office.wall(),
        intent: Intent::RunStart(start),
        content: None,
    };
    office.submit(&[proposal], &Rules::none()).unwrap().pop().unwrap().verdict.accepted().unwrap();
    until("the lease to end", || stage.state(&number) == "pending");
    assert_eq!(run::sweep(&mut open(&stage), None).unwrap().lost.len(), 0, "it may still end on its own");
    assert!(is_there(first.0.id()));
    assert_eq!(stage.run(&[&number]).status.code(), Some(0), "the next supervisor waits, and then begins");
    assert!(first.ended(SOON));
}

#[test]
fn a_batch_ends_when_one_of_its_messages_is_taken_away_and_the_others_go_back() {
    let stage = Stage::running(&format!("{WORKS}\nbatch = 2\nconcurrency = 2")).policy("retry_delay = \"0s\"");
    let (one, two) = (stage.ask(), stage.ask());
    let mut first = Reaped(stage.supervisor(&[&one, &two]).spawn().unwrap());
    let program = pid_in(&stage.file("worker"));
    stage.desk.run(&["release", &one, "--as", "worker"]);
    // A supervisor that comes at once waits until the first one has ended.
    let second = Reaped(stage.supervisor(&[&one]).spawn().unwrap());
    until("the second program to start", || {
        fs::read_to_string(stage.file("worker")).is_ok_and(|text| text.lines().count() == 2)
    });
    assert!(!is_there(program), "two programs work on one message");
    assert!(first.ended(SOON));
    let delivery = stage.delivery(&two);
    assert_eq!((delivery["state"].as_str(), delivery["attempts"].as_u64()), (Some("pending"), Some(0)), "{delivery}");
    kill(&second.0, Signal::TERM);
    until("the message to be released", || stage.state(&one) == "pending");
}

#[test]
fn a_program_of_a_batch_may_give_one_back_and_go_on_with_the_rest() {
    let stage = Stage::running(
        "run = [\"/bin/sh\", \"-c\", \"poste release $POSTE_MESSAGE >&2; sleep 3; echo the rest\"]\nbatch = 2",
    );
    let (one, two) = (stage.ask(), stage.ask());
    let output = stage.run(&[&one, &two]);
    assert!(output.status.success());
    assert_eq!((stage.state(&one).as_str(), stage.state(&two).as_str()), ("pending", "done"));
}

#[test]
fn a_key_whose_beginning_is_cut_off_does_not_get_into_the_log() {
    let line = "MIIEowIBAAKCAQEA7bq2l3Zk9xQe4Yt1Vw8Rr5sP0uHnJc6dXfGaBmKyTzLoWiEv";
    let stage = Stage::running("run = [\"/bin/sh\", \"-c\", \"cat $AGENT_FOLDER/pem >&2; exit 3\"]");
    let (begin, end) = (concat!("-----BEGIN RSA PRIV", "ATE KEY-----"), concat!("-----END RSA PRIV", "ATE KEY-----"));
    let trace = "  File \"x.py\", line 3, in <module>\n".repeat(40);
    fs::write(stage.file("pem"), format!("{begin}\n{}{end}\n{trace}", format!("{line}\n").repeat(48))).unwrap();
    let number = stage.ask();
    stage.ran(&number);
    assert!(stage.in_the_log("it seems to hold a private key") && !stage.in_the_log(line));
}

#[test]
fn an_id_that_is_an_option_is_not_gone_on_with() {
    let script = "echo '{\\\"type\\\":\\\"result\\\",\\\"result\\\":\\\"x\\\",\\\"session_id\\\":\\\"--evil\\\"}'; echo \\\"$@\\\" >> $AGENT_FOLDER/words";
    let stage = Stage::running(&format!(
        "preset = \"claude-code\"\nresume = true\nrun = [\"/bin/sh\", \"-c\", \"{script}\", \"--resume\", \"{{conversation}}\"]"
    ));
    for _ in 0..2 {
        let number = stage.ask();
        assert_eq!(stage.ran(&number)["state"], "done");
    }
    assert!(!fs::read_to_string(stage.file("words")).unwrap().contains("evil"));
    // Such an id is not stored either.
    let kept = stage.desk.office().join("runs/.conversations/worker.json");
    assert!(!kept.exists());
}

#[test]
fn a_message_that_came_by_two_addresses_is_taken_once_and_the_most_urgent_first() {
    let stage = Stage::running("run = [\"/bin/sh\", \"-c\", \"echo all of $POSTE_MESSAGES\"]\nbatch = 3");
    let twice = stage.send(&["worker,role:worker", "Twice", "--type", "question"]);
    let own = stage.send(&["worker", "Later", "--type", "question"]);
    let urgent = stage.send(&["role:worker", "Now", "--type", "question", "--priority", "urgent"]);
    let output = stage.run(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(stage.answers()[0]["body"], format!("all of {urgent},{twice},{own}"));
}

#[test]
fn what_git_started_ends_with_the_supervisor_and_the_worktree_is_whole() {
    let stage = Stage::running("run = [\"/bin/sh\", \"-c\", \"git status --porcelain; ls\"]\nworktree = true").in_git();
    let hook = stage.hook("exec sleep 600");
    let number = stage.ask();
    let first = Reaped(stage.supervisor(&[&number]).spawn().unwrap());
    let below = pid_in(&stage.file("hook"));
    drop(first);
    fs::remove_file(&hook).unwrap();
    assert_eq!(stage.ran(&number)["state"], "done", "{}", stage.delivery(&number));
    assert!(!is_there(below), "a process that git started is still running");
    assert_eq!(stage.answers()[0]["body"], "poste.toml");
    stage.expect_nobody();
}

#[test]
fn a_lease_is_kept_while_git_works_and_what_was_lost_meanwhile_is_not_begun() {
    let stage =
        Stage::running("run = [\"/bin/sh\", \"-c\", \"echo begun > $AGENT_FOLDER/begun; echo x\"]\nworktree = true")
            .policy("lease = \"4s\"\nretry_delay = \"0s\"")
            .in_git();
    stage.hook("sleep 10");
    let number = stage.ask();
    let mut first = Reaped(stage.supervisor(&[&number]).spawn().unwrap());
    pid_in(&stage.file("hook"));
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(stage.state(&number), "claimed", "the lease is kept");
    stage.desk.run(&["done", &number, "--summary", "I did it", "--as", "worker"]);
    assert!(first.ended(SOON));
    assert!(!stage.file("begun").exists(), "the program was started all the same");
}

#[test]
fn the_programs_own_variable_hides_nobody() {
    let script = "POSTE_SUPERVISES=x setsid poste log follow > /dev/null 2>&1 & echo $! > $AGENT_FOLDER/follows; sleep 0.5; echo x";
    let stage = Stage::running(&format!("run = [\"/bin/sh\", \"-c\", \"{script}\"]"));
    let number = stage.ask();
    assert_eq!(stage.ran(&number)["state"], "done");
    stage.expect_nobody();
}

#[test]
fn the_mark_of_a_supervisor_is_not_passed_on() {
    let stage = Stage::running("run = [\"/bin/sh\", \"-c\", \"env\"]");
    let local = stage.desk.office().join("local.toml");
    let config = fs::read_to_string(&local).unwrap().replace("\"AGENT_*\"", "\"AGENT_*\", \"POSTE_*\"");
    fs::write(&local, config).unwrap();
    stage.desk.trust();
    let number = stage.ask();
    assert_eq!(stage.ran(&number)["state"], "done");
    let body = stage.answers()[0]["body"].as_str().unwrap().to_owned();
    assert!(body.contains("POSTE_RUN=") && !body.contains("POSTE_SUPERVISES"), "{body}");
}

#[test]
fn the_name_of_a_subagent_goes_with_a_supervisor_that_was_killed() {
    let stage = Stage::running(
        "run = [\"/bin/sh\", \"-c\", \"echo $POSTE_AGENT > $AGENT_FOLDER/name; exec sleep 600\"]\nmode = \"subagent\"",
    );
    let number = stage.ask();
    let first = Reaped(stage.supervisor(&[&number]).spawn().unwrap());
    let file = stage.file("name");
    until("the program to start", || fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')));
    let name = fs::read_to_string(&file).unwrap().trim().to_owned();
    let prompt = fs::read_to_string(stage.run_folders()[0].join("prompt.md")).unwrap();
    assert!(prompt.contains("answer with the reason") && !prompt.contains("poste fail"), "{prompt}");
    drop(first);
    assert_eq!(run::sweep(&mut open(&stage), None).unwrap().lost.len(), 1);
    let gone: Value = stage.desk.json(&["whoami", "--as", &name]);
    assert!(gone["retired_at"].is_string(), "{gone}");
    assert!(stage.desk.json(&["whoami", "--as", "worker"])["retired_at"].is_null());
    stage.desk.verify();
}

#[test]
fn who_sweeps_heeds_the_agents_own_tries_and_pauses() {
    for (config, state, ready) in [("backoff = \"1h\"", "pending", 75), ("retries = 1", "failed", 75)] {
        let stage = Stage::running(&format!("{WORKS}\n{config}"));
        let number = stage.ask();
        let first = Reaped(stage.supervisor(&[&number]).spawn().unwrap());
        pid_in(&stage.file("worker"));
        drop(first);
        assert_eq!(run::sweep(&mut open(&stage), None).unwrap().lost.len(), 1);
        assert_eq!(stage.state(&number), state, "{config}");
        assert_eq!(stage.run(&[&number]).status.code(), Some(ready), "{config}");
    }
}

#[test]
fn a_folder_of_the_repository_that_is_a_link_out_of_it_is_not_run_in() {
    let stage = Stage::running("run = [\"/bin/pwd\"]");
    fs::remove_file(stage.desk.office().join("local.toml")).unwrap();
    symlink("/etc", stage.file("inside")).unwrap();
    let config = "[delivery]\nretry_delay = \"0s\"\n[agent.worker]\nrun = [\"/bin/pwd\"]\nfolder = \"inside\"\n";
    fs::write(stage.file("poste.toml"), config).unwrap();
    stage.desk.run(&["register", "anna", "--kind", "human"]);
    stage.desk.trust();
    let number = stage.ask();
    let delivery = stage.ran(&number);
    assert_eq!(delivery["state"], "pending");
    assert!(delivery.to_string().contains("outside the project"), "{delivery}");
}

#[test]
fn folders_of_old_runs_are_dropped_without_a_dispatcher_too() {
    let stage = Stage::new("answer.sh", "");
    let number = stage.ask();
    stage.ran(&number);
    let folder = stage.run_folders().remove(0);
    for index in 0..420 {
        let old = folder.with_file_name(format!("old-{index}"));
        fs::create_dir(&old).unwrap();
        fs::write(old.join("lock"), "").unwrap();
        fs::copy(folder.join("end.json"), old.join("end.json")).unwrap();
        let about = fs::read_to_string(folder.join("run.json")).unwrap();
        let run = folder.file_name().unwrap().to_str().unwrap();
        fs::write(old.join("run.json"), about.replace(run, &format!("old-{index}"))).unwrap();
    }
    let number = stage.ask();
    stage.ran(&number);
    assert!(stage.run_folders().len() <= 202, "{}", stage.run_folders().len());
}
