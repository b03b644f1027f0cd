//! Notes as people at a terminal read them: a verb is a command line that can be pasted.

use poste_verbs::note::{Call, Part};
use poste_verbs::{Answered, Note};
use serde_json::Value;

use crate::cli::Command;
use crate::ui::Ui;

/// A note on one line.
pub(crate) fn text(ui: &Ui, note: &Note) -> String {
    let parts = note.parts().iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Time(at) => ui.time(*at),
        Part::Since(at) => ui.since(*at),
        Part::Call(call) => command_line(call),
    });
    parts.collect()
}

/// As [`text`], where nobody said how times are to be shown.
pub(crate) fn plain(note: &Note) -> String {
    note.written(command_line)
}

/// Says what an answer came with.
pub(crate) fn say<A>(ui: &Ui, answered: &Answered<A>) {
    answered.warnings.iter().for_each(|note| ui.warn(text(ui, note)));
    answered.next.iter().for_each(|note| ui.say(text(ui, note)));
}

/// `poste VERB …`: first what is given by its place, then what is given by name.
pub(crate) fn command_line(call: &Call) -> String {
    let (name, command) = described(&call.verb);
    let mut words: Vec<String> = std::iter::once("poste").chain(name.split(' ')).map(ToOwned::to_owned).collect();
    let Some(command) = command else { return words.join(" ") };
    let mut options = Vec::new();
    let mut places: Vec<(usize, String)> = Vec::new();
    for (field, value) in &call.input {
        let long = field.replace('_', "-");
        let is_named = |argument: &&clap::Arg| argument.get_id() == field || argument.get_long() == Some(&long);
        // What takes a number or something else has another name for its place.
        let first = || command.get_positionals().next().filter(|_| field == "number");
        let Some(argument) = command.get_arguments().find(is_named).or_else(first) else { continue };
        for value in given(value) {
            match (argument.get_long(), argument.is_positional(), value) {
                (_, true, Some(value)) => {
                    let place = command.get_positionals().position(|other| other.get_id() == argument.get_id());
                    places.push((place.unwrap_or(usize::MAX), value));
                }
                (Some(long), _, Some(value)) => options.push(format!("--{long} {value}")),
                (Some(long), _, None) => options.push(format!("--{long}")),
                _ => {}
            }
        }
    }
    places.sort_by_key(|(index, _)| *index);
    words.extend(places.into_iter().map(|(_, value)| value));
    words.extend(options);
    words.join(" ")
}

/// The command of a verb. A verb of its own may be an option there: `log why id` is `poste log why --id ID`.
fn described(verb: &str) -> (&str, Option<clap::Command>) {
    let shorter = verb.rsplit_once(' ').map(|(shorter, _)| (shorter, Command::describe(shorter)));
    match (Command::describe(verb), shorter) {
        (None, Some((shorter, Some(command)))) => (shorter, Some(command)),
        (command, _) => (verb, command),
    }
}

/// The words a value becomes, quoted for a shell; `None` is a flag.
fn given(value: &Value) -> Vec<Option<String>> {
    let quoted = |text: &str| Some(shell_words::quote(text).into_owned());
    match value {
        Value::Null | Value::Bool(false) => Vec::new(),
        Value::Bool(true) => vec![None],
        Value::String(text) => vec![quoted(text)],
        Value::Array(values) => values.iter().flat_map(given).collect(),
        other => vec![Some(other.to_string())],
    }
}
