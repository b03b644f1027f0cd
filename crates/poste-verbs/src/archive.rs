//! Moves finished conversations out of the database into a file.

use poste_core::fold::Code;
use poste_core::limits::RETENTION_MS_DEFAULT;
use poste_core::log::{Intent, MessageNo};
use poste_core::progress::Progress;
use poste_core::views::{self, ArchiveBatch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Error, Kind, Result, Verb, input};

/// How often a batch is read again because its conversations changed.
const RETRIES_MAX: usize = 10;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Minimum time since a conversation finished; default: the retention time
    #[serde(default, rename = "older", deserialize_with = "input::length")]
    #[schemars(with = "Option<String>")]
    pub older_ms: Option<i64>,
    /// Only report what would be archived
    #[serde(default)]
    pub dry_run: bool,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Answer {
    /// Conversations that were archived.
    pub conversations: usize,
    /// Messages in them.
    pub messages: usize,
    /// Conversations that are not finished, or not for long enough.
    pub kept: usize,
    /// Archive files that were written.
    pub files: Vec<String>,
    /// Nothing was written.
    pub dry_run: bool,
}

impl Verb for Input {
    const NAME: &'static str = "archive";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        if !self.dry_run {
            // Before any file is written: with an unknown agent, the file would be left behind.
            desk.agent()?;
        }
        let retention_ms = match self.older_ms {
            Some(older_ms) => older_ms,
            None => views::retention_ms(desk.office.store())?.unwrap_or(RETENTION_MS_DEFAULT),
        };
        let before = desk.now()?.plus_ms(-retention_ms);
        let last = views::newest_message(desk.office.store())?.0;
        let mut answer = Answer { dry_run: self.dry_run, ..Answer::default() };
        let mut from = Some(MessageNo(1));
        let mut retries = 0;
        while let Some(number) = from {
            let batch = views::finished(desk.office.store(), before, number)?;
            if !batch.conversations.is_empty() && !self.dry_run {
                match keep(desk, &batch) {
                    Ok(file) => answer.files.push(file),
                    Err(error) if has_changed(&error) && retries < RETRIES_MAX => {
                        retries += 1;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            retries = 0;
            answer.kept += batch.kept;
            answer.conversations += batch.conversations.len();
            answer.messages += batch.messages;
            from = batch.next;
            desk.watched_office().1(Progress { what: "archiving", done: from.map_or(last, |next| next.0), of: last });
        }
        Ok(Answered::new(answer))
    }
}

/// Writes the file, then the record that names it.
fn keep(desk: &mut Desk<'_>, batch: &ArchiveBatch) -> Result<String> {
    let archive = desk.office.write_archive(batch)?;
    let proposal = desk.proposal(Intent::Archive(archive.clone()), None, None)?;
    if let Err(error) = desk.decide(&proposal) {
        // Refused or not attempted: no record names the file. With an unknown outcome it must stay.
        if error.code.is_some() || error.kind == Kind::Busy {
            desk.office.discard_archive(&archive)?;
        }
        return Err(error);
    }
    Ok(archive.file)
}

/// One of the conversations was written to or archived after the batch was read.
fn has_changed(error: &Error) -> bool {
    error.is(Code::NotFinished) || error.is(Code::NothingToDo)
}
