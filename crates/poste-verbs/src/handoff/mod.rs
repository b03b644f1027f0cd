//! Handoffs: work with its files and checks, handed to another agent. One file per verb, and shared code.

pub mod accept;
pub mod create;
pub mod export;
pub mod list;
pub mod reject;
pub mod show;
mod verify;
pub mod withdraw;

use poste_core::fold::{Effect, Outcome};
use poste_core::log::{Ends, EndsHow, MessageNo, Position, Send};
use poste_core::office::Office;
use poste_core::store::tables::HandoffState;
use poste_core::views::{self, HandoffView};
use schemars::JsonSchema;
use serde::Serialize;

use crate::explain::no_message;
use crate::{Error, Note, Result};

/// The answer of verbs that decide a handoff.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Decided {
    /// The handoff's number.
    pub number: MessageNo,
    /// Its state now.
    pub state: HandoffState,
    /// The message that notifies the sender; null for a withdrawal, where the office notifies the recipient.
    pub message: Option<MessageNo>,
    /// Log position of the record.
    pub position: Option<Position>,
    /// The id was used before; nothing new was stored.
    pub repeat: bool,
}

impl Decided {
    fn new(number: MessageNo, state: HandoffState, outcome: &Outcome, effect: &Effect) -> Self {
        Self { number, state, message: effect.message(), position: outcome.position, repeat: outcome.repeat }
    }
}

/// The handoff with this number, or an error.
fn find(office: &Office, number: MessageNo) -> Result<HandoffView> {
    if let Some(view) = views::handoff(office.store(), number)? {
        return Ok(view);
    }
    if views::message(office.store(), number)?.is_none() {
        return Err(no_message(number));
    }
    let error = Error::not_found(format!("message {number} is not a handoff")).code("no_handoff");
    Err(error.hint(note!("read it: " [read, number = number] "; list handoffs: " [handoff list])))
}

/// The commands of a handoff, for a person to review.
pub(crate) fn commands_of(office: &Office, number: MessageNo) -> Result<poste_config::Candidate> {
    let view = find(office, number)?;
    let package = view.package.as_ref().filter(|package| !package.verify.is_empty());
    let package = package.ok_or_else(|| Error::not_found(format!("handoff {number} runs no commands")))?;
    Ok(verify::candidate(number, package))
}

pub(crate) use verify::file_name;

/// The mail that answers a handoff. It goes to the sender and ends the request.
fn answer_mail(number: MessageNo, token: Option<Position>, kind: &str) -> Result<Send> {
    let ends = Ends { message: number, how: EndsHow::Replied, token };
    Ok(Send { reply_to: Some(number), ends: Some(ends), ..Send::plain(kind.parse()?, Vec::new()) })
}

fn tell_sender(number: MessageNo) -> Note {
    note!("tell its sender: " [handoff reject, number = number, reason = "TEXT"])
}
