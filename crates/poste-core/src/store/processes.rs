//! Other processes, according to `/proc`. Nothing is known on systems other than Linux.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::log::SessionProcess;
use crate::time::length;

/// A process that uses an office.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub pid: u32,
    pub command: String,
    /// It was stopped (`SIGSTOP`, Ctrl-Z, a debugger) and keeps what it holds until it continues.
    pub stopped: bool,
    pub running_ms: Option<i64>,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {} ({}", self.pid, self.command)?;
        if let Some(ms) = self.running_ms {
            write!(f, ", for {}", length(ms))?;
        }
        f.write_str(if self.stopped { ", stopped)" } else { ")" })
    }
}

/// The processes that have a file open.
#[derive(Debug, Clone, Default)]
pub(crate) struct Openers {
    /// The longest running first.
    pub processes: Vec<Process>,
    /// Number of processes of other users, whose descriptors cannot be read.
    pub hidden: usize,
}

pub(crate) fn process(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (stopped, started_ms) = parse_stat(&stat)?;
    let running_ms = started_ms.map(|started_ms| (boot_ms() - started_ms).max(0));
    Some(Process { pid, command: command(pid, &stat), stopped, running_ms })
}

/// Whether a recorded process is still running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    Running,
    /// Proven: this boot of this machine no longer has such a process.
    Gone,
    /// It is of another machine, an earlier boot or another container, or none was named.
    Unknown,
}

impl Presence {
    /// For a process that this machine recorded. For table rows, use [`Store::presence`](super::Store::presence).
    pub fn of(process: Option<&SessionProcess>) -> Self {
        let Some(process) = process else { return Self::Unknown };
        if process.place.is_empty() || process.place != this_place() {
            return Self::Unknown;
        }
        match (started_ms(process.pid), process.started_ms) {
            (None, _) => Self::Gone,
            (Some(now), Some(then)) if now != then => Self::Gone, // the pid was reused
            (Some(_), Some(_)) => Self::Running,
            (Some(_), None) => Self::Unknown,
        }
    }
}

/// A process of this machine, with enough detail to recognize it later.
pub fn written_down(pid: u32) -> SessionProcess {
    SessionProcess { pid, started_ms: started_ms(pid), place: this_place().to_owned() }
}

/// Whether a process was stopped (`SIGSTOP`, Ctrl-Z, a debugger).
pub fn is_stopped(pid: u32) -> bool {
    process(pid).is_some_and(|process| process.stopped)
}

/// Whether a process of this machine ran before the last reboot.
pub fn is_of_earlier_boot(process: &SessionProcess) -> bool {
    let boot = |place: &str| place.split(' ').next().unwrap_or_default().to_owned();
    let (then, now) = (boot(&process.place), boot(this_place()));
    !then.is_empty() && !now.is_empty() && then != now
}

/// The name of a process, shortened.
pub fn program(pid: u32) -> Option<String> {
    let name = name_of(pid)?;
    let short = name.chars().filter(|c| !c.is_control()).take(crate::limits::NAME_BYTES_MAX / 4).collect::<String>();
    (!short.is_empty()).then_some(short)
}

/// How many levels of parents are followed.
const ABOVE_MAX: usize = 16;

/// The process on whose behalf this one was started: the nearest ancestor that is more than a shell or wrapper running
/// one command. Agents start a new shell or wrapper for each command, which ends before the next.
pub fn who_started() -> Option<u32> {
    let mut pid = parent_of(std::process::id())?;
    for _ in 0..ABOVE_MAX {
        let Some(above) = parent_of(pid).filter(|above| *above > 1) else { return Some(pid) };
        if !is_wrapper(pid) && !is_passing_shell(pid, above) {
            return Some(pid);
        }
        pid = above;
    }
    Some(pid)
}

/// The ancestors of this process, nearest first. One of them is the program on whose behalf it runs.
pub fn above() -> Vec<SessionProcess> {
    let above = |pid: &u32| parent_of(*pid).filter(|above| *above > 1);
    let pids = std::iter::successors(above(&std::process::id()), above).take(ABOVE_MAX);
    pids.map(written_down).collect()
}

/// A process above this one, and what it runs.
#[derive(Debug, Clone)]
pub struct Ancestor {
    pub process: SessionProcess,
    /// Its name, the file it runs if that may be read, and its arguments.
    pub name: String,
    pub executable: Option<PathBuf>,
    pub arguments: Vec<String>,
}

/// Every process above this one, nearest first, up to the first of this machine or container. `None` if one of them
/// cannot be read: what is above it is unknown then.
pub fn lineage() -> Option<Vec<Ancestor>> {
    if cfg!(target_os = "linux") {
        // In a namespace of its own, the numbers in an older /proc are those of other processes.
        let own = fs::read_link("/proc/self").ok()?;
        if own.as_os_str() != std::process::id().to_string().as_str() {
            return None;
        }
        return follow(|pid| Some((ancestor(pid)?, parent_of(pid)?)), parent_of(std::process::id())?);
    }
    // By its path: a program of that name earlier in PATH could leave out what it likes.
    let listed = Command::new("/bin/ps").args(["-axww", "-o", "pid=,ppid=,command="]).output().ok()?;
    let listed = listed_processes(&String::from_utf8_lossy(&listed.stdout));
    let (_, first) = listed.get(&std::process::id())?;
    follow(|pid| listed.get(&pid).cloned(), *first)
}

