//! Runs the checks before a handoff is accepted: the sender's commands, and the recipient's own gates.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use poste_config::trust;
use poste_config::{Candidate, Command, Trust};
use poste_core::Foreign;
use poste_core::gates::{CheckReport, GateReport};
use poste_core::handoff::{Package, RunResult, VerifyCommand};
use poste_core::log::MessageNo;
use poste_core::text::count;
use poste_core::views::{self, HandoffView};
use poste_run::{End, Finished, Keep, Output, Stopped, Task, Watch};

use super::tell_sender;
use crate::explain::no_message;
use crate::{Desk, Error, Note, Result, gates};

/// How much output of a command is recorded.
const KEPT: Keep = Keep { head: 1024, tail: 7 * 1024 };

/// Runs the sender's commands, if the recipient wants that.
pub(super) fn commands(
    desk: &mut Desk<'_>,
    view: &HandoffView,
    package: &Package,
    wanted: bool,
    overridden: Option<&str>,
) -> Result<Vec<RunResult>> {
    if package.verify.is_empty() || (!wanted && overridden.is_some()) {
        return Ok(Vec::new());
    }
    if !wanted {
        return Err(not_run(view, package));
    }
    let tree = desk.worktree()?;
    let candidate = trust::in_folder(desk.office, candidate(view.number, package), Some(tree.root()))?;
    let reviewed = match trust::trust(desk.office, &candidate)? {
        Trust::Trusted(reviewed) => reviewed,
        Trust::Changed(reviewed) => return Err(untrusted(view, package, &reviewed.changed_programs(&candidate))),
        Trust::Never => return Err(untrusted(view, package, &BTreeSet::new())),
    };
    let mut results = Vec::new();
    for (number, command) in (1..).zip(&package.verify) {
        desk.begins(format!("running {number} of {}: {}", package.verify.len(), Foreign::words(command.line())));
        let mut command = command.clone();
        let what = command.line();
        if !command.shell {
            trust::pin(desk.office, &reviewed, &mut command.argv)?;
        }
        results.push(RunResult { what, ..run(desk, &command, tree.root())? });
    }
    let failed: Vec<&RunResult> = results.iter().filter(|result| !result.ok).collect();
    if failed.is_empty() || overridden.is_some() {
        return Ok(results);
    }
    let commands = count(failed.len(), "command");
    let mut error = Error::refused(format!("{commands} of handoff {} failed", view.number)).code("unverified");
    for result in failed {
        let (what, output) = (Foreign::words(&*result.what), Foreign::lines(result.output.trim_end()));
        error = error.cause(format!("{what} ({}){output}", result.end));
    }
    Err(error.hint(tell_sender(view.number)).hint(take_anyway()))
}

/// The commands of a handoff, as a person reviews them.
pub(crate) fn candidate(number: MessageNo, package: &Package) -> Candidate {
    let commands = (1..).zip(&package.verify).map(|(line, command)| Command {
        key: "verify".to_owned(),
        line,
        command: command.line(),
        program: command.argv.first().filter(|_| !command.shell).cloned(),
        ..Command::default()
    });
    let text = serde_json::to_string_pretty(&package.verify).unwrap_or_default();
    let kind = trust::Kind::Handoff;
    Candidate { kind, file: file_name(number), text, commands: commands.collect() }
}

/// The name under which the commands of a handoff are trusted.
pub(crate) fn file_name(number: MessageNo) -> String {
    format!("handoff {number}")
}

