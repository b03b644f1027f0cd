//! Shared contexts: looking at them. Writing is in `context_write`, locking in `context_lock`.

use std::io::{self, Write};

use poste_core::document;
use poste_core::fold::Code;
use poste_core::office::Office;
use poste_core::store::mirror::{self, Mirror};
use poste_core::text::{ContextName, Name};
use poste_core::views::{self, ContextLine, ContextView, LockView, VersionView};
use schemars::JsonSchema;
use serde::Serialize;

use super::{context_lock, context_write};
use crate::Result;
use crate::context::{Cx, Mark};
use crate::error::CommandError;
use crate::ui::{self, Answer, Paint, Ui, escape, fence};

/// Share a document: versions, history, no lost updates
///
/// Every change is a version in the log and is published to the topic context.NAME. The newest one is mirrored to
/// .poste/contexts/NAME.md.
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

impl Args {
    /// Whether it starts an editor.
    pub(crate) fn edits(&self) -> bool {
        matches!(self.command, ContextCommand::Edit(_))
    }
}

#[derive(Debug, clap::Subcommand)]
enum ContextCommand {
    /// Make a context, at version 1
    #[command(after_help = "Examples:\n  poste context create decisions --kind decisions '# Decisions' --as lead\n  \
                            poste context create api-contracts --file contracts.md --schema contracts.schema.json --as lead")]
    Create(context_write::CreateArgs),
    /// Show a context, and remember that you have seen this version
    #[command(
        after_help = "Examples:\n  poste context show decisions --as coder\n  poste context show decisions --at 3\n  \
                            poste context show decisions --text > decisions.md"
    )]
    Show(ShowArgs),
    /// Add a dated section at the end; it never conflicts
    #[command(after_help = "Examples:\n  poste context append decisions 'We use RS256.' --as architect\n  \
                            poste context append decisions - --title 'Token format' --as architect < section.md")]
    Append(context_write::AppendArgs),
    /// Put another text in place of the one of a version
    #[command(
        after_help = "Examples:\n  poste context replace decisions --file decisions.md --if-version 3 --as lead\n  \
                            poste context replace decisions --file decisions.md --if-version 3 --merge --as lead"
    )]
    Replace(context_write::ReplaceArgs),
    /// Set the structured part, a JSON object; it must fit the context's schema, if it has one
    #[command(
        after_help = "Examples:\n  poste context set api-contracts --data @contracts.json --if-version 4 --as lead"
    )]
    Set(context_write::SetArgs),
    /// Edit the text in $VISUAL or $EDITOR, and save it if nobody else has changed it meanwhile
    #[command(
        after_help = "Examples:\n  poste context edit decisions --as anna\n  poste context edit decisions --merge --as anna"
    )]
    Edit(context_write::EditArgs),
    /// List the versions, newest first
    #[command(after_help = "Example:\n  poste context history decisions --limit 10")]
    History(HistoryArgs),
    /// Show what changed between two versions
    #[command(after_help = "Examples:\n  poste context diff decisions 2..4\n  poste context diff decisions 2..")]
    Diff(DiffArgs),
    /// Show what changed since the version you have last seen, and remember that you have seen it
    #[command(after_help = "Example:\n  poste context since decisions --as coder")]
    Since(NameArgs),
    /// List the contexts, and which of them went on since you have seen them
    #[command(after_help = "Example:\n  poste context list --as coder")]
    List(ListArgs),
    /// Keep others from writing for a while
    #[command(after_help = "Examples:\n  poste context lock decisions --for 2m --as lead\n  \
                            poste context lock decisions --wait 0 --as lead")]
    Lock(context_lock::LockArgs),
    /// Let others write again
    #[command(after_help = "Examples:\n  poste context unlock decisions --as lead\n  \
                            poste context unlock decisions --force --reason 'It is stuck' --as anna")]
    Unlock(context_lock::UnlockArgs),
    /// Write the file .poste/contexts/NAME.md anew
    #[command(after_help = "Examples:\n  poste context mirror decisions\n  poste context mirror decisions --force")]
    Mirror(MirrorArgs),
}

#[derive(Debug, clap::Args)]
struct NameArgs {
    /// The context's name
    name: ContextName,
}

