//! Shared contexts: arguments and reading. Writing is in `context_write`, locking in `context_lock`.

use std::io::{self, Write};

use poste_core::text::ContextName;
use poste_core::views::{self, ContextView, LockView, VersionView};
use poste_verbs::context::{diff, history, list, mirror, show, since, summary};

use super::{context_lock, context_write};
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::{self, Answer, Paint, Ui, escape, fence};
use crate::{Result, notes};

/// Share versioned documents between agents
///
/// Every change is a version in the log and is published to the topic context.NAME. No update is lost. The newest
/// version is mirrored to .poste/contexts/NAME.md.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste context create api-contracts --kind api-contracts '# Interfaces' --as builder-1\n  \
                  poste context append api-contracts 'IUserService is agreed.' --as builder-2\n  \
                  poste context show api-contracts --as builder-1\n  \
                  poste context since api-contracts --as builder-1\n  \
                  poste context edit api-contracts --as anna"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ContextCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ContextCommand {
    /// Create a context
    #[command(after_help = "Examples:\n  poste context create decisions --kind decisions '# Decisions' --as lead\n  \
                            poste context create api-contracts --file contracts.md --schema contracts.schema.json --as lead")]
    Create(context_write::CreateArgs),
    /// Show a context, and record that you have seen this version
    #[command(
        after_help = "Examples:\n  poste context show decisions --as coder\n  poste context show decisions --at 3\n  \
                            poste context show decisions --text > decisions.md"
    )]
    Show(ShowArgs),
    /// Append a dated section; never conflicts with other changes
    #[command(after_help = "Examples:\n  poste context append decisions 'We use RS256.' --as architect\n  \
                            poste context append decisions - --title 'Token format' --as architect < section.md")]
    Append(context_write::AppendArgs),
    /// Replace a context's text
    #[command(
        after_help = "Examples:\n  poste context replace decisions --file decisions.md --if-version 3 --as lead\n  \
                            poste context replace decisions --file decisions.md --if-version 3 --merge --as lead"
    )]
    Replace(context_write::ReplaceArgs),
    /// Set the structured part, a JSON object
    ///
    /// It must match the context's schema, if there is one.
    #[command(
        after_help = "Examples:\n  poste context set api-contracts --data @contracts.json --if-version 4 --as lead"
    )]
    Set(context_write::SetArgs),
    /// Edit the text in $VISUAL or $EDITOR
    ///
    /// The text is stored unless another agent has changed it in the meantime.
    #[command(
        after_help = "Examples:\n  poste context edit decisions --as anna\n  poste context edit decisions --merge --as anna"
    )]
    Edit(context_write::EditArgs),
    /// List versions, newest first
    #[command(after_help = "Example:\n  poste context history decisions --limit 10")]
    History(HistoryArgs),
    /// Show what changed between two versions
    #[command(after_help = "Examples:\n  poste context diff decisions 2..4\n  poste context diff decisions 2..")]
    Diff(DiffArgs),
    /// Show what changed since the version you last saw
    ///
    /// Records that you have seen the newest version.
    #[command(after_help = "Example:\n  poste context since decisions --as coder")]
    Since(NameArgs),
    /// List contexts and which changed since you last saw them
    #[command(after_help = "Example:\n  poste context list --as coder")]
    List(ListArgs),
    /// Lock a context, so that other agents cannot write to it
    #[command(after_help = "Examples:\n  poste context lock decisions --for 2m --as lead\n  \
                            poste context lock decisions --wait 0 --as lead")]
    Lock(context_lock::LockArgs),
    /// Unlock a context
    #[command(after_help = "Examples:\n  poste context unlock decisions --as lead\n  \
                            poste context unlock decisions --force --reason 'It is stuck' --as anna")]
    Unlock(context_lock::UnlockArgs),
    /// Rewrite the file .poste/contexts/NAME.md
    #[command(after_help = "Examples:\n  poste context mirror decisions\n  poste context mirror decisions --force")]
    Mirror(MirrorArgs),
}

#[derive(Debug, clap::Args)]
struct NameArgs {
    /// Context name
    name: ContextName,
}

#[derive(Debug, clap::Args)]
struct ListArgs {}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// Context name
    name: ContextName,
    /// Version to show instead of the newest
    #[arg(long, value_name = "VERSION")]
    at: Option<u64>,
    /// Print only the text, as it was written
    #[arg(long, conflicts_with_all = ["data", "for_model"])]
    text: bool,
    /// Print only the structured part
    #[arg(long, conflicts_with = "for_model")]
    data: bool,
    /// Print it fenced as data, for a model's context
    #[arg(long)]
    for_model: bool,
}

#[derive(Debug, clap::Args)]
struct HistoryArgs {
    /// Context name
    name: ContextName,
    /// Maximum number of versions
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    limit: u16,
}

#[derive(Debug, clap::Args)]
struct DiffArgs {
    /// Context name
    name: ContextName,
    /// Versions to compare: 2..4, or 2.. for the newest
    #[arg(value_name = "A..B", value_parser = versions)]
    versions: (u64, Option<u64>),
}

#[derive(Debug, clap::Args)]
struct MirrorArgs {
    /// Context name
    name: ContextName,
    /// Overwrite the file even if it was edited by hand
    #[arg(long)]
    force: bool,
}

fn versions(text: &str) -> std::result::Result<(u64, Option<u64>), String> {
    let wrong = || "expected two versions such as 2..4, or 2.. for all changes since".to_owned();
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    let to = if to.is_empty() { None } else { Some(number(to)?) };
    Ok((number(from)?, to))
}

