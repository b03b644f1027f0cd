//! `Desk`: a temporary folder, a clock that only the test moves, and the real program, with its output recorded in a
//! transcript.
//!
//! Some rules hold for every command, so they are checked at every call: see [`Ran::check_manners`].

use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use poste_core::Timestamp;
use poste_core::time::parse_duration_ms;
use serde_json::Value;

/// 2026-03-02T09:00:00Z, a Monday.
const MONDAY_MORNING_MS: i64 = 1_772_442_000_000;
const BOOTED_MS: i64 = 1_000_000;

/// Compares a desk's transcript with its snapshot.
#[macro_export]
macro_rules! assert_transcript {
    ($desk:expr) => {
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => true }, {
            insta::assert_snapshot!($desk.transcript());
        });
    };
}

/// The exit codes documented in `docs/exit-codes.md`.
pub static DOCUMENTED_EXIT_CODES: LazyLock<Vec<i32>> = LazyLock::new(|| {
    let page = include_str!("../../../../docs/exit-codes.md");
    let cell = |line: &str| line.strip_prefix("| ")?.split(" |").next()?.parse().ok();
    page.lines().filter_map(cell).collect()
});

/// The commands of a scenario and their output.
#[must_use]
#[derive(Debug)]
pub struct Transcript(String);

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim())
    }
}

/// The outcome of one command.
#[must_use]
#[derive(Debug)]
pub struct Ran {
    pub line: String,
    pub code: i32,
    pub out: Vec<u8>,
    pub err: Vec<u8>,
}

impl Ran {
    pub fn out(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap_or_else(|_| panic!("{}: stdout is not valid UTF-8", self.line))
    }

    pub fn err(&self) -> &str {
        std::str::from_utf8(&self.err).unwrap_or_else(|_| panic!("{}: stderr is not valid UTF-8", self.line))
    }

    /// The answer of a command run with `--json`.
    pub fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{}: {}", self.line, self.err());
        serde_json::from_str(self.out()).unwrap_or_else(|error| panic!("{}: {error}: {}", self.line, self.out()))
    }

    /// The error of a command run with `--json`.
    pub fn error_json(&self) -> Value {
        let last = self.err().lines().last().unwrap_or_default();
        let error: Value =
            serde_json::from_str(last).unwrap_or_else(|_| panic!("{}: not valid JSON: {last}", self.line));
        error["error"].clone()
    }

    pub fn ok(self) -> Self {
        self.exits(0)
    }

    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}\n{}", self.line, self.out(), self.err());
        self
    }

    /// Whether the parser refused the arguments. A command without its subcommand prints its help instead.
    fn is_refused_by_the_parser(&self) -> bool {
        self.code == 2
            && (self.err().contains("For more information, try '--help'.") || self.err().contains("\nUsage: "))
    }

    /// Rules that hold for every command.
    fn check_manners(&self, manners: Manners) {
        let Self { line, code, .. } = self;
        assert!(DOCUMENTED_EXIT_CODES.contains(code), "{line}: exit code {code} is not documented");
        for (what, text) in [("stdout", self.out()), ("stderr", self.err())] {
            // The argument parser's own output is checked in `hostile`.
            if manners.colours || (what == "stderr" && self.is_refused_by_the_parser()) {
                continue;
            }
            if let Some(bad) = text.chars().find(|character| is_unfit_for_a_terminal(*character)) {
                panic!("{line}: {what} contains a raw {bad:?}: {text:?}");
            }
            assert!(text.is_empty() || text.ends_with('\n'), "{line}: {what} does not end with a newline: {text:?}");
        }
        assert!(*code == 0 || !self.err.is_empty(), "{line}: failed without a message");
        let says_error = says_error(self.err()) || self.is_refused_by_the_parser();
        // Exit codes 12 and 13, a decision other than the first choice and a default, are answers and not errors.
        let is_plain = *code == 0 || (matches!(*code, 12 | 13) && !manners.json);
        assert_eq!(is_plain, !says_error, "{line}: exit {code} and stderr {:?}", self.err());
        if manners.json {
            for answer in self.out().lines() {
                let parsed = serde_json::from_str::<serde::de::IgnoredAny>(answer);
                assert!(parsed.is_ok(), "{line}: a line of stdout is not valid JSON: {answer}");
            }
            if *code != 0 {
                assert_eq!(self.error_json()["exit_code"], *code, "{line}: stderr names another exit code");
            }
        }
    }
}

