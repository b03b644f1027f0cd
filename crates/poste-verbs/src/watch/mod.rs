//! The `[[on]]` rules: which ones there are, their progress, and their failed notifications.

pub mod dead;
pub mod drop;
pub mod list;
pub mod status;

use poste_config::OnRule;
use poste_config::OnRules;
use poste_core::Office;
use poste_core::text::{Label, nearest};

use crate::{Error, Result, trust};

/// Finds a rule by name in the files of this machine.
pub fn find<'r>(rules: &'r OnRules, name: &Label) -> Result<&'r OnRule> {
    rules.rules.iter().find(|rule| rule.name == *name).ok_or_else(|| {
        let near = nearest(name.as_str(), rules.rules.iter().map(|rule| rule.name.as_str()));
        let error = Error::not_found(format!("there is no rule {name}"));
        match near.first() {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error.hint(note!("see them: " [watch list])),
        }
    })
}

/// A rule that may run here.
pub fn runnable<'r>(office: &Office, rules: &'r OnRules, name: &Label) -> Result<&'r OnRule> {
    let rule = find(rules, name)?;
    match rules.may_run(rule) {
        true => Ok(rule),
        false => Err(trust::untrusted(office, &format!("what rule {name} runs is not trusted here"))),
    }
}

const NO_RULES: &str = "no rules; to write one, see docs/handlers.md";
