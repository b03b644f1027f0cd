//! One loop that feeds, reads, watches and ends the command. It uses no threads, so nothing is left blocked in a read.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::capture::{Captured, Keep};
use crate::environment::Environment;
use crate::group::Group;
use crate::interrupt::HeldBack;
use crate::search::{find_outside, find_program};
use crate::tie;
use crate::transcript::{Transcript, TranscriptFile};
use crate::tree::{self, Mark};

/// The longest sleep of the loop: an exit that no pipe signals is noticed within this time.
const POLL: Duration = Duration::from_millis(20);
/// The longest sleep when a pidfd signals the exit. Only a signal to this process may have to wait this long.
const POLL_WITH_PIDFD: Duration = Duration::from_millis(200);
/// The shortest sleep: after the pipes are closed, the exit is near.
const POLL_MIN: Duration = Duration::from_millis(1);
/// How long to keep reading output of the command's children after the command itself ended.
const LINGER: Duration = Duration::from_millis(500);
/// How long the pipes may take to close after the whole group was killed.
const AFTER_KILL: Duration = Duration::from_millis(200);
/// Retries of a start that fails because the program file was just written and is still busy.
pub(crate) const BUSY_TRIES: u32 = 20;
pub(crate) const BUSY_PAUSE: Duration = Duration::from_millis(10);
/// How long processes that left the group may take to end after they were killed.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// A command, and how it may run.
#[derive(Debug, Clone)]
pub struct Task {
    program: OsString,
    arguments: Vec<OsString>,
    folder: Option<PathBuf>,
    apart_from: Option<PathBuf>,
    environment: Environment,
    stdin: Option<Vec<u8>>,
    limit: Option<Duration>,
    grace: Duration,
    output: Output,
    keep: Keep,
    watch_every: Duration,
    tied_by: Option<(PathBuf, Vec<OsString>)>,
    everything: Option<Mark>,
    transcript: Option<TranscriptFile>,
}

/// How the two streams are captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Output {
    /// Standard output and standard error separately.
    #[default]
    Apart,
    /// Both as [`Finished::stdout`], in the order they were written.
    Together,
}

/// The watcher's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    Continue,
    /// The command is asked to end, and killed after its grace period.
    Stop,
    /// The command is killed at once.
    End,
}

/// Observes a command while it runs.
pub trait Watcher {
    /// The command is running as this process.
    fn started(&mut self, _pid: u32) {}

    /// Called periodically with the time the command has run so far. It may be slow: only a full pipe blocks the
    /// command, but its time limit is not checked until this returns.
    fn look(&mut self, running_for: Duration) -> Watch;
}

impl<F: FnMut(Duration) -> Watch> Watcher for F {
    fn look(&mut self, running_for: Duration) -> Watch {
        self(running_for)
    }
}

/// How the first process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Exit(i32),
    Signal(i32),
}

/// Why the command was made to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    TimedOut,
    /// The watcher decided so.
    ByWatcher,
    /// This process got a signal that ends it, and passed it on.
    Interrupted(i32),
}

/// The result of a command that was started.
#[derive(Debug, Clone)]
pub struct Finished {
    pub end: End,
    pub stopped: Option<Stopped>,
    pub duration: Duration,
    pub stdout: Captured,
    pub stderr: Captured,
    /// A process that the command started has left the group and still holds an end of the output.
    pub left_behind: bool,
    /// With [`Task::everything`]: the processes that could not be ended.
    pub not_ended: Vec<u32>,
    /// Why the transcript is incomplete.
    pub transcript_failed: Option<String>,
}

impl Finished {
    /// Whether the command ended by itself with exit code 0.
    pub fn passed(&self) -> bool {
        self.end == End::Exit(0) && self.stopped.is_none()
    }
}

/// Why the command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("no program to run")]
    NoProgram,
    #[error("program not found: {program}")]
    NotFound { program: String },
    #[error("working folder not found: {folder}")]
    NoFolder { folder: String },
    #[error("program is not executable: {program}")]
    NotExecutable { program: String },
    #[error("cannot run {program}")]
    Failed { program: String, source: io::Error },
}

