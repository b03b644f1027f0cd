//! An office, the real program, and checks that every call must pass.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use poste_core::Position;
use poste_core::store::{Options, Store};
use poste_testkit::corpus;
use serde_json::Value;

/// Longer than any command takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
const PROGRAM: &str = env!("CARGO_BIN_EXE_poste-now");

/// The exit codes in `docs/exit-codes.md`.
static DOCUMENTED: LazyLock<Vec<i32>> = LazyLock::new(|| {
    let page = include_str!("../../../../docs/exit-codes.md");
    let cell = |line: &str| line.strip_prefix("| ")?.split(" |").next()?.parse().ok();
    page.lines().filter_map(cell).collect()
});

pub(crate) struct Desk {
    folder: tempfile::TempDir,
}

/// The result of a call.
#[derive(Debug)]
pub(crate) struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
    /// How much of its input it read.
    pub read: u64,
    /// Its peak memory, as far as sampling can tell.
    pub peak_kib: u64,
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

impl Desk {
    /// An office with a lead and a coder.
    pub(crate) fn new() -> Self {
        let desk = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        for words in [&["init"][..], &["register", "lead"], &["register", "coder"]] {
            desk.accepts(words);
        }
        desk
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The head of the log and the list of files, which a refusal must not change.
    fn state(&self) -> (Position, Vec<PathBuf>) {
        let store = Store::open(&self.path(".poste"), Options::default()).expect("the office opens");
        let head = store.tables().expect("its tables").cursor.head.position;
        let mut files = Vec::new();
        let mut folders = vec![self.path(".poste")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder of the office").flatten() {
                if entry.path().is_dir() { folders.push(entry.path()) } else { files.push(entry.path()) }
            }
        }
        files.sort();
        (head, files)
    }

    /// Asserts that the call succeeds.
    pub(crate) fn accepts<S: AsRef<OsStr>>(&self, words: &[S]) -> Ran {
        self.accepts_input(words, &mut std::io::empty())
    }

    pub(crate) fn accepts_input<S: AsRef<OsStr>>(&self, words: &[S], input: &mut (dyn Read + Send)) -> Ran {
        let ran = self.call(words, input, None);
        assert_eq!(ran.code, 0, "{}: {:.2000}", shown(words), ran.err);
        ran
    }

    /// Asserts that the call exits with this code and does not change the office.
    pub(crate) fn refuses<S: AsRef<OsStr>>(&self, code: i32, words: &[S]) -> Ran {
        self.refuses_input(code, words, &mut std::io::empty(), None)
    }

    pub(crate) fn refuses_input<S: AsRef<OsStr>>(
        &self,
        code: i32,
        words: &[S],
        input: &mut (dyn Read + Send),
        memory_kib: Option<u64>,
    ) -> Ran {
        let before = self.state();
        let ran = self.call(words, input, memory_kib);
        assert_eq!(ran.code, code, "{}: {:.2000}", shown(words), ran.err);
        assert_eq!(self.state(), before, "{} was refused and changed the office", shown(words));
        ran
    }

    /// Asserts only that the exit code is documented.
    pub(crate) fn call<S: AsRef<OsStr>>(
        &self,
        words: &[S],
        input: &mut (dyn Read + Send),
        memory_kib: Option<u64>,
    ) -> Ran {
        self.call_with(words, input, memory_kib, &[])
    }

    /// A call whose output is for a program, not for a terminal: only that it ends and does not panic is checked.
    pub(crate) fn served<S: AsRef<OsStr>>(&self, words: &[S], input: &[u8]) -> Ran {
        let ran = self.ran(words, &mut &*input, None, &[]);
        assert!(!ran.err.contains("panicked at"), "{}: {:.2000}", shown(words), ran.err);
        ran
    }

    pub(crate) fn call_with<S: AsRef<OsStr>>(
        &self,
        words: &[S],
        input: &mut (dyn Read + Send),
        memory_kib: Option<u64>,
        environment: &[(&str, &OsStr)],
    ) -> Ran {
        let ran = self.ran(words, input, memory_kib, environment);
        check_manners(&shown(words), &ran);
        ran
    }

