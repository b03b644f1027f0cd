//! The rules of `[[on]]`: which there are, how far each has come, and what it could not tell.

pub mod dead;
pub mod drop;
pub mod list;
pub mod status;

use poste_config::OnRule;
use poste_config::OnRules;
use poste_core::text::{Label, nearest};

use crate::{Error, Result};

/// The rule of a name, among those of this machine's files.
pub fn find<'r>(rules: &'r OnRules, name: &Label) -> Result<&'r OnRule> {
    rules.rules.iter().find(|rule| rule.name == *name).ok_or_else(|| {
        let near = nearest(name.as_str(), rules.rules.iter().map(|rule| rule.name.as_str()));
        let error = Error::not_found(format!("no rule is called {name}"));
        match near.first() {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error.hint(note!("see them: " [watch list])),
        }
    })
}

/// A rule that may run here.
pub fn runnable<'r>(rules: &'r OnRules, name: &Label) -> Result<&'r OnRule> {
    let rule = find(rules, name)?;
    match rules.may_run(rule) {
        true => Ok(rule),
        false => Err(Error::refused(format!("rule {name} stands in poste.toml, which is not trusted here"))
            .code("untrusted")
            .hint(note!("read the file, then: "[trust]))),
    }
}

const NO_RULES: &str = "there are no rules; write one: docs/handlers.md";
