//! What a model fills in, and what comes back. The comments are what it reads.

use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Number {
    pub(super) number: i64,
    pub(super) max_tokens: Option<i64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Send {
    /// A name, role:ROLE, can:CAPABILITY or everyone; several with commas
    pub(super) to: String,
    /// One line
    pub(super) subject: String,
    /// Markdown
    pub(super) body: Option<String>,
    /// message, question, directive, progress_update …
    pub(super) r#type: Option<String>,
    pub(super) priority: Option<Priority>,
    pub(super) wants_response: Option<bool>,
    /// 30m, 2h
    pub(super) respond_by: Option<String>,
    /// Paths it speaks of
    pub(super) files: Option<Vec<String>>,
    /// Repeats under one id have no effect
    pub(super) id: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Priority {
    Low,
    Normal,
    High,
    Urgent,
}

impl Priority {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
            Self::Urgent => "urgent",
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckInbox {
    /// Only what you were not shown
    pub(super) unread: Option<bool>,
    pub(super) r#type: Option<String>,
    pub(super) from: Option<String>,
    pub(super) max_tokens: Option<i64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadMessage {
    pub(super) number: i64,
    /// Characters of the body to skip
    pub(super) offset: Option<i64>,
    pub(super) max_tokens: Option<i64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimWork {
    /// Otherwise the most urgent
    pub(super) number: Option<i64>,
    pub(super) r#type: Option<String>,
    /// 30m
    pub(super) lease: Option<String>,
    pub(super) max_tokens: Option<i64>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Done,
    Fail,
    Release,
    Extend,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FinishWork {
    pub(super) number: i64,
    pub(super) outcome: Outcome,
    /// What was done, or why it failed
    pub(super) summary: Option<String>,
    /// Details
    pub(super) result: Option<String>,
    /// Paths that came of it
    pub(super) files: Option<Vec<String>>,
    /// fail: try again later
    pub(super) retry: Option<bool>,
    /// extend: 30m
    pub(super) lease: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Reply_ {
    pub(super) number: i64,
    /// Markdown
    pub(super) body: String,
    /// Finish the message, too
    pub(super) done: Option<bool>,
    pub(super) wants_response: Option<bool>,
    pub(super) files: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitForMail {
    /// Otherwise 45
    pub(super) seconds: Option<i64>,
    pub(super) r#type: Option<String>,
    pub(super) from: Option<String>,
    pub(super) max_tokens: Option<i64>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ContextAction {
    List,
    Show,
    Since,
    Append,
    Replace,
    Create,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Context {
    /// since: what is new to you
    pub(super) action: ContextAction,
    pub(super) name: Option<String>,
    /// Markdown
    pub(super) text: Option<String>,
    pub(super) title: Option<String>,
    /// replace: the version it was made from
    pub(super) version: Option<i64>,
    pub(super) max_tokens: Option<i64>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum HandoffAction {
    Create,
    Show,
    Accept,
    Reject,
    List,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Handoff {
    pub(super) action: HandoffAction,
    pub(super) number: Option<i64>,
    pub(super) to: Option<String>,
    pub(super) task: Option<String>,
    pub(super) completed: Option<Vec<String>>,
    /// Paths to copy
    pub(super) files: Option<Vec<String>>,
    /// create: what the receiver must check; accept: numbers of checks made
    pub(super) checks: Option<Vec<String>>,
    /// Background, notes or reason
    pub(super) text: Option<String>,
    pub(super) max_tokens: Option<i64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Poste {
    pub(super) args: Vec<String>,
    pub(super) max_tokens: Option<i64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    pub(super) words: String,
    pub(super) from: Option<String>,
    pub(super) r#type: Option<String>,
    pub(super) max_tokens: Option<i64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    pub(super) to: String,
    pub(super) question: String,
    pub(super) body: Option<String>,
    /// The first one approves
    pub(super) choices: Option<Vec<String>>,
    /// 30m, 2h
    pub(super) deadline: Option<String>,
    /// What holds if nobody answers
    pub(super) default: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Approvals {
    pub(super) number: Option<i64>,
    pub(super) max_tokens: Option<i64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Decide {
    pub(super) number: i64,
    /// approve, deny, or one of its choices
    pub(super) choice: String,
    pub(super) reason: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ReserveAction {
    Reserve,
    Release,
    List,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Reserve {
    pub(super) action: ReserveAction,
    /// Paths or patterns, src/auth/**
    pub(super) patterns: Option<Vec<String>>,
    /// What for
    pub(super) reason: Option<String>,
    pub(super) max_tokens: Option<i64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Agree {
    /// The words after poste agree; ["--help"] tells them
    pub(super) args: Vec<String>,
    pub(super) max_tokens: Option<i64>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum SessionAction {
    Show,
    Note,
    Close,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionTool {
    pub(super) action: SessionAction,
    pub(super) text: Option<String>,
    pub(super) max_tokens: Option<i64>,
}

#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) number: Option<i64>,
    pub(super) next: Option<String>,
}

#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct Mail {
    pub(super) text: String,
    pub(super) messages: Option<Vec<Row>>,
    pub(super) next: Option<String>,
}

#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct Row {
    pub(super) number: i64,
    pub(super) from: String,
    pub(super) subject: String,
}
