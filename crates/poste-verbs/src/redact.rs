//! Erases the content of a message everywhere in the office. Its sender, recipients and times stay.

use poste_core::fold::Code;
use poste_core::log::{Content, Intent, MessageNo, Position, Redact};
use poste_core::text::RecordId;
use poste_core::views::{self, RepeatingVersion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::draft::said;
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Result, Verb, no_message};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The message's number
    pub number: Option<MessageNo>,
    /// Also erase what recipients wrote about it: results, reasons, notes
    #[serde(default)]
    pub results: bool,
    /// Log positions of records whose content to erase
    #[serde(default)]
    pub records: Vec<Position>,
    /// The reason; it is kept
    pub reason: Option<String>,
    /// Finish an interrupted erasure, and erase all redacted content again
    #[serde(default)]
    pub finish: bool,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Records whose content is erased.
    pub records: Vec<Position>,
    /// Nothing new was redacted; only earlier redactions were erased from files.
    pub finished: bool,
    /// Blobs that were erased.
    pub blobs: usize,
    /// Archives that were rewritten without the content.
    pub archives: usize,
    /// Blobs that another message refers to; redact that one as well to erase them.
    pub kept_blobs: Vec<String>,
    /// Missing archives that hold some of the content; if one comes back, `redact --finish` erases it there.
    pub missing_archives: Vec<String>,
    /// Mirrors of shared contexts that were edited by hand; they are left unchanged and may hold some of the content.
    pub edited_mirrors: Vec<String>,
    /// Files next to them that belong to no context; they are left unchanged and may hold some of the content.
    pub strange_files: Vec<String>,
    /// Messages that repeat some of the content, at least the subject; each must be redacted separately.
    pub repeated_in: Vec<MessageNo>,
    /// Those of them that are versions of a shared context and repeat its whole text or data.
    pub repeating_versions: Vec<RepeatingVersion>,
}

impl Verb for Input {
    const NAME: &'static str = "redact";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let mut records = self.records;
        let mut repeated_in = Vec::new();
        if let Some(number) = self.number {
            let said = views::said_of(desk.office.store(), number)?.ok_or_else(|| no_message(number))?;
            records.extend(said.own);
            if self.results {
                records.extend(said.by_recipients);
            }
            repeated_in = said.repeated_in;
        }
        let mut repeating: Vec<RepeatingVersion> = Vec::new();
        for record in &records {
            repeating.extend(views::repeating_versions(desk.office.store(), *record)?);
        }
        if !self.finish {
            let reason = self.reason.unwrap_or_default();
            let reason = self.secrets.text("reason", said("reason", &reason)?)?;
            propose(desk, &records, reason, self.id)?;
        }
        // Versions that were redacted along with it no longer repeat the content.
        let mut repeating_versions: Vec<RepeatingVersion> = Vec::new();
        for version in repeating {
            let message = views::message(desk.office.store(), version.message)?;
            let is_redacted = message.is_some_and(|it| it.redacted.is_some());
            if !is_redacted && !repeating_versions.contains(&version) {
                repeated_in.push(version.message);
                repeating_versions.push(version);
            }
        }
        let erased = if self.finish { desk.office.erase_all() } else { desk.office.erase() };
        let erased = erased.map_err(|error| {
            let error = Error::from(error);
            let message = format!("redacted, but not yet erased from every file: {}", error.message);
            Error { message, ..error }.hint(note!("finish it later: " [redact, finish = true]))
        })?;
        Ok(Answered::new(Answer {
            records,
            finished: self.finish,
            blobs: erased.blobs,
            archives: erased.archives,
            kept_blobs: erased.kept_blobs.iter().map(ToString::to_string).collect(),
            missing_archives: erased.missing_archives,
            edited_mirrors: erased.edited_mirrors.iter().map(|path| path.display().to_string()).collect(),
            strange_files: erased.strange_files.iter().map(|path| path.display().to_string()).collect(),
            repeated_in,
            repeating_versions,
        }))
    }
}

fn propose(desk: &mut Desk<'_>, records: &[Position], reason: Content, id: Option<RecordId>) -> Result {
    let intent = Intent::Redact(Redact { records: records.to_vec() });
    let proposal = desk.proposal(intent, Some(reason), id)?;
    match desk.decide(&proposal) {
        Ok(_) => Ok(()),
        // Redacted before, but perhaps not erased completely: finish that.
        Err(error) if error.is(Code::NothingToDo) && desk.office.store().unerased()?.is_some() => Ok(()),
        Err(error) => Err(error),
    }
}