impl Task {
    /// A program, looked up in the command's `PATH` unless it contains a `/`, and its literal arguments. A relative
    /// program with a `/` is below [`Task::folder`].
    pub fn new(program: impl Into<OsString>, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            folder: None,
            apart_from: None,
            environment: Environment::default(),
            stdin: None,
            limit: None,
            grace: Duration::from_secs(5),
            output: Output::default(),
            keep: Keep::default(),
            watch_every: Duration::from_secs(1),
            tied_by: None,
            everything: None,
            transcript: None,
        }
    }

    /// One command line for `/bin/sh`. Pass values through the environment, never in the line.
    pub fn shell(line: &str) -> Self {
        Self::new("/bin/sh", ["-c", line])
    }

    pub fn folder(&mut self, folder: impl Into<PathBuf>) -> &mut Self {
        self.folder = Some(folder.into());
        self
    }

    /// For a program that Poste itself needs: never one that lies in this project, where agents write.
    pub fn apart_from(&mut self, project: impl Into<PathBuf>) -> &mut Self {
        self.apart_from = Some(project.into());
        self
    }

    pub fn environment(&mut self, environment: Environment) -> &mut Self {
        self.environment = environment;
        self
    }

    /// Without it, the command's standard input is empty.
    pub fn stdin(&mut self, bytes: impl Into<Vec<u8>>) -> &mut Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// After this time the command is asked to end (SIGTERM); after the grace period it is killed (SIGKILL).
    pub fn limit(&mut self, limit: Duration) -> &mut Self {
        self.limit = Some(limit);
        self
    }

    pub fn grace(&mut self, grace: Duration) -> &mut Self {
        self.grace = grace;
        self
    }

    pub fn output(&mut self, output: Output) -> &mut Self {
        self.output = output;
        self
    }

    pub fn keep(&mut self, keep: Keep) -> &mut Self {
        self.keep = keep;
        self
    }

    /// How often the watcher of [`Task::run_watched`] is called.
    pub fn watch_every(&mut self, interval: Duration) -> &mut Self {
        self.watch_every = interval;
        self
    }

    /// The command ends when this process does, even by SIGKILL. `program` must pass its arguments, after the given
    /// ones, to [`become_tied`](crate::become_tied). Processes that the command starts are not tied. Start the command
    /// from a thread that stays alive: the kernel treats the end of that thread as the end of the process.
    pub fn tied_by(&mut self, program: impl Into<PathBuf>, arguments: &[&str]) -> &mut Self {
        self.tied_by = Some((program.into(), arguments.iter().map(OsString::from).collect()));
        self
    }

    /// Everything that the command started is ended with it, including processes that left its group: everything below
    /// this process at that time, and everything with the mark in its environment, which the command gets. Only for a
    /// process that does nothing else and [adopts orphans](crate::adopt_orphans).
    pub fn everything(&mut self, mark: Mark) -> &mut Self {
        for (name, value) in &mark.variables {
            self.environment.set(name, value);
        }
        self.everything = Some(mark);
        self
    }

    /// Both streams are also written to a file, as they arrive.
    pub fn transcript(&mut self, file: TranscriptFile) -> &mut Self {
        self.transcript = Some(file);
        self
    }

    pub fn run(&self) -> Result<Finished, StartError> {
        self.run_watched(&mut |_| Watch::Continue)
    }

    /// `while_running` gets the time the command has run so far; see [`Watcher::look`].
    pub fn run_watched(&self, while_running: &mut dyn FnMut(Duration) -> Watch) -> Result<Finished, StartError> {
        self.run_under(&mut |running_for| while_running(running_for))
    }

    pub fn run_under(&self, watcher: &mut dyn Watcher) -> Result<Finished, StartError> {
        let failed = |source| StartError::Failed { program: self.shown(), source };
        let held_back = HeldBack::new().map_err(failed)?;
        let transcript = self.transcript.as_ref().map(Transcript::create).transpose().map_err(failed)?;
        let started = Instant::now();
        let (child, mut pipes) = self.start()?;
        pipes.transcript = transcript;
        let group = Group::of(&child);
        pipes.leader = group.watched();
        let mut running = Running {
            task: self,
            group,
            child,
            pipes,
            started,
            stopped: None,
            asked_at: None,
            killed: false,
            reaped: false,
            held_back: &held_back,
        };
        watcher.started(running.child.id());
        running.follow(watcher).map_err(failed)
    }

    fn shown(&self) -> String {
        self.program.display().to_string()
    }

    fn start(&self) -> Result<(Child, Pipes), StartError> {
        if self.program.is_empty() {
            return Err(StartError::NoProgram);
        }
        let failed = |source| StartError::Failed { program: self.shown(), source };
        if self.tied_by.is_some() {
            let variables = self.environment.of(std::env::vars_os());
            let path = variables.get(OsStr::new("PATH"));
            tie::find(Path::new(&self.program), path, self.folder.as_deref())
                .map_err(|failed| self.why_not_started(failed))?;
        }
        let found = self.found().map_err(|error| self.why_not_started(error))?;
        let mut tries = 0;
        loop {
            // The child's pipe ends belong to the command, so each try needs new ones.
            let (mut command, mut pipes) = self.command(&found).map_err(failed)?;
            match command.spawn() {
                Ok(mut child) => {
                    // The command holds the write ends that both streams share. No other process may keep them open.
                    drop(command);
                    pipes.adopt(&mut child, self.stdin.as_deref()).map_err(|source| {
                        Group::of(&child).end();
                        let _ = child.wait();
                        failed(source)
                    })?;
                    return Ok((child, pipes));
                }
                Err(busy) if busy.kind() == io::ErrorKind::ExecutableFileBusy && tries < BUSY_TRIES => {
                    tries += 1;
                    std::thread::sleep(BUSY_PAUSE);
                }
                Err(failed) => return Err(self.why_not_started(failed)),
            }
        }
    }

    /// The program itself, searched for here: the command may get another search path.
    fn found(&self) -> io::Result<OsString> {
        match self.program.to_str() {
            Some(name) if !name.contains('/') => {
                let found = match &self.apart_from {
                    Some(project) => find_outside(name, project),
                    None => find_program(name),
                };
                found.map(PathBuf::into_os_string).ok_or_else(|| io::ErrorKind::NotFound.into())
            }
            _ => Ok(self.program.clone()),
        }
    }

    fn command(&self, found: &OsString) -> io::Result<(Command, Pipes)> {
        let mut command = match &self.tied_by {
            None => {
                let mut command = Command::new(found);
                command.args(&self.arguments);
                command
            }
            Some((program, first)) => {
                let mut command = Command::new(program);
                command.args(first).args(tie::arguments(found, &self.arguments));
                command
            }
        };
        command.process_group(0).env_clear();
        command.envs(self.environment.of(std::env::vars_os()));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut pipes = Pipes::default();
        match self.output {
            Output::Apart => {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
            }
            Output::Together => {
                let (reader, writer) = io::pipe()?;
                command.stdout(writer.try_clone()?).stderr(writer);
                pipes.stdout = Stream::new(OwnedFd::from(reader))?;
            }
        }
        Ok((command, pipes))
    }

    fn why_not_started(&self, failed: io::Error) -> StartError {
        let program = self.shown();
        match failed.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                match self.folder.as_deref().filter(|folder| !folder.is_dir()) {
                    Some(folder) => StartError::NoFolder { folder: shown_path(folder) },
                    None => StartError::NotFound { program },
                }
            }
            io::ErrorKind::PermissionDenied => StartError::NotExecutable { program },
            _ => StartError::Failed { program, source: failed },
        }
    }
}

