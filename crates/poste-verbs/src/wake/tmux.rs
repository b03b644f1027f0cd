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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;
    use std::time::Instant;

    const LIMIT: Duration = Duration::from_secs(10);

    /// A server of tmux with one pane, in which a program writes down the lines that are typed.
    struct Server {
        folder: tempfile::TempDir,
    }

    impl Server {
        fn start(program: &str) -> Self {
            let server = Self { folder: tempfile::tempdir().expect("a folder") };
            let command = program.replace("FOLDER", &server.folder.path().display().to_string());
            server.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", &command]);
            server
        }

        fn socket(&self) -> PathBuf {
            self.folder.path().join("tmux")
        }

        fn tmux(&self, arguments: &[&str]) -> String {
            tmux(&self.socket(), arguments, LIMIT).expect("tmux does it")
        }

        fn pane(&self) -> (String, u32) {
            let told = self.tmux(&["display-message", "-p", "#{pane_id} #{pane_pid}"]);
            let (pane, pid) = told.trim().split_once(' ').expect("two words");
            (pane.to_owned(), pid.parse().expect("a number"))
        }

        fn typed(&self) -> String {
            fs::read_to_string(self.folder.path().join("typed")).unwrap_or_default()
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            let _ = tmux(&self.socket(), &["kill-server"], LIMIT);
        }
    }

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !is_so() {
            assert!(Instant::now() < end, "{what} did not happen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    const READER: &str = "touch FOLDER/typed; while read -r line; do echo \"$line\" >> FOLDER/typed; done";

    #[test]
    fn a_line_is_typed_and_sent_as_it_is() {
        let server = Server::start(READER);
        let (pane, pid) = server.pane();
        let line = "poste: 2 messages wait (#1, #2); run poste inbox";
        type_line(&server.socket(), &pane, pid, line, LIMIT).expect("typed");
        until("the line", || server.typed() == format!("{line}\n"));
    }

    /// The command line of a shell does with the agent what a person does with Ctrl-Z and `fg`.
    #[test]
    fn an_agent_that_was_put_aside_is_not_typed_to() {
        let server = Server::start("exec bash --norc --noprofile -i");
        let (pane, shell) = server.pane();
        let run = |line: &str| server.tmux(&["send-keys", "-t", &pane, line, "Enter"]);
        let folder = server.folder.path().display().to_string();
        let agent = format!("echo $$ > FOLDER/pid; {READER}").replace("FOLDER", &folder);
        fs::write(server.folder.path().join("agent"), agent).expect("written");
        run(&format!("sh {folder}/agent"));
        until("the agent", || server.folder.path().join("typed").exists());
        let agent = fs::read_to_string(server.folder.path().join("pid")).expect("it says so");
        let agent: u32 = agent.trim().parse().expect("a number");
        let type_line = |line: &str| type_line(&server.socket(), &pane, agent, line, LIMIT);
        type_line("one").expect("it is in front");
        until("the line", || server.typed() == "one\n");
        server.tmux(&["send-keys", "-t", &pane, "C-z"]);
        until("the stop", || !processes::is_in_foreground(agent));
        let aside = format!("something else is in front of the agent in pane {pane}");
        assert_eq!(type_line("two"), Err(aside.clone()));
        // It runs on, behind the shell.
        run("bg");
        until("the shell", || processes::is_in_foreground(shell));
        assert_eq!(type_line("two"), Err(aside));
        run("fg");
        until("the agent in front", || processes::is_in_foreground(agent));
        type_line("three").expect("it is in front again");
        until("the line", || server.typed() == "one\nthree\n");
    }

    #[test]
    fn only_a_pane_that_runs_the_agent_is_typed_into() {
        let server = Server::start(READER);
        let (pane, pid) = server.pane();
        let told = |pane: &str, pid: u32| type_line(&server.socket(), pane, pid, "x", LIMIT).expect_err("not there");
        assert_eq!(told(&pane, std::process::id()), format!("pane {pane} runs something else by now"));
        assert!(told("%99", pid).contains("pane"), "a pane that is not there");
        assert!(told("=0.0", pid).contains("none of tmux"));
        server.tmux(&["copy-mode", "-t", &pane]);
        assert_eq!(told(&pane, pid), format!("somebody is reading back in pane {pane}"));
        server.tmux(&["send-keys", "-t", &pane, "-X", "cancel"]);
        server.tmux(&["set-option", "-g", "remain-on-exit", "on"]);
        server.tmux(&["send-keys", "-t", &pane, "C-d"]);
        until("the end of the pane", || {
            server.tmux(&["display-message", "-p", "-t", &pane, "#{pane_dead}"]).starts_with('1')
        });
        assert_eq!(told(&pane, pid), format!("pane {pane} is dead"));
        assert_eq!(server.typed(), "", "nothing was typed");
        let nobody = type_line(Path::new("/nowhere/tmux"), &pane, pid, "x", LIMIT).expect_err("no server");
        assert!(nobody.starts_with("tmux ended with exit code 1"), "{nobody}");
    }
}
