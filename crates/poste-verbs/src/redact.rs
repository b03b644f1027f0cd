//! Erases what a message said, everywhere in the office; who sent it when to whom stays.

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
    /// Also what recipients said of it: results, reasons, notes
    #[serde(default)]
    pub results: bool,
    /// What these records of the log said
    #[serde(default)]
    pub records: Vec<Position>,
    /// Why; it is kept
    pub reason: Option<String>,
    /// Finish an erasure that was interrupted, and erase once more what was redacted before
    #[serde(default)]
    pub finish: bool,
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
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
        // What was redacted with it has the words no more.
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
            let message = format!("it is redacted, and not erased from every file yet: {}", error.message);
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
        // Redacted before and perhaps not erased to the end: that is still to be done.
        Err(error) if error.is(Code::NothingToDo) && desk.office.store().unerased()?.is_some() => Ok(()),
        Err(error) => Err(error),
    }
}
