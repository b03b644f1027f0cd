//! Shared contexts: create, append, replace, set, edit. A change to an old version is merged or refused.

use std::io::{self, IsTerminal as _, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use poste_core::fold::Versioned;
use poste_core::limits;
use poste_core::office::Office;
use poste_core::store::mirror;
use poste_core::text::{ContextName, Word};
use poste_verbs::context::{EditAnswer, MARKED, VersionAnswer, append, create, replace, set, show};
use poste_verbs::{Answered, Verb};
use serde_json::value::RawValue;

use super::WriteArgs;
use super::context::{lock_text, told};
use super::context_lock::WaitArgs;
use crate::context::Cx;
use crate::draft::{read_body, read_json};
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui};
use crate::{Result, notes};

/// Arguments of every change to a context.
#[derive(Debug, clap::Args)]
pub(crate) struct ChangeArgs {
    /// Summary for subscribers and the history, in one line
    #[arg(long, value_name = "TEXT")]
    pub summary: Option<String>,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub write: WriteArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// Context name: lower-case letters, digits, - and _
    name: ContextName,
    /// Initial text in Markdown; - for stdin
    #[arg(allow_hyphen_values = true)]
    body: Option<String>,
    /// File with the initial text
    #[arg(long, value_name = "PATH", conflicts_with = "body")]
    file: Option<PathBuf>,
    /// Kind: api-contracts, decisions, data-models, standards, integration, or a word of your own
    #[arg(long, default_value = "notes")]
    kind: Word,
    /// Structured part: a JSON object, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    data: Option<String>,
    /// File with the JSON Schema that the structured part must match
    #[arg(long, value_name = "PATH")]
    schema: Option<PathBuf>,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AppendArgs {
    /// Context name
    name: ContextName,
    /// Section in Markdown; - for stdin
    #[arg(allow_hyphen_values = true, required_unless_present = "file")]
    body: Option<String>,
    /// File with the section
    #[arg(long, value_name = "PATH", conflicts_with = "body")]
    file: Option<PathBuf>,
    /// Heading of the section; otherwise the time and your name
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReplaceArgs {
    /// Context name
    name: ContextName,
    /// Whole text in Markdown; - for stdin
    #[arg(allow_hyphen_values = true, required_unless_present_any = ["file", "data"])]
    body: Option<String>,
    /// File with the whole text; it may be an edited .poste/contexts/NAME.md
    #[arg(long, value_name = "PATH", conflicts_with = "body")]
    file: Option<PathBuf>,
    /// New structured part: a JSON object, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    data: Option<String>,
    /// Version that the change is based on; not needed for a file that names it
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
    /// Merge with newer changes if they are in different places
    #[arg(long)]
    merge: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// Context name
    name: ContextName,
    /// New structured part: a JSON object, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    data: String,
    /// Version that the change is based on
    #[arg(long, value_name = "VERSION")]
    if_version: u64,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EditArgs {
    /// Context name
    name: ContextName,
    /// Merge with newer changes if they are in different places
    #[arg(long)]
    merge: bool,
    /// Store the text even if it is empty
    #[arg(long)]
    allow_empty: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

impl Answer for VersionAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let Versioned { context, version, subscribers, .. } = &self.made;
        let lines = match (self.added, self.removed) {
            (Some(added), Some(removed)) => format!(" (+{added} −{removed})"),
            _ => String::new(),
        };
        let merged = if self.merged { ", merged with other changes" } else { "" };
        let again = if self.repeat { " (already stored under this id)" } else { "" };
        writeln!(out, "{context} version {version}{lines}{merged}, {}{again}", told(*subscribers))
    }
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
        (body, file) => read_text(body, file.as_deref())?,
    };
    cx.call(create::Input {
        name: args.name,
        text,
        kind: args.kind,
        data: args.data.as_deref().map(read_data).transpose()?,
        schema: args.schema.as_deref().map(read_schema).transpose()?,
        summary: args.change.summary,
        id: args.change.write.id,
        secrets: args.change.write.secret.secrets(cx)?,
    })
}

pub(crate) fn append(cx: &mut Cx, args: AppendArgs) -> Result {
    let input = append::Input {
        text: read_text(args.body, args.file.as_deref())?,
        name: args.name,
        title: args.title,
        summary: args.change.summary,
        id: args.change.write.id,
        secrets: args.change.write.secret.secrets(cx)?,
    };
    change(cx, args.change.wait, &input.name.clone(), &input)
}

pub(crate) fn replace(cx: &mut Cx, args: ReplaceArgs) -> Result {
    let text = match (args.body, &args.file) {
        (None, None) => None,
        (body, file) => Some(read_text(body, file.as_deref())?),
    };
    let from_mirror = match &args.file {
        Some(file) => is_mirror(&cx.place()?.path, &args.name, file),
        None => false,
    };
    let input = replace::Input {
        name: args.name,
        text,
        data: args.data.as_deref().map(read_data).transpose()?,
        if_version: args.if_version,
        merge: args.merge,
        summary: args.change.summary,
        id: args.change.write.id,
        from_mirror,
        secrets: args.change.write.secret.secrets(cx)?,
    };
    change(cx, args.change.wait, &input.name.clone(), &input)
}

fn is_mirror(office: &Path, name: &ContextName, file: &Path) -> bool {
    let mirror = mirror::path(office, name);
    matches!((mirror.canonicalize(), file.canonicalize()), (Ok(mirror), Ok(file)) if mirror == file)
}

pub(crate) fn set(cx: &mut Cx, args: SetArgs) -> Result {
    let input = set::Input {
        data: read_data(&args.data)?,
        name: args.name,
        if_version: args.if_version,
        summary: args.change.summary,
        id: args.change.write.id,
        secrets: args.change.write.secret.secrets(cx)?,
    };
    change(cx, args.change.wait, &input.name.clone(), &input)
}

/// Stores a new version, waiting for a lock if asked to, and prints the answer.
fn change<V: Verb<Answer: Answer> + Clone>(cx: &mut Cx, wait: WaitArgs, name: &ContextName, input: &V) -> Result {
    let mut office = cx.open_to_write()?;
    let answered = changed(cx, &mut office, wait, name, input)?;
    cx.ui.now = office.now()?;
    cx.show(&mut office, answered)
}

fn changed<V: Verb + Clone>(
    cx: &Cx,
    office: &mut Office,
    wait: WaitArgs,
    name: &ContextName,
    input: &V,
) -> Result<Answered<V::Answer>> {
    wait.retry_while_locked(cx, office, name, |office| cx.call_verb(office, input.clone()))
        .map_err(|error| keep_marked(name, error))
}

/// If both sides changed the same lines, keeps the text with conflict markers in a file, to be resolved there.
fn keep_marked(name: &ContextName, error: CommandError) -> CommandError {
    let part = |key: &str| error.partial.as_ref().and_then(|partial| partial.get(key));
    let marked = part(MARKED).and_then(|marked| marked.as_str());
    let version = part("version").and_then(serde_json::Value::as_u64);
    let (Some(marked), Some(version)) = (marked, version) else { return error };
    let kept = private_file(name, marked).and_then(|file| {
        let file = file.into_temp_path();
        let path = file.display().to_string();
        file.keep().map_err(|error| CommandError::new(Kind::Internal, error.to_string()))?;
        Ok(path)
    });
    match kept {
        Ok(path) => error
            .hint(format!("resolve the marked conflicts in {path}"))
            .hint(format!("then store it: poste context replace {name} --file {path} --if-version {version}")),
        Err(failed) => error.cause(failed.text()),
    }
}

pub(crate) fn edit(cx: &mut Cx, args: EditArgs) -> Result {
    let editor = editor()?;
    let mut office = cx.open_to_write()?;
    cx.active_agent(&mut office)?;
    let shown = cx.call_verb(&mut office, show::Input { name: args.name.clone(), at: None })?;
    notes::say(&cx.ui, &shown);
    let before = shown.answer;
    if let Some(lock) = &before.lock {
        cx.ui.say(format!("{} is {}", args.name, lock_text(&cx.ui, lock)));
    }
    let file = private_file(&args.name, &before.text)?;
    if let Err(error) = run_editor(&editor, file.path()) {
        let is_untouched = std::fs::read(file.path()).is_ok_and(|bytes| bytes == before.text.as_bytes());
        return Err(if is_untouched { error } else { keep(file, error).1 });
    }
    cx.confirm_printed(&mut office, shown.marks);
    let text = match read_text(None, Some(file.path())) {
        Ok(text) => text,
        Err(error) => return Err(keep(file, error).1),
    };
    if text.trim().is_empty() && !before.text.trim().is_empty() && !args.allow_empty {
        return Err(CommandError::usage("the file was left empty; nothing was stored")
            .hint(format!("to empty the context: poste context edit {} --allow-empty", args.name)));
    }
    if text == before.text {
        let answer = EditAnswer::Unchanged { context: args.name, version: before.version, unchanged: true };
        cx.ui.say("nothing changed, nothing stored");
        return cx.ui.answer(&answer);
    }
    let input = replace::Input {
        name: args.name,
        text: Some(text),
        data: None,
        if_version: Some(before.version),
        merge: args.merge,
        summary: args.change.summary,
        id: args.change.write.id,
        from_mirror: false,
        secrets: args.change.write.secret.secrets(cx)?,
    };
    match changed(cx, &mut office, args.change.wait, &input.name, &input) {
        Ok(answered) => {
            cx.ui.now = office.now()?;
            cx.show(&mut office, answered)
        }
        Err(error) => {
            let (path, error) = keep(file, error);
            let (name, version) = (&input.name, before.version);
            let command =
                format!("poste context replace {name} --file {} --if-version {version} --merge", path.display());
            Err(error.hint(format!("continue with it: {command}")))
        }
    }
}

/// Keeps the edited text in its file, so that a refusal does not lose it.
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

/// A text from the arguments, from stdin for `-`, or from a file.
fn read_text(body: Option<String>, file: Option<&Path>) -> Result<String> {
    let bytes = match file {
        None => read_body(body)?,
        Some(path) => read_file(path, limits::DOCUMENT_BYTES_MAX as u64)?,
    };
    String::from_utf8(bytes).map_err(|_| CommandError::usage("the text is not valid UTF-8"))
}

/// Reads a regular file, but no more than may be stored.
fn read_file(path: &Path, max: u64) -> Result<Vec<u8>> {
    let shown = path.display();
    let not_found = |error: io::Error| CommandError::not_found(format!("{shown}: {error}"));
    // Opening a pipe could block forever.
    if !std::fs::metadata(path).map_err(not_found)?.is_file() {
        return Err(CommandError::usage(format!("{shown} is not a regular file")));
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
    read_json("data", text)
}

fn read_schema(path: &Path) -> Result<Box<RawValue>> {
    let bytes = read_file(path, limits::SCHEMA_BYTES_MAX)?;
    let wrong = |why: String| CommandError::usage(format!("{}: {why}", path.display()));
    let text = String::from_utf8(bytes).map_err(|_| wrong("not valid UTF-8".to_owned()))?;
    RawValue::from_string(text).map_err(|error| wrong(format!("not valid JSON: {error}")))
}

/// $VISUAL, else $EDITOR, else vi; split into words as a shell would.
fn editor() -> Result<Vec<String>> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let command = match set("VISUAL").or_else(|| set("EDITOR")) {
        Some(command) => command,
        // Without a terminal, the default editor would wait forever for input.
        None if !(io::stdin().is_terminal() && io::stdout().is_terminal()) => {
            return Err(CommandError::usage("no editor is set, and there is no terminal to start one in")
                .hint("set EDITOR, or use: poste context replace NAME --file PATH --if-version VERSION"));
        }
        None => "vi".to_owned(),
    };
    let words = shell_words::split(&command)
        .map_err(|error| CommandError::usage(format!("could not parse the editor in $VISUAL or $EDITOR: {error}")))?;
    match words.is_empty() {
        true => Err(CommandError::usage("$VISUAL or $EDITOR names no program")),
        false => Ok(words),
    }
}

/// A temporary file outside the project that only its owner can read.
fn private_file(name: &ContextName, text: &str) -> Result<tempfile::NamedTempFile> {
    let failed = |error: io::Error| CommandError::new(Kind::Internal, format!("temporary file: {error}"));
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
