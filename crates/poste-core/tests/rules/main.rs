//! The rules of an office, one test a sentence, against a real office folder.
//!
//! Every refusal in every test is checked to have changed no table, and every office is verified against its own log at
//! the end of its test; see [`common::Desk`].
#![allow(clippy::disallowed_methods, reason = "these tests stand where a surface would: outside of the core")]

mod actions;
mod agents;
mod agreement;
mod approvals;
mod archive;
mod backup;
mod clock;
mod common;
mod context;
mod conversation;
mod damage;
mod dedupe;
mod delivery;
mod doctor;
mod drop;
mod endings;
mod erase;
mod gates;
mod groups;
mod handlers;
mod handoff;
mod lease;
mod machine;
mod news;
mod patterns;
mod persons;
mod plans;
mod pressing;
mod redact;
mod reminders;
mod replay;
mod report;
mod reservations;
mod response;
mod runs;
mod search;
mod sessions;
mod store;
mod tick;
mod topics;
mod units;
mod wake;
mod wal;
mod workflows;

use poste_core::fold::Outcome;
use poste_core::log::Proposal;
use poste_core::office::Rules;
use poste_core::{Error, Office};

/// How a [`common::Desk`] proposes: these offices have no files.
fn propose(office: &mut Office, proposal: &Proposal) -> Result<Outcome, Error> {
    office.propose(proposal, &Rules::none())
}
