//! Which mail a rule matches.

use poste_config::{OnRule, text_pattern};
use poste_core::error::Error;
use poste_core::views::{MailHeader, MessageView};
use regex::Regex;

/// A rule with its compiled pattern.
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

    /// Checks everything but the text, which requires reading the content.
    pub fn fits(&self, mail: &MailHeader) -> bool {
        let matches = &self.rule.matches;
        let any = |wanted: &[String], found: &[String]| wanted.iter().any(|wanted| found.contains(wanted));
        // Not the alerts about its own failures: sent the same way, they would fail again.
        mail.untold_by.as_ref() != Some(&self.rule.name)
            && (matches.types.is_empty() || matches.types.contains(&mail.kind))
            && matches.priority.is_none_or(|least| mail.priority >= least)
            && (matches.from.is_empty() || matches.from.contains(&mail.from))
            && (matches.to.is_empty() || any(&matches.to, &mail.to))
            && (matches.topics.is_empty() || mail.topic.as_ref().is_some_and(|topic| matches.topics.contains(topic)))
    }

    /// Redacted content does not match any text.
    pub fn fits_text(&self, message: &MessageView) -> bool {
        self.text.as_ref().is_none_or(|text| text.is_match(&message.subject) || text.is_match(&message.body))
    }
}
