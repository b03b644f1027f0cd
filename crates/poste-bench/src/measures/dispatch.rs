//! The cost of a message that an agent is started for, compared with starting the same program alone; and a thousand
//! messages that wait for a hundred agents.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use poste_core::address::Address;
use poste_core::log::Intent;

use crate::office::{WRITER, create, mail, submit};
use crate::report::{Aim, Line, Report, quantity};
use crate::{Bench, Result};

const GROUP: &str = "Dispatch";
const AT_ONCE: u64 = 8;
/// A program that takes as long as the fastest agents might.
const PROGRAM: [&str; 3] = ["sh", "-c", "cat >/dev/null; sleep 0.1; echo done"];
/// A program that ends immediately.
const BRIEF: [&str; 3] = ["sh", "-c", "cat >/dev/null; echo done"];

pub(crate) fn measure(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    overhead(bench, folder, report)?;
    one_by_one(bench, folder, report)?;
    many_agents(bench, folder, report)
}

/// In turns, so that both see the same machine.
fn overhead(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let (rounds, count) = if bench.short { (1, AT_ONCE) } else { (3, 25 * AT_ONCE) };
    let (mut bare, mut dispatched) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        bare.push(spawn_all(&PROGRAM, AT_ONCE, count)?);
        let office = folder.join(format!("overhead-{round}/.poste"));
        let agents = ["worker".to_owned()];
        waiting(&office, &agents, count, &PROGRAM, AT_ONCE)?;
        let started = Instant::now();
        let ended = Dispatch::start(bench, &office)?.finish()?.ended;
        expect(ended.len() as u64, count)?;
        dispatched.push(started.elapsed());
    }
    bare.sort_unstable();
    dispatched.sort_unstable();
    let (bare, dispatched) = (bare[bare.len() / 2], dispatched[dispatched.len() / 2]);
    let each = dispatched.saturating_sub(bare).as_secs_f64() * 1e3 / count as f64;
    let s = |time: Duration| quantity(time.as_secs_f64() * 1e6, "µs");
    report.add(
        Line::new(
            GROUP,
            format!("{count} messages, {AT_ONCE} at once, of the time of starting the same program so often"),
            dispatched.as_secs_f64() / bare.as_secs_f64(),
            "×",
        )
        .aim(Aim::AtMost(1.5))
        .detail(format!("{} against {}; the program takes 100 ms", s(dispatched), s(bare))),
    );
    let what = "what a message takes longer than the bare start of the program";
    report.add(Line::new(GROUP, what, each, "ms").aim(Aim::AtMost(10.0)));
    Ok(())
}

/// The cost of a message with nothing next to it: a program that ends immediately, one run after the other.
fn one_by_one(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let count = if bench.short { 5 } else { 100 };
    let bare = spawn_all(&BRIEF, 1, count)?;
    let office = folder.join("alone/.poste");
    waiting(&office, &["worker".to_owned()], count, &BRIEF, 1)?;
    let started = Instant::now();
    let ended = Dispatch::start(bench, &office)?.finish()?.ended;
    expect(ended.len() as u64, count)?;
    let (bare, dispatched) = (bare.as_secs_f64() * 1e3, started.elapsed().as_secs_f64() * 1e3);
    let what = "one at a time, a program that is over at once: what a message takes longer than the bare start";
    let detail = format!("{:.1} ms against {:.1} ms", dispatched / count as f64, bare / count as f64);
    report.add(Line::new(GROUP, what, (dispatched - bare) / count as f64, "ms").detail(detail));
    Ok(())
}

/// Runs the same program `count` times, `at_once` in parallel, and nothing else.
fn spawn_all(program: &[&str; 3], at_once: u64, count: u64) -> Result<Duration> {
    let left = AtomicU64::new(count);
    let started = Instant::now();
    std::thread::scope(|scope| -> Result {
        let workers: Vec<_> = (0..at_once)
            .map(|_| {
                scope.spawn(|| -> std::io::Result<()> {
                    let take = || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
                    while take().is_ok() {
                        let mut command = Command::new(program[0]);
                        command.args(&program[1..]).stdin(Stdio::null()).stdout(Stdio::null());
                        command.status()?;
                    }
                    Ok(())
                })
            })
            .collect();
        for worker in workers {
            worker.join().map_err(|_| "a thread ended badly")??;
        }
        Ok(())
    })?;
    Ok(started.elapsed())
}

