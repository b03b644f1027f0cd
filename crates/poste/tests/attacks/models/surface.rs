//! What the fields of inputs touch. A field that sounds as if it touched files, commands, checks or persons has to be declared
//! with its verb, and only an open one may be set with JSON, which is all that a model can write.

use std::fs;
use std::path::{Path, PathBuf};

use poste_verbs::{Access, Answered, Desk, Result, Spec, Touch, VERBS, Verb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Words in names of fields that touch something, as a rule.
const NAMES: &[&str] = &[
    "path",
    "paths",
    "file",
    "files",
    "folder",
    "dir",
    "cwd",
    "worktree",
    "artifact",
    "artifacts",
    "attach",
    "attachments",
    "out",
    "output",
    "command",
    "commands",
    "shell",
    "argv",
    "exec",
    "program",
    "prompt",
    "preset",
    "env",
    "verify",
    "override",
    "overridden",
    "allow",
    "force",
    "yes",
    "secret",
    "trust",
    "proof",
    "human",
];

/// Types of such fields, whatever their names.
const TYPES: &[&str] =
    &["PathBuf", "Path", "OsString", "File", "Folder", "Program", "Command", "Commands", "AgentKind", "Preset"];

fn sounds_closed(name: &str) -> bool {
    name.split('_').any(|word| NAMES.contains(&word))
}

/// A field of a struct in Rust.
#[derive(Debug)]
struct Field {
    name: String,
    kind: String,
    is_skipped: bool,
}

impl Field {
    fn needs_declaration(&self) -> bool {
        let mut words = self.kind.split(|c: char| !c.is_alphanumeric());
        sounds_closed(&self.name) && self.name != "secrets" || words.any(|word| TYPES.contains(&word))
    }

    /// A check for secrets is lifted by its type, in every verb.
    fn lifts_secrets(&self) -> bool {
        self.kind.ends_with("Secrets")
    }
}

/// The fields of every input that a source file has.
fn inputs(source: &str) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut is_in = false;
    let mut is_skipped = false;
    for line in source.lines() {
        if line.starts_with("pub struct Input") || line.starts_with("pub struct Message ") {
            is_in = line.ends_with('{');
        } else if line.starts_with('}') {
            is_in = false;
        }
        let line = line.trim();
        is_skipped |= line.starts_with("#[serde(skip)]");
        let field = line.strip_prefix("pub ").and_then(|line| line.strip_suffix(',')).filter(|_| is_in);
        if let Some((name, kind)) = field.and_then(|line| line.split_once(": ")) {
            let name = name.trim_start_matches("r#").to_owned();
            fields.push(Field { name, kind: kind.to_owned(), is_skipped: std::mem::take(&mut is_skipped) });
        }
    }
    fields
}

/// What is wrong with the inputs of a source file, given what its verb declares.
fn faults_of_source(source: &str, touch_of: impl Fn(&str) -> Option<Touch>) -> Vec<String> {
    let mut faults = Vec::new();
    for field in inputs(source) {
        let touch = touch_of(&field.name);
        if field.needs_declaration() && touch.is_none() {
            faults.push(format!("{}: {} is not declared", field.name, field.kind));
        }
        let is_closed = field.lifts_secrets() || touch.is_some_and(|touch| !touch.is_open());
        if is_closed && !field.is_skipped {
            faults.push(format!("{}: {} can be set with JSON", field.name, field.kind));
        }
    }
    faults
}

/// What is wrong with the input of a verb as JSON has it.
fn faults_of_schema(spec: &Spec) -> Vec<String> {
    let schema = (spec.input)().to_value();
    let mut faults = Vec::new();
    if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
        faults.push("unknown fields are ignored".to_owned());
    }
    for name in schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name) {
        match spec.touch_of(name) {
            None if sounds_closed(name) => faults.push(format!("{name} is not declared")),
            Some(touch) if !touch.is_open() => faults.push(format!("{name} can be set with JSON")),
            _ => {}
        }
    }
    faults
}

fn verbs() -> impl Iterator<Item = &'static Spec> {
    VERBS.iter().chain(poste_dispatch::VERBS)
}

fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push((path.clone(), fs::read_to_string(path).unwrap())),
        }
    }
}

/// The name of the verb that a source file has.
fn verb_in(source: &str) -> Option<&'static Spec> {
    let (_, rest) = source.split_once("const NAME: &'static str = \"")?;
    let (name, _) = rest.split_once('"')?;
    verbs().find(|spec| spec.name == name)
}

#[test]
fn no_field_that_json_can_set_touches_anything_outside_the_worktree() {
    let faulty = verbs().map(|spec| (spec.name, faults_of_schema(spec))).filter(|(_, faults)| !faults.is_empty());
    assert_eq!(faulty.collect::<Vec<_>>(), []);
}

#[test]
fn every_field_that_touches_something_is_declared() {
    let mut all = Vec::new();
    for name in ["poste-verbs", "poste-dispatch", "poste-connect"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src"), &mut all);
    }
    let of_any = |field: &str| verbs().find_map(|spec| spec.touch_of(field));
    // Work without an open office is called by the command line only, with an input that it made itself.
    let is_called_with_json =
        |source: &str| !source.contains("pub struct Input") || source.contains("impl Verb for Input");
    let mut known = 0;
    for (path, source) in all.iter().filter(|(_, source)| is_called_with_json(source)) {
        known += inputs(source).len();
        let faults = match verb_in(source) {
            Some(spec) => faults_of_source(source, |field| spec.touch_of(field)),
            // Fields that several verbs share, and inputs of tools. Each verb's schema shows whether JSON can set them.
            None => faults_of_source(source, |field| of_any(field).map(|_| Touch::Nothing)),
        };
        assert_eq!(faults, Vec::<String>::new(), "{}", path.display());
    }
    assert!(known > 300, "the fields of all verbs are found: {known}");
}

/// A verb that somebody added in a hurry.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct Input {
    pub target: PathBuf,
    pub command: String,
}

impl Verb for Input {
    const NAME: &'static str = "hasty";
    const ACCESS: Access = Access::Writes;
    type Answer = Self;

    fn run(self, _: &mut Desk<'_>) -> Result<Answered<Self>> {
        Ok(Answered::new(self))
    }
}

#[test]
fn a_field_that_nobody_declared_is_noticed() {
    let faults = faults_of_schema(&Spec::of::<Input>());
    assert_eq!(faults, ["unknown fields are ignored", "command is not declared"]);
    let faults = faults_of_source(include_str!("surface.rs"), |_| None);
    assert_eq!(faults, ["target: PathBuf is not declared", "command: String is not declared"]);
    let faults = faults_of_source(include_str!("surface.rs"), |_| Some(Touch::RunsCommand));
    assert_eq!(faults, ["target: PathBuf can be set with JSON", "command: String can be set with JSON"]);
    let secret = "pub struct Input {\n    pub secrets: Secrets,\n}\n";
    assert_eq!(faults_of_source(secret, |_| None), ["secrets: Secrets can be set with JSON"]);
}
