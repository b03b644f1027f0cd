//! Creates an office. Not a verb: verbs need an office.

use std::path::PathBuf;

use poste_core::office::Place;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Answered, Result};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The office that was found from here before
    #[serde(skip)]
    pub hidden: Option<PathBuf>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The office's folder.
    pub office: String,
    /// False if it existed before.
    pub made: bool,
}

/// Creates an office unless it exists.
pub fn init(place: &Place, input: Input) -> Result<Answered<Answer>> {
    let made = poste_config::adopt::create(place)?;
    poste_config::open(place)?;
    let office = place.path.display().to_string();
    let mut answered = Answered::new(Answer { office, made });
    if !made {
        return Ok(answered);
    }
    if let Some(hidden) = input.hidden {
        answered = answered.warn(format!("from here, this office hides the one at {}", hidden.display()));
    }
    let stored = format!("the office {}", place.path.display());
    Ok(answered.stored(stored).next(note!("next: " [register, name = "NAME", role = "ROLE"])))
}
