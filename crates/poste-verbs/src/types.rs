//! Lists the message types and their defaults.

use poste_config::{Standing, Value};
use poste_core::store::Store;
use poste_core::views::{self, TypeView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{say_standing, standing_word};
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The message types with their defaults.
    pub types: Vec<TypeLine>,
    /// Whether this machine's poste.toml is in force: `in_force`, `next` or `overruled`; null if it cannot be read.
    pub standing: Option<&'static str>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TypeLine {
    #[serde(flatten)]
    pub kind: TypeView,
    /// Where its payload schema is, if it has one: a path next to poste.toml, or `(in the file)`.
    pub schema: Option<String>,
}

impl Verb for Input {
    const NAME: &'static str = "types";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        // An invalid file does not stop commands that only read.
        let file = match poste_config::config(desk.office) {
            Ok(file) => Some(file),
            Err(error) => {
                desk.warn(error.to_string());
                None
            }
        };
        let standing = file.as_ref().map(|file| poste_config::standing(desk.office, file.as_ref())).transpose()?;
        let schemas = file.flatten().map(|file| file.schemas).unwrap_or_default();
        let types = views::types(desk.office.store())?.into_iter().map(|kind| {
            let schema = schemas.get(&kind.name).map(|source| Value::Schema(source.clone()).text());
            TypeLine { kind, schema }
        });
        let answer = Answer { types: types.collect(), standing: standing.map(standing_word) };
        if let Some(standing) = standing {
            say_standing(desk, standing)?;
        }
        Ok(Answered::new(answer))
    }
}

/// The built-in types, for use without an office.
pub fn built_in() -> Result<Answer> {
    let types = views::types(&Store::in_memory()?)?;
    let types = types.into_iter().map(|kind| TypeLine { kind, schema: None }).collect();
    Ok(Answer { types, standing: Some(standing_word(Standing::InForce)) })
}
