//! Lists the definitions that can be started, and what each is given.

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
    pub definitions: Vec<DefinitionLine>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct DefinitionLine {
    pub name: Label,
    pub file: String,
    pub title: Option<String>,
    pub steps: usize,
    /// What it must be given, and what it may be given.
    pub inputs: Vec<InputLine>,
    /// How much is wrong with it: `poste workflow lint` says what.
    pub problems: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct InputLine {
    pub name: String,
    pub about: Option<String>,
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
    "nothing is defined; write workflows/NAME.toml beside poste.toml".into()
}
