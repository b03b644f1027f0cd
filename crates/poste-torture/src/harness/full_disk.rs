//! A disk that is really full: a small tmpfs, and ext4 with small and with ordinary blocks. Then room is made.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::check;
use crate::desk::{self, Desk, told};
use crate::rig::{Result, Rig, Tally};

const DISK_BYTES: u64 = 8 * 1024 * 1024;
const BALLAST_BYTES: usize = 1024 * 1024;
const DISK_FULL: i32 = 9;
/// Everything that must happen happens long before this.
const PATIENCE: Duration = Duration::from_secs(30);
/// The last value says whether reading must still work. It need not where SQLite cannot even map its shared memory
/// safely.
const DISKS: &[(&str, Kind, bool)] = &[
    ("tmpfs", Kind::Tmpfs, true),
    // SQLite truncates the shared memory and lets it grow again whenever no other process has it open. ext4 releases
    // freed blocks only after its next commit, so on a full disk there may be none for it.
    ("ext4 with 4 KiB blocks", Kind::Ext4 { block: 4_096 }, false),
    ("ext4 with 1 KiB blocks", Kind::Ext4 { block: 1_024 }, false),
];

#[derive(Debug, Clone, Copy)]
enum Kind {
    Tmpfs,
    Ext4 { block: u32 },
}

/// What took the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilledBy {
    TheOffice,
    Others,
}

pub(crate) fn run(rig: &Rig, tally: &Tally) -> Result {
    let trials = DISKS.iter().flat_map(|disk| [FilledBy::Others, FilledBy::TheOffice].map(|by| (disk, by)));
    for ((name, kind, reading_goes_on), by) in trials {
        let folder = rig.disk.join(format!("{}-{by:?}", name.replace(' ', "-")));
        let mounted = match Mounted::make(&folder, *kind) {
            Ok(mounted) => mounted,
            Err(why) => {
                tally.note(format!("{name}: SKIPPED, {why}"));
                continue;
            }
        };
        let desk = Desk::at(mounted.path.join("desk"));
        let mut trial = Trial { rig, tally, desk, disk: name, acknowledged: Vec::new(), refused: Vec::new(), sent: 0 };
        trial.run(by, *reading_goes_on)?;
        tally.note(format!(
            "{name}, filled by {by:?}: {} sends were stored, {} were refused",
            trial.acknowledged.len(),
            trial.refused.len()
        ));
        if tally.is_enough() {
            return Ok(());
        }
    }
    supervised(rig, tally)
}