#[derive(Debug, clap::Args)]
struct ListArgs {}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// The context's name
    name: ContextName,
    /// This version instead of the newest
    #[arg(long, value_name = "VERSION")]
    at: Option<u64>,
    /// Only the text, as it was written
    #[arg(long, conflicts_with_all = ["data", "for_model"])]
    text: bool,
    /// Only the structured part
    #[arg(long, conflicts_with = "for_model")]
    data: bool,
    /// Print it fenced as data, for a model's context
    #[arg(long)]
    for_model: bool,
}

#[derive(Debug, clap::Args)]
struct HistoryArgs {
    /// The context's name
    name: ContextName,
    /// At most so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    limit: u16,
}

#[derive(Debug, clap::Args)]
struct DiffArgs {
    /// The context's name
    name: ContextName,
    /// Two versions, 2..4; or 2.. up to the newest
    #[arg(value_name = "A..B", value_parser = versions)]
    versions: (u64, Option<u64>),
}

#[derive(Debug, clap::Args)]
struct MirrorArgs {
    /// The context's name
    name: ContextName,
    /// Although somebody has edited the file: the edit is dropped
    #[arg(long)]
    force: bool,
}

fn versions(text: &str) -> std::result::Result<(u64, Option<u64>), String> {
    let wrong = || "write two versions like 2..4, or 2.. for everything since".to_owned();
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

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HistoryAnswer {
    pub name: ContextName,
    /// Newest first.
    pub versions: Vec<VersionView>,
    /// There are older ones.
    pub more: bool,
}

impl Answer for HistoryAnswer {
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
        summary(version),
    ]
}

fn summary(version: &VersionView) -> String {
    let said = if version.redacted { "(redacted)".into() } else { escape::line(&version.summary) };
    match version.agreement {
        Some(number) => format!("{said} (agreed in #{number})"),
        None => said.into_owned(),
    }
}

/// Who changed what, for whoever made a change from an older version.
pub(crate) fn version_line(version: &VersionView) -> String {
    let VersionView { version: number, by, what, added, removed, .. } = version;
    format!("version {number}, {what} by {by} (+{added} −{removed}): {}", summary(version))
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DiffAnswer {
    pub name: ContextName,
    /// 0: before there was anything.
    pub from: u64,
    pub to: u64,
    pub added: u32,
    pub removed: u32,
    /// The text, as a unified diff; empty if it did not change.
    pub diff: String,
    /// The structured part, laid out and compared likewise.
    pub data_diff: String,
    /// The versions in between, newest first.
    pub versions: Vec<VersionView>,
}

impl Answer for DiffAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        // Whoever has no colours may want to apply it.
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

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListAnswer {
    pub contexts: Vec<ContextLine>,
}

impl Answer for ListAnswer {
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

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MirrorAnswer {
    pub name: ContextName,
    pub path: String,
}

impl Answer for MirrorAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{} is as the log says", escape::line(&self.path))
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        ContextCommand::Create(args) => context_write::create(cx, args),
        ContextCommand::Show(args) => show(cx, &args),
        ContextCommand::Append(args) => context_write::append(cx, args),
        ContextCommand::Replace(args) => context_write::replace(cx, args),
        ContextCommand::Set(args) => context_write::set(cx, args),
        ContextCommand::Edit(args) => context_write::edit(cx, args),
        ContextCommand::History(args) => history(cx, &args),
        ContextCommand::Diff(args) => diff(cx, &args),
        ContextCommand::Since(args) => since(cx, &args),
        ContextCommand::List(_) => list(cx),
        ContextCommand::Lock(args) => context_lock::lock(cx, args),
        ContextCommand::Unlock(args) => context_lock::unlock(cx, args),
        ContextCommand::Mirror(args) => write_mirror(cx, &args),
    }
}

fn show(cx: &mut Cx, args: &ShowArgs) -> Result {
    let mut office = cx.open()?;
    let reader = reader(cx, &office)?;
    let view = view(&office, &args.name, args.at)?;
    if args.text && !cx.ui.json {
        print_plain(cx, &view.text)?;
    } else if args.data && !cx.ui.json {
        let data = view.data.as_ref().ok_or_else(|| no_data(&view))?;
        print_plain(cx, &format!("{}\n", data.get().trim()))?;
    } else if args.for_model && !cx.ui.json {
        let nonce = fence::nonce_for(&view, || cx.new_nonce());
        cx.ui.fenced(&fence::fenced_context(&view, &nonce))?;
    } else {
        cx.ui.answer(&view)?;
    }
    follow_mirror(cx, &office, &args.name);
    mark_read(cx, &mut office, reader.as_ref(), &args.name, view.version)
}

