//! `poste run-agent NAME [NUMBER…]`, the supervisor of one run, and `poste run-child`, the step between it and the program.
//! Dispatchers start them, not people: they are in no help.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use poste_core::fold::Claimed;
use poste_core::log::MessageNo;
use poste_core::office::Office;
use poste_core::store::schema::Schema;
use poste_core::text::{Name, RecordId, Session};
use poste_core::views::{self, MessageView};
use poste_dispatch::run::{self, Came, Desk, Errand, NOT_TAKEN, RUN, RUN_AGENT, RUN_CHILD, RunError, SUPERVISES};

use super::read;
use crate::Result;
use crate::cli::Global;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::escape;
use poste_verbs::gates;

/// It looks after a program meanwhile, so it waits for nobody that long.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Does what these arguments ask for, if they are of one of the two.
pub(crate) fn plainly(arguments: &[OsString], schema: Schema) -> Option<ExitCode> {
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
        Ok(Came::Ended(_)) => ExitCode::SUCCESS,
        Ok(Came::NotTaken(why)) => {
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
The supervisor of one run: takes the messages, runs what [agent.NAME] says, records the answer

Dispatchers start it, and it ends with its run: 0 when the end is recorded, however the program ended; 75 when somebody else
has the messages, or enough runs are under way; 1 when nothing could be started, and stderr says why.

Usage: poste run-agent NAME [NUMBER…]

Arguments:
  NAME      Whose program
  [NUMBER…] For these messages; without any, to look through its inbox

Examples:
  poste run-agent coder 12
  poste run-agent coder
";

/// If anybody listens.
fn say(command: &str, why: &str) {
    let _ = writeln!(io::stderr(), "poste {command}: {}", escape::line(why));
}

fn supervise(words: &[OsString], schema: Schema) -> Result<Came> {
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
        .map_err(|error| CommandError::new(Kind::Internal, format!("this program cannot be found: {error}")))?;
    // It is told apart from the run it may have been started in by its environment, which only a new process has from its start.
    let own = std::env::var(SUPERVISES).ok().filter(|_| std::env::var_os(RUN).is_none());
    let Some(own) = own else { return Err(again(&program, &agent, &messages, schema)?) };
    // Already the leader of a group, as when a shell started it: then it stays with that.
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
    let errand = Errand { agent, messages, run, program };
    run::supervise(&place, &errand, &Supervised { cx: &cx }).map_err(refused)
}

/// Starts this process anew, marked as a supervisor. Comes back only with what went wrong.
fn again(program: &std::path::Path, agent: &Name, messages: &[MessageNo], schema: Schema) -> Result<CommandError> {
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
            .hint("read what it would run, then trust it: poste trust --as NAME (somebody of kind human)"),
        RunError::NotConfigured(ref name) => CommandError::not_found(error.to_string())
            .hint(format!("say what to run: [agent.{name}] in poste.toml or .poste/local.toml")),
        RunError::Refused(_) | RunError::Folder(..) => CommandError::new(Kind::Refused, error.to_string()),
    }
}

struct Supervised<'a> {
    cx: &'a Cx,
}

impl Desk for Supervised<'_> {
    fn id(&self) -> RecordId {
        self.cx.new_id()
    }

    fn fenced(&self, message: &MessageView) -> String {
        read::fenced(self.cx, message)
    }

    fn refuses(
        &self,
        office: &Office,
        messages: &[MessageNo],
    ) -> std::result::Result<Option<String>, poste_core::Error> {
        let gates = poste_config::gates(office)?;
        for number in messages {
            let Some(message) = views::message(office.store(), *number)? else { continue };
            let blocked = gates.untrusted(&gates.of_message(&message));
            if !blocked.is_empty() {
                let error = gates::untrusted(&format!("message {number} was not taken"), &blocked);
                return Ok(Some(error.message));
            }
        }
        Ok(None)
    }

    fn gates(
        &self,
        office: &mut Office,
        _: &Name,
        _: &Session,
        claimed: Claimed,
    ) -> std::result::Result<Claimed, String> {
        let gates = poste_config::gates(office).map_err(|error| error.to_string())?;
        let gated = self
            .cx
            .with_desk(office, |desk| gates::of_claim(desk, &gates, claimed, None))
            .map_err(|error| error.message)?;
        Ok(gated.claimed)
    }
}
