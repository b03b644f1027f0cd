//! Checks paths that are about to be changed: whether somebody else holds one of them alone.

use std::path::{Path, PathBuf};

use poste_core::pattern::Touched;
use poste_core::text::Name;
use poste_core::views::{self, HeldPath};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// From the top of the worktree; of a folder, everything below it
    pub paths: Vec<String>,
    /// What a commit touches, as git says it: names of files are bytes.
    #[serde(skip)]
    pub touched: Vec<Touched>,
    /// The worktree, without links. If nobody says who asks, it is the one agent that is registered with it.
    #[serde(skip)]
    pub top: Option<PathBuf>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Who is asking; null when nobody knows, and everybody's reservations count.
    pub agent: Option<Name>,
    /// Paths somebody else holds alone.
    pub held: Vec<HeldPath>,
}

impl Verb for Input {
    const NAME: &'static str = "guard check";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let agent = committer(desk, self.top.as_deref())?;
        let mut touched = self.touched;
        touched.extend(self.paths.iter().map(|path| Touched::folder(path.as_bytes())));
        let held = views::held_paths(desk.office.store(), &touched, agent.as_ref(), desk.now()?)?;
        Ok(Answered::new(Answer { agent, held }))
    }
}

/// Who commits in a worktree: whoever calls, else the one active agent that is registered with it. Of several nobody
/// knows which one it is.
pub fn committer(desk: &Desk<'_>, top: Option<&Path>) -> Result<Option<Name>> {
    match (&desk.caller.actor, top) {
        (Some(actor), _) => Ok(Some(actor.clone())),
        (None, Some(top)) => Ok(views::agent_of_worktree(desk.office.store(), top)?),
        (None, None) => Ok(None),
    }
}
