//! What a tool takes, as its schema says it, and what does not fit it.

use poste_connect::mcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Result;
use crate::error::CommandError;

/// The schema of a type, without what clients warn of and what a model does not need.
pub(super) fn schema<T: JsonSchema>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    slim(&mut schema);
    match schema {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

fn slim(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for word in ["$schema", "title", "format", "default", "minimum"] {
                // A property may be called so; a keyword is no object.
                if object.get(word).is_some_and(|value| !value.is_object()) {
                    object.remove(word);
                }
            }
            // What may be left out need not be null as well.
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
                object.extend(only);
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

/// Models write "12" for 12 and a list of one for one. What can only be meant in one way is taken so.
fn meant(property: Option<&Value>, value: &mut Value) {
    let wanted = property.and_then(|property| property.get("type")).and_then(Value::as_str);
    let taken = match (wanted, &*value) {
        (Some("integer"), Value::String(text)) => text.trim_start_matches('#').parse::<i64>().ok().map(Value::from),
        (Some("boolean"), Value::String(text)) => text.parse::<bool>().ok().map(Value::from),
        (Some("string"), Value::Number(number)) => Some(Value::from(number.to_string())),
        (Some("string"), Value::Array(words)) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            words.map(|words| Value::from(words.join(",")))
        }
        _ => None,
    };
    if let Some(taken) = taken {
        *value = taken;
    }
}

/// What was filled in; what does not fit is explained with what the tool takes.
pub(super) fn filled<T: DeserializeOwned + JsonSchema>(tool: &str, mut arguments: JsonObject) -> Result<T> {
    let known = schema::<T>();
    arguments.iter_mut().for_each(|(name, value)| meant(known.get("properties").and_then(|all| all.get(name)), value));
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        let names = |value: Option<&Value>| match value {
            Some(Value::Object(fields)) => fields.keys().cloned().collect::<Vec<_>>().join(", "),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
            _ => "nothing".to_owned(),
        };
        let hint =
            format!("{tool} takes {}; it needs {}", names(known.get("properties")), names(known.get("required")));
        CommandError::usage(format!("the arguments of {tool}: {error}")).hint(hint)
    })
}
