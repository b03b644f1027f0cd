//! A message and its history, from the live tables or from the archive, so that views need not know which.

use super::{Found, content};
use crate::error::Error;
use crate::log::{DeliveryNo, Intent, MessageNo, Position, Record, Send};
use crate::store::Store;
use crate::store::tables::{Approval, ApprovalState, ArchiveRow, Delivery, EventRow, Message, Notice, Tables};
use crate::text::{Name, Word};
use crate::time::Timestamp;

#[derive(Debug, Clone)]
pub(crate) struct MessageRows {
    pub message: Message,
    pub deliveries: Vec<Delivery>,
    pub events: Vec<EventRow>,
    /// Its archive file, if it is archived.
    pub archive: Option<ArchiveRow>,
}

pub(crate) fn rows(store: &Store, tables: &Tables<'_>, number: MessageNo) -> Result<Option<MessageRows>, Error> {
    if let Some(message) = tables.message(number)? {
        let deliveries = tables.deliveries_of(number)?;
        let events = tables.events_of(number)?;
        return Ok(Some(MessageRows { message, deliveries, events, archive: None }));
    }
    let Some(archived) = tables.archived_message(number)? else { return Ok(None) };
    let damaged = || Error::Damaged(format!("message {number} is archived but missing in its archive"));
    let archive = tables.archive(archived.archive)?.ok_or_else(damaged)?;
    let damaged = || Error::Damaged(format!("message {number} is not in its archive {}", archive.file));
    let archives = store.archives().ok_or_else(damaged)?;
    let line = archives.find(&archive, archived.position)?.into_iter().find(|line| line.number == Some(number));
    let line = line.ok_or_else(damaged)?;
    let message = line.message.ok_or_else(damaged)?;
    Ok(Some(MessageRows { message, deliveries: line.deliveries, events: line.events, archive: Some(archive) }))
}

/// Shown in a listing instead of text that cannot be read.
pub(crate) const UNREADABLE: &str = "(unreadable)";

/// Separates damage, which a listing reports and skips, from other errors, which stop it. One missing archive must not
/// hide everything else.
pub(crate) fn or_damage<T>(found: Result<T, Error>) -> Result<Result<T, String>, Error> {
    match found {
        Ok(found) => Ok(Ok(found)),
        Err(Error::Damaged(damage)) => Ok(Err(damage)),
        Err(error @ Error::Io { .. }) => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// The text, or a placeholder if it cannot be read.
pub(crate) fn or_unreadable(found: Result<String, Error>) -> Result<String, Error> {
    Ok(or_damage(found)?.unwrap_or_else(|_| UNREADABLE.to_owned()))
}

/// What the log alone knows about a message whose archive cannot be read.
#[derive(Debug)]
pub(crate) struct InLog {
    pub at: Timestamp,
    pub sender: Name,
    /// `None` for a notice of the office.
    pub header: Option<Send>,
}

pub(crate) fn in_log(tables: &Tables<'_>, number: MessageNo) -> Result<Option<InLog>, Error> {
    let Some(position) = tables.position_of(number)? else { return Ok(None) };
    let Some(Record { at, sealed, .. }) = tables.record(position)? else { return Ok(None) };
    // A sent message gets its number before the notices that it causes.
    let is_sent = tables.first_number_after(Position(position.0.saturating_sub(1)))? == number;
    let intent = sealed.intent().ok().flatten();
    Ok(Some(match intent.as_ref().and_then(Intent::mail).filter(|_| is_sent) {
        Some(mail) => InLog { at, sender: sealed.envelope.actor, header: Some(mail.clone()) },
        None => InLog { at, sender: Name::poste(), header: None },
    }))
}

/// The subject that a listing shows. Never reads a body that is still in the database.
pub(crate) fn subject(store: &Store, tables: &Tables<'_>, row: &Message) -> Result<String, Error> {
    if row.notice.is_some() {
        return notice_subject(store, tables, row);
    }
    if let Some(subject) = tables.maybe("SELECT subject FROM content WHERE position = ?1", [row.position])? {
        return Ok(subject);
    }
    subject_at(store, row.position)
}

/// The subject of a record's content, wherever that is.
pub(crate) fn subject_at(store: &Store, position: Position) -> Result<String, Error> {
    Ok(match content(store, position)? {
        Found::Content(content) => content.subject,
        Found::Redacted(_) => "(redacted)".to_owned(),
        Found::Never | Found::Gone => String::new(),
    })
}

fn notice_subject(store: &Store, tables: &Tables<'_>, row: &Message) -> Result<String, Error> {
    let Some(about) = about(store, tables, row)? else {
        return Ok("a notice about a missing delivery".to_owned());
    };
    let what = match row.notice {
        Some(Notice::Failed) => "failed",
        Some(Notice::Dead) => "is dead: every attempt failed",
        Some(Notice::Expired) => "expired before it was claimed",
        Some(Notice::Returned) => "was returned",
        Some(Notice::Closed) => "was closed with its conversation while you held it",
        Some(Notice::Withdrawn) => "is a handoff that was withdrawn",
        Some(Notice::Orphaned) => "was the last step of a workflow that was cancelled: its owner retired",
        Some(Notice::StepOver) => "timed out or lost its workflow while you held it",
        Some(Notice::Overdue) => "was not answered in time",
        Some(Notice::Stopped) => "is waiting: its recipient is stopped",
        Some(Notice::Defaulted | Notice::Settled | Notice::Unanswered) => {
            let approval = tables.approval(about.message)?;
            let what = approval.map_or_else(|| "was decided".to_owned(), |approval| approval_notice(&approval));
            return Ok(format!("#{} to {} {what}", about.message, about.address));
        }
        Some(Notice::Late) | None => "got a result after the lease was lost",
    };
    Ok(format!("#{} to {} {what}", about.message, about.address))
}

/// The outcome of a question, as a notice says it.
fn approval_notice(approval: &Approval) -> String {
    let choice = approval.choice.as_ref().map(Word::as_str).unwrap_or_default();
    let by = approval.decided_by.as_ref().map(Name::as_str).unwrap_or_default();
    match approval.state {
        ApprovalState::Defaulted => format!("was not answered in time; its default was applied: {choice}"),
        ApprovalState::Answered => format!("was decided by {by} while you held it: {choice}"),
        ApprovalState::Withdrawn => format!("was withdrawn while you held it: {} is retired", approval.asker),
        ApprovalState::Closed => "will not be decided: its conversation was closed".to_owned(),
        ApprovalState::Unanswered | ApprovalState::Open => "was not answered in time, and has no default".to_owned(),
    }
}

/// The delivery a notice is about. Both are in the same conversation, so they are archived together.
fn about(store: &Store, tables: &Tables<'_>, notice: &Message) -> Result<Option<Delivery>, Error> {
    let Some(number) = notice.about else { return Ok(None) };
    if let Some(live) = tables.delivery(number)? {
        return Ok(Some(live));
    }
    let is_it = |delivery: &Delivery| delivery.number == DeliveryNo(number.0);
    let original = notice.reply_to.map(|original| rows(store, tables, original)).transpose()?.flatten();
    Ok(original.and_then(|original| original.deliveries.into_iter().find(is_it)))
}
