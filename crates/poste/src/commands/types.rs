use std::io::{self, Write};

use poste_verbs::types::{self, TypeLine};

use crate::Result;
use crate::context::Cx;
use crate::error::Kind;
use crate::ui::{Answer, Ui};

/// Show the message types and their defaults
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste types")]
pub(crate) struct Args {}

impl Answer for types::Answer {
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
    match cx.call(types::Input {}) {
        // Without an office, the built-in vocabulary is what there is.
        Err(error) if error.kind == Kind::NotFound => cx.ui.answer(&types::built_in()?),
        called => called,
    }
}
