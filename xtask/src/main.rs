//! The project's chores. `cargo xtask test` is the one test command: it installs what it needs and runs everything.

mod agents;
mod conformance;
mod npm;
mod python;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

const CARGO_DENY_VERSION: &str = "0.20.2";

/// A step that took longer says how long.
const WORTH_TELLING: Duration = Duration::from_secs(10);

const USAGE: &str = "cargo xtask COMMAND

  test     format, lints, licences, every test, the short torture, and conformance; installs what is missing
  torture [NAME…] [--short|--full] [--seed N] [--bite]
           real processes under real faults: nothing acknowledged is lost; --help lists the harnesses
  torture hostile
           hostile names, paths, encodings, sizes, JSON, TOML and fences, given to real processes
  torture fuzz [--seconds N] [--target NAME] [--seed N] [--list]
           inputs no honest program would give, to the fold, every parser and every printer of strangers' words
  agents [claude-code|codex|gemini|opencode|aider] [--short] [--dispatched] [--keep]
           the real programs, as they are published, asked by a scripted model: mail reaches them within a turn
  conformance
           the official suite of the protocol, the inspector and the Python client; part of test
  bench    measure this machine into docs/bench/; --short only shows that it runs, --only NAME,… takes some
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ran = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["test"] => test(),
        ["conformance"] => conformance::run(conformance::Tools::install_aside()),
        ["agents", options @ ..] => agents::run(options),
        // Nobody waits for a release build to be told what there is.
        ["torture", "--help"] => step(
            "harnesses",
            cargo().args(["run", "--quiet", "--locked", "--package", "poste-torture", "--", "--help"]),
        ),
        ["bench", "--help"] => {
            say(USAGE);
            Ok(())
        }
        ["bench", options @ ..] => bench(options),
        ["torture", "hostile"] => hostile(),
        ["torture", "fuzz", options @ ..] => fuzz(options),
        ["torture", rest @ ..] => torture(rest),
        _ => Err(USAGE.to_owned()),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

type Result<T = ()> = std::result::Result<T, String>;

fn test() -> Result {
    let deny = CargoDeny::install_aside()?;
    let protocol = conformance::Tools::install_aside();
    // Real repositories in the tests of worktrees; groff reads the manual pages; jq and pkill in the scripts of the
    // documentation; tmux is typed into.
    for (program, package) in [("git", "git"), ("groff", "groff"), ("jq", "jq"), ("pkill", "procps"), ("tmux", "tmux")]
    {
        ensure(program, package)?;
    }
    step("format", cargo().args(["fmt", "--all", "--check"]))?;
    let everything = ["--workspace", "--all-targets", "--features", "poste-testkit/sabotage", "--locked"];
    step("lints", cargo().arg("clippy").args(everything).args(["--", "-D", "warnings"]))?;
    core_has_no_async_runtime()?;
    torture(&["--short"])?;
    run_tests()?;
    conformance::run(protocol)?;
    let check = ["--log-level", "error", "check", "licenses", "bans", "sources"];
    step("licences, bans, sources", Command::new(deny.program()?).args(check))
}

/// Every program and every test in one go, for the steps of the test command to share: for a package alone cargo would
/// choose other features and build most dependencies once more.
fn build_everything() -> Result {
    step("building", cargo().args(["build", "--workspace", "--bins", "--tests", "--locked"]))
}

/// Builds the programs that are tortured, then the one that does it, and hands it the arguments.
fn torture(arguments: &[&str]) -> Result {
    ensure("strace", "strace")?;
    let is = |flag: &str| arguments.contains(&flag);
    // The short form shares its build with the tests; the full one is about numbers too.
    let (folder, profile): (_, &[&str]) = if is("--short") { ("debug", &[]) } else { ("release", &["--release"]) };
    if is("--short") {
        build_everything()?;
    } else {
        let programs = ["--package", "poste", "--package", "poste-testkit", "--package", "poste-torture"];
        step("building the programs", cargo().args(["build", "--locked"]).args(profile).args(programs))?;
    }
    if is("--bite") || is("--short") {
        // With the features that everything else was built with.
        let like: &[&str] = if is("--short") { &["--workspace"] } else { &["--package", "poste-testkit"] };
        let sabotaged = ["--features", "poste-testkit/sabotage", "--bin", "poste-sabotaged"];
        let build = [&["build", "--locked"], profile, like, &sabotaged].concat();
        step("building the sabotaged program", cargo().args(build))?;
    }
    step("torture", Command::new(target()?.join(folder).join("poste-torture")).args(arguments))
}

