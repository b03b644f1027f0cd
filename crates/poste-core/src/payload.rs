//! Payload schemas: what a type's payload must look like, checked before the append on every surface.
//!
//! Schemas are local to this machine and not in any record, because the fold never sees content. A schema is read and
//! compiled only when a message of its type is sent.

mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::digest::Digest;
use crate::error::Error;
use crate::fold::{Code, Rejection};
use crate::limits;
use crate::log::Proposal;
use crate::store::artifact::Worktree;
use crate::store::discover;
use crate::text::TypeName;
use work::{STEPS_EACH_MAX, STEPS_MAX, Steps, Work};

/// Where a schema is defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaSource {
    /// Relative to the folder of `poste.toml`.
    File(String),
    Inline(Value),
}

/// The schemas of one `poste.toml`.
#[derive(Debug, Clone, Default)]
pub struct PayloadSchemas {
    config: PathBuf,
    sources: BTreeMap<TypeName, SchemaSource>,
}

/// A cache of compiled schemas. A server may outlive a schema, so one that has changed is compiled again.
#[derive(Debug, Default)]
pub struct Validators {
    compiled: BTreeMap<TypeName, (Digest, Compiled)>,
    /// Types whose schema was already read in this submission: a batch reads each file once.
    fresh: BTreeSet<TypeName>,
}

#[derive(Debug)]
struct Compiled {
    validator: Validator,
    work: Work,
}

impl Validators {
    /// Starts a new submission.
    pub(crate) fn begin(&mut self) {
        self.fresh.clear();
    }
}

impl PayloadSchemas {
    /// `config` is the `poste.toml` that names the schemas; files are looked up below its folder.
    pub fn new(config: &Path, sources: BTreeMap<TypeName, SchemaSource>) -> Self {
        Self { config: config.to_owned(), sources }
    }

    /// Where the schema of a type is defined.
    pub fn source(&self, kind: &TypeName) -> Option<&SchemaSource> {
        self.sources.get(kind)
    }

    /// The schema of a type as JSON, if it has one.
    pub fn schema(&self, kind: &TypeName) -> Result<Option<Value>, Error> {
        self.sources.get(kind).map(|source| self.read(kind, source).map(|(schema, _)| schema)).transpose()
    }

    /// Problems of the schemas themselves.
    pub fn problems(&self) -> Vec<(TypeName, String)> {
        let check = |kind: &TypeName, source: &SchemaSource| -> Result<(), String> {
            let (schema, _) = self.read(kind, source).map_err(message_of)?;
            compile(&key_of(kind), &schema).map(|_| ())
        };
        let checked = self.sources.iter().map(|(kind, source)| (kind.clone(), check(kind, source)));
        checked.filter_map(|(kind, checked)| checked.err().map(|why| (kind, why))).collect()
    }

    /// Why a proposal is refused, if it is a message whose payload does not fit.
    pub fn check(&self, proposal: &Proposal, validators: &mut Validators) -> Result<Option<Rejection>, Error> {
        let Some(send) = proposal.intent.mail() else { return Ok(None) };
        let Some(source) = self.sources.get(&send.kind) else { return Ok(None) };
        // A version of a shared context has its own schema and no payload.
        if proposal.content.as_ref().is_some_and(|content| content.document.is_some()) {
            return Ok(None);
        }
        let kind = &send.kind;
        let refused = |reason: String| Ok(Some(Rejection { code: Code::PayloadUnfit, reason }));
        let payload = proposal.content.as_ref().and_then(|content| content.payload.as_deref());
        let Some(payload) = payload else {
            return refused(format!("a message of type {kind} needs a payload"));
        };
        let Validators { compiled: known, fresh } = validators;
        if fresh.insert(kind.clone()) {
            let (schema, digest) = self.read(kind, source)?;
            if known.get(kind).is_none_or(|(of, _)| *of != digest) {
                let compiled = compile(&key_of(kind), &schema)
                    .map_err(|message| Error::Config { path: self.config.clone(), message })?;
                known.insert(kind.clone(), (digest, compiled));
            }
        }
        let (_, compiled) = &known[kind];
        match check(compiled, payload) {
            Ok(()) => Ok(None),
            Err(why) => refused(format!("the payload does not fit the schema of {kind}: {why}")),
        }
    }

    fn read(&self, kind: &TypeName, source: &SchemaSource) -> Result<(Value, Digest), Error> {
        read(&self.config, &key_of(kind), source)
    }
}

fn key_of(kind: &TypeName) -> String {
    format!("types.{kind}.schema")
}

