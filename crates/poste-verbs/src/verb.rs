//! What a verb is, and the registry of all verbs.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Answered, Desk, Error, Result};

/// A verb is its input type: its fields, and how to run it.
pub trait Verb: DeserializeOwned + JsonSchema {
    /// The name as people type it: `send`, `context append`.
    const NAME: &'static str;
    const ACCESS: Access;
    /// It runs commands, which may take long. A surface with several callers opens a separate office for it.
    const RUNS_COMMANDS: bool = false;
    /// It changes things outside the office: it writes a folder that the caller names, or starts or stops agents'
    /// programs.
    const ACTS_OUTSIDE: bool = false;
    /// The fields of its input that touch more than the office's records, and those of the command line alone. A test
    /// fails for a field that sounds or is typed as if it did, and is not listed.
    const TOUCHES: &'static [(&'static str, Touch)] = &[];
    type Answer: Serialize + JsonSchema;

    /// Call it through [`Desk::call`], which prepares the office for it.
    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Self::Answer>>;
}

/// What a field of an input touches beyond the office's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Nothing, whatever its name says.
    Nothing,
    /// Files of the caller's worktree, through [`Caller::files`](crate::Caller::files).
    ReadsWorktree,
    /// Files anywhere.
    ReadsFiles,
    WritesFiles,
    /// It holds a command, or makes one run that no person has trusted.
    RunsCommand,
    /// It lets something pass that is otherwise refused.
    LiftsCheck,
    /// It does what only a person may do.
    SpeaksAsPerson,
    /// How the command line calls the verb, for example that it waits.
    CommandLine,
}

impl Touch {
    /// Whether JSON may set the field, and so a model. No field of another kind is in a schema.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Nothing | Self::ReadsWorktree)
    }
}

/// What a verb may do to the office. What it does elsewhere is in [`Verb::RUNS_COMMANDS`] and [`Verb::ACTS_OUTSIDE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It reads. Due items are settled first, if possible.
    Reads,
    /// It writes. This machine's `poste.toml` is brought into force first.
    Writes,
    /// It changes what the office depends on: its clock, its `poste.toml`, trust. Nothing is prepared first, because
    /// that may be what is broken.
    Administers,
}

/// A verb in the registry.
#[derive(Clone, Copy)]
pub struct Spec {
    pub name: &'static str,
    pub access: Access,
    /// It runs commands, as [`Verb::RUNS_COMMANDS`] says.
    pub runs_commands: bool,
    /// It acts outside the office, as [`Verb::ACTS_OUTSIDE`] says.
    pub acts_outside: bool,
    /// What the fields of its input touch, as [`Verb::TOUCHES`] says.
    pub touches: &'static [(&'static str, Touch)],
    /// The JSON Schema of its input: a field with a default may be left out.
    pub input: fn() -> Schema,
    /// The JSON Schema of its answer: a field that is always there is required, also when it may be null.
    pub answer: fn() -> Schema,
    /// Runs it with an input as JSON.
    pub call: fn(&mut Desk<'_>, Value) -> Result<Answered<Value>>,
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spec").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Spec {
    pub const fn of<V: Verb>() -> Self {
        Self {
            name: V::NAME,
            access: V::ACCESS,
            runs_commands: V::RUNS_COMMANDS,
            acts_outside: V::ACTS_OUTSIDE,
            touches: V::TOUCHES,
            input: input_schema::<V>,
            answer: verb_answer_schema::<V>,
            call: call_json::<V>,
        }
    }

    /// Whether its input has a field of this name, perhaps only at the command line.
    pub fn has_field(&self, field: &str) -> bool {
        self.touch_of(field).is_some() || has_property(&(self.input)(), field)
    }

    /// What a field touches, if it is declared to touch anything.
    pub fn touch_of(&self, field: &str) -> Option<Touch> {
        self.touches.iter().find(|(name, _)| *name == field).map(|(_, touch)| *touch)
    }
}

fn has_property(schema: &Schema, name: &str) -> bool {
    schema.get("properties").and_then(Value::as_object).is_some_and(|properties| properties.contains_key(name))
}

fn input_schema<V: Verb>() -> Schema {
    titled(V::NAME, bare_input_schema::<V>())
}

fn bare_input_schema<I: JsonSchema>() -> Schema {
    schemars::schema_for!(I)
}

