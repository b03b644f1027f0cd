//! Checks paths that are about to change for exclusive reservations of other agents.

use std::path::{Path, PathBuf};

use poste_core::pattern::Touched;
use poste_core::text::Name;
use poste_core::views::{self, HeldPath};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Result, Touch, Verb};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Paths from the top of the worktree; a folder stands for everything below it
    pub paths: Vec<String>,
    /// The paths of a commit, as git names them: file names are bytes.
    #[serde(skip)]
    pub touched: Vec<Touched>,
    /// The worktree, with links resolved. Without a caller, the only agent registered with it is the one that asks.
    #[serde(skip)]
    pub top: Option<PathBuf>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Agent that asks; null if unknown, and then the reservations of every agent count.
    pub agent: Option<Name>,
    /// Paths that another agent has reserved exclusively.
    pub held: Vec<HeldPath>,
}

impl Verb for Input {
    const NAME: &'static str = "guard check";
    const ACCESS: Access = Access::Reads;
    const TOUCHES: &'static [(&'static str, Touch)] =
        &[("paths", Touch::Nothing), ("touched", Touch::ReadsFiles), ("top", Touch::ReadsFiles)];
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let agent = committer(desk, self.top.as_deref())?;
        let mut touched = self.touched;
        touched.extend(self.paths.iter().map(|path| Touched::folder(path.as_bytes())));
        let held = views::held_paths(desk.office.store(), &touched, agent.as_ref(), desk.now()?)?;
        Ok(Answered::new(Answer { agent, held }))
    }
}

/// The agent that commits in a worktree: the caller, else the only active agent registered with it. `None` if several
/// are registered.
pub fn committer(desk: &Desk<'_>, top: Option<&Path>) -> Result<Option<Name>> {
    match (&desk.caller.actor, top) {
        (Some(actor), _) => Ok(Some(actor.clone())),
        (None, Some(top)) => Ok(views::agent_of_worktree(desk.office.store(), top)?),
        (None, None) => Ok(None),
    }
}
