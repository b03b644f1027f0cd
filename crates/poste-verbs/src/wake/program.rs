//! Rings by running a program: `codex queue`, or the user's command. No shell, a timeout, and no text of messages.

use std::time::Duration;

use poste_config::WAKE_TEMPLATES as TEMPLATES;
use poste_core::Foreign;
use poste_run::{Environment, Finished, Stopped, Task};

use super::Ring;

pub(super) fn codex_queue(thread: &str, ring: &Ring) -> Result<(), String> {
    if !super::is_plain(thread) {
        return Err("the thread id is not a valid codex id".to_owned());
    }
    let text = ring.text();
    let mut task = Task::new("codex", ["queue", "--thread", thread, "--message", &text]);
    let mut environment = Environment::default();
    environment.allow("CODEX_HOME");
    task.apart_from(&ring.folder).environment(environment);
    run(&mut task, "codex queue", ring.limit).map(drop)
}

pub(super) fn command(words: &[String], ring: &Ring) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else { return Err("the command is empty".to_owned()) };
    let filled = arguments.iter().map(|word| fill(word, ring));
    let mut task = Task::new(program, filled);
    let mut environment = Environment::default();
    // Needed by desktop notifications.
    for name in ["DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"] {
        environment.allow(name);
    }
    task.environment(environment).folder(&ring.folder);
    run(&mut task, program, ring.limit).map(drop)
}

fn fill(word: &str, ring: &Ring) -> String {
    let number = ring.numbers.first().map(ToString::to_string).unwrap_or_default();
    let values = [ring.agent.to_string(), number, ring.numbers.len().to_string()];
    TEMPLATES.iter().zip(values).fold(word.to_owned(), |word, (template, value)| word.replace(template, &value))
}

/// Runs a program to its end. The error has its exit code and the first line it printed to stderr.
pub(super) fn run(task: &mut Task, name: &str, limit: Duration) -> Result<Finished, String> {
    task.limit(limit).grace(Duration::from_millis(500));
    let finished = task.run().map_err(|error| error.to_string())?;
    if finished.passed() {
        return Ok(finished);
    }
    if finished.stopped == Some(Stopped::TimedOut) {
        return Err(format!("{name} timed out after {} s", limit.as_secs_f32()));
    }
    let said = String::from_utf8_lossy(&finished.stderr.bytes()).into_owned();
    let said =
        said.lines().map(str::trim).find(|line| !line.is_empty()).map(|line| format!(": {}", Foreign::words(line)));
    let how = match finished.end {
        poste_run::End::Exit(code) => format!("exit code {code}"),
        poste_run::End::Signal(signal) => format!("signal {signal}"),
    };
    Err(format!("{name} ended with {how}{}", said.unwrap_or_default()))
}
