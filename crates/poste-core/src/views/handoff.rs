//! Handoffs: one in full, and lists of them.

use rusqlite::params;
use schemars::JsonSchema;
use serde::Serialize;

use super::message::{Redaction, redaction};
use super::rows::{or_unreadable, subject_at};
use super::{Found, content, envelope, message};
use crate::error::Error;
use crate::handoff::{HandoffAnswer, Package};
use crate::log::{Artifact, Intent, MessageNo, Position, Verified};
use crate::store::Store;
use crate::store::tables::{Agent, Handoff, HandoffState, handoff_where};
use crate::text::{Label, Name};
use crate::time::{Timestamp, rfc3339, rfc3339_option};
use crate::vocabulary::TrustLabel;

/// A handoff in full.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HandoffView {
    /// The number of its message.
    pub number: MessageNo,
    /// Its place in the log.
    pub position: Position,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub from: String,
    /// Its origin, as the log knows it.
    pub trust: TrustLabel,
    pub to: String,
    pub state: HandoffState,
    /// It was accepted although something was missing or failed.
    pub overridden: bool,
    pub conversation: Label,
    #[serde(serialize_with = "rfc3339_option")]
    pub respond_by: Option<Timestamp>,
    pub subject: String,
    /// Null if its content is missing or is not a package.
    pub package: Option<Package>,
    /// Number of checks and commands that its record asks for.
    pub checks: u32,
    pub verifies: u32,
    /// The folder of its files.
    pub worktree: Option<String>,
    pub artifacts: Vec<Artifact>,
    /// The redaction that erased its content, if any.
    pub redacted: Option<Redaction>,
    pub decision: Option<Decision>,
    /// Its archive file, if its conversation is archived.
    pub archive: Option<String>,
}

/// The decision about a handoff.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Decision {
    pub by: String,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub position: Position,
    /// The message that notified the sender.
    pub message: Option<MessageNo>,
    /// For an acceptance: the checks made, and the results of commands and gates.
    pub checked: Vec<u32>,
    pub verified: Vec<Verified>,
    pub gates: Vec<Verified>,
    /// The answer of the receiver.
    pub answer: Option<HandoffAnswer>,
    /// Why it was withdrawn.
    pub reason: Option<String>,
    pub words_gone: bool,
}

impl HandoffView {
    /// Why there is no package to show.
    pub fn missing_words(&self) -> String {
        match &self.redacted {
            Some(redaction) => format!("its content was redacted by {} at {}", redaction.by, redaction.at),
            None => "its content is missing".to_owned(),
        }
    }
}

/// The handoff with this number, if there is one.
pub fn handoff(store: &Store, number: MessageNo) -> Result<Option<HandoffView>, Error> {
    let Some(row) = store.tables()?.handoff(number)? else { return Ok(None) };
    let Some(mut mail) = message(store, number)? else {
        return Err(Error::Damaged(format!("handoff {number} has no message")));
    };
    let header = envelope(store, row.position)?.and_then(|record| record.sealed.intent().ok().flatten());
    let worktree = match header {
        Some(Intent::HandoffCreate(create)) => create.worktree,
        _ => None,
    };
    mail.artifacts.iter_mut().for_each(|artifact| artifact.worktree = None); // given once, below
    let decision = decision(store, &row)?;
    Ok(Some(HandoffView {
        number,
        position: row.position,
        at: row.at,
        from: mail.from,
        trust: mail.trust,
        to: row.recipient.to_string(),
        state: row.state,
        overridden: row.overridden,
        conversation: mail.conversation,
        respond_by: mail.respond_by,
        subject: mail.subject,
        package: Package::of(mail.payload.as_deref().map(|payload| payload.get())),
        checks: row.checks,
        verifies: row.verifies,
        worktree,
        artifacts: mail.artifacts,
        redacted: mail.redacted,
        decision,
        archive: mail.archive,
    }))
}

