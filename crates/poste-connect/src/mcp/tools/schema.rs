//! The schema of a tool's arguments, and the check of arguments against it.

use poste_verbs::{Error, Result};
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// The schema of a type, without what clients warn about and what a model does not need.
pub(super) fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    slim(&mut schema);
    schema
}

pub(super) fn object<T: JsonSchema>() -> JsonObject {
    match of::<T>() {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

fn slim(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for word in ["$schema", "title", "format", "default", "minimum", "pattern"] {
                // A property may have this name, but its value is an object, and a keyword's is not.
                if object.get(word).is_some_and(|value| !value.is_object()) {
                    object.remove(word);
                }
            }
            // An optional field need not be nullable as well.
            if let Some(Value::Array(types)) = object.get("type")
                && let Some(only) = types.iter().find(|kind| *kind != "null").filter(|_| types.len() == 2).cloned()
            {
                object.insert("type".to_owned(), only);
            }
            if let Some(Value::Array(any)) = object.get("anyOf")
                && let Some(Value::Object(only)) =
                    any.iter().find(|one| one.get("type") != Some(&json!("null"))).cloned()
            {
                object.remove("anyOf");
                // The field's own keywords take precedence over those of its type.
                for (word, value) in only {
                    object.entry(word).or_insert(value);
                }
            }
            if let Some(Value::Array(values)) = object.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            object.values_mut().for_each(slim);
        }
        Value::Array(values) => values.iter_mut().for_each(slim),
        _ => {}
    }
}

pub(super) fn property(schema: &Value, field: &str) -> Value {
    let property = schema.get("properties").and_then(|properties| properties.get(field)).cloned();
    debug_assert!(property.is_some(), "no verb takes {field}");
    property.unwrap_or_else(|| json!({}))
}

pub(super) fn has_property(schema: &Value, field: &str) -> bool {
    schema.get("properties").is_some_and(|properties| properties.get(field).is_some())
}

pub(super) fn is_required(schema: &Value, field: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|required| required.iter().any(|name| name == field))
}

/// Collects the fields of a tool for its schema.
#[derive(Debug, Default)]
pub(super) struct Properties {
    all: JsonObject,
    required: Vec<&'static str>,
}

impl Properties {
    pub(super) fn require(&mut self, name: &'static str, property: Value) {
        self.add(name, property, true);
    }

    /// A field that several verbs have is described once, as the first one has it.
    pub(super) fn add(&mut self, name: &'static str, property: Value, is_required: bool) {
        if is_required && !self.required.contains(&name) {
            self.required.push(name);
        }
        self.all.entry(name).or_insert(property);
    }

    pub(super) fn into_schema(self) -> JsonObject {
        let mut schema = JsonObject::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), Value::Object(self.all));
        schema.insert("additionalProperties".to_owned(), json!(false));
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), json!(self.required));
        }
        schema
    }
}

/// Converts a value that can only be meant in one way: models write "12" for 12, or one value for a list of one.
pub(super) fn take_as_meant(property: &Value, value: &mut Value) {
    let wanted = property.get("type").and_then(Value::as_str);
    let taken = match (wanted, &*value) {
        (Some("integer"), Value::String(text)) => text.trim_start_matches('#').parse::<i64>().ok().map(Value::from),
        (Some("boolean"), Value::String(text)) => text.parse::<bool>().ok().map(Value::from),
        (Some("string"), Value::Number(number)) => Some(Value::from(number.to_string())),
        (Some("string"), Value::Array(words)) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            words.map(|words| Value::from(words.join(",")))
        }
        (Some("array"), Value::String(_)) => Some(Value::Array(vec![value.clone()])),
        _ => None,
    };
    if let Some(taken) = taken {
        *value = taken;
    }
}

/// Converts the arguments as they were meant, and checks them. An error lists what the tool takes.
pub(super) fn check(tool: &str, known: &JsonObject, arguments: &mut JsonObject) -> Result {
    let property = |name: &str| known.get("properties").and_then(|all| all.get(name));
    for (name, value) in arguments.iter_mut() {
        if let Some(property) = property(name) {
            take_as_meant(property, value);
        }
    }
    let stray = arguments.keys().find(|name| property(name).is_none());
    let required = known.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let missing = required.clone().find(|name| arguments.get(*name).is_none_or(Value::is_null));
    let wrong = arguments.iter().find(|(name, value)| !fits(property(name), value));
    let message = match (stray, missing, wrong) {
        (Some(stray), ..) => format!("there is no argument {}", crate::mcp::poste::short(stray)),
        (_, Some(missing), _) => format!("{missing} is missing"),
        (_, _, Some((name, _))) => {
            let kind = property(name).and_then(|property| property.get("type")).and_then(Value::as_str);
            format!("{name} must be of type {}", kind.unwrap_or_default())
        }
        _ => return Ok(()),
    };
    let names: Vec<&str> = known
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    let needed: Vec<&str> = required.collect();
    let needed = if needed.is_empty() { "nothing".to_owned() } else { needed.join(", ") };
    let hint = format!("{tool} takes {}; it needs {needed}", names.join(", "));
    Err(Error::usage(format!("the arguments of {tool}: {message}")).hint(hint))
}

/// Whether a value has the wanted type. The verb itself checks everything else.
fn fits(property: Option<&Value>, value: &Value) -> bool {
    match property.and_then(|property| property.get("type")).and_then(Value::as_str) {
        Some("integer") => value.is_i64() || value.is_u64() || value.is_null(),
        Some("boolean") => value.is_boolean() || value.is_null(),
        Some("string") => value.is_string() || value.is_null(),
        Some("array") => value.is_array() || value.is_null(),
        Some("object") => value.is_object() || value.is_null(),
        _ => true,
    }
}
