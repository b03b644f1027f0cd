//! `poste run-agent NAME [NUMBER…]`, the supervisor of one run, and `poste run-child`, the step between it and the
//! program. Dispatchers start them, not people, so no help lists them.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use poste_core::log::MessageNo;
use poste_core::store::schema::Schema;
use poste_core::text::{Name, Session};
use poste_dispatch::run::{self, NOT_TAKEN, RUN, RUN_AGENT, RUN_CHILD, RunError, RunRequest, RunResult, SUPERVISES};

use crate::Result;
use crate::cli::Global;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::escape;

/// A supervisor must watch its program, so it does not wait long for the write lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs one of the two commands if the arguments name it.
pub(crate) fn run_without_clap(arguments: &[OsString], schema: Schema) -> Option<ExitCode> {
    let command = arguments.get(1)?.to_str()?;
    if command == RUN_CHILD {
        let (code, why) = poste_run::become_tied(arguments.iter().skip(2).cloned());
        say(RUN_CHILD, &why);
        return Some(ExitCode::from(code));
    }
    if command != RUN_AGENT {
        return None;
    }
    if arguments.iter().skip(2).any(|word| word == "--help" || word == "-h") {
        let _ = io::stdout().write_all(HELP.as_bytes());
        return Some(ExitCode::SUCCESS);
    }
    Some(match supervise(&arguments[2..], schema) {
        Ok(RunResult::Ended(_)) => ExitCode::SUCCESS,
        Ok(RunResult::NotTaken(why)) => {
            say(RUN_AGENT, &why);
            ExitCode::from(NOT_TAKEN)
        }
        Err(error) => {
            error.print(false);
            ExitCode::FAILURE
        }
    })
}

const HELP: &str = "\
Supervise one run of an agent for its mail

Claims the messages, runs the program of [agent.NAME] and records the answer. Dispatchers start it, and it ends with its
run. Exit codes: 0 when the outcome is recorded, however the program ended; 75 when another supervisor has the messages,
or enough runs are active; 1 when nothing could be started, with the reason on stderr.

Usage: poste run-agent NAME [NUMBER…]

Arguments:
  NAME      Agent to run
  [NUMBER…] Messages to run it for; otherwise it looks through its inbox

Examples:
  poste run-agent coder 12
  poste run-agent coder
";

/// Ignores errors: stderr may be closed.
fn say(command: &str, why: &str) {
    let _ = writeln!(io::stderr(), "poste {command}: {}", escape::line(why));
}

fn supervise(words: &[OsString], schema: Schema) -> Result<RunResult> {
    let usage = || CommandError::usage(format!("poste {RUN_AGENT} NAME [NUMBER…]"));
    let words: Vec<&str> = words.iter().map(|word| word.to_str()).collect::<Option<_>>().ok_or_else(usage)?;
    let (name, numbers) = words.split_first().ok_or_else(usage)?;
    let agent: Name = name.parse()?;
    let messages: Vec<MessageNo> = numbers
        .iter()
        .map(|word| crate::cli::number(word))
        .collect::<std::result::Result<_, _>>()
        .map_err(CommandError::usage)?;
    let program = std::env::current_exe()
        .map_err(|error| CommandError::new(Kind::Internal, format!("could not find this executable: {error}")))?;
    // A sweep tells a supervisor from the run it may have been started in by the environment of the process, as it was
    // when the process started. So an untagged process executes itself again.
    let own = std::env::var(SUPERVISES).ok().filter(|_| std::env::var_os(RUN).is_none());
    let Some(own) = own else { return Err(re_exec(&program, &agent, &messages, schema)?) };
    // Fails if it already leads a process group, as when a shell started it; then it stays in that session.
    let _ = rustix::process::setsid();
    let run: Session = own.parse()?;
    let global = Global {
        speaker: Some(agent.clone()),
        session: Some(run.clone()),
        lock_timeout: Some(LOCK_TIMEOUT),
        ..Global::default()
    };
    let cx = Cx::new(global, "run-agent", schema)?;
    let place = cx.place()?;
    let request = RunRequest { agent, messages, run, program };
    run::supervise(&place, &request, cx.host()).map_err(refused)
}

/// Executes this program again, tagged as a supervisor. Returns only if that failed.
fn re_exec(program: &std::path::Path, agent: &Name, messages: &[MessageNo], schema: Schema) -> Result<CommandError> {
    let office: PathBuf = Cx::new(Global::default(), "run-agent", schema)?.place()?.path;
    let office = office.canonicalize().unwrap_or(office);
    let failed = run::tagged(program, &office, agent, messages).exec();
    Ok(CommandError::new(Kind::Internal, format!("{}: {failed}", program.display())))
}

fn refused(error: RunError) -> CommandError {
    match error {
        RunError::Office(error) => error.into(),
        RunError::Untrusted(_) => CommandError::new(Kind::Refused, error.to_string())
            .code("untrusted")
            .hint("a person reviews it and trusts it: poste trust"),
        RunError::NotConfigured(ref name) => CommandError::not_found(error.to_string())
            .hint(format!("configure it: [agent.{name}] in poste.toml or .poste/local.toml")),
        RunError::Refused(_) | RunError::Folder(..) => CommandError::new(Kind::Refused, error.to_string()),
    }
}
