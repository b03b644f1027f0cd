//! Reads times, durations and recipients of inputs from JSON.

use std::collections::BTreeMap;

use poste_core::text::InvalidText;
use poste_core::time::{When, parse_duration_ms, parse_past, parse_when};
use poste_core::{Address, Timestamp};
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Reads `30m`, `2h`, or a timestamp.
pub(crate) fn when<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<When>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse_when(&text).map_err(D::Error::custom)).transpose()
}

/// Parses a time in the past. A duration means how long ago.
pub fn past_moment(text: &str) -> Result<When, String> {
    parse_past(text).map_err(|_| {
        let text = poste_core::text::quoted(text);
        format!(
            "{text} is not a time; write how long ago (30m, 2h, 1d), a day (2026-01-31) or a timestamp (2026-01-31T12:00:00Z)"
        )
    })
}

pub(crate) fn past<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<When>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| past_moment(&text).map_err(D::Error::custom)).transpose()
}

pub(crate) fn a_day() -> String {
    "24h".to_owned()
}

/// Parses `since`: a timestamp in the past, or how long ago.
pub(crate) fn since(text: &str, now: Timestamp) -> crate::Result<Timestamp> {
    let worded = |wording| crate::Error::worded(crate::Kind::Usage, wording);
    let since = match parse_when(text).map_err(|why| worded(note!({since} ": {why}")))? {
        When::InMs(ms) => now.plus_ms(-ms),
        When::At(at) => at,
    };
    if since >= now {
        return Err(worded(note!({since} " is not in the past")).hint(note!("for example " {since = "7d"})));
    }
    Ok(since)
}

/// Reads a duration such as `30m`, as milliseconds.
pub(crate) fn length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse_duration_ms(&text).map_err(D::Error::custom)).transpose()
}

/// Reads text as bytes. Surfaces other than JSON may pass any bytes.
pub(crate) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    String::deserialize(deserializer).map(String::into_bytes)
}

/// Checks the limit of a page.
pub(crate) fn check_limit(limit: u16, max: u16) -> crate::Result {
    match (1..=max).contains(&limit) {
        true => Ok(()),
        false => Err(crate::Error::usage(format!("limit must be 1 to {max}, not {limit}"))),
    }
}

/// One address, several separated by commas, or a list
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "the variants define the schema; only the second is constructed")]
pub enum Recipients {
    One(Address),
    Many(Vec<Address>),
}

impl Recipients {
    pub fn parse(text: &str) -> Result<Vec<Address>, InvalidText> {
        text.split(',').map(|part| part.trim().parse()).collect()
    }

    pub fn into_addresses(self) -> Vec<Address> {
        match self {
            Self::One(_) => Vec::new(),
            Self::Many(addresses) => addresses,
        }
    }
}

pub(crate) fn recipients<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Address>, D::Error> {
    Recipients::deserialize(deserializer).map(Recipients::into_addresses)
}

impl<'de> Deserialize<'de> for Recipients {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => Self::parse(&text).map(Self::Many).map_err(D::Error::custom),
            many @ serde_json::Value::Array(_) => {
                serde_json::from_value(many).map(Self::Many).map_err(D::Error::custom)
            }
            _ => Err(D::Error::custom("to must be an address or a list of addresses")),
        }
    }
}

/// The fields of an input that carries a message: the verb takes its own fields, the rest is the message.
///
/// Each field keeps its original JSON, because a payload is stored as it was given. Serde's flatten would parse numbers
/// first.
pub(crate) struct Fields(BTreeMap<String, Box<RawValue>>);

impl Fields {
    pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Once;
        impl<'de> serde::de::Visitor<'de> for Once {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if fields.contains_key(&name) {
                        return Err(A::Error::custom(format!("duplicate field `{name}`")));
                    }
                    fields.insert(name, value);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Once)
    }

    pub(crate) fn take<T: DeserializeOwned, E: serde::de::Error>(&mut self, name: &'static str) -> Result<T, E> {
        self.take_option(name)?.ok_or_else(|| E::missing_field(name))
    }

    pub(crate) fn take_option<T: DeserializeOwned, E: serde::de::Error>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, E> {
        let Some(value) = self.0.remove(name) else { return Ok(None) };
        serde_json::from_str(value.get()).map_err(|error| E::custom(unplaced(&error)))
    }

    /// The remaining fields.
    pub(crate) fn rest<T: DeserializeOwned, E: serde::de::Error>(self) -> Result<T, E> {
        let json = serde_json::to_string(&self.0).map_err(E::custom)?;
        serde_json::from_str(&json).map_err(|error| E::custom(unplaced(&error)))
    }
}

/// The error without its line and column, which count from the start of one field.
fn unplaced(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
