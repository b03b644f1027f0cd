use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use poste_connect::shell;
use poste_core::fold::Code;
use poste_core::office::Office;
use poste_core::pattern::Touched;
use poste_core::views::{self, HeldPath};
use poste_verbs::Answered;
use poste_verbs::reservation::{check, reason};
use schemars::JsonSchema;
use serde::Serialize;

use super::reserve::left;
use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::git::{Change, Git, changes, word};
use crate::git_hooks::{ALL, Hook, HookView, PRE_COMMIT, PRE_PUSH, State};
use crate::paths::{Top, repository_top};
use crate::ui::{self, Answer, Ui, escape, talk};

/// Let git stop commits that touch paths somebody else has reserved
///
/// The hooks stop a commit or a push that touches a path which another agent holds alone. They never stop work
/// because something is missing: without poste or an office they let everything through and say so. POSTE_GUARD=off
/// skips them, and says so too. Hooks that are there before are kept, run first, and put back by uninstall.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste guard install\n  poste guard status\n  poste guard check --staged\n  \
                        poste guard uninstall")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: GuardCommand,
}

#[derive(Debug, clap::Subcommand)]
enum GuardCommand {
    /// Put the hooks pre-commit and pre-push in place, for every worktree of this repository
    #[command(after_help = "Examples:\n  poste guard install\n  poste guard install --no-pre-push")]
    Install(InstallArgs),
    /// Take the hooks away; what was there before comes back as it was
    #[command(after_help = "Example:\n  poste guard uninstall")]
    Uninstall,
    /// Show whether the hooks are in place
    #[command(after_help = "Example:\n  poste guard status")]
    Status,
    /// Check paths: what is staged, some commits, or those that are named
    #[command(after_help = "Examples:\n  poste guard check\n  poste guard check --range main..HEAD\n  \
                            poste guard check src/auth/login.rs docs --as coder")]
    Check(CheckArgs),
}

#[derive(Debug, clap::Args)]
struct InstallArgs {
    /// Only the hook pre-commit
    #[arg(long)]
    no_pre_push: bool,
}

#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// What would be committed now (this is the default)
    #[arg(long, conflicts_with_all = ["range", "paths"])]
    staged: bool,
    /// Every commit of a range
    #[arg(long, value_name = "A..B", conflicts_with = "paths")]
    range: Option<String>,
    /// As this hook of git does: what cannot be checked is let through
    #[arg(long, value_name = "HOOK", value_parser = ALL, conflicts_with_all = ["staged", "range"])]
    hook: Option<String>,
    /// These paths; with --hook, what git gave the hook
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GuardAnswer {
    /// Where git looks for hooks.
    pub folder: String,
    pub hooks: Vec<HookView>,
    /// Whether this command changed anything.
    pub changed: bool,
}

impl Answer for GuardAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for hook in &self.hooks {
            let state = match hook.state {
                State::Installed => "installed",
                State::NotInstalled => "not installed",
                State::Changed => "changed by hand since it was installed",
                State::Replaced => "replaced by another hook",
                State::Lost => "gone, while the hook it kept is still there",
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
            writeln!(out, "{}", told(ui, held))?;
        }
        match self.held.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => writeln!(out, "and {more} more; --json names all of them"),
        }
    }
}

/// So many paths are told of one by one.
const SHOWN_MAX: usize = 10;

/// `src/auth/login.rs: ann holds src/auth/**, ends in 42m: the new login`.
fn told(ui: &Ui, HeldPath { path, held }: &HeldPath) -> String {
    let text = format!("{path}: {} holds {}, {}: {}", held.holder, held.pattern, left(ui, held), reason(held));
    // One line, whatever the path holds.
    escape::line(&text).into_owned()
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        GuardCommand::Install(args) => install(cx, &args),
        GuardCommand::Uninstall => uninstall(cx),
        GuardCommand::Status => {
            let folder = Folder::find(cx)?;
            cx.ui.answer(&folder.answer(false)?)
        }
        GuardCommand::Check(args) => match args.hook.clone() {
            Some(hook) => check_as_hook(cx, &hook, &args),
            None => check(cx, &args),
        },
    }
}

/// Where git looks for hooks.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Whether a worktree's own files are in it.
    is_versioned: bool,
}

