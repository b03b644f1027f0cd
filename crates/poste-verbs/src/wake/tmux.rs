//! A pane of tmux: one line is typed into it, after making sure that the agent still runs there.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use poste_core::store::processes;
use poste_run::Task;

use super::program::run;

/// Programs take a line and an Enter that come at once for pasted text, and do not send it.
const PAUSE: Duration = Duration::from_millis(150);

pub(super) fn type_line(socket: &Path, pane: &str, pid: u32, text: &str, limit: Duration) -> Result<(), String> {
    let is_pane =
        pane.strip_prefix('%').is_some_and(|number| !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit()));
    if !is_pane {
        return Err("the name of the pane is none of tmux".to_owned());
    }
    let asked =
        tmux(socket, &["display-message", "-p", "-t", pane, "#{pane_dead} #{pane_in_mode} #{pane_pid}"], limit)?;
    let fields: Vec<&str> = asked.split_whitespace().collect();
    let [dead, in_mode, above] = fields[..] else { return Err(format!("pane {pane} is not there")) };
    if dead != "0" {
        return Err(format!("pane {pane} is dead"));
    }
    // Keys would scroll there, or search.
    if in_mode != "0" {
        return Err(format!("somebody is reading back in pane {pane}"));
    }
    if !above.parse().is_ok_and(|above| processes::is_at_or_below(pid, above)) {
        return Err(format!("pane {pane} runs something else by now"));
    }
    // What is typed now is a line for a shell, or for an editor.
    if !processes::is_in_foreground(pid) {
        return Err(format!("something else is in front of the agent in pane {pane}"));
    }
    tmux(socket, &["send-keys", "-t", pane, "-l", "--", text], limit)?;
    std::thread::sleep(PAUSE);
    tmux(socket, &["send-keys", "-t", pane, "Enter"], limit).map(drop)
}

fn tmux(socket: &Path, arguments: &[&str], limit: Duration) -> Result<String, String> {
    let socket = [OsStr::new("-S"), socket.as_os_str()];
    let mut task = Task::new("tmux", socket.into_iter().chain(arguments.iter().map(OsStr::new)));
    let finished = run(&mut task, "tmux", limit)?;
    Ok(String::from_utf8_lossy(&finished.stdout.bytes()).into_owned())
}