fn verb_answer_schema<V: Verb>() -> Schema {
    titled(V::NAME, answer_schema::<V::Answer>())
}

/// Every input type is called `Input`, so the schema is titled with the verb's name.
fn titled(name: &str, mut schema: Schema) -> Schema {
    schema.insert("title".to_owned(), name.into());
    schema
}

/// The schema of an answer as JSON.
pub fn answer_schema<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

fn call_json<V: Verb>(desk: &mut Desk<'_>, input: Value) -> Result<Answered<Value>> {
    let input: V = serde_json::from_value(input).map_err(|error| Error::usage(error.to_string()))?;
    let answered = desk.call(input)?;
    let value = serde_json::to_value(&answered.answer).map_err(|error| Error::internal(error.to_string()))?;
    Ok(answered.map(|_| value))
}

/// Every verb, by name. A verb is one file and one line here; a test finds verbs without a command.
pub static VERBS: &[Spec] = &[
    Spec::of::<crate::ack::Input>(),
    Spec::of::<crate::adopt::Input>(),
    Spec::of::<crate::agents::Input>(),
    Spec::of::<crate::agree::Input>(),
    Spec::of::<crate::agreement::Input>(),
    Spec::of::<crate::approval::Input>(),
    Spec::of::<crate::approvals::Input>(),
    Spec::of::<crate::approve::Input>(),
    Spec::of::<crate::archive::Input>(),
    Spec::of::<crate::ask::Input>(),
    Spec::of::<crate::broadcast::Input>(),
    Spec::of::<crate::claim::Input>(),
    Spec::of::<crate::clock::accept::Input>(),
    Spec::of::<crate::config::set::Input>(),
    Spec::of::<crate::config::show::Input>(),
    Spec::of::<crate::context::append::Input>(),
    Spec::of::<crate::context::create::Input>(),
    Spec::of::<crate::context::diff::Input>(),
    Spec::of::<crate::context::history::Input>(),
    Spec::of::<crate::context::list::Input>(),
    Spec::of::<crate::context::lock::Input>(),
    Spec::of::<crate::context::mirror::Input>(),
    Spec::of::<crate::context::replace::Input>(),
    Spec::of::<crate::context::set::Input>(),
    Spec::of::<crate::context::show::Input>(),
    Spec::of::<crate::context::since::Input>(),
    Spec::of::<crate::context::unlock::Input>(),
    Spec::of::<crate::dead::drop::Input>(),
    Spec::of::<crate::dead::list::Input>(),
    Spec::of::<crate::deny::Input>(),
    Spec::of::<crate::done::Input>(),
    Spec::of::<crate::extend::Input>(),
    Spec::of::<crate::reservation::extend::Input>(),
    Spec::of::<crate::fail::Input>(),
    Spec::of::<crate::forward::Input>(),
    Spec::of::<crate::reservation::check::Input>(),
    Spec::of::<crate::handoff::accept::Input>(),
    Spec::of::<crate::handoff::create::Input>(),
    Spec::of::<crate::handoff::export::Input>(),
    Spec::of::<crate::handoff::list::Input>(),
    Spec::of::<crate::handoff::reject::Input>(),
    Spec::of::<crate::handoff::show::Input>(),
    Spec::of::<crate::handoff::withdraw::Input>(),
    Spec::of::<crate::inbox::Input>(),
    Spec::of::<crate::ingest::Input>(),
    Spec::of::<crate::log::diff_digest::Input>(),
    Spec::of::<crate::log::replay::Input>(),
    Spec::of::<crate::log::replay_inbox::Input>(),
    Spec::of::<crate::log::replay_message::Input>(),
    Spec::of::<crate::log::show::Input>(),
    Spec::of::<crate::log::verify::Input>(),
    Spec::of::<crate::log::why::Input>(),
    Spec::of::<crate::log::why_id::Input>(),
    Spec::of::<crate::log::why_reservation::Input>(),
    Spec::of::<crate::overdue::Input>(),
    Spec::of::<crate::publish::Input>(),
    Spec::of::<crate::read::Input>(),
    Spec::of::<crate::redact::Input>(),
    Spec::of::<crate::register::Input>(),
    Spec::of::<crate::release::Input>(),
    Spec::of::<crate::reservation::release::Input>(),
    Spec::of::<crate::reply::Input>(),
    Spec::of::<crate::report::agent::Input>(),
    Spec::of::<crate::report::blocker::Input>(),
    Spec::of::<crate::report::broadcast::Input>(),
    Spec::of::<crate::report::conversation::Input>(),
    Spec::of::<crate::report::day::Input>(),
    Spec::of::<crate::reservation::list::Input>(),
    Spec::of::<crate::reservation::reserve::Input>(),
    Spec::of::<crate::retire::Input>(),
    Spec::of::<crate::retry::Input>(),
    Spec::of::<crate::search::Input>(),
    Spec::of::<crate::send::Input>(),
    Spec::of::<crate::batch::Input>(),
    Spec::of::<crate::session::close::Input>(),
    Spec::of::<crate::session::list::Input>(),
    Spec::of::<crate::session::note::Input>(),
    Spec::of::<crate::session::show::Input>(),
    Spec::of::<crate::session::start::Input>(),
    Spec::of::<crate::snapshot::Input>(),
    Spec::of::<crate::stats::Input>(),
    Spec::of::<crate::status::Input>(),
    Spec::of::<crate::subscribe::Input>(),
    Spec::of::<crate::tail::Input>(),
    Spec::of::<crate::thread::Input>(),
    Spec::of::<crate::thread::close::Input>(),
    Spec::of::<crate::threads::Input>(),
    Spec::of::<crate::topics::Input>(),
    Spec::of::<crate::track::Input>(),
    Spec::of::<crate::trust::Input>(),
    Spec::of::<crate::types::Input>(),
    Spec::of::<crate::unsubscribe::Input>(),
    Spec::of::<crate::verify::Input>(),
    Spec::of::<crate::wait::Input>(),
    Spec::of::<crate::wait::replies::Input>(),
    Spec::of::<crate::watch::dead::Input>(),
    Spec::of::<crate::watch::drop::Input>(),
    Spec::of::<crate::watch::list::Input>(),
    Spec::of::<crate::watch::status::Input>(),
    Spec::of::<crate::whoami::Input>(),
    Spec::of::<crate::workflow::advance::Input>(),
    Spec::of::<crate::workflow::approve::Input>(),
    Spec::of::<crate::workflow::cancel::Input>(),
    Spec::of::<crate::workflow::graph::Input>(),
    Spec::of::<crate::workflow::lint::Input>(),
    Spec::of::<crate::workflow::list::Input>(),
    Spec::of::<crate::workflow::definitions::Input>(),
    Spec::of::<crate::workflow::retry::Input>(),
    Spec::of::<crate::workflow::run::Input>(),
    Spec::of::<crate::workflow::show::Input>(),
];

