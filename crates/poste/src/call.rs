//! One command, run for another part of this process: the same arguments, rules and words as on the command line, but nothing
//! of it reaches stdout or stderr.

use std::ffi::OsString;
use std::path::PathBuf;

use poste_core::office::Office;
use poste_core::store::schema::Schema;
use poste_core::text::{Name, Session};
use serde_json::Value;

use crate::Result;
use crate::cli::{self, Cli, Global};
use crate::context::{Cx, Mark};
use crate::error::CommandError;

/// On whose behalf commands are run. It is the process's own, so no argument may name another.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub schema: Schema,
    pub speaker: Option<Name>,
    pub session: Option<Session>,
    pub office: Option<PathBuf>,
}

/// What became of it. A command may answer and fail, for example when not everybody answered in time.
#[derive(Debug, Default)]
pub(crate) struct Called {
    /// As `--json` has it.
    pub answer: Option<Value>,
    /// As it stands on stdout where there is no terminal.
    pub text: String,
    /// All of the text stands in one fence.
    pub is_fenced: bool,
    /// What it says beside its answer: the next step.
    pub talk: Vec<String>,
    pub warnings: Vec<String>,
    /// To be marked once the answer was handed on.
    pub marks: Vec<Mark>,
    pub error: Option<CommandError>,
}

/// Runs `poste ARGUMENTS`.
pub(crate) fn call<A: Into<OsString>>(caller: &Caller, arguments: impl IntoIterator<Item = A>) -> Called {
    call_with(caller, None, arguments)
}

/// As [`call`], on an office that is open already.
pub(crate) fn call_with<A: Into<OsString>>(
    caller: &Caller,
    office: Option<Office>,
    arguments: impl IntoIterator<Item = A>,
) -> Called {
    let arguments: Vec<OsString> =
        std::iter::once("poste".into()).chain(arguments.into_iter().map(Into::into)).collect();
    match Cli::read(&arguments) {
        Ok(cli) => match on_behalf(caller, cli) {
            Ok(cli) => run(caller, office, cli),
            Err(error) => Called { error: Some(error), ..Called::default() },
        },
        Err(help) if !help.use_stderr() => Called { text: help.render().to_string(), ..Called::default() },
        Err(error) => Called { error: Some(cli::usage_error(&error)), ..Called::default() },
    }
}

impl Caller {
    pub(crate) fn global(&self, given: Global) -> Global {
        Global { speaker: self.speaker.clone(), session: self.session.clone(), office: self.office.clone(), ..given }
    }
}

fn on_behalf(caller: &Caller, cli: Cli) -> Result<Cli> {
    let Global { speaker, session, office, .. } = &cli.global;
    if speaker.is_some() || session.is_some() || office.is_some() {
        return Err(CommandError::usage("who speaks, in which session and which office is not chosen here")
            .hint("leave --as, --session and --office out"));
    }
    Ok(Cli { global: caller.global(cli.global), command: cli.command })
}

fn run(caller: &Caller, office: Option<Office>, cli: Cli) -> Called {
    let mut cx = match Cx::new(cli.global, cli.command.name(), caller.schema) {
        Ok(cx) => cx,
        Err(error) => return Called { error: Some(error), ..Called::default() },
    };
    let kept = cx.keep();
    if let Some(office) = office {
        cx.lend(office);
    }
    let error = cli.command.run(&mut cx).err().map(|error| cx.unshown(error));
    let kept = kept.take();
    Called {
        answer: kept.answer,
        text: String::from_utf8_lossy(&kept.data).into_owned(),
        is_fenced: kept.is_fenced,
        talk: kept.talk,
        warnings: kept.warnings,
        marks: cx.into_marks(),
        error,
    }
}
