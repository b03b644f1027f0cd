//! The rules of the office: poste.toml. One file per verb, and what they have in common.

pub mod check;
pub mod set;
pub mod show;

use poste_config::{FILE, LocalFile, Standing};

use crate::{Desk, Result};

/// How the rules of a file stand to those in force, in a word.
pub(crate) fn standing_word(standing: Standing) -> &'static str {
    match standing {
        Standing::InForce => "in_force",
        Standing::Next => "next",
        Standing::Overruled => "overruled",
    }
}

/// Says that the file is not what holds.
pub(crate) fn say_standing(desk: &mut Desk<'_>, standing: Standing) -> Result {
    match standing {
        Standing::InForce => {}
        Standing::Next => desk.say(format!("{FILE} has changed: it takes effect with the next command that writes")),
        Standing::Overruled => {
            let policy = poste_config::settings(desk.office.store(), None, &LocalFile::default())?;
            let host = policy.host.as_deref().unwrap_or("another machine");
            desk.say(format!("policy {} of {host} came after this machine's {FILE}", policy.version));
        }
    }
    Ok(())
}
