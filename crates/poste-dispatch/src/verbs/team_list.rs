//! Lists the members of the team, and how each is run.

use poste_config::{FILE, LOCAL_FILE, Mode};
use poste_core::gates::Source;
use poste_core::text::Name;
use poste_verbs::{Access, Answered, Desk, Result, Verb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::nobody_on_team;
use crate::team;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    pub team: Vec<Line>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Line {
    pub agent: Name,
    /// It is the lead of [team].
    pub leads: bool,
    /// Whether team up starts it.
    pub listed: bool,
    pub role: Option<String>,
    pub mode: Option<Mode>,
    /// Its command; null: it has no runner here.
    pub runs: Option<String>,
    /// The file that configures it.
    pub file: Option<&'static str>,
    pub trusted: Option<bool>,
}

impl Verb for Input {
    const NAME: &'static str = "team list";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let mut lines = Vec::new();
        for member in team::members(&poste_config::runners(desk.office)?) {
            let config = member.config.as_ref();
            lines.push(Line {
                role: team::role(&member, desk.office.agent(&member.name)?.as_ref()),
                mode: config.map(|config| config.mode),
                runs: config.map(|config| config.shown()),
                file: config.map(|config| if config.source == Source::Machine { LOCAL_FILE } else { FILE }),
                trusted: config.map(|config| config.trusted),
                agent: member.name,
                leads: member.leads,
                listed: member.listed,
            });
        }
        let first = lines.is_empty().then(nobody_on_team).into_iter().collect();
        Ok(Answered { first, ..Answered::new(Answer { team: lines }) })
    }
}
