//! The project's chores. `cargo xtask test` is the one test command: it installs what it needs and runs everything.

mod agents;
mod conformance;
mod npm;
mod python;
mod sbom;
mod suite;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

const CARGO_DENY_VERSION: &str = "0.20.2";

/// A step that took longer than this reports its time.
const WORTH_TELLING: Duration = Duration::from_secs(10);

const USAGE: &str = "cargo xtask COMMAND

  test     format, lints, licences, every test, the short torture, and conformance; installs what is missing
  torture [NAME…] [--short|--full] [--seed N] [--bite]
           real processes under real faults: nothing acknowledged is lost; --help lists the harnesses
  torture hostile
           hostile names, paths, encodings, sizes, JSON, TOML, fences, command lines, frames, hook inputs, mails and
           signatures, given to real processes
  torture fuzz [--seconds N] [--target NAME] [--seed N] [--list]
           inputs no honest program would give, to the fold, every parser and every printer of strangers' words
  agents [claude-code|codex|gemini|opencode|aider] [--short] [--dispatched] [--keep]
           the real programs, as they are published, asked by a scripted model: mail reaches them within a turn
  conformance
           the official suite of the protocol, the inspector and the Python client; part of test
  sbom     the bill of materials of the program, into target/dist/poste.cdx.json
  dist     the program as it is handed out, checked, with its bill of materials, into target/dist/
  bench    measure this machine into docs/bench/; --short only shows that it runs, --only NAME,… takes some
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ran = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["test"] => test(),
        ["conformance"] => conformance::run(conformance::Tools::install_aside()),
        ["agents", options @ ..] => agents::run(options),
        // Listing the harnesses should not need a release build.
        ["torture", "--help"] => step(
            "harnesses",
            cargo().args(["run", "--quiet", "--locked", "--package", "poste-torture", "--", "--help"]),
        ),
        ["bench", "--help"] => {
            say(USAGE);
            Ok(())
        }
        ["bench", options @ ..] => bench(options),
        ["sbom"] => sbom::write().map(drop),
        ["dist"] => dist(),
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
    // The worktree tests use real git repositories, groff reads the manual pages, the scripts of the documentation use
    // jq and pkill, and some tests type into tmux.
    for (program, package) in [("git", "git"), ("groff", "groff"), ("jq", "jq"), ("pkill", "procps"), ("tmux", "tmux")]
    {
        ensure(program, package)?;
    }
    step("format", cargo().args(["fmt", "--all", "--check"]))?;
    build_everything()?;
    core_has_no_async_runtime()?;
    // Asked for first, because cargo holds its lock while it builds.
    let tests = suite::built()?;
    // It shares only the dependencies with the tests, and is needed after them.
    let sabotaged = Aside::start("building the sabotaged program", linted().arg("--quiet").args(SABOTAGED))?;
    suite::run(tests)?;
    sabotaged.finish()?;
    torture(&["--short"])?;
    conformance::run(protocol)?;
    without_test_switches()?;
    let deny = deny.program()?;
    let check = ["--log-level", "error", "check", "licenses", "bans", "sources"];
    step("licences, bans, sources", Command::new(&deny).args(check))?;
    advisories(&deny)
}

/// Checks the dependencies for known vulnerabilities, with a database that has to be fetched. A machine without it is not
/// an error, but it says so.
fn advisories(deny: &Path) -> Result {
    const FETCH_MAX: Duration = Duration::from_secs(60);
    announce("advisories");
    let fetched =
        bounded(Command::new(deny).args(["fetch", "db"]), FETCH_MAX, &target()?.join("tools/advisories.log"))?;
    if !fetched.success {
        let why = fetched.text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason was given").trim();
        say(&format!("SKIPPED: advisories were not checked, since their database could not be fetched: {why}"));
        return Ok(());
    }
    let check = ["--log-level", "error", "check", "--disable-fetch", "advisories"];
    step("checking advisories", Command::new(deny).args(check))
}

/// The program as it is handed out.
fn dist() -> Result {
    step(
        "building with the dist profile",
        cargo().args(["build", "--profile", "dist", "--locked", "--package", "poste"]),
    )?;
    has_no_test_switches(&target()?.join("dist/poste"))?;
    sbom::write().map(drop)
}

/// Builds every program and test at once, for all steps of the test command. For a single package, cargo would choose
/// other features and build most dependencies again.
fn build_everything() -> Result {
    step("lints and build", linted().args(["build", "--workspace", "--all-targets", "--locked"]))
}

