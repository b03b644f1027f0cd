//! Addresses of messages: one grammar for every surface and for the log.

use std::fmt;
use std::str::FromStr;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::{EVERYONE, InvalidText, Name, Topic, Word};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// `coder`: one agent.
    Agent(Name),
    /// `role:reviewer`: one delivery, taken by the member that claims it.
    Role(Word),
    /// `can:typescript`: one delivery, taken by the capable agent that claims it.
    Can(Word),
    /// `every:role:reviewer`: one delivery per member.
    EveryRole(Word),
    /// `every:can:typescript`: one delivery per capable agent.
    EveryCan(Word),
    /// `everyone`: each active agent but the sender.
    Everyone,
    /// `topic:TaskCompleted`: each subscriber.
    Topic(Topic),
}

impl Address {
    /// Whether the address makes one delivery that any member may claim.
    pub fn is_group(&self) -> bool {
        matches!(self, Self::Role(_) | Self::Can(_))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(name) => write!(f, "{name}"),
            Self::Role(word) => write!(f, "role:{word}"),
            Self::Can(word) => write!(f, "can:{word}"),
            Self::EveryRole(word) => write!(f, "every:role:{word}"),
            Self::EveryCan(word) => write!(f, "every:can:{word}"),
            Self::Everyone => f.write_str(EVERYONE),
            Self::Topic(topic) => write!(f, "topic:{topic}"),
        }
    }
}

impl FromStr for Address {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        if text == EVERYONE {
            return Ok(Self::Everyone);
        }
        if text == "all" {
            let why = format!("the word is reserved; to address all agents, write {EVERYONE}");
            return Err(InvalidText { what: "the address", shown: crate::text::quoted(text), why });
        }
        match text.split_once(':') {
            None => text.parse().map(Self::Agent),
            Some(("role", word)) => word.parse().map(Self::Role),
            Some(("can", word)) => word.parse().map(Self::Can),
            Some(("topic", topic)) => topic.parse().map(Self::Topic),
            Some(("every", rest)) => match rest.split_once(':') {
                Some(("role", word)) => word.parse().map(Self::EveryRole),
                Some(("can", word)) => word.parse().map(Self::EveryCan),
                _ => Err(unknown_form(text)),
            },
            Some(_) => Err(unknown_form(text)),
        }
    }
}

fn unknown_form(text: &str) -> InvalidText {
    InvalidText {
        what: "the address",
        shown: crate::text::quoted(text),
        why: "write NAME, role:R, can:C, every:role:R, every:can:C, topic:T or everyone".to_owned(),
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl ToSql for Address {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.to_string()))
    }
}

impl FromSql for Address {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_str()?.parse().map_err(FromSqlError::other)
    }
}

impl JsonSchema for Address {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Address".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "NAME, role:R, can:C, every:role:R, every:can:C, topic:T or everyone"
        })
    }
}
