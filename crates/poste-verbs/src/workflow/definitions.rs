//! Lists the definitions of workflows, and their inputs.

use poste_core::text::Label;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Registered, Source, check, files};
use crate::{Access, Answered, Desk, Note, Result, Verb};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Definitions, by name.
    pub definitions: Vec<DefinitionLine>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct DefinitionLine {
    /// Name of the workflow.
    pub name: Label,
    /// File of the definition.
    pub file: String,
    /// Title; null if the definition has problems.
    pub title: Option<String>,
    /// Number of steps; 0 if the definition has problems.
    pub steps: usize,
    /// Inputs; those without a default are required.
    pub inputs: Vec<InputLine>,
    /// Number of problems; `poste workflow lint` lists them.
    pub problems: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct InputLine {
    /// Name of the input.
    pub name: String,
    /// What the input is for.
    pub about: Option<String>,
    /// Default; null if the input is required.
    pub default: Option<String>,
}

impl Verb for Input {
    const NAME: &'static str = "workflow list definitions";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let mut definitions = Vec::new();
        for source in files::definitions(desk.office.path()?) {
            match source {
                Ok(source) => definitions.push(line(source, &Registered(desk.office))),
                Err(error) => desk.warn(error.to_string()),
            }
        }
        if definitions.is_empty() {
            desk.say(nothing_defined());
        }
        Ok(Answered::new(Answer { definitions }))
    }
}

fn line(source: Source, known: &Registered<'_>) -> DefinitionLine {
    let (definition, problems) = check::lint(&source.text, source.format, &source.name, known);
    let (title, steps, inputs) = match definition {
        Some(definition) => (Some(definition.title), definition.steps.len(), definition.inputs),
        None => (None, 0, Vec::new()),
    };
    let inputs = inputs.into_iter();
    DefinitionLine {
        inputs: inputs.map(|it| InputLine { name: it.name, about: it.about, default: it.default }).collect(),
        title,
        steps,
        name: source.name,
        file: source.path.display().to_string(),
        problems: problems.len(),
    }
}

pub(super) fn nothing_defined() -> Note {
    "no workflow is defined; write workflows/NAME.toml next to poste.toml".into()
}
