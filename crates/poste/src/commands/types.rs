use std::io::{self, Write};

use poste_core::config::Value;
use poste_core::office::Standing;
use poste_core::views::{self, TypeView};
use schemars::JsonSchema;
use serde::Serialize;

use super::config;
use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Ui};

/// Show the message types and their defaults
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste types")]
pub(crate) struct Args {}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TypesAnswer {
    pub types: Vec<TypeLine>,
    /// How the rules of this machine's poste.toml stand to those in force: `in_force`, `next` or `overruled`; null when
    /// it cannot be read.
    pub standing: Option<&'static str>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TypeLine {
    #[serde(flatten)]
    pub kind: TypeView,
    /// Where the schema of its payload stands, if it has one: a path beside poste.toml, or `(in the file)`.
    pub schema: Option<String>,
}

impl Answer for TypesAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.types.iter().map(|TypeLine { kind, schema }| {
            let mut asks = Vec::new();
            asks.extend(kind.asks_work.then_some("work"));
            asks.extend(kind.wants_response.then_some("response"));
            vec![
                kind.name.to_string(),
                kind.priority.to_string(),
                kind.urgency.to_string(),
                if asks.is_empty() { "-".to_owned() } else { asks.join("+") },
                if kind.own { "own".to_owned() } else { "-".to_owned() },
                if schema.is_some() { "schema".to_owned() } else { "-".to_owned() },
                kind.meaning.clone(),
            ]
        });
        ui.rows(out, &["TYPE", "PRIORITY", "URGENCY", "ASKS", "OWN", "PAYLOAD", "MEANING"], rows.collect())
    }
}

pub(crate) fn run(cx: &mut Cx, _: Args) -> Result {
    let office = match cx.open() {
        Ok(office) => office,
        // Without an office, the built-in vocabulary is what there is.
        Err(error) if error.kind == crate::error::Kind::NotFound => {
            let types = views::types(&poste_core::store::Store::in_memory()?)?;
            let types = types.into_iter().map(|kind| TypeLine { kind, schema: None }).collect();
            return cx.ui.answer(&TypesAnswer { types, standing: Some(config::standing_word(Standing::InForce)) });
        }
        Err(error) => return Err(error),
    };
    // Whoever only looks is not stopped by a wrong file.
    let file = match office.config() {
        Ok(file) => Some(file),
        Err(error) => {
            cx.ui.warn(error.to_string());
            None
        }
    };
    let standing = file.as_ref().map(|file| office.standing(file.as_ref())).transpose()?;
    let schemas = file.flatten().map(|file| file.schemas).unwrap_or_default();
    let types = views::types(office.store())?.into_iter().map(|kind| {
        let schema = schemas.get(&kind.name).map(|source| Value::Schema(source.clone()).text());
        TypeLine { kind, schema }
    });
    cx.ui.answer(&TypesAnswer { types: types.collect(), standing: standing.map(config::standing_word) })?;
    standing.map_or(Ok(()), |standing| config::say_standing(cx, &office, standing))
}
