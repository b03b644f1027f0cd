//! How inputs write times and lengths of time as JSON.

use std::collections::BTreeMap;

use poste_core::text::InvalidText;
use poste_core::time::{When, parse_duration_ms, parse_past, parse_when};
use poste_core::{Address, Timestamp};
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// `30m`, `2h`, or a moment.
pub(crate) fn when<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<When>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse_when(&text).map_err(D::Error::custom)).transpose()
}

/// A moment that is over. A length of time is how long ago.
pub fn past_moment(text: &str) -> Result<When, String> {
    parse_past(text).map_err(|_| {
        let text = poste_core::text::quoted(text);
        format!(
            "{text} is no time; write how long ago (30m, 2h, 1d), a day (2026-01-31) or a moment (2026-01-31T12:00:00Z)"
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

/// What `since` says: a moment in the past, or so long before now.
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

/// `30m`, as milliseconds.
pub(crate) fn length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse_duration_ms(&text).map_err(D::Error::custom)).transpose()
}

/// A text that may be any bytes where it does not come as JSON.
pub(crate) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    String::deserialize(deserializer).map(String::into_bytes)
}

/// How many items a page may have.
pub(crate) fn check_limit(limit: u16, max: u16) -> crate::Result {
    match (1..=max).contains(&limit) {
        true => Ok(()),
        false => Err(crate::Error::usage(format!("limit is 1 to {max}, not {limit}"))),
    }
}

/// One address or several: as people type them, with commas between, or a list.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "the shapes stand for the schema; reading makes the second")]
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
            _ => Err(D::Error::custom("to is an address or a list of addresses")),
        }
    }
}

/// The fields of an input that carries a message: its own ones are taken out, the rest is the message.
///
/// Each field stays the JSON it came as. Flattening with serde would not: it reads numbers before anybody asked for them,
/// and a payload is kept as it was given.
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

    /// What is left.
    pub(crate) fn rest<T: DeserializeOwned, E: serde::de::Error>(self) -> Result<T, E> {
        let json = serde_json::to_string(&self.0).map_err(E::custom)?;
        serde_json::from_str(&json).map_err(|error| E::custom(unplaced(&error)))
    }
}

/// Without the place, which is one in a part of the input.
fn unplaced(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
