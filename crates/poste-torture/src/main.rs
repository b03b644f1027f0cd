//! The proof that nothing is lost: real `poste` processes, real faults, and one check after each.
//!
//! `cargo xtask torture` builds the programs and starts this one. See `docs/torture.md`.

mod acts;
mod aftermath;
mod bite;
mod check;
mod desk;
mod disk;
mod harness;
mod letters;
mod record;
mod rig;
mod strace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use clap::Parser;

use harness::Harness;
use rig::{Form, Programs, Result, Rig, Tally};

/// Torture offices with real processes and real faults, and check that nothing acknowledged is lost
#[derive(Debug, Parser)]
#[command(name = "cargo xtask torture", after_help = list())]
struct Args {
    /// Only these harnesses, or with --bite only these sabotages
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// A sample that takes less than 90 seconds on two cores
    #[arg(long, conflicts_with = "full")]
    short: bool,
    /// Every point (the default), with programs built for speed
    #[arg(long)]
    full: bool,
    /// Decides which points a sample takes; printed with every report
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Sabotage the program in every named way, and fail unless each is noticed
    #[arg(long)]
    bite: bool,
}

fn list() -> String {
    let lines: Vec<String> =
        harness::ALL.iter().map(|harness| format!("  {:<12} {}", harness.name, harness.what)).collect();
    let bites: Vec<String> =
        bite::ALL.iter().map(|bite| format!("  {:<27} {} ({})", bite.sabotage, bite.what, bite.harness)).collect();
    format!("Harnesses:\n{}\n\nSabotages, and who must notice:\n{}", lines.join("\n"), bites.join("\n"))
}

const VIOLATIONS_SHOWN: usize = 30;

/// The result of one harness.
struct Report {
    name: &'static str,
    points: u64,
    images: u64,
    violations: Vec<String>,
    notes: Vec<String>,
    took: Duration,
}

