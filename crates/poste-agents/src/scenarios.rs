//! The scenarios, and what must be visible in the requests to the model and in the office.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use poste_agents::{Asked, Rule, Say};
use serde_json::{Value, json};

use crate::rig::{Rig, SENDER, WORKER, shortened};
use crate::terminal::Terminal;
use crate::{Check, Result};

const TURN_MAX: Duration = Duration::from_secs(90);
const REQUEST_MAX: Duration = Duration::from_secs(40);
const SET_UP_MAX: Duration = Duration::from_secs(120);
/// How long a program takes at most to ask a server for its tools.
const HANDSHAKE: Duration = Duration::from_secs(2);

/// Subjects that cannot occur anywhere else.
const AT_START: &str = "kestrel at the start";
const IN_TURN: &str = "plover in the turn";
/// What the agent's command prints after the mail was sent.
const WENT_ON: &str = "redshank went on";
/// A name that a session takes by itself.
const LATER: &str = "pipitling";
const BETWEEN: &str = "lapwing between sessions";
const WHILE_IDLE: &str = "dunlin while idle";
/// The model believes that it is done, while work is still claimed.
const EARLY: &str = "I am done, too early.";
const ANSWER: &str = "The answer is siskin.";
const SUMMARY: &str = "The plover is done.";

type Tell<'t> = &'t mut dyn FnMut(&Check);

pub fn all(rig: &Rig, short: bool, tell: Tell<'_>) -> Vec<Check> {
    let mut checks = Checks { rig, tell, done: Vec::new(), since: Instant::now() };
    if checks.add("set-up", |rig| set_up(rig, Some(WORKER))) {
        turn(&mut checks);
        if !short {
            checks.add("the roster is there again after a resume", resume);
            if checks.rig.program.at_terminal(checks.rig).is_some() {
                at_terminal(&mut checks);
            }
        }
    }
    checks.add("nothing is left running", left_behind);
    checks.done
}

/// A session that was set up without a name and takes one itself.
pub fn unnamed(rig: &Rig, tell: Tell<'_>) -> Vec<Check> {
    let mut checks = Checks { rig, tell, done: Vec::new(), since: Instant::now() };
    if checks.add("set-up without a name", |rig| set_up(rig, None)) {
        checks.add("a session that registers itself gets mail within the same turn", registers);
    }
    checks.add("nothing is left running", left_behind);
    checks.done
}

/// Each check is reported as soon as its result is known.
struct Checks<'r, 't> {
    rig: &'r Rig,
    tell: Tell<'t>,
    done: Vec<Check>,
    since: Instant,
}

impl Checks<'_, '_> {
    fn add(&mut self, what: &'static str, check: impl FnOnce(&Rig) -> Result<String>) -> bool {
        let outcome = check(self.rig);
        let passed = outcome.is_ok();
        let check = Check { program: self.rig.program, what, outcome, took: self.since.elapsed() };
        self.since = Instant::now();
        (self.tell)(&check);
        self.done.push(check);
        passed
    }
}

fn set_up(rig: &Rig, name: Option<&'static str>) -> Result<String> {
    let mut words = vec![rig.poste().as_os_str().to_owned()];
    words.extend(rig.program.set_up(name).into_iter().map(Into::into));
    let mut running = rig.spawn("setup", &words)?;
    let status = running.end_within(SET_UP_MAX)?;
    if !status.success() {
        return Err(format!("poste setup: {status}\n{}", running.tail()));
    }
    let out = running.out();
    Ok(out.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned())
}

/// One turn without a terminal: mail before it and during it, claimed work, a stop that is too early, an answer.
fn turn(checks: &mut Checks<'_, '_>) {
    let rig = checks.rig;
    let mut number = 0;
    let played = play_turn(rig, &mut number);
    let asked = rig.model().asked();
    checks.add("the turn ends without help", |_| played);
    checks.add("the agents and the pending mail, at the start", |_| {
        let first = asked.first().ok_or("nothing was asked")?;
        seen(first, 1, &[SENDER, AT_START])
    });
    checks.add("mail sent within the turn is in the very next request", |_| {
        let second = asked.get(1).ok_or("there was no second request")?;
        seen(second, 2, &[WENT_ON, IN_TURN])
    });
    checks.add("it is told once", |_| told_once(&asked));
    checks.add("a stop is held while claimed work is open", |_| {
        let early = |asked: &Asked| spoke_last(asked).contains(EARLY);
        let index = asked.iter().position(early).ok_or("it was not asked again after it wanted to stop")?;
        seen(&asked[index], index + 1, &[&format!("#{number}")])
    });
    checks.add("the answer went through the tool", |rig| answered(rig, number));
    checks.add("the sender sees the ladder, with times", |rig| ladder(rig, number));
}

