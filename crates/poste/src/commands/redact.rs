use std::io::{self, Write};
use std::path::Path;

use poste_core::fold::Code;
use poste_core::log::{Content, Intent, MessageNo, Position, Redact};
use poste_core::office::Office;
use poste_core::text::RecordId;
use poste_core::views::{self, RepeatingVersion};
use schemars::JsonSchema;
use serde::Serialize;

use super::SecretArgs;
use crate::Result;
use crate::context::Cx;
use crate::error::CommandError;
use crate::explain::no_message;
use crate::ui::{self, Answer, Ui, escape};

/// Erase what a message said, everywhere in the office; who sent it when to whom stays
///
/// Its author may, and any human. It cannot be undone: afterwards no file of the office folder has the words.
/// Copies outside of it (snapshots, a model's context, a terminal's history) are not reached.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste redact 12 --reason 'carried a password' --as anna\n  \
                        poste redact 12 --results --reason 'customer data' --as anna\n  \
                        poste redact --record 40 --reason 'customer data' --as anna")]
pub(crate) struct Args {
    /// The message's number
    #[arg(value_parser = crate::cli::number, required_unless_present_any = ["record", "finish"])]
    number: Option<MessageNo>,
    /// Also what recipients said of it: results, reasons, notes
    #[arg(long, requires = "number")]
    results: bool,
    /// What this record of the log said; may be given several times
    #[arg(long, value_name = "POSITION", value_parser = crate::cli::position)]
    record: Vec<Position>,
    /// Why; it is kept
    #[arg(long, value_name = "TEXT", required_unless_present = "finish")]
    reason: Option<String>,
    /// Finish an erasure that was interrupted, and erase once more what was redacted before
    #[arg(long, conflicts_with_all = ["number", "record", "reason"])]
    finish: bool,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RedactAnswer {
    /// Records whose content is erased.
    pub records: Vec<Position>,
    /// Nothing was redacted now; the files were erased of what had been redacted before, if that was still to do.
    pub finished: bool,
    pub blobs: usize,
    pub archives: usize,
    /// Blobs that another message names too; redact that one as well to erase them.
    pub kept_blobs: Vec<String>,
    /// Archives that hold some of it and are missing: should one come back, `redact --finish` erases it there.
    pub missing_archives: Vec<String>,
    /// Files of shared contexts that were edited by hand: they are left as they are, and may hold some of it.
    pub edited_mirrors: Vec<String>,
    /// Files beside them that are of no context: they are left, and may hold some of it.
    pub strange_files: Vec<String>,
    /// Messages that repeat the same words, at least the subject; each must be redacted by itself.
    pub repeated_in: Vec<MessageNo>,
    /// Those of them that are versions of a shared context, with the whole text or data once more.
    pub repeating_versions: Vec<RepeatingVersion>,
}

impl Answer for RedactAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        match self.finished {
            true => writeln!(out, "everything that was redacted is erased")?,
            false => writeln!(out, "erased the content of {}", ui::count(self.records.len(), "record"))?,
        }
        for blob in &self.kept_blobs {
            writeln!(out, "kept: the copy {blob} belongs to another message too")?;
        }
        for archive in &self.missing_archives {
            writeln!(out, "not erased: archive/{archive} is missing; if it comes back: poste redact --finish")?;
        }
        for path in &self.edited_mirrors {
            let name = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
            writeln!(
                out,
                "not erased: {path} was edited by hand; look into it, then poste context mirror {name} --force"
            )?;
        }
        for path in &self.strange_files {
            writeln!(out, "not erased: {} is of no context; look into it", escape::line(path))?;
        }
        for RepeatingVersion { context, version, message } in &self.repeating_versions {
            writeln!(
                out,
                "not erased: version {version} of context {context} may have it once more; poste redact {message}"
            )?;
        }
        let is_version = |number| self.repeating_versions.iter().any(|version| version.message == number);
        for number in self.repeated_in.iter().filter(|number| !is_version(**number)) {
            writeln!(out, "not erased: #{number} repeats it, at least its subject; poste redact {number}")?;
        }
        Ok(())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open_to_write()?;
    let mut records = args.record;
    let mut repeated_in = Vec::new();
    if let Some(number) = args.number {
        let said = views::said_of(office.store(), number)?.ok_or_else(|| no_message(number))?;
        records.extend(said.own);
        if args.results {
            records.extend(said.by_recipients);
        }
        repeated_in = said.repeated_in;
    }
    let mut repeating: Vec<RepeatingVersion> = Vec::new();
    for record in &records {
        repeating.extend(views::repeating_versions(office.store(), *record)?);
    }
    if !args.finish {
        let reason = args.reason.unwrap_or_default();
        let reason = args.secret.text("reason", super::said("--reason", &reason)?)?;
        propose(cx, &mut office, &records, reason, args.id)?;
    }
    // What was redacted with it has the words no more.
    let mut repeating_versions: Vec<RepeatingVersion> = Vec::new();
    for version in repeating {
        let is_redacted = views::message(office.store(), version.message)?.is_some_and(|it| it.redacted.is_some());
        if !is_redacted && !repeating_versions.contains(&version) {
            repeated_in.push(version.message);
            repeating_versions.push(version);
        }
    }
    let erased = if args.finish { office.erase_all() } else { office.erase() };
    let erased = erased.map_err(|error| {
        let mut error = CommandError::from(error);
        error.message = format!("it is redacted, and not erased from every file yet: {}", error.message);
        error.hint("finish it later: poste redact --finish")
    })?;
    cx.ui.answer(&RedactAnswer {
        records,
        finished: args.finish,
        blobs: erased.blobs,
        archives: erased.archives,
        kept_blobs: erased.kept_blobs.iter().map(ToString::to_string).collect(),
        missing_archives: erased.missing_archives,
        edited_mirrors: erased.edited_mirrors.iter().map(|path| path.display().to_string()).collect(),
        strange_files: erased.strange_files.iter().map(|path| path.display().to_string()).collect(),
        repeated_in,
        repeating_versions,
    })
}

fn propose(cx: &Cx, office: &mut Office, records: &[Position], reason: Content, id: Option<RecordId>) -> Result {
    let intent = Intent::Redact(Redact { records: records.to_vec() });
    let proposal = cx.proposal(office, intent, Some(reason), id)?;
    match cx.decide(office, &proposal) {
        Ok(_) => Ok(()),
        // Redacted before and perhaps not erased to the end: that is still to be done.
        Err(error) if error.code == Some(Code::NothingToDo.word()) && office.store().unerased()?.is_some() => Ok(()),
        Err(error) => Err(error),
    }
}