    fn ran<S: AsRef<OsStr>>(
        &self,
        words: &[S],
        input: &mut (dyn Read + Send),
        memory_kib: Option<u64>,
        environment: &[(&str, &OsStr)],
    ) -> Ran {
        let mut command = match memory_kib {
            None => Command::new(PROGRAM),
            Some(kib) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -v {kib} && exec \"$0\" \"$@\""), PROGRAM]);
                shell
            }
        };
        let mut child = command
            .args(words)
            .current_dir(self.folder.path())
            .env_clear()
            .env("HOME", self.folder.path().join("home"))
            .env("XDG_STATE_HOME", poste_testkit::state::home())
            .env("PATH", "/usr/bin:/bin")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut to_child = child.stdin.take().expect("stdin is piped");
        let pid = child.id();
        let (output, read, peak_kib) = std::thread::scope(|scope| {
            // A program that has read enough closes the pipe.
            let feeding = scope.spawn(move || feed(input, &mut to_child));
            let watching = scope.spawn(move || watch_peak(pid));
            let output = child.wait_with_output().expect("the program ends");
            (output, feeding.join().expect("no panic"), watching.join().expect("no panic"))
        });
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap_or_else(|_| panic!("{}: no UTF-8", shown(words)));
        let code = output.status.code().unwrap_or_else(|| panic!("{}: {}", shown(words), output.status));
        Ran { code, out: text(output.stdout), err: text(output.stderr), read, peak_kib }
    }
}

fn feed(input: &mut (dyn Read + Send), to_child: &mut impl std::io::Write) -> u64 {
    let mut chunk = vec![0; 64 * 1024];
    let mut fed = 0;
    loop {
        match input.read(&mut chunk) {
            Ok(length) if length > 0 && to_child.write_all(&chunk[..length]).is_ok() => fed += length as u64,
            _ => return fed,
        }
    }
}

/// Samples until the process has ended. One that does not end is killed, and fails its test.
fn watch_peak(pid: u32) -> u64 {
    let (mut peak, started) = (0, Instant::now());
    while let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) {
        if started.elapsed() > LIMIT
            && let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let Some(kib) = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()) else { break };
        peak = peak.max(kib);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    peak
}

fn check_manners(line: &str, ran: &Ran) {
    assert!(DOCUMENTED.contains(&ran.code), "{line}: exit code {} is not documented", ran.code);
    assert!(!ran.err.contains("panicked at"), "{line}: {:.2000}", ran.err);
    for text in [&ran.out, &ran.err] {
        let unfit = text.chars().find(|character| corpus::is_unfit(*character) && *character != '\n');
        // Tabs are allowed in bodies and payloads, where they are kept.
        assert!(unfit.is_none_or(|character| character == '\t'), "{line}: {unfit:?} is printed: {text:.2000}");
    }
    if ran.code != 0 {
        assert!(ran.err.contains("error"), "{line}: failed without a reason: {:.2000}", ran.err);
        assert!(ran.err.len() < 20_000, "{line}: {} bytes of reasons", ran.err.len());
    }
}

fn shown<S: AsRef<OsStr>>(words: &[S]) -> String {
    let words: Vec<OsString> = words.iter().take(12).map(|word| word.as_ref().to_owned()).collect();
    let text = format!("poste {words:?}");
    text.chars().take(500).collect()
}

/// Lines for `send --batch -`.
pub(crate) fn lines(messages: &[Value]) -> Vec<u8> {
    messages.iter().flat_map(|message| format!("{message}\n").into_bytes()).collect()
}

/// A stream of this many bytes.
pub(crate) fn flood(bytes: u64) -> impl Read + Send {
    std::io::repeat(b'x').take(bytes)
}

pub(crate) fn write_file(path: &Path, content: &[u8]) {
    let mut file = std::fs::File::create(path).expect("a file can be made");
    file.write_all(content).expect("and written");
}
