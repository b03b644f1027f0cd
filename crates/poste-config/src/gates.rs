//! Reads `[[gate]]` of `poste.toml` and `.poste/local.toml`.

use std::str::FromStr;

use toml::de::DeValue;

use crate::items::{Fields, Shape};
use crate::keys::{Key, Value, ValueKind};
use crate::read::{Named, Reader};
use poste_core::gates::{Gate, Program, Source, TEMPLATES, pattern_of};
use poste_core::limits;
use poste_core::payload::SchemaSource;
use poste_core::text::{Label, TypeName, nearest, quoted};

/// The name of the list.
pub const GATE: &str = "gate";

const fn key(name: &'static str, takes: ValueKind) -> Key {
    Key { section: GATE, name, takes, built_in: None }
}

const SIZE: ValueKind = ValueKind::Count { min: 0, max: limits::ARTIFACT_BYTES_MAX };

const VALUES: &[Key] = &[
    key("exists", ValueKind::Flag),
    key("not_empty", ValueKind::Flag),
    key("digest", ValueKind::Flag),
    key("size_min", SIZE),
    key("size_max", SIZE),
    key("artifact_schema", ValueKind::Schema),
    key("payload_schema", ValueKind::Schema),
    key("timeout", ValueKind::Length { min: limits::GATE_TIMEOUT_MS_MIN, max: limits::GATE_TIMEOUT_MS_MAX }),
];

const GATE_TEMPLATES: [&str; 3] = [TEMPLATES[0].0, TEMPLATES[1].0, TEMPLATES[2].0];

const SHAPE: Shape = Shape {
    list: GATE,
    several: "gates",
    max: limits::GATES_MAX,
    values: VALUES,
    texts: &["name", "type", "workflow", "step", "name_matches", "shell"],
    lists: &[],
    secrets: &[],
    command: "[\"./check.sh\", \"{artifact}\"]; for a shell line use shell",
    templates: &GATE_TEMPLATES,
};

pub(crate) fn read(reader: &mut Reader<'_>, name: &Named<'_>, value: &DeValue<'_>) {
    SHAPE.each(reader, name, value, |reader, fields, line| match Reading(fields).gate(reader.source, line) {
        Ok(gate) if reader.file.gates.iter().any(|other| other.name == gate.name) => {
            vec![format!("gate {}: the name is taken by another gate", gate.name)]
        }
        Ok(gate) => {
            reader.file.gates.push(gate);
            Vec::new()
        }
        Err(problems) => problems,
    });
}

struct Reading(Fields);

impl Reading {
    fn gate(mut self, source: Source, line: usize) -> Result<Gate, Vec<String>> {
        let mut problems = Vec::new();
        let name: Option<Label> = self.parsed("name", &mut problems);
        let kind: Option<TypeName> = self.parsed("type", &mut problems);
        let workflow: Option<Label> = self.parsed("workflow", &mut problems);
        let step: Option<Label> = self.parsed("step", &mut problems);
        let shown = name.as_ref().map_or_else(|| "gate".to_owned(), |name| format!("gate {name}"));
        let mut say = |why: &str| problems.push(format!("{shown}: {why}"));
        if name.is_none() && !self.0.texts.contains_key("name") {
            say("it has no name");
        }
        if !["type", "workflow"].iter().any(|key| self.0.texts.contains_key(key)) {
            say("it has neither type nor workflow");
        }
        if step.is_some() && workflow.is_none() {
            say("step needs workflow");
        }
        let shell = self.0.texts.remove("shell");
        let command = self.0.command.take();
        let program = match (command, shell) {
            (Some(_), Some(_)) => {
                say("it has both command and shell; use only one");
                None
            }
            (Some(words), None) => Some(Program::Words(words)),
            (None, Some(line)) => {
                if TEMPLATES.iter().any(|(template, _)| line.contains(template)) {
                    say("a shell line gets values as variables: write \"$POSTE_ARTIFACT\", not {artifact}");
                }
                Some(Program::Shell(line))
            }
            (None, None) => None,
        };
        let name_matches = self.0.texts.remove("name_matches");
        if let Some(Err(why)) = name_matches.as_ref().map(|pattern| pattern_of(pattern)) {
            say(&format!("name_matches is not a valid pattern: {why}"));
        }
        let (size_min, size_max) = (self.0.count("size_min"), self.0.count("size_max"));
        if size_min.zip(size_max).is_some_and(|(min, max)| min > max) {
            say("size_min is larger than size_max");
        }
        let timeout_ms = self.0.length("timeout");
        if timeout_ms.is_some() && program.is_none() {
            say("timeout needs command or shell");
        }
        let gate = Gate {
            name: name.unwrap_or_else(|| GATE.parse().expect("a label")),
            kind,
            workflow,
            step,
            exists: self.flag("exists"),
            not_empty: self.flag("not_empty"),
            digest: self.flag("digest"),
            size_min,
            size_max,
            name_matches,
            artifact_schema: self.schema("artifact_schema"),
            payload_schema: self.schema("payload_schema"),
            program,
            timeout_ms: timeout_ms.unwrap_or(limits::GATE_TIMEOUT_MS_DEFAULT),
            source,
            line,
        };
        if !gate.checks_something() {
            say("it checks nothing");
        }
        if problems.is_empty() { Ok(gate) } else { Err(problems) }
    }

