//! Finds and ends everything that a command started, including processes that left its group. Processes are found by
//! their ancestors and by a mark in their environment.
//!
//! An orphaned process goes to its nearest ancestor that adopts orphans. A supervisor adopts them ([`adopt_orphans`]),
//! so everything the command started is still below it. Once the supervisor is dead, only the mark is left: a process
//! that also cleared its environment can no longer be found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};

/// The first pause between two checks, and the longest.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Environment variables of every process that belongs to one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Names and values; a process carries the mark if it has them all.
    pub variables: Vec<(String, String)>,
    /// A process of this same program with this variable, …
    pub another: String,
    /// … and with one of these as its first argument, supervises a run of its own. Neither it nor its descendants
    /// belong to this run.
    pub another_by: Vec<String>,
}

impl Mark {
    fn is_on(&self, environment: &[u8]) -> bool {
        let has = |(name, value): &(String, String)| {
            let pair = format!("{name}={value}");
            environment.split(|byte| *byte == 0).any(|own| own == pair.as_bytes())
        };
        self.variables.iter().all(has)
    }

    fn is_another(&self, pid: u32, environment: &[u8]) -> bool {
        let beginning = format!("{}=", self.another);
        let has_one = environment.split(|byte| *byte == 0).any(|own| own.starts_with(beginning.as_bytes()));
        has_one && pid != std::process::id() && is_this_program(pid) && self.is_command_of_another(pid)
    }

    /// The variable alone proves nothing: any process can set it and start this program with a command that never ends.
    fn is_command_of_another(&self, pid: u32) -> bool {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let first = line.split(|byte| *byte == 0).nth(1).unwrap_or_default();
        self.another_by.iter().any(|command| command.as_bytes() == first)
    }
}

/// Whether a process runs the same executable file as this one.
fn is_this_program(pid: u32) -> bool {
    let file = |pid: &str| fs::metadata(format!("/proc/{pid}/exe")).map(|meta| (meta.dev(), meta.ino()));
    matches!((file(&pid.to_string()), file("self")), (Ok(its), Ok(ours)) if its == ours)
}

/// Orphans below this process become its children, instead of those of the machine's first process.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    parent: u32,
    started: u64,
    is_dead: bool,
}

/// The processes that run on this machine now.
fn processes() -> BTreeMap<u32, Seen> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter_map(|pid| Some((pid, seen(pid)?))).collect()
}

fn seen(pid: u32) -> Option<Seen> {
    // The name may contain anything, including brackets and invalid UTF-8. The fields after the last bracket are plain.
    let stat = String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?).into_owned();
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    const START_TIME_AFTER_PARENT: usize = 17;
    let started = fields.nth(START_TIME_AFTER_PARENT)?.parse().ok()?;
    Some(Seen { parent, started, is_dead })
}

fn environment(pid: u32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
}

/// The descendants of the roots, without processes that belong to another run.
fn below(all: &BTreeMap<u32, Seen>, roots: &BTreeSet<u32>, mark: &Mark) -> BTreeSet<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (pid, seen) in all {
        children.entry(seen.parent).or_default().push(*pid);
    }
    let mut found = BTreeSet::new();
    let mut open: Vec<u32> = roots.iter().copied().collect();
    while let Some(pid) = open.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            if !found.contains(child) && !mark.is_another(*child, &environment(*child)) {
                found.insert(*child);
                open.push(*child);
            }
        }
    }
    found
}

/// Everything below this process, and everything with the mark.
fn own(all: &BTreeMap<u32, Seen>, mark: &Mark) -> BTreeSet<u32> {
    let mut found = below(all, &BTreeSet::from([std::process::id()]), mark);
    found.extend(marked(all, mark));
    found
}

/// Everything with the mark and its descendants: a process can clear its environment, but not its ancestry.
fn marked(all: &BTreeMap<u32, Seen>, mark: &Mark) -> BTreeSet<u32> {
    let is_marked = |pid: &u32| {
        let environment = environment(*pid);
        mark.is_on(&environment) && !mark.is_another(*pid, &environment)
    };
    let mut found: BTreeSet<u32> = all.keys().copied().filter(|pid| is_marked(pid)).collect();
    found.extend(below(all, &found.clone(), mark));
    found
}

