//! Lists the rules, and whether each may run here.

use poste_config::HandlerConfig;
use poste_core::text::Label;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NO_RULES, find};
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Names of the rules to list; none: all
    pub rules: Vec<Label>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The rules that were asked for.
    pub rules: Vec<RuleLine>,
}

/// A rule, as its file defines it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RuleLine {
    /// Name of the rule.
    pub rule: Label,
    /// Kind of its handler.
    pub handler: String,
    /// File that defines the rule.
    pub file: String,
    /// Line of the rule in that file.
    pub line: usize,
    /// Whether the rule may run here; false if its file is not trusted.
    pub runs: bool,
    /// What the rule needs and cannot find, such as a secret; null if nothing is known to be missing.
    pub missing: Option<String>,
    #[serde(skip)]
    pub config: HandlerConfig,
}

impl Verb for Input {
    const NAME: &'static str = "watch list";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let known = poste_config::on_rules(desk.office)?;
        let mut rules = Vec::new();
        for name in &self.rules {
            find(&known, name)?;
        }
        for rule in known.rules.iter().filter(|rule| self.rules.is_empty() || self.rules.contains(&rule.name)) {
            rules.push(RuleLine {
                rule: rule.name.clone(),
                handler: rule.handler.word().to_owned(),
                file: rule.source.file().to_owned(),
                line: rule.line,
                runs: known.may_run(rule),
                missing: None,
                config: rule.handler.clone(),
            });
        }
        if rules.is_empty() {
            desk.say(NO_RULES);
        }
        Ok(Answered::new(Answer { rules }))
    }
}