/// Work without an open office: there is none yet, or it may be broken. Called with the office's place.
#[derive(Clone, Copy)]
pub struct Outside {
    pub name: &'static str,
    pub input: fn() -> Schema,
    pub answer: fn() -> Schema,
}

impl std::fmt::Debug for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Outside {
    const fn of<I: DeserializeOwned + JsonSchema, A: Serialize + JsonSchema>(name: &'static str) -> Self {
        Self { name, input: bare_input_schema::<I>, answer: answer_schema::<A> }
    }

    pub fn has_field(&self, field: &str) -> bool {
        has_property(&(self.input)(), field)
    }
}

pub const OUTSIDE: &[Outside] = &[
    Outside::of::<crate::config::check::Input, crate::config::check::Answer>("config check"),
    Outside::of::<crate::doctor::Input, crate::doctor::Answer>("doctor"),
    Outside::of::<crate::init::Input, crate::init::Answer>("init"),
    Outside::of::<crate::restore::Input, crate::restore::Answer>("restore"),
];

/// Whether the verb exists and its input has a field of this name, perhaps only at the command line.
pub fn has_field(verb: &str, field: &str) -> bool {
    match find(verb) {
        Some(spec) => spec.has_field(field),
        None => OUTSIDE.iter().any(|outside| outside.name == verb && outside.has_field(field)),
    }
}

/// Whether a verb, or work outside an office, has this name.
pub fn exists(name: &str) -> bool {
    find(name).is_some() || OUTSIDE.iter().any(|outside| outside.name == name)
}

/// The verb with this name.
pub fn find(name: &str) -> Option<&'static Spec> {
    VERBS.iter().find(|spec| spec.name == name)
}
