use poste_core::payload::PayloadSchemas;
use poste_core::text::{TypeName, nearest};
use poste_core::views::{self, MessageView, TimelineLine, TypeView};
use poste_verbs::Spec;
use poste_verbs::verb::{self, OUTSIDE, VERBS};
use schemars::{JsonSchema, Schema, schema_for};
use serde_json::{Value, json};

use crate::Result;
use crate::batch::BatchAnswer;
use crate::cli::FORMS;
use crate::context::Cx;
use crate::error::{CommandError, Kind};

/// Print the JSON Schema of an answer, a batch line or a type
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste schema inbox        what `poste inbox --json` prints\n  \
                        poste schema batch        a line of `poste send --batch`\n  poste schema question     a line of a batch with that type\n  \
                        poste schema deploy --payload     the schema of that type's payload")]
pub(crate) struct Args {
    /// A command, `batch`, or a message type
    name: String,
    /// For a type: print only the schema of its payload, from poste.toml
    #[arg(long)]
    payload: bool,
}

fn of<T: JsonSchema>() -> Schema {
    verb::answer_schema::<T>()
}

/// The schema of input: a field with a default may be left out.
fn of_line() -> Schema {
    schema_for!(poste_verbs::send::Input)
}

/// A command and the schema of its answer.
type AnswerSchema = (&'static str, fn() -> Schema);

/// Answers of commands that are not verbs. A test checks that none is missing.
const ANSWERS: &[AnswerSchema] = &[
    ("send --batch", of::<BatchAnswer>),
    // These print answers of their verb line by line while they run.
    ("tail", of::<TimelineLine>),
    ("log follow", of::<TimelineLine>),
    ("context edit", of::<poste_verbs::context::EditAnswer>),
    ("guard install", of::<poste_connect::guard::Standing>),
    ("guard uninstall", of::<poste_connect::guard::Standing>),
    ("guard status", of::<poste_connect::guard::Standing>),
    ("watch", of::<poste_dispatch::notify::Line>),
    ("watch retry", of::<super::watch::RetryAnswer>),
    ("watch test", of::<poste_verbs::watch::drop::Answer>),
    ("dispatch", of::<poste_dispatch::engine::Event>),
    ("dispatch send", of::<poste_verbs::send::Answer>),
    ("dispatch send --wait", of::<MessageView>),
    ("dispatch poll", of::<poste_dispatch::engine::Event>),
    ("hook", of::<super::hook::HookAnswer>),
    ("setup", of::<poste_connect::setup::work::SetupAnswer>),
    ("token person", of::<super::token::Made>),
    ("token list", of::<super::token::Tokens>),
    ("token revoke", of::<super::token::Revoked>),
    ("completions", of::<super::completions::CompletionsAnswer>),
    ("man", of::<super::man::ManAnswer>),
    ("demo", of::<super::demo::DemoAnswer>),
];

/// Every verb that a command can call.
fn verbs() -> impl Iterator<Item = &'static Spec> {
    VERBS.iter().chain(poste_dispatch::VERBS)
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    // Serialized in each arm, so that the keys keep the order of that type.
    let text = match find(&args.name) {
        _ if args.payload => serde_json::to_string_pretty(&of_payload(cx, &args.name)?),
        Some(schema) => serde_json::to_string_pretty(&schema),
        None => serde_json::to_string_pretty(&of_type(cx, &args.name)?),
    };
    let text = text.map_err(|error| CommandError::new(Kind::Internal, error.to_string()))?;
    cx.ui.text(&format!("{text}\n"))
}

fn find(name: &str) -> Option<Schema> {
    if name == "batch" {
        return Some(of_line());
    }
    // Answers of commands come first: that of `send --batch` differs from that of its verb.
    if let Some((_, schema)) = ANSWERS.iter().find(|(command, _)| *command == name) {
        return Some(schema());
    }
    let verb = FORMS.iter().find(|(command, _)| *command == name).map_or(name, |(_, verb)| *verb);
    let outside = OUTSIDE.iter().find(|outside| outside.name == verb).map(|outside| outside.answer);
    let found = verbs().find(|spec| spec.name == verb).map(|spec| spec.answer).or(outside);
    found.map(|schema| schema())
}

