//! Dispatched agents: every process is killed at random, and dispatchers at every step of a workflow. All the work gets
//! done, by one worker at a time, and no process is left behind.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use poste_testkit::rng::Rng;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::check;
use crate::desk::{self, Desk};
use crate::rig::{Result, Rig, Tally};

/// Two of them, so that they also compete with each other.
const DISPATCHERS: usize = 2;
/// A round that takes longer is a hang.
const PATIENCE: Duration = Duration::from_secs(1_800);
const STEPS: usize = 20;

/// Holds a lock on its message as long as any of its processes lives, and reports if the lock is already taken.
/// Sometimes it leaves the process group, hangs for a while, or fails.
const WORKER: &str = r#"#!/bin/sh
exec 9>"live/$POSTE_MESSAGE"
flock -n -E 7 9
case $? in
  0) ;;
  7) echo "$POSTE_MESSAGE in $POSTE_RUN" >> twice ;;
  *) exit 4 ;; # killed itself
esac
case $(( $(od -An -N1 -tu1 /dev/urandom) % 16 )) in
  0) setsid sleep 30 & ;;
  1) sleep 1 ;;
  2) exit 3 ;;
esac
echo "$POSTE_MESSAGE" >> worked
echo done
"#;

const STEP: &str = "#!/bin/sh\ncat > /dev/null\necho \"$POSTE_MESSAGE\" >> worked\necho done\n";

pub(crate) fn run(rig: &Rig, tally: &Tally) -> Result {
    everybody_dies(rig, tally)?;
    at_every_step(rig, tally)
}

/// Many agents with mail, and a killer among dispatchers, supervisors and agents.
fn everybody_dies(rig: &Rig, tally: &Tally) -> Result {
    let (agents, letters) = rig.pick((6, 5), (200, 50));
    let names: Vec<String> = (0..agents).map(|number| format!("agent-{number}")).collect();
    let desk = Desk::clean(rig.disk.join("dispatch"))?;
    desk.must(&rig.sound.poste, &["init"])?;
    write(&desk.folder.join("worker.sh"), WORKER)?;
    fs::create_dir_all(desk.folder.join("live")).map_err(|error| desk::told(&desk.folder, &error))?;
    write(&desk.office().join("local.toml"), &settings(&names, "worker.sh"))?;
    poste_testkit::state::trust(&desk.office());
    write(&desk.folder.join("poste.toml"), "[delivery]\nmax_attempts = 100\nretry_delay = \"0s\"\nlease = \"30s\"\n")?;
    for name in names.iter().map(String::as_str).chain(["lead"]) {
        desk.must(&rig.sound.poste, &["register", name])?;
    }
    for name in &names {
        for letter in 0..letters {
            let body = format!("work {letter}");
            desk.must(&rig.sound.poste, &["send", name, &body, "--type", "directive", "--as", "lead"])?;
        }
    }
    let total = agents * letters;
    tally.expect(total);
    let started = Instant::now();
    let is_over = AtomicBool::new(false);
    let kills = std::thread::scope(|scope| {
        let killer = scope.spawn(|| kill_at_random(rig, &desk, &is_over));
        let worked = dispatch_until(rig, &desk, || open_deliveries(rig, &desk).map(|open| open == 0));
        is_over.store(true, Relaxed);
        let kills = killer.join().map_err(|_| "the killer panicked".to_owned())?;
        worked.map(|()| kills)
    })?;
    (0..total).for_each(|_| tally.point());
    tally.note(format!(
        "{total} messages to {agents} agents in {:.1} s; killed: {}",
        started.elapsed().as_secs_f64(),
        kills.iter().map(|(whom, count)| format!("{count} {whom}")).collect::<Vec<_>>().join(", ")
    ));
    tally.check(!kills.is_empty() || rig.is_short(), || "no process was killed".to_owned());
    let twice = fs::read_to_string(desk.folder.join("twice")).unwrap_or_default();
    tally.check(twice.is_empty(), || format!("two worked on one message at once: {twice}"));
    all_answered(rig, tally, &desk, total)?;
    nobody_left(rig, tally, &desk)
}

fn settings(names: &[String], program: &str) -> String {
    let mut text = String::from("[dispatch]\nconcurrency = 16\n");
    for name in names {
        let _ = write!(
            text,
            "[agent.{name}]\nrun = [\"/bin/sh\", \"{program}\"]\nconcurrency = 2\nretries = 100\nbackoff = \"0s\"\n\
             grace = \"0s\"\nstarts_per_minute = 100000\n"
        );
    }
    text
}

fn write(path: &Path, text: &str) -> Result {
    fs::write(path, text).map_err(|error| desk::told(path, &error))
}