/// The program with named faults, with the features that everything else was built with.
const SABOTAGED: [&str; 7] =
    ["build", "--locked", "--workspace", "--features", "poste-testkit/sabotage", "--bin", "poste-sabotaged"];

/// Builds the programs that are tortured and the one that tortures them, and passes the arguments on.
fn torture(arguments: &[&str]) -> Result {
    ensure("strace", "strace")?;
    let is = |flag: &str| arguments.contains(&flag);
    // The short form shares its build with the tests.
    let folder = if is("--short") { "debug" } else { "torture" };
    if is("--short") {
        build_everything()?;
        step("building the sabotaged program", linted().args(SABOTAGED))?;
    } else {
        let build = ["build", "--locked", "--profile", "torture"];
        let programs = ["--package", "poste", "--package", "poste-testkit", "--package", "poste-torture"];
        step("building the programs", cargo().args(build).args(programs))?;
        if is("--bite") {
            let sabotaged = ["--package", "poste-testkit", "--features", "poste-testkit/sabotage"];
            let program = ["--bin", "poste-sabotaged"];
            step("building the sabotaged program", cargo().args(build).args(sabotaged).args(program))?;
        }
    }
    let mut torture = Command::new(target()?.join(folder).join("poste-torture"));
    step("torture", under_test(torture.args(arguments)))
}

/// Everything that hostile input and attacks once did, and damaged offices.
fn hostile() -> Result {
    let test = |package, name| {
        let mut test = cargo();
        test.args(["test", "--locked", "--package", package, "--test", name]);
        test
    };
    // The tests take a sample of what is generated.
    step("hostile input", test("poste-testkit", "hostile").env("HOSTILE_ALL", "1"))?;
    step("attacks", &mut test("poste", "attacks"))?;
    torture(&["damage"])
}

fn fuzz(options: &[&str]) -> Result {
    let program = ["--locked", "--profile", "fuzzing", "--package", "poste-testkit", "--bin", "poste-fuzz", "--"];
    step("fuzz", cargo().args(["run", "--quiet"]).args(program).args(options))
}

/// Measures what is handed out. The offices it measures in are kept below `target` for the next run.
fn bench(options: &[&str]) -> Result {
    let build = ["build", "--profile", "dist", "--locked", "--package", "poste", "--package", "poste-bench"];
    step("building with the dist profile", cargo().args(build))?;
    let (root, target) = (root()?, target()?);
    has_no_test_switches(&target.join("dist/poste"))?;
    // The short form proves nothing worth keeping.
    let out = if options.contains(&"--short") { target.join("bench/short") } else { root.join("docs/bench") };
    let mut measure = Command::new(target.join("dist/poste-bench"));
    measure.arg("--poste").arg(target.join("dist/poste"));
    measure.arg("--cache").arg(target.join("bench")).arg("--out").arg(out);
    step("measuring", measure.args(options))
}

/// Builds the program once more as a release does, without the switches of tests. Only its own crate has some, so that
/// nothing else is built again.
fn without_test_switches() -> Result {
    let without = ["--config", "profile.dev.package.poste.debug-assertions=false"];
    let build = ["build", "--workspace", "--locked", "--bin", "poste"];
    step("building the program without test switches", linted().args(build).args(without))?;
    has_no_test_switches(&target()?.join("debug/poste"))
}

/// A release build must not contain the variables with which tests set its clock and its ids.
fn has_no_test_switches(program: &Path) -> Result {
    const PREFIX: &[u8] = b"POSTE_TEST_";
    let bytes = fs::read(program).map_err(|error| format!("{}: {error}", program.display()))?;
    match bytes.windows(PREFIX.len()).any(|window| window == PREFIX) {
        true => Err(format!("{} contains test switches", program.display())),
        false => Ok(()),
    }
}

fn root() -> Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().map_err(|error| error.to_string())
}

/// Where cargo puts its output.
fn target() -> Result<PathBuf> {
    Ok(std::env::var_os("CARGO_TARGET_DIR").map_or(root()?.join("target"), PathBuf::from))
}

/// The core is plain threads and files: programs that embed it bring their own runtime, or none.
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

/// The licence checker, below `target`, so that it belongs to this project and is deleted with it.
struct CargoDeny {
    program: PathBuf,
    /// Its build, if it was missing.
    building: Option<Aside>,
}

