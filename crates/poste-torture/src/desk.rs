//! A temporary folder with an office in it, and real processes that work on it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;

use crate::rig::{Program, Result};

/// No process of ours may run longer: a hang is a finding.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a process ended and what it printed.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Run {
    pub(crate) fn is_ok(&self) -> bool {
        self.code == Some(0)
    }

    pub(crate) fn was_killed(&self) -> bool {
        self.signal == Some(Signal::KILL.as_raw())
    }

    /// The answer on stdout, if it was printed completely.
    pub(crate) fn answer(&self) -> Option<Value> {
        if !self.out.ends_with('\n') {
            return None;
        }
        serde_json::from_str(self.out.trim()).ok()
    }

    /// Whether it ended with one of the codes of `docs/exit-codes.md`, without a panic or a signal.
    pub(crate) fn is_documented(&self) -> bool {
        matches!(self.code, Some(0..=10)) && !self.err.contains("panicked")
    }

    pub(crate) fn told(&self) -> String {
        let how = match (self.code, self.signal) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "no status".to_owned(),
        };
        let err: String = self.err.trim().chars().take(300).collect();
        format!("{how}: {err}")
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            signal: output.status.signal(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Desk {
    pub folder: PathBuf,
}

impl Desk {
    pub(crate) fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// An empty folder, whatever was there before.
    pub(crate) fn clean(folder: impl Into<PathBuf>) -> Result<Self> {
        let desk = Self::at(folder);
        desk.wipe()?;
        fs::create_dir_all(&desk.folder).map_err(|error| told(&desk.folder, &error))?;
        Ok(desk)
    }

    /// An office with these agents, each with the role `worker`.
    pub(crate) fn with_agents(folder: impl Into<PathBuf>, program: &Program, agents: &[&str]) -> Result<Self> {
        let desk = Self::clean(folder)?;
        desk.must(program, &["init"])?;
        for agent in agents {
            desk.must(program, &["register", agent, "--role", "worker"])?;
        }
        Ok(desk)
    }

    pub(crate) fn office(&self) -> PathBuf {
        self.folder.join(".poste")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.office().join("office.db")
    }

    pub(crate) fn wal_bytes(&self) -> u64 {
        fs::metadata(self.office().join("office.db-wal")).map_or(0, |meta| meta.len())
    }

    pub(crate) fn wipe(&self) -> Result {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(told(&self.folder, &error)),
            _ => Ok(()),
        }
    }

    /// Copies the files to another folder. Nothing may have them open here: see `copy_folder`.
    pub(crate) fn copy_to(&self, folder: impl Into<PathBuf>) -> Result<Self> {
        let copy = Self::clean(folder)?;
        copy_folder(&self.folder, &copy.folder).map_err(|error| told(&copy.folder, &error))?;
        Ok(copy)
    }

    /// The program, with nothing of this process's environment except the search path.
    pub(crate) fn command(&self, program: &Program, args: &[impl AsRef<str>]) -> Command {
        let mut command = Command::new(&program.path);
        command.args(args.iter().map(AsRef::as_ref));
        self.prepare(&mut command, program);
        command
    }

    pub(crate) fn prepare(&self, command: &mut Command, program: &Program) {
        // The harness copies offices, and makes some without the program.
        if self.office().is_dir() {
            poste_testkit::state::adopt(&self.office());
        }
        command
            .current_dir(&self.folder)
            .env_clear()
            .env("HOME", self.folder.join("home"))
            .env("XDG_STATE_HOME", poste_testkit::state::home())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(program.env.iter().map(|(key, value)| (*key, value.as_str())))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }

    pub(crate) fn run(&self, program: &Program, args: &[impl AsRef<str>]) -> Result<Run> {
        finish(start(&mut self.command(program, args))?)
    }

    /// Runs it and expects success, for steps that are not under test.
    pub(crate) fn must(&self, program: &Program, args: &[impl AsRef<str>]) -> Result<Run> {
        let run = self.run(program, args)?;
        if run.is_ok() {
            return Ok(run);
        }
        let words: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
        Err(format!("poste {} ended with {}", words.join(" "), run.told()))
    }

    pub(crate) fn json(&self, program: &Program, args: &[&str]) -> Result<Value> {
        let run = self.must(program, &[&["--json"], args].concat())?;
        run.answer().ok_or_else(|| format!("{args:?} did not answer in JSON: {}", run.out))
    }
}

pub(crate) fn told(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

pub(crate) fn start(command: &mut Command) -> Result<Child> {
    command.spawn().map_err(|error| format!("{} does not start: {error}", command.get_program().to_string_lossy()))
}

/// Waits for a process and takes its output. One that does not end is killed, which shows in its signal.
pub(crate) fn finish(child: Child) -> Result<Run> {
    let watched = Watchdog::watch(&child)?;
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    Watchdog::forget(watched);
    Ok(output.into())
}

pub(crate) fn input_from(command: &mut Command, file: &Path) -> Result {
    let file = File::open(file).map_err(|error| told(file, &error))?;
    command.stdin(file);
    Ok(())
}

/// Copies by reading every file. This must not be done to a database that this process has open, because closing such a
/// file drops SQLite's locks on it.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Kills processes that exceed the time limit. It holds pidfds rather than pids, because a pid may be reused.
struct Watchdog;

type Watched = BTreeMap<u64, (OwnedFd, Instant)>;

fn watched() -> &'static Mutex<Watched> {
    static WATCHED: OnceLock<Mutex<Watched>> = OnceLock::new();
    WATCHED.get_or_init(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_millis(500));
                for (process, started) in lock_watched().values() {
                    if started.elapsed() > PATIENCE {
                        let _ = pidfd_send_signal(process, Signal::KILL);
                    }
                }
            }
        });
        Mutex::default()
    })
}

fn lock_watched() -> std::sync::MutexGuard<'static, Watched> {
    watched().lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Watchdog {
    fn watch(child: &Child) -> Result<u64> {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).map_err(|error| error.to_string())?;
        let key = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        lock_watched().insert(key, (process, Instant::now()));
        Ok(key)
    }

    fn forget(key: u64) {
        lock_watched().remove(&key);
    }
}
