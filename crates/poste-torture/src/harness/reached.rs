//! Agents reached inside their own sessions: SIGKILL before every system call of a hook, of the MCP server and of a
//! ring.
//!
//! Afterwards, the office is sound, nothing counts as shown that was not printed, what was not printed is shown by the
//! next call, and what a tool acknowledged is there, once.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::acts::{Act, Base};
use crate::check;
use crate::desk::{self, Desk, Run, told};
use crate::rig::{Program, Result, Rig, Tally, on_every_core};
use crate::strace::{self, Call};

const SHORT_POINTS: usize = 7;

/// The text of #1, an alert, which a hook prints in full.
const BODY: &str = "the cellar is under water";
/// What the tool sends.
const SUBJECT: &str = "buckets, please";

/// One call of an agent program, and the office it finds.
struct Case {
    act: Act,
    base: &'static str,
    /// What has to be printed, at the latest when the same call is repeated.
    says: &'static str,
}

struct Point<'a> {
    case: &'a Case,
    call: Call,
}

pub(crate) fn run(rig: &Rig, tally: &Tally) -> Result {
    let folder = rig.memory.join("reached");
    let cases = cases(&folder.join("files"))?;
    make_bases(rig, &folder)?;
    let mut rng = rig.rng("reached");
    let mut points = Vec::new();
    for case in &cases {
        let desk = copy(&folder, case, "recorded")?;
        let calls = strace::record(&desk, &agents_own(&rig.tortured.poste), &case.act, &folder.join("trace"))?;
        let calls = strace::where_to_kill(rig, &mut rng, &calls, SHORT_POINTS);
        points.extend(calls.into_iter().map(|call| Point { case, call }));
    }
    if rig.stops_early {
        points.reverse(); // a fault shows first in what is done last
    }
    tally.expect(points.len());
    on_every_core(&points, tally, |core, point| {
        let desk = copy(&folder, point.case, &format!("core-{core}"))?;
        let run = strace::kill_before(&desk, &agents_own(&rig.tortured.poste), &point.case.act, &point.call)?;
        if let Err(violation) = judge(rig, &desk, point.case, &run)? {
            tally.violation(format!("{} killed before {}: {violation}", point.case.act.name, point.call));
        }
        tally.point();
        Ok(())
    })
}

fn copy(folder: &Path, case: &Case, name: &str) -> Result<Desk> {
    let copy = Desk::at(folder.join(case.base)).copy_to(folder.join(name))?;
    // A copy is another office, in which nothing is trusted yet.
    poste_testkit::state::trust(&copy.office());
    Ok(copy)
}

/// `quiet`: `a` and `b`, and the alert for `b`. `running`: `b` ran before the alert arrived. `told`: its session was
/// told.
fn make_bases(rig: &Rig, folder: &Path) -> Result {
    let poste = &rig.sound.poste;
    let alert = ["send", "b", "water", BODY, "--type", "alert", "--as", "a"];
    let files = folder.join("files");
    let quiet = Desk::with_agents(folder.join("quiet"), poste, &["a", "b"])?;
    let local = quiet.office().join("local.toml");
    fs::write(&local, "[wake]\ncommand = [\"true\"]\n").map_err(|error| told(&local, &error))?;
    poste_testkit::state::trust(&quiet.office());
    let running = quiet.copy_to(folder.join("running"))?;
    quiet.must(poste, &alert)?;
    feed(&running, poste, "session-start", &files)?;
    running.must(poste, &alert)?;
    let was_told = running.copy_to(folder.join("told"))?;
    feed(&was_told, poste, "tool", &files)?;
    Ok(())
}

fn feed(desk: &Desk, poste: &Program, event: &str, files: &Path) -> Result {
    let run = again(desk, poste, &hook(event, files)?)?;
    if run.is_ok() { Ok(()) } else { Err(format!("the hook {event} ended with {}", run.told())) }
}

fn cases(files: &Path) -> Result<Vec<Case>> {
    fs::create_dir_all(files).map_err(|error| told(files, &error))?;
    let case = |event, base, says| hook(event, files).map(|act| Case { act, base, says });
    Ok(vec![
        case("session-start", "quiet", "You are b")?,
        case("tool", "running", BODY)?,
        case("stop", "told", "\"block\"")?,
        case("session-end", "told", "")?,
        Case { act: server(files)?, base: "quiet", says: BODY },
        // A copy of an office is another machine, which does not ring the sessions of the original.
        Case { act: act("wake", "wake b --as a --json", None), base: "quiet", says: "\"rung\"" },
    ])
}