fn shown_path(path: &Path) -> String {
    AsRef::<OsStr>::as_ref(path).display().to_string()
}

/// This process's pipe ends, all of them non-blocking.
#[derive(Debug, Default)]
struct Pipes {
    stdin: Option<(std::fs::File, Vec<u8>)>,
    stdout: Stream,
    stderr: Stream,
    transcript: Option<Transcript>,
    /// Becomes readable when the first process has ended.
    leader: Option<OwnedFd>,
}

#[derive(Debug, Default)]
struct Stream {
    pipe: Option<std::fs::File>,
    captured: Captured,
}

impl Stream {
    fn new(pipe: OwnedFd) -> io::Result<Self> {
        Ok(Self { pipe: Some(nonblocking(pipe)?), captured: Captured::default() })
    }

    /// Reads what is available.
    fn read(&mut self, keep: Keep, transcript: Option<&mut Transcript>) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        let mut buffer = [0; 64 * 1024];
        match pipe.read(&mut buffer) {
            Ok(0) => self.pipe = None,
            Ok(length) => {
                self.captured.push(keep, &buffer[..length]);
                if let Some(transcript) = transcript {
                    transcript.push(&buffer[..length]);
                }
            }
            Err(later) if would_block(&later) => {}
            Err(failed) => return Err(failed),
        }
        Ok(())
    }
}

