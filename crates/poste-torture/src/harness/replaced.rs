//! An office that is deleted, replaced or copied while processes have it open: they notice, and never create it again.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::acts::{Act, Base};
use crate::check;
use crate::desk::{self, Desk, Run, copy_folder, told};
use crate::rig::{Result, Rig, Tally, on_every_core};
use crate::strace::{self, Call};

const NOT_FOUND: i32 = 3;
const CONFLICT: i32 = 5;
const TIMED_OUT: i32 = 7;

type Change = fn(&Desk, &Desk) -> std::io::Result<()>;

/// What is done to an office while it is open.
const CHANGES: &[(&str, Change)] = &[
    ("the database is deleted", |desk, _| fs::remove_file(desk.database())),
    ("the database is replaced", |desk, other| fs::rename(other.database(), desk.database())),
    ("the folder is deleted", |desk, _| fs::remove_dir_all(desk.office())),
    ("the folder is replaced", |desk, other| {
        fs::rename(desk.office(), desk.folder.join("away"))?;
        fs::rename(other.office(), desk.office())
    }),
    ("the WAL is deleted", |desk, _| fs::remove_file(desk.office().join("office.db-wal"))),
    ("the shared memory is deleted", |desk, _| fs::remove_file(desk.office().join("office.db-shm"))),
];

pub(crate) fn run(rig: &Rig, tally: &Tally) -> Result {
    let copies = rig.pick(5, 60);
    tally.expect(2 * CHANGES.len() + copies);
    for (what, change) in CHANGES {
        let (desk, other) = (office(rig, "replaced")?, office(rig, "other")?);
        a_waiter_notices(rig, tally, &desk, &other, what, *change)?;
        let (desk, other) = (office(rig, "replaced")?, office(rig, "other")?);
        a_writer_notices(rig, tally, &desk, &other, what, *change)?;
        if tally.is_enough() {
            return Ok(());
        }
    }
    deleted_while_opened(rig, tally)?;
    if tally.is_enough() {
        return Ok(());
    }
    copied_while_written(rig, tally, copies)
}

/// The database is deleted while it is being opened: each call from opening it to the first wait is delayed for a
/// moment.
fn deleted_while_opened(rig: &Rig, tally: &Tally) -> Result {
    let folder = rig.memory.join("deleted");
    let base = Desk::with_agents(folder.join("base"), &rig.sound.poste, &["a", "b"])?;
    let args = ["wait", "--timeout", "2s", "--as", "b"].map(str::to_owned).to_vec();
    let act = Act { name: "wait", base: Base::Office, args, input: None, ids: Vec::new(), migrates: false };
    let trace = folder.join("trace");
    let recorded = base.copy_to(folder.join("recorded"))?;
    let run = strace::run(&recorded, &rig.sound.poste, &act, &["-y", "-s", "64"], &trace)?;
    if run.code != Some(TIMED_OUT) {
        return Err(format!("waiting for nothing ended with {}", run.told()));
    }
    let text = fs::read_to_string(&trace).map_err(|error| told(&trace, &error))?;
    let opened = strace::parse(&text).into_iter().skip_while(|call| !call.line.contains("office.db\", O_RDWR"));
    let calls: Vec<Call> = opened.take_while(|call| !call.name.contains("poll")).collect();
    let calls = Rig::sample(&mut rig.rng("deleted"), calls, rig.pick(6, 1_000));
    tally.expect(calls.len());
    on_every_core(&calls, tally, |core, call| {
        let desk = base.copy_to(folder.join(format!("core-{core}")))?;
        let (traced, hold) =
            (format!("trace={}", call.name), format!("inject={}:delay_exit=200000:when={}", call.name, call.nth));
        let options = ["-e", &traced, "-e", &hold];
        let waiter =
            desk::start(&mut strace::command(&desk, &rig.tortured.poste, &act, &options, Path::new("/dev/null"))?)?;
        std::thread::sleep(Duration::from_millis(120));
        fs::remove_file(desk.database()).map_err(|error| told(&desk.database(), &error))?;
        let run = desk::finish(waiter)?;
        // Before the waiter looked, there was no office; afterwards, it was deleted.
        let is_told = matches!(run.code, Some(NOT_FOUND | CONFLICT));
        tally.check(is_told, || format!("the database is deleted during {call}: a waiter ended with {}", run.told()));
        tally.check(!desk.database().exists(), || format!("deleted during {call}, and created again"));
        tally.point();
        Ok(())
    })
}

fn office(rig: &Rig, name: &str) -> Result<Desk> {
    let desk = Desk::with_agents(rig.disk.join(name), &rig.sound.poste, &["a", "b"])?;
    desk.must(&rig.sound.poste, &["send", "b", "first", "--as", "a", "--id", "first"])?;
    Ok(desk)
}

fn a_waiter_notices(
    rig: &Rig,
    tally: &Tally,
    desk: &Desk,
    other: &Desk,
    what: &str,
    change: fn(&Desk, &Desk) -> std::io::Result<()>,
) -> Result {
    desk.must(&rig.sound.poste, &["claim", "1", "--as", "b"])?;
    let wait = ["claim", "--wait", "--timeout", "5s", "--as", "b"];
    let waiter = desk::start(&mut desk.command(&rig.tortured.poste, &wait))?;
    until_open(desk, &waiter)?;
    change(desk, other).map_err(|error| told(&desk.folder, &error))?;
    let run = desk::finish(waiter)?;
    tally.check(run.code == Some(CONFLICT), || format!("{what}: a waiter ended with {}", run.told()));
    if !desk.database().exists() {
        stays_gone(rig, tally, desk, what)?;
    }
    tally.point();
    Ok(())
}

