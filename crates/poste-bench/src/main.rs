//! Measures Poste against the machine it runs on: one run, one machine, in turns; ratios first, absolute numbers next
//! to them.
//!
//! `cargo xtask bench` builds everything for release and runs this. The short form only shows that it works.

mod children;
mod machine;
mod measures;
mod office;
mod plot;
mod report;
mod sample;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use poste_core::store::clock::{Clock, SystemClock};

use machine::Machine;
use report::Report;

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

const USAGE: &str = "poste-bench --poste PROGRAM --cache FOLDER --out FOLDER [--short] [--only NAME,…]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ran = children::run(&arguments).unwrap_or_else(|| Bench::from_arguments(&arguments).and_then(|it| it.run()));
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// How to measure.
#[derive(Debug)]
pub(crate) struct Bench {
    poste: PathBuf,
    /// Where offices are created: on the disk that is measured.
    cache: PathBuf,
    out: PathBuf,
    short: bool,
    only: Vec<String>,
}

impl Bench {
    fn from_arguments(arguments: &[String]) -> Result<Self> {
        let mut bench =
            Self { poste: PathBuf::new(), cache: PathBuf::new(), out: PathBuf::new(), short: false, only: Vec::new() };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"));
            match word.as_str() {
                "--poste" => bench.poste = value()?.into(),
                "--cache" => bench.cache = value()?.into(),
                "--out" => bench.out = value()?.into(),
                "--only" => bench.only = value()?.split(',').map(str::to_owned).collect(),
                "--short" => bench.short = true,
                "--full" => bench.short = false,
                other => return Err(format!("{other} is not known\n{USAGE}").into()),
            }
        }
        if [&bench.poste, &bench.cache, &bench.out].iter().any(|path| path.as_os_str().is_empty()) {
            return Err(USAGE.into());
        }
        if let Some(unknown) = bench.only.iter().find(|name| !measures::ALL.iter().any(|(known, _)| known == name)) {
            let known: Vec<&str> = measures::ALL.iter().map(|(name, _)| *name).collect();
            return Err(format!("there is no measure {unknown}; there are {}", known.join(", ")).into());
        }
        Ok(bench)
    }

    fn run(&self) -> Result {
        std::fs::create_dir_all(&self.cache)?;
        let folder = tempfile::Builder::new().prefix("run-").tempdir_in(&self.cache)?;
        let mut report = Report {
            date: SystemClock.wall().to_string().chars().take(10).collect(),
            form: if self.short { "short" } else { "full" },
            machine: Machine::look(folder.path())?,
            lines: Vec::new(),
            left_out: Vec::new(),
            points: Vec::new(),
        };
        for (name, measure) in measures::ALL {
            if self.only.is_empty() || self.only.iter().any(|wanted| wanted == name) {
                say(&format!("{name}:"));
                let own = folder.path().join(name);
                std::fs::create_dir_all(&own)?;
                measure(self, &own, &mut report)?;
            }
        }
        report.machine.load_after = machine::load();
        let page = report.write(&self.out)?;
        say(&format!("written: {}", page.display()));
        Ok(())
    }

    /// As many rounds as a steady number needs, or just enough to see that it works.
    pub(crate) fn rounds(&self, full: usize) -> usize {
        if self.short { (full / 50).clamp(2, 10) } else { full }
    }

    /// The program under measurement, in this office.
    pub(crate) fn poste(&self, office: &Path, speaker: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.poste);
        command
            .args(arguments)
            .env_clear()
            .env("XDG_STATE_HOME", poste_testkit::state::home())
            .env("POSTE_HOME", office)
            .env("POSTE_AGENT", speaker)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

/// Runs a command and expects success.
pub(crate) fn succeed(command: &mut Command) -> Result {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}

#[allow(clippy::print_stdout, reason = "a benchmark reports on stdout")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

#[allow(clippy::print_stderr, reason = "errors go to stderr")]
fn complain(text: &str) {
    eprintln!("{text}");
}
