//! Notes for people at a terminal: a verb becomes a command line that can be pasted.

use poste_verbs::note::{Call, Field, Part, SPEAKER, Setting};
use poste_verbs::{Answered, Note};
use serde_json::Value;

use crate::cli::{Command, FORMS};
use crate::ui::Ui;

/// A note on one line.
pub(crate) fn text(ui: &Ui, note: &Note) -> String {
    plain(&timed(ui, note.clone()))
}

/// A note with its times in the chosen style.
pub(crate) fn timed(ui: &Ui, note: Note) -> Note {
    note.timed(|part| match part {
        Part::Time(at) => Some(ui.time(*at)),
        Part::Since(at) => Some(ui.since(*at)),
        _ => None,
    })
}

/// Like [`text`], without a time style.
pub(crate) fn plain(note: &Note) -> String {
    note.written(part_text)
}

/// A part of a note, with absolute times.
pub(crate) fn part_text(part: &Part) -> String {
    match part {
        Part::Text(text) => text.clone(),
        Part::Time(at) => at.to_string(),
        Part::Since(at) => format!("since {at}"),
        Part::Call(call) => command_line(call),
        Part::Field(field) => option(field),
        Part::Setting(setting) => setting_text(*setting).to_owned(),
    }
}

fn setting_text(setting: Setting) -> &'static str {
    match setting {
        Setting::Speaker => "--as NAME or set POSTE_AGENT",
        Setting::Office => "--office DIR or set POSTE_HOME",
        Setting::LockTimeout => "--lock-timeout 30s or set POSTE_LOCK_TIMEOUT",
        Setting::Json => "--json",
        Setting::Token => "POSTE_TOKEN_FILE=FILE",
    }
}

/// Prints the warnings and next steps of an answer.
pub(crate) fn say<A>(ui: &Ui, answered: &Answered<A>) {
    answered.warnings.iter().for_each(|note| ui.warn(text(ui, note)));
    answered.next.iter().for_each(|note| ui.say(text(ui, note)));
}

/// `poste VERB …`: positional arguments first, then options.
fn command_line(call: &Call) -> String {
    let form = Form::of(&call.verb);
    let mut words: Vec<String> = std::iter::once("poste").chain(form.name.split(' ')).map(ToOwned::to_owned).collect();
    let Some(command) = &form.command else { return words.join(" ") };
    let mut options: Vec<String> = form.flag().map(|flag| format!("--{flag}")).into_iter().collect();
    let mut places: Vec<(usize, String)> = Vec::new();
    for (field, value) in &call.input {
        if field == SPEAKER {
            options.extend(given(value).into_iter().flatten().map(|name| format!("--as {name}")));
            continue;
        }
        let Some(argument) = form.argument(field) else { continue };
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

/// `--merge`, `--before 12`.
fn option(field: &Field) -> String {
    let form = Form::of(&field.verb);
    let argument = form.argument(&field.name);
    if let Some(place) = argument.filter(|argument| argument.is_positional()) {
        return place.get_id().as_str().to_uppercase();
    }
    let long = match argument.and_then(clap::Arg::get_long) {
        Some(long) => long.to_owned(),
        None => field.name.replace('_', "-"),
    };
    match given(&field.value).into_iter().next().flatten() {
        Some(value) => format!("--{long} {value}"),
        None => format!("--{long}"),
    }
}

/// The command that calls a verb.
pub(crate) struct Form<'v> {
    name: &'v str,
    /// The option that makes the command call this verb.
    option: Option<&'static str>,
    pub command: Option<clap::Command>,
}

impl<'v> Form<'v> {
    pub(crate) fn of(verb: &'v str) -> Self {
        if let Some(command) = Command::describe(verb) {
            return Self { name: verb, option: None, command: Some(command) };
        }
        let Some((form, _)) = FORMS.iter().find(|(_, known)| *known == verb) else {
            return Self { name: verb, option: None, command: None };
        };
        let (name, option) = match form.split_once(" --") {
            Some((name, option)) => (name, Some(option)),
            None => (form.trim_end_matches(|c: char| c.is_ascii_uppercase()).trim_end(), None),
        };
        Self { name, option, command: Command::describe(name) }
    }

    fn chosen(&self) -> Option<&clap::Arg> {
        let option = self.option?;
        self.command.as_ref()?.get_arguments().find(|argument| argument.get_long() == Some(option))
    }

    /// The option, if it takes no value.
    fn flag(&self) -> Option<&'static str> {
        self.option.filter(|_| self.chosen().is_some_and(|argument| !argument.get_action().takes_values()))
    }

    /// The argument that fills in a field of the verb.
    fn argument(&self, field: &str) -> Option<&clap::Arg> {
        let command = self.command.as_ref()?;
        let long = field.replace('_', "-");
        let is_named = |argument: &&clap::Arg| argument.get_id() == field || argument.get_long() == Some(&long);
        // The first positional argument may have another name than the field `number` or `text`.
        let is_first = ["number", "text"].contains(&field);
        let first = || command.get_positionals().next().or(self.chosen()).filter(|_| is_first);
        // `ingest` is one verb, with a subcommand for each kind of source.
        let below = || command.get_subcommands().flat_map(clap::Command::get_arguments).find(is_named);
        let found = command.get_arguments().find(is_named).or_else(first).or_else(below);
        debug_assert!(found.is_some(), "poste {} has no argument for {field}", self.name);
        found
    }
}

