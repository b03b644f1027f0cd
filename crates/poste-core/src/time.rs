//! The log's time: milliseconds since 1970 in UTC, and times relative to it.

use std::fmt;

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::limits::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS};

/// A moment of the log: a number in records, RFC 3339 for people and JSON readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const ZERO: Self = Self(0);
    /// The end of the year 9999: later than any time a record may name, and early enough never to overflow.
    pub const MAX: Self = Self(253_402_207_200_000);

    /// Clamped to years 1970–9999, so that no arithmetic on a hostile number can overflow or fail to print.
    pub fn from_ms(ms: i64) -> Self {
        Self(ms.clamp(0, Self::MAX.0))
    }

    pub fn ms(self) -> i64 {
        self.0
    }

    pub fn plus_ms(self, ms: i64) -> Self {
        Self::from_ms(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this moment; negative when this one is earlier.
    pub fn since_ms(self, earlier: Self) -> i64 {
        self.0 - earlier.0
    }

    pub fn to_jiff(self) -> jiff::Timestamp {
        jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.to_jiff())
    }
}

impl ToSql for Timestamp {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

impl FromSql for Timestamp {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(Self::from_ms)
    }
}

/// For views: a moment as RFC 3339 text.
pub fn rfc3339<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

/// Reads what [`rfc3339`] wrote.
pub fn from_rfc3339<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    let at: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
    Ok(Timestamp::from_ms(at.as_millisecond()))
}

/// For views: a moment as RFC 3339 text, or null.
pub fn rfc3339_option<S: serde::Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.collect_str(at),
        None => serializer.serialize_none(),
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "RFC 3339, UTC, milliseconds" })
    }
}

/// A time in a header: fixed, or relative to the record's own time.
///
/// "In 30 minutes" is stored as a duration, so that repeating a command under the same id is a repeat and not a
/// conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    At(Timestamp),
    InMs(i64),
}

impl When {
    pub fn resolve(self, record_at: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::InMs(ms) => record_at.plus_ms(ms),
        }
    }
}

/// A duration in its largest non-zero unit.
pub fn length(ms: i64) -> String {
    match ms {
        ..SECOND_MS => format!("{ms}ms"),
        SECOND_MS..MINUTE_MS => format!("{}s", ms / SECOND_MS),
        MINUTE_MS..HOUR_MS => format!("{}m", ms / MINUTE_MS),
        HOUR_MS..DAY_MS => match (ms % HOUR_MS) / MINUTE_MS {
            0 => format!("{}h", ms / HOUR_MS),
            minutes => format!("{}h {minutes}m", ms / HOUR_MS),
        },
        _ => format!("{}d", ms / DAY_MS),
    }
}

/// Parses a duration as people write it: `10m`, `1h 30m`, `2 days`.
pub fn parse_duration_ms(text: &str) -> Result<i64, String> {
    let duration: jiff::SignedDuration = text
        .parse()
        .or_else(|_| {
            // Days and weeks are 24 hours and 7 × 24 hours: an office has no time zone.
            let span: jiff::Span = text.parse()?;
            span.to_duration(jiff::SpanRelativeTo::days_are_24_hours())
        })
        .map_err(|_| format!("{} is not a duration; write it like 30s, 10m, 2h or 1d", crate::text::quoted(text)))?;
    let ms = i64::try_from(duration.as_millis()).map_err(|_| "that is too long".to_owned())?;
    if ms < 0 {
        return Err("a duration cannot be negative".to_owned());
    }
    Ok(ms)
}

/// Parses a moment as people write it: RFC 3339 with an offset, or a duration from now.
pub fn parse_when(text: &str) -> Result<When, String> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Ok(When::At(Timestamp::from_ms(at.as_millisecond())));
    }
    parse_duration_ms(text).map(When::InMs).map_err(|_| {
        format!(
            "{} is not a time; write a duration from now (30m, 2h, 1d) or a timestamp (2026-01-31T12:00:00Z)",
            crate::text::quoted(text)
        )
    })
}

/// Parses a moment in the past: like [`parse_when`], or a day, which begins at midnight UTC.
pub fn parse_past(text: &str) -> Result<When, String> {
    if let Some(day) = text.parse::<jiff::civil::Date>().ok().filter(|_| !text.contains(['T', 't', ' '])) {
        let begins = day.to_zoned(jiff::tz::TimeZone::UTC).map_err(|error| error.to_string())?;
        return Ok(When::At(Timestamp::from_ms(begins.timestamp().as_millisecond())));
    }
    parse_when(text)
}

/// Parses a day as people write it: `today`, `yesterday`, or a date. It begins and ends at midnight UTC.
pub fn parse_day(text: &str, now: Timestamp) -> Result<(Timestamp, Timestamp), String> {
    let today = Timestamp::from_ms(now.ms() - now.ms() % DAY_MS);
    let begins = match text {
        "today" => today,
        "yesterday" => today.plus_ms(-DAY_MS),
        _ => match text.parse::<jiff::civil::Date>().ok().and(parse_past(text).ok()) {
            Some(When::At(begins)) => begins,
            _ => {
                let shown = crate::text::quoted(text);
                return Err(format!("{shown} is not a day; write today, yesterday or a date like 2026-01-31"));
            }
        },
    };
    if begins > now {
        return Err("that day is in the future".to_owned());
    }
    Ok((begins, begins.plus_ms(DAY_MS)))
}
