//! Handlers on this machine: a desktop notification, a command, a line in a file.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use poste_config;
use poste_core::log::Content;
use poste_core::store::Folder;
use poste_core::vocabulary::Priority;
use poste_run::{End, Environment, Finished, Stopped, Task, Watch};
use poste_verbs::secret::scrubbed;
use serde_json::json;

use super::{AttemptContext, Failure, Post};
use poste_core::escape::plain;

/// The folder of files that rules write, inside the office.
const FOLDER: &str = "watch";
const TITLE_CHARS_MAX: usize = 120;
const TEXT_CHARS_MAX: usize = 500;
/// Shorter than the time by which an attempt may exceed its limit.
const GRACE: Duration = Duration::from_millis(500);
/// How often a running command is checked for a stop of the watcher.
const STOP_LOOK: Duration = Duration::from_millis(100);

pub(super) fn desktop(post: &Post, context: AttemptContext<'_>) -> Result<(), Failure> {
    let title: String = post.title().chars().take(TITLE_CHARS_MAX).collect();
    let text = post.text(TEXT_CHARS_MAX);
    let mut task = if cfg!(target_os = "macos") {
        let script = ["on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run"];
        let lines = script.iter().flat_map(|line| ["-e", line]);
        Task::new("osascript", lines.chain(["--", &title, &text]).map(str::to_owned).collect::<Vec<_>>())
    } else {
        let urgency = if post.message.priority >= Priority::High { "critical" } else { "normal" };
        // The text of a notification is read as markup.
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        Task::new("notify-send", ["--app-name=poste", "--urgency", urgency, "--", &title, &text])
    };
    let mut environment = Environment::default();
    for name in ["DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"] {
        environment.allow(name);
    }
    task.apart_from(context.folder).environment(environment);
    finished(task.limit(context.timeout).grace(GRACE), context)
}

pub(super) fn exec(words: &[String], post: &Post, context: AttemptContext<'_>) -> Result<(), Failure> {
    let message = &post.message;
    let values = [
        ("{number}", message.number.to_string()),
        ("{type}", message.kind.to_string()),
        ("{priority}", message.priority.to_string()),
        ("{from}", message.from.clone()),
        ("{rule}", post.rule.to_string()),
    ];
    debug_assert!(values.iter().all(|(template, _)| poste_config::ON_TEMPLATES.contains(template)));
    let filled = words
        .iter()
        .map(|word| values.iter().fold(word.clone(), |word, (template, value)| word.replace(template, value)));
    let filled: Vec<String> = filled.collect();
    let Some((program, arguments)) = filled.split_first() else {
        return Err("no program to run".to_owned().into());
    };
    let mut environment = Environment::default();
    environment
        .set("POSTE_IDEMPOTENCY_KEY", &post.key)
        .set("POSTE_RULE", post.rule.as_str())
        .set("POSTE_NUMBER", message.number.to_string())
        .set("POSTE_TYPE", message.kind.as_str())
        .set("POSTE_PRIORITY", message.priority.word())
        .set("POSTE_FROM", &message.from)
        .set("POSTE_TRUST", message.trust.word())
        .set("POSTE_HOME", context.office);
    let mut task = Task::new(program, arguments);
    task.environment(environment).folder(context.folder).stdin(post.data().to_string());
    finished(task.limit(context.timeout).grace(GRACE), context)
}

fn finished(task: &mut Task, context: AttemptContext<'_>) -> Result<(), Failure> {
    let mut look = |_| match context.stop.load(Ordering::Relaxed) {
        true => Watch::Stop,
        false => Watch::Continue,
    };
    let finished =
        task.watch_every(STOP_LOOK).run_watched(&mut look).map_err(|error| Failure::from(error.to_string()))?;
    match finished.passed() {
        true => Ok(()),
        false => Err(ended(&finished).into()),
    }
}

fn ended(finished: &Finished) -> String {
    let how = match (finished.stopped, finished.end) {
        (Some(Stopped::TimedOut), _) => "it timed out".to_owned(),
        (Some(_), _) => "it was stopped".to_owned(),
        (None, End::Exit(code)) => format!("it ended with exit code {code}"),
        (None, End::Signal(signal)) => format!("it was killed by signal {signal}"),
    };
    let said = plain(&String::from_utf8_lossy(&finished.stderr.bytes()));
    let said: String =
        said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().chars().take(200).collect();
    let said = scrubbed(Content { body: said.as_str().into(), ..Content::default() }).body.text().into_owned();
    if said.is_empty() { how } else { format!("{how}: {said}") }
}

/// Appends one line of JSON, without content, which would outlive its redaction here.
pub(super) fn log(post: &Post, context: AttemptContext<'_>) -> Result<(), Failure> {
    let message = &post.message;
    let line = json!({
        "rule": post.rule, "idempotency_key": post.key, "number": message.number, "at": message.at.to_string(),
        "type": message.kind, "priority": message.priority, "from": message.from, "to": message.to,
        "topic": message.topic,
    });
    let append = || -> io::Result<()> {
        let folder = Folder::open(context.office)?.make(FOLDER)?;
        let mut file = folder.append_to(format!("{}.jsonl", post.rule))?;
        // In one write, so that two processes never mix their lines.
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_data()
    };
    append().map_err(|error| Failure::from(format!("could not write its file: {error}")))
}
