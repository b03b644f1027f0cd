//! Whether a person gave a command: the only place that makes a [`Proof`].
//!
//! A name in an option or a variable proves nothing: any program can set it. A person sits at a terminal, in front of
//! it, and no program that runs commands for a model is above the shell they type in. What is above is asked of the
//! system, by process and start time, so an agent gains nothing by unsetting variables or by leaving its session: then
//! it has no terminal. A shell of the same user can still make a terminal of its own (`script` does) and detach it. A
//! sandbox or another user is the wall against that.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;

use poste_core::Office;
use poste_core::log::SessionProcess;
use poste_core::store::processes::{self, Ancestor};
use poste_core::views::{self, Keeper};
use rustix::termios::QueueSelector;

/// Why nothing proves that a person gave a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doubt {
    NoTerminal,
    /// Another program has the terminal.
    Background,
    /// What started the command cannot be seen, or where its agents run.
    Hidden,
    /// A program that runs commands for a model started it.
    Program(String),
    /// It runs for an agent.
    Agent(Keeper),
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTerminal => f.write_str("this command has no terminal"),
            Self::Background => f.write_str("this command is not in the foreground of its terminal"),
            Self::Hidden => f.write_str("the programs that started this command cannot be seen"),
            Self::Program(program) => write!(f, "{program} started this command"),
            Self::Agent(Keeper { agent, session, is_run }) => {
                let what = if *is_run { "run" } else { "session" };
                write!(f, "this command belongs to {what} {session} of {agent}")
            }
        }
    }
}

/// The terminal at which a person gave this command.
#[derive(Debug)]
pub struct Terminal(File);

impl Terminal {
    /// The terminal of this process, if a person uses it. `office` knows the runs and sessions of its agents.
    pub fn of_person(office: Option<&Office>) -> Result<Self, Doubt> {
        let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").map_err(|_| Doubt::NoTerminal)?;
        let front = rustix::termios::tcgetpgrp(&terminal).map_err(|_| Doubt::NoTerminal)?;
        if front != rustix::process::getpgrp() {
            return Err(Doubt::Background);
        }
        let above = no_agent_above(office)?;
        // What started the command may have ended, so that it is seen below nothing. The shell that a person types in
        // leads the session of their terminal, so it must be seen too.
        // In a container it may lie outside, and has no number then.
        let leader = nix::unistd::getsid(None).map_err(|_| Doubt::Hidden)?.as_raw();
        let is_leader = |pid: u32| i32::try_from(pid) == Ok(leader);
        if !is_leader(std::process::id()) && !above.iter().any(|ancestor| is_leader(ancestor.process.pid)) {
            return Err(Doubt::Hidden);
        }
        Ok(Self(terminal))
    }

    /// Asks for a word, which confirms the act. What was typed before the question does not count.
    pub fn confirms(&mut self, act: &str, word: &str) -> io::Result<bool> {
        const LINE_BYTES_MAX: u64 = 1024;
        rustix::termios::tcflush(&self.0, QueueSelector::IFlush)?;
        write!(self.0, "{act}: type {word} to confirm: ")?;
        let mut line = String::new();
        BufReader::new(&self.0).take(LINE_BYTES_MAX).read_line(&mut line)?;
        Ok(line.trim() == word)
    }
}

/// What started this process, if no agent did. A token proves a person only there: an agent that finds one is no person.
pub fn no_agent_above(office: Option<&Office>) -> Result<Vec<Ancestor>, Doubt> {
    let above = processes::lineage().ok_or(Doubt::Hidden)?;
    if let Some(program) = above.iter().find_map(agent_program) {
        return Err(Doubt::Program(program));
    }
    match keeper(office, &above)? {
        Some(keeper) => Err(Doubt::Agent(keeper)),
        None => Ok(above),
    }
}

/// The run that this process belongs to, whatever its environment says. Where no run is going on, nothing is looked for.
pub fn run_above(office: &Office) -> Result<Option<Keeper>, Doubt> {
    if views::running_rows(office.store(), None).map_err(|_| Doubt::Hidden)?.is_empty() {
        return Ok(None);
    }
    let above = processes::lineage().ok_or(Doubt::Hidden)?;
    Ok(keeper(Some(office), &above)?.filter(|keeper| keeper.is_run))
}

fn keeper(office: Option<&Office>, above: &[Ancestor]) -> Result<Option<Keeper>, Doubt> {
    let above: Vec<SessionProcess> = above.iter().map(|ancestor| ancestor.process.clone()).collect();
    let found = office.map(|office| views::keeper(office.store(), &above)).transpose();
    Ok(found.map_err(|_| Doubt::Hidden)?.flatten())
}

