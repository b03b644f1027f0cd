use std::io::{self, Write};

use poste_connect::guard::{ALL, Checkout, Folder, PRE_COMMIT, PRE_PUSH, Standing, State};
use poste_connect::paths::Top;
use poste_connect::shell;
use poste_core::Foreign;
use poste_core::fold::Code;
use poste_core::office::Office;
use poste_core::pattern::Touched;
use poste_core::views::{self, HeldPath};
use poste_verbs::reservation::{check, quoted_reason};

use super::reserve::left;
use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{self, Answer, Ui, escape, talk};

/// Stop git commits to paths that another agent has reserved
///
/// The hooks stop a commit or a push that touches a path which another agent holds exclusively. They never stop work
/// because something is missing: without poste or an office they let everything through and say so. POSTE_GUARD=off
/// skips them, and says so too. Existing hooks are kept and run first; uninstall restores them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste guard install\n  poste guard status\n  poste guard check --staged\n  \
                        poste guard uninstall")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: GuardCommand,
}

#[derive(Debug, clap::Subcommand)]
enum GuardCommand {
    /// Install pre-commit and pre-push hooks for all worktrees
    #[command(after_help = "Examples:\n  poste guard install\n  poste guard install --no-pre-push")]
    Install(InstallArgs),
    /// Remove the hooks and restore those that were there before
    #[command(after_help = "Example:\n  poste guard uninstall")]
    Uninstall,
    /// Show whether the hooks are installed
    #[command(after_help = "Example:\n  poste guard status")]
    Status,
    /// Check staged paths, the commits of a range, or given paths
    #[command(after_help = "Examples:\n  poste guard check\n  poste guard check --range main..HEAD\n  \
                            poste guard check src/auth/login.rs docs --as coder")]
    Check(CheckArgs),
}

#[derive(Debug, clap::Args)]
struct InstallArgs {
    /// Install only the pre-commit hook
    #[arg(long)]
    no_pre_push: bool,
}

#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// Check staged paths (the default)
    #[arg(long, conflicts_with_all = ["range", "paths"])]
    staged: bool,
    /// Check every commit of this range
    #[arg(long, value_name = "A..B", conflicts_with = "paths")]
    range: Option<String>,
    /// Check as this git hook does: let through what cannot be checked
    #[arg(long, value_name = "HOOK", value_parser = ALL, conflicts_with_all = ["staged", "range"])]
    hook: Option<String>,
    /// Path to check; with --hook, arguments that git gave the hook
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
}

impl Answer for Standing {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for hook in &self.hooks {
            let state = match hook.state {
                State::Installed => "installed",
                State::NotInstalled => "not installed",
                State::Changed => "changed by hand since it was installed",
                State::Replaced => "replaced by another hook",
                State::Lost => "missing, but the hook it kept is still there",
            };
            let kept = if hook.keeps_another { ", keeps the hook that was there before" } else { "" };
            writeln!(out, "{}: {state}{kept}", hook.name)?;
        }
        Ok(())
    }
}

impl Answer for check::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for held in self.held.iter().take(SHOWN_MAX) {
            writeln!(out, "{}", held_line(ui, held))?;
        }
        match self.held.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => writeln!(out, "and {more} more; --json lists them all"),
        }
    }
}

/// Maximum number of paths that are listed.
const SHOWN_MAX: usize = 10;

/// `src/auth/login.rs: ann holds src/auth/**, ends in 42m: the new login`.
fn held_line(ui: &Ui, HeldPath { path, held }: &HeldPath) -> String {
    let (path, pattern) = (Foreign::name(path), Foreign::name(held.pattern.as_str()));
    let text = format!("{path}: {} holds {pattern}, {}: {}", held.holder, left(ui, held), quoted_reason(held));
    // One line, whatever the path holds.
    escape::line(&text).into_owned()
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        GuardCommand::Install(args) => install(cx, &args),
        GuardCommand::Uninstall => uninstall(cx),
        GuardCommand::Status => {
            let folder = Folder::of(&cx.cwd()?)?;
            cx.ui.answer(&folder.standing(false)?)
        }
        GuardCommand::Check(args) => match args.hook.clone() {
            Some(hook) => check_as_hook(cx, &hook, &args),
            None => check(cx, &args),
        },
    }
}

fn install(cx: &Cx, args: &InstallArgs) -> Result {
    let folder = Folder::of(&cx.cwd()?)?;
    let changed = folder.install(if args.no_pre_push { &[PRE_COMMIT] } else { &ALL })?;
    cx.ui.answer(&folder.standing(changed)?)?;
    if !changed {
        cx.ui.say("already installed; nothing changed");
    }
    if folder.is_versioned {
        cx.ui.say(format!("{} is part of this worktree: git shows the hooks as changes in it", folder.path.display()));
    }
    if cx.optional_speaker().is_none() {
        cx.ui.say("to name the committer, set POSTE_AGENT or register the worktree: poste register NAME --worktree .");
        cx.ui.say("for a name that is already registered: poste register NAME --worktree . --update");
    }
    Ok(())
}

