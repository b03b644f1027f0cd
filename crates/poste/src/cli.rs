//! The arguments of every command.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args as _, ColorChoice, FromArgMatches as _, Parser, Subcommand};
use poste_core::log::{MessageNo, Position};
use poste_core::text::{Name, Session};
use poste_core::time::parse_duration_ms;

use crate::commands;
use crate::context::Cx;
use crate::error::{CommandError, Kind, exit_code};
use crate::ui::time::TimeStyle;

/// The post office for AI agents: durable, typed mail with claims and receipts.
///
/// No message is lost silently: each one is always in a named state that its sender can see, and every failure is
/// reported and recoverable. One binary, one file, no daemon.
#[derive(Debug, Parser)]
#[command(
    name = "poste",
    version,
    after_help = "Start here:\n  poste demo                              watch three agents review code\n  \
                  poste init                              create an office for this project\n  \
                  poste register coder --role builder     register an agent\n  \
                  poste send coder 'Fix the login' --as lead\n\n\
                  Agent: --as NAME, else POSTE_AGENT. Help: poste help COMMAND. Exit codes: docs/exit-codes.md",
    infer_subcommands = false,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Global {
    /// Print JSON; `poste schema COMMAND` prints its schema
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// Agent to act as; otherwise POSTE_AGENT
    #[arg(long = "as", value_name = "NAME", global = true, help_heading = "Global options")]
    pub speaker: Option<Name>,
    /// Session of the acting agent; otherwise POSTE_SESSION
    #[arg(long, value_name = "SESSION", global = true, help_heading = "Global options")]
    pub session: Option<Session>,
    /// Office folder; otherwise POSTE_HOME, else the nearest .poste from here upward
    #[arg(long, value_name = "DIR", global = true, help_heading = "Global options")]
    pub office: Option<PathBuf>,
    /// How to show times
    #[arg(long, value_enum, default_value_t, global = true, help_heading = "Global options")]
    pub time: TimeStyle,
    /// When to use colours: auto, always or never (NO_COLOR is honoured)
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true, help_heading = "Global options")]
    pub color: ColorChoice,
    /// How long to wait for the write lock; otherwise POSTE_LOCK_TIMEOUT, else 10s
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration,
        global = true,
        help_heading = "Global options"
    )]
    pub lock_timeout: Option<Duration>,
}

/// Commands that call a verb of another name, depending on their arguments.
pub(crate) const FORMS: &[(&str, &str)] = &[
    ("agree --list", "agreement"),
    ("approvals N", "approval"),
    ("dead retry", "retry"),
    ("dead show", "track"),
    ("dispatch --dry-run", "dispatch dry-run"),
    ("extend PATTERN", "extend paths"),
    ("ingest email", "ingest"),
    ("ingest stdin", "ingest"),
    ("ingest webhook", "ingest"),
    ("log replay --inbox", "log replay inbox"),
    ("log replay --message", "log replay message"),
    ("log why --id", "log why id"),
    ("log why --reservation", "log why reservation"),
    ("release PATTERN", "release paths"),
    ("spawn", "team add"),
    ("wait --replies", "wait replies"),
    ("workflow list --definitions", "workflow list definitions"),
];

/// A clap value parser for durations.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let ms = parse_duration_ms(text)?;
    Ok(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
}

/// A clap value parser for message numbers: `12` or `#12`.
pub(crate) fn number(text: &str) -> std::result::Result<MessageNo, String> {
    text.strip_prefix('#')
        .unwrap_or(text)
        .parse()
        .map(MessageNo)
        .map_err(|_| "expected a message number, for example 12".to_owned())
}

/// A clap value parser for log positions.
pub(crate) fn position(text: &str) -> std::result::Result<Position, String> {
    text.parse().map(Position).map_err(|_| "expected a log position, for example 120".to_owned())
}

macro_rules! commands {
    ($($(#[$attribute:meta])* $variant:ident => $module:ident),+ $(,)?) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command { $($(#[$attribute])* $variant(commands::$module::Args)),+ }

        impl Command {
            pub(crate) fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => stringify!($module)),+ }
            }

            /// The arguments of a command by its name: `send`, `handoff accept`.
            pub(crate) fn describe(words: &str) -> Option<clap::Command> {
                let mut words = words.split(' ');
                let name = words.next()?;
                let command = match name {
                    $(stringify!($module) =>
                        <commands::$module::Args as clap::Args>::augment_args(clap::Command::new(stringify!($module))),)+
                    _ => return None,
                };
                words.try_fold(command, |command, word| command.find_subcommand(word).cloned())
            }

            /// Adds every command. The arguments of a command are described only when it is used.
            fn by_name(command: clap::Command) -> clap::Command {
                command$(.subcommand(
                    clap::Command::new(stringify!($module)).defer(<commands::$module::Args as clap::Args>::augment_args),
                ))+
            }

            pub(crate) fn run(self, cx: &mut Cx) -> crate::Result {
                match self { $(Self::$variant(arguments) => commands::$module::run(cx, arguments)),+ }
            }
        }
    };
}