fn many_agents(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let (agents, each) = if bench.short { (10, 2) } else { (100, 10) };
    let names: Vec<String> = (0..agents).map(|nth| format!("worker-{nth}")).collect();
    let office = folder.join("many/.poste");
    waiting(&office, &names, each, &BRIEF, 1)?;
    let Dispatched { ended, peak_kb } = Dispatch::start(bench, &office)?.finish()?;
    expect(ended.len() as u64, agents * each)?;
    report.add(
        Line::new(
            GROUP,
            format!("the peak of a dispatcher with {} messages for {agents} agents", agents * each),
            peak_kb as f64 / 1024.0,
            "MB",
        )
        .aim(Aim::AtMost(40.0)),
    );
    // In turns, every agent's first run ends before any agent's second begins, so the last of the first runs is about
    // the hundredth.
    let mut firsts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut lasts: BTreeMap<&str, usize> = BTreeMap::new();
    for (rank, agent) in ended.iter().enumerate() {
        firsts.entry(agent).or_insert(rank + 1);
        lasts.insert(agent, rank + 1);
    }
    let slowest = firsts.values().max().copied().unwrap_or(0);
    let soonest = lasts.values().min().copied().unwrap_or(0);
    report.add(
        Line::new(
            GROUP,
            "how late the last of the agents has its first answer, in turns of all",
            slowest as f64 / agents as f64,
            "×",
        )
        .aim(Aim::AtMost(1.2))
        .detail(format!(
            "of {} answers, the first agent to be through with its mail was so after {soonest}",
            ended.len()
        )),
    );
    Ok(())
}

fn expect(ended: u64, count: u64) -> Result {
    if ended == count { Ok(()) } else { Err(format!("{ended} of {count} runs ended").into()) }
}

/// An office where `each` messages wait for each of these agents.
fn waiting(path: &Path, agents: &[String], each: u64, program: &[&str; 3], concurrency: u64) -> Result {
    let beside = path.parent().ok_or("an office stands in a folder")?;
    fs::create_dir_all(beside)?;
    let mut office = create(path, agents.iter().map(String::as_str).chain([WRITER]))?;
    let mut config = format!("[dispatch]\nconcurrency = {AT_ONCE}\n");
    for agent in agents {
        config.push_str(&format!(
            "[agent.{agent}]\nrun = {program:?}\nconcurrency = {concurrency}\nstarts_per_minute = 1000000\n"
        ));
    }
    fs::write(path.join("local.toml"), config)?;
    poste_testkit::state::trust(path);
    for nth in 0..each {
        let proposals: Vec<_> = agents
            .iter()
            .map(|agent| {
                let mut proposal = mail(Address::Agent(agent.parse().expect("a name of this benchmark")), nth);
                if let Intent::Send(send) = &mut proposal.intent {
                    send.kind = "directive".parse().expect("a built-in type");
                }
                proposal
            })
            .collect();
        submit(&mut office, &proposals)?;
    }
    Ok(())
}

/// A running dispatcher.
struct Dispatch {
    child: Child,
}

struct Dispatched {
    /// The agents whose runs ended, in order.
    ended: Vec<String>,
    peak_kb: u64,
}

impl Dispatch {
    fn start(bench: &Bench, office: &Path) -> Result<Self> {
        let mut command = bench.poste(office, WRITER, &["dispatch", "--once", "--json"]);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        Ok(Self { child: command.spawn()? })
    }

    fn finish(mut self) -> Result<Dispatched> {
        let status = format!("/proc/{}/status", self.child.id());
        let mut found = Dispatched { ended: Vec::new(), peak_kb: 0 };
        let lines = BufReader::new(self.child.stdout.take().ok_or("it has a stdout")?).lines();
        for line in lines {
            let event: serde_json::Value = serde_json::from_str(&line?)?;
            if event["event"] == "ended" {
                found.ended.push(event["agent"].as_str().ok_or("a run has an agent")?.to_owned());
            }
            // The kernel keeps the peak, so the last reading counts.
            let text = fs::read_to_string(&status).unwrap_or_default();
            let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let peak = peak.and_then(|text| text.trim().trim_end_matches(" kB").trim().parse().ok());
            found.peak_kb = found.peak_kb.max(peak.unwrap_or(0));
        }
        match self.child.wait()?.success() {
            true => Ok(found),
            false => Err("the dispatcher failed".into()),
        }
    }
}
