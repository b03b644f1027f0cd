//! Shows how far each rule has come, who sees to it, and how much it could not tell.

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
    pub rules: Vec<RuleStatus>,
}

/// A rule, how far it has come, or that nobody ever saw to it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RuleStatus {
    pub rule: Label,
    /// Null: it stands in no file any more.
    pub handler: Option<String>,
    /// Null: nobody saw to it yet.
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
