use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use poste_connect::hook::{self, Moment, Streams, WAKE};
use poste_connect::station::Station;
use poste_core::store::schema::Schema;
use poste_verbs::program::Program;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::cli::Global;
use crate::context::{self, Cx};
use crate::error::{Kind, exit_code};

/// Handle a hook event of an agent program
///
/// Agent programs run it after `poste setup`. It reads the program's JSON from stdin and prints JSON for the program:
/// new mail that is urgent enough, or nothing. `stop` keeps a session from stopping while it holds work. `wait` waits
/// in the background and exits with 2 to wake an idle session. No other hook ever fails.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste hook session-start --program claude-code < event.json\n  \
                        poste hook tool --program gemini < event.json\n  \
                        echo '{\"session_id\":\"s1\"}' | poste hook stop --program codex")]
pub(crate) struct Args {
    /// Event: session-start, prompt, tool, stop, session-end or wait
    #[arg(value_name = "EVENT")]
    moment: Moment,
    /// Agent program: claude-code, codex, gemini, opencode or cursor
    #[arg(long)]
    program: Program,
}

/// JSON in the format of the agent program.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(transparent)]
pub(crate) struct HookAnswer(
    #[allow(dead_code, reason = "only its schema is asked for")] serde_json::Map<String, serde_json::Value>,
);

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let station = cx.station().clone();
    let code = attend(args.moment, args.program, station.office.clone(), Ok(station));
    if code == WAKE {
        #[expect(clippy::exit, reason = "the exit code is an answer, not an error to report")]
        std::process::exit(i32::from(code));
    }
    Ok(())
}

/// Runs the command line that `poste setup` writes without clap, as describing the arguments to clap takes longer than
/// finding that there is no mail. `None` for any other command line.
pub(crate) fn run_without_clap(arguments: &[OsString], schema: Schema) -> Option<ExitCode> {
    let words: Vec<&str> = arguments.iter().skip(1).map(|word| word.to_str()).collect::<Option<_>>()?;
    let ["hook", moment, "--program", program] = words.as_slice() else { return None };
    let (moment, program) = (moment.parse().ok()?, program.parse().ok()?);
    let office = std::env::var_os("POSTE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let global = Global { office: office.clone(), ..Global::default() };
    Some(ExitCode::from(attend(moment, program, office, context::station(&global, "hook", schema))))
}

/// The exit code of a command. Agent programs take 2 from a hook as "block this", so a usage error of a hook must end
/// with another code.
pub(crate) fn non_blocking_exit_code(arguments: &[OsString], code: u8) -> u8 {
    let is_hook = arguments.get(1).is_some_and(|word| word == "hook");
    if is_hook && code == exit_code(Kind::Usage) { exit_code(Kind::Internal) } else { code }
}

fn attend(moment: Moment, program: Program, office: Option<PathBuf>, station: poste_verbs::Result<Station>) -> u8 {
    let streams = Streams { out: Box::new(io::stdout()), err: Box::new(io::stderr()) };
    hook::attend(moment, program, office, station, io::stdin().lock(), streams)
}
