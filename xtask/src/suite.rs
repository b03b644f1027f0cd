//! Runs every test. Cargo would run the test binaries one after the other. Most tests wait for processes they started,
//! so here several binaries run in parallel.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{Result, announce, bounded, linted, say, target, under_test};

/// The slowest binaries start first; the others fill up the rest.
const LONGEST: [&str; 7] = ["processes", "cli", "rules", "histories", "hostile", "mcp", "docs"];

/// A binary that takes this long hangs. It is killed, and its output is shown.
const BINARY_MAX: Duration = Duration::from_secs(20 * 60);

/// Runs every test and ends with one line that counts them all.
pub fn run(binaries: Vec<Binary>) -> Result {
    let started = Instant::now();
    announce("tests");
    let binaries = Mutex::new(VecDeque::from(binaries));
    let next = || binaries.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let ended: Vec<Ended> = std::thread::scope(|scope| {
        let work = || std::iter::from_fn(&next).map(|binary| binary.run(cores + 1)).collect::<Vec<_>>();
        let workers: Vec<_> = (0..cores.max(2)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|_| vec![Ended::default()])).collect()
    });
    let passed: u64 = ended.iter().map(|ended| ended.passed).sum();
    let failed: u64 = ended.iter().map(|ended| ended.failed).sum();
    say(&format!("\ntests took {} s", started.elapsed().as_secs()));
    say(&format!("{passed} passed, {failed} failed"));
    if failed > 0 || ended.iter().any(|ended| !ended.success) {
        return Err("tests failed".to_owned());
    }
    if passed == 0 {
        return Err("no test ran".to_owned());
    }
    Ok(())
}

/// A test binary and the folder of its package, in which its tests expect to run.
#[derive(Debug, PartialEq, Eq)]
pub struct Binary {
    program: PathBuf,
    package: PathBuf,
}

/// The result of a binary.
#[derive(Default)]
struct Ended {
    success: bool,
    passed: u64,
    failed: u64,
}

/// Every test binary of the workspace, according to cargo.
pub fn built() -> Result<Vec<Binary>> {
    let test = ["test", "--workspace", "--tests", "--locked", "--no-run", "--quiet", "--message-format=json"];
    let told = linted()
        .args(test)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    if !told.status.success() {
        return Err("the tests could not be built".to_owned());
    }
    let mut binaries: Vec<Binary> = String::from_utf8_lossy(&told.stdout).lines().filter_map(Binary::of).collect();
    let place = |binary: &Binary| LONGEST.iter().position(|name| binary.name() == *name).unwrap_or(LONGEST.len());
    binaries.sort_by_key(place);
    Ok(binaries)
}

impl Binary {
    /// Cargo reports everything it built, one line of JSON each. The paths contain no quotes.
    fn of(line: &str) -> Option<Self> {
        let (_, profile) = line.split_once("\"profile\":{")?;
        if !profile.split_once('}')?.0.contains("\"test\":true") {
            return None;
        }
        let value = |key: &str| Some(line.split_once(&format!("\"{key}\":\""))?.1.split_once('"')?.0);
        let package = Path::new(value("manifest_path")?).parent()?.to_owned();
        Some(Self { program: value("executable")?.into(), package })
    }

    /// Cargo adds a hash to the name.
    fn name(&self) -> String {
        let name = self.program.file_name().unwrap_or_default().to_string_lossy();
        name.rsplit_once('-').map_or_else(|| name.to_string(), |(name, _)| name.to_owned())
    }

    fn run(&self, threads: usize) -> Ended {
        let package = self.package.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = format!("{package}: {}", self.name());
        let started = Instant::now();
        let mut command = Command::new(&self.program);
        command
            .current_dir(&self.package)
            .env("CARGO_MANIFEST_DIR", &self.package)
            .env("INSTA_UPDATE", "no")
            .env("RUST_TEST_THREADS", threads.to_string());
        let file = target().map(|target| target.join("tests").join(format!("{package}-{}", self.name())));
        let output = match file.and_then(|file| bounded(under_test(&mut command), BINARY_MAX, &file)) {
            Ok(output) => output,
            Err(error) => {
                say(&format!("{name}: {error}"));
                return Ended { success: false, passed: 0, failed: 1 };
            }
        };
        let results = || output.text.lines().filter_map(|line| line.strip_prefix("test result: "));
        let (passed, mut failed) = results()
            .fold((0, 0), |(passed, failed), line| (passed + count(line, "passed"), failed + count(line, "failed")));
        if output.success {
            say(&format!("{name}: {passed} passed in {:.1} s", started.elapsed().as_secs_f64()));
        } else {
            // A binary that ends without a count has failed too.
            failed = failed.max(1);
            say(&format!("{name}:\n{}", output.text));
        }
        Ended { success: output.success, passed, failed }
    }
}

/// The number before a word in `ok. 12 passed; 0 failed; …`.
fn count(counts: &str, word: &str) -> u64 {
    counts
        .split([';', '.'])
        .find_map(|part| part.trim().strip_suffix(word))
        .and_then(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_a_test_binary_are_read() {
        let line = "ok. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.28s";
        assert_eq!((count(line, "passed"), count(line, "failed")), (12, 3));
    }

    #[test]
    fn only_binaries_with_tests_are_taken() {
        let line = |profile: &str, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/p/crates/poste/Cargo.toml","target":{{"name":"cli","test":true}},"profile":{{"opt_level":"0","test":{profile}}},"features":[],"executable":{executable},"fresh":true}}"#
            )
        };
        let cli = Binary::of(&line("true", r#""/t/debug/deps/cli-0a1b""#)).expect("a test");
        assert_eq!(cli, Binary { program: "/t/debug/deps/cli-0a1b".into(), package: "/p/crates/poste".into() });
        assert_eq!(cli.name(), "cli");
        assert_eq!(Binary::of(&line("false", r#""/t/debug/poste""#)), None, "a program that tests start");
        assert_eq!(Binary::of(&line("true", "null")), None);
        assert_eq!(Binary::of(r#"{"reason":"build-finished","success":true}"#), None);
    }

    #[test]
    fn a_binary_that_dies_counts_as_a_failure() {
        let binary = Binary { program: "/bin/false".into(), package: "/".into() };
        let ended = binary.run(1);
        assert_eq!((ended.success, ended.passed, ended.failed), (false, 0, 1));
    }
}
