//! Moves finished conversations out of the database into a file.

use poste_core::fold::Code;
use poste_core::limits::RETENTION_MS_DEFAULT;
use poste_core::log::{Intent, MessageNo};
use poste_core::progress::Progress;
use poste_core::views::{self, ArchiveBatch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Error, Kind, Result, Verb, input};

/// How often one batch is looked at again because somebody wrote into it meanwhile.
const LOOKS_MAX: usize = 10;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Finished for so long, instead of the retention time
    #[serde(default, rename = "older", deserialize_with = "input::length")]
    #[schemars(with = "Option<String>")]
    pub older_ms: Option<i64>,
    /// Only say what would be archived
    #[serde(default)]
    pub dry_run: bool,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Answer {
    pub conversations: usize,
    pub messages: usize,
    /// Conversations that are not finished, or not for long enough.
    pub kept: usize,
    pub files: Vec<String>,
    pub dry_run: bool,
}

impl Verb for Input {
    const NAME: &'static str = "archive";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        if !self.dry_run {
            // Before any file is written: a name nobody has would leave it behind.
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
        let mut looks = 0;
        while let Some(number) = from {
            let batch = views::finished(desk.office.store(), before, number)?;
            if !batch.conversations.is_empty() && !self.dry_run {
                match keep(desk, &batch) {
                    Ok(file) => answer.files.push(file),
                    Err(error) if is_outrun(&error) && looks < LOOKS_MAX => {
                        looks += 1;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            looks = 0;
            answer.kept += batch.kept;
            answer.conversations += batch.conversations.len();
            answer.messages += batch.messages;
            from = batch.next;
            desk.watched_office().1(Progress { what: "archiving", done: from.map_or(last, |next| next.0), of: last });
        }
        Ok(Answered::new(answer))
    }
}

/// First the file, then the record that names it.
fn keep(desk: &mut Desk<'_>, batch: &ArchiveBatch) -> Result<String> {
    let archive = desk.office.write_archive(batch)?;
    let proposal = desk.proposal(Intent::Archive(archive.clone()), None, None)?;
    if let Err(error) = desk.decide(&proposal) {
        // Refused, or not even tried: no record names the file. With an unknown outcome it must stay.
        if error.code.is_some() || error.kind == Kind::Busy {
            desk.office.discard_archive(&archive)?;
        }
        return Err(error);
    }
    Ok(archive.file)
}

/// Somebody wrote into one of the conversations, or archived it, between looking and asking.
fn is_outrun(error: &Error) -> bool {
    error.is(Code::NotFinished) || error.is(Code::NothingToDo)
}
