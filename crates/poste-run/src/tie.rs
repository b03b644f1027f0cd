//! A command that does not outlive its supervisor.
//!
//! Only a process itself can ask the kernel to be killed with its parent. So the command is started through an
//! intermediate step: this program again, which makes that request and then becomes the command.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::run::{BUSY_PAUSE, BUSY_TRIES};

/// The exit codes of a shell that cannot start a program.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
/// The parent has died, so the command is not needed.
const ORPHANED: u8 = 125;

/// Arguments for the intermediate program: the parent whose end it shares, and the program to become.
pub(crate) fn arguments(program: &OsString, arguments: &[OsString]) -> Vec<OsString> {
    let parent = std::process::id().to_string();
    [OsString::from(parent), program.clone()].into_iter().chain(arguments.iter().cloned()).collect()
}

/// Becomes the command, which from then on ends with its parent. Returns only on failure, with the exit code to use and
/// the reason.
pub fn become_tied(mut words: impl Iterator<Item = OsString>) -> (u8, String) {
    let parent = words.next().and_then(|word| word.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let (Some(parent), Some(program)) = (parent, words.next()) else {
        return (NOT_FOUND, "expected a parent pid and a program".to_owned());
    };
    if let Err(failed) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return (ORPHANED, format!("could not tie it to its parent: {failed}"));
    }
    // The parent may have died before the request.
    if getppid() != Some(parent) {
        return (ORPHANED, "its parent has died".to_owned());
    }
    let arguments: Vec<OsString> = words.collect();
    for _ in 0..BUSY_TRIES {
        let failed = Command::new(&program).args(&arguments).exec();
        match failed.kind() {
            io::ErrorKind::ExecutableFileBusy => std::thread::sleep(BUSY_PAUSE),
            io::ErrorKind::NotFound => return (NOT_FOUND, format!("{}: {failed}", program.display())),
            _ => return (NOT_EXECUTABLE, format!("{}: {failed}", program.display())),
        }
    }
    (NOT_EXECUTABLE, format!("{} is being written", program.display()))
}

/// Checks that a command with this `PATH` and folder would find the program. Checked beforehand, because the
/// intermediate program can only report its exit code.
pub(crate) fn find(program: &Path, path: Option<&OsString>, folder: Option<&Path>) -> io::Result<()> {
    let is_there = |file: &Path| -> io::Result<()> {
        let meta = std::fs::metadata(file)?;
        if !meta.is_file() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(rustix::fs::access(file, rustix::fs::Access::EXEC_OK)?)
    };
    if program.components().count() != 1 || program.has_root() || program.to_string_lossy().contains('/') {
        return is_there(&folder.unwrap_or(Path::new(".")).join(program));
    }
    let mut worst = io::Error::from(io::ErrorKind::NotFound);
    for folder in path.map(std::env::split_paths).into_iter().flatten() {
        match is_there(&folder.join(program)) {
            Ok(()) => return Ok(()),
            Err(failed) if failed.kind() == io::ErrorKind::PermissionDenied => worst = failed,
            Err(_) => {}
        }
    }
    Err(worst)
}
