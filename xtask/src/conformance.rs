//! The protocol, tested by third parties: the official conformance suite, the inspector and the Python client.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::npm::{self, NODE, Package};
use crate::{Output, Result, announce, build_everything, say, target, under_test};

const SUITE: Package = Package {
    folder: "mcp/conformance-0.2.0-alpha.12",
    name: "@modelcontextprotocol/conformance",
    version: "0.2.0-alpha.12",
};
const INSPECTOR: Package =
    Package { folder: "mcp/inspector-2.12.0", name: "@modelcontextprotocol/inspector", version: "2.12.0" };
const PYTHON_CLIENT: &str = "2.3.0";
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Longer than the whole suite takes on two busy cores.
const SUITE_MAX: Duration = Duration::from_secs(180);
const CLIENT_MAX: Duration = Duration::from_secs(60);

/// Installed in parallel to the other steps, because most of the time is spent waiting for the network.
pub struct Tools {
    installing: JoinHandle<Result>,
}

impl Tools {
    pub fn install_aside() -> Self {
        let python = std::thread::spawn(install_python_client);
        let installing = std::thread::spawn(move || {
            npm::install(&[NODE, SUITE, INSPECTOR])?;
            python.join().map_err(|_| "installing the Python client ended badly".to_owned())?
        });
        Self { installing }
    }

    fn ready(self) -> Result {
        self.installing.join().map_err(|_| "installing the tools of the protocol ended badly".to_owned())?
    }
}

pub fn run(tools: Tools) -> Result {
    tools.ready()?;
    build_everything()?;
    announce("conformance");
    let started = Instant::now();
    suite()?;
    clients()?;
    say(&format!("conformance took {} s", started.elapsed().as_secs()));
    Ok(())
}

fn suite() -> Result {
    let server = Fixture::start()?;
    let results = target()?.join("conformance");
    for revision in REVISIONS {
        let folder = results.join(revision);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let mut command = Command::new(node()?);
        command.arg(script(SUITE, "dist/index.js")?).args(["server", "--url", &server.url]);
        command.args(["--requirements", revision, "--output-dir"]).arg(&folder);
        let output = bounded(&mut command, SUITE_MAX)?;
        judge(revision, &output)?;
    }
    Ok(())
}

/// Scenarios of an extension that Poste does not offer, and that the suite does not score either.
const NOT_OFFERED: &str = "tasks-";

/// Requires that every check of every scenario has passed, both those that the revision requires and those that the
/// suite does not score yet.
fn judge(revision: &str, output: &Output) -> Result {
    let told = summary(&output.text);
    let applies = || told.iter().filter(|scenario| !scenario.name.starts_with(NOT_OFFERED));
    let passed: u64 = applies().map(|scenario| scenario.passed).sum();
    let failed: u64 = applies().map(|scenario| scenario.failed).sum();
    if !output.success || failed > 0 || passed == 0 {
        return Err(format!("the conformance suite is not satisfied with revision {revision}:\n{}", output.text));
    }
    let left_out = told.len() - applies().count();
    say(&format!(
        "MCP {revision}: {} scenarios, {passed} checks passed, 0 failed; {left_out} scenarios of tasks do not apply",
        applies().count()
    ));
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct Scenario<'t> {
    name: &'t str,
    passed: u64,
    failed: u64,
}

/// The lines `✓ NAME: 3 passed, 0 failed` of the suite's summary.
fn summary(text: &str) -> Vec<Scenario<'_>> {
    let scenario = |line: &str| -> Option<(usize, u64, u64)> {
        let (name, counts) = line.split_once(": ")?;
        let (passed, failed) = counts.split_once(" passed, ")?;
        let failed = failed.split_once(" failed")?.0;
        Some((name.len(), passed.parse().ok()?, failed.parse().ok()?))
    };
    let of_summary = text.split_once("=== SUMMARY ===").map_or("", |(_, summary)| summary);
    let marked = of_summary.lines().filter_map(|line| line.strip_prefix("✓ ").or(line.strip_prefix("✗ ")));
    marked
        .filter_map(|line| {
            let (end, passed, failed) = scenario(line)?;
            Some(Scenario { name: &line[..end], passed, failed })
        })
        .collect()
}

/// The server with the tools of the suite; it ends when it is dropped.
struct Fixture {
    child: Child,
    url: String,
}

