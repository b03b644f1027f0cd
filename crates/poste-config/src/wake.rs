//! Reads `[wake]` of `poste.toml` and `.poste/local.toml`: how an agent is woken beside what its own session offers.

use toml::Spanned;
use toml::de::DeValue;

use crate::gates::{text, unknown_template, words};
use crate::keys;
use crate::read::Reader;
use poste_core::gates::Source;

/// The name of the section.
pub const WAKE: &str = "wake";
/// What a word of the command may hold: the agent, the most urgent message, and how many wait.
pub const WAKE_TEMPLATES: &[&str] = &["{agent}", "{number}", "{count}"];

const COMMAND: &str = "command";
const HOSTS: &str = "hosts";
const HOSTS_MAX: usize = 16;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WakeConfig {
    pub command: Option<WakeCommand>,
    /// Hosts beside this machine that may be asked to wake a session. Only a machine's own file names them.
    pub hosts: Vec<String>,
    /// There is a command in `poste.toml` that nobody trusts, so it is not run.
    pub untrusted: bool,
}

/// A command of the user's, in words: no shell reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WakeCommand {
    pub words: Vec<String>,
    pub line: usize,
}

pub(crate) fn read(
    reader: &mut Reader<'_>,
    name: &Spanned<std::borrow::Cow<'_, str>>,
    value: &DeValue<'_>,
    source: Source,
) {
    let Some(fields) = value.as_table() else {
        return reader.say(Some(name.span()), "wake is a section: write [wake]".to_owned());
    };
    for (name, value) in fields {
        let found = match (name.get_ref().as_ref(), source) {
            (COMMAND, _) => command(value.get_ref()).map(|words| {
                let line = reader.line(name.span().start);
                reader.wake.command = Some(WakeCommand { words, line });
            }),
            (HOSTS, Source::Machine) => hosts(value.get_ref()).map(|hosts| reader.wake.hosts = hosts),
            (HOSTS, Source::Office) => Err(format!("which hosts are asked belongs into .poste/{}", crate::LOCAL_FILE)),
            (other, _) => {
                let message = keys::unknown("key", other, [COMMAND, HOSTS].into_iter());
                reader.say(Some(name.span()), format!("[wake]: {message}"));
                continue;
            }
        };
        if let Err(why) = found {
            reader.say(Some(value.span()), format!("wake.{}: {why}", name.get_ref()));
        }
    }
}

fn command(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let words = words(value, "[\"notify-send\", \"{agent}\", \"{count} messages\"]")?;
    match words.iter().find_map(|word| unknown_template(word, WAKE_TEMPLATES)) {
        Some(why) => Err(why),
        None => Ok(words),
    }
}

fn hosts(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let DeValue::Array(items) = value else {
        return Err("it is a list of hosts, for example [\"10.0.0.7\"]".to_owned());
    };
    if items.len() > HOSTS_MAX {
        return Err(format!("more than {HOSTS_MAX} hosts"));
    }
    items.iter().map(|item| text(item.get_ref())).collect()
}
