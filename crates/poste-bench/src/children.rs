//! What this program does when it runs itself: another process that sends, waits, or reports a command's memory.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use poste_core::store::Interest;
use poste_core::views::{self, NewsQuery};

use crate::office::{READER, mail_to_reader, place};
use crate::{Result, say};

pub(crate) const SEND: &str = "child-send";
pub(crate) const WAIT: &str = "child-wait";
pub(crate) const PEAK: &str = "child-peak";
pub(crate) const NOTHING: &str = "child-nothing";
/// A waiter that hears nothing for this long has missed something.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs as a child if the arguments say so.
pub(crate) fn run(arguments: &[String]) -> Option<Result> {
    let (role, rest) = arguments.split_first()?;
    match (role.as_str(), rest) {
        (NOTHING, []) => Some(Ok(())),
        (SEND, [office, count]) => Some(send(Path::new(office), count)),
        (WAIT, [office, count]) => Some(wait(Path::new(office), count)),
        (PEAK, [program, arguments @ ..]) => Some(peak(program, arguments)),
        _ => None,
    }
}

/// Nanoseconds of a clock that all processes share.
pub(crate) fn monotonic_ns() -> i128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

fn send(office: &Path, count: &str) -> Result {
    let count: u64 = count.parse()?;
    let mut office = place(office).open()?;
    ready_then_go()?;
    for nth in 0..count {
        crate::office::submit(&mut office, &[mail_to_reader(nth)])?;
    }
    Ok(())
}

/// Prints when each message woke it.
fn wait(office: &Path, count: &str) -> Result {
    let count: u64 = count.parse()?;
    let mut office = place(office).open()?;
    let agent = office.agent(&READER.parse()?)?.ok_or("the reader is not registered")?;
    let mut after = poste_core::office::head(office.store())?;
    ready_then_go()?;
    for _ in 0..count {
        let mut query = NewsQuery { after: Some(after), limit: 1, ..NewsQuery::default() };
        // As `poste wait` does.
        let news = office.wait_for(&Interest::mail(&agent.name), Some(PATIENCE), |office| {
            let news = views::news(office.store(), &agent, &query)?;
            if news.messages.is_empty() {
                query.looked_until = news.cursor;
                return Ok(None);
            }
            Ok(Some(news))
        })?;
        let woken = monotonic_ns();
        after = news.ok_or("no mail arrived")?.cursor.ok_or("no cursor")?;
        say(&format!("{after} {woken}"));
    }
    Ok(())
}

fn ready_then_go() -> Result {
    say("ready");
    std::io::stdout().flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(())
}

/// Runs a command and prints its peak memory. This needs a small process of its own, because the kernel counts a
/// parent's memory before the exec towards its child.
fn peak(program: &str, arguments: &[String]) -> Result {
    let status = Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if !status.success() {
        return Err(format!("{program} {}: {status}", arguments.join(" ")).into());
    }
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN)?;
    say(&usage.max_rss().to_string());
    Ok(())
}

/// A child of this program that has reported that it is ready.
pub(crate) struct Ready {
    child: Child,
    pub answers: BufReader<std::process::ChildStdout>,
}

impl Ready {
    pub(crate) fn spawn(role: &str, office: &Path, count: u64) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(role)
            .arg(office)
            .arg(count.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut answers = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut line = String::new();
        answers.read_line(&mut line)?;
        if line.trim() != "ready" {
            return Err(format!("a child of the benchmark did not start: {:?}", child.wait()?).into());
        }
        Ok(Self { child, answers })
    }

    pub(crate) fn go(&mut self) -> Result {
        Ok(self.child.stdin.as_mut().ok_or("no input")?.write_all(b"go\n")?)
    }

    /// What it printed until it ended.
    pub(crate) fn finish(mut self) -> Result<String> {
        let mut text = String::new();
        self.answers.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        if !status.success() {
            return Err(format!("a child of the benchmark failed: {status}").into());
        }
        Ok(text)
    }
}

/// The peak memory of a command, in kilobytes.
pub(crate) fn peak_kb(command: &Command) -> Result<u64> {
    let mut child = Command::new(std::env::current_exe()?);
    child.arg(PEAK).arg(command.get_program()).args(command.get_args()).stderr(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => child.env(name, value),
            None => child.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        child.current_dir(folder);
    }
    let output = child.output()?;
    if !output.status.success() {
        return Err(format!("measuring memory failed: {command:?}").into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}
