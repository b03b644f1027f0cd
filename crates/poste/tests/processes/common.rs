//! Runs the real program, many processes at a time.

#![allow(dead_code, reason = "two test programs use this file, each a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A folder with an office, and the program to work on it.
pub(crate) struct Desk {
    pub folder: tempfile::TempDir,
    programs: tempfile::TempDir,
}

impl Desk {
    /// An office with these agents.
    pub(crate) fn new(agents: &[&str]) -> Self {
        let desk = Self::without_office();
        desk.run(&["init"]);
        for agent in agents {
            desk.run(&["register", agent, "--role", "worker"]);
        }
        desk
    }

    pub(crate) fn without_office() -> Self {
        let folder = || tempfile::tempdir().expect("a temporary folder");
        Self { folder: folder(), programs: folder() }
    }

    /// For programs that Poste needs itself: it starts none that lies in the project.
    pub(crate) fn programs(&self) -> &Path {
        self.programs.path()
    }

    pub(crate) fn office(&self) -> PathBuf {
        self.folder.path().join(".poste")
    }

    /// The program without this process's environment. Whoever is registered as a person is one.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.bare_command(args);
        command.env("POSTE_TEST_PERSON", "1");
        command
    }

    /// Like [`Self::command`], for a program that nobody sits in front of.
    pub(crate) fn bare_command(&self, args: &[&str]) -> Command {
        poste_testkit::signals::ignored_by_nobody_started();
        let mut command = Command::new(env!("CARGO_BIN_EXE_poste"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .env_clear()
            .env("HOME", self.folder.path().join("home"))
            .env("XDG_STATE_HOME", poste_testkit::state::home())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Trusts the commands in the files of the office, as a person would.
    pub(crate) fn trust(&self) {
        poste_testkit::state::trust(&self.office());
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).spawn().expect("the program starts")
    }

    /// Runs it and expects success.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        let output = self.command(args).output().expect("the program runs");
        expect_success(args, &output);
        String::from_utf8(output.stdout).expect("text")
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let text = self.run(&[&["--json"], args].concat());
        serde_json::from_str(&text).expect("an answer in JSON")
    }

    /// Checks that the office is sound: chain, content, and tables equal to the folded log.
    pub(crate) fn verify(&self) {
        let report = self.json(&["log", "verify"]);
        assert_eq!(report["problems"], Value::Array(Vec::new()));
    }

    /// The number of an agent's pending messages.
    pub(crate) fn pending(&self, agent: &str) -> u64 {
        self.json(&["whoami", "--as", agent])["pending"].as_u64().expect("a number")
    }
}

/// Another program, without this process's environment except `PATH`, and with its own home.
pub(crate) fn without_inheritance(mut command: Command, home: &Path) -> Command {
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", home);
    command.env("XDG_STATE_HOME", poste_testkit::state::home());
    command
}

pub(crate) fn expect_success(what: &[&str], output: &Output) {
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "poste {what:?} ended with {}: {talk}", output.status);
}

/// Waits for all children and returns their output, in order.
pub(crate) fn finish(children: Vec<Child>) -> Vec<Output> {
    children.into_iter().map(|child| child.wait_with_output().expect("the program ends")).collect()
}

/// Kills the process when the test ends, even if it fails.
pub(crate) struct Reaped(pub Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Reaped {
    pub(crate) fn ended(&mut self, within: Duration) -> bool {
        let until = Instant::now() + within;
        while Instant::now() < until {
            if self.0.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Waits for the process and returns its status and stderr.
    pub(crate) fn finish(&mut self) -> (std::process::ExitStatus, String) {
        let mut said = String::new();
        if let Some(mut stderr) = self.0.stderr.take() {
            std::io::Read::read_to_string(&mut stderr, &mut said).expect("text");
        }
        (self.0.wait().expect("it ends"), said)
    }
}

/// Longer than anything a test waits for takes, even on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < end, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until each of these processes has opened the office, according to `/proc`.
pub(crate) fn until_all_wait(desk: &Desk, children: &[Child]) {
    let database = desk.office().join("office.db").canonicalize().unwrap();
    let has_it_open = |child: &Child| {
        let Ok(files) = std::fs::read_dir(format!("/proc/{}/fd", child.id())) else { return false };
        files.flatten().any(|file| std::fs::read_link(file.path()).is_ok_and(|target| target == database))
    };
    until("the waiters to open the office", || children.iter().all(has_it_open));
}