/// The vocabulary of the office, if there is one, and its payload schemas.
fn vocabulary(cx: &mut Cx) -> Result<(Vec<TypeView>, PayloadSchemas)> {
    match cx.open() {
        Ok(office) => Ok((views::types(office.store())?, poste_config::payload_schemas(&office)?)),
        Err(error) if error.kind == Kind::NotFound => {
            Ok((views::types(&poste_core::store::Store::in_memory()?)?, PayloadSchemas::default()))
        }
        Err(error) => Err(error),
    }
}

fn of_payload(cx: &mut Cx, name: &str) -> Result<Value> {
    let (known, schemas) = vocabulary(cx)?;
    let kind: TypeName = name.parse()?;
    if let Some(schema) = schemas.schema(&kind)? {
        return Ok(schema);
    }
    if known.iter().all(|known| known.name != kind) {
        return Err(no_such_name(name, &known));
    }
    let error = CommandError::not_found(format!("{kind} has no payload schema: its payload can be any JSON, or none"));
    Err(error.hint(format!("set one: poste config set types.{kind}.schema PATH")))
}

fn no_such_name(name: &str, known: &[TypeView]) -> CommandError {
    let names = known
        .iter()
        .map(|kind| kind.name.as_str())
        .chain(verbs().map(|verb| verb.name))
        .chain(OUTSIDE.iter().map(|outside| outside.name))
        .chain(ANSWERS.iter().map(|(name, _)| *name));
    let error = CommandError::not_found(format!("{} is neither a command nor a type", poste_core::text::quoted(name)));
    match nearest(name, names).first() {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint("see the types: poste types"),
    }
}

/// A message of a type, as a line of a batch.
fn of_type(cx: &mut Cx, name: &str) -> Result<Schema> {
    let (known, schemas) = vocabulary(cx)?;
    let Some(kind) = name.parse::<TypeName>().ok().and_then(|name| known.iter().find(|kind| kind.name == name)) else {
        return Err(no_such_name(name, &known));
    };
    let payload = schemas.schema(&kind.name)?.map(|schema| embedded(&kind.name, schema));
    let mut schema = of_line();
    schema.insert("title".to_owned(), json!(kind.name.as_str()));
    schema.insert("description".to_owned(), json!(kind.meaning));
    if let Some(properties) = schema.get_mut("properties").and_then(|value| value.as_object_mut()) {
        properties.insert("type".to_owned(), json!({ "const": kind.name.as_str() }));
        if let Some(priority) = properties.get_mut("priority").and_then(|value| value.as_object_mut()) {
            priority.insert("default".to_owned(), json!(kind.priority.word()));
        }
        if let Some(response) = properties.get_mut("wants_response").and_then(|value| value.as_object_mut()) {
            response.insert("default".to_owned(), json!(kind.wants_response));
        }
    }
    if let Some(required) = schema.get_mut("required").and_then(|value| value.as_array_mut()) {
        required.push(json!("type"));
        required.extend(payload.is_some().then(|| json!("payload")));
    }
    if let (Some(payload), Some(properties)) =
        (payload, schema.get_mut("properties").and_then(|value| value.as_object_mut()))
    {
        properties.insert("payload".to_owned(), payload);
    }
    Ok(schema)
}

/// An embedded schema needs its own id, or its `#/…` references would resolve in the outer one.
fn embedded(kind: &TypeName, mut schema: Value) -> Value {
    if let Some(object) = schema.as_object_mut()
        && !object.contains_key("$id")
    {
        object.insert("$id".to_owned(), json!(format!("urn:poste:type:{kind}")));
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_has_a_schema() {
        let command = crate::cli::Cli::command();
        for sub in command.get_subcommands() {
            let leaves: Vec<String> = match sub.get_subcommands().next() {
                None => vec![sub.get_name().to_owned()],
                Some(_) => {
                    sub.get_subcommands().map(|leaf| format!("{} {}", sub.get_name(), leaf.get_name())).collect()
                }
            };
            // `schema` prints schemas itself; `mcp` speaks a protocol that has its own.
            for leaf in leaves.iter().filter(|leaf| *leaf != "schema" && *leaf != "mcp") {
                assert!(find(leaf).is_some(), "{leaf} has no schema");
            }
        }
    }
}
