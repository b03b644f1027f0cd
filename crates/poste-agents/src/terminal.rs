//! A terminal for the rig, for programs that need one.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use crate::Result;
use crate::rig::{Rig, words};

const COLUMNS: &str = "150";
const ROWS: &str = "50";
/// The pause between a line and the key that submits it: programs take simultaneous input for pasted text.
const BETWEEN_KEYS: Duration = Duration::from_millis(400);
const COMMAND_MAX: Duration = Duration::from_secs(20);

/// A tmux server with one session; it ends with the handle.
#[derive(Debug)]
pub struct Terminal<'r> {
    rig: &'r Rig,
}

impl<'r> Terminal<'r> {
    pub fn open(rig: &'r Rig, program: &[OsString]) -> Result<Self> {
        let terminal = Self { rig };
        let folder = rig.project();
        let mut arguments =
            words(["-f", "/dev/null", "new-session", "-d", "-s", "agent", "-x", COLUMNS, "-y", ROWS, "-c"]);
        arguments.push(folder.into_os_string());
        arguments.extend(program.iter().cloned());
        terminal.tmux(&arguments)?;
        Ok(terminal)
    }

    pub fn line(&self, text: &str) -> Result {
        self.tmux(&words(["send-keys", "-t", "agent", "-l", text]))?;
        std::thread::sleep(BETWEEN_KEYS);
        self.tmux(&words(["send-keys", "-t", "agent", "Enter"]))?;
        Ok(())
    }

    pub fn screen(&self) -> String {
        let shown = self.tmux(&words(["capture-pane", "-p", "-t", "agent"])).unwrap_or_default();
        shown.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("\n")
    }

    pub fn wait_for(&self, text: &str, within: Duration) -> Result {
        let deadline = Instant::now() + within;
        while !self.screen().contains(text) {
            if Instant::now() > deadline {
                return Err(format!("the screen never had {text:?}:\n{}", self.screen()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Waits until the program has ended, and with it the only session of the server.
    pub fn wait_for_end(&self, within: Duration) -> Result {
        let deadline = Instant::now() + within;
        while self.tmux(&words(["has-session", "-t", "agent"])).is_ok() {
            if Instant::now() > deadline {
                return Err(format!("it did not end:\n{}", self.screen()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn tmux(&self, arguments: &[OsString]) -> Result<String> {
        let mut line = words(["tmux", "-S"]);
        line.push(self.rig.path("tmux").into_os_string());
        line.extend(arguments.iter().cloned());
        let mut running = self.rig.spawn("tmux", &line)?;
        let status = running.end_within(COMMAND_MAX)?;
        if status.success() { Ok(running.out()) } else { Err(format!("tmux: {status}\n{}", running.tail())) }
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let _ = self.tmux(&words(["kill-server"]));
    }
}
