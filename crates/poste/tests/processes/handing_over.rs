//! Files of a handoff that change while it is created, or afterwards, are always noticed and named.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Desk, expect_success, finish};

const CREATE: &[&str] = &["handoff", "create", "coder", "--task", "Take it over", "--artifact", "work", "--as", "lead"];

/// An office with a large file, which takes a while to copy, and a small one that is copied after it.
struct Workshop {
    desk: Desk,
    large_mib: u64,
}

impl Workshop {
    fn new(large_mib: u64) -> Self {
        let desk = Desk::new(&["lead", "coder"]);
        let work = desk.folder.path().join("work");
        fs::create_dir(&work).unwrap();
        let mut large = File::create(work.join("a-large.bin")).unwrap();
        let block: Vec<u8> = (0..1024 * 1024).map(|n: u32| (n % 251) as u8).collect();
        for number in 0..large_mib {
            large.write_all(&block).unwrap();
            large.write_all(&number.to_le_bytes()).unwrap();
        }
        fs::write(work.join("b-small.txt"), "what was agreed\n").unwrap();
        fs::write(desk.folder.path().join("other.txt"), "what was agreed\n").unwrap();
        Self { desk, large_mib }
    }

    fn large(&self) -> PathBuf {
        self.desk.folder.path().join("work/a-large.bin")
    }

    fn small(&self) -> PathBuf {
        self.desk.folder.path().join("work/b-small.txt")
    }

    /// Waits until the first file is being copied, when all are listed. Returns false if the copy was too fast.
    fn until_copying(&self, child: &mut Child) -> bool {
        let blobs = self.desk.office().join("blobs");
        let deadline = Instant::now() + Duration::from_secs(60);
        while Instant::now() < deadline {
            let names = fs::read_dir(&blobs).unwrap().flatten();
            let is_copying = names.into_iter().any(|entry| {
                entry.file_name().len() < 64 && entry.metadata().is_ok_and(|meta| meta.len() > 256 * 1024)
            });
            if is_copying {
                return true;
            }
            if child.try_wait().unwrap().is_some() {
                return false;
            }
        }
        panic!("no copy began");
    }

    fn handoffs(&self) -> usize {
        self.desk.json(&["handoff", "list"])["handoffs"].as_array().unwrap().len()
    }
}

/// Changes files while a handoff is created, with larger and larger files until the change comes in time.
fn caught(name: &str, sabotage: impl Fn(&Workshop), expected: &str) {
    for large_mib in [48, 192, 768] {
        let workshop = Workshop::new(large_mib);
        let mut child = workshop.desk.spawn(CREATE);
        if !workshop.until_copying(&mut child) {
            continue;
        }
        sabotage(&workshop);
        let was_copying = child.try_wait().unwrap().is_none();
        let output = finish(vec![child]).remove(0);
        if !was_copying && output.status.success() {
            continue;
        }
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{name}, {} MiB: {told}", workshop.large_mib);
        assert!(told.contains(expected), "{name}: {told}");
        assert_eq!(workshop.handoffs(), 0, "{name}");
        workshop.desk.verify();
        return;
    }
    panic!("{name}: every file was copied before it could be changed");
}

#[test]
fn a_file_that_grows_while_it_is_copied_is_caught() {
    caught(
        "grown",
        |workshop| {
            let mut large = File::options().append(true).open(workshop.large()).unwrap();
            large.write_all(b"one line more").unwrap();
        },
        "work/a-large.bin: it changed while it was",
    );
}

#[test]
fn a_file_that_is_truncated_while_it_is_copied_is_caught() {
    caught(
        "truncated",
        |workshop| File::options().write(true).open(workshop.large()).unwrap().set_len(1_000).unwrap(),
        "work/a-large.bin: it changed while it was",
    );
}

#[test]
fn a_file_that_is_rewritten_in_its_place_while_others_are_copied_is_caught() {
    caught(
        "rewritten",
        |workshop| {
            let mut small = File::options().write(true).open(workshop.small()).unwrap();
            small.seek(SeekFrom::Start(0)).unwrap();
            small.write_all(b"WHAT WAS AGREED\n").unwrap();
        },
        "work/b-small.txt: it changed while it was",
    );
}

