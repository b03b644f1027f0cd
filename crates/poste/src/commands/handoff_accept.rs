//! `poste handoff accept`: everything is looked at again before anybody says yes.

use std::path::Path;
use std::time::Duration;

use poste_core::gates::{CheckReport, GateReport};
use poste_core::handoff::{HandoffAnswer, Package, RunResult, VerifyCommand};
use poste_core::log::{Intent, MessageNo};
use poste_core::office::Office;
use poste_core::store::artifact::{FileProblem, Worktree, damaged_copies};
use poste_core::store::tables::HandoffState;
use poste_core::views::{self, HandoffView};
use poste_run::{End, Finished, Keep, Output, Stopped, Task};

use super::handoff::{DecisionAnswer, answer_mail, find};
use super::reply::prefixed;
use super::{ClaimArgs, SecretArgs, said};
use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::explain::no_message;
use crate::gates;
use crate::ui::progress::Bar;
use crate::ui::{self, escape};

/// What is kept in the record of what a command wrote.
const KEPT: Keep = Keep { head: 1024, tail: 7 * 1024 };

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The handoff's number: that of its message
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// A check you have made, by its number; several with commas between, or all
    #[arg(long = "check", value_name = "N|all", value_delimiter = ',', value_parser = mark)]
    checks: Vec<Mark>,
    /// Run the commands of the handoff here, in your worktree: somebody else wrote them
    #[arg(long)]
    verify: bool,
    /// Accept it although a check, a command or a gate is missing or failed; the reason is recorded
    #[arg(long = "override", value_name = "REASON")]
    reason: Option<String>,
    /// Refuse it if a file has changed since, although the copies are whole
    #[arg(long)]
    strict: bool,
    /// What you have to say about it
    #[arg(long, value_name = "TEXT")]
    notes: Option<String>,
    #[command(flatten)]
    claim: ClaimArgs,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, Clone, Copy)]
enum Mark {
    All,
    One(u32),
}