impl Fixture {
    fn start() -> Result<Self> {
        let program = target()?.join("debug/poste-conformance");
        let mut child = under_test(&mut Command::new(&program))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let mut url = String::new();
        let out = child.stdout.take().ok_or("it has no output")?;
        BufReader::new(out).read_line(&mut url).map_err(|error| error.to_string())?;
        Ok(Self { child, url: url.trim().to_owned() })
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The inspector and the Python client, against the real `poste mcp`.
fn clients() -> Result {
    let office = Office::make()?;
    for (method, more, expected) in [
        ("tools/list", &[][..], "send_message"),
        ("tools/call", &["--tool-name", "check_inbox"], SUBJECT),
        ("resources/list", &[], "uri"),
        ("prompts/list", &[], "inbox"),
    ] {
        let mut command = office.command(&node()?);
        command.arg(script(INSPECTOR, "clients/launcher/build/index.js")?).arg("--cli").arg(&office.poste).arg("mcp");
        // It passes on only what it is told to.
        let state = format!("XDG_STATE_HOME={}", office.state.display());
        command.args(["-e", "POSTE_AGENT=wren", "-e", &state, "--method", method]).args(more);
        let output = bounded(&mut command, CLIENT_MAX)?;
        if !output.success || !output.text.contains(expected) {
            return Err(format!("the inspector's {method} has no {expected:?}:\n{}", output.text));
        }
    }
    say("Inspector: tools, a call, resources and prompts");
    let script = crate::root()?.join("crates/poste-conformance/client.py");
    let mut command = office.command(&python()?);
    command.arg(script).arg(&office.poste).arg(&office.folder);
    let output = bounded(&mut command, CLIENT_MAX)?;
    if !output.success {
        return Err(format!("the Python client failed:\n{}", output.text));
    }
    say(output.text.trim());
    Ok(())
}

/// As `client.py` expects it.
const SUBJECT: &str = "a letter for the client";

/// A temporary home and office.
struct Office {
    folder: PathBuf,
    /// Of the user, and outside the worktree that `folder` lies in.
    state: PathBuf,
    poste: PathBuf,
}

impl Drop for Office {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.state);
    }
}

impl Office {
    fn make() -> Result<Self> {
        let folder = target()?.join("conformance/office");
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(failed)?;
        }
        fs::create_dir_all(&folder).map_err(failed)?;
        let state = std::env::temp_dir().join(format!("poste-conformance-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&state).map_err(|error| format!("{}: {error}", state.display()))?;
        let office = Self { poste: target()?.join("debug/poste"), folder, state };
        for words in [
            &["init", "--in", "."][..],
            &["register", "quill"],
            &["register", "wren"],
            &["--as", "quill", "send", "wren", SUBJECT, "Good morning."],
        ] {
            let output = bounded(office.command(&office.poste).args(words), CLIENT_MAX)?;
            if !output.success {
                return Err(format!("poste {}:\n{}", words.join(" "), output.text));
            }
        }
        Ok(office)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).env_clear().env("HOME", self.folder.join("home")).env("LANG", "C.UTF-8");
        command.env("PATH", path().unwrap_or_default()).env("XDG_STATE_HOME", &self.state);
        command
    }
}

/// Runs it for at most that long.
fn bounded(command: &mut Command, time: Duration) -> Result<Output> {
    crate::bounded(under_test(command), time, &target()?.join("conformance/output"))
}

fn node() -> Result<PathBuf> {
    Ok(NODE.modules()?.join(".bin/node"))
}

/// A search path with the newer node first.
fn path() -> Result<OsString> {
    let own = NODE.modules()?.join(".bin");
    let before = std::env::var_os("PATH").unwrap_or_default();
    let all = [own].into_iter().chain(std::env::split_paths(&before)).collect::<Vec<_>>();
    std::env::join_paths(all).map_err(|error| error.to_string())
}

fn script(package: Package, file: &str) -> Result<PathBuf> {
    Ok(package.modules()?.join(package.name).join(file))
}

fn python() -> Result<PathBuf> {
    Ok(npm::tools()?.join(format!("mcp/python-{PYTHON_CLIENT}/bin/python")))
}

fn install_python_client() -> Result {
    crate::python::install(&format!("mcp/python-{PYTHON_CLIENT}"), "mcp", PYTHON_CLIENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_suite_says_is_counted() {
        let text = "✓ not: 9 passed, 0 failed\n=== SUMMARY ===\n✓ ping: 2 passed, 0 failed\n✗ tasks-x: 1 passed, 8 failed\n\n\
                    Total: 3 passed, 8 failed\n  ✗ tasks-x (extension)\n";
        let of = |name, passed, failed| Scenario { name, passed, failed };
        assert_eq!(summary(text), [of("ping", 2, 0), of("tasks-x", 1, 8)]);
        let output = |text: &str| Output { success: true, text: text.to_owned() };
        assert_eq!(judge("x", &output(text)), Ok(()));
        assert!(judge("x", &output(&text.replace("2 passed, 0", "1 passed, 1"))).is_err());
        assert!(judge("x", &output("")).is_err());
    }
}