fn play_turn(rig: &Rig, number: &mut u64) -> Result<String> {
    rig.send(WORKER, AT_START, &[])?;
    let (wait, go) = waits(rig)?;
    rig.model().then([wait]);
    let mut running = rig.spawn("turn", &rig.program.turn(rig, "Do what waits for you.", false))?;
    if !rig.model().wait_for(1, REQUEST_MAX) {
        return Err(format!("it never asked the model\n{}", end(&mut running)));
    }
    *number = rig.send(WORKER, IN_TURN, &["--type", "directive", "--priority", "urgent"])?;
    rig.model().then(work(*number));
    fs::write(&go, "").map_err(|error| error.to_string())?;
    let status = running.end_within(TURN_MAX)?;
    if !status.success() {
        return Err(format!("{status}\n{}", running.tail()));
    }
    if !rig.model().is_spent() {
        return Err(format!("it ended before the script did\n{}", running.tail()));
    }
    Ok(format!("{} requests to the model, {status}", rig.model().asked().len()))
}

/// A command of the agent that waits for a file, and that file. It waits for the mail rather than for a clock, but not
/// forever.
fn waits(rig: &Rig) -> Result<(Rule, PathBuf)> {
    let (go, script) = (rig.path("go"), rig.path("wait.sh"));
    let wait = format!(
        "i=0\nwhile [ ! -e '{}' ] && [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done\necho {WENT_ON}\n",
        go.display()
    );
    // In a file, because some programs refuse a command that computes.
    fs::write(&script, wait).map_err(|error| error.to_string())?;
    let (tool, arguments) = rig.program.shell(&format!("sh '{}'", script.display()));
    Ok((Rule::next(Say::call(tool, arguments)), go))
}