/// The arguments for a value, quoted for a shell; `None` stands for a flag.
fn given(value: &Value) -> Vec<Option<String>> {
    // `=` is not special inside a word, so `NAME=TEXT` stays unquoted.
    let is_plain = |text: &str| text.split('=').all(|part| !part.is_empty() && shell_words::quote(part) == part);
    let quoted =
        |text: &str| Some(if is_plain(text) { text.to_owned() } else { shell_words::quote(text).into_owned() });
    match value {
        Value::Null | Value::Bool(false) => Vec::new(),
        Value::Bool(true) => vec![None],
        Value::String(text) => vec![quoted(text)],
        Value::Array(values) => values.iter().flat_map(given).collect(),
        other => vec![Some(other.to_string())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poste_verbs::note;
    use poste_verbs::note::COMMANDS;
    use poste_verbs::verb::{OUTSIDE, VERBS};

    #[test]
    fn every_verb_has_a_command() {
        let verbs = VERBS.iter().chain(poste_dispatch::VERBS).map(|verb| verb.name);
        let others = OUTSIDE.iter().map(|outside| outside.name).chain(COMMANDS.iter().copied());
        let missing: Vec<&str> = verbs.chain(others).filter(|name| Form::of(name).command.is_none()).collect();
        // `poste send --batch` calls this verb for chunks of lines.
        assert_eq!(missing, ["send batch"]);
    }

    #[test]
    fn every_form_is_a_command_that_asks_a_verb() {
        for (command, verb) in FORMS {
            let form = Form::of(verb);
            let is_verb = VERBS.iter().chain(poste_dispatch::VERBS).any(|known| known.name == *verb);
            assert!(is_verb && form.command.is_some(), "{command}");
            assert!(form.option.is_none() || form.chosen().is_some(), "{command}");
        }
    }

    #[test]
    fn a_verb_is_a_command_line_that_can_be_pasted() {
        let cases = [
            (note!([agreement, number = 3]), "poste agree 3 --list"),
            (note!([approval, number = 3, wait = true]), "poste approvals 3 --wait"),
            (note!([wait replies, number = 3]), "poste wait --replies 3"),
            (note!([log why id, id = "x y"]), "poste log why --id 'x y'"),
            (note!([trust, as = "ann"]), "poste trust --as ann"),
            (note!("pass " @Speaker), "pass --as NAME or set POSTE_AGENT"),
            (note!("with " {merge = true} ", not " {if_version}), "with --merge, not --if-version"),
        ];
        for (note, text) in cases {
            assert_eq!(plain(&note), text);
        }
    }
}
