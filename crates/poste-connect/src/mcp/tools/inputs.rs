//! What a model fills in where a tool is more than its verbs, and what comes back. The comments are what it reads.

use schemars::JsonSchema;

#[derive(Debug, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct CheckInbox {
    /// Only what you were not shown
    pub(super) unread: Option<bool>,
    pub(super) r#type: Option<String>,
    pub(super) from: Option<String>,
    pub(super) max_tokens: Option<i64>,
}

#[derive(Debug, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ReadMessage {
    pub(super) number: i64,
    /// Characters of the body to skip
    pub(super) offset: Option<i64>,
    pub(super) max_tokens: Option<i64>,
}

#[derive(Debug, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ClaimWork {
    /// Otherwise the most urgent
    pub(super) number: Option<i64>,
    pub(super) r#type: Option<String>,
    /// 30m
    pub(super) lease: Option<String>,
    pub(super) max_tokens: Option<i64>,
}

#[derive(Debug, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct WaitForMail {
    /// Otherwise 45
    pub(super) seconds: Option<i64>,
    pub(super) r#type: Option<String>,
    pub(super) from: Option<String>,
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