fn act(name: &'static str, args: &str, input: Option<PathBuf>) -> Act {
    let args = args.split(' ').map(str::to_owned).collect();
    Act { name, base: Base::Office, args, input, ids: Vec::new(), migrates: false }
}

fn hook(event: &str, files: &Path) -> Result<Act> {
    let (name, input) = match event {
        "session-start" => ("session-start", json!({"hook_event_name": "SessionStart", "source": "startup"})),
        "tool" => ("tool", json!({"hook_event_name": "PostToolUse", "tool_name": "Bash"})),
        "stop" => ("stop", json!({"hook_event_name": "Stop", "stop_hook_active": false})),
        _ => ("session-end", json!({"hook_event_name": "SessionEnd", "reason": "exit"})),
    };
    let mut input = input;
    input["session_id"] = json!("run");
    let path = write(files, name, &[input])?;
    Ok(act(name, &format!("hook {name} --program claude-code"), Some(path)))
}

fn server(files: &Path) -> Result<Act> {
    let call = |id: u32, name: &str, arguments: Value| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}});
    let client = json!({"name": "torture", "version": "1"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        call(2, "send_message", json!({"to": "a", "subject": SUBJECT})),
        call(3, "read_message", json!({"number": 1})),
    ];
    Ok(act("mcp", "mcp", Some(write(files, "mcp", &lines)?)))
}

fn write(files: &Path, name: &str, lines: &[Value]) -> Result<PathBuf> {
    let path = files.join(name);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&path, text).map_err(|error| told(&path, &error))?;
    Ok(path)
}

/// As an agent program starts it: the name is in the environment.
fn agents_own(poste: &Program) -> Program {
    let mut own = poste.clone();
    own.env.push(("POSTE_AGENT", "b".to_owned()));
    own
}

fn again(desk: &Desk, poste: &Program, act: &Act) -> Result<Run> {
    let mut command = desk.command(&agents_own(poste), &act.args);
    if let Some(input) = &act.input {
        desk::input_from(&mut command, input)?;
    }
    desk::finish(desk::start(&mut command)?)
}

/// Checks what a call left behind, and the same call once more. The inner error is a violation.
fn judge(rig: &Rig, desk: &Desk, case: &Case, run: &Run) -> Result<Result> {
    if let Err(broken) = check::sound(&desk.office(), &[]) {
        return Ok(Err(broken.to_string()));
    }
    if case.base != "told" && was_shown(rig, desk)? && !printed(run, BODY) {
        return Ok(Err("it counts as shown, and was not printed".to_owned()));
    }
    let sent = sent_by_tool(rig, desk)?;
    if sent > 1 || (sent == 0 && answers_the_send(run)) {
        return Ok(Err(format!("the tool's message is there {sent} times; answered: {}", answers_the_send(run))));
    }
    let next = again(desk, &rig.tortured.poste, &case.act)?;
    if next.signal.is_some() || !next.is_documented() {
        return Ok(Err(format!("the same call again ended with {}", next.told())));
    }
    if !printed(run, case.says) && !printed(&next, case.says) {
        return Ok(Err(format!("neither it nor the next call said {:?}, but {}", case.says, next.out)));
    }
    let doctor = desk.run(&rig.sound.poste, &["doctor", "--json"])?;
    Ok(if doctor.is_ok() { Ok(()) } else { Err(format!("doctor is not content: {}", doctor.out)) })
}

/// Whether it was printed in a complete line: an agent program ignores half a line.
fn printed(run: &Run, words: &str) -> bool {
    let whole = run.out.rsplit_once('\n').map_or("", |(whole, _)| whole);
    words.is_empty() || whole.contains(words)
}

fn answers_the_send(run: &Run) -> bool {
    run.out.split_inclusive('\n').filter(|line| line.ends_with('\n')).any(|line| {
        serde_json::from_str::<Value>(line)
            .is_ok_and(|answer| answer["id"] == 2 && answer["result"]["isError"] == json!(false))
    })
}

fn was_shown(rig: &Rig, desk: &Desk) -> Result<bool> {
    let track = desk.json(&rig.sound.poste, &["track", "1", "--as", "a"])?;
    Ok(!track["deliveries"][0]["shown_at"].is_null())
}

fn sent_by_tool(rig: &Rig, desk: &Desk) -> Result<usize> {
    let inbox = desk.json(&rig.sound.poste, &["inbox", "--as", "a"])?;
    Ok(inbox.to_string().matches(SUBJECT).count())
}
