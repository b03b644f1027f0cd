//! Sets or unsets one key of poste.toml. Comments and layout stay.

use poste_config::KeyPath;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::say_standing;
use crate::{Access, Answered, Desk, Error, Result, Verb, person};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// SECTION.KEY or types.NAME.KEY; to unset, also types.NAME
    pub key: String,
    /// The value as in the file, without quotes; omit it to unset the key, so that the default applies
    pub value: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The path of poste.toml.
    pub file: String,
    /// The key.
    pub key: String,
    /// The value in the file before; null if it was not set.
    pub before: Option<String>,
    /// The value in the file now; null if it is not set.
    pub after: Option<String>,
    /// Whether the file changed.
    pub changed: bool,
}

impl Verb for Input {
    const NAME: &'static str = "config set";
    /// An invalid file blocks writes, and this verb can fix it.
    const ACCESS: Access = Access::Administers;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let key: KeyPath = self.key.parse().map_err(Error::usage)?;
        let value = match (&key, &self.value) {
            (KeyPath::Type(kind), Some(_)) => {
                let example = format!("types.{kind}.priority");
                return Err(Error::usage(format!("{key} is a type, not a key"))
                    .hint(note!("for example: " [config set, key = example, value = "high"])));
            }
            (KeyPath::Setting(known) | KeyPath::OfType(_, known), Some(text)) => {
                let value = known.takes.parse(text);
                Some(value.map_err(|why| Error::usage(format!("{key}: {why}")))?)
            }
            (_, None) => None,
        };
        let unwritten = |error| Error::from(error).hint("nothing was written");
        let by = person::decider(desk).ok();
        let (change, written) =
            poste_config::change_config(desk.office, &key, value.as_ref(), by).map_err(unwritten)?;
        let answer = Answer {
            file: poste_config::config_path(desk.office)?.display().to_string(),
            key: key.to_string(),
            changed: change.before != change.after,
            before: change.before,
            after: change.after,
        };
        if answer.changed {
            desk.note_stored(format!("{key} in {}", answer.file));
        }
        if written.changed && !written.trusted {
            desk.warn(note!("its commands do not run until a person trusts the file again: "[trust]));
        }
        // Bring the change into force at once. The file is written already, so a failure here is a separate error.
        let answered = Answered::new(answer);
        Ok(match bring_into_force(desk) {
            Ok(()) => answered,
            Err(error) => answered.with_error(error),
        })
    }
}

fn bring_into_force(desk: &mut Desk<'_>) -> Result {
    let written = |error| Error::from(error).hint("the file is written; its rules are not in force yet");
    poste_config::sync_policy(desk.office).map_err(written)?;
    let standing = poste_config::standing(desk.office, poste_config::config(desk.office)?.as_ref())?;
    say_standing(desk, standing)
}
