//! Notes and errors as text for a model: a verb becomes a call of the tool that offers it, otherwise a command.

use poste_verbs::Note;
use poste_verbs::note::{Call, Field, Part};
use serde_json::Value;

use super::tools;
use crate::station::CommandLine;

/// A note as text, unless it names something a model cannot fill in.
pub(super) fn text(note: &Note, command_line: CommandLine) -> Option<String> {
    let parts = note.parts().iter().map(|part| match part {
        Part::Call(call) => Some(tool_call(call).unwrap_or_else(|| command_line(part))),
        Part::Field(field) => filled_in(field),
        Part::Setting(_) => None,
        Part::Time(at) => Some(at.to_string()),
        Part::Text(_) | Part::Since(_) => Some(command_line(part)),
    });
    parts.collect()
}

/// `before=12`, where the tool that offers the verb has such a field.
fn filled_in(field: &Field) -> Option<String> {
    let name = tools::offering(&field.verb)?.1.name_of(&field.name)?;
    Some(if field.value.is_null() { name.to_owned() } else { assigned(name, &field.value) })
}

/// `finish_work outcome=done number=12 summary=TEXT`.
fn tool_call(call: &Call) -> Option<String> {
    let (tool, offer) = tools::offering(&call.verb)?;
    let mut words = vec![tool.name.to_owned()];
    words.extend(tool.choosing(offer));
    for (field, value) in &call.input {
        // The server keeps the tokens of claims.
        let Some(name) = offer.name_of(field).filter(|name| *name != "token") else { continue };
        words.push(assigned(name, value));
    }
    Some(words.join(" "))
}

fn assigned(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) if text.contains(char::is_whitespace) => format!("{name}={text:?}"),
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    }
}
