//! Which mail a rule is for.

use poste_config::{OnRule, text_pattern};
use poste_core::error::Error;
use poste_core::views::{MailHeader, MessageView};
use regex::Regex;

/// Under this key a message says which rule's command sent it.
pub const RULE_KEY: &str = "poste_rule";
/// The variable that tells a command which rule runs it.
pub const RULE_VARIABLE: &str = "POSTE_RULE";

/// A rule, ready to be held against mail.
#[derive(Debug)]
pub struct Matcher {
    pub rule: OnRule,
    text: Option<Regex>,
}

impl Matcher {
    pub fn new(rule: OnRule) -> Result<Self, Error> {
        let text = rule.matches.text.as_deref().map(text_pattern).transpose();
        let text = text.map_err(|error| Error::Damaged(format!("the text of rule {}: {error}", rule.name)))?;
        Ok(Self { rule, text })
    }

    /// Everything but the text, which costs reading the words.
    pub fn fits(&self, mail: &MailHeader) -> bool {
        let matches = &self.rule.matches;
        let any = |wanted: &[String], found: &[String]| wanted.iter().any(|wanted| found.contains(wanted));
        // Its own failures: told by the same way, they would fail as well, and be told again.
        mail.untold_by.as_ref() != Some(&self.rule.name)
            && (matches.types.is_empty() || matches.types.contains(&mail.kind))
            && matches.priority.is_none_or(|least| mail.priority >= least)
            && (matches.from.is_empty() || matches.from.contains(&mail.from))
            && (matches.to.is_empty() || any(&matches.to, &mail.to))
            && (matches.topics.is_empty() || mail.topic.as_ref().is_some_and(|topic| matches.topics.contains(topic)))
    }

    /// What was redacted has no words left to fit.
    pub fn fits_text(&self, message: &MessageView) -> bool {
        // What its own command sent would make it run again, for ever.
        let is_own = message.metadata.get(RULE_KEY).is_some_and(|rule| rule == self.rule.name.as_str());
        !is_own && self.text.as_ref().is_none_or(|text| text.is_match(&message.subject) || text.is_match(&message.body))
    }
}
