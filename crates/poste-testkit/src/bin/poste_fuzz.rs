//! `poste-fuzz`: feeds every parser, printer and the fold what no honest program would, for a bounded time.
//!
//! Each target runs in its own process, so that an input that kills or hangs it is found as well: every input is
//! written to a file before it is tried.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Parser;
use poste_testkit::fuzz::engine::{self, Report};
use poste_testkit::fuzz::{TARGETS, Target, target};

/// How long a target may run over its time, to finish an input and shrink its findings.
const GRACE: Duration = Duration::from_secs(120);

/// Feeds every parser, printer and the fold what no honest program would, for a bounded time
#[derive(Debug, Parser)]
struct Cli {
    /// Seconds for each target
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Only this target; may be repeated
    #[arg(long, value_name = "NAME")]
    target: Vec<String>,
    /// Seed; the same seed produces the same inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Maximum number of inputs for each target
    #[arg(long, value_name = "N")]
    inputs: Option<u64>,
    /// Folder for inputs that break something
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Try one input, from a file; needs --target
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Write the inputs each target starts from to DIR/NAME, for another fuzzer
    #[arg(long, value_name = "DIR")]
    seeds: Option<PathBuf>,
    /// List the targets and what they check
    #[arg(long)]
    list: bool,
    /// Run in a process of its own
    #[arg(long, hide = true)]
    inside: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            say(&format!("error: {why}"));
            ExitCode::from(2)
        }
    }
}

/// Returns how many inputs broke something.
fn run(cli: &Cli) -> Result<usize, String> {
    if cli.list {
        TARGETS.iter().for_each(|target| say(&format!("{:<10} {}", target.name, target.about)));
        return Ok(0);
    }
    let targets = chosen(cli)?;
    if let Some(folder) = &cli.seeds {
        write_seeds(&targets, folder)?;
        return Ok(0);
    }
    if let Some(file) = &cli.replay {
        return replay(&targets, file);
    }
    let out = cli.out.clone().unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/fuzz"));
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let out = out.canonicalize().map_err(|error| format!("{}: {error}", out.display()))?;
    let mut findings = 0;
    for target in targets {
        findings += if cli.inside { fuzz(cli, target, &out)? } else { supervise(cli, target, &out)? };
    }
    Ok(findings)
}

fn chosen(cli: &Cli) -> Result<Vec<&'static Target>, String> {
    if cli.target.is_empty() {
        return Ok(TARGETS.iter().collect());
    }
    let named = |name: &String| target(name).ok_or_else(|| format!("there is no target {name}; see --list"));
    cli.target.iter().map(named).collect()
}

fn write_seeds(targets: &[&Target], folder: &Path) -> Result<(), String> {
    for target in targets {
        let folder = folder.join(target.name);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder.join(format!("seed-{number:04}")), seed).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

fn replay(targets: &[&Target], file: &Path) -> Result<usize, String> {
    let [target] = targets else { return Err("say which target: --target NAME".to_owned()) };
    let input = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    // Not guarded, so that the panic's own message, and with RUST_BACKTRACE=1 its backtrace, are visible.
    match (target.check)(&input) {
        Ok(outcome) => say(&format!("holds: {outcome}")),
        Err(why) => {
            say(&format!("broken: {why}"));
            return Ok(1);
        }
    }
    Ok(0)
}

/// The file with the input that is being tried.
fn current(out: &Path, target: &Target) -> PathBuf {
    out.join(format!("{}.current", target.name))
}

fn supervise(cli: &Cli, target: &Target, out: &Path) -> Result<usize, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["--inside", "--target", target.name, "--seed", &cli.seed.to_string()]);
    command.args(["--seconds", &cli.seconds.to_string()]).arg("--out").arg(out);
    if let Some(inputs) = cli.inputs {
        command.args(["--inputs", &inputs.to_string()]);
    }
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let deadline = Instant::now() + Duration::from_secs(cli.seconds) + GRACE;
    let ended = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break Some(status),
            None if Instant::now() > deadline => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let why = match ended.map(|status| (status.code(), status)) {
        Some((Some(0), _)) => return Ok(0),
        Some((Some(1), _)) => return Ok(1), // it has reported itself
        Some((_, status)) => format!("the process ended with {status}"),
        None => {
            let _ = child.kill();
            let _ = child.wait();
            "an input did not end".to_owned()
        }
    };
    let input = fs::read(current(out, target)).map_err(|error| error.to_string())?;
    tell(target, out, &input, &why)?;
    Ok(1)
}

fn fuzz(cli: &Cli, target: &Target, out: &Path) -> Result<usize, String> {
    // The report mentions each panic once.
    std::panic::set_hook(Box::new(|_| ()));
    let path = current(out, target);
    let file = File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let started = Instant::now();
    let time = Duration::from_secs(cli.seconds);
    let report = engine::run(target, cli.seed, |inputs, input| {
        let _ = file.set_len(0).and_then(|()| file.write_all_at(input, 0));
        started.elapsed() < time && cli.inputs.is_none_or(|max| inputs < max)
    });
    let _ = fs::remove_file(&path);
    say(&summary(target, &report, started.elapsed()));
    for finding in &report.findings {
        tell(target, out, &finding.input, &finding.why)?;
    }
    Ok(report.findings.len())
}

fn summary(target: &Target, report: &Report, took: Duration) -> String {
    let rate = report.inputs as f64 / took.as_secs_f64().max(0.001);
    format!(
        "{:<10} {:>9} inputs  {:>4} s  {:>7.0}/s  {:>5} outcomes  slowest {:>4} ms  {} findings",
        target.name,
        report.inputs,
        took.as_secs(),
        rate,
        report.outcomes.len(),
        report.slowest.as_millis(),
        report.findings.len()
    )
}

/// Keeps an input that breaks something and prints how to replay it.
fn tell(target: &Target, out: &Path, input: &[u8], why: &str) -> Result<(), String> {
    let digest = poste_core::Digest::of(input).short();
    let path = out.join(format!("{}-{digest}", target.name));
    fs::write(&path, input).map_err(|error| format!("{}: {error}", path.display()))?;
    say(&format!("  BROKEN {why}"));
    say(&format!("  input  {:?}", String::from_utf8_lossy(&input[..input.len().min(400)])));
    say(&format!(
        "  again  cargo run -p poste-testkit --bin poste-fuzz -- --target {} --replay {}",
        target.name,
        path.display()
    ));
    Ok(())
}

#[allow(clippy::print_stdout, reason = "a chore reports on stdout")]
fn say(text: &str) {
    println!("{text}");
}
