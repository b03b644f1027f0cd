//! Notes as a model reads them: a verb is a call of the tool that offers it, or else a command for whoever has a shell.

use poste_verbs::Note;
use poste_verbs::note::{Call, Part};
use serde_json::Value;

use super::tools;

pub(super) fn text(note: &Note) -> String {
    let parts = note.parts().iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Time(at) | Part::Since(at) => at.to_string(),
        Part::Call(call) => tool_call(call).unwrap_or_else(|| crate::notes::command_line(call)),
    });
    parts.collect()
}

/// `finish_work outcome=done number=12 summary=TEXT`.
fn tool_call(call: &Call) -> Option<String> {
    let (tool, offer) = tools::offering(&call.verb)?;
    let mut words = vec![tool.name.to_owned()];
    words.extend(tool.choosing(offer));
    for (field, value) in &call.input {
        // A claim's token is kept here.
        let Some(name) = offer.name_of(field).filter(|name| *name != "token") else { continue };
        words.push(match value {
            Value::String(text) if text.contains(char::is_whitespace) => format!("{name}={text:?}"),
            Value::String(text) => format!("{name}={text}"),
            other => format!("{name}={other}"),
        });
    }
    Some(words.join(" "))
}
