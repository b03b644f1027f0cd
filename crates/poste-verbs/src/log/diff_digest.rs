//! Compares the digests of tables: with the refolded log, or with another copy of the office.

use poste_core::office::head;
use poste_core::store::Store;
use poste_core::views::{self, DigestDiff};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

use super::reading;
use crate::{Access, Answered, Desk, Error, Result, Touch, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Another office folder, or a copy of an office's database; default: the refolded log of this one. It may be
    /// anywhere, so a model cannot set it.
    #[serde(skip)]
    pub other: Option<PathBuf>,
    /// Find the first record at which the two logs differ
    #[serde(skip)]
    pub find: bool,
}

impl Verb for Input {
    const NAME: &'static str = "log diff-digest";
    const ACCESS: Access = Access::Reads;
    const TOUCHES: &'static [(&'static str, Touch)] = &[("other", Touch::ReadsFiles), ("find", Touch::CommandLine)];
    type Answer = DigestDiff;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<DigestDiff>> {
        let (office, report) = desk.watched_office();
        let store = office.store();
        let mut advance = reading(report, head(store)?);
        let Some(path) = &self.other else {
            let diff = views::diff_with_fold(store, advance)?;
            let error =
                Error::internal("the tables are not what the log folds to").hint(note!("verify it: " [log verify]));
            return Ok(judged(diff, error));
        };
        let other = Store::open_other(path)?;
        let mut diff = views::diff_with_other(store, &other, &mut advance)?;
        let mut error = Error::conflict("the two offices differ");
        match self.find {
            true => diff.parted_at = views::first_difference(store, &other, advance)?,
            false => error = error.hint(note!("find where they differ: " {find = true})),
        }
        Ok(judged(diff, error))
    }
}

fn judged(diff: DigestDiff, error: Error) -> Answered<DigestDiff> {
    let is_same = diff.equal && diff.parted_at.is_none();
    let answered = Answered::new(diff);
    if is_same { answered } else { answered.with_error(error) }
}
