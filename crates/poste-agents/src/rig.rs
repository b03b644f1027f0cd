//! A temporary home and project, with an office of two agents, and the processes that run in them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use poste_agents::Model;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;

use crate::Result;
use crate::programs::Program;

/// The sender, and the agent that the program runs as. No program uses these words by itself.
pub const SENDER: &str = "quillon";
pub const WORKER: &str = "wrenlet";

const COMMAND_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Rig {
    pub program: Program,
    folder: Option<TempDir>,
    root: PathBuf,
    /// Of the user, and outside the worktree that `root` lies in.
    state: TempDir,
    poste: PathBuf,
    tools: PathBuf,
    model: Model,
    keep: bool,
}

impl Rig {
    pub fn new(program: Program, poste: &Path, tools: &Path, keep: bool) -> Result<Self> {
        // Not in the temporary folder, because Codex distrusts a home there.
        let runs = tools.join("agents/runs");
        let failed = |error: std::io::Error| format!("{}: {error}", runs.display());
        fs::create_dir_all(&runs).map_err(failed)?;
        let folder = tempfile::Builder::new().prefix(program.word()).tempdir_in(&runs).map_err(failed)?;
        let root = folder.path().to_owned();
        for part in ["home", "project"] {
            fs::create_dir(root.join(part)).map_err(failed)?;
        }
        let state = tempfile::Builder::new().prefix("poste-agents-").tempdir().map_err(failed)?;
        let model = Model::start(&root.join("requests.jsonl")).map_err(failed)?;
        let (poste, tools) = (poste.to_owned(), tools.to_owned());
        let rig = Self { program, folder: Some(folder), root, state, poste, tools, model, keep };
        program.prepare(&rig)?;
        rig.run("git", ["init", "--quiet", "."])?;
        rig.poste_as(None, &["init"])?;
        rig.poste_as(None, &["register", SENDER, "--role", "lead"])?;
        rig.poste_as(None, &["register", WORKER, "--role", "worker"])?;
        Ok(rig)
    }

    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The state folder of the user.
    pub fn state(&self) -> &Path {
        self.state.path()
    }

    pub fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    pub fn poste(&self) -> &Path {
        &self.poste
    }

    pub fn tools(&self) -> &Path {
        &self.tools
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A process of this rig: with nothing of our environment, in its own process group.
    pub fn command(&self, words: &[OsString]) -> Command {
        let (program, arguments) = words.split_first().expect("a command line has a program");
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.project()).env_clear().envs(self.program.environment(self));
        command.stdin(Stdio::null()).process_group(0);
        command
    }

    /// Its output goes to files, so that a full pipe cannot block it.
    pub fn spawn(&self, name: &str, words: &[OsString]) -> Result<Running> {
        let (out, err) = (self.path(&format!("{name}.out")), self.path(&format!("{name}.err")));
        let file = |path: &Path| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
        let mut command = self.command(words);
        command.stdout(file(&out)?).stderr(file(&err)?);
        let child = command.spawn().map_err(|error| format!("{}: {error}", words[0].display()))?;
        Ok(Running { child: Some(child), out, err })
    }

    fn run<const N: usize>(&self, program: &str, arguments: [&str; N]) -> Result<String> {
        let mut words = vec![OsString::from(program)];
        words.extend(arguments.map(OsString::from));
        let mut running = self.spawn("command", &words)?;
        let status = running.end_within(COMMAND_MAX)?;
        if status.success() {
            Ok(running.out())
        } else {
            Err(format!("{program} {arguments:?}: {status}\n{}", running.tail()))
        }
    }

    /// The answer of a `poste` command.
    pub fn poste_as(&self, who: Option<&str>, arguments: &[&str]) -> Result<Value> {
        let mut words = vec![self.poste.clone().into_os_string(), "--json".into()];
        words.extend(who.into_iter().flat_map(|who| [OsString::from("--as"), OsString::from(who)]));
        words.extend(arguments.iter().map(OsString::from));
        let mut running = self.spawn("poste", &words)?;
        let status = running.end_within(COMMAND_MAX)?;
        let out = running.out();
        if !status.success() {
            return Err(format!("poste {}: {status}\n{out}{}", arguments.join(" "), running.tail()));
        }
        Ok(serde_json::from_str(&out).unwrap_or(Value::String(out)))
    }

    /// Sends a message and returns its number.
    pub fn send(&self, to: &str, subject: &str, options: &[&str]) -> Result<u64> {
        let body = "Please see to it.";
        let sent = self.poste_as(Some(SENDER), &[&["send", to, subject, body], options].concat())?;
        sent["number"].as_u64().ok_or_else(|| format!("no number in {sent}"))
    }

    /// Processes that work in this rig's folders.
    pub fn running(&self) -> Vec<(Pid, String)> {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let here = processes.filter_map(|entry| {
            let id = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
            let folder = fs::read_link(entry.path().join("cwd")).ok()?;
            let words = fs::read(entry.path().join("cmdline")).ok()?;
            // A process without arguments has exited and only waits to be reaped.
            let counts = folder.starts_with(&self.root) && !words.is_empty();
            counts.then(|| (id, String::from_utf8_lossy(&words).replace('\0', " ")))
        });
        here.collect()
    }

    /// Kills what is still running, by its pid, and names it.
    pub fn left_behind(&self) -> Vec<String> {
        let running = self.running();
        for (id, _) in &running {
            let _ = kill_process(*id, Signal::KILL);
        }
        running.into_iter().map(|(id, words)| format!("{}: {words}", id.as_raw_nonzero())).collect()
    }

    /// Removes everything, unless it is to be examined.
    pub fn close(mut self, failed: bool) -> Option<PathBuf> {
        self.left_behind();
        let folder = self.folder.take()?;
        (self.keep || failed).then(|| folder.keep())
    }
}

/// A process that ends with its handle.
#[derive(Debug)]
pub struct Running {
    child: Option<Child>,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    pub fn end_within(&mut self, time: Duration) -> Result<ExitStatus> {
        let Some(child) = &mut self.child else { return Err("it has ended before".to_owned()) };
        let deadline = Instant::now() + time;
        loop {
            match child.try_wait() {
                Ok(Some(status)) => {
                    self.child = None;
                    return Ok(status);
                }
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
                Ok(None) => {
                    self.kill();
                    return Err(format!("it had not ended after {} s\n{}", time.as_secs(), self.tail()));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    pub fn out(&self) -> String {
        fs::read(&self.out).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Its last output, for a report.
    pub fn tail(&self) -> String {
        let err = fs::read(&self.err).unwrap_or_default();
        let text = format!("{}{}", self.out(), String::from_utf8_lossy(&err));
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(12);
        lines[from..].iter().map(|line| shortened(line, 300)).collect::<Vec<_>>().join("\n")
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = child.wait();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// For a command line whose words are not all valid text.
pub fn words<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Vec<OsString> {
    words.into_iter().map(|word| word.as_ref().to_owned()).collect()
}
