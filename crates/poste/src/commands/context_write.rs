//! Shared contexts: making, appending, replacing, editing. A change made from an old version is merged or refused.

use std::io::{self, IsTerminal as _, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use poste_core::document;
use poste_core::fold::{Code, Effect, Versioned};
use poste_core::limits;
use poste_core::log::{
    Content, ContextAppend, ContextCreate, ContextReplace, Document, Intent, Lines, MessageNo, Position, Proposal,
    context_mail,
};
use poste_core::office::Office;
use poste_core::store::mirror;
use poste_core::text::{ContextName, RecordId, Word};
use poste_core::views::{self, ContextView};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::context::{self, follow_mirror, told, version_line};
use super::context_lock::{WaitArgs, decide_patiently};
use super::{SecretArgs, said};
use crate::Result;
use crate::context::Cx;
use crate::draft::{read_body, read_payload};
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui};

/// What every change of a context takes.
#[derive(Debug, clap::Args)]
pub(crate) struct ChangeArgs {
    /// What subscribers and the history are told, in one line
    #[arg(long, value_name = "TEXT")]
    pub summary: Option<String>,
    #[command(flatten)]
    pub wait: WaitArgs,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    pub id: Option<RecordId>,
    #[command(flatten)]
    pub secret: SecretArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// Lower-case letters, digits, - and _; also the name of the file
    name: ContextName,
    /// Its first text, Markdown; - for stdin
    #[arg(allow_hyphen_values = true)]
    body: Option<String>,
    /// The first text is in this file
    #[arg(long, value_name = "PATH", conflicts_with = "body")]
    file: Option<PathBuf>,
    /// What it is for: api-contracts, decisions, data-models, standards, integration, or a word of your own
    #[arg(long, default_value = "notes")]
    kind: Word,
    /// The structured part: a JSON object, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    data: Option<String>,
    /// A file with the JSON Schema that the structured part must always fit
    #[arg(long, value_name = "PATH")]
    schema: Option<PathBuf>,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AppendArgs {
    /// The context's name
    name: ContextName,
    /// Markdown; - for stdin
    #[arg(allow_hyphen_values = true, required_unless_present = "file")]
    body: Option<String>,
    /// The section is in this file
    #[arg(long, value_name = "PATH", conflicts_with = "body")]
    file: Option<PathBuf>,
    /// Its heading; otherwise the time and your name
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReplaceArgs {
    /// The context's name
    name: ContextName,
    /// The whole text, Markdown; - for stdin
    #[arg(allow_hyphen_values = true, required_unless_present_any = ["file", "data"])]
    body: Option<String>,
    /// The whole text is in this file; it may be an edited .poste/contexts/NAME.md
    #[arg(long, value_name = "PATH", conflicts_with = "body")]
    file: Option<PathBuf>,
    /// The structured part, too: a JSON object, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    data: Option<String>,
    /// The version it was made from; not needed for a file that says so itself
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
    /// If others have changed it since: put both changes together, as long as they are in different places
    #[arg(long)]
    merge: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// The context's name
    name: ContextName,
    /// A JSON object, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    data: String,
    /// The version it was made from
    #[arg(long, value_name = "VERSION")]
    if_version: u64,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EditArgs {
    /// The context's name
    name: ContextName,
    /// If others have changed it meanwhile: put both changes together, as long as they are in different places
    #[arg(long)]
    merge: bool,
    /// Store it also when nothing is left of the text
    #[arg(long)]
    allow_empty: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct VersionAnswer {
    #[serde(flatten)]
    pub made: Versioned,
    /// Lines of text; null when it was stored before.
    pub added: Option<u32>,
    pub removed: Option<u32>,
    /// Others had changed it, and both changes were put together.
    pub merged: bool,
    pub id: RecordId,
    pub position: Option<Position>,
    /// It was stored before under this id; there is no second effect.
    pub repeat: bool,
}

impl Answer for VersionAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let Versioned { context, version, subscribers, .. } = &self.made;
        let lines = match (self.added, self.removed) {
            (Some(added), Some(removed)) => format!(" (+{added} −{removed})"),
            _ => String::new(),
        };
        let merged = if self.merged { ", merged with what others changed" } else { "" };
        let again = if self.repeat { " (stored before under this id)" } else { "" };
        writeln!(out, "{context} version {version}{lines}{merged}, {}{again}", told(*subscribers))
    }
}

/// A text that was left as it was is not stored.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum EditAnswer {
    Saved(VersionAnswer),
    Unchanged {
        context: ContextName,
        /// Still the newest one.
        version: u64,
        unchanged: bool,
    },
}

impl Answer for EditAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Saved(answer) => answer.print(ui, out),
            Self::Unchanged { context, version, .. } => writeln!(out, "{context} stays at version {version}"),
        }
    }
}

