//! Draws a definition, or the state of a workflow.

use poste_core::text::Label;
use poste_core::views;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::render::Picture;
use super::{AnyAddress, Given, Known, Registered, Source, check, engine};
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Name of a definition, or of a workflow that was started
    #[schemars(with = "String")]
    pub name: Given,
    /// Format of the picture
    #[serde(default)]
    pub format: Format,
}

/// Format of a picture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    #[default]
    Mermaid,
    Svg,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Name of the definition or workflow.
    pub name: String,
    /// Format of the picture.
    pub format: Format,
    /// The picture, as text.
    pub picture: String,
}

impl Verb for Input {
    const NAME: &'static str = "workflow graph";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let name = self.name.name().to_owned();
        let label = name.parse::<Label>().ok().filter(|_| matches!(self.name, Given::Name(_)));
        let started = label.map(|label| views::workflow(desk.office.store(), &label)).transpose()?.flatten();
        let picture = match started {
            Some(view) => Picture::of_run(&view),
            None => of_definition(&self.name.find(desk.office.path()?)?, &Registered(desk.office))?,
        };
        Ok(Answered::new(Answer::new(name, self.format, &picture)))
    }
}

/// Draws a definition without an office: every agent it names may exist.
pub fn of_file(name: String, source: &Source, format: Format) -> Result<Answered<Answer>> {
    let picture = of_definition(source, &AnyAddress)?;
    Ok(Answered::new(Answer::new(name, format, &picture)))
}

impl Answer {
    fn new(name: String, format: Format, picture: &Picture) -> Self {
        let picture = match format {
            Format::Mermaid => picture.mermaid(),
            Format::Svg => picture.svg(),
        };
        Self { name, format, picture }
    }
}

fn of_definition(source: &Source, known: &dyn Known) -> Result<Picture> {
    let (definition, problems) = check::lint(&source.text, source.format, &source.name, known);
    Ok(Picture::of_definition(&definition.ok_or_else(|| engine::unfit(source, &problems))?))
}
