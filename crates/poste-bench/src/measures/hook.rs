//! A hook with nothing to say, compared with a process that does nothing. It runs after every tool of every session.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::children::NOTHING;
use crate::office::{READER, WRITER, create};
use crate::report::{Aim, Line, Report, quantity};
use crate::sample::{Action, in_turns, timed};
use crate::{Bench, Result, succeed};

const GROUP: &str = "Hooks";
/// The event that Claude Code sends about a tool.
const EVENT: &str = r#"{"session_id":"bench-1","transcript_path":"/nowhere.jsonl","cwd":"/","permission_mode":"default","hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"ls"},"tool_response":{"stdout":"a.rs\nb.rs","stderr":"","interrupted":false},"tool_use_id":"toolu_1"}"#;

pub(crate) fn measure(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let office = folder.join("office");
    create(&office, [READER, WRITER])?;
    let hook = |moment: &str| {
        let mut command = bench.poste(&office, READER, &["hook", moment, "--program", "claude-code"]);
        command.stdin(Stdio::piped());
        command
    };
    told(&mut hook("session-start"))?;
    told(&mut hook("tool"))?;
    let this = std::env::current_exe()?;
    let nothing = || {
        let mut command = Command::new(&this);
        command.arg(NOTHING).env_clear().stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut actions: Vec<Action<'_>> = vec![
        Box::new(|| timed(|| told(&mut hook("tool")))),
        Box::new(|| timed(|| told(&mut nothing()))),
        Box::new(|| timed(|| succeed(Command::new("true").stdin(Stdio::null())))),
        // A hook that has to look opens the office.
        Box::new(|| timed(|| told(&mut hook("stop")))),
    ];
    let samples = in_turns(bench.rounds(500), &mut actions)?;
    drop(actions);
    let [quiet, bare, true_, looks] = samples.as_slice() else { return Err("four were measured".into()) };
    let detail = format!(
        "hook p50 {} p95 {}; a program that does nothing p50 {}, `true` p50 {}; a hook that looks p50 {}",
        quantity(quiet.median_us(), "µs"),
        quantity(quiet.percentile_us(95.0), "µs"),
        quantity(bare.median_us(), "µs"),
        quantity(true_.median_us(), "µs"),
        quantity(looks.median_us(), "µs"),
    );
    let ratio = quiet.median_us() / bare.median_us();
    report.add(
        Line::new(GROUP, "`poste hook tool` with nothing new, of the time of a process that does nothing", ratio, "×")
            .aim(Aim::AtMost(1.5))
            .detail(detail),
    );
    let ms = quiet.percentile_us(95.0) / 1_000.0;
    report.add(Line::new(GROUP, "the same, p95", ms, "ms").aim(Aim::AtMost(5.0)));
    Ok(())
}

fn told(command: &mut Command) -> Result {
    let mut child = command.spawn()?;
    // A program that does nothing may have exited by then.
    let _ = child.stdin.take().ok_or("no stdin")?.write_all(EVENT.as_bytes());
    match child.wait()?.success() {
        true => Ok(()),
        false => Err("a hook failed".into()),
    }
}