/// Follows parents from one process to the first. `look` finds a process with its parent.
fn follow(look: impl Fn(u32) -> Option<(Ancestor, u32)>, mut pid: u32) -> Option<Vec<Ancestor>> {
    // A chain this long is made to hide something.
    const LINEAGE_MAX: usize = 512;
    let mut all = Vec::new();
    while pid > 0 {
        let (found, above) = look(pid).filter(|_| all.len() < LINEAGE_MAX)?;
        all.push(found);
        pid = above;
    }
    Some(all)
}

fn ancestor(pid: u32) -> Option<Ancestor> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    Some(Ancestor {
        process: written_down(pid),
        name: name_of(pid)?,
        executable: fs::read_link(format!("/proc/{pid}/exe")).ok(),
        arguments: words.map(|word| String::from_utf8_lossy(word).into_owned()).collect(),
    })
}

/// What `ps` lists, by process: each with its parent. Words of a command are told apart by blanks only.
fn listed_processes(text: &str) -> BTreeMap<u32, (Ancestor, u32)> {
    let listed = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (pid, above) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let arguments: Vec<String> = words.map(str::to_owned).collect();
        let name = Path::new(arguments.first()?).file_name()?.to_string_lossy().into_owned();
        Some((pid, (Ancestor { process: written_down(pid), name, executable: None, arguments }, above)))
    });
    listed.collect()
}

/// Whether a process is `above` or one of its descendants.
pub fn is_at_or_below(pid: u32, above: u32) -> bool {
    std::iter::successors(Some(pid), |pid| parent_of(*pid)).take(2 * ABOVE_MAX).any(|pid| pid == above)
}

/// Whether a process is in the foreground of its terminal. If it is, it reads what is typed there, rather than a shell
/// it was suspended in or a program it handed the terminal to.
pub fn is_in_foreground(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    let [state, _parent, group, _session, _terminal, in_front, ..] = fields[..] else { return false };
    !matches!(state, "T" | "t" | "Z" | "X") && group == in_front
}

/// A program that runs one command, waits for it and exits with it. Some of them replace themselves with the command
/// instead, but not in every implementation and with every option.
fn is_wrapper(pid: u32) -> bool {
    const WRAPPERS: &[&str] = &[
        "timeout",
        "env",
        "nice",
        "ionice",
        "nohup",
        "sudo",
        "doas",
        "xargs",
        "stdbuf",
        "setsid",
        "time",
        "flock",
        "taskset",
        "chrt",
        "unbuffer",
        "catchsegv",
        "faketime",
    ];
    name_of(pid).is_some_and(|name| WRAPPERS.contains(&name.as_str()))
}

/// A shell with `-c`, or one that another shell forked for a part of its own script.
fn is_passing_shell(pid: u32, above: u32) -> bool {
    let is_shell =
        name_of(pid).is_some_and(|name| ["sh", "bash", "dash", "zsh", "ksh", "ash"].contains(&name.as_str()));
    let line = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let own = line(pid);
    let runs_one_command = own
        .split(|byte| *byte == 0)
        .skip(1)
        .take_while(|word| word.starts_with(b"-"))
        .any(|word| !word.starts_with(b"--") && word.contains(&b'c'));
    is_shell && (runs_one_command || own == line(above))
}

fn name_of(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.split_once('(')?.1.rsplit_once(')')?.0.to_owned())
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn started_ms(pid: u32) -> Option<i64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let is_dead = stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']));
    if is_dead { None } else { parse_stat(&stat)?.1 }
}

/// The current boot and pid namespace; empty if they are unknown.
fn this_place() -> &'static str {
    // Neither changes during the life of a process, and every presence check asks for them.
    static PLACE: LazyLock<String> = LazyLock::new(|| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        match (boot.trim(), space.to_str()) {
            ("", _) | (_, None | Some("")) => String::new(),
            (boot, Some(space)) => format!("{boot} {space}"),
        }
    });
    &PLACE
}

/// Every process except this one that has the file open.
pub(crate) fn who_has_open(file: &Path) -> io::Result<Openers> {
    let file = file.canonicalize()?;
    let mut openers = Openers::default();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if pid == std::process::id() {
            continue;
        }
        match has_open(pid, &file) {
            Ok(true) => openers.processes.extend(process(pid)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => openers.hidden += 1,
            // It exited in the meantime.
            Ok(false) | Err(_) => {}
        }
    }
    openers.processes.sort_by_key(|process| std::cmp::Reverse(process.running_ms));
    Ok(openers)
}