fn says_error(stderr: &str) -> bool {
    stderr.lines().any(|line| line.starts_with("error:") || line.starts_with("{\"error\":"))
}

/// Control characters except newline and tab, and characters that reorder or hide text.
pub fn is_unfit_for_a_terminal(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => true,
        other => other.is_control(),
    }
}

#[derive(Debug, Clone, Copy)]
struct Manners {
    json: bool,
    colours: bool,
}

/// A temporary folder to run the program in, with its own clock and transcript.
#[derive(Debug)]
pub struct Desk {
    _folder: tempfile::TempDir,
    root: PathBuf,
    cwd: PathBuf,
    wall_ms: i64,
    boot_ms: i64,
    seed: u64,
    transcript: String,
}

impl Desk {
    /// An empty folder `project`, without an office.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("poste-cli-").tempdir().expect("a temporary folder");
        let root = folder.path().canonicalize().expect("the temporary folder is there");
        for name in ["home", "tmp", "project"] {
            std::fs::create_dir(root.join(name)).expect("a new folder");
        }
        let cwd = root.join("project");
        Self {
            _folder: folder,
            root,
            cwd,
            wall_ms: MONDAY_MORNING_MS,
            boot_ms: BOOTED_MS,
            seed: 0,
            transcript: String::new(),
        }
    }

    /// An office with these agents. The transcript leaves out how they were registered.
    pub fn with(agents: &[&str]) -> Self {
        let mut desk = Self::new();
        desk.quietly("poste init");
        for agent in agents {
            desk.quietly(&format!("poste register {agent}"));
        }
        desk
    }

    /// `lead` (a coordinator), `coder` (a builder), `reviewer` and `anna` (a human).
    pub fn staffed() -> Self {
        Self::with(&[
            "lead --role coordinator",
            "coder --role builder --capability rust",
            "reviewer --role reviewer --capability rust --capability prose",
            "anna --kind human",
        ])
    }

    pub fn transcript(&self) -> Transcript {
        Transcript(self.transcript.clone())
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path in the current folder.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.cwd.join(name)
    }

    /// Writes a file in the current folder and creates missing parent folders.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent folder")).expect("the parent folder is created");
        std::fs::write(&path, content).expect("a file can be written");
        path
    }

    /// Trusts the commands in the files of the office in the current folder, as a person would.
    pub fn trust(&self) {
        poste_testkit::state::trust(&self.path(".poste"));
    }

    /// Changes to a folder below the root and creates it if it is missing.
    pub fn cd(&mut self, folder: &str) {
        let path = self.root.join(folder);
        std::fs::create_dir_all(&path).expect("the folder is created");
        self.cwd = path;
        let _ = writeln!(self.transcript, "$ cd $DIR/{folder}");
    }

    /// Advances both clocks.
    pub fn later(&mut self, length: &str) {
        let ms = parse_duration_ms(length).expect("a duration");
        self.wall_ms += ms;
        self.boot_ms += ms;
        let _ = writeln!(self.transcript, "# {length} later");
    }

    /// Sets the wall clock ahead and leaves the boot clock alone.
    pub fn set_clock_ahead(&mut self, length: &str) {
        self.wall_ms += parse_duration_ms(length).expect("a duration");
        let _ = writeln!(self.transcript, "# the clock is set {length} ahead");
    }

    pub fn set_clock_back(&mut self, length: &str) {
        self.wall_ms -= parse_duration_ms(length).expect("a duration");
        let _ = writeln!(self.transcript, "# the clock is set {length} back");
    }

    pub fn note(&mut self, text: &str) {
        let _ = writeln!(self.transcript, "# {text}");
    }

    /// Runs and records one command per line; lines that start with `#` are notes.
    pub fn play(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(note) = line.strip_prefix('#') {
                self.note(note.trim());
            } else {
                let _ = self.ask(line);
            }
        }
    }

    /// Runs one command and records it.
    pub fn ask(&mut self, line: &str) -> Ran {
        self.ask_with(line, b"")
    }

    /// Runs one command with this stdin and records it.
    pub fn ask_with(&mut self, line: &str, stdin: &[u8]) -> Ran {
        let ran = self.run(&Typed::parse(line), stdin);
        self.write_down(&ran);
        ran
    }

    /// Runs one command without recording it.
    pub fn peek(&mut self, line: &str) -> Ran {
        self.run(&Typed::parse(line), b"")
    }

    /// Runs a setup command, which must succeed, without recording it.
    pub fn quietly(&mut self, line: &str) {
        let _ = self.peek(line).ok();
    }

    /// Runs arguments that a shell line cannot hold, without recording them.
    pub fn call<S: AsRef<OsStr>>(&mut self, arguments: &[S], stdin: &[u8]) -> Ran {
        let arguments: Vec<OsString> = arguments.iter().map(|argument| argument.as_ref().to_owned()).collect();
        let line = format!("poste {arguments:?}");
        self.run(&Typed { line, environment: Vec::new(), arguments }, stdin)
    }

    /// The program with this desk's folder, environment and clocks.
    pub fn command<S: AsRef<OsStr>>(&mut self, arguments: &[S]) -> Command {
        poste_testkit::signals::ignored_by_nobody_started();
        self.seed += 1;
        let mut command = Command::new(env!("CARGO_BIN_EXE_poste"));
        command
            .args(arguments)
            .current_dir(&self.cwd)
            .env_clear()
            .env("HOME", self.root.join("home"))
            .env("XDG_STATE_HOME", poste_testkit::state::home())
            .env("TMPDIR", self.root.join("tmp"))
            .env("PATH", "/usr/bin:/bin")
            .env("COLUMNS", "100")
            .env("POSTE_TEST_CLOCK", Timestamp::from_ms(self.wall_ms).to_string())
            .env("POSTE_TEST_BOOT", self.boot_ms.to_string())
            // The person at the desk. `POSTE_TEST_PERSON=0` in front of a line: nobody is.
            .env("POSTE_TEST_PERSON", "1")
            .env("POSTE_TEST_SEED", self.seed.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&mut self, typed: &Typed, stdin: &[u8]) -> Ran {
        let mut command = self.command(&typed.arguments);
        command.envs(typed.environment.iter().map(|(name, value)| (name, value)));
        let mut child = command.spawn().expect("the program starts");
        let mut to_child = child.stdin.take().expect("stdin is piped");
        let output = std::thread::scope(|scope| {
            // A program may close the pipe without reading all of its input.
            scope.spawn(move || to_child.write_all(stdin));
            child.wait_with_output().expect("the program ends")
        });
        let code = output.status.code().unwrap_or_else(|| panic!("{}: {}", typed.line, output.status));
        let ran = Ran { line: typed.line.clone(), code, out: output.stdout, err: output.stderr };
        let given = |wanted: &str| typed.arguments.iter().any(|argument| argument == wanted);
        let colours = given("always") || typed.environment.iter().any(|(name, _)| name == "CLICOLOR_FORCE");
        // A schema is JSON on several lines, and help is not JSON.
        let json = given("--json") && !given("schema") && !given("--help");
        ran.check_manners(Manners { json, colours });
        ran
    }

    fn write_down(&mut self, ran: &Ran) {
        let mut text = format!("$ {}\n", self.safe(&ran.line));
        for line in ran.out().lines() {
            let _ = writeln!(text, "{}", self.safe(&readable(line)));
        }
        for line in ran.err().lines() {
            let _ = writeln!(text, "! {}", self.safe(&readable(line)));
        }
        if ran.code != 0 {
            let _ = writeln!(text, "[exit {}]", ran.code);
        }
        self.transcript.push_str(&text);
    }

    /// Replaces what differs between machines and escapes control characters.
    fn safe(&self, text: &str) -> String {
        let root = self.root.to_str().expect("a path in UTF-8");
        let text = text.replace(root, "$DIR");
        // A host name may be any word, even `lead`, so it is replaced only where it is a host.
        let host = format!(" from {}", rustix::system::uname().nodename().to_string_lossy());
        let text = if text.contains("policy ") { text.replace(&host, " from $HOST") } else { text };
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let text = ["codex", "claude"]
            .into_iter()
            .fold(text, |text, program| text.replace(&format!("{program} on {host}"), &format!("{program} on $HOST")));
        let text = text.replace(&format!("\"host\": \"{host}\""), "\"host\": \"$HOST\"");
        let text = hide_machines(&hide_after(&hide_after(&text, "chain "), "digest "));
        text.chars().fold(String::new(), |mut safe, character| {
            if is_unfit_for_a_terminal(character) {
                let _ = write!(safe, "{}", character.escape_default());
            } else {
                safe.push(character);
            }
            safe
        })
    }
}