fn decision(store: &Store, row: &Handoff) -> Result<Option<Decision>, Error> {
    let (Some(position), Some(at), Some(by)) = (row.decision, row.decided_at, &row.decided_by) else { return Ok(None) };
    let mut decision = Decision {
        by: by.to_string(),
        at,
        position,
        message: row.answer,
        checked: Vec::new(),
        verified: Vec::new(),
        gates: Vec::new(),
        answer: None,
        reason: None,
        words_gone: false,
    };
    let header = envelope(store, position)?.and_then(|record| record.sealed.intent().ok().flatten());
    if let Some(Intent::HandoffAccept(accept)) = header {
        decision.checked = accept.checked;
        decision.verified = accept.verified;
        decision.gates = accept.gates;
    }
    match content(store, position)? {
        Found::Content(said) if row.state == HandoffState::Withdrawn => {
            decision.reason = Some(said.body.text().into_owned());
        }
        Found::Content(said) => {
            decision.answer = HandoffAnswer::of(said.payload.as_deref().map(|payload| payload.get()));
        }
        Found::Never => {}
        Found::Gone => decision.words_gone = true,
        Found::Redacted(by) => {
            decision.words_gone = redaction(store, by)?.is_some();
        }
    }
    Ok(Some(decision))
}

#[derive(Debug, Clone, Default)]
pub struct HandoffQuery {
    pub from: Option<Name>,
    /// Offered to an agent by name or as a member of a group, or decided by it.
    pub to: Option<Agent>,
    pub state: Option<HandoffState>,
    pub limit: usize,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Handoffs {
    /// The newest first.
    pub handoffs: Vec<HandoffLine>,
    /// There are more than this page shows.
    pub more: bool,
    pub as_of: Position,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HandoffLine {
    pub number: MessageNo,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub from: String,
    pub to: String,
    pub state: HandoffState,
    pub overridden: bool,
    pub subject: String,
    pub decided_by: Option<String>,
    #[serde(serialize_with = "rfc3339_option")]
    pub decided_at: Option<Timestamp>,
}

pub fn handoffs(store: &Store, query: &HandoffQuery) -> Result<Handoffs, Error> {
    store.view(|tables| {
        let mut found = find(tables.conn(), query)?;
        let more = found.len() > query.limit;
        found.truncate(query.limit);
        let handoffs = found.into_iter().map(|row| line(store, row)).collect::<Result<_, _>>()?;
        Ok(Handoffs { handoffs, more, as_of: tables.cursor.head.position })
    })
}

/// One more than the page holds, to know whether there are more. Each condition is the range of an index.
fn find(conn: &rusqlite::Connection, query: &HandoffQuery) -> Result<Vec<Handoff>, Error> {
    let limit = query.limit + 1;
    let rest = "AND (?2 IS NULL OR sender = ?2) AND (?3 IS NULL OR state = ?3) ORDER BY number DESC LIMIT ?4";
    let some = |condition: &str, value: String| {
        handoff_where(conn, &format!("{condition} {rest}"), params![value, query.from, query.state, limit])
    };
    let mut found = match (&query.to, &query.from, query.state) {
        (Some(agent), ..) => {
            let mut found = some("decided_by = ?1", agent.name.to_string())?;
            for address in agent.addresses() {
                found.extend(some("recipient = ?1", address.to_string())?);
            }
            found
        }
        (None, Some(from), _) => some("sender = ?1", from.to_string())?,
        (None, None, Some(state)) => {
            handoff_where(conn, "state = ?1 ORDER BY number DESC LIMIT ?2", params![state, limit])?
        }
        (None, None, None) => handoff_where(conn, "1 ORDER BY number DESC LIMIT ?1", params![limit])?,
    };
    found.sort_by_key(|row| std::cmp::Reverse(row.number));
    found.dedup_by_key(|row| row.number);
    found.truncate(limit);
    Ok(found)
}

fn line(store: &Store, row: Handoff) -> Result<HandoffLine, Error> {
    Ok(HandoffLine {
        number: row.number,
        at: row.at,
        from: row.sender.to_string(),
        to: row.recipient.to_string(),
        state: row.state,
        overridden: row.overridden,
        subject: or_unreadable(subject_at(store, row.position))?,
        decided_by: row.decided_by.map(|name| name.to_string()),
        decided_at: row.decided_at,
    })
}