pub(crate) fn create(cx: &mut Cx, args: CreateArgs) -> Result {
    let text = match (args.body, args.file) {
        (None, None) => String::new(),
        (body, file) => read_text(cx, body, file.as_deref())?,
    };
    let document = Document {
        title: None,
        text: Some(document::ended(&text)),
        data: args.data.as_deref().map(read_data).transpose()?,
        schema: args.schema.as_deref().map(read_schema).transpose()?,
    };
    let lines = document::count_all(&text);
    let header = ContextCreate {
        kind: args.kind,
        lines,
        data: document.data.is_some(),
        schema: document.schema.is_some(),
        mail: context_mail(&args.name),
        name: args.name.clone(),
    };
    let mut office = cx.open_to_write()?;
    let summary = args.change.summary.as_deref();
    let content = content(cx, &args.name, "created", lines, summary.unwrap_or("created"), document, &args.change)?;
    let intent = Intent::ContextCreate(header);
    let proposal = cx.proposal(&office, intent, Some(content), args.change.id.clone())?;
    let answer = propose(cx, &mut office, &args.name, &proposal, lines, args.change.wait)?;
    follow_mirror(cx, &office, &args.name);
    cx.ui.answer(&answer)?;
    cx.ui.say(format!("hear of its changes: poste subscribe context.{}", args.name));
    Ok(())
}

pub(crate) fn append(cx: &mut Cx, args: AppendArgs) -> Result {
    let text = read_text(cx, args.body, args.file.as_deref())?;
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    let Some(first) = first else { return Err(CommandError::usage("the section is empty; say something")) };
    let summary = args.change.summary.clone().or_else(|| args.title.clone()).unwrap_or_else(|| first.to_owned());
    let lines = document::count_all(&text);
    let section_bytes = text.len() + args.title.as_ref().map_or(0, String::len);
    let document = Document { title: args.title, text: Some(document::ended(&text)), ..Document::default() };
    let content = content(cx, &args.name, "appended to", lines, &summary, document, &args.change)?;
    let header = ContextAppend { mail: context_mail(&args.name), name: args.name.clone(), lines };
    let mut office = cx.open_to_write()?;
    has_room(&office, &args.name, section_bytes, args.change.id.as_ref())?;
    let proposal = cx.proposal(&office, Intent::ContextAppend(header), Some(content), args.change.id.clone())?;
    let answer = propose(cx, &mut office, &args.name, &proposal, lines, args.change.wait)?;
    follow_mirror(cx, &office, &args.name);
    cx.ui.answer(&answer)
}

/// The whole text must stay one that can be edited and replaced. What was stored under an id is a repeat all the same.
fn has_room(office: &Office, name: &ContextName, section_bytes: usize, id: Option<&RecordId>) -> Result {
    if is_known(office, id)? {
        return Ok(());
    }
    let text_bytes = views::context(office.store(), name, None)?.map_or(0, |view| view.text.len());
    // The time and the name above a section.
    const HEADING_BYTES_MAX: usize = 256;
    let max = limits::DOCUMENT_BYTES_MAX;
    if text_bytes + section_bytes + HEADING_BYTES_MAX <= max {
        return Ok(());
    }
    Err(CommandError::new(Kind::Refused, format!("the text of context {name} would have more than {max} bytes"))
        .code(Code::TooLarge.word())
        .hint(format!("shorten it first: poste context edit {name}; or begin another context")))
}

