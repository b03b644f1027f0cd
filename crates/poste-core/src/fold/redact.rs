//! Redaction: erases content, but keeps its author and its outcome.

use super::outcome::{Code, Effect, Stop, refuse};
use super::{Context, Rule, speaker};
use crate::error::Error;
use crate::limits;
use crate::log::{Position, Redact};
use crate::store::tables::Tables;

impl Rule for Redact {
    type Plan = Vec<Position>;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Vec<Position>, Stop> {
        let agent = speaker(tables, cx)?;
        if self.records.is_empty() || self.records.len() > limits::REDACT_MAX {
            return Err(refuse(Code::Malformed, format!("one redaction takes 1 to {} records", limits::REDACT_MAX)));
        }
        let mut records = self.records.clone();
        records.sort_unstable();
        records.dedup();
        let mut fresh = Vec::new();
        for position in records {
            let record = tables
                .record(position)?
                .ok_or_else(|| refuse(Code::UnknownRecord, format!("there is no record {position}")))?;
            let author = &record.sealed.envelope.actor;
            if *author != agent.name && !cx.speaks_as_person(&agent) {
                let whose = format!("only {author}, who wrote record {position}, or a human may redact it");
                return Err(cx.only_person(&agent, whose));
            }
            let has_content = record.sealed.envelope.content.is_some();
            if has_content && tables.redaction(position)?.is_none() {
                fresh.push(position);
            }
        }
        if fresh.is_empty() {
            return Err(refuse(Code::NothingToDo, "it has no content, or its content is already redacted"));
        }
        Ok(fresh)
    }

    fn apply(fresh: Vec<Position>, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        for position in &fresh {
            tables.insert_redaction(*position, cx.position)?;
        }
        Ok(Effect::Touched(fresh.len()))
    }
}
