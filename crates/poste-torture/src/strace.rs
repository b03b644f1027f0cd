//! strace: which system calls a command makes, and what happens when one of them fails or is its last.

use std::path::Path;
use std::process::Command;

use poste_testkit::rng::Rng;

use crate::acts::Act;
use crate::desk::{self, Desk, Run, told};
use crate::rig::{Program, Result, Rig};

/// One system call of a recorded run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub name: String,
    /// Its number among the calls of the same name, from 1, as strace counts.
    pub nth: usize,
    /// As strace printed it, with the paths of descriptors.
    pub line: String,
}

impl Call {
    /// What it is made on: its first argument.
    pub(crate) fn file(&self) -> &str {
        self.line.split_once('(').map_or("", |(_, arguments)| arguments.split(',').next().unwrap_or_default())
    }

    /// A writer also opens the bell before it writes, but only to read it.
    pub(crate) fn rings_the_bell(&self) -> bool {
        self.name == "openat" && self.line.contains("\"bell\"") && self.line.contains("O_RDWR")
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} #{}", self.name, self.nth)
    }
}

/// Runs a command under strace with these options.
pub(crate) fn run(desk: &Desk, program: &Program, act: &Act, options: &[&str], trace: &Path) -> Result<Run> {
    desk::finish(desk::start(&mut command(desk, program, act, options, trace)?)?)
}

pub(crate) fn command(desk: &Desk, program: &Program, act: &Act, options: &[&str], trace: &Path) -> Result<Command> {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(trace).args(options).arg("--").arg(&program.path).args(&act.args);
    desk.prepare(&mut command, program);
    if let Some(input) = &act.input {
        desk::input_from(&mut command, input)?;
    }
    Ok(command)
}

/// Every system call of an undisturbed run, in order.
pub(crate) fn record(desk: &Desk, program: &Program, act: &Act, trace: &Path) -> Result<Vec<Call>> {
    let run = run(desk, program, act, &["-y", "-s", "64"], trace)?;
    if !run.is_ok() {
        return Err(format!("{}: the undisturbed run ended with {}", act.name, run.told()));
    }
    let text = std::fs::read_to_string(trace).map_err(|error| told(trace, &error))?;
    Ok(parse(&text))
}

pub(crate) fn parse(text: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut seen = std::collections::BTreeMap::new();
    for line in text.lines() {
        let Some(name) = called(line) else { continue };
        let nth = seen.entry(name.to_owned()).or_insert(0);
        *nth += 1;
        calls.push(Call { name: name.to_owned(), nth: *nth, line: line.to_owned() });
    }
    calls
}

/// The name of the call that a line begins: `123 openat(…`, but not `123 <... read resumed>` or `123 +++ exited`.
fn called(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(' ')?;
    let (name, _) = rest.trim_start().split_once('(')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some(name)
}

/// Calls that change the disk or are visible from outside.
const TELLING: &[&str] = &[
    "pwrite64",
    "write",
    "fsync",
    "fdatasync",
    "ftruncate",
    "rename",
    "renameat",
    "unlink",
    "unlinkat",
    "linkat",
    "flock",
    "mkdir",
    "mkdirat",
    "open",
    "openat",
    "close",
];

/// The calls before which a recorded command is killed: all of them, or in the short form a sample of the telling ones.
pub(crate) fn where_to_kill(rig: &Rig, rng: &mut Rng, calls: &[Call], short: usize) -> Vec<Call> {
    // Killing the exec kills strace's own child, before the program has begun.
    let calls = calls.iter().filter(|call| call.name != "execve");
    if !rig.is_short() {
        return calls.cloned().collect();
    }
    let telling = calls.filter(|call| TELLING.contains(&call.name.as_str())).cloned().collect();
    Rig::sample(rng, telling, short)
}

/// Kills the command before its n-th call of a name.
pub(crate) fn kill_before(desk: &Desk, program: &Program, act: &Act, call: &Call) -> Result<Run> {
    let traced = format!("trace={}", call.name);
    let inject = format!("inject={}:signal=KILL:when={}", call.name, call.nth);
    run(desk, program, act, &["-e", &traced, "-e", &inject], Path::new("/dev/null"))
}

/// Makes the n-th call of a name fail (and, with `onward`, every later one). Returns whether that call was reached.
pub(crate) fn fail_at(
    desk: &Desk,
    program: &Program,
    act: &Act,
    call: &Call,
    errno: &str,
    onward: bool,
    trace: &Path,
) -> Result<(Run, bool)> {
    let traced = format!("trace={}", call.name);
    let plus = if onward { "+" } else { "" };
    let inject = format!("inject={}:error={errno}:when={}{plus}", call.name, call.nth);
    let run = run(desk, program, act, &["-e", &traced, "-e", &inject], trace)?;
    let text = std::fs::read_to_string(trace).map_err(|error| told(trace, &error))?;
    Ok((run, text.contains("(INJECTED)")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_name_and_other_lines_are_not_calls() {
        let text = "12 openat(AT_FDCWD, \"a\", O_RDONLY) = 3</a>\n12 read(3</a>, <unfinished ...>\n\
                    13 openat(AT_FDCWD, \"b\", O_RDONLY) = 4</b>\n12 <... read resumed>\"\", 1) = 0\n\
                    12 --- SIGCHLD {si_signo=SIGCHLD} ---\n12 +++ exited with 0 +++\n";
        let calls = parse(text);
        let names: Vec<String> = calls.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["openat #1", "read #1", "openat #2"]);
    }
}