fn registers(rig: &Rig) -> Result<String> {
    let (wait, go) = waits(rig)?;
    let register = Say::call("office", json!({ "action": "register", "name": LATER, "role": "worker" }));
    rig.model().then([Rule::next(register), wait, Rule::next(Say::text("Heard."))]);
    let mut running = rig.spawn("turn", &rig.program.turn(rig, "Take a name.", false))?;
    let deadline = Instant::now() + REQUEST_MAX;
    while rig.model().steps_left() > 1 {
        if Instant::now() > deadline {
            return Err(format!("it did not come to its second step\n{}", end(&mut running)));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    rig.send(LATER, IN_TURN, &["--type", "directive", "--priority", "urgent"])?;
    fs::write(&go, "").map_err(|error| error.to_string())?;
    let status = running.end_within(TURN_MAX)?;
    let asked = rig.model().asked();
    let went_on = asked.iter().position(|asked| asked.news().contains(WENT_ON));
    let index = went_on.ok_or_else(|| format!("its command never ended: {status}\n{}", running.tail()))?;
    seen(&asked[index], index + 1, &[WENT_ON, IN_TURN])
}

/// Claims it, tries to stop, answers it and finishes it.
fn work(number: u64) -> [Rule; 5] {
    [
        Say::call("claim_work", json!({ "number": number })),
        Say::text(EARLY),
        Say::call("reply", json!({ "number": number, "body": ANSWER })),
        Say::call("finish_work", json!({ "number": number, "outcome": "done", "summary": SUMMARY })),
        Say::text("Now it is done."),
    ]
    .map(Rule::next)
}

fn end(running: &mut crate::rig::Running) -> String {
    match running.end_within(Duration::ZERO) {
        Ok(status) => format!("{status}\n{}", running.tail()),
        Err(error) => error,
    }
}

/// Where a text is in the new part of a request.
fn seen(asked: &Asked, index: usize, wanted: &[&str]) -> Result<String> {
    let news = asked.news();
    let mut evidence = Vec::new();
    for text in wanted {
        let Some(at) = news.find(text) else {
            return Err(format!("request {index} has no {text:?} in its new part:\n{}", shortened(&news, 3000)));
        };
        let line = news[..at].rfind('\n').map_or(0, |before| before + 1);
        let end = news[at..].find('\n').map_or(news.len(), |after| at + after);
        let line = format!("{:?}", shortened(&news[line..end], 160));
        if !evidence.contains(&line) {
            evidence.push(line);
        }
    }
    Ok(format!("request {index}: {}", evidence.join(", ")))
}

/// Mail that the agent never asks about enters its conversation only once.
fn told_once(asked: &[Asked]) -> Result<String> {
    let numbered = asked.iter().enumerate();
    let told: Vec<usize> =
        numbered.filter(|(_, asked)| asked.news().contains(AT_START)).map(|(index, _)| index + 1).collect();
    match told.as_slice() {
        [one] => Ok(format!("request {one} alone")),
        _ => Err(format!("{AT_START:?} is new in requests {told:?}")),
    }
}

/// What the model said last, as the request repeats it.
fn spoke_last(asked: &Asked) -> String {
    let all = asked.text();
    let news = asked.news();
    all.strip_suffix(&news).map_or(all.clone(), str::to_owned)
}

fn answered(rig: &Rig, number: u64) -> Result<String> {
    let track = rig.poste_as(Some(SENDER), &["track", &number.to_string()])?;
    let answer = track["deliveries"][0]["answer"].as_u64().ok_or_else(|| format!("no answer in {track}"))?;
    let read = rig.poste_as(Some(SENDER), &["read", &answer.to_string()])?;
    if read.to_string().contains(ANSWER) {
        Ok(format!("#{answer} of {WORKER}, to #{number}: {ANSWER:?}"))
    } else {
        Err(format!("#{answer} is {read}"))
    }
}

fn ladder(rig: &Rig, number: u64) -> Result<String> {
    let track = rig.poste_as(Some(SENDER), &["track", &number.to_string()])?;
    let delivery = &track["deliveries"][0];
    let mut rungs = vec![("stored", &track["stored_at"])];
    for (rung, field) in
        [("shown", "shown_at"), ("claimed", "claimed_at"), ("answered", "answered_at"), ("ended", "ended_at")]
    {
        rungs.push((rung, &delivery[field]));
    }
    let missing: Vec<&str> = rungs.iter().filter(|(_, at)| !at.is_string()).map(|(rung, _)| *rung).collect();
    if !missing.is_empty() || delivery["state"] != "done" {
        return Err(format!("no time for {missing:?} in {delivery}"));
    }
    if delivery["session"].is_null() {
        return Err(format!("the claim has no session in {delivery}"));
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(rungs.iter().map(|(rung, at)| format!("{rung} {}", text(at))).collect::<Vec<_>>().join(", "))
}

/// The same session in a new process.
fn resume(rig: &Rig) -> Result<String> {
    rig.send(WORKER, BETWEEN, &[])?;
    let before = rig.model().asked().len();
    rig.model().then([Rule::next(Say::text("I am back."))]);
    let mut running = rig.spawn("resume", &rig.program.turn(rig, "Go on.", true))?;
    let status = running.end_within(TURN_MAX)?;
    let asked = rig.model().asked();
    let Some(first) = asked.get(before) else {
        return Err(format!("it never asked the model: {status}\n{}", running.tail()));
    };
    seen(first, before + 1, &[SENDER, BETWEEN])
}

/// A session with a person in front of it: it is woken when idle, and told again after it was compacted.
fn at_terminal(checks: &mut Checks<'_, '_>) {
    let rig = checks.rig;
    let Some(words) = rig.program.at_terminal(rig) else { return };
    let opened = Terminal::open(rig, &words).and_then(|terminal| {
        terminal.wait_for("❯", REQUEST_MAX)?;
        server_is_there(rig)?;
        Ok(terminal)
    });
    let (outcome, terminal) = match opened {
        Ok(terminal) => (Ok("it waits for a prompt".to_owned()), Some(terminal)),
        Err(error) => (Err(error), None),
    };
    checks.add("it starts at a terminal", |_| outcome);
    let Some(terminal) = terminal else { return };
    if checks.add("a turn at the terminal", |rig| prompt(rig, &terminal, "Good morning.")) {
        let mut number = 0;
        checks.add("mail wakes it when it is idle", |rig| wake(rig, &mut number));
        checks.add("the sender sees that it was woken", |rig| woken(rig, number));
        checks.add("the roster is there again after /compact", |rig| compact(rig, &terminal));
    }
    checks.add("it ends at the terminal", |_| {
        terminal.line("/exit")?;
        terminal.wait_for_end(REQUEST_MAX)?;
        Ok("/exit".to_owned())
    });
}

/// A prompt before the program knows its servers offers no tools, and later turns do not learn about them.
fn server_is_there(rig: &Rig) -> Result {
    let deadline = Instant::now() + REQUEST_MAX;
    while !rig.running().iter().any(|(_, words)| words.contains("poste mcp")) {
        if Instant::now() > deadline {
            return Err("it never started poste mcp".to_owned());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(HANDSHAKE);
    Ok(())
}

fn prompt(rig: &Rig, terminal: &Terminal<'_>, text: &str) -> Result<String> {
    let before = rig.model().asked().len();
    let answer = format!("Heard: {text}");
    rig.model().then([Rule::next(Say::text(&answer))]);
    terminal.line(text)?;
    terminal.wait_for(&answer, REQUEST_MAX)?;
    let asked = rig.model().asked();
    let first = asked.get(before).ok_or("nothing was asked")?;
    seen(first, before + 1, &[text])
}

/// Nothing is typed: the mail alone starts a turn.
fn wake(rig: &Rig, sent: &mut u64) -> Result<String> {
    let before = rig.model().asked().len();
    let number = rig.send(WORKER, WHILE_IDLE, &["--type", "directive", "--priority", "urgent"])?;
    *sent = number;
    rig.model().then([
        Rule::next(Say::call("claim_work", json!({ "number": number }))),
        Rule::next(Say::call("finish_work", json!({ "number": number, "outcome": "done", "summary": "Seen to." }))),
        Rule::next(Say::text("Seen to.")),
    ]);
    let woken = rig.model().wait_until(REQUEST_MAX, |asked| asked.len() > before);
    if !woken {
        let track = rig.poste_as(Some(SENDER), &["track", &number.to_string()])?;
        return Err(format!("no turn began within {} s; {track}", REQUEST_MAX.as_secs()));
    }
    let evidence = seen(&rig.model().asked()[before], before + 1, &[WHILE_IDLE])?;
    let deadline = Instant::now() + REQUEST_MAX;
    while !rig.model().is_spent() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    let track = rig.poste_as(Some(SENDER), &["track", &number.to_string()])?;
    let state = &track["deliveries"][0]["state"];
    if state == "done" { Ok(format!("{evidence}; then done")) } else { Err(format!("{evidence}; but it is {state}")) }
}

fn woken(rig: &Rig, number: u64) -> Result<String> {
    let track = rig.poste_as(Some(SENDER), &["track", &number.to_string()])?;
    match track["deliveries"][0]["wakes"].as_array().and_then(|wakes| wakes.first()) {
        Some(wake) => Ok(shortened(&wake.to_string(), 200)),
        None => Err(format!("no wake in {track}")),
    }
}

fn compact(rig: &Rig, terminal: &Terminal<'_>) -> Result<String> {
    let summary = Say::text("<analysis>All of it.</analysis>\n<summary>There was mail, and it is done.</summary>");
    rig.model().then([Rule::whenever("detailed summary", summary)]);
    terminal.line("/compact")?;
    terminal.wait_for("Compacted", REQUEST_MAX)?;
    let before = rig.model().asked().len();
    prompt(rig, terminal, "And now?")?;
    let asked = rig.model().asked();
    let first = asked.get(before).ok_or("nothing was asked")?;
    seen(first, before + 1, &[SENDER])
}

fn left_behind(rig: &Rig) -> Result<String> {
    // A process that ends with its program needs a moment for it.
    let deadline = Instant::now() + Duration::from_secs(3);
    while !rig.running().is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    let left = rig.left_behind();
    if left.is_empty() { Ok("no process works in its folders".to_owned()) } else { Err(left.join("\n")) }
}