fn uninstall(cx: &Cx) -> Result {
    let folder = Folder::of(&cx.cwd()?)?;
    let changed = folder.uninstall()?;
    cx.ui.answer(&folder.standing(changed)?)?;
    if !changed {
        cx.ui.say("not installed; nothing changed");
    }
    Ok(folder.check_uninstalled()?)
}

/// Runs as a git hook. A missing or broken tool must never block work, so only a path known to be held stops git.
fn check_as_hook(cx: &mut Cx, hook: &str, args: &CheckArgs) -> Result {
    if std::env::var_os("POSTE_GUARD").is_some_and(|value| value == "off") {
        talk("poste guard: disabled by POSTE_GUARD; nothing was checked");
        return Ok(());
    }
    match found_by_hook(cx, hook, args) {
        Ok(answer) if answer.held.is_empty() => Ok(()),
        Ok(answer) => {
            let what = if hook == PRE_PUSH { "push" } else { "commit" };
            Err(with_causes(cx, stopped(&answer, what), &answer)
                .hint(format!("to bypass the guard once: POSTE_GUARD=off git {what}")))
        }
        Err(error) => {
            let why = escape::line(&error.message).into_owned();
            talk(&format!("poste guard: {why}; nothing was checked"));
            Ok(())
        }
    }
}

fn found_by_hook(cx: &mut Cx, hook: &str, args: &CheckArgs) -> Result<check::Answer> {
    let (mut office, checkout) = open(cx)?;
    // Usually nothing is reserved, and git need not be asked for the changed paths.
    let agent = cx.with_desk(&mut office, |desk| check::committer(desk, Some(checkout.top())))?;
    if !views::is_anything_held(office.store(), agent.as_ref())? {
        return Ok(check::Answer { agent: None, held: Vec::new() });
    }
    let touched = match hook == PRE_PUSH {
        true => checkout.pushed(io::stdin().lock(), args.paths.first().map(String::as_str))?,
        false => checkout.staged()?,
    };
    Ok(cx.call_verb(&mut office, input(&checkout, Vec::new(), touched))?.answer)
}

fn check(cx: &mut Cx, args: &CheckArgs) -> Result {
    let (mut office, checkout) = open(cx)?;
    let (paths, touched) = match (&args.range, args.paths.as_slice()) {
        (Some(range), _) => (Vec::new(), checkout.commits_of(range)?),
        (None, []) => (Vec::new(), checkout.staged()?),
        (None, paths) => {
            let top = Top::find(cx.cwd()?, &office)?;
            (top.paths(paths)?, Vec::new())
        }
    };
    let checked = paths.len() + touched.len();
    let answered = cx.call_verb(&mut office, input(&checkout, paths, touched))?;
    let stopped = (!answered.answer.held.is_empty()).then(|| stopped(&answered.answer, "change"));
    cx.show(&mut office, answered)?;
    match stopped {
        None => {
            cx.ui.say(format!("no other agent holds any of {}", ui::count(checked, "path")));
            Ok(())
        }
        Some(stopped) => Err(stopped),
    }
}

fn open(cx: &mut Cx) -> Result<(Office, Checkout)> {
    let office = cx.open()?;
    if let Some(agent) = cx.optional_speaker()
        && office.agent(&agent)?.is_none()
    {
        talk(&format!("poste guard: no agent is registered as {agent}, so all reservations count"));
    }
    Ok((office, Checkout::of(&cx.cwd()?)))
}

fn input(checkout: &Checkout, paths: Vec<String>, touched: Vec<Touched>) -> check::Input {
    check::Input { paths, touched, top: Some(checkout.top().to_owned()) }
}

/// Adds the held paths to the error, as a hook prints nothing else.
fn with_causes(cx: &Cx, mut error: CommandError, answer: &check::Answer) -> CommandError {
    for held in answer.held.iter().take(SHOWN_MAX) {
        error = error.cause(held_line(&cx.ui, held));
    }
    if answer.held.len() > SHOWN_MAX {
        error = error.cause(format!("and {} more: poste guard check", answer.held.len() - SHOWN_MAX));
    }
    error
}

/// The error for held paths, with hints on how to ask their holder.
fn stopped(answer: &check::Answer, what: &str) -> CommandError {
    let message = format!("this {what} touches paths that another agent has reserved");
    let mut error = CommandError::new(Kind::Conflict, message).code(Code::Reserved.word());
    let first = answer.held.first();
    let path = first.map_or("PATH".to_owned(), |held| escape::line(&shell::word(&held.path)).into_owned());
    let holder = first.map_or("NAME".to_owned(), |held| held.held.holder.to_string());
    error =
        error.hint(format!("ask for it: poste reserve --literal {path} --ask; or write: poste send {holder} SUBJECT"));
    match &answer.agent {
        Some(_) => error,
        None => {
            error.hint("the committer is unknown, so all reservations count; if one is yours, set POSTE_AGENT=NAME")
        }
    }
}