    fn parsed<T: FromStr<Err: std::fmt::Display>>(
        &mut self,
        key: &'static str,
        problems: &mut Vec<String>,
    ) -> Option<T> {
        match self.0.texts.get(key)?.parse() {
            Ok(value) => Some(value),
            Err(why) => {
                problems.push(format!("gate.{key}: {why}"));
                None
            }
        }
    }

    fn flag(&self, key: &str) -> bool {
        matches!(self.0.values.get(key), Some(Value::Flag(true)))
    }

    fn schema(&mut self, key: &str) -> Option<SchemaSource> {
        match self.0.values.remove(key) {
            Some(Value::Schema(source)) => Some(source),
            _ => None,
        }
    }
}

pub(crate) fn text(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) if text.is_empty() => Err("it is empty".to_owned()),
        DeValue::String(text) if text.len() > limits::COMMAND_BYTES_MAX => Err("it is too long".to_owned()),
        DeValue::String(text) if text.contains('\0') => Err("it contains a NUL character".to_owned()),
        DeValue::String(text) => Ok(text.clone().into_owned()),
        other => Err(format!("must be a string, not a TOML {}", other.type_str())),
    }
}

/// The words of a command, which may contain only these templates.
pub(crate) fn command(value: &DeValue<'_>, example: &str, templates: &[&str]) -> Result<Vec<String>, String> {
    let words = words(value, example)?;
    match words.iter().find_map(|word| unknown_template(word, templates)) {
        Some(why) => Err(why),
        None => Ok(words),
    }
}

pub(crate) fn words(value: &DeValue<'_>, example: &str) -> Result<Vec<String>, String> {
    let DeValue::Array(items) = value else {
        return Err(format!("must be a list of words, for example {example}"));
    };
    if items.len() > limits::COMMAND_WORDS_MAX {
        return Err(format!("it has more than {} words", limits::COMMAND_WORDS_MAX));
    }
    let mut words = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        match item.get_ref() {
            // Only an argument may be empty.
            DeValue::String(word) if word.is_empty() && index > 0 => words.push(String::new()),
            value => words.push(text(value)?),
        }
    }
    if words.is_empty() {
        return Err("it has no words".to_owned());
    }
    if words.iter().map(String::len).sum::<usize>() > limits::COMMAND_BYTES_MAX {
        return Err("it is too long".to_owned());
    }
    Ok(words)
}

/// Finds a misspelled template such as `{artefact}`, which would silently be passed on as it is.
fn unknown_template(word: &str, templates: &[&str]) -> Option<String> {
    let mut left = word;
    while let Some(at) = left.find('{') {
        left = &left[at + 1..];
        let name = left.split('}').next().filter(|name| name.len() < left.len())?;
        let is_word = !name.is_empty() && name.chars().all(|sign| sign.is_ascii_lowercase() || sign == '_');
        let known = templates.iter().map(|template| template.trim_matches(['{', '}']));
        if is_word && !known.clone().any(|known| known == name) {
            let near =
                nearest(name, known).first().map(|near| format!("; did you mean {{{near}}}?")).unwrap_or_default();
            return Some(format!("unknown placeholder {}{near}", quoted(&format!("{{{name}}}"))));
        }
    }
    None
}