fn no_data(view: &ContextView) -> CommandError {
    let (name, version) = (&view.name, view.version);
    let error = CommandError::not_found(format!("context {name} has no structured part at version {version}"));
    error.hint(format!("give it one: poste context set {name} --data JSON --if-version {}", view.newest))
}

/// For a file or a program it is as it was written; for a terminal it is made safe.
fn print_plain(cx: &Cx, text: &str) -> Result {
    let mut out = cx.ui.out();
    match cx.ui.terminal {
        true => out.write_all(escape::block(text).as_bytes())?,
        false => out.write_all(text.as_bytes())?,
    }
    out.flush()?;
    Ok(())
}

fn history(cx: &mut Cx, args: &HistoryArgs) -> Result {
    let office = cx.open()?;
    let found = views::context_history(office.store(), &args.name, 0, args.limit.into())?;
    let Some((versions, more)) = found else { return Err(unknown(&office, &args.name)?) };
    cx.ui.answer(&HistoryAnswer { name: args.name.clone(), versions, more })?;
    follow_mirror(cx, &office, &args.name);
    Ok(())
}

fn diff(cx: &mut Cx, args: &DiffArgs) -> Result {
    let office = cx.open()?;
    let (from, to) = args.versions;
    let answer = difference(&office, &args.name, from, to)?;
    if answer.diff.is_empty() && answer.data_diff.is_empty() {
        cx.ui.say(format!("version {} says what version {} said", answer.to, answer.from));
    }
    cx.ui.answer(&answer)?;
    follow_mirror(cx, &office, &args.name);
    Ok(())
}

fn since(cx: &mut Cx, args: &NameArgs) -> Result {
    let mut office = cx.open()?;
    let reader = cx.agent(&office)?.name;
    let seen = views::version_seen(office.store(), &reader, &args.name)?;
    let answer = difference(&office, &args.name, seen.unwrap_or(0), None)?;
    match seen {
        Some(seen) if seen == answer.to => cx.ui.say(format!("nothing changed since version {seen}")),
        Some(_) => {}
        None => cx.ui.say(format!("{reader} has not seen it before; this is all of it")),
    }
    for version in answer.versions.iter().rev() {
        cx.ui.say(version_line(version));
    }
    cx.ui.answer(&answer)?;
    follow_mirror(cx, &office, &args.name);
    mark_read(cx, &mut office, Some(&reader), &args.name, answer.to)
}

/// What changed from one version to another; version 0 is nothing.
fn difference(office: &Office, name: &ContextName, from: u64, to: Option<u64>) -> Result<DiffAnswer> {
    let after = view(office, name, to)?;
    let before = match from {
        0 => None,
        from => Some(view(office, name, Some(from))?),
    };
    let to = after.version;
    let names = (format!("{name} version {from}"), format!("{name} version {to}"));
    let text = before.as_ref().map(|before| before.text.as_str()).unwrap_or_default();
    let data = |view: Option<&ContextView>| {
        let data = view.and_then(|view| view.data.as_ref());
        data.map(|data| laid_out(data.get())).unwrap_or_default()
    };
    let data_names = (format!("{} data", names.0), format!("{} data", names.1));
    let lines = document::count(text, &after.text);
    let (mut versions, _) = views::context_history(office.store(), name, from.min(to), usize::MAX)?.unwrap_or_default();
    versions.retain(|version| version.version <= to);
    Ok(DiffAnswer {
        name: name.clone(),
        from,
        to,
        added: lines.added,
        removed: lines.removed,
        diff: document::unified(text, &after.text, (&names.0, &names.1)),
        data_diff: document::unified(&data(before.as_ref()), &data(Some(&after)), (&data_names.0, &data_names.1)),
        versions,
    })
}