fn hostile() -> Result {
    step("hostile", cargo().args(["test", "--locked", "--package", "poste-testkit", "--test", "hostile"]))
}

fn fuzz(options: &[&str]) -> Result {
    let program = ["--locked", "--profile", "fuzzing", "--package", "poste-testkit", "--bin", "poste-fuzz", "--"];
    step("fuzz", cargo().args(["run", "--quiet"]).args(program).args(options))
}

/// Measures a release build. The offices it measures in are kept below `target` for the next run.
fn bench(options: &[&str]) -> Result {
    step(
        "release build",
        cargo().args(["build", "--release", "--locked", "--package", "poste", "--package", "poste-bench"]),
    )?;
    let (root, target) = (root()?, target()?);
    // The short form proves nothing worth keeping.
    let out = if options.contains(&"--short") { target.join("bench/short") } else { root.join("docs/bench") };
    let mut measure = Command::new(target.join("release/poste-bench"));
    measure.arg("--poste").arg(target.join("release/poste"));
    measure.arg("--cache").arg(target.join("bench")).arg("--out").arg(out);
    step("measuring", measure.args(options))
}

fn root() -> Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().map_err(|error| error.to_string())
}

/// Where cargo puts what it builds.
fn target() -> Result<PathBuf> {
    Ok(std::env::var_os("CARGO_TARGET_DIR").map_or(root()?.join("target"), PathBuf::from))
}

/// Runs every test and closes with one line that counts them all.
fn run_tests() -> Result {
    let started = Instant::now();
    announce("tests");
    let mut child = cargo()
        .args(["test", "--workspace", "--tests", "--locked", "--no-fail-fast"])
        .env("INSTA_UPDATE", "no")
        .env("RUST_TEST_THREADS", test_threads())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    let output = child.stdout.take().ok_or("cargo has no output")?;
    let (mut passed, mut failed) = (0, 0);
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| error.to_string())?;
        say(&line);
        if let Some(counts) = line.strip_prefix("test result: ") {
            passed += count(counts, " passed");
            failed += count(counts, " failed");
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    say(&format!("\ntests took {} s", started.elapsed().as_secs()));
    say(&format!("{passed} passed, {failed} failed"));
    if !status.success() {
        return Err("tests failed".to_owned());
    }
    if passed == 0 {
        return Err("no test ran".to_owned());
    }
    Ok(())
}

/// Most tests wait for processes they started: as many as there are cores would leave the cores idle.
fn test_threads() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (2 * cores).to_string()
}