/// A missing office is an error, and stays missing.
fn stays_gone(rig: &Rig, tally: &Tally, desk: &Desk, what: &str) -> Result {
    let office = desk.office();
    let args = ["send", "b", "news", "--as", "a", "--office", &office.to_string_lossy()];
    let run = desk.run(&rig.tortured.poste, &args)?;
    tally.check(run.code == Some(NOT_FOUND), || format!("{what}: the next send ended with {}", run.told()));
    tally.check(!desk.database().exists(), || format!("{what}: an empty office was created silently"));
    Ok(())
}

/// A batch reads its lines from us: it has written some, then the office changes, then it gets more.
fn a_writer_notices(
    rig: &Rig,
    tally: &Tally,
    desk: &Desk,
    other: &Desk,
    what: &str,
    change: fn(&Desk, &Desk) -> std::io::Result<()>,
) -> Result {
    let mut command = desk.command(&rig.tortured.poste, &["send", "--batch", "-", "--as", "a", "--json"]);
    let mut batch = desk::start(command.stdin(Stdio::piped()))?;
    let mut input = batch.stdin.take().ok_or("the batch has no input")?;
    let mut feed = |from: usize, to: usize| {
        (from..to).try_for_each(|n| writeln!(input, "{{\"to\":\"b\",\"subject\":\"{n}\",\"id\":\"line-{n}\"}}"))
    };
    let text = |error: std::io::Error| error.to_string();
    // More than one chunk, so that the first is certainly written.
    feed(0, 150).map_err(text)?;
    until_stored(desk, "line-0")?;
    change(desk, other).map_err(|error| told(&desk.folder, &error))?;
    // The pipe breaks when the batch gives up, as it should.
    let _ = feed(150, 600);
    drop(input);
    let run = desk::finish(batch)?;
    tally.check(run.code == Some(CONFLICT), || format!("{what}: a batch ended with {}", run.told()));
    if desk.database().exists() {
        tally.check(!has(desk, "line-599"), || format!("{what}: the batch wrote on in the other office"));
    }
    tally.point();
    Ok(())
}

fn has(desk: &Desk, id: &str) -> bool {
    check::present(&desk.office(), &[id.to_owned()]).is_ok_and(|there| there == [true])
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result {
    let started = Instant::now();
    while !is_so() {
        if started.elapsed() > Duration::from_secs(20) {
            return Err(format!("{what} did not come"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Waits until a process has the database open, according to /proc.
fn until_open(desk: &Desk, child: &Child) -> Result {
    let database = desk.database().canonicalize().map_err(|error| told(&desk.database(), &error))?;
    let folder = format!("/proc/{}/fd", child.id());
    until("a waiter", || {
        let files = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        targets.any(|target| target == database)
    })?;
    // It opens its files and then looks once; give it time for that.
    std::thread::sleep(Duration::from_millis(100));
    Ok(())
}

fn until_stored(desk: &Desk, id: &str) -> Result {
    until("the first chunk", || has(desk, id))
}

/// A copy made by hand during writes is sound or says that it is not; the original is unharmed.
fn copied_while_written(rig: &Rig, tally: &Tally, copies: usize) -> Result {
    let desk = office(rig, "copied")?;
    let (mut sound, mut unsound, mut sent) = (0, 0, 0);
    let mut acknowledged = Vec::new();
    for _ in 0..copies {
        let lines: String =
            (0..300).map(|n| format!("{{\"to\":\"b\",\"subject\":\"s\",\"id\":\"copy-{}\"}}\n", sent + n)).collect();
        let file = desk.folder.join("batch.jsonl");
        fs::write(&file, lines).map_err(|error| told(&file, &error))?;
        let args = ["send", "--batch", "batch.jsonl", "--as", "a"];
        let batch = desk::start(&mut desk.command(&rig.tortured.poste, &args))?;
        std::thread::sleep(Duration::from_millis(15));
        let copy = Desk::clean(rig.disk.join("copy"))?;
        let copied = copy_folder(&desk.office(), &copy.office());
        let run = desk::finish(batch)?;
        copied.map_err(|error| told(&copy.folder, &error))?;
        tally.check(run.is_ok(), || format!("a batch beside a copy ended with {}", run.told()));
        acknowledged.extend((sent..sent + 300).map(|n| format!("copy-{n}")));
        sent += 300;
        let verified = copy.run(&rig.tortured.poste, &["log", "verify", "--json"])?;
        match judge_copy(&verified, &copy.office()) {
            Ok(true) => sound += 1,
            Ok(false) => unsound += 1,
            Err(violation) => tally.violation(violation),
        }
        tally.point();
    }
    tally.note(format!("{copies} copies by hand while written: {sound} sound, {unsound} told as unsound"));
    if let Err(broken) = check::sound(&desk.office(), &acknowledged) {
        tally.violation(format!("the original, after it was copied: {broken}"));
    }
    Ok(())
}

/// The copy is sound, or reported as damaged. It must never pass its own check and fail ours.
fn judge_copy(verified: &Run, copy: &Path) -> Result<bool> {
    if !verified.is_documented() {
        return Err(format!("verifying a copy ended with {}", verified.told()));
    }
    if verified.is_ok() {
        return check::sound(copy, &[]).map(|_| true).map_err(|broken| format!("a copy passed for sound: {broken}"));
    }
    Ok(false)
}