impl Folder {
    fn find(cx: &Cx) -> Result<Self> {
        let top = Git::top(&cx.cwd()?)?;
        let git = Git::in_folder(&top);
        let path = git.path(&["rev-parse", "--path-format=absolute", "--git-path", "hooks"])?;
        let common = git.path(&["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
        let (real, top, common) = (real(&path), real(&top), real(&common));
        let in_git = real.starts_with(&common);
        if !in_git && !real.starts_with(&top) {
            let message = format!("core.hooksPath leads out of the repository, to {}", path.display());
            return Err(CommandError::new(Kind::Refused, message)
                .code("hooks_elsewhere")
                .hint("other repositories may use those hooks; give this one its own: git config core.hooksPath .git/hooks")
                .hint("or call it from there yourself: poste guard check --hook pre-commit"));
        }
        Ok(Self { path, is_versioned: !in_git })
    }

    fn hook(&self, name: &'static str) -> Hook {
        Hook::new(&self.path, name)
    }

    fn answer(&self, changed: bool) -> Result<GuardAnswer> {
        let hooks = ALL.into_iter().map(|name| self.hook(name).view()).collect::<Result<_>>()?;
        Ok(GuardAnswer { folder: self.path.display().to_string(), hooks, changed })
    }
}

/// A path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    })
}

fn install(cx: &Cx, args: &InstallArgs) -> Result {
    let folder = Folder::find(cx)?;
    let wanted = if args.no_pre_push { &[PRE_COMMIT][..] } else { &ALL[..] };
    let hooks: Vec<Hook> = wanted.iter().map(|name| folder.hook(name)).collect();
    hooks.iter().try_for_each(Hook::check_install)?;
    let folder_made = !folder.path.exists();
    if folder_made {
        let failed = |error: io::Error| CommandError::new(Kind::Refused, format!("{}: {error}", folder.path.display()));
        fs::create_dir_all(&folder.path).map_err(failed)?;
    }
    let mut changed = false;
    for hook in &hooks {
        changed |= hook.install(folder_made)?;
    }
    cx.ui.answer(&folder.answer(changed)?)?;
    if !changed {
        cx.ui.say("it was installed before; nothing changed");
    }
    if folder.is_versioned {
        cx.ui.say(format!("{} is part of this worktree: git shows the hooks as changes in it", folder.path.display()));
    }
    if cx.optional_speaker().is_none() {
        cx.ui.say("who commits is told by POSTE_AGENT, or by the worktree: poste register NAME --worktree .");
        cx.ui.say("for a name that is registered already: poste register NAME --worktree . --update");
    }
    Ok(())
}

fn uninstall(cx: &Cx) -> Result {
    let folder = Folder::find(cx)?;
    let hooks = ALL.map(|name| folder.hook(name));
    let folder_made = hooks.iter().any(Hook::made_folder);
    let mut changed = false;
    for hook in &hooks {
        changed |= hook.uninstall()?;
    }
    if folder_made {
        // Only if nobody has put anything else into it since.
        let _ = fs::remove_dir(&folder.path);
    }
    cx.ui.answer(&folder.answer(changed)?)?;
    if !changed {
        cx.ui.say("nothing was installed; nothing changed");
    }
    hooks.iter().try_for_each(Hook::check_uninstalled)
}

/// A tool that is missing or broken must never keep anybody from working: only what is known to be held stops git.
fn check_as_hook(cx: &mut Cx, hook: &str, args: &CheckArgs) -> Result {
    if std::env::var_os("POSTE_GUARD").is_some_and(|value| value == "off") {
        talk("poste guard: switched off by POSTE_GUARD, so nothing was checked");
        return Ok(());
    }
    match found_by_hook(cx, hook, args) {
        Ok(answer) if answer.held.is_empty() => Ok(()),
        Ok(answer) => {
            let what = if hook == PRE_PUSH { "push" } else { "commit" };
            Err(with_causes(cx, stopped(&answer, what), &answer)
                .hint(format!("past the guard, this once: POSTE_GUARD=off git {what}")))
        }
        Err(error) => {
            let why = escape::line(&error.message).into_owned();
            talk(&format!("poste guard: {why}; nothing was checked"));
            Ok(())
        }
    }
}

fn found_by_hook(cx: &mut Cx, hook: &str, args: &CheckArgs) -> Result<check::Answer> {
    let mut checkout = Checkout::open(cx)?;
    if checkout.nobody_holds_anything(cx)? {
        return Ok(check::Answer { agent: None, held: Vec::new() });
    }
    let touched = match hook == PRE_PUSH {
        true => checkout.pushed(args.paths.first().map(String::as_str))?,
        false => checkout.staged()?,
    };
    Ok(checkout.ask(cx, Vec::new(), touched)?.answer)
}

fn check(cx: &mut Cx, args: &CheckArgs) -> Result {
    let mut checkout = Checkout::open(cx)?;
    let (paths, touched) = match (&args.range, args.paths.as_slice()) {
        (Some(range), _) => (Vec::new(), checkout.commits_of(range)?),
        (None, []) => (Vec::new(), checkout.staged()?),
        (None, paths) => {
            let top = Top::find(cx, &checkout.office)?;
            (paths.iter().map(|path| top.path(path)).collect::<Result<_>>()?, Vec::new())
        }
    };
    let checked = paths.len() + touched.len();
    let answered = checkout.ask(cx, paths, touched)?;
    let stopped = (!answered.answer.held.is_empty()).then(|| stopped(&answered.answer, "change"));
    cx.show(&mut checkout.office, answered)?;
    match stopped {
        None => {
            cx.ui.say(format!("nobody else holds any of {}", ui::count(checked, "path")));
            Ok(())
        }
        Some(stopped) => Err(stopped),
    }
}

/// In a hook nothing is printed but the error, so that tells everything.
fn with_causes(cx: &Cx, mut error: CommandError, answer: &check::Answer) -> CommandError {
    for held in answer.held.iter().take(SHOWN_MAX) {
        error = error.cause(told(&cx.ui, held));
    }
    if answer.held.len() > SHOWN_MAX {
        error = error.cause(format!("and {} more: poste guard check", answer.held.len() - SHOWN_MAX));
    }
    error
}

/// That it is stopped, who can be asked, and how.
fn stopped(answer: &check::Answer, what: &str) -> CommandError {
    let message = format!("this {what} touches paths that somebody else has reserved");
    let mut error = CommandError::new(Kind::Conflict, message).code(Code::Reserved.word());
    let first = answer.held.first();
    let path = first.map_or("PATH".to_owned(), |held| escape::line(&shell::word(&held.path)).into_owned());
    let holder = first.map_or("NAME".to_owned(), |held| held.held.holder.to_string());
    error =
        error.hint(format!("ask for it: poste reserve --literal {path} --ask; or write: poste send {holder} SUBJECT"));
    match &answer.agent {
        Some(_) => error,
        None => error.hint(
            "nobody knows who commits here, so everybody's reservations count; if one is yours: POSTE_AGENT=NAME",
        ),
    }
}

/// A worktree whose changes are checked.
#[derive(Debug)]
struct Checkout {
    office: Office,
    git: Git,
    /// Without links.
    top: PathBuf,
    /// Where this repository stands in the one around it, if it is a module of one.
    inside: Vec<u8>,
}

impl Checkout {
    fn open(cx: &mut Cx) -> Result<Self> {
        let office = cx.open()?;
        let cwd = cx.cwd()?;
        // Without git, paths that are named can still be checked.
        let top = Git::top(&cwd).unwrap_or(cwd);
        let around = repository_top(&top).unwrap_or_else(|| top.clone());
        let inside = top.strip_prefix(&around).map(|path| path.as_os_str().as_bytes().to_vec()).unwrap_or_default();
        if let Some(agent) = cx.optional_speaker()
            && office.agent(&agent)?.is_none()
        {
            talk(&format!("poste guard: nobody is registered as {agent}, so everybody's reservations count"));
        }
        Ok(Self { office, git: Git::in_folder(&top), top: real(&top), inside })
    }

