//! Shows what changed since the last version that the caller has seen.

use poste_core::text::ContextName;
use poste_core::views;
use schemars::JsonSchema;
use serde::Deserialize;

use super::diff::{Answer, difference};
use super::{follow_mirror, read_mark, version_line};
use crate::{Access, Answered, Desk, Note, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The context's name
    pub name: ContextName,
}

impl Verb for Input {
    const NAME: &'static str = "context since";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let reader = desk.agent()?.name;
        let seen = views::version_seen(desk.office.store(), &reader, &self.name)?;
        let answer = difference(desk.office, &self.name, seen.unwrap_or(0), None)?;
        let mut first: Vec<Note> = match seen {
            Some(seen) if seen == answer.to => vec![format!("no changes since version {seen}").into()],
            Some(_) => Vec::new(),
            None => vec![format!("{reader} has not seen it before; this is the whole text").into()],
        };
        first.extend(answer.versions.iter().rev().map(|version| version_line(version).into()));
        follow_mirror(desk, &self.name);
        let mark = read_mark(desk, Some(&reader), &self.name, answer.to)?;
        let mut answered = Answered { first, ..Answered::new(answer) };
        answered.marks.extend(mark);
        Ok(answered)
    }
}