impl CargoDeny {
    fn install_aside() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools");
        let program = root.join("bin/cargo-deny");
        let version = Command::new(&program).arg("--version").stderr(Stdio::null()).output();
        if version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(CARGO_DENY_VERSION)) {
            return Ok(Self { program, building: None });
        }
        // Not optimised: it builds in half the time and runs for seconds.
        let install =
            ["install", "--locked", "--debug", "--quiet", "cargo-deny", "--version", CARGO_DENY_VERSION, "--root"];
        let building = Aside::start("installing cargo-deny (once)", cargo_alone().args(install).arg(&root))?;
        Ok(Self { program, building: Some(building) })
    }

    fn program(self) -> Result<PathBuf> {
        self.building.map_or(Ok(()), Aside::finish)?;
        Ok(self.program)
    }
}

/// A step in parallel to the others, at a lower priority.
struct Aside {
    name: &'static str,
    child: Child,
}

impl Aside {
    fn start(name: &'static str, command: &mut Command) -> Result<Self> {
        announce(&format!("{name}, beside the other steps"));
        let mut nice = Command::new("nice");
        nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => nice.env(name, value),
                None => nice.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            nice.current_dir(folder);
        }
        let child = nice.spawn().map_err(|error| format!("nice does not start: {error}"))?;
        Ok(Self { name, child })
    }

    fn finish(mut self) -> Result {
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{}: {status}", self.name)),
            Err(error) => Err(format!("{}: {error}", self.name)),
        }
    }
}

/// A run that ends early must not leave a build behind.
impl Drop for Aside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes sure that a program which the tests call exists. It is installed if there is a package manager that we know
/// and may use.
fn ensure(program: &str, package: &str) -> Result {
    let is_there = || {
        // Most programs accept the first, tmux only the second.
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

/// Variables that steer poste, the programs it works with, and what tests print or keep. The test command must give the
/// same result for everyone: an agent of an office, a git hook, or a person with their own colour settings.
const STEERING: [&str; 17] = [
    "POSTE_",
    "GIT_",
    "CLAUDE",
    "CODEX_",
    "GEMINI_",
    "OPENCODE",
    "CURSOR_",
    "AIDER_",
    "TMUX",
    "XDG_",
    "INSTA_",
    "LC_",
    "LANG",
    "CLICOLOR",
    "NO_COLOR",
    "RUST_",
    "NODE_OPTIONS",
];

/// Like [`STEERING`], but whole names.
const ALSO_STEERING: [&str; 12] = [
    "EDITOR",
    "VISUAL",
    "PAGER",
    "TERM",
    "COLUMNS",
    "LINES",
    "TZ",
    "BASH_ENV",
    "ENV",
    "CDPATH",
    "POSIXLY_CORRECT",
    "GROFF_TMAC_PATH",
];

/// Removes the inherited variables that a test must not depend on.
fn under_test(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let is_own = command.get_envs().any(|(own, _)| own == name);
        let steers = name.to_str().is_some_and(|name| {
            STEERING.iter().any(|prefix| name.starts_with(prefix)) || ALSO_STEERING.contains(&name)
        });
        if steers && !is_own {
            command.env_remove(&name);
        }
    }
    command
}

/// Cargo with clippy in place of the compiler for this project's own code. It lints while it builds, so that no code is
/// compiled twice.
fn linted() -> Command {
    let mut command = cargo();
    let beside = std::env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name("clippy-driver"));
    let driver = beside.filter(|path| path.exists()).unwrap_or_else(|| "clippy-driver".into());
    command.env("RUSTC_WORKSPACE_WRAPPER", driver);
    // The equivalent of `cargo clippy -- -D warnings`.
    command.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    command
}

/// Cargo, for anything outside of this workspace.
fn cargo_alone() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn cargo() -> Command {
    let mut command = cargo_alone();
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    if *BUILT_FOR_THE_FIRST_TIME {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Incremental compilation adds a fifth to the first build, and a machine that tests once never benefits from it.
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

struct Output {
    success: bool,
    text: String,
}

/// Runs it for at most that long. Its output goes to a file, so that a full pipe cannot block it.
fn bounded(command: &mut Command, time: Duration, path: &Path) -> Result<Output> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
    let file = fs::File::create(path).map_err(failed)?;
    let also = file.try_clone().map_err(failed)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(also)
        .spawn()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let deadline = Instant::now() + time;
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break Some(status),
            None if Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let mut text = String::from_utf8_lossy(&fs::read(path).map_err(failed)?).into_owned();
    if status.is_none() {
        text.push_str(&format!("\nit had not ended after {} s", time.as_secs()));
    }
    Ok(Output { success: status.is_some_and(|status| status.success()), text })
}

fn announce(name: &str) {
    say(&format!("\n== {name}"));
}

#[allow(clippy::print_stdout, reason = "a chore reports on stdout")]
fn say(text: &str) {
    println!("{text}");
}