#[test]
fn a_file_that_is_replaced_between_listing_and_copying_is_caught() {
    caught(
        "replaced",
        |workshop| fs::rename(workshop.desk.folder.path().join("other.txt"), workshop.small()).unwrap(),
        "work/b-small.txt: it was replaced since it was listed",
    );
}

fn swap_for_link(workshop: &Workshop, target: &Path) {
    let link = workshop.desk.folder.path().join("link");
    symlink(target, &link).unwrap();
    fs::rename(link, workshop.small()).unwrap();
}

#[test]
fn a_file_that_is_swapped_for_a_link_between_listing_and_copying_is_caught() {
    caught(
        "a link inside",
        |workshop| swap_for_link(workshop, Path::new("../other.txt")),
        "work/b-small.txt: it was replaced since it was listed",
    );
    caught(
        "a link outside",
        |workshop| swap_for_link(workshop, Path::new("/etc/hostname")),
        "work/b-small.txt: it cannot be read, or it leads out of the worktree",
    );
}

#[test]
fn a_file_that_becomes_a_pipe_between_listing_and_copying_is_caught_and_not_waited_for() {
    caught(
        "a pipe",
        |workshop| {
            let pipe = workshop.desk.folder.path().join("pipe");
            rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
            fs::rename(pipe, workshop.small()).unwrap();
        },
        "work/b-small.txt: it is not a regular file",
    );
}

#[test]
fn a_copy_that_is_damaged_after_it_was_made_is_caught_by_name() {
    let workshop = Workshop::new(1);
    let desk = &workshop.desk;
    let made = desk.json(CREATE);
    let blob = |index: usize| {
        let digest = made["artifacts"][index]["digest"].as_str().unwrap();
        desk.office().join("blobs").join(digest)
    };
    let accept = || -> Output { desk.command(&["handoff", "accept", "1", "--as", "coder"]).output().unwrap() };
    let whole = fs::read(blob(0)).unwrap();
    let spoilt: [(&str, &dyn Fn()); 3] = [
        ("its copy is damaged", &|| File::options().write(true).open(blob(0)).unwrap().set_len(10).unwrap()),
        ("its copy is damaged", &|| fs::write(blob(0), vec![0; whole.len()]).unwrap()),
        ("its copy is missing", &|| fs::remove_file(blob(0)).unwrap()),
    ];
    for (expected, spoil) in spoilt {
        spoil();
        let refused = accept();
        let told = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(4), "{told}");
        assert!(told.contains(&format!("work/a-large.bin: {expected}\n")), "{told}");
        assert!(!told.contains("b-small"), "{told}");
        fs::write(blob(0), &whole).unwrap();
    }
    expect_success(&["handoff", "accept"], &accept());
    desk.verify();
}

#[test]
fn two_who_accept_at_once_do_not_both_get_it() {
    let desk = Desk::new(&["lead", "coder", "builder"]);
    desk.run(&["handoff", "create", "role:worker", "--task", "Take it over", "--as", "lead"]);
    let names = ["coder", "builder"].repeat(6);
    let children =
        names.iter().map(|name| desk.spawn(&["--json", "handoff", "accept", "1", "--as", name])).collect::<Vec<_>>();
    let outputs = finish(children);
    let winners: Vec<&Output> = outputs.iter().filter(|output| output.status.success()).collect();
    assert_eq!(winners.len(), 1);
    assert!(outputs.iter().filter(|output| !output.status.success()).all(|output| output.status.code() == Some(5)));
    let view = desk.json(&["handoff", "show", "1"]);
    let told: Value = serde_json::from_slice(&winners[0].stdout).unwrap();
    assert_eq!(view["decision"]["message"], told["message"]);
    desk.verify();
}

#[test]
fn a_maker_that_is_killed_leaves_no_handoff_and_it_can_be_made_again() {
    for large_mib in [48, 192, 768] {
        let workshop = Workshop::new(large_mib);
        let mut child = workshop.desk.spawn(CREATE);
        if !workshop.until_copying(&mut child) {
            continue;
        }
        child.kill().unwrap();
        let output = finish(vec![child]).remove(0);
        if output.status.success() {
            continue;
        }
        assert_eq!(workshop.handoffs(), 0);
        workshop.desk.verify();
        expect_success(CREATE, &workshop.desk.command(CREATE).output().unwrap());
        assert_eq!(workshop.handoffs(), 1);
        return;
    }
    panic!("every file was copied before the process could be killed");
}