/// Keeps two dispatchers running until `is_over`.
fn dispatch_until(rig: &Rig, desk: &Desk, is_over: impl Fn() -> Result<bool>) -> Result {
    let started = Instant::now();
    let mut dispatchers: Vec<Child> = Vec::new();
    let ended = loop {
        dispatchers.retain_mut(|dispatcher| matches!(dispatcher.try_wait(), Ok(None)));
        while dispatchers.len() < DISPATCHERS {
            dispatchers.push(dispatcher(rig, desk)?);
        }
        std::thread::sleep(Duration::from_millis(200));
        match is_over() {
            Ok(false) if started.elapsed() < PATIENCE => {}
            Ok(false) => break Err("the work was not done in half an hour".to_owned()),
            Ok(true) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    for mut dispatcher in dispatchers {
        let _ = dispatcher.kill();
        let _ = dispatcher.wait();
    }
    ended
}

fn dispatcher(rig: &Rig, desk: &Desk) -> Result<Child> {
    let mut command = desk.command(&rig.tortured.poste, &["dispatch"]);
    command.env("POSTE_HOME", desk.office()).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    desk::start(&mut command)
}

fn open_deliveries(rig: &Rig, desk: &Desk) -> Result<u64> {
    let everybody = desk.json(&rig.sound.poste, &["agents"])?;
    let agents = everybody["agents"].as_array().ok_or("no agents are listed")?;
    let workers = agents.iter().filter(|agent| agent["name"] != "lead");
    workers
        .map(|agent| Some(agent["pending"].as_u64()? + agent["claimed"].as_u64()?))
        .sum::<Option<u64>>()
        .ok_or_else(|| "the list of agents does not tell what waits".to_owned())
}

/// Every process of this office, by its role.
fn alive(office: &Path) -> Vec<(&'static str, u32)> {
    let mark = [b"POSTE_HOME=", office.as_os_str().as_encoded_bytes()].concat();
    let has = |text: &[u8], line: &[u8]| text.split(|byte| *byte == 0).any(|other| other == line);
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        if !has(&environment, &mark) {
            continue;
        }
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let what = match () {
            () if has(&words, b"run-agent") => "supervisors",
            () if has(&words, b"dispatch") => "dispatchers",
            () if words.is_empty() => continue, // it has exited, but was not reaped yet
            () => "agents",
        };
        found.push((what, process));
    }
    found
}

fn kill_at_random(rig: &Rig, desk: &Desk, is_over: &AtomicBool) -> BTreeMap<&'static str, u64> {
    let mut rng: Rng = rig.rng("dispatch");
    let mut killed = BTreeMap::new();
    while !is_over.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(rng.below(rig.pick(400, 250)) as u64));
        let alive = alive(&desk.office());
        let kinds = ["dispatchers", "supervisors", "agents"];
        let kind = kinds[rng.below(kinds.len())];
        let of_kind: Vec<u32> = alive.into_iter().filter(|(what, _)| *what == kind).map(|(_, id)| id).collect();
        if let Some(process) = rng.pick_any(&of_kind)
            && kill(*process, &desk.office())
        {
            *killed.entry(kind).or_default() += 1;
        }
    }
    killed
}

/// Kills a process of the office. Its pid may have been reused, so it is checked again once a pidfd is open.
fn kill(process: u32, office: &Path) -> bool {
    let Some(held) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return false };
    let Ok(held) = pidfd_open(held, PidfdFlags::empty()) else { return false };
    alive(office).iter().any(|(_, id)| *id == process) && pidfd_send_signal(held, Signal::KILL).is_ok()
}

/// Checks that every message was answered once, and that the office is sound.
fn all_answered(rig: &Rig, tally: &Tally, desk: &Desk, total: usize) -> Result {
    let status = desk.json(&rig.sound.poste, &["status"])?;
    let dead = status["dead"]["count"].as_u64();
    tally.check(dead == Some(0), || format!("{dead:?} deliveries were given up"));
    let mut answered = 0;
    for number in 1..=total {
        let track = desk.json(&rig.sound.poste, &["track", &number.to_string()])?;
        let delivery = &track["deliveries"][0];
        let (state, events) = (&delivery["state"], delivery["history"].as_array().cloned().unwrap_or_default());
        let answers = events.iter().filter(|event| event["event"] == "answered").count();
        answered += usize::from(state == "done");
        tally.check(state == "done" && answers == 1, || format!("message {number} is {state}, with {answers} answers"));
    }
    tally.check(answered == total, || format!("{answered} of {total} messages are done"));
    if let Err(broken) = check::sound(&desk.office(), &[]) {
        tally.violation(format!("after the work, {broken}"));
    }
    Ok(())
}