/// Pretty-prints long JSON and leaves other lines alone.
fn readable(line: &str) -> String {
    const LINE_CHARS_MAX: usize = 100;
    if line.chars().count() <= LINE_CHARS_MAX || !line.starts_with('{') {
        return line.to_owned();
    }
    let pretty = serde_json::from_str::<Value>(line).and_then(|value| serde_json::to_string_pretty(&value));
    pretty.unwrap_or_else(|_| line.to_owned())
}

/// Hides hex digits after `word`: digests of a whole office depend on machine paths.
fn hide_after(text: &str, word: &str) -> String {
    match text.split_once(word) {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|character: char| character.is_ascii_hexdigit());
            let hidden = if rest.len() + 8 <= after.len() { "HEX" } else { &after[..after.len() - rest.len()] };
            format!("{before}{word}{hidden}{rest}")
        }
        None => text.to_owned(),
    }
}

/// Hides machine ids, which differ in every office.
fn hide_machines(text: &str) -> String {
    const DIGITS: usize = 16;
    let hide = |text: &str, key: &str| {
        let mut parts = text.split(key);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| {
            let rest = part.trim_start_matches(|character: char| character.is_ascii_hexdigit());
            let is_id = part.len() - rest.len() == DIGITS;
            if is_id { format!("{text}{key}$MACHINE{rest}") } else { format!("{text}{key}{part}") }
        })
    };
    hide(&hide(text, "\"machine\": \""), " on ")
}

