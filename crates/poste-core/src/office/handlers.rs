//! The rules of this machine's files: which mail people are told of, and which of them may be run here.

use super::Office;
use crate::config::{self, ConfigFile, OnRule};
use crate::digest::Digest;
use crate::error::Error;
use crate::gates::Source;
use crate::store::{read_config, trust};

/// Every rule of an office, as its files said at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OnRules {
    pub rules: Vec<OnRule>,
    /// Whether a person here trusts the very text of `poste.toml` that they were read from.
    pub trusted: bool,
}

impl OnRules {
    /// Whether nothing of it comes from a file that nobody here trusts.
    pub fn may_run(&self, rule: &OnRule) -> bool {
        rule.source == Source::Machine || self.trusted || rule.handler.reaches_out().is_none()
    }
}

impl Office {
    /// The rules of `poste.toml` and `.poste/local.toml`, as these are now. One that cannot be read is an error: it must
    /// not be left out.
    pub fn on_rules(&self) -> Result<OnRules, Error> {
        let Some(folder) = self.store().path() else { return Ok(OnRules::default()) };
        let mut found = OnRules::default();
        let config = folder.with_file_name(config::FILE);
        if let Some(text) = read_config(&config)? {
            found.rules = ConfigFile::parse(&text, &config)?.on;
            // Asked of the text that was read, not of what the file may have become since.
            if !found.rules.is_empty() {
                let mark = trust::read(folder, self.machine()?, &config)?;
                found.trusted = mark.is_some_and(|mark| mark.digest == Digest::of(text.as_bytes()));
            }
        }
        let wrong = |message: String| Err(Error::Config { path: folder.join(config::LOCAL_FILE), message });
        let tables = self.store().tables()?;
        for rule in self.local_config()?.on {
            let mut known = Vec::new();
            for kind in &rule.matches.types {
                known.extend(tables.type_defaults(kind)?.is_some().then(|| kind.clone()));
            }
            if let Some(why) = config::unknown_on_type(&rule, |kind| known.contains(kind)) {
                return wrong(format!("line {}: {why}", rule.line));
            }
            if found.rules.iter().any(|other| other.name == rule.name) {
                let name = &rule.name;
                return wrong(format!("line {}: on {name}: the name is taken in {}", rule.line, config::FILE));
            }
            found.rules.push(rule);
        }
        Ok(found)
    }
}