/// The next dispatcher ends what the killed processes left behind.
fn nobody_left(rig: &Rig, tally: &Tally, desk: &Desk) -> Result {
    let mut command = desk.command(&rig.tortured.poste, &["dispatch", "--once"]);
    let last = desk::finish(desk::start(command.env("POSTE_HOME", desk.office()))?)?;
    tally.check(last.is_ok(), || format!("the last dispatcher ended with {}", last.told()));
    let until = Instant::now() + Duration::from_secs(5);
    let mut left = alive(&desk.office());
    while !left.is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
        left = alive(&desk.office());
    }
    tally.check(left.is_empty(), || format!("still alive: {left:?}"));
    for (_, process) in left {
        kill(process, &desk.office());
    }
    Ok(())
}

/// Twenty steps, one after the other; the dispatcher is killed whenever one was worked on.
fn at_every_step(rig: &Rig, tally: &Tally) -> Result {
    let (rounds, steps) = rig.pick((1, 5), (50, STEPS));
    tally.expect(rounds * steps);
    let desk = Desk::clean(rig.disk.join("steps"))?;
    desk.must(&rig.sound.poste, &["init"])?;
    for name in ["worker", "lead"] {
        desk.must(&rig.sound.poste, &["register", name])?;
    }
    write(&desk.folder.join("step.sh"), STEP)?;
    write(&desk.office().join("local.toml"), &settings(&["worker".to_owned()], "step.sh"))?;
    poste_testkit::state::trust(&desk.office());
    let folder = desk.office().join("workflows");
    fs::create_dir_all(&folder).map_err(|error| desk::told(&folder, &error))?;
    write(&folder.join("long.toml"), &workflow(steps))?;
    let mut rng = rig.rng("steps");
    let started = Instant::now();
    for round in 0..rounds {
        let worked = desk.folder.join("worked");
        let _ = fs::remove_file(&worked);
        desk.must(&rig.sound.poste, &["workflow", "run", "long", "--as", "lead"])?;
        let kills = kill_at_steps(rig, &desk, &mut rng, &worked, steps)?;
        let lines = fs::read_to_string(&worked).unwrap_or_default();
        let mut numbers: Vec<&str> = lines.lines().collect();
        let ran = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        tally.check(ran == steps && numbers.len() == steps, || {
            format!("round {round}: {steps} steps ran {ran} times, {} of them different", numbers.len())
        });
        // Two steps may end between two looks.
        tally.check(kills >= steps * 3 / 4, || format!("round {round}: only {kills} kills"));
        (0..steps).for_each(|_| tally.point());
        if tally.is_enough() {
            break;
        }
    }
    tally.note(format!("{rounds} workflows of {steps} steps in {:.1} s", started.elapsed().as_secs_f64()));
    if let Err(broken) = check::sound(&desk.office(), &[]) {
        tally.violation(format!("after the workflows, {broken}"));
    }
    nobody_left(rig, tally, &desk)
}

fn workflow(steps: usize) -> String {
    let mut text = String::from("name = \"long\"\n");
    for step in 1..=steps {
        let _ = write!(text, "\n[[step]]\nkey = \"s{step}\"\nagent = \"worker\"\nrequest = \"step {step}\"\n");
        if step > 1 {
            let _ = writeln!(text, "needs = [\"s{}\"]", step - 1);
        }
    }
    text
}

/// Kills the dispatcher a moment after each step was worked on, and returns how often.
fn kill_at_steps(rig: &Rig, desk: &Desk, rng: &mut Rng, worked: &PathBuf, steps: usize) -> Result<usize> {
    let started = Instant::now();
    let (mut seen, mut kills) = (0, 0);
    let mut running = dispatcher(rig, desk)?;
    let ended = loop {
        std::thread::sleep(Duration::from_millis(1));
        let lines = fs::read_to_string(worked).map_or(0, |text| text.lines().count());
        if lines > seen {
            seen = lines;
            std::thread::sleep(Duration::from_micros(rng.below(30_000) as u64));
            running.kill().and_then(|()| running.wait()).map_err(|error| error.to_string())?;
            kills += 1;
            running = dispatcher(rig, desk)?;
        }
        if seen >= steps && is_finished(rig, desk)? {
            break Ok(kills);
        }
        if started.elapsed() > PATIENCE {
            break Err(format!("after {seen} of {steps} steps nothing happened any more"));
        }
    };
    let _ = running.kill();
    let _ = running.wait();
    ended
}

fn is_finished(rig: &Rig, desk: &Desk) -> Result<bool> {
    let list = desk.json(&rig.sound.poste, &["workflow", "list", "--all"])?;
    let workflows = list["workflows"].as_array().or_else(|| list.as_array()).cloned().unwrap_or_default();
    Ok(!workflows.is_empty() && workflows.iter().all(|workflow| workflow["state"] == "finished"))
}
