//! The command line of Poste: parse, call, print. Rules live in `poste-core`.

mod batch;
mod cli;
mod commands;
mod context;
mod draft;
mod error;
mod notes;
#[doc(hidden)]
pub mod probe;
mod switches;
mod ui;

use std::ffi::OsString;
use std::process::ExitCode;

use poste_core::store::schema::Schema;

use cli::Cli;
use context::Cx;
use error::CommandError;

/// Runs the program with the arguments and environment of this process.
///
/// The schema is a parameter so that tests can run a program that knows another one.
pub fn main(schema: Schema) -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = commands::hook::run_without_clap(&arguments, schema) {
        return code;
    }
    if let Some(code) = commands::run_agent::run_without_clap(&arguments, schema) {
        return code;
    }
    let cli = match Cli::read(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let code = cli::explain_usage(&error, arguments.iter().any(|argument| argument == "--json"));
            return ExitCode::from(commands::hook::non_blocking_exit_code(&arguments, code));
        }
    };
    let json = cli.global.json;
    let is_handed_over = matches!(cli.command, cli::Command::Ingest(_));
    let ran = Cx::new(cli.global, cli.command.name(), schema)
        .and_then(|mut cx| cli.command.run(&mut cx).map_err(|error| cx.with_stored(error)))
        .map_err(|error| if is_handed_over { error.retryable_by_sender() } else { error });
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the pipe closed it on purpose.
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            error.print(json);
            ExitCode::from(commands::hook::non_blocking_exit_code(&arguments, error.exit_code()))
        }
    }
}

type Result<T = (), E = CommandError> = std::result::Result<T, E>;
