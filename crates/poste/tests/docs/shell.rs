//! A shell on a pseudoterminal of 110 × 50, with its own home folder.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

const COLUMNS: u16 = 110;
const ROWS: u16 = 50;
const PATIENCE: Duration = Duration::from_secs(60);

const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const GIT_CONFIG: &str = "[user]\nname = docs\nemail = docs@example.org\n[init]\ndefaultBranch = main\n";

/// Printed after each command, followed by its exit code and `@@`.
const END: &str = "@@END ";

/// Whether the shell would find this program.
pub(crate) fn finds(program: &str) -> bool {
    SYSTEM_PATH.split(':').any(|folder| Path::new(folder).join(program).exists())
}

pub(crate) struct Shell {
    bash: Child,
    /// Our side of the terminal.
    terminal: OwnedFd,
    last_code: u8,
    home: PathBuf,
    _home: tempfile::TempDir,
}

impl Shell {
    pub(crate) fn start() -> Self {
        poste_testkit::signals::ignored_by_nobody_started();
        let folder = tempfile::Builder::new().prefix("docs").tempdir().expect("a temporary folder");
        let home = folder.path().canonicalize().expect("the folder's own name");
        std::fs::create_dir(home.join("project")).expect("a folder for the project");
        std::fs::write(home.join(".gitconfig"), GIT_CONFIG).expect("git's settings");
        let program = Path::new(env!("CARGO_BIN_EXE_poste")).parent().and_then(Path::to_str).expect("a folder");
        let (terminal, its_side) = open_terminal().expect("a terminal");
        let bash = Command::new("bash")
            .args(["--norc", "--noprofile"])
            .current_dir(home.join("project"))
            .env_clear()
            .env("HOME", &home)
            .env("XDG_STATE_HOME", poste_testkit::state::home())
            // The reader is a person at a terminal.
            .env("POSTE_TEST_PERSON", "1")
            .env("PATH", format!("{program}:{SYSTEM_PATH}"))
            .env("NO_COLOR", "1")
            .env("TERM", "xterm")
            .env("LANG", "C.UTF-8")
            .env("COLUMNS", COLUMNS.to_string())
            // With a pipe as stdin, bash does not prompt and has no job control, so all children stay in its group.
            .stdin(Stdio::piped())
            .stdout(its_side.try_clone().expect("a second handle"))
            .stderr(its_side)
            .process_group(0)
            .spawn()
            .expect("bash starts");
        Self { bash, terminal, last_code: 0, home, _home: folder }
    }

    /// The folder in which commands run.
    pub(crate) fn folder(&self) -> PathBuf {
        self.home.join("project")
    }

    /// Types a command and returns the lines that the terminal shows.
    pub(crate) fn run(&mut self, command: &str) -> Result<Vec<String>, String> {
        // The subshell sets the `$?` the command expects; eval keeps it in this shell, away from the pipe.
        let quoted = command.replace('\'', r"'\''");
        let typed = format!("(exit {}); eval '{quoted}\n' </dev/null; echo \"{END}$?@@\"\n", self.last_code);
        let pipe = self.bash.stdin.as_mut().expect("bash has an input");
        pipe.write_all(typed.as_bytes()).map_err(|error| format!("bash takes no more commands: {error}"))?;

        let deadline = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&seen);
            if let Some((answer, code)) = ended(&text) {
                self.last_code = code;
                return Ok(self.lines(answer));
            }
            let stuck = |why: &str| format!("$ {command}\n{why}; output until then:\n{text}");
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).expect("a short time");
            match poll(&mut [PollFd::new(&self.terminal, PollFlags::IN)], Some(&timeout)) {
                Ok(0) => return Err(stuck("it did not end in 60 seconds")),
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(stuck(&error.to_string())),
            }
            let mut buffer = [0; 4096];
            match rustix::io::read(&self.terminal, &mut buffer) {
                Ok(0) | Err(Errno::IO) => return Err(stuck("it ended the shell")),
                Ok(length) => seen.extend_from_slice(&buffer[..length]),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(stuck(&error.to_string())),
            }
        }
    }

    fn lines(&self, text: &str) -> Vec<String> {
        let text = text.replace('\r', "").replace(self.home.to_str().expect("a name in UTF-8"), "~");
        let mut lines: Vec<String> = text.split('\n').map(|line| without_escapes(line).trim_end().to_owned()).collect();
        while lines.pop_if(|line| line.is_empty()).is_some() {}
        lines
    }
}

impl Drop for Shell {
    /// Kills the shell and everything its commands left running.
    fn drop(&mut self) {
        // Both fail only if the shell has already ended.
        let _ = kill_process_group(Pid::from_child(&self.bash), Signal::KILL);
        let _ = self.bash.wait();
    }
}

/// The output of a command and its exit code, once it has ended.
fn ended(text: &str) -> Option<(&str, u8)> {
    let (answer, end) = text.split_once(END)?;
    let (code, _) = end.split_once("@@\n")?;
    Some((answer, code.parse().expect("an exit code")))
}

/// A line without colours and without erased text (progress lines).
fn without_escapes(line: &str) -> String {
    let mut rest = line.rsplit("\x1b[2K").next().unwrap_or(line);
    let mut plain = String::new();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain += before;
        match after.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').strip_prefix('m') {
            Some(text) => rest = text,
            // No other escape belongs in a transcript: leave it visible.
            None => {
                plain += "\\e[";
                rest = after;
            }
        }
    }
    plain + rest
}

/// A pseudoterminal that does not change output (`OPOST` off): our side, and that of the programs in it.
fn open_terminal() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    rustix::io::fcntl_setfd(&ours, FdFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = rustix::fs::open(std::ffi::OsStr::from_bytes(name.as_bytes()), flags, Mode::empty())?;
    tcsetwinsize(&theirs, Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 })?;
    let mut modes = tcgetattr(&theirs)?;
    modes.output_modes.remove(OutputModes::OPOST);
    tcsetattr(&theirs, OptionalActions::Now, &modes)?;
    Ok((ours, theirs))
}
