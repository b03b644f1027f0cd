//! Payload schemas: what a type's payload must look like, checked before the append on every surface.
//!
//! A schema is this machine's matter, in no record: the fold never sees content. Nothing is read or compiled until a
//! message of a type that has one is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::config::{SCHEMA, SchemaSource, TYPES};
use crate::digest::Digest;
use crate::error::Error;
use crate::fold::{Code, Rejection};
use crate::limits;
use crate::log::{Intent, Proposal};
use crate::store::artifact::Worktree;
use crate::text::TypeName;

/// The schemas of one `poste.toml`.
#[derive(Debug, Default)]
pub struct PayloadSchemas {
    config: PathBuf,
    sources: BTreeMap<TypeName, SchemaSource>,
    /// Compiled once, and again when the file has changed: a server lives longer than a schema.
    compiled: BTreeMap<TypeName, (Digest, Validator)>,
}

/// The types whose schema was looked at in this submission: a batch reads each file once.
#[derive(Debug, Default)]
pub struct Fresh(BTreeSet<TypeName>);

impl PayloadSchemas {
    /// `config` is the `poste.toml` that names them; files are looked for below its folder.
    pub fn new(config: &Path, sources: BTreeMap<TypeName, SchemaSource>) -> Self {
        Self { config: config.to_owned(), sources, compiled: BTreeMap::new() }
    }

    /// The schemas that the file names now; what is compiled stays so.
    pub(crate) fn update(&mut self, sources: BTreeMap<TypeName, SchemaSource>) {
        self.compiled.retain(|kind, _| sources.get(kind) == self.sources.get(kind));
        self.sources = sources;
    }

    /// Where the schema of a type stands.
    pub fn source(&self, kind: &TypeName) -> Option<&SchemaSource> {
        self.sources.get(kind)
    }

    /// The schema of a type as JSON, if it has one.
    pub fn schema(&self, kind: &TypeName) -> Result<Option<Value>, Error> {
        self.sources.get(kind).map(|source| self.read(kind, source).map(|(schema, _)| schema)).transpose()
    }

    /// What is wrong with the schemas themselves.
    pub fn problems(&self) -> Vec<(TypeName, String)> {
        let check = |kind: &TypeName, source: &SchemaSource| -> Result<(), String> {
            let (schema, _) = self.read(kind, source).map_err(|error| match error {
                Error::Config { message, .. } => message,
                other => other.to_string(),
            })?;
            compile(kind, &schema).map(|_| ())
        };
        let checked = self.sources.iter().map(|(kind, source)| (kind.clone(), check(kind, source)));
        checked.filter_map(|(kind, checked)| checked.err().map(|why| (kind, why))).collect()
    }

    /// Why a proposal is refused, if it is a message whose payload does not fit.
    pub fn check(&mut self, proposal: &Proposal, fresh: &mut Fresh) -> Result<Option<Rejection>, Error> {
        let Intent::Send(send) = &proposal.intent else { return Ok(None) };
        let Some(source) = self.sources.get(&send.kind) else { return Ok(None) };
        let kind = &send.kind;
        let refused = |reason: String| Ok(Some(Rejection { code: Code::PayloadUnfit, reason }));
        let payload = proposal.content.as_ref().and_then(|content| content.payload.as_deref());
        let Some(payload) = payload else {
            return refused(format!("a message of type {kind} has a payload, and this one has none"));
        };
        if fresh.0.insert(kind.clone()) {
            let (schema, digest) = self.read(kind, source)?;
            if self.compiled.get(kind).is_none_or(|(known, _)| *known != digest) {
                let validator =
                    compile(kind, &schema).map_err(|message| Error::Config { path: self.config.clone(), message })?;
                self.compiled.insert(kind.clone(), (digest, validator));
            }
        }
        let (_, validator) = &self.compiled[kind];
        match violations(validator, payload) {
            Ok(()) => Ok(None),
            Err(why) => refused(format!("the payload does not fit the schema of {kind}: {why}")),
        }
    }

    fn read(&self, kind: &TypeName, source: &SchemaSource) -> Result<(Value, Digest), Error> {
        let wrong = |why: String| Error::Config {
            path: self.config.clone(),
            message: format!("{TYPES}.{kind}.{SCHEMA}: {why}"),
        };
        let path = match source {
            SchemaSource::Inline(schema) => return Ok((schema.clone(), Digest::of(schema.to_string().as_bytes()))),
            SchemaSource::File(path) => path,
        };
        let folder = self.config.parent().unwrap_or(Path::new("."));
        if Path::new(path).is_absolute() {
            return Err(wrong(format!("{path}: write it relative to the folder of poste.toml")));
        }
        let tree = Worktree::new(folder)?;
        let bytes = tree.read(Path::new(path), limits::SCHEMA_BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
        let schema = serde_json::from_slice(&bytes).map_err(|error| wrong(format!("{path} is no JSON: {error}")))?;
        Ok((schema, Digest::of(&bytes)))
    }
}

/// Compiles a schema. Patterns run in linear time, whatever they are; references lead nowhere but into the schema.
fn compile(kind: &TypeName, schema: &Value) -> Result<Validator, String> {
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
    options.build(schema).map_err(|error| {
        let place = match error.instance_path().as_str() {
            "" => String::new(),
            pointer => format!("at {pointer}: "),
        };
        let why = match error.kind() {
            ValidationErrorKind::Referencing(_) => {
                "it refers to something outside of itself; put that under $defs".to_owned()
            }
            _ => error.to_string(),
        };
        format!("{TYPES}.{kind}.{SCHEMA}: it is no JSON Schema that can be used: {place}{why}")
    })
}

/// The first few violations, each with the JSON pointer of the place. Values are not repeated: they may be large, or
/// not be for everybody's eyes.
fn violations(validator: &Validator, payload: &RawValue) -> Result<(), String> {
    const NAMED_MAX: usize = 3;
    let payload: Value = serde_json::from_str(payload.get()).map_err(|error| format!("it cannot be read: {error}"))?;
    let mut named = Vec::new();
    let mut more = false;
    for error in validator.iter_errors(&payload) {
        if named.len() == NAMED_MAX {
            more = true;
            break;
        }
        let place = match error.instance_path().as_str() {
            "" => "at the top".to_owned(),
            pointer => format!("at {pointer}"),
        };
        named.push(format!("{place}, {}", error.masked_with("it")));
    }
    match (named.is_empty(), more) {
        (true, _) => Ok(()),
        (false, false) => Err(named.join("; ")),
        (false, true) => Err(format!("{}; and more", named.join("; "))),
    }
}
