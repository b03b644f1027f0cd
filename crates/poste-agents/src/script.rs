//! What the model says next.

use serde_json::Value;

use crate::dialect::Tool;
use crate::model::Asked;

/// The answer when nothing else is left: the program ends its turn.
const OVER: &str = "Nothing is left to do.";

#[derive(Debug, Clone, PartialEq)]
pub enum Say {
    Text(String),
    /// Matched by the end of its name, because every program adds its own prefix to the name that a server gave a tool.
    Call {
        tool: String,
        arguments: Value,
    },
}

impl Say {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub fn call(tool: impl Into<String>, arguments: Value) -> Self {
        Self::Call { tool: tool.into(), arguments }
    }
}

/// One answer, given once, or whenever its text occurs.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    contains: Option<String>,
    always: bool,
    say: Say,
}

impl Rule {
    /// The next answer, whatever the request.
    pub fn next(say: Say) -> Self {
        Self { contains: None, always: false, say }
    }

    /// Answers every request whose new part contains this text.
    pub fn whenever(contains: impl Into<String>, say: Say) -> Self {
        Self { contains: Some(contains.into()), always: true, say }
    }
}

/// Rules in the order in which they are tried.
#[derive(Debug, Default)]
pub struct Script {
    rules: Vec<Rule>,
}

impl Script {
    pub fn push(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    pub fn steps_left(&self) -> usize {
        self.rules.iter().filter(|rule| !rule.always).count()
    }

    /// The first matching rule. A rule with a text goes before those without, so that an interruption does not use up a
    /// step.
    pub fn answer(&mut self, asked: &Asked) -> Said {
        let news = asked.news();
        let told = |rule: &Rule| rule.contains.as_ref().is_some_and(|text| news.contains(text.as_str()));
        let found =
            self.rules.iter().position(told).or_else(|| self.rules.iter().position(|rule| rule.contains.is_none()));
        let Some(index) = found else {
            return Said::Text(OVER.to_owned());
        };
        match self.rules[index].say.clone() {
            Say::Text(text) => {
                self.spend(index);
                Said::Text(text)
            }
            Say::Call { tool, arguments } => match asked.tool(&tool) {
                Some(found) => {
                    self.spend(index);
                    Said::Call(found, arguments)
                }
                // A program may hide tools behind a search for them; the search uses up no step.
                None => match (asked.hidden_tool(&tool), asked.tool("ToolSearch")) {
                    (Some(name), Some(search)) => {
                        let query = serde_json::json!({ "query": format!("select:{name}"), "max_results": 1 });
                        Said::Call(search, query)
                    }
                    _ => {
                        self.spend(index);
                        Said::Text(format!("There is no tool {tool}."))
                    }
                },
            },
        }
    }

    fn spend(&mut self, index: usize) {
        if !self.rules[index].always {
            self.rules.remove(index);
        }
    }
}

/// An answer in terms of the tools that this request offers.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    Text(String),
    Call(Tool, Value),
}