/// Programs in which a model runs commands. Some name their files after the package: `codex-x86_64-…`.
const AGENT_PROGRAMS: &[&str] = &[
    "aider",
    "amp",
    "auggie",
    "claude",
    "cline",
    "codex",
    "copilot",
    "crush",
    "cursor",
    "devin",
    "droid",
    "gemini",
    "goose",
    "kilocode",
    "kiro",
    "opencode",
    "openhands",
    "plandex",
    "qwen",
    "windsurf",
];

/// Programs that run a script, named by one of their first arguments.
const INTERPRETERS: &[&str] =
    &["node", "nodejs", "bun", "deno", "python", "pypy", "ruby", "uv", "uvx", "sh", "bash", "dash", "zsh", "fish"];

/// The name of the agent program that an ancestor is. What Poste itself started is no person's command either.
fn agent_program(ancestor: &Ancestor) -> Option<String> {
    const SCRIPT_WORDS: usize = 2;
    let executable = ancestor.executable.as_deref().and_then(file_name);
    let called = ancestor.arguments.first().and_then(|word| file_name(Path::new(word)));
    let names = [Some(ancestor.name.to_lowercase()), executable, called];
    let names: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
    if names.contains(&"poste") {
        return Some("poste".to_owned());
    }
    if let Some(found) = names.iter().find_map(|name| known(name)) {
        return Some(found.to_owned());
    }
    let is_interpreter = |name: &&str| {
        let plain = name.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
        INTERPRETERS.contains(&plain)
    };
    if !names.iter().any(is_interpreter) {
        return None;
    }
    let scripts = ancestor.arguments.iter().skip(1).filter(|word| !word.starts_with('-')).take(SCRIPT_WORDS);
    scripts.filter_map(|script| of_script(Path::new(script))).next().map(str::to_owned)
}

/// The agent program that a script belongs to, by its own name or by the package it is in.
fn of_script(script: &Path) -> Option<&'static str> {
    let parts: Vec<&str> = script.iter().filter_map(|part| part.to_str()).collect();
    let package = parts.iter().rposition(|part| ["node_modules", "site-packages"].contains(part));
    let in_package = package.map_or(&[][..], |at| &parts[at + 1..]);
    parts.last().into_iter().chain(in_package).find_map(|part| known(&part.to_lowercase()))
}

fn known(name: &str) -> Option<&'static str> {
    let is = |program: &&&str| {
        let rest = name.strip_prefix(**program);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
    };
    AGENT_PROGRAMS.iter().find(is).copied()
}

fn file_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    // The file of a running program that was replaced by an update.
    Some(name.strip_suffix(" (deleted)").unwrap_or(name).trim_start_matches('-').to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, executable: &str, arguments: &[&str]) -> Option<String> {
        agent_program(&Ancestor {
            process: SessionProcess { pid: 1, started_ms: None, place: String::new() },
            name: name.to_owned(),
            executable: Some(executable.into()),
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        })
    }

    #[test]
    fn agent_programs_are_known_by_name_file_script_and_package() {
        for (name, executable, arguments, program) in [
            ("claude", "/usr/bin/node", &["claude"][..], "claude"),
            ("MainThread", "/opt/codex/codex-x86_64-unknown-linux-musl", &["codex"], "codex"),
            ("node", "/usr/bin/node", &["node", "--no-warnings", "/usr/local/bin/gemini"], "gemini"),
            ("node", "/usr/bin/node", &["node", "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js"], "claude"),
            ("python3.12", "/usr/bin/python3.12", &["/usr/bin/python3.12", "/home/ann/.local/bin/aider"], "aider"),
            ("python3", "/usr/bin/python3", &["python3", "-m", "aider"], "aider"),
            ("bash", "/usr/bin/bash", &["/bin/bash", "/usr/local/bin/opencode"], "opencode"),
            ("Cursor", "/opt/Cursor/cursor", &["/opt/Cursor/cursor", "--type=utility"], "cursor"),
            ("poste", "/usr/bin/poste (deleted)", &["poste", "dispatch"], "poste"),
        ] {
            assert_eq!(found(name, executable, arguments).as_deref(), Some(program), "{arguments:?}");
        }
    }

    #[test]
    fn a_persons_programs_are_not_taken_for_agents() {
        for (name, executable, arguments) in [
            ("bash", "/usr/bin/bash", &["-bash"][..]),
            ("zsh", "/usr/bin/zsh", &["zsh", "-l"]),
            ("sshd", "/usr/sbin/sshd", &["sshd: ann [priv]"]),
            ("tmux: server", "/usr/bin/tmux", &["tmux", "new-session", "-s", "claude"]),
            ("node", "/usr/bin/node", &["node", "/home/ann/gemini/deploy.js"]),
            ("vim", "/usr/bin/vim", &["vim", "claude.md"]),
            ("ampd", "/usr/bin/ampd", &["ampd"]),
        ] {
            assert_eq!(found(name, executable, arguments), None, "{arguments:?}");
        }
    }
}
