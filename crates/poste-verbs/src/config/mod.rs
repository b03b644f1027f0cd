//! The rules of the office, poste.toml: one file per verb, and shared code.

pub mod check;
pub mod set;
pub mod show;

use poste_config::{FILE, LocalFile, Standing};
use poste_core::Foreign;

use crate::{Desk, Result};

/// Whether the rules of a file are in force, as stored in JSON.
pub(crate) fn standing_word(standing: Standing) -> &'static str {
    match standing {
        Standing::InForce => "in_force",
        Standing::Next => "next",
        Standing::Overruled => "overruled",
    }
}

/// Adds a note if the file is not in force.
pub(crate) fn say_standing(desk: &mut Desk<'_>, standing: Standing) -> Result {
    match standing {
        Standing::InForce => {}
        Standing::Next => desk.say(format!("{FILE} has changed: it takes effect with the next command that writes")),
        Standing::Overruled => {
            let policy = poste_config::settings(desk.office.store(), None, &LocalFile::default())?;
            let host = policy.host.as_deref().unwrap_or("another machine");
            desk.say(format!(
                "policy {} of {} is newer than this machine's {FILE}",
                policy.version,
                Foreign::name(host)
            ));
        }
    }
    Ok(())
}