fn has_open(pid: u32, file: &Path) -> io::Result<bool> {
    // Comparing the link targets is enough. Following the links could block on a file system that does not respond.
    let mut links = fs::read_dir(format!("/proc/{pid}/fd"))?;
    Ok(links.any(|link| link.and_then(|link| fs::read_link(link.path())).is_ok_and(|target| target == file)))
}

/// Its name, and the subcommand if it is poste. Nothing else: the rest of a command line may contain secrets.
fn command(pid: u32, stat: &str) -> String {
    let name = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).map_or("?", |(name, _)| name);
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let first = line.split(|byte| *byte == 0).nth(1).unwrap_or_default();
    let is_command = !first.is_empty() && first.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'-');
    match str::from_utf8(first) {
        Ok(first) if name == "poste" && is_command && !first.starts_with('-') => format!("{name} {first}"),
        _ => name.to_owned(),
    }
}

/// Whether a process is stopped, and when it started, in milliseconds since boot.
fn parse_stat(stat: &str) -> Option<(bool, Option<i64>)> {
    // The name may contain anything, including parentheses and spaces; the fields after the last parenthesis do not.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    const START_TIME_AFTER_STATE: usize = 18;
    let ticks: Option<i64> = fields.nth(START_TIME_AFTER_STATE).and_then(|field| field.parse().ok());
    let per_second = i64::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100).max(1);
    Some((matches!(state, "T" | "t"), ticks.map(|ticks| ticks.saturating_mul(1_000) / per_second)))
}

fn boot_ms() -> i64 {
    use super::clock::{Clock, SystemClock};
    SystemClock.boot().ms
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn a_process_with_a_file_open_is_found_and_told_apart_when_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("held");
        fs::write(&path, "").unwrap();
        assert!(who_has_open(&path).unwrap().processes.is_empty());
        let held = fs::File::open(&path).unwrap();
        let mut child = Command::new("sleep").arg("60").stdin(held).stdout(Stdio::null()).spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let found = who_has_open(&path).unwrap().processes;
        assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [child.id()]);
        assert!(!found[0].stopped && found[0].running_ms.is_some_and(|ms| ms < 60_000), "{found:?}");
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        while !process(child.id()).unwrap().stopped {
            std::thread::yield_now();
        }
        assert_eq!(process(child.id()).unwrap().command, "sleep");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(process(child.id()), None);
    }

    #[test]
    fn a_shell_that_runs_one_command_is_not_who_started_it() {
        // It waits for input that never arrives.
        let mut child = Command::new("sh").args(["-c", "read line; true"]).stdin(Stdio::piped()).spawn().unwrap();
        // Its name and arguments appear in /proc a moment after it starts.
        let given_up = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !is_passing_shell(child.id(), std::process::id()) {
            assert!(std::time::Instant::now() < given_up, "{:?}", name_of(child.id()));
            std::thread::yield_now();
        }
        assert!(!is_passing_shell(std::process::id(), child.id()), "a program is no shell");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_wrapper_that_ends_with_its_command_is_not_who_started_it() {
        let mut child =
            Command::new("timeout").args(["-s", "KILL", "600", "sleep", "600"]).stdout(Stdio::null()).spawn().unwrap();
        let given_up = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !is_wrapper(child.id()) {
            assert!(std::time::Instant::now() < given_up, "{:?}", name_of(child.id()));
            std::thread::yield_now();
        }
        assert!(!is_wrapper(std::process::id()), "a program is no wrapper");
        // As if the timeout had elapsed: `timeout` kills its command, which might ignore a gentler signal.
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::ALARM).unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_lineage_is_followed_to_its_end_or_not_believed() {
        let own: Vec<u32> = lineage().unwrap().iter().map(|above| above.process.pid).collect();
        let parents = std::iter::successors(parent_of(std::process::id()), |pid| parent_of(*pid));
        assert_eq!(own, parents.take_while(|pid| *pid > 0).collect::<Vec<_>>());

        let listed = listed_processes("  1     0 /sbin/launchd\n 20  1 -zsh\n 300  20 node /opt/bin/claude --resume\n");
        let names = |from| {
            let found = follow(|pid| listed.get(&pid).cloned(), from)?;
            Some(found.into_iter().map(|above| above.name).collect::<Vec<_>>())
        };
        assert_eq!(names(300).unwrap(), ["node", "-zsh", "launchd"]);
        assert_eq!(listed[&300].0.arguments[1], "/opt/bin/claude");
        assert_eq!(names(7), None, "one that is not listed");
        let endless = |pid: u32| Some((listed[&20].0.clone(), pid));
        assert!(follow(endless, 5).is_none());
    }

    #[test]
    fn a_name_full_of_brackets_is_read_over() {
        let line = "7 (a) T (b) T 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 200 19";
        let (stopped, started) = parse_stat(line).unwrap();
        assert!(stopped);
        assert_eq!(started, Some(200 * 1_000 / rustix::param::clock_ticks_per_second() as i64));
    }
}
