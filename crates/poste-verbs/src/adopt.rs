//! Adopts an office that arrived from elsewhere: an archive, a clone, a copy.

use poste_config::trust::candidates;
use poste_config::{Candidate, adopt};
use poste_core::store::state;
use poste_core::text::Name;
use poste_core::views;
use poste_core::vocabulary::AgentKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Error, Result, Touch, Verb, person};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Adopt it; otherwise it is only shown.
    #[serde(skip)]
    pub confirmed: bool,
    /// The office's id, for a user who never adopted one and has no terminal.
    #[serde(skip)]
    pub id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The office's id.
    pub office: String,
    /// The office's folder.
    pub path: String,
    /// Whether this user has adopted it.
    pub adopted: bool,
    /// Who is registered there.
    pub agents: Vec<Registered>,
    /// The files that would run commands. They need trust besides.
    pub files: Vec<Runs>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Registered {
    pub name: Name,
    pub kind: AgentKind,
    pub role: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Runs {
    pub file: String,
    pub commands: Vec<poste_config::Command>,
}

impl Verb for Input {
    const NAME: &'static str = "adopt";
    const ACCESS: Access = Access::Administers;
    const TOUCHES: &'static [(&'static str, Touch)] =
        &[("confirmed", Touch::SpeaksAsPerson), ("id", Touch::SpeaksAsPerson)];
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let office = desk.office.store().office_id()?;
        let path = desk.office.path()?.display().to_string();
        let mut adopted = !desk.office.store().options().read_only;
        if !adopted && (self.confirmed || self.id.is_some()) {
            match &self.id {
                // There is nothing yet that somebody could want to get into, and nobody who could be asked.
                Some(named) if !adopt::has_store(desk.office.store().options()) => {
                    if *named != office {
                        let message = format!("the office at {path} is another one: {office}");
                        return Err(Error::refused(message).code("another_office"));
                    }
                }
                _ => drop(person::decider(desk)?),
            }
            adopt::adopt(desk.office)?;
            adopted = true;
            desk.note_stored(format!("that {} adopted the office {path}", state::user_name()));
        }
        let agents = views::roster(desk.office.store())?.into_iter().map(|entry| Registered {
            name: entry.agent.name,
            kind: entry.agent.kind,
            role: entry.agent.role.map(|role| role.to_string()),
        });
        let files =
            candidates(desk.office)?.into_iter().map(|Candidate { file, commands, .. }| Runs { file, commands });
        let answer = Answer { office, path, adopted, agents: agents.collect(), files: files.collect() };
        Ok(Answered::new(answer))
    }
}
