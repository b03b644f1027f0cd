//! `cargo xtask agents`: the real agent programs, a scripted model, and the set-up that `poste setup` wrote.
//!
//! See `docs/proofs.md`.

mod dispatched;
mod programs;
mod rig;
mod scenarios;
mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use comfy_table::{Table, presets};

use programs::Program;
use rig::Rig;

type Result<T = (), E = String> = std::result::Result<T, E>;

/// Run the real agent programs against a scripted model, and check that mail reaches them
#[derive(Debug, Parser)]
#[command(name = "cargo xtask agents")]
struct Args {
    /// Only these programs
    #[arg(value_name = "PROGRAM")]
    programs: Vec<Program>,
    /// One turn of each program; no second session, no terminal
    #[arg(long)]
    short: bool,
    /// Only what a dispatcher starts
    #[arg(long)]
    dispatched: bool,
    /// Keep the folders of the runs, with every request to the model
    #[arg(long)]
    keep: bool,
    /// Where the programs are installed
    #[arg(long, value_name = "DIR")]
    tools: PathBuf,
    /// The poste that is set up; otherwise the one beside this program
    #[arg(long, value_name = "FILE")]
    poste: Option<PathBuf>,
}

/// One expectation and what was observed.
#[derive(Debug)]
pub struct Check {
    pub program: Program,
    pub what: &'static str,
    /// The evidence, or the reason why there is none.
    pub outcome: Result<String>,
    pub took: Duration,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<bool> {
    let poste = match &args.poste {
        Some(poste) => poste.clone(),
        None => std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("poste"),
    };
    let poste = poste.canonicalize().map_err(|error| format!("{}: {error}", poste.display()))?;
    let tools = args.tools.canonicalize().map_err(|error| format!("{}: {error}", args.tools.display()))?;
    let programs = if args.programs.is_empty() { Program::ALL.to_vec() } else { args.programs.clone() };
    let mut checks = Vec::new();
    for program in programs {
        say(&format!("\n== {} {}", program.title(), program.version()));
        let is_set_up = program.is_set_up() && !args.dispatched;
        if is_set_up {
            let rig = Rig::new(program, &poste, &tools, args.keep)?;
            checks.extend(played(rig, |rig| scenarios::all(rig, args.short, &mut tell)));
        }
        let rig = Rig::new(program, &poste, &tools, args.keep)?;
        checks.extend(played(rig, |rig| dispatched::all(rig, &mut tell)));
        if is_set_up && !args.short {
            let rig = Rig::new(program, &poste, &tools, args.keep)?;
            checks.extend(played(rig, |rig| scenarios::unnamed(rig, &mut tell)));
        }
    }
    say(&format!("\n{}", table(&checks)));
    let failed = checks.iter().filter(|check| check.outcome.is_err()).count();
    say(&format!("{} passed, {failed} failed", checks.len() - failed));
    Ok(failed == 0 && !checks.is_empty())
}

fn played(rig: Rig, play: impl FnOnce(&Rig) -> Vec<Check>) -> Vec<Check> {
    let checks = play(&rig);
    let failed = checks.iter().any(|check| check.outcome.is_err());
    if let Some(kept) = rig.close(failed) {
        say(&format!("kept: {}", kept.display()));
    }
    checks
}

fn tell(check: &Check) {
    match &check.outcome {
        Ok(evidence) => say(&format!("pass  {}\n      {evidence}", check.what)),
        Err(reason) => say(&format!("FAIL  {}\n      {}", check.what, reason.replace('\n', "\n      "))),
    }
}

fn table(checks: &[Check]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header(["program", "check", "result", "seconds"]);
    for check in checks {
        let result = if check.outcome.is_ok() { "pass" } else { "FAIL" };
        table.add_row([check.program.word(), check.what, result, &format!("{:.1}", check.took.as_secs_f64())]);
    }
    table
}

#[allow(clippy::print_stdout, reason = "a report on stdout")]
fn say(text: &str) {
    println!("{text}");
}
