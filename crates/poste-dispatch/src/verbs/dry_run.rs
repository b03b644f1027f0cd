//! Shows what a dispatcher would do now.

use poste_core::text::Name;
use poste_core::views::Later;
use poste_verbs::{Access, Answered, Desk, Result, Verb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{configured, untrusted};
use crate::engine::{self, Choice, Hold, Scope, Start, Wait};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Only these agents
    pub agent: Vec<Name>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    pub starts: Vec<Start>,
    pub holds: Vec<Hold>,
    /// Agents whose hold no longer applies.
    pub resumes: Vec<Name>,
    /// Mail that is not started now, and why.
    pub waits: Vec<Wait>,
    /// Messages that no agent is started for yet.
    pub later: Vec<Later>,
}

impl Verb for Input {
    const NAME: &'static str = "dispatch dry-run";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let runners = configured(desk.office, &self.agent)?;
        untrusted(&runners).into_iter().for_each(|note| desk.warn(note));
        let snapshot = engine::read_facts(desk.office, &runners, Scope { only: &self.agent, whole: true })?;
        let Choice { starts, holds, resumes, waits, .. } = engine::choose(&snapshot.facts);
        let resumes = resumes.into_iter().map(|(agent, _)| agent).collect();
        let later = snapshot.facts.agents.into_iter().flat_map(|agent| agent.later).collect();
        Ok(Answered::new(Answer { starts, holds, resumes, waits, later }))
    }
}