/// The disk fills up while a program works, and stays full for a while after the program has answered. The supervisor
/// waits for room, and then the answer is there, once.
fn supervised(rig: &Rig, tally: &Tally) -> Result {
    const WAITS: Duration = Duration::from_secs(4);
    let folder = rig.disk.join("tmpfs-supervised");
    let mounted = match Mounted::make(&folder, Kind::Tmpfs) {
        Ok(mounted) => mounted,
        Err(why) => {
            tally.note(format!("tmpfs under a supervisor: SKIPPED, {why}"));
            return Ok(());
        }
    };
    let desk = Desk::with_agents(mounted.path.join("desk"), &rig.sound.poste, &["a", "b"])?;
    // Signal files between the program and this process, outside of the full disk.
    let (begun, go) = (folder.join("begun"), folder.join("go"));
    for sign in [&begun, &go] {
        let _ = fs::remove_file(sign);
    }
    let (begun_text, go_text) = (begun.display(), go.display());
    // A short answer could fit into what the log has already taken of the disk.
    let answer = "yes here you are | head -c 300000";
    let script = format!("echo > '{begun_text}'; until [ -e '{go_text}' ]; do sleep 0.05; done; {answer}");
    let settings = format!("[agent.b]\nrun = [\"/bin/sh\", \"-c\", \"{script}\"]\n");
    let own = desk.office().join("local.toml");
    fs::write(&own, settings).map_err(|error| told(&own, &error))?;
    poste_testkit::state::trust(&desk.office());
    desk.must(&rig.sound.poste, &["send", "b", "How many?", "--type", "question", "--as", "a"])?;
    let mut supervisor = desk::start(&mut desk.command(&rig.tortured.poste, &["run-agent", "b", "1"]))?;
    let trial = Trial {
        rig,
        tally,
        desk: desk.clone(),
        disk: "tmpfs under a supervisor",
        acknowledged: Vec::new(),
        refused: Vec::new(),
        sent: 0,
    };
    let until = Instant::now() + PATIENCE;
    while !begun.exists() {
        if Instant::now() >= until {
            return Err("the program of the supervisor did not begin".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    trial.fill("filler-1")?;
    fs::write(&go, "").map_err(|error| told(&go, &error))?;
    std::thread::sleep(WAITS);
    tally.point();
    let waits = matches!(supervisor.try_wait(), Ok(None));
    tally.check(waits, || format!("{}: the supervisor gave up", trial.disk));
    trial.free()?;
    let ended = desk::finish(supervisor)?;
    tally.point();
    tally.check(ended.is_ok(), || format!("{}, freed: the supervisor ended with {}", trial.disk, ended.told()));
    let track = desk.json(&rig.sound.poste, &["track", "1"])?;
    let state = &track["deliveries"][0]["state"];
    tally.check(state == "done", || format!("{}, freed: the message is {state}", trial.disk));
    let inbox = desk.json(&rig.sound.poste, &["inbox", "--as", "a"])?;
    let answers =
        inbox["messages"].as_array().map_or(0, |all| all.iter().filter(|one| one["type"] == "response").count());
    tally.check(answers == 1, || format!("{}, freed: there are {answers} answers", trial.disk));
    if let Err(broken) = check::sound(&desk.office(), &[]) {
        tally.violation(format!("{}, in the end: {broken}", trial.disk));
    }
    tally.note(format!("tmpfs under a supervisor: {answers} answer after {} s without room", WAITS.as_secs()));
    Ok(())
}

/// One disk that fills up and is freed again.
struct Trial<'a> {
    rig: &'a Rig,
    tally: &'a Tally,
    desk: Desk,
    disk: &'a str,
    acknowledged: Vec<String>,
    refused: Vec<String>,
    sent: usize,
}

impl Trial<'_> {
    fn run(&mut self, by: FilledBy, reading_goes_on: bool) -> Result {
        self.desk = Desk::with_agents(&self.desk.folder, &self.rig.sound.poste, &["a", "b"])?;
        // Room that can be freed later, because the office itself is going to take the rest.
        let ballast = self.root().join("filler-0");
        fs::write(&ballast, vec![b'x'; BALLAST_BYTES]).map_err(|error| told(&ballast, &error))?;
        for _ in 0..3 {
            self.send("small")?;
        }
        if by == FilledBy::TheOffice {
            self.until_full()?;
        }
        self.fill("filler-1")?;
        for round in 0..3 {
            self.look(reading_goes_on)?;
            self.send("while it is full")?;
            self.fill(&format!("filler-2{round}"))?;
        }
        // As after a boot with a full disk: the shared memory has to be created again, and there is no room for it.
        let _ = fs::remove_file(self.desk.office().join("office.db-shm"));
        self.fill("filler-3")?;
        self.look(false)?;
        self.send("without shared memory")?;
        self.free()?;
        self.go_on()
    }

    /// Sends until there is no room: the office itself fills the disk.
    fn until_full(&mut self) -> Result {
        let body = "x".repeat(40_000);
        for _ in 0..400 {
            let before = self.refused.len();
            self.send(&body)?;
            if self.refused.len() > before {
                return Ok(());
            }
        }
        Err(format!("{}: it did not get full", self.disk))
    }

    fn send(&mut self, body: &str) -> Result {
        self.sent += 1;
        let id = format!("full-{}", self.sent);
        let args = ["send", "b", "news", body, "--as", "a", "--id", &id, "--json"];
        let run = self.desk.run(&self.rig.tortured.poste, &args)?;
        self.tally.point();
        match run.code {
            Some(0) => self.acknowledged.push(id),
            Some(DISK_FULL) => self.refused.push(id),
            _ => self.tally.violation(format!("{}: send on a full disk ended with {}", self.disk, run.told())),
        }
        Ok(())
    }

    /// Commands that only read.
    fn look(&self, must_work: bool) -> Result {
        for args in [&["inbox", "--as", "b"][..], &["track", "1"], &["log", "verify"], &["agents"]] {
            let run = self.desk.run(&self.rig.tortured.poste, args)?;
            self.tally.point();
            let is_well = run.is_ok() || (!must_work && run.code == Some(DISK_FULL));
            self.tally.check(is_well, || {
                format!("{}: {} on a full disk ended with {}", self.disk, args.join(" "), run.told())
            });
        }
        Ok(())
    }

    fn root(&self) -> PathBuf {
        self.desk.folder.parent().unwrap_or(&self.desk.folder).to_owned()
    }

    /// Takes all room that is left. It does so twice, because blocks freed a moment ago count only after a sync.
    fn fill(&self, name: &str) -> Result {
        for part in ["a", "b"] {
            let path = self.root().join(format!("{name}-{part}"));
            let Ok(mut file) = File::create(&path) else { continue };
            for size in [64 * 1024, 4096, 1024] {
                while file.write_all(&vec![b'x'; size]).is_ok() {}
            }
            let _ = file.sync_all();
        }
        Ok(())
    }

    fn free(&self) -> Result {
        for entry in fs::read_dir(self.root()).map_err(|error| told(&self.root(), &error))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with("filler") {
                fs::remove_file(entry.path()).map_err(|error| told(&entry.path(), &error))?;
            }
        }
        rustix::fs::syncfs(File::open(self.root()).map_err(|error| told(&self.root(), &error))?)
            .map_err(|error| error.to_string())
    }

    /// With room again, nothing acknowledged is missing, and refused messages can be sent again, under a new id.
    fn go_on(&mut self) -> Result {
        if let Err(broken) = check::sound(&self.desk.office(), &self.acknowledged) {
            self.tally.violation(format!("{}, freed: {broken}", self.disk));
            return Ok(());
        }
        for id in std::mem::take(&mut self.refused) {
            let args = ["send", "b", "news", "small", "--as", "a", "--id", &format!("{id}-again"), "--json"];
            let run = self.desk.run(&self.rig.tortured.poste, &args)?;
            self.tally.point();
            self.tally.check(run.is_ok(), || format!("{}, freed: send ended with {}", self.disk, run.told()));
            self.refused.push(id);
        }
        self.look(true)?;
        if let Err(broken) = check::sound(&self.desk.office(), &self.acknowledged) {
            self.tally.violation(format!("{}, in the end: {broken}", self.disk));
        }
        Ok(())
    }
}

/// A file system of our own, unmounted when dropped.
struct Mounted {
    path: PathBuf,
}

impl Mounted {
    fn make(folder: &Path, kind: Kind) -> Result<Self> {
        let path = folder.join("mounted");
        fs::create_dir_all(&path).map_err(|error| told(&path, &error))?;
        match kind {
            Kind::Tmpfs => {
                let size = format!("size={DISK_BYTES}");
                quietly(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path))?;
            }
            Kind::Ext4 { block } => {
                let image = folder.join("image");
                let file = File::create(&image).map_err(|error| told(&image, &error))?;
                file.set_len(DISK_BYTES).map_err(|error| told(&image, &error))?;
                let block = block.to_string();
                quietly(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0", "-b", &block]).arg(&image))?;
                quietly(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&path))?;
            }
        }
        Ok(Self { path })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = quietly(Command::new("umount").arg(&self.path));
    }
}

fn quietly(command: &mut Command) -> Result {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name} does not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