fn main() -> ExitCode {
    poste_testkit::signals::ignored_by_nobody_started();
    match torture(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn torture(args: &Args) -> Result<bool> {
    let programs = folder_of_programs()?;
    let folders = Folders::make()?;
    harness::kill::strace_works(&folders.disk())?;
    let form = if args.short { Form::Short } else { Form::Full };
    let sound = Programs::sound(&programs);
    for program in [&sound.poste, &sound.next] {
        if mentions_sabotage(&program.path)? {
            return Err(format!("{} was built with the feature sabotage", program.path.display()));
        }
    }
    let rig = Rig {
        tortured: sound.clone(),
        sound,
        stops_early: false,
        form,
        seed: args.seed,
        memory: folders.memory(),
        disk: folders.disk(),
    };
    let started = Instant::now();
    if args.bite {
        return bite_all(&rig, &programs, &args.names);
    }
    let reports: Vec<Report> = choose(&args.names)?.into_iter().map(|harness| run_one(&rig, harness)).collect();
    let all_well = summary(&reports, started.elapsed(), args);
    // A short test of the harnesses themselves, if the sabotaged program was built.
    if args.short && args.names.is_empty() {
        return Ok(bite_all(&rig, &programs, &[])? && all_well);
    }
    Ok(all_well)
}

/// Sabotages the program in every chosen way. Returns whether each was noticed.
fn bite_all(rig: &Rig, programs: &Path, names: &[String]) -> Result<bool> {
    let sabotaged = programs.join("poste-sabotaged");
    if !mentions_sabotage(&sabotaged)? {
        return Err(format!("{} was built without the feature sabotage", sabotaged.display()));
    }
    if let Some(name) = names.iter().find(|name| bite::ALL.iter().all(|bite| bite.sabotage != name.as_str())) {
        return Err(format!("there is no sabotage {name}\n{}", list()));
    }
    let is_chosen = |bite: &&bite::Bite| match rig.form {
        _ if !names.is_empty() => names.iter().any(|name| name == bite.sabotage),
        Form::Short => bite.is_short,
        Form::Full => true,
    };
    let started = Instant::now();
    let mut missed = 0;
    say("sabotage                    noticed by     after        s");
    for bite in bite::ALL.iter().filter(is_chosen) {
        let bitten = bite::run(rig, programs, *bite);
        missed += usize::from(bitten.caught.is_none());
        say(&line_of_bite(&bitten));
    }
    let control = if rig.is_short() { Vec::new() } else { bite::control(rig, programs) };
    for violation in &control {
        say(&format!("without a sabotage: VIOLATION {violation}"));
    }
    let count = bite::ALL.iter().filter(is_chosen).count();
    say(&format!("bite: {} of {count} sabotages noticed, {:.1} s", count - missed, started.elapsed().as_secs_f64()));
    Ok(missed == 0 && control.is_empty())
}

fn line_of_bite(bitten: &bite::Bitten) -> String {
    let bite = bitten.bite;
    let seconds = bitten.took.as_secs_f64();
    match (&bitten.caught, &bitten.error) {
        (Some(violation), _) => {
            let violation: String = violation.chars().take(110).collect();
            format!("{:<27} {:<12} {:>7} {seconds:>8.1}  {violation}", bite.sabotage, bite.harness, bitten.after)
        }
        (None, Some(error)) => format!("{:<27} NOT NOTICED: {} could not run: {error}", bite.sabotage, bite.harness),
        (None, None) => format!("{:<27} NOT NOTICED by {} in {} points", bite.sabotage, bite.harness, bitten.after),
    }
}

/// Whether a program knows the variable that names a sabotage.
fn mentions_sabotage(program: &Path) -> Result<bool> {
    let bytes = std::fs::read(program).map_err(|error| desk::told(program, &error))?;
    // Joined here, so that this program does not contain the whole word itself.
    let word = ["POSTE", "SABOTAGE"].join("_");
    Ok(bytes.windows(word.len()).any(|window| window == word.as_bytes()))
}

fn choose(names: &[String]) -> Result<Vec<Harness>> {
    if names.is_empty() {
        return Ok(harness::ALL.to_vec());
    }
    names
        .iter()
        .map(|name| {
            let found = harness::ALL.iter().find(|harness| harness.name == name).copied();
            found.ok_or_else(|| format!("there is no harness {name}\n{}", list()))
        })
        .collect()
}

/// Runs one harness and reports on it. A harness that cannot run has proven nothing, so that is a violation too.
fn run_one(rig: &Rig, harness: Harness) -> Report {
    let started = Instant::now();
    let tally = Tally::new(harness.name, rig.stops_early);
    if let Err(error) = (harness.run)(rig, &tally) {
        tally.violation(format!("the harness could not run: {error}"));
    }
    if tally.points.load(Relaxed) + tally.images.load(Relaxed) == 0 {
        tally.violation("it looked at nothing".to_owned());
    }
    tally.finish();
    let report = Report {
        name: harness.name,
        points: tally.points.load(Relaxed),
        images: tally.images.load(Relaxed),
        violations: tally.violations(),
        notes: tally.notes(),
        took: started.elapsed(),
    };
    say(&line_of(&report));
    for note in &report.notes {
        say(&format!("{:12} {note}", ""));
    }
    for violation in report.violations.iter().take(VIOLATIONS_SHOWN) {
        say(&format!("{:12} VIOLATION {violation}", ""));
    }
    report
}

fn line_of(report: &Report) -> String {
    format!(
        "{:12} {:>6} points {:>6} images {:>3} violations {:>7.1} s",
        report.name,
        report.points,
        report.images,
        report.violations.len(),
        report.took.as_secs_f64()
    )
}

/// Prints the summary. Returns whether there were no violations.
fn summary(reports: &[Report], took: Duration, args: &Args) -> bool {
    let points: u64 = reports.iter().map(|report| report.points).sum();
    let images: u64 = reports.iter().map(|report| report.images).sum();
    let violations: usize = reports.iter().map(|report| report.violations.len()).sum();
    say(&format!(
        "torture: {points} points, {images} images, {violations} violations, {:.1} s, seed {}",
        took.as_secs_f64(),
        args.seed
    ));
    violations == 0
}

/// The folders of one run, removed when it ends.
struct Folders {
    disk: tempfile::TempDir,
    memory: Option<tempfile::TempDir>,
}

impl Folders {
    fn make() -> Result<Self> {
        let disk = tempfile::tempdir().map_err(|error| error.to_string())?;
        let memory = tempfile::Builder::new().prefix("poste-torture-").tempdir_in("/dev/shm").ok();
        Ok(Self { disk, memory })
    }

    fn disk(&self) -> PathBuf {
        self.disk.path().to_owned()
    }

    fn memory(&self) -> PathBuf {
        self.memory.as_ref().map_or_else(|| self.disk.path().join("memory"), |memory| memory.path().to_owned())
    }
}

fn folder_of_programs() -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    own.parent().map(Path::to_owned).ok_or_else(|| "this program is in no folder".to_owned())
}

#[allow(clippy::print_stdout, reason = "a chore reports on stdout")]
fn say(text: &str) {
    println!("{text}");
}
