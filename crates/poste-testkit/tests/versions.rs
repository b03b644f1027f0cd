//! Two programs with different schemas on one office: the older one asks for an upgrade, and nothing diverges.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

const NOW: &str = env!("CARGO_BIN_EXE_poste-now");
const NEXT: &str = env!("CARGO_BIN_EXE_poste-next");
const NEEDS_UPGRADE: Option<i32> = Some(10);

struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    /// An office made by this program, with one message in it.
    fn new() -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap() };
        for command in ["init", "register lead", "register coder", "send coder hello --as lead"] {
            desk.expect(NOW, command);
        }
        desk
    }

    fn command(&self, program: &str, words: &str, lets_in: &str) -> Command {
        let mut command = Command::new(program);
        command
            .args(words.split(' '))
            .current_dir(self.folder.path())
            .env_clear()
            .env("HOME", self.folder.path().join("home"))
            .env("XDG_STATE_HOME", poste_testkit::state::home())
            .env("POSTE_NEXT_LETS_IN", lets_in)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, program: &str, words: &str, lets_in: &str) -> Output {
        self.command(program, words, lets_in).output().unwrap()
    }

    fn expect(&self, program: &str, words: &str) -> String {
        self.expect_with(program, words, "readers")
    }

    fn expect_with(&self, program: &str, words: &str, lets_in: &str) -> String {
        let output = self.run(program, words, lets_in);
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Asserts that the command is refused with "upgrade" and appends nothing.
    fn expect_upgrade(&self, words: &str) {
        let before = self.records();
        let output = self.run(NOW, words, "readers");
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), NEEDS_UPGRADE, "{words}: {talk}");
        assert!(talk.contains("upgrade poste to a release that supports version 2"), "{talk}");
        assert_eq!(self.records(), before);
    }

    fn records(&self) -> u64 {
        let report: serde_json::Value =
            serde_json::from_str(&self.expect(NEXT, "--json log verify")).expect("a report in JSON");
        assert_eq!(report["problems"], serde_json::json!([]));
        report["records"].as_u64().unwrap()
    }

    fn copy_before_migration(&self) -> PathBuf {
        self.folder.path().join(".poste/before-schema-2.db")
    }
}

#[test]
fn the_newer_program_migrates_after_setting_a_copy_aside_and_the_older_one_then_only_reads() {
    let desk = Desk::new();
    assert!(desk.expect(NEXT, "send coder again --as lead").starts_with("#2 "));
    assert!(desk.copy_before_migration().exists());
    desk.expect_upgrade("send coder third --as lead");
    desk.expect_upgrade("claim --as coder");
    assert!(desk.expect(NOW, "inbox --as coder").contains("again"), "reading still works");
    assert!(desk.expect(NEXT, "claim --as coder").contains("hello"));
}

#[test]
fn a_program_that_is_running_while_the_file_is_migrated_stops_at_its_next_write() {
    let desk = Desk::new();
    desk.expect(NOW, "done 1 --as coder");
    let mut claimer: Child = desk.command(NOW, "claim --wait --timeout 60s --as coder", "readers").spawn().unwrap();
    wait_until_open(&desk, &claimer);
    desk.expect(NEXT, "send coder work --type directive --as lead");
    let mut talk = String::new();
    std::io::Read::read_to_string(&mut claimer.stderr.take().unwrap(), &mut talk).unwrap();
    assert_eq!(claimer.wait().unwrap().code(), NEEDS_UPGRADE, "{talk}");
    // The claim did not happen: the newer program can take it.
    assert!(desk.expect(NEXT, "claim --as coder").contains("work"));
    desk.records();
}

#[test]
fn an_older_program_goes_on_writing_where_the_newer_one_says_it_may() {
    let desk = Desk::new();
    desk.expect_with(NEXT, "send coder again --as lead", "writers");
    assert!(desk.expect(NOW, "send coder third --as lead").starts_with("#3 "));
    desk.records();
}

#[test]
fn an_older_program_does_not_even_read_what_it_would_misread() {
    let desk = Desk::new();
    desk.expect_with(NEXT, "send coder again --as lead", "nobody");
    for command in ["inbox --as coder", "track 1", "send coder third --as lead"] {
        assert_eq!(desk.run(NOW, command, "readers").status.code(), NEEDS_UPGRADE, "{command}");
    }
}

#[test]
fn many_newer_programs_at_once_migrate_once() {
    let desk = Desk::new();
    let senders: Vec<Child> =
        (0..16).map(|_| desk.command(NEXT, "send coder again --as lead", "readers").spawn().unwrap()).collect();
    for sender in senders {
        let output = sender.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(desk.records(), 3 + 1 + 16);
}

#[test]
fn an_older_program_says_so_instead_of_calling_a_newer_file_damaged() {
    let desk = Desk::new();
    desk.expect(NEXT, "send coder again --as lead");
    assert_eq!(desk.run(NOW, "log verify", "readers").status.code(), NEEDS_UPGRADE);
}

#[test]
fn the_doctor_of_an_older_program_says_upgrade_and_nothing_else() {
    let desk = Desk::new();
    desk.expect_with(NEXT, "send coder again --as lead", "nobody");
    let output = desk.run(NOW, "--json doctor", "nobody");
    assert_eq!(output.status.code(), Some(11), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks: Vec<_> = report["findings"].as_array().unwrap().iter().map(|found| found["check"].clone()).collect();
    assert_eq!(checks, ["version", "copy"], "{report:#}");
    assert_eq!(desk.run(NEXT, "doctor", "nobody").status.code(), Some(0));
}

#[test]
fn the_doctor_of_a_newer_program_does_not_upgrade_an_office() {
    let desk = Desk::new();
    desk.expect(NEXT, "doctor");
    assert!(!desk.copy_before_migration().exists());
    desk.expect(NOW, "send coder again --as lead");
}

#[test]
fn a_snapshot_is_restored_by_a_newer_program_and_a_newer_one_refused_by_an_older() {
    let desk = Desk::new();
    desk.expect(NOW, "snapshot copy");
    desk.expect(NOW, "send coder again --as lead");
    desk.expect(NEXT, "restore copy --replace");
    assert_eq!(desk.records(), 4, "as it was at the snapshot");
    desk.expect_upgrade("send coder again --as lead");
    desk.expect(NEXT, "snapshot newer");
    let before = desk.records();
    assert_eq!(desk.run(NOW, "restore newer --replace", "readers").status.code(), NEEDS_UPGRADE);
    assert_eq!(desk.records(), before);
}

/// Waits until a process has opened the office, according to the kernel.
fn wait_until_open(desk: &Desk, child: &Child) {
    let database = desk.folder.path().join(".poste/office.db").canonicalize().unwrap();
    for _ in 0..2_000 {
        let files = std::fs::read_dir(format!("/proc/{}/fd", child.id())).into_iter().flatten().flatten();
        if files.into_iter().any(|file| std::fs::read_link(file.path()).is_ok_and(|target| target == database)) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it did not open the office");
}
