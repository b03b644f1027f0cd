//! Shows the settings in force and where each comes from.

use poste_config::PolicyView;
use poste_core::text::quoted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{say_standing, standing_word};
use crate::{Access, Answered, Desk, Error, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Only keys with this prefix
    pub key: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The path of this machine's poste.toml; null if there is none.
    pub file: Option<String>,
    /// Whether that file is in force: `in_force`, `next` or `overruled`.
    pub standing: &'static str,
    #[serde(flatten)]
    pub policy: PolicyView,
}

impl Verb for Input {
    const NAME: &'static str = "config show";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let file = poste_config::config(desk.office)?;
        let standing = poste_config::standing(desk.office, file.as_ref())?;
        let mut policy =
            poste_config::settings(desk.office.store(), file.as_ref(), &poste_config::local_config(desk.office)?)?;
        if let Some(prefix) = &self.key {
            policy.settings.retain(|setting| setting.key.starts_with(prefix.as_str()));
            if policy.settings.is_empty() {
                let error = Error::not_found(format!("no setting begins with {}", quoted(prefix)));
                return Err(error.hint(note!("list all settings: " [config show])));
            }
        }
        let path = file.is_some().then(|| poste_config::config_path(desk.office)).transpose()?;
        let file = path.map(|path| path.display().to_string());
        say_standing(desk, standing)?;
        Ok(Answered::new(Answer { file, standing: standing_word(standing), policy }))
    }
}
