//! Verbs and their texts, without an office.
#![allow(clippy::disallowed_methods, reason = "these tests stand where a surface would: outside of the verbs")]

mod coalesce;
mod planner;
mod registry;
mod ways;
mod words;
