//! Notes and errors as a model reads them: a verb is a call of the tool that offers it, or else a command for whoever has a
//! shell.

use poste_core::escape;
use poste_verbs::note::Call;
use poste_verbs::{Error, Kind, Note};
use serde_json::Value;

use super::tools;

/// How verbs are written that no tool offers.
pub(super) type CommandLine = fn(&Call) -> String;

pub(super) fn text(note: &Note, command_line: CommandLine) -> String {
    note.written(|call| tool_call(call).unwrap_or_else(|| command_line(call)))
}

/// An error with its causes and hints, a line or more each.
pub(super) fn lines(error: &Error, command_line: CommandLine) -> Vec<String> {
    let text = |note: &Note| escape::block(&text(note, command_line)).into_owned();
    // A decision is an answer, whichever way it went.
    let (title, because) = if error.kind == Kind::Denied { ("", "note: ") } else { ("error: ", "cause: ") };
    let mut lines = vec![format!("{title}{}", escape::block(&error.message))];
    lines.extend(error.causes.iter().map(|cause| format!("{because}{}", text(cause))));
    lines.extend(error.hints.iter().map(|hint| format!("hint: {}", text(hint))));
    lines
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