fn is_known(office: &Office, id: Option<&RecordId>) -> Result<bool> {
    let Some(id) = id else { return Ok(false) };
    Ok(office.store().tables()?.id(id)?.is_some())
}

pub(crate) fn replace(cx: &mut Cx, args: ReplaceArgs) -> Result {
    let mut if_version = args.if_version;
    let text = match (args.body, &args.file) {
        (None, None) => None,
        (body, file) => Some(read_text(cx, body, file.as_deref())?),
    };
    let read = text.clone();
    // A file that was edited in the mirror has a header and a history around its text, and says what it was made from.
    let text = text.map(|text| match views::markdown_parts(&args.name, &text) {
        Some(parts) => {
            if_version = if_version.or(Some(parts.version));
            parts.text.to_owned()
        }
        None => text,
    });
    let if_version = if_version.ok_or_else(|| {
        CommandError::usage("which version was it made from? --if-version is missing")
            .hint(format!("see the newest: poste context show {}", args.name))
    })?;
    let change = Replacement {
        text: text.map(|text| document::ended(&text)),
        data: args.data.as_deref().map(read_data).transpose()?,
        merge: args.merge,
        agreement: None,
    };
    let mut office = cx.open_to_write()?;
    let answer = match unchanged(&office, &args.name, if_version, &change, args.change.id.as_ref())? {
        Some(answer) => {
            cx.ui.say("nothing changed, nothing stored");
            answer
        }
        None => EditAnswer::Saved(store(cx, &mut office, &args.name, if_version, change, &args.change)?),
    };
    follow_after(cx, &office, &args.name, args.file.as_deref(), if_version, read.as_deref())?;
    cx.ui.answer(&answer)
}

/// The mirror follows again once what was edited in it is in the log: nothing of it is lost then.
fn follow_after(
    cx: &Cx,
    office: &Office,
    name: &ContextName,
    file: Option<&Path>,
    made_from: u64,
    read: Option<&str>,
) -> Result {
    let is_taken_over =
        |file: &&Path| is_mirror(office, name, file) && std::fs::read_to_string(file).ok().as_deref() == read;
    if let (Some(file), Some(edited)) = (file.filter(is_taken_over), read) {
        if mirror::differs_in_text_only(office.store(), name, made_from, edited)? {
            drop(office.mirror(name, true)?);
            return Ok(());
        }
        cx.ui.warn(format!("only the text was stored; what was written around it stands in {} alone", file.display()));
    }
    follow_mirror(cx, office, name);
    Ok(())
}

/// A text that is the newest one already is no version. What was stored under an id is a repeat all the same.
fn unchanged(
    office: &Office,
    name: &ContextName,
    made_from: u64,
    change: &Replacement,
    id: Option<&RecordId>,
) -> Result<Option<EditAnswer>> {
    let (Some(text), None) = (&change.text, &change.data) else { return Ok(None) };
    if is_known(office, id)? {
        return Ok(None);
    }
    let newest = context::view(office, name, None)?;
    let is_same = newest.version == made_from && newest.text == *text;
    Ok(is_same.then(|| EditAnswer::Unchanged { context: name.clone(), version: newest.version, unchanged: true }))
}

fn is_mirror(office: &Office, name: &ContextName, file: &Path) -> bool {
    let Ok(folder) = office.path() else { return false };
    let mirror = mirror::path(folder, name);
    matches!((mirror.canonicalize(), file.canonicalize()), (Ok(mirror), Ok(file)) if mirror == file)
}