/// The living processes of a run, by its mark. Only processes of this user can be inspected.
pub fn with_mark(mark: &Mark) -> Vec<u32> {
    let all = processes();
    marked(&all, mark).into_iter().filter(|pid| *pid != std::process::id() && !all[pid].is_dead).collect()
}

/// Ends every process with the mark and its descendants, until none is left or the time is up. Returns those left.
pub fn end_marked(mark: &Mark, at_most: Duration) -> Vec<u32> {
    end(|all| marked(all, mark), None, at_most)
}

/// Ends everything below this process, and everything with the mark. Returns the processes left. Does not reap the
/// leader.
pub(crate) fn end_below(mark: &Mark, leader: Pid, at_most: Duration) -> Vec<u32> {
    // Usually no process is left, and scanning every process of the machine takes longer than many commands. The
    // kernel's list of children may miss one while another is removed from it. Only this process removes children, by
    // reaping, and it does not do so here. Even so, the list is trusted only if it stays the same.
    let has_ended = |pid: &u32| i32::try_from(*pid).is_ok_and(|pid| pid == leader.as_raw_pid()) && is_dead(*pid);
    let first = children();
    if first.as_ref().is_some_and(|children| children.iter().all(has_ended)) && first == children() {
        return Vec::new();
    }
    end(|all| own(all, mark), Some(leader), at_most)
}

fn end(pick: impl Fn(&BTreeMap<u32, Seen>) -> BTreeSet<u32>, not_to_reap: Option<Pid>, at_most: Duration) -> Vec<u32> {
    let until = Instant::now() + at_most;
    let mut pause = PAUSE;
    loop {
        let all = processes();
        let mut found: Vec<(u32, Seen)> = pick(&all).into_iter().map(|pid| (pid, all[&pid])).collect();
        found.retain(|(pid, seen)| {
            let is_ours = seen.parent == std::process::id();
            if seen.is_dead && is_ours {
                reap(*pid, not_to_reap);
            }
            !seen.is_dead && *pid != std::process::id()
        });
        if found.is_empty() || Instant::now() >= until {
            return found.into_iter().map(|(pid, _)| pid).collect();
        }
        // First stop them all, so that none can start another process; then kill them.
        for signal in [Signal::STOP, Signal::KILL] {
            for (pid, seen) in &found {
                signal_to(*pid, seen.started, signal);
            }
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Kills one process at once. The caller has just verified that the pid is the process it means.
pub fn end_process(pid: u32) {
    if let Some(seen) = seen(pid) {
        signal_to(pid, seen.started, Signal::KILL);
    }
}

/// A pid may be reused once its process has ended. So open a pidfd first, then verify the start time.
fn signal_to(pid: u32, started: u64, signal: Signal) {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(held) = pidfd_open(number, PidfdFlags::empty()) else { return };
    if seen(pid).is_some_and(|now| now.started == started) {
        // Fails if the process has ended or belongs to another user. Nothing more can be done then.
        let _ = pidfd_send_signal(held, signal);
    }
}

fn reap(pid: u32, but: Option<Pid>) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw).filter(|pid| Some(*pid) != but) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Reaps adopted processes that have ended, which would otherwise stay zombies. Does not reap `but`.
pub(crate) fn reap_adopted(but: Pid) {
    for child in children().unwrap_or_default() {
        // Leaves living processes alone.
        reap(child, Some(but));
    }
}

/// The children of this process, including adopted ones; `None` where the kernel does not list them.
fn children() -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let children = match fs::read_to_string(thread.ok()?.path().join("children")) {
            // The thread has ended. Its children went to another thread, which may have been read already.
            Err(_) => return None,
            Ok(children) => children,
        };
        found.extend(children.split_whitespace().filter_map(|number| number.parse::<u32>().ok()));
    }
    Some(found)
}

fn is_dead(pid: u32) -> bool {
    seen(pid).is_none_or(|seen| seen.is_dead)
}
