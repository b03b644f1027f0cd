//! Reads `[wake]` of `poste.toml` and `.poste/local.toml`: how an agent is woken beside what its own session offers.

use toml::de::{DeTable, DeValue};

use crate::gates::{command, text};
use crate::read::{Reader, Wrong};
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

pub(crate) fn read(reader: &mut Reader<'_>, fields: &DeTable<'_>) {
    reader.each("[wake]", fields, &[COMMAND, HOSTS], |reader, name, value| {
        match (name.get_ref().as_ref(), reader.source) {
            (COMMAND, _) => {
                let words = command(value, "[\"notify-send\", \"{agent}\", \"{count} messages\"]", WAKE_TEMPLATES)?;
                let line = reader.line(name.span().start);
                reader.file.wake.command = Some(WakeCommand { words, line });
            }
            (HOSTS, Source::Machine) => reader.file.wake.hosts = hosts(value)?,
            (HOSTS, Source::Office) => {
                return Err(format!("which hosts are asked belongs into .poste/{}", crate::LOCAL_FILE).into());
            }
            _ => return Err(Wrong::Unknown),
        }
        Ok(())
    });
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
