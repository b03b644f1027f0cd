//! Checks of the configuration files of an office, for the doctor.

use serde_json::json;

use poste_core::Error;
use poste_core::doctor::{Finding, readable};
use poste_core::office::Place;
use poste_core::store::Store;

use crate::office::{local_file, shared_file};
use crate::settings::{Standing, Weighed, weigh};

const CATCH_UP: &str = "bring this file up to the policy in force, then change it";

/// Reads the files and changes nothing. A check that cannot be made is reported as a note.
pub fn examine(place: &Place) -> Vec<Finding> {
    if !place.path.is_dir() {
        return Vec::new(); // no office, which is reported elsewhere
    }
    let own_file = own_file(place).unwrap_or_else(|error| Some(Finding::unchecked("local.toml", &error)));
    let policy = readable(place)
        .and_then(|store| policy(&store).unwrap_or_else(|error| Some(Finding::unchecked("poste.toml", &error))));
    own_file.into_iter().chain(policy).collect()
}

/// Checks the file of this machine. A problem in it stops everything that would use it.
fn own_file(place: &Place) -> Result<Option<Finding>, Error> {
    match local_file(Some(&place.path)) {
        Ok(_) => Ok(None),
        Err(Error::Config { path, message }) => Ok(Some(
            Finding::problem(
                "local_file",
                format!("{}: {message}", path.display()),
                "Nothing is claimed, finished or started until it is fixed.",
            )
            .advice("correct the file")
            .verb("config check", json!({})),
        )),
        // Reported with the folder.
        Err(Error::Unsafe { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn policy(store: &Store) -> Result<Option<Finding>, Error> {
    let weighed = shared_file(store.path()).and_then(|file| weigh(store, file.map(|(_, file)| file.policy)));
    let Weighed { standing, policy, in_force } = match weighed {
        Ok(Some(weighed)) => weighed,
        Ok(None) => return Ok(None),
        Err(Error::Config { path, message }) => {
            return Ok(Some(
                Finding::problem(
                    "policy",
                    format!("{}: {message}", path.display()),
                    "Every command that writes fails. The previous policy stays in force.",
                )
                .advice("correct the file"),
            ));
        }
        Err(error) => return Err(error),
    };
    Ok(match standing {
        Standing::InForce => None,
        Standing::Overruled => Some(
            Finding::warning(
                "policy",
                format!("poste.toml is not in force: policy {} from {} is", in_force.version, in_force.host),
                "Another machine changed the policy after this one. What this file says has no effect.",
            )
            .advice(CATCH_UP),
        ),
        Standing::Next if policy.replaces != in_force.version => Some(
            Finding::problem(
                "policy",
                format!(
                    "poste.toml would replace policy {}, but policy {} is in force, set by {}",
                    policy.replaces, in_force.version, in_force.host
                ),
                "Both were changed. Every command that writes is refused until they agree.",
            )
            .advice(CATCH_UP),
        ),
        Standing::Next => Some(Finding::note(
            "policy",
            "poste.toml was changed and is not in force yet",
            "The next command that writes proposes it.",
        )),
    })
}