/// The number before a word in `ok. 12 passed; 0 failed; …`.
fn count(counts: &str, word: &str) -> u64 {
    counts
        .split([';', '.'])
        .find_map(|part| part.trim().strip_suffix(word.trim()))
        .and_then(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

/// The core is plain threads and files: whoever embeds it brings their own runtime, or none.
fn core_has_no_async_runtime() -> Result {
    announce("the core has no async runtime");
    let tree = cargo()
        .args(["tree", "--locked", "--package", "poste-core", "--edges", "normal", "--prefix", "none"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| error.to_string())?;
    if !tree.status.success() {
        return Err("cargo tree failed".to_owned());
    }
    let tree = String::from_utf8_lossy(&tree.stdout).into_owned();
    let runtimes = ["tokio", "async-std", "smol", "async-executor"];
    match tree.lines().find(|line| runtimes.iter().any(|name| line.starts_with(&format!("{name} ")))) {
        Some(line) => Err(format!("poste-core depends on {line}")),
        None => Ok(()),
    }
}

/// The checker of licences, below `target`, so that it is this project's own and goes with it.
struct CargoDeny {
    program: PathBuf,
    /// Its build, when it was missing. It takes what the steps beside it leave of the machine.
    building: Option<Child>,
}

impl CargoDeny {
    fn install_aside() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools");
        let program = root.join("bin/cargo-deny");
        let version = Command::new(&program).arg("--version").stderr(Stdio::null()).output();
        if version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(CARGO_DENY_VERSION)) {
            return Ok(Self { program, building: None });
        }
        announce("installing cargo-deny beside the other steps (once)");
        // Not optimised: it is built in half the time and runs for seconds.
        let install =
            ["install", "--locked", "--debug", "--quiet", "cargo-deny", "--version", CARGO_DENY_VERSION, "--root"];
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let building = Command::new("nice").args(["-n", "19"]).arg(cargo).args(install).arg(&root).spawn();
        Ok(Self { program, building: Some(building.map_err(|error| format!("nice does not start: {error}"))?) })
    }

    fn program(mut self) -> Result<PathBuf> {
        if let Some(mut building) = self.building.take() {
            let status = building.wait().map_err(|error| error.to_string())?;
            if !status.success() {
                return Err(format!("cargo-deny could not be installed: {status}"));
            }
        }
        Ok(std::mem::take(&mut self.program))
    }
}

/// Whatever ends the run early must not leave a build behind.
impl Drop for CargoDeny {
    fn drop(&mut self) {
        if let Some(mut building) = self.building.take() {
            let _ = building.kill();
            let _ = building.wait();
        }
    }
}

/// A program the tests call. Where there is a package manager we know and may use, it is installed.
fn ensure(program: &str, package: &str) -> Result {
    let is_there = || {
        // Most say it to the first, tmux only to the second.
        ["--version", "-V"].iter().any(|flag| {
            let asked = Command::new(program).arg(flag).stdout(Stdio::null()).stderr(Stdio::null()).status();
            asked.is_ok_and(|status| status.success())
        })
    };
    if is_there() {
        return Ok(());
    }
    let update = step("apt-get update", Command::new("apt-get").args(["update", "-qq"]));
    let install = update.and_then(|()| {
        let arguments = ["install", "-y", "-qq", "--no-install-recommends", package];
        step(&format!("installing {package}"), Command::new("apt-get").args(arguments))
    });
    match install {
        Ok(()) if is_there() => Ok(()),
        _ => Err(format!("the tests need {program}, and it could not be installed: install {package} by hand")),
    }
}

fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    if *BUILT_FOR_THE_FIRST_TIME {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Preparing for the next build costs a fifth of the first one, and on a machine that tests once there is no next.
static BUILT_FOR_THE_FIRST_TIME: LazyLock<bool> = LazyLock::new(|| {
    let built =
        target().and_then(|target| fs::read_dir(target.join("debug/incremental")).map_err(|error| error.to_string()));
    !built.is_ok_and(|mut built| {
        built.any(|entry| entry.is_ok_and(|entry| entry.file_name().as_encoded_bytes().starts_with(b"poste")))
    })
});

fn step(name: &str, command: &mut Command) -> Result {
    announce(name);
    let started = Instant::now();
    match command.status() {
        Ok(status) if status.success() => {
            let took = started.elapsed();
            if took >= WORTH_TELLING {
                say(&format!("{name} took {} s", took.as_secs()));
            }
            Ok(())
        }
        Ok(status) => Err(format!("{name}: {status}")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

fn announce(name: &str) {
    say(&format!("\n== {name}"));
}

#[allow(clippy::print_stdout, reason = "a chore reports on stdout")]
fn say(text: &str) {
    println!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_cargo_test_are_read() {
        let line = "ok. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.28s";
        assert_eq!((count(line, " passed"), count(line, " failed")), (12, 3));
    }
}