fn untrusted(view: &HandoffView, package: &Package, changed: &BTreeSet<&str>) -> Error {
    let number = view.number;
    let error = Error::refused(format!("the commands of handoff {number} are not trusted here")).code("untrusted");
    let error = package.verify.iter().fold(error, |error, command| error.cause(Foreign::words(command.line())));
    let error =
        changed.iter().fold(error, |error, program| error.cause(format!("{} changed", Foreign::words(*program))));
    error
        .hint(note!("review them, then trust them: " [trust, handoff = number]))
        .hint(note!("to accept without running them: " {r#override = "REASON"}))
}

fn not_run(view: &HandoffView, package: &Package) -> Error {
    let commands = count(package.verify.len(), "command");
    let message = format!("handoff {} requires {commands} to be run here, written by {}", view.number, view.from);
    let error = Error::refused(message).code("unverified");
    let error = package.verify.iter().fold(error, |error, command| error.cause(Foreign::words(command.line())));
    error
        .hint(note!("to run them in your worktree, once a person trusts them: " {verify = true} ", " [trust, handoff = view.number]))
        .hint(note!("to accept without running them: " {r#override = "REASON"}))
}

/// Runs the recipient's own gates for handoffs. Gates that are not trusted here count as failed.
pub(super) fn own_gates(desk: &Desk<'_>, number: MessageNo, overridden: Option<&str>) -> Result<Vec<RunResult>> {
    let all = poste_config::gates(desk.office)?;
    let message = views::message(desk.office.store(), number)?.ok_or_else(|| no_message(number))?;
    let own = all.of_message(&message);
    if own.is_empty() {
        return Ok(Vec::new());
    }
    let blocked = all.untrusted(&own);
    if !blocked.is_empty() {
        return match overridden {
            Some(_) => Ok(Vec::new()),
            None => Err(gates::untrusted(desk.office, &format!("handoff {number} was not accepted"), &blocked)),
        };
    }
    let report = gates::run_unclaimed(desk, &all, &message)?;
    if !report.passed && overridden.is_none() {
        return Err(Error::refused(format!("handoff {number} does not pass your gates"))
            .code("unverified")
            .cause(report.summary())
            .hint(tell_sender(number))
            .hint(take_anyway()));
    }
    Ok(report.gates.iter().map(gate_result).collect())
}

fn gate_result(gate: &GateReport) -> RunResult {
    let text = |checks: &mut dyn Iterator<Item = String>| checks.collect::<Vec<_>>().join("\n");
    RunResult {
        what: gate.name.to_string(),
        ok: gate.passed,
        exit_code: None,
        duration_ms: gate.checks.iter().filter_map(|check| check.duration_ms).sum(),
        end: if gate.passed { "passed".to_owned() } else { text(&mut gate.failed().map(CheckReport::text)) },
        output: text(&mut gate.checks.iter().filter_map(|check| check.output.clone())),
    }
}

fn run(desk: &Desk<'_>, command: &VerifyCommand, folder: &Path) -> Result<RunResult> {
    let mut task = match (command.shell, command.argv.split_first()) {
        (true, Some((line, _))) => Task::shell(line),
        (false, Some((program, arguments))) => Task::new(program, arguments),
        (_, None) => return Err(Error::refused("the handoff has an empty command")),
    };
    task.folder(folder).limit(Duration::from_millis(command.timeout_ms)).output(Output::Together).keep(KEPT);
    task.watch_every(gates::LOOK_EVERY);
    let what = command.line();
    Ok(match task.run_watched(&mut |_| if desk.is_cancelled() { Watch::Stop } else { Watch::Continue }) {
        Ok(finished) => {
            if finished.stopped == Some(Stopped::ByWatcher) {
                return Err(gates::cancelled());
            }
            if let Some(Stopped::Interrupted(signal)) = finished.stopped {
                return Err(Error::internal(format!("interrupted by signal {signal}; nothing was accepted")));
            }
            RunResult {
                what,
                ok: finished.passed(),
                exit_code: match finished.end {
                    End::Exit(code) => Some(code),
                    End::Signal(_) => None,
                },
                duration_ms: u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX),
                end: end_text(&finished),
                output: finished.stdout.text(),
            }
        }
        Err(error) => RunResult {
            what,
            ok: false,
            exit_code: None,
            duration_ms: 0,
            end: error.to_string(),
            output: String::new(),
        },
    })
}

fn end_text(finished: &Finished) -> String {
    match (finished.stopped, finished.end) {
        (Some(Stopped::TimedOut), _) => "timed out".to_owned(),
        (_, End::Exit(code)) => format!("exit code {code}"),
        (_, End::Signal(signal)) => format!("signal {signal}"),
    }
}

/// The hint that overrides every check of a handoff.
pub(super) fn take_anyway() -> Note {
    note!("to accept it anyway: " {r#override = "REASON"})
}
