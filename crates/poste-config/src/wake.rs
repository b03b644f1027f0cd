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

#[cfg(test)]
mod tests {
    use crate::{ConfigFile, LocalFile, commands, read_local};

    #[test]
    fn a_command_and_hosts_are_read() {
        let text = "[wake]\ncommand = [\"notify\", \"{agent}\", \"#{number}\"]\nhosts = [\"10.0.0.7\"]\n";
        let (LocalFile { wake, .. }, problems) = read_local(text);
        assert_eq!(problems, []);
        assert_eq!(wake.hosts, ["10.0.0.7"]);
        assert_eq!(wake.command.expect("a command").words, ["notify", "{agent}", "#{number}"]);
    }

    #[test]
    fn a_command_that_comes_with_a_repository_is_one_to_be_trusted() {
        let (file, problems) = ConfigFile::check("[wake]\ncommand = [\"notify\", \"{count}\"]\n");
        assert_eq!(problems, []);
        let found: Vec<(String, usize)> = commands(&file).into_iter().map(|found| (found.key, found.line)).collect();
        assert_eq!(found, [("wake.command".to_owned(), 2)]);
        assert_eq!(file.policy, crate::FilePolicy::default(), "it is no policy");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |text: &str| ConfigFile::check(text).1.first().map(ToString::to_string).unwrap_or_default();
        assert!(wrong("[wake]\ncomand = []\n").contains("did you mean command?"));
        assert!(wrong("[wake]\ncommand = \"notify\"\n").contains("list of words"));
        assert!(wrong("[wake]\ncommand = [\"notify\", \"{agnt}\"]\n").contains("{agent}"));
        assert!(wrong("[wake]\nhosts = [\"x\"]\n").contains("local.toml"));
        assert!(wrong("wake = 3\n").contains("write [wake]"));
        assert!(wrong("[wak]\n").contains("did you mean wake?"));
    }
}
