//! Reads `[wake]` of `poste.toml` and `.poste/local.toml`: how an agent is woken besides the ways its session offers.

use toml::de::{DeTable, DeValue};

use crate::agents::count_u32;
use crate::gates::{command, text};
use crate::read::{Reader, Wrong};
use poste_core::gates::Source;
use poste_core::limits;

/// The name of the section.
pub const WAKE: &str = "wake";
/// Placeholders in the words of the command: the agent, its most urgent message, and the number of messages.
pub const WAKE_TEMPLATES: &[&str] = &["{agent}", "{number}", "{count}"];

const COMMAND: &str = "command";
const HOSTS: &str = "hosts";
const PER_MINUTE: &str = "per_minute";
const HOSTS_MAX: usize = 16;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WakeConfig {
    pub command: Option<WakeCommand>,
    /// Hosts besides this machine that may be asked to wake a session. Only a machine's own file names them.
    pub hosts: Vec<String>,
    /// How often an agent is woken per minute for mail that no person sent.
    pub per_minute: Option<u32>,
    /// There is a command in a file that is not trusted, so it is not run.
    pub untrusted: bool,
}

impl WakeConfig {
    pub fn per_minute(&self) -> u32 {
        self.per_minute.unwrap_or(limits::WAKES_PER_MINUTE_DEFAULT)
    }
}

/// The user's command as words, run without a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WakeCommand {
    pub words: Vec<String>,
    pub line: usize,
}

pub(crate) fn read(reader: &mut Reader<'_>, fields: &DeTable<'_>) {
    reader.each("[wake]", fields, &[COMMAND, HOSTS, PER_MINUTE], |reader, name, value| {
        match (name.get_ref().as_ref(), reader.source) {
            (COMMAND, _) => {
                let words = command(value, "[\"notify-send\", \"{agent}\", \"{count} messages\"]", WAKE_TEMPLATES)?;
                let line = reader.line(name.span().start);
                reader.file.wake.command = Some(WakeCommand { words, line });
            }
            (PER_MINUTE, _) => {
                reader.file.wake.per_minute = Some(count_u32(value, 1, limits::WAKES_PER_MINUTE_MAX)?);
            }
            (HOSTS, Source::Machine) => reader.file.wake.hosts = hosts(value)?,
            (HOSTS, Source::Office) => {
                return Err(format!("hosts belongs in .poste/{}", crate::LOCAL_FILE).into());
            }
            _ => return Err(Wrong::Unknown),
        }
        Ok(())
    });
}

fn hosts(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let DeValue::Array(items) = value else {
        return Err("must be a list of hosts, for example [\"10.0.0.7\"]".to_owned());
    };
    if items.len() > HOSTS_MAX {
        return Err(format!("more than {HOSTS_MAX} hosts"));
    }
    items.iter().map(|item| text(item.get_ref())).collect()
}