commands! {
    Demo => demo,
    Init => init,
    Register => register,
    Agents => agents,
    Whoami => whoami,
    Retire => retire,
    Send => send,
    Broadcast => broadcast,
    Publish => publish,
    Subscribe => subscribe,
    Unsubscribe => unsubscribe,
    Topics => topics,
    Inbox => inbox,
    Read => read,
    Claim => claim,
    Done => done,
    Fail => fail,
    Release => release,
    Extend => extend,
    Reply => reply,
    Ack => ack,
    Forward => forward,
    Retry => retry,
    Wait => wait,
    Tail => tail,
    Track => track,
    Wake => wake,
    Watch => watch,
    Ingest => ingest,
    Dispatch => dispatch,
    Context => context,
    Agree => agree,
    Handoff => handoff,
    Verify => verify,
    Reserve => reserve,
    Reservations => reservations,
    Guard => guard,
    Ask => ask,
    Approvals => approvals,
    Approve => approve,
    Deny => deny,
    Session => session,
    Workflow => workflow,
    Team => team,
    Spawn => spawn,
    Thread => thread,
    Threads => threads,
    Overdue => overdue,
    Dead => dead,
    Status => status,
    Stats => stats,
    Report => report,
    Search => search,
    Log => log,
    Archive => archive,
    Redact => redact,
    Types => types,
    Schema => schema,
    Clock => clock,
    Doctor => doctor,
    Snapshot => snapshot,
    Restore => restore,
    Config => config,
    Adopt => adopt,
    Trust => trust,
    Token => token,
    Setup => setup,
    Mcp => mcp,
    Hook => hook,
    Completions => completions,
    Man => man,
}

impl Cli {
    /// Parses a command line. Describing every argument of every command to clap takes longer than sending a message,
    /// so only the command in use is described. If that fails, all commands are described, so that clap can explain
    /// the error or print help.
    pub(crate) fn read(arguments: &[OsString]) -> Result<Self, clap::Error> {
        let arguments = &help_last(arguments);
        let named = Command::by_name(Global::augment_args(clap::Command::new("poste"))).disable_help_subcommand(true);
        let matches = named.try_get_matches_from(arguments);
        if let Ok(matches) = &matches
            && swallows_an_option(matches, arguments)
            && let Some(error) = mistyped(arguments)
        {
            return Err(error);
        }
        match matches.and_then(|mut matches| Self::from_arg_matches_mut(&mut matches)) {
            Ok(cli) => Ok(cli),
            Err(_) => Self::try_parse_from(arguments).map_err(|error| match error.use_stderr() {
                true => mistyped(arguments).unwrap_or(error),
                false => error, // help, or the version
            }),
        }
    }
}

/// A text may begin with a hyphen, as a Markdown list does. A single word with a leading hyphen that is not after `--`
/// is a mistyped option and must not be sent as text.
fn swallows_an_option(matches: &clap::ArgMatches, arguments: &[OsString]) -> bool {
    let Some((_, mut matches)) = matches.subcommand() else { return false };
    while let Some((_, deeper)) = matches.subcommand() {
        matches = deeper;
    }
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let is_option = |value: &OsStr| {
        let text = value.to_string_lossy();
        let is_word = text.len() > 1 && text.starts_with('-') && !text.contains(char::is_whitespace);
        is_word && arguments[..end].iter().any(|argument| argument == value)
    };
    ["subject", "body"].iter().any(|id| {
        let values = matches.try_get_raw(id).ok().flatten();
        values.is_some_and(|mut values| values.any(is_option))
    })
}

/// The error for a mistyped option, with clap's suggestion: texts may not begin with a hyphen here.
fn mistyped(arguments: &[OsString]) -> Option<clap::Error> {
    fn strict(command: clap::Command) -> clap::Command {
        command.mut_args(|argument| argument.allow_hyphen_values(false)).mut_subcommands(strict)
    }
    let error = strict(<Cli as clap::CommandFactory>::command()).try_get_matches_from(arguments).err()?;
    let is_word = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => !argument.contains(char::is_whitespace),
        _ => false,
    };
    (error.kind() == ErrorKind::UnknownArgument && is_word).then_some(error)
}

/// `poste help send` is `poste send --help`.
fn help_last(arguments: &[OsString]) -> Vec<OsString> {
    let mut arguments = arguments.to_vec();
    if arguments.get(1).is_some_and(|first| first == "help") {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    arguments
}

/// Prints clap's message and returns the exit code. Help and version go to stdout and are not errors.
pub(crate) fn explain_usage(error: &clap::Error, json: bool) -> u8 {
    if !error.use_stderr() {
        return match error.print() {
            Err(failed) if failed.kind() != std::io::ErrorKind::BrokenPipe => exit_code(Kind::Internal),
            _ => 0,
        };
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand && !json {
        let _ = error.print();
        return exit_code(Kind::Usage);
    }
    usage_error(error).print(json);
    exit_code(Kind::Usage)
}

/// clap's text repeats the arguments, so it is escaped like all output.
pub(crate) fn usage_error(error: &clap::Error) -> CommandError {
    let text = error.render().to_string();
    let usage = CommandError::usage(text.trim().trim_start_matches("error: "));
    let given = [ContextKind::InvalidArg, ContextKind::InvalidValue].into_iter().filter_map(|kind| error.get(kind));
    let time = given.into_iter().find_map(|value| match value {
        ContextValue::String(text) if duration(text).is_ok() => Some(text),
        _ => None,
    });
    // `--wait` takes a time in some commands; in others it is a flag, and `--timeout` limits the wait.
    match time.filter(|_| std::env::args_os().any(|argument| argument == "--wait")) {
        Some(time) => usage.hint(format!("to limit the wait: --wait --timeout {time}")),
        None => usage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example_in_its_help() {
        fn check(command: &clap::Command) {
            let is_root = command.get_name() == "poste";
            if !is_root && !command.is_hide_set() {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                let name = command.get_name();
                assert!(help.contains("Example") && help.contains("poste "), "{name} has no example");
                assert!(command.get_about().is_some(), "{name} does not say what it does");
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
