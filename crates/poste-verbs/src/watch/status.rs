//! Shows the progress of each rule, the agent that holds it, and the number of its failed notifications.

use poste_core::text::Label;
use poste_core::views::{self, HandlerView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NO_RULES;
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Rules of the files, then those that no file defines any more.
    pub rules: Vec<RuleStatus>,
}

/// A rule and its progress.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RuleStatus {
    /// Name of the rule.
    pub rule: Label,
    /// Kind of its handler; null if no file defines the rule any more.
    pub handler: Option<String>,
    /// Progress of the rule; null if it has never run.
    pub seen_to: Option<HandlerView>,
}

impl Verb for Input {
    const NAME: &'static str = "watch status";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let mut seen = views::handlers(desk.office.store())?;
        let mut rules = Vec::new();
        for rule in poste_config::on_rules(desk.office)?.rules {
            let seen_to = seen.iter().position(|seen| seen.rule == rule.name).map(|at| seen.remove(at));
            rules.push(RuleStatus { rule: rule.name, handler: Some(rule.handler.word().to_owned()), seen_to });
        }
        let of_no_file = |seen: HandlerView| RuleStatus { rule: seen.rule.clone(), handler: None, seen_to: Some(seen) };
        rules.extend(seen.into_iter().map(of_no_file));
        if rules.is_empty() {
            desk.say(NO_RULES);
        }
        Ok(Answered::new(Answer { rules }))
    }
}