/// Reads the schema named by a key of `poste.toml`; `config` is that file.
fn read(config: &Path, key: &str, source: &SchemaSource) -> Result<(Value, Digest), Error> {
    let wrong = |why: String| Error::Config { path: config.to_owned(), message: format!("{key}: {why}") };
    let path = match source {
        SchemaSource::Inline(schema) => return Ok((schema.clone(), Digest::of(schema.to_string().as_bytes()))),
        SchemaSource::File(path) => path,
    };
    let folder = config.parent().unwrap_or(Path::new("."));
    if Path::new(path).is_absolute() {
        return Err(wrong(format!("{path}: write it relative to the folder of poste.toml")));
    }
    let tree = Worktree::open(folder)?.apart_from(&folder.join(discover::FOLDER));
    let bytes = tree.read(Path::new(path), limits::SCHEMA_BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
    let schema = serde_json::from_slice(&bytes).map_err(|error| wrong(format!("{path} is not valid JSON: {error}")))?;
    Ok((schema, Digest::of(&bytes)))
}

/// The problem of a schema named by a key, if any.
pub(crate) fn schema_problem(config: &Path, key: &str, source: &SchemaSource) -> Option<String> {
    let compiled = read(config, key, source).map_err(message_of).and_then(|(schema, _)| compile(key, &schema));
    compiled.err()
}

/// Checks a JSON text against the schema named by a key. The error may also be about the schema.
pub(crate) fn check_text(config: &Path, key: &str, source: &SchemaSource, text: &str) -> Result<(), String> {
    let (schema, _) = read(config, key, source).map_err(message_of)?;
    let compiled = compile(key, &schema)?;
    let json: &RawValue = serde_json::from_str(text).map_err(|error| format!("it is not valid JSON: {error}"))?;
    check(&compiled, json)
}

fn message_of(error: Error) -> String {
    match error {
        Error::Config { message, .. } => message,
        other => other.to_string(),
    }
}

/// Compiles a schema. All patterns run in linear time. References cannot lead outside the schema. The
/// work needed to check a payload can be counted.
fn compile(key: &str, schema: &Value) -> Result<Compiled, String> {
    compile_any(schema).map_err(|why| format!("{key}: {why}"))
}

/// Why JSON cannot be used as a schema, if so.
pub fn check_schema(schema: &RawValue) -> Result<(), String> {
    let schema = serde_json::from_str(schema.get()).map_err(|error| format!("it cannot be read: {error}"))?;
    compile_any(&schema).map(|_| ())
}

/// Why JSON does not fit a schema, if so.
pub fn check_against(schema: &RawValue, data: &RawValue) -> Result<(), String> {
    let schema = serde_json::from_str(schema.get()).map_err(|error| format!("it cannot be read: {error}"))?;
    check(&compile_any(&schema)?, data)
}

fn compile_any(schema: &Value) -> Result<Compiled, String> {
    let unusable = |why: String| format!("it is not a usable JSON Schema: {why}");
    let work = Work::of(schema).map_err(unusable)?;
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
    let validator = options.build(schema).map_err(|error| {
        let place = match error.instance_path().as_str() {
            "" => String::new(),
            pointer => format!("at {pointer}: "),
        };
        let why = match error.kind() {
            ValidationErrorKind::Referencing(_) => work::OUTSIDE.to_owned(),
            _ => error.to_string(),
        };
        unusable(format!("{place}{why}"))
    })?;
    Ok(Compiled { validator, work })
}

/// Checks a payload, after counting the work that this takes.
fn check(compiled: &Compiled, payload: &RawValue) -> Result<(), String> {
    let payload: Value = serde_json::from_str(payload.get()).map_err(|error| format!("it cannot be read: {error}"))?;
    let Some(steps) = compiled.work.steps(&payload) else {
        return Err(format!("validation would take more than {STEPS_MAX} checks"));
    };
    match compiled.validator.is_valid(&payload) {
        true => Ok(()),
        false => Err(violations(&compiled.validator, &payload, steps)),
    }
}

/// The first few violations, each with the JSON pointer of its place. Values are not repeated: they may be large or
/// confidential. The validator collects every violation before it returns the first of several, and always those of all
/// alternatives. So if there may be many, only the first one is requested, or none.
fn violations(validator: &Validator, payload: &Value, steps: Steps) -> String {
    const NAMED_MAX: usize = 3;
    if steps.in_one_choice > STEPS_EACH_MAX {
        return "it matches none of the alternatives, which are too many to say why".to_owned();
    }
    if steps.all > STEPS_EACH_MAX {
        return validator.validate(payload).err().as_ref().map(violation).unwrap_or_default();
    }
    let mut errors = validator.iter_errors(payload);
    let mut named: Vec<String> = errors.by_ref().take(NAMED_MAX).map(|error| violation(&error)).collect();
    if errors.next().is_some() {
        named.push("and more".to_owned());
    }
    named.join("; ")
}

fn violation(error: &ValidationError<'_>) -> String {
    let place = match error.instance_path().as_str() {
        "" => "at the top".to_owned(),
        pointer => format!("at {pointer}"),
    };
    format!("{place}, {}", error.masked_with("it"))
}