fn nonblocking(pipe: OwnedFd) -> io::Result<std::fs::File> {
    fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
    Ok(pipe.into())
}

fn would_block(failed: &io::Error) -> bool {
    matches!(failed.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl Pipes {
    fn adopt(&mut self, child: &mut Child, stdin: Option<&[u8]>) -> io::Result<()> {
        if let (Some(pipe), Some(bytes)) = (child.stdin.take(), stdin) {
            self.stdin = Some((nonblocking(pipe.into())?, bytes.to_vec()));
        }
        if let Some(pipe) = child.stdout.take() {
            self.stdout = Stream::new(pipe.into())?;
        }
        if let Some(pipe) = child.stderr.take() {
            self.stderr = Stream::new(pipe.into())?;
        }
        Ok(())
    }

    fn output_closed(&self) -> bool {
        self.stdout.pipe.is_none() && self.stderr.pipe.is_none()
    }

    /// Waits until a pipe is ready, or for at most `at_most`; then reads and writes.
    fn attend(&mut self, keep: Keep, at_most: Duration) -> io::Result<()> {
        let stdin = self.stdin.as_ref().map(|(pipe, _)| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::OUT));
        let streams = [&self.stdout, &self.stderr].into_iter().filter_map(|stream| stream.pipe.as_ref());
        let leader = self.leader.as_ref().map(|leader| PollFd::from_borrowed_fd(leader.as_fd(), PollFlags::IN));
        let streams = streams.map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN));
        let mut ends: Vec<PollFd<'_>> = streams.chain(stdin).chain(leader).collect();
        let timeout = Timespec::try_from(at_most).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 1_000_000 });
        match poll(&mut ends, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(failed) => return Err(failed.into()),
        }
        self.stdout.read(keep, self.transcript.as_mut())?;
        self.stderr.read(keep, self.transcript.as_mut())?;
        self.feed();
        Ok(())
    }

    /// Writes as much as the command accepts. A command that does not read all of its input is not at fault.
    fn feed(&mut self) {
        let Some((pipe, left)) = &mut self.stdin else { return };
        match pipe.write(left) {
            Ok(written) => {
                left.drain(..written);
            }
            Err(later) if would_block(&later) => {}
            Err(_) => left.clear(),
        }
        if left.is_empty() {
            self.stdin = None;
        }
    }
}

#[derive(Debug)]
struct Running<'a> {
    task: &'a Task,
    child: Child,
    group: Group,
    pipes: Pipes,
    started: Instant,
    stopped: Option<Stopped>,
    /// When the group was asked to end.
    asked_at: Option<Instant>,
    killed: bool,
    /// Once reaped, the pid may belong to an unrelated process.
    reaped: bool,
    held_back: &'a HeldBack,
}

