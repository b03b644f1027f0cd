//! Types one line into a tmux pane, after checking that the agent still runs there.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use poste_core::store::processes;
use poste_run::Task;

use super::Ring;
use super::program::run;

/// Programs treat a line and an Enter that arrive together as pasted text, and do not submit it.
const PAUSE: Duration = Duration::from_millis(150);

pub(super) fn type_line(socket: &Path, pane: &str, pid: u32, ring: &Ring) -> Result<(), String> {
    let text = ring.text();
    let is_pane =
        pane.strip_prefix('%').is_some_and(|number| !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit()));
    if !is_pane {
        return Err("the pane id is not one of tmux".to_owned());
    }
    // Whoever runs the server at a socket decides what is typed where.
    super::socket::check_own(socket).map_err(|error| format!("the socket of tmux: {error}"))?;
    let asked = tmux(socket, &["display-message", "-p", "-t", pane, "#{pane_dead} #{pane_in_mode} #{pane_pid}"], ring)?;
    let fields: Vec<&str> = asked.split_whitespace().collect();
    let [dead, in_mode, above] = fields[..] else { return Err(format!("pane {pane} does not exist")) };
    if dead != "0" {
        return Err(format!("pane {pane} is dead"));
    }
    // Keys would scroll or search there.
    if in_mode != "0" {
        return Err(format!("pane {pane} is in copy mode"));
    }
    if !above.parse().is_ok_and(|above| processes::is_at_or_below(pid, above)) {
        return Err(format!("pane {pane} runs another program now"));
    }
    // The line would go to a shell or an editor.
    if !processes::is_in_foreground(pid) {
        return Err(format!("the agent is not in the foreground of pane {pane}"));
    }
    tmux(socket, &["send-keys", "-t", pane, "-l", "--", &text], ring)?;
    std::thread::sleep(PAUSE);
    tmux(socket, &["send-keys", "-t", pane, "Enter"], ring).map(drop)
}

fn tmux(socket: &Path, arguments: &[&str], ring: &Ring) -> Result<String, String> {
    let socket = [OsStr::new("-S"), socket.as_os_str()];
    let mut task = Task::new("tmux", socket.into_iter().chain(arguments.iter().map(OsStr::new)));
    let finished = run(task.apart_from(&ring.folder), "tmux", ring.limit)?;
    Ok(String::from_utf8_lossy(&finished.stdout.bytes()).into_owned())
}