/// A command line split as a shell would: blanks, quotes, leading variables.
#[derive(Debug)]
struct Typed {
    line: String,
    environment: Vec<(OsString, OsString)>,
    arguments: Vec<OsString>,
}

impl Typed {
    fn parse(line: &str) -> Self {
        let mut words = words(line).into_iter();
        let mut environment = Vec::new();
        for word in words.by_ref() {
            if word == "poste" {
                break;
            }
            let (name, value) = word.split_once('=').unwrap_or_else(|| panic!("{line}: not a poste command"));
            environment.push((name.into(), value.into()));
        }
        let arguments = words.take_while(|word| word != "<").map(OsString::from).collect();
        Self { line: line.to_owned(), environment, arguments }
    }
}

fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (Some(_), inside) => word.get_or_insert_default().push(inside),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, other) => word.get_or_insert_default().push(other),
        }
    }
    assert!(quote.is_none(), "{line}: unclosed quote");
    words.extend(word);
    words
}

/// Runs git without user or system configuration.
pub fn git(desk: &Desk, folder: &Path, arguments: &[&str]) {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", desk.root().join("home"))
        .env("XDG_STATE_HOME", poste_testkit::state::home())
        .envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_TERMINAL_PROMPT", "0")])
        .envs([("GIT_AUTHOR_NAME", "Anna"), ("GIT_AUTHOR_EMAIL", "anna@example.org")])
        .envs([("GIT_COMMITTER_NAME", "Anna"), ("GIT_COMMITTER_EMAIL", "anna@example.org")])
        .envs([("GIT_AUTHOR_DATE", "2026-03-02T09:00:00Z"), ("GIT_COMMITTER_DATE", "2026-03-02T09:00:00Z")])
        .stdin(Stdio::null())
        .output()
        .expect("git is needed for this test");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