pub(crate) fn set(cx: &mut Cx, args: SetArgs) -> Result {
    let data = Some(read_data(&args.data)?);
    let change = Replacement { text: None, data, merge: false, agreement: None };
    let mut office = cx.open_to_write()?;
    let answer = store(cx, &mut office, &args.name, args.if_version, change, &args.change)?;
    follow_mirror(cx, &office, &args.name);
    cx.ui.answer(&answer)
}

pub(crate) fn edit(cx: &mut Cx, args: EditArgs) -> Result {
    let editor = editor()?;
    let mut office = cx.open_to_write()?;
    cx.active_agent(&office)?;
    let before = context::view(&office, &args.name, None)?;
    if let Some(lock) = &before.lock {
        cx.ui.say(format!("{} is {}", args.name, context::lock_text(&cx.ui, lock)));
    }
    let file = private_file(&args.name, &before.text)?;
    if let Err(error) = run_editor(&editor, file.path()) {
        let is_untouched = std::fs::read(file.path()).is_ok_and(|bytes| bytes == before.text.as_bytes());
        return Err(if is_untouched { error } else { keep(file, error).1 });
    }
    let text = match read_text(cx, None, Some(file.path())) {
        Ok(text) => text,
        Err(error) => return Err(keep(file, error).1),
    };
    if text == before.text {
        let answer = EditAnswer::Unchanged { context: args.name, version: before.version, unchanged: true };
        cx.ui.say("nothing changed, nothing stored");
        return cx.ui.answer(&answer);
    }
    if text.trim().is_empty() && !args.allow_empty {
        return Err(CommandError::usage("the file was left empty; nothing was stored")
            .hint(format!("to empty the context: poste context edit {} --allow-empty", args.name)));
    }
    // Somebody else may have had the file open for hours: the office is looked at anew.
    let change = Replacement { text: Some(document::ended(&text)), data: None, merge: args.merge, agreement: None };
    match store(cx, &mut office, &args.name, before.version, change, &args.change) {
        Ok(answer) => {
            follow_mirror(cx, &office, &args.name);
            cx.ui.answer(&EditAnswer::Saved(answer))
        }
        Err(error) => {
            let (path, error) = keep(file, error);
            let (name, version) = (&args.name, before.version);
            let go_on =
                format!("poste context replace {name} --file {} --if-version {version} --merge", path.display());
            Err(error.hint(format!("go on with it: {go_on}")))
        }
    }
}

/// What was typed is not lost with a refusal.
fn keep(file: tempfile::NamedTempFile, error: CommandError) -> (PathBuf, CommandError) {
    let path = file.path().to_owned();
    if !path.is_file() {
        return (path, error.cause("nothing was stored, and the editor left no file"));
    }
    match file.into_temp_path().keep() {
        Ok(_) => {
            let error = error.cause(format!("nothing was stored; your text is kept in {}", path.display()));
            (path, error)
        }
        Err(failed) => (path, error.cause(format!("your text could not be kept: {failed}"))),
    }
}

/// What to put in the place of a version.
pub(crate) struct Replacement {
    pub text: Option<String>,
    pub data: Option<Box<RawValue>>,
    pub merge: bool,
    /// The proposal it writes down, on which everybody has agreed.
    pub agreement: Option<MessageNo>,
}