impl Running<'_> {
    fn follow(&mut self, watcher: &mut dyn Watcher) -> io::Result<Finished> {
        self.until_the_leader_ends(watcher)?;
        let duration = self.started.elapsed();
        // The pidfd stays readable from now on, so polling it would never wait.
        self.pipes.leader = None;
        self.drain(LINGER)?;
        // The leader is not reaped yet, so the signal reaches its group and no other.
        self.group.end();
        let not_ended = self.task.everything.as_ref().map(|mark| self.end_everything(mark));
        self.drain(AFTER_KILL)?;
        let status = self.child.wait()?;
        self.reaped = true;
        Ok(Finished {
            end: end(status),
            stopped: self.stopped,
            duration,
            left_behind: !self.pipes.output_closed(),
            not_ended: not_ended.unwrap_or_default(),
            transcript_failed: self.pipes.transcript.as_mut().and_then(Transcript::failed).map(|why| why.to_string()),
            stdout: std::mem::take(&mut self.pipes.stdout.captured),
            stderr: std::mem::take(&mut self.pipes.stderr.captured),
        })
    }

    fn until_the_leader_ends(&mut self, watcher: &mut dyn Watcher) -> io::Result<()> {
        let mut watched = self.started;
        let mut pause = POLL_MIN;
        while !self.group.leader_ended()? {
            let at_most = match (&self.pipes.leader, self.pipes.output_closed()) {
                (Some(_), _) => POLL_WITH_PIDFD.min(self.time_to_next_task(watched)),
                (None, false) => POLL,
                (None, true) => {
                    pause = (pause * 2).min(POLL);
                    pause
                }
            };
            self.pipes.attend(self.task.keep, at_most)?;
            if self.stopped.is_none() && watched.elapsed() >= self.task.watch_every {
                match watcher.look(self.started.elapsed()) {
                    Watch::Continue => {}
                    Watch::Stop => self.stop(Stopped::ByWatcher),
                    Watch::End => {
                        self.stop(Stopped::ByWatcher);
                        self.kill();
                    }
                }
                watched = Instant::now();
                if self.task.everything.is_some() {
                    tree::reap_adopted(self.group.leader());
                }
            }
            self.enforce_limits();
        }
        Ok(())
    }

    /// Time until the next task that no pipe announces.
    fn time_to_next_task(&self, watched: Instant) -> Duration {
        let left = |since: Instant, length: Duration| length.saturating_sub(since.elapsed());
        let mut next = left(watched, self.task.watch_every);
        if self.stopped.is_none() {
            next = next.min(self.task.limit.map_or(next, |limit| left(self.started, limit)));
        }
        if let Some(asked_at) = self.asked_at.filter(|_| !self.killed) {
            next = next.min(left(asked_at, self.task.grace));
        }
        next.max(POLL_MIN)
    }

    fn end_everything(&self, mark: &Mark) -> Vec<u32> {
        tree::end_below(mark, self.group.leader(), KILL_PATIENCE)
    }

    fn kill(&mut self) {
        self.group.end();
        self.killed = true;
    }

    /// Ends a command that ran too long or was interrupted, first with SIGTERM.
    fn enforce_limits(&mut self) {
        if self.stopped.is_none() {
            if let Some(signal) = self.held_back.signal() {
                self.stop(Stopped::Interrupted(signal));
            } else if self.task.limit.is_some_and(|limit| self.started.elapsed() >= limit) {
                self.stop(Stopped::TimedOut);
            }
        }
        if self.asked_at.is_some_and(|asked| asked.elapsed() >= self.task.grace) && !self.killed {
            self.kill();
        }
    }

    fn stop(&mut self, why: Stopped) {
        self.stopped = Some(why);
        self.asked_at = Some(Instant::now());
        self.group.ask_to_end();
    }

    /// Reads the rest of the output while it may still be written, but not forever.
    fn drain(&mut self, at_most: Duration) -> io::Result<()> {
        let until = Instant::now() + at_most;
        while !self.pipes.output_closed() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.pipes.attend(self.task.keep, left.min(POLL))?;
        }
        Ok(())
    }
}

impl Drop for Running<'_> {
    /// An error, or a panic of the watcher, leaves no process behind either.
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        self.group.end();
        if let Some(mark) = &self.task.everything {
            self.end_everything(mark);
        }
        let _ = self.child.wait();
    }
}

fn end(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exit(code),
        (None, Some(signal)) => End::Signal(signal),
        // Only a stopped process has neither, and those are not waited for.
        (None, None) => End::Signal(0),
    }
}