    /// Most of the time nothing is reserved; then git need not even be asked what a push brings.
    fn nobody_holds_anything(&mut self, cx: &Cx) -> Result<bool> {
        let agent = cx.with_desk(&mut self.office, |desk| check::committer(desk, Some(&self.top)))?;
        Ok(!views::is_anything_held(self.office.store(), agent.as_ref())?)
    }

    fn ask(&mut self, cx: &Cx, paths: Vec<String>, touched: Vec<Touched>) -> Result<Answered<check::Answer>> {
        cx.ask(&mut self.office, check::Input { paths, touched, top: Some(self.top.clone()) })
    }

    fn touched(&self, changes: impl IntoIterator<Item = Change>) -> Vec<Touched> {
        let distinct: BTreeSet<Change> = changes.into_iter().collect();
        let touched = distinct.into_iter().map(|change| {
            let path = match self.inside.is_empty() {
                true => change.path,
                false => [self.inside.as_slice(), b"/", &change.path].concat(),
            };
            if change.is_module { Touched::folder(&path) } else { Touched::file(&path) }
        });
        touched.collect()
    }

    /// What would be committed. Of a merge, only what is neither as it was here nor as it was there: the rest was
    /// committed by others before.
    fn staged(&self) -> Result<Vec<Touched>> {
        let mut parents = vec![self.head()?];
        let merging = self.git.path(&["rev-parse", "--path-format=absolute", "--git-path", "MERGE_HEAD"])?;
        let merging = fs::read_to_string(merging).unwrap_or_default();
        parents.extend(merging.lines().filter(|line| is_id(line.as_bytes())).map(|line| line.as_bytes().to_vec()));
        let mut common: Option<BTreeSet<Change>> = None;
        for parent in &parents {
            let arguments = ["diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-ext-diff"].map(OsStr::new);
            let arguments = [&arguments[..], &[word(parent), OsStr::new("--")]].concat();
            let found: BTreeSet<Change> = changes(&self.git.ask(&arguments)?)?.into_iter().collect();
            common = Some(match common {
                Some(common) => common.intersection(&found).cloned().collect(),
                None => found,
            });
        }
        Ok(self.touched(common.unwrap_or_default()))
    }