/// Stores a replacement. Made from an old version it is refused, or merged and tried again, as often as it takes.
pub(crate) fn store(
    cx: &Cx,
    office: &mut Office,
    name: &ContextName,
    made_from: u64,
    change: Replacement,
    args: &ChangeArgs,
) -> Result<VersionAnswer> {
    if change.text.as_deref().is_some_and(is_marked) {
        return Err(CommandError::usage("the text still has the marks of a conflict in it")
            .hint("choose between what is above and below =======, take the marks out, and try again"));
    }
    let base = context::view(office, name, Some(made_from))?;
    if change.merge
        && let Some(id) = &args.id
        && let Some(answer) = stored_before(cx, office, name, id, &change)?
    {
        return Ok(answer);
    }
    let mut current = made_from;
    let mut text = change.text.clone();
    const TRIES_MAX: usize = 100;
    for _ in 0..TRIES_MAX {
        // Counted against what is replaced, which only merging makes another than it was made from.
        let before = if current == made_from { &base } else { &context::view(office, name, Some(current))? };
        let lines = text.as_deref().map_or(Lines::default(), |text| document::count(&before.text, text));
        let document = Document { text: text.clone(), data: change.data.clone(), ..Document::default() };
        let default = match (&document.text, &document.data) {
            (None, _) => "set the structured part",
            (Some(_), None) => "changed the text",
            (Some(_), Some(_)) => "changed the text and the structured part",
        };
        let summary = args.summary.as_deref().unwrap_or(default);
        let header = ContextReplace {
            if_version: current,
            lines,
            text: document.text.is_some(),
            data: document.data.is_some(),
            agreement: change.agreement,
            mail: context_mail(name),
            name: name.clone(),
        };
        let mut content = content(cx, name, "changed", lines, summary, document, args)?;
        if change.merge && args.id.is_some() {
            content.metadata.insert(UNMERGED.to_owned(), unmerged(&change));
        }
        let intent = Intent::ContextReplace(header);
        let proposal = cx.proposal(office, intent, Some(content), args.id.clone())?;
        match propose(cx, office, name, &proposal, lines, args.wait) {
            Ok(answer) => return Ok(VersionAnswer { merged: current != made_from, ..answer }),
            Err(error) if error.code == Some(Code::StaleVersion.word()) => {
                if !change.merge {
                    let error = stale(office, name, made_from, error)?;
                    let can_merge = change.text.is_some();
                    return Err(if can_merge { error.hint("put both changes together: --merge") } else { error });
                }
                let newest = context::view(office, name, None)?;
                text = merged(office, &base, &change, &newest, error)?;
                current = newest.version;
            }
            Err(error) => return Err(error),
        }
    }
    Err(CommandError::new(Kind::Conflict, format!("context {name} changes faster than a merge can follow"))
        .hint(format!("lock it first: poste context lock {name}")))
}

/// The key of the content's metadata that keeps what was to be merged, as a digest.
const UNMERGED: &str = "unmerged";

fn unmerged(change: &Replacement) -> String {
    let data = change.data.as_deref().map(RawValue::get);
    let both = serde_json::to_vec(&(&change.text, data)).expect("plain text always encodes");
    poste_core::Digest::of(&both).to_string()
}

/// A merge under an id may have had to be made from another version than the one it is asked for with.
fn stored_before(
    cx: &Cx,
    office: &Office,
    name: &ContextName,
    id: &RecordId,
    change: &Replacement,
) -> Result<Option<VersionAnswer>> {
    let Some(made) = views::version_of_id(office.store(), name, &cx.speaker()?, id)? else { return Ok(None) };
    let (made, position) = made;
    // Words that were erased cannot be compared any more; they were stored, and that is what is asked.
    let stored = views::message(office.store(), made.message)?.filter(|stored| !stored.content_gone);
    if let Some(stored) = stored
        && stored.metadata.get(UNMERGED) != Some(&unmerged(change))
    {
        let message = format!("the id was used for something else at record {position}");
        return Err(CommandError::new(Kind::Conflict, message)
            .code(Code::IdConflict.word())
            .hint("an id is for one write for ever; take another one"));
    }
    let position = Some(position);
    Ok(Some(VersionAnswer { made, added: None, removed: None, merged: false, id: id.clone(), position, repeat: true }))
}

