use std::io::{self, Write};

use poste_core::views::{self, TypeView};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Ui};

/// Show the message types and their defaults
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste types")]
pub(crate) struct Args {}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TypesAnswer {
    pub types: Vec<TypeView>,
}

impl Answer for TypesAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.types.iter().map(|kind| {
            let mut asks = Vec::new();
            asks.extend(kind.asks_work.then_some("work"));
            asks.extend(kind.wants_response.then_some("response"));
            vec![
                kind.name.to_string(),
                kind.priority.to_string(),
                kind.urgency.to_string(),
                if asks.is_empty() { "-".to_owned() } else { asks.join("+") },
                if kind.own { "own".to_owned() } else { "-".to_owned() },
                kind.meaning.clone(),
            ]
        });
        ui.rows(out, &["TYPE", "PRIORITY", "URGENCY", "ASKS", "OWN", "MEANING"], rows.collect())
    }
}

pub(crate) fn run(cx: &mut Cx, _: Args) -> Result {
    // Without an office, the built-in vocabulary is what there is.
    let types = match cx.open() {
        Ok(office) => views::types(office.store())?,
        Err(error) if error.kind == crate::error::Kind::NotFound => {
            views::types(&poste_core::store::Store::in_memory()?)?
        }
        Err(error) => return Err(error),
    };
    cx.ui.answer(&TypesAnswer { types })
}