impl Answer for ContextView {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(escape::block(&views::context_markdown(self)).as_bytes())?;
        match &self.lock {
            Some(lock) => writeln!(out, "\n{}", lock_text(ui, lock)),
            None => Ok(()),
        }
    }
}

pub(crate) fn lock_text(ui: &Ui, lock: &LockView) -> String {
    let session = lock.session.as_ref().map(|session| format!(" in session {session}")).unwrap_or_default();
    format!("locked by {}{session} until {} ({})", lock.holder, lock.until, ui.time(lock.until))
}

impl Answer for history::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.versions.iter().map(|version| version_row(ui, version)).collect();
        ui.lines(out, &["VERSION", "WHEN", "BY", "WHAT", "LINES", "SUMMARY"], rows)?;
        if self.more {
            writeln!(out, "(more not shown)")?;
        }
        Ok(())
    }
}

fn version_row(ui: &Ui, version: &VersionView) -> Vec<String> {
    vec![
        version.version.to_string(),
        ui.time(version.at),
        version.by.to_string(),
        version.what.to_owned(),
        format!("+{} −{}", version.added, version.removed),
        escape::line(&summary(version)).into_owned(),
    ]
}

impl Answer for diff::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        // Without colours the diff may be piped to a program that applies it.
        if !ui.colour {
            write!(out, "{}", escape::block(&self.diff))?;
            return write!(out, "{}", escape::block(&self.data_diff));
        }
        for line in self.diff.lines().chain(self.data_diff.lines()) {
            let line = escape::line(line);
            let line = match line.as_bytes().first() {
                Some(b'+') => ui.paint(Paint::Good, &line),
                Some(b'-') => ui.paint(Paint::Bad, &line),
                Some(b'@') => ui.paint(Paint::Dim, &line),
                _ => line.into_owned(),
            };
            writeln!(out, "{line}")?;
        }
        Ok(())
    }
}

impl Answer for list::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.contexts.iter().map(|context| {
            let mut standing = match context.seen {
                Some(seen) if context.stale => ui.paint(Paint::Attention, &format!("you have seen {seen}")),
                _ => String::new(),
            };
            if let Some(lock) = &context.lock {
                let between = if standing.is_empty() { "" } else { ", " };
                standing.push_str(&format!("{between}locked by {}", lock.holder));
            }
            vec![
                context.name.to_string(),
                context.kind.to_string(),
                format!("version {}", context.version),
                ui.time(context.updated_at),
                context.updated_by.to_string(),
                standing,
            ]
        });
        ui.rows(out, &["CONTEXT", "KIND", "VERSION", "UPDATED", "BY", ""], rows.collect())
    }
}

impl Answer for mirror::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{} matches the log", escape::line(&self.path))
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        ContextCommand::Create(args) => context_write::create(cx, args),
        ContextCommand::Show(args) => show(cx, args),
        ContextCommand::Append(args) => context_write::append(cx, args),
        ContextCommand::Replace(args) => context_write::replace(cx, args),
        ContextCommand::Set(args) => context_write::set(cx, args),
        ContextCommand::Edit(args) => context_write::edit(cx, args),
        ContextCommand::History(args) => cx.call(history::Input { name: args.name, limit: args.limit }),
        ContextCommand::Diff(DiffArgs { name, versions: (from, to) }) => cx.call(diff::Input { name, from, to }),
        ContextCommand::Since(args) => cx.call(since::Input { name: args.name }),
        ContextCommand::List(_) => cx.call(list::Input {}),
        ContextCommand::Lock(args) => context_lock::lock(cx, args),
        ContextCommand::Unlock(args) => context_lock::unlock(cx, args),
        ContextCommand::Mirror(args) => cx.call(mirror::Input { name: args.name, force: args.force }),
    }
}

fn show(cx: &mut Cx, args: ShowArgs) -> Result {
    let mut office = cx.open()?;
    let answered = cx.call_verb(&mut office, show::Input { name: args.name, at: args.at })?;
    let view = &answered.answer;
    let is_for_model = !(args.text || args.data) && cx.is_for_model(args.for_model, &office);
    if cx.ui.json || !(args.text || args.data || is_for_model) {
        return cx.show(&mut office, answered);
    }
    if args.text {
        print_plain(cx, &view.text)?;
    } else if args.data {
        let data = view.data.as_ref().ok_or_else(|| no_data(view))?;
        print_plain(cx, &format!("{}\n", data.get().trim()))?;
    } else {
        let nonce = fence::nonce_for(view, || cx.new_nonce());
        cx.ui.fenced(&fence::fenced_context(view, &nonce))?;
    }
    notes::say(&cx.ui, &answered);
    cx.confirm_printed(&mut office, answered.marks);
    Ok(())
}

fn no_data(view: &ContextView) -> CommandError {
    let (name, version) = (&view.name, view.version);
    let error = CommandError::not_found(format!("context {name} has no structured part at version {version}"));
    error.hint(format!("add one: poste context set {name} --data JSON --if-version {}", view.newest))
}

/// Prints the text unchanged to a file or a program, and escaped to a terminal.
fn print_plain(cx: &Cx, text: &str) -> Result {
    match cx.ui.terminal {
        true => cx.ui.text(&escape::block(text)),
        false => cx.ui.text(text),
    }
}

/// How many subscribers were notified, for people.
pub(crate) fn told(subscribers: usize) -> String {
    match subscribers {
        0 => "no subscribers".to_owned(),
        count => format!("notified {}", ui::count(count, "subscriber")),
    }
}