/// One value a line, so that a change of one is a line of a diff. What no machine type holds is compared as it stands.
fn laid_out(json: &str) -> String {
    let parsed: std::result::Result<serde_json::Value, _> = serde_json::from_str(json);
    let text = parsed.ok().and_then(|value| serde_json::to_string_pretty(&value).ok());
    document::ended(&text.unwrap_or_else(|| json.to_owned()))
}

fn list(cx: &mut Cx) -> Result {
    let office = cx.open()?;
    let reader = reader(cx, &office)?;
    let contexts = views::contexts(office.store(), reader.as_ref())?;
    if contexts.is_empty() {
        cx.ui.say("no contexts yet; make one: poste context create NAME");
    }
    cx.ui.answer(&ListAnswer { contexts })
}

fn write_mirror(cx: &mut Cx, args: &MirrorArgs) -> Result {
    let office = cx.open()?;
    let path = mirror::path(office.path()?, &args.name).display().to_string();
    match office.mirror(&args.name, args.force)? {
        None => Err(unknown(&office, &args.name)?),
        Some(Mirror::Edited(_)) => Err(CommandError::new(
            crate::error::Kind::Conflict,
            format!("{path} was edited by hand, and is left as it is"),
        )
        .hint(take_over(&args.name, &path))
        .hint(format!("drop the edit: poste context mirror {} --force", args.name))),
        Some(Mirror::Current | Mirror::Behind) => cx.ui.answer(&MirrorAnswer { name: args.name.clone(), path }),
    }
}

fn take_over(name: &ContextName, path: &str) -> String {
    format!("take it over: poste context replace {name} --file {path} --merge")
}

/// Brings the mirror up to the log. The log is what counts, so trouble with the file is told and no more.
pub(crate) fn follow_mirror(cx: &Cx, office: &Office, name: &ContextName) {
    match office.mirror(name, false) {
        Ok(Some(Mirror::Edited(path))) => {
            let path = path.display().to_string();
            cx.ui.warn(format!("{path} was edited by hand, and does not follow the log any more"));
            cx.ui.say(take_over(name, &path));
            cx.ui.say(format!("drop the edit: poste context mirror {name} --force"));
        }
        Ok(_) => {}
        Err(error) => cx.ui.warn(format!("the file of context {name} was not written: {error}")),
    }
}

/// Whoever reads, if anybody says so.
fn reader(cx: &Cx, office: &Office) -> Result<Option<Name>> {
    match cx.optional_speaker() {
        Some(_) => Ok(Some(cx.agent(office)?.name)),
        None => Ok(None),
    }
}

/// Remembers what was just printed as seen. Printing came first, so nothing is remembered in vain.
fn mark_read(cx: &Cx, office: &mut Office, reader: Option<&Name>, name: &ContextName, version: u64) -> Result {
    let Some(reader) = reader else { return Ok(()) };
    if views::version_seen(office.store(), reader, name)?.is_some_and(|seen| seen >= version) {
        return Ok(());
    }
    cx.mark(office, Mark::ContextRead(name.clone(), version))
}

/// A context at a version, or what helps to find one.
pub(crate) fn view(office: &Office, name: &ContextName, at: Option<u64>) -> Result<ContextView> {
    match views::context(office.store(), name, at) {
        Ok(Some(view)) => Ok(view),
        Ok(None) => Err(unknown(office, name)?),
        Err(error @ poste_core::Error::Rejected(_)) => {
            Err(CommandError::from(error).hint(format!("see the versions: poste context history {name}")))
        }
        Err(error) => Err(error.into()),
    }
}

/// "No such context", with the nearest names.
pub(crate) fn unknown(office: &Office, name: &ContextName) -> Result<CommandError> {
    let error = CommandError::not_found(format!("there is no context {name}")).code(Code::UnknownContext.word());
    Ok(match views::nearest_contexts(office.store(), name.as_str())?.as_slice() {
        [] => error.hint(format!("make it: poste context create {name}; or see what is there: poste context list")),
        near => error.hint(format!("did you mean {}?", near.join(" or "))),
    })
}

/// What was stored, in a word for people.
pub(crate) fn told(subscribers: usize) -> String {
    match subscribers {
        0 => "nobody subscribes".to_owned(),
        count => format!("told {}", ui::count(count, "subscriber")),
    }
}