fn mark(text: &str) -> std::result::Result<Mark, String> {
    match text.trim() {
        "all" => Ok(Mark::All),
        number => {
            number.parse().map(Mark::One).map_err(|_| "a check has a number, for example 1; or say all".to_owned())
        }
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open_to_write()?;
    if let Some(before) = before(cx, &office, &args)? {
        return cx.ui.answer(&before);
    }
    let view = find(&office, args.number)?;
    may_answer(cx, &office, &view)?;
    let package = whole_package(&view)?;
    check_copies(cx, &office, &view)?;
    let changed = changed_files(cx, &office, &view, args.strict)?;
    let overridden = args.reason.as_deref().map(|reason| said("--override", reason)).transpose()?;
    let checked = marks(&args.checks, &package)?;
    check_marks(&view, &package, &checked, overridden)?;
    let verified = verify(cx, &office, &view, &package, args.verify, overridden)?;
    let gates = own_gates(cx, &office, args.number, overridden)?;
    let answer = HandoffAnswer {
        handoff: args.number,
        notes: args.notes,
        checked,
        verified,
        gates,
        changed,
        overridden: overridden.map(ToOwned::to_owned),
    };
    let mail = answer_mail(args.number, args.claim.token, "handoff_accepted")?;
    let (header, content) = answer.accept(mail, &package, prefixed("Accepted: ", &view.subject));
    args.secret.check_as(&content, "answer")?;
    let proposal = cx.proposal(&office, Intent::HandoffAccept(header), Some(content), args.claim.id)?;
    let (outcome, effect) = cx.decide(&mut office, &proposal)?;
    cx.ui.answer(&DecisionAnswer {
        number: args.number,
        state: HandoffState::Accepted,
        message: effect.message(),
        position: outcome.position,
        repeat: outcome.repeat,
    })?;
    if !view.artifacts.is_empty() {
        cx.ui.say(format!("get the files: poste handoff export {} DIR", args.number));
    }
    Ok(())
}

/// What was decided under this id already. Nothing is run a second time.
fn before(cx: &Cx, office: &Office, args: &Args) -> Result<Option<DecisionAnswer>> {
    let Some(id) = &args.claim.id else { return Ok(None) };
    let Some((position, Intent::HandoffAccept(accept))) = super::recorded(cx, office, id)? else { return Ok(None) };
    let is_same = accept.mail.reply_to == Some(args.number);
    let stored = find(office, args.number)?.decision.filter(|_| is_same).and_then(|decision| decision.answer);
    // Words that are gone by now cannot be compared.
    if let Some(stored) = stored
        && (stored.notes != args.notes || stored.overridden != args.reason)
    {
        let message = format!("handoff {} was accepted under the id {id} with other words", args.number);
        return Err(CommandError::new(Kind::Conflict, message)
            .code("id_conflict")
            .hint(format!("an id is for one write for ever; see what was said: poste handoff show {}", args.number)));
    }
    Ok(is_same.then_some(DecisionAnswer {
        number: args.number,
        state: HandoffState::Accepted,
        message: office.store().tables()?.id(id)?.and_then(|row| row.message),
        position: Some(position),
        repeat: true,
    }))
}

/// Whoever could not answer it anyway must not have commands run for nothing. The fold decides it again.
fn may_answer(cx: &Cx, office: &Office, view: &HandoffView) -> Result {
    let number = view.number;
    if view.state != HandoffState::Pending {
        let by = view.decision.as_ref().map(|decision| format!(" by {}", decision.by)).unwrap_or_default();
        let error = CommandError::new(Kind::Conflict, format!("handoff {number} is {}{by} already", view.state));
        return Err(error.code("ended").hint(format!("see what became of it: poste handoff show {number}")));
    }
    let agent = cx.active_agent(office)?;
    if !views::is_addressed_to(office.store(), &agent, number)? {
        let error = CommandError::new(Kind::Refused, format!("message {number} is not addressed to {}", agent.name));
        return Err(error.code("not_recipient").hint(format!("see who it is for: poste handoff show {number}")));
    }
    Ok(())
}

fn whole_package(view: &HandoffView) -> Result<Package> {
    let number = view.number;
    let why = match &view.package {
        None => view.missing_words(),
        Some(package)
            if package.checks.len() != view.checks as usize || package.verify.len() != view.verifies as usize =>
        {
            "its words and its record do not ask for the same checks and commands".to_owned()
        }
        Some(package) => return Ok(package.clone()),
    };
    let error = CommandError::new(Kind::Refused, format!("handoff {number} cannot be accepted: {why}"));
    Err(error.hint(format!("say so: poste handoff reject {number} --reason TEXT")))
}

fn check_copies(cx: &Cx, office: &Office, view: &HandoffView) -> Result {
    let Some(blobs) = office.store().blobs() else { return Ok(()) };
    let mut bar = Bar::new(&cx.ui);
    let problems = damaged_copies(blobs, &view.artifacts, &mut |progress| bar.show(progress))?;
    drop(bar);
    if problems.is_empty() {
        return Ok(());
    }
    let files = ui::count(problems.len(), "file");
    let error = CommandError::new(Kind::Refused, format!("handoff {} is not whole: {files}", view.number));
    let error = named(error.code("damaged"), &problems);
    Err(error
        .hint("what was handed over can no longer be proven; look closer: poste log verify")
        .hint(format!("ask for it again: poste handoff reject {} --reason TEXT", view.number)))
}

fn named(error: CommandError, problems: &[FileProblem]) -> CommandError {
    problems.iter().fold(error, |error, problem| error.cause(problem.to_string()))
}

/// What became of the files themselves. The copies are what is handed over; that they differ must be known.
fn changed_files(cx: &Cx, office: &Office, view: &HandoffView, strict: bool) -> Result<Vec<FileProblem>> {
    let Some(root) = view.worktree.as_deref().filter(|_| !view.artifacts.is_empty()) else { return Ok(Vec::new()) };
    let Ok(tree) = Worktree::new(Path::new(root)) else {
        cx.ui.say(format!("the folder of {} is not here, only the copies were checked: {root}", view.from));
        return Ok(Vec::new());
    };
    let changed = tree.apart_from(office.path()?).changes(&view.artifacts);
    if strict && !changed.is_empty() {
        let files = ui::count(changed.len(), "file");
        let message = format!("{files} of handoff {} changed since it was made", view.number);
        return Err(named(CommandError::new(Kind::Refused, message).code("changed"), &changed));
    }
    for problem in &changed {
        cx.ui.warn(format!("{problem}; the copy in the package is as it was"));
    }
    Ok(changed)
}

fn marks(marks: &[Mark], package: &Package) -> Result<Vec<u32>> {
    let all = u32::try_from(package.checks.len()).unwrap_or(u32::MAX);
    let mut checked: Vec<u32> = Vec::new();
    for mark in marks {
        match mark {
            Mark::All => checked.extend(1..=all),
            Mark::One(number) if (1..=all).contains(number) => checked.push(*number),
            Mark::One(number) => {
                return Err(CommandError::usage(format!("there is no check {number}; the handoff has {all}")));
            }
        }
    }
    checked.sort_unstable();
    checked.dedup();
    Ok(checked)
}

fn check_marks(view: &HandoffView, package: &Package, checked: &[u32], overridden: Option<&str>) -> Result {
    let open = (1..).zip(&package.checks).filter(|(number, _)| !checked.contains(number));
    let open: Vec<String> = open.map(|(number, check)| format!("{number}. {}", escape::line(check))).collect();
    if open.is_empty() || overridden.is_some() {
        return Ok(());
    }
    let count = ui::count(open.len(), "check");
    let error = CommandError::new(Kind::Refused, format!("{count} of handoff {} not made", view.number));
    let error = open.into_iter().fold(error.code("unverified"), CommandError::cause);
    Err(error
        .hint("make them, then name them: --check 1,2 or --check all")
        .hint("to take it all the same: --override REASON"))
}

/// Runs what somebody else wrote, if the receiver wants it run.
fn verify(
    cx: &Cx,
    office: &Office,
    view: &HandoffView,
    package: &Package,
    wanted: bool,
    overridden: Option<&str>,
) -> Result<Vec<RunResult>> {
    if package.verify.is_empty() || (!wanted && overridden.is_some()) {
        return Ok(Vec::new());
    }
    if !wanted {
        let count = ui::count(package.verify.len(), "command");
        let message = format!("handoff {} asks for {count} to be run here, written by {}", view.number, view.from);
        let mut error = CommandError::new(Kind::Refused, message).code("unverified");
        for command in &package.verify {
            error = error.cause(command.line());
        }
        return Err(error
            .hint("if you want them run in your worktree: --verify")
            .hint("to go without: --override REASON"));
    }
    let tree = cx.worktree(office, &cx.speaker()?)?;
    let mut results = Vec::new();
    for (number, command) in (1..).zip(&package.verify) {
        cx.ui.say(format!("running {number} of {}: {}", package.verify.len(), command.line()));
        results.push(run_one(command, tree.root())?);
    }
    let failed: Vec<&RunResult> = results.iter().filter(|result| !result.ok).collect();
    if failed.is_empty() || overridden.is_some() {
        return Ok(results);
    }
    let count = ui::count(failed.len(), "command");
    let mut error =
        CommandError::new(Kind::Refused, format!("{count} of handoff {} failed", view.number)).code("unverified");
    for result in failed {
        let output = result.output.trim_end();
        let output = if output.is_empty() { String::new() } else { format!("\n{output}") };
        error = error.cause(format!("{} ({}){output}", result.what, result.end));
    }
    Err(error
        .hint(format!("tell its sender: poste handoff reject {} --reason TEXT", view.number))
        .hint("to take it all the same: --override REASON"))
}

/// Runs the receiver's own gates for handoffs. Those that may not be run here are not passed.
fn own_gates(cx: &Cx, office: &Office, number: MessageNo, overridden: Option<&str>) -> Result<Vec<RunResult>> {
    let all = office.gates()?;
    let message = views::message(office.store(), number)?.ok_or_else(|| no_message(number))?;
    let own = all.of_message(&message);
    if own.is_empty() {
        return Ok(Vec::new());
    }
    let blocked = all.untrusted(&own);
    if !blocked.is_empty() {
        return match overridden {
            Some(_) => Ok(Vec::new()),
            None => Err(gates::untrusted(&format!("handoff {number} was not accepted"), &blocked)),
        };
    }
    let report = gates::look(cx, office, &all, &message)?;
    if !report.passed && overridden.is_none() {
        let error = CommandError::new(Kind::Refused, format!("your gates do not let handoff {number} through"));
        return Err(error
            .code("unverified")
            .cause(report.summary())
            .hint(format!("tell its sender: poste handoff reject {number} --reason TEXT"))
            .hint("to take it all the same: --override REASON"));
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

fn run_one(command: &VerifyCommand, folder: &Path) -> Result<RunResult> {
    let mut task = match (command.shell, command.argv.split_first()) {
        (true, Some((line, _))) => Task::shell(line),
        (false, Some((program, arguments))) => Task::new(program, arguments),
        (_, None) => return Err(CommandError::new(Kind::Refused, "the handoff names a command without words")),
    };
    task.folder(folder).limit(Duration::from_millis(command.timeout_ms)).output(Output::Together).keep(KEPT);
    let what = command.line();
    Ok(match task.run() {
        Ok(finished) => {
            if let Some(Stopped::Interrupted(signal)) = finished.stopped {
                return Err(CommandError::new(
                    Kind::Internal,
                    format!("interrupted by signal {signal}; nothing was accepted"),
                ));
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
        (Some(Stopped::TimedOut), _) => "its time was up".to_owned(),
        (_, End::Exit(code)) => format!("exit code {code}"),
        (_, End::Signal(signal)) => format!("signal {signal}"),
    }
}
