//! Everything a command started, also what left its process group: found by who its parents are and by a mark in its
//! environment, and ended.
//!
//! A process that is started by another one and left alone goes to the nearest process above that adopts orphans. A
//! supervisor is one ([`adopt_orphans`]), so whatever the command did to get away is still below it. Once the
//! supervisor is dead, only the mark tells: what has wiped its environment as well is not found any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};

/// The first pause between two looks, and the longest.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Variables in the environment of everything that belongs to one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Names and values; a process carries the mark if it has them all.
    pub variables: Vec<(String, String)>,
    /// A process of this very program with this variable, …
    pub another: String,
    /// … and with one of these as its first argument, is none of the run's: it watches over a run of its own. Neither it nor what
    /// is below it belongs here.
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

    /// Anybody can set a variable, and start this program to do something that never ends.
    fn is_command_of_another(&self, pid: u32) -> bool {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let first = line.split(|byte| *byte == 0).nth(1).unwrap_or_default();
        self.another_by.iter().any(|command| command.as_bytes() == first)
    }
}

/// Whether a process runs the file that this one runs.
fn is_this_program(pid: u32) -> bool {
    let file = |pid: &str| fs::metadata(format!("/proc/{pid}/exe")).map(|meta| (meta.dev(), meta.ino()));
    matches!((file(&pid.to_string()), file("self")), (Ok(its), Ok(ours)) if its == ours)
}

/// Orphans below this process become its children, instead of those of the first process of the machine.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    parent: u32,
    started: u64,
    is_dead: bool,
}

/// What runs on this machine now.
fn processes() -> BTreeMap<u32, Seen> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter_map(|pid| Some((pid, seen(pid)?))).collect()
}

fn seen(pid: u32) -> Option<Seen> {
    // The name may hold anything, also brackets and bytes that are no text; what follows the last bracket is plain.
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

/// Which of them are below one of the roots, without what belongs to another run.
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

/// Everything below this process and everything with the mark.
fn own(all: &BTreeMap<u32, Seen>, mark: &Mark) -> BTreeSet<u32> {
    let mut found = below(all, &BTreeSet::from([std::process::id()]), mark);
    found.extend(marked(all, mark));
    found
}

/// Everything with the mark, and everything below that: a process can wipe its environment, but not its parents.
fn marked(all: &BTreeMap<u32, Seen>, mark: &Mark) -> BTreeSet<u32> {
    let is_marked = |pid: &u32| {
        let environment = environment(*pid);
        mark.is_on(&environment) && !mark.is_another(*pid, &environment)
    };
    let mut found: BTreeSet<u32> = all.keys().copied().filter(|pid| is_marked(pid)).collect();
    found.extend(below(all, &found.clone(), mark));
    found
}

/// Who is there of a run, by its mark. Only processes of this user can be looked at.
pub fn with_mark(mark: &Mark) -> Vec<u32> {
    let all = processes();
    marked(&all, mark).into_iter().filter(|pid| *pid != std::process::id() && !all[pid].is_dead).collect()
}

/// Ends whatever carries the mark, and all that is below it, until nothing is left or the time is up. Says who is left.
pub fn end_marked(mark: &Mark, at_most: Duration) -> Vec<u32> {
    end(|all| marked(all, mark), None, at_most)
}

/// Ends everything below this process, and whatever carries the mark. Says who is left. The leader stays to be reaped.
pub(crate) fn end_below(mark: &Mark, leader: Pid, at_most: Duration) -> Vec<u32> {
    // Mostly there is nobody, and to look at every process of the machine takes longer than many a command. The kernel's list may
    // leave one out while another one goes from it. Only this process takes any from it, by reaping, and it does not do so here;
    // still a list is only believed if it stays the same.
    let is_over = |pid: &u32| i32::try_from(*pid).is_ok_and(|pid| pid == leader.as_raw_pid()) && is_dead(*pid);
    let first = children();
    if first.as_ref().is_some_and(|children| children.iter().all(is_over)) && first == children() {
        return Vec::new();
    }
    end(|all| own(all, mark), Some(leader), at_most)
}

fn end(who: impl Fn(&BTreeMap<u32, Seen>) -> BTreeSet<u32>, not_to_reap: Option<Pid>, at_most: Duration) -> Vec<u32> {
    let until = Instant::now() + at_most;
    let mut pause = PAUSE;
    loop {
        let all = processes();
        let mut found: Vec<(u32, Seen)> = who(&all).into_iter().map(|pid| (pid, all[&pid])).collect();
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
        // First none of them may start another one, then all of them end.
        for signal in [Signal::STOP, Signal::KILL] {
            for (pid, seen) in &found {
                signal_to(*pid, seen.started, signal);
            }
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Ends one process at once. Whoever calls has just made sure that it is the one it means.
pub fn end_process(pid: u32) {
    if let Some(seen) = seen(pid) {
        signal_to(pid, seen.started, Signal::KILL);
    }
}

/// A number goes to another process once this one is gone, so it is held on to before it is known again by its start.
fn signal_to(pid: u32, started: u64, signal: Signal) {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(held) = pidfd_open(number, PidfdFlags::empty()) else { return };
    if seen(pid).is_some_and(|now| now.started == started) {
        // It ended meanwhile, or is of another user: there is nothing more this process could do.
        let _ = pidfd_send_signal(held, signal);
    }
}

fn reap(pid: u32, but: Option<Pid>) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw).filter(|pid| Some(*pid) != but) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Takes note of the end of adopted processes, which would otherwise stay as zombies. Not of this one's.
pub(crate) fn reap_adopted(but: Pid) {
    for child in children().unwrap_or_default() {
        // One that lives stays as it is.
        reap(child, Some(but));
    }
}

/// The children of this process, also adopted ones; `None` where the kernel does not tell.
fn children() -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let children = match fs::read_to_string(thread.ok()?.path().join("children")) {
            // That thread has ended meanwhile; its children went to another one, which may have been looked at already.
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
