//! Answers of tools. Models read the comments of the fields.

use schemars::JsonSchema;

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