    /// The commit everything is compared with; before the first one, a tree with nothing in it.
    fn head(&self) -> Result<Vec<u8>> {
        let head = self.git.ask(&["rev-parse", "--quiet", "--verify", "HEAD^{commit}"].map(OsStr::new));
        let id = match head {
            Ok(id) => id,
            Err(_) => self.git.ask(&["hash-object", "-t", "tree", "--stdin"].map(OsStr::new))?,
        };
        Ok(id.trim_ascii().to_vec())
    }

    /// What git says on stdin is pushed, without what the other side has and without what others committed: whoever
    /// holds a path may have its own commits pushed by anybody.
    fn pushed(&self, remote: Option<&str>) -> Result<Vec<Touched>> {
        let own = self.committer();
        let is_own = |email: &[u8]| own.as_ref().is_none_or(|own| own.eq_ignore_ascii_case(email));
        let mut commits = BTreeSet::new();
        for line in io::stdin().lock().lines() {
            let line =
                line.map_err(|error| CommandError::new(Kind::Internal, format!("reading what is pushed: {error}")))?;
            let fields: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let [_, local, _, theirs] = fields.as_slice() else { continue };
            // Deleting a branch brings nothing.
            if !is_id(local) || is_zero(local) {
                continue;
            }
            let mut arguments: Vec<&OsStr> = ["rev-list", "--format=%H %ce"].map(OsStr::new).to_vec();
            arguments.extend([word(local), OsStr::new("--not")]);
            if is_id(theirs) && !is_zero(theirs) && self.has_commit(theirs) {
                arguments.push(word(theirs));
            }
            let known = remote.map(|remote| format!("--remotes={}/*", literal_glob(remote)));
            arguments.extend(known.as_deref().map(OsStr::new));
            arguments.push(OsStr::new("--"));
            // Before each of these lines is another one that git does not leave out: `commit` and the id.
            for line in self.git.ask(&arguments)?.split(|byte| *byte == b'\n') {
                let mut words = line.splitn(2, |byte| *byte == b' ');
                let (id, email) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                if is_id(id) && is_own(email) {
                    commits.insert(id.to_vec());
                }
            }
        }
        self.of_commits(&commits)
    }

    /// The address that commits made here bear. If git knows none, nobody can say which commits are whose.
    fn committer(&self) -> Option<Vec<u8>> {
        let ident = self.git.ask(&["var", "GIT_COMMITTER_IDENT"].map(OsStr::new)).ok()?;
        let start = ident.iter().rposition(|byte| *byte == b'<')? + 1;
        let length = ident[start..].iter().position(|byte| *byte == b'>')?;
        Some(ident[start..start + length].to_vec())
    }

    fn has_commit(&self, id: &[u8]) -> bool {
        let object = [id, b"^{commit}"].concat();
        self.git.ask(&[OsStr::new("cat-file"), OsStr::new("-e"), word(&object)]).is_ok()
    }

    fn commits_of(&self, range: &str) -> Result<Vec<Touched>> {
        let arguments = ["rev-list", "--end-of-options", range, "--"].map(OsStr::new);
        let found = self.git.ask(&arguments).map_err(|error| {
            CommandError::usage(format!("{} is no range of commits", poste_core::text::quoted(range)))
                .cause(error.text())
        })?;
        self.of_commits(&found.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect())
    }

    /// What each commit touches; of a merge, what is as it was on no side.
    fn of_commits(&self, commits: &BTreeSet<Vec<u8>>) -> Result<Vec<Touched>> {
        let input: Vec<u8> =
            commits.iter().filter(|id| is_id(id)).flat_map(|id| [id.as_slice(), b"\n"].concat()).collect();
        if input.is_empty() {
            return Ok(Vec::new());
        }
        let arguments = [
            "diff-tree",
            "--stdin",
            "-r",
            "-c",
            "--root",
            "--no-commit-id",
            "--raw",
            "-z",
            "--no-renames",
            "--no-ext-diff",
        ];
        let raw = self.git.ask_with(&arguments.map(OsStr::new), input)?;
        Ok(self.touched(changes(&raw)?))
    }
}

fn is_id(text: &[u8]) -> bool {
    matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit)
}

fn is_zero(id: &[u8]) -> bool {
    id.iter().all(|byte| *byte == b'0')
}

/// A remote's name where git expects a pattern.
fn literal_glob(remote: &str) -> String {
    remote.chars().flat_map(|c| matches!(c, '*' | '?' | '[' | '\\').then_some('\\').into_iter().chain([c])).collect()
}
