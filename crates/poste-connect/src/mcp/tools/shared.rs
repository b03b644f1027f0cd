//! Shared contexts as text for a model.

use poste_verbs::Result;
use poste_verbs::context::show;
use poste_verbs::model::fence;
use poste_verbs::session::Identity;
use serde_json::Value;

use super::offer::{Called, filled};
use crate::mcp::connection::{AnswerText, Connection};

/// A context in its own kind of fence, which says what it is.
pub(in crate::mcp) fn show_context(connection: &Connection, own: &Identity, input: Value) -> Result<Called> {
    let answered = connection.call(own, filled::<show::Input>(input)?)?;
    let nonce = fence::nonce_for(&answered.answer, || connection.ids().nonce());
    let answered = answered.map(|answer| AnswerText {
        value: serde_json::to_value(&answer).unwrap_or_default(),
        text: fence::fenced_context(&answer, &nonce),
    });
    Ok(connection.called(answered, true))
}