/// Both changes together; or what stands against it.
fn merged(
    office: &Office,
    base: &ContextView,
    change: &Replacement,
    newest: &ContextView,
    error: CommandError,
) -> Result<Option<String>> {
    let data = |view: &ContextView| view.data.as_ref().map(|data| data.get().to_owned());
    let stale = stale(office, &base.name, base.version, error)?;
    if change.data.is_some() && data(base) != data(newest) {
        return Err(stale.cause("the structured part was changed too, and is not merged"));
    }
    let Some(mine) = &change.text else { return Ok(None) };
    match document::merge(&base.text, mine, &newest.text) {
        Ok(text) => Ok(Some(text)),
        Err(marked) => {
            let shown = conflict(&marked);
            let file = private_file(&base.name, &marked)?.into_temp_path();
            let path = file.display().to_string();
            file.keep().map_err(|error| CommandError::new(Kind::Internal, error.to_string()))?;
            let (name, version) = (&base.name, newest.version);
            let message = format!("{}: both changed the same lines", stale.message);
            Err(CommandError::new(Kind::Conflict, message)
                .code(Code::StaleVersion.word())
                .cause(shown)
                .hint(format!("choose between the marked lines in {path}"))
                .hint(format!("then store it: poste context replace {name} --file {path} --if-version {version}")))
        }
    }
}

const MARK_BEGIN: &str = "<<<<<<< ours";
const MARK_END: &str = ">>>>>>> theirs";

fn is_marked(text: &str) -> bool {
    text.lines().any(|line| line == MARK_BEGIN) && text.lines().any(|line| line == MARK_END)
}

/// The first lines that both changed.
fn conflict(marked: &str) -> String {
    const SHOWN_MAX: usize = 30;
    let lines: Vec<&str> = marked.lines().skip_while(|line| *line != MARK_BEGIN).collect();
    let end = lines.iter().position(|line| *line == MARK_END).map_or(lines.len(), |end| end + 1);
    match end > SHOWN_MAX {
        true => format!("{}\n…", lines[..SHOWN_MAX].join("\n")),
        false => lines[..end].join("\n"),
    }
}

/// A change was made from an old version: who changed what since, and what helps.
fn stale(office: &Office, name: &ContextName, made_from: u64, error: CommandError) -> Result<CommandError> {
    const NAMED_MAX: usize = 8;
    let found = views::context_history(office.store(), name, made_from, NAMED_MAX)?;
    let (versions, more) = found.unwrap_or_default();
    let mut error = versions.iter().rev().fold(error, |error, version| error.cause(version_line(version)));
    if more {
        error = error.cause("and older ones");
    }
    Ok(error.hint(format!("see the difference: poste context diff {name} {made_from}..")))
}

/// Proposes a version, and waits for a lock as long as it is asked to.
fn propose(
    cx: &Cx,
    office: &mut Office,
    name: &ContextName,
    proposal: &Proposal,
    lines: Lines,
    wait: WaitArgs,
) -> Result<VersionAnswer> {
    let (outcome, effect) = decide_patiently(cx, office, name, proposal, wait)?;
    let Effect::Versioned(made) = effect else {
        return Err(CommandError::new(Kind::Internal, "the office took the change for something else"));
    };
    Ok(VersionAnswer {
        made,
        added: Some(lines.added),
        removed: Some(lines.removed),
        merged: false,
        id: outcome.id,
        position: outcome.position,
        repeat: outcome.repeat,
    })
}

/// The text of a version, and the short mail that tells of it.
fn content(
    cx: &Cx,
    name: &ContextName,
    did: &str,
    lines: Lines,
    summary: &str,
    document: Document,
    args: &ChangeArgs,
) -> Result<Content> {
    let summary = said("--summary", summary)?;
    let body = format!(
        "{} {did} context {name}: +{} −{} lines.\nSee what changed: poste context since {name}\n",
        cx.speaker()?,
        lines.added,
        lines.removed
    );
    let content = Content {
        subject: subject(name, summary),
        body: body.as_str().into(),
        document: Some(document),
        ..Content::default()
    };
    args.secret.check(&content)?;
    Ok(content)
}

