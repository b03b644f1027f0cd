//! Arguments and answers of tools that do more than call a verb. Models read the comments of the fields.

use schemars::JsonSchema;

#[derive(Debug, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct CheckInbox {
    /// Only mail not shown to you
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
    /// Default: the most urgent
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
    /// Default: 45
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
