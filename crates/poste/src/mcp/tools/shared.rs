//! Shared contexts as a model reads them.

use poste_verbs::context::show;
use serde_json::Value;

use super::offer::{Called, filled};
use crate::Result;
use crate::identity::Identity;
use crate::mcp::connection::Connection;
use crate::mcp::notes;
use crate::ui::fence;

/// A context in a fence of its own, which says what it is.
pub(in crate::mcp) fn show_context(connection: &Connection, own: &Identity, input: Value) -> Result<Called> {
    let answered = connection.call(own, filled::<show::Input>(input)?)?;
    let nonce = fence::nonce_for(&answered.answer, || connection.ids().nonce());
    Ok(Called {
        answer: serde_json::to_value(&answered.answer).unwrap_or_default(),
        text: fence::fenced_context(&answered.answer, &nonce),
        is_fenced: true,
        next: notes::texts(&answered.next),
        warnings: notes::texts(&answered.warnings),
        marks: answered.marks,
        failed: None,
    })
}