/// One line that is not longer than a subject may be.
fn subject(name: &ContextName, summary: &str) -> String {
    let line: String = summary.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    super::reply::prefixed(&format!("{name}: "), line.trim())
}

/// A text from the arguments, from stdin for `-`, or from a file.
fn read_text(cx: &Cx, body: Option<String>, file: Option<&Path>) -> Result<String> {
    let bytes = match file {
        None => read_body(cx, body)?,
        Some(path) => read_file(path, limits::DOCUMENT_BYTES_MAX as u64)?,
    };
    String::from_utf8(bytes).map_err(|_| CommandError::usage("the text is no UTF-8"))
}

/// A regular file, and no more of it than may be stored.
fn read_file(path: &Path, max: u64) -> Result<Vec<u8>> {
    let shown = path.display();
    let not_found = |error: io::Error| CommandError::not_found(format!("{shown}: {error}"));
    // A pipe would make whoever opens it wait for ever.
    if !std::fs::metadata(path).map_err(not_found)?.is_file() {
        return Err(CommandError::usage(format!("{shown} is no regular file")));
    }
    let file = std::fs::File::open(path).map_err(not_found)?;
    let mut bytes = Vec::new();
    // A mirrored file has a header and a history around its text.
    const AROUND_BYTES_MAX: u64 = 1024 * 1024;
    file.take(max + AROUND_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(not_found)?;
    if bytes.len() as u64 > max + AROUND_BYTES_MAX {
        return Err(CommandError::new(Kind::Refused, format!("{shown} is larger than a context may be")));
    }
    Ok(bytes)
}

fn read_data(text: &str) -> Result<Box<RawValue>> {
    read_payload(text).map_err(|mut error| {
        error.message = error.message.replace("the payload", "the data");
        error
    })
}

fn read_schema(path: &Path) -> Result<Box<RawValue>> {
    let bytes = read_file(path, limits::SCHEMA_BYTES_MAX)?;
    let wrong = |why: String| CommandError::usage(format!("{}: {why}", path.display()));
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is no UTF-8".to_owned()))?;
    RawValue::from_string(text).map_err(|error| wrong(format!("it is no JSON: {error}")))
}

/// $VISUAL, else $EDITOR, else vi; split into words as a shell would.
fn editor() -> Result<Vec<String>> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let command = match set("VISUAL").or_else(|| set("EDITOR")) {
        Some(command) => command,
        // An editor nobody chose would wait for keys that nobody can press.
        None if !(io::stdin().is_terminal() && io::stdout().is_terminal()) => {
            return Err(CommandError::usage("no editor is set, and there is no terminal to start one in")
                .hint("set EDITOR, or use: poste context replace NAME --file PATH --if-version VERSION"));
        }
        None => "vi".to_owned(),
    };
    let words = shell_words::split(&command)
        .map_err(|error| CommandError::usage(format!("the editor cannot be read from $VISUAL or $EDITOR: {error}")))?;
    match words.is_empty() {
        true => Err(CommandError::usage("$VISUAL or $EDITOR names no program")),
        false => Ok(words),
    }
}

/// A file only its owner can read, outside of the project.
fn private_file(name: &ContextName, text: &str) -> Result<tempfile::NamedTempFile> {
    let failed = |error: io::Error| CommandError::new(Kind::Internal, format!("a temporary file: {error}"));
    let prefix = format!("poste-{name}-");
    let mut file = tempfile::Builder::new().prefix(&prefix).suffix(".md").tempfile().map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.flush()).map_err(failed)?;
    Ok(file)
}

fn run_editor(editor: &[String], path: &Path) -> Result {
    let shown = editor.join(" ");
    let status = Command::new(&editor[0]).args(&editor[1..]).arg(path).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(CommandError::new(Kind::Refused, format!("{shown} ended with {status}; nothing was stored"))),
        Err(error) => Err(CommandError::not_found(format!("{shown} could not be run: {error}"))
            .hint("set EDITOR to a program that edits a file and waits until it is closed")),
    }
}
