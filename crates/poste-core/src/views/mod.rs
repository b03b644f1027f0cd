//! Queries for people and programs. Read-only, from the tables; every answer has a JSON schema.

mod agreement;
mod approvals;
mod context;
mod dead;
mod digests;
mod finished;
mod handlers;
mod handoff;
mod health;
mod ids;
mod inbox;
mod message;
mod named_blobs;
mod origin;
mod overdue;
mod policy;
mod pressing;
mod records;
mod replay;
mod replies;
mod report;
mod reservations;
mod roster;
mod rows;
mod runs;
mod search;
mod sessions;
mod standing;
mod stats;
mod status;
mod thread;
mod timeline;
mod track;
mod verify;
mod wake;
mod workflow;

pub use agreement::{AgreementView, PartyView, WrittenView, agreement};
pub use approvals::{ApprovalView, Approvals, ApprovalsQuery, AskedOf, Talk, approval, approvals, talk_after};
pub(crate) use context::schema as context_schema;
pub use context::{
    ContextLine, ContextView, LockView, MarkdownParts, StaleContext, VersionView, context, context_history,
    context_lock, context_lock_against, context_markdown, contexts, locked_by, markdown_parts, nearest_contexts,
    newest_version, version_of_id, version_seen,
};
pub use dead::{DeadLetter, DeadLetters, DeadQuery, dead_letters};
pub use digests::{DigestDiff, TableDigests, diff_with_fold, diff_with_other, first_difference};
pub(crate) use finished::archive_lines;
pub use finished::{ArchiveBatch, finished, newest_message, retention_ms};
pub use handlers::{
    HandlerHolder, HandlerView, MailHeader, StoredMail, UntoldView, count_after, handler, handlers, is_untold,
    last_untold_before, stored_after, untold, untold_attempts,
};
pub use handoff::{Decision, HandoffLine, HandoffQuery, HandoffView, Handoffs, handoff, handoffs};
pub use health::{HeldClaim, SilentAgent, Unreachable, held_claims, silent_agents, unreachable_mail};
pub use ids::{Written, id_to_write_once, is_known_id, message_of_id, record_of_id, written_under};
pub use inbox::{
    InboxLine, InboxPage, InboxQuery, More, NewMail, NewsQuery, claimable, has_claimable, inbox, is_held_up, news,
};
pub use message::{
    EndsBy, MessageView, Redaction, RepeatingVersion, SaidOf, ends_by, held_token, is_addressed_to, message,
    passed_gates, repeating_versions, said_of, sender,
};
pub use named_blobs::named_blobs;
pub use origin::Origin;
pub use overdue::{LateDelivery, Overdue, Patience, overdue};
pub use policy::{PolicyStanding, allows_approving_default, has_proposed_policy, own_types, policy_standing};
pub use pressing::{Heard, unhandled, unreported};
pub use records::{
    IdAnswer, MalformedView, RecordView, Why, WhyLine, malformed, record, records, sealed, why_id, why_message,
};
pub use replay::{PastAgent, PastOffice, newest_time, past_inbox, past_office, past_track};
pub use replies::{Replies, Reply, replies};
pub use report::{
    AgentDay, AgentReport, BlockerLine, BlockerReport, BlockerStatus, BroadcastLine, BroadcastReport, ConversationLine,
    ConversationReport, ConversationStatus, DayCounts, DayReport, Ended, Happened, Happening, OpenMail, Receipt,
    Response, Taken, TypeCount, WorkResult, agent_report, blocker_report, broadcast_report, conversation_report,
    day_report,
};
pub use reservations::{
    HeldPath, ReservationConflict, ReservationEnded, ReservationView, ReservationWhy, Reservations, ReservationsQuery,
    held_paths, is_anything_held, reservation_conflicts, reservations, why_reservation,
};
pub use roster::{
    RosterEntry, TopicView, TypeView, active_agents, active_humans, agent, agent_of_worktree, hears, members,
    nearest_agents, roster, topics, types,
};
pub use runs::{
    HoldView, Later, RunEndView, RunView, Startable, WhyLater, all_holds, all_running, chain_started_by, first_message,
    holds, last_start, later, latest_ends, latest_runs, printed, queued, run, running, runs_of, spent, startable,
    startable_by_clock, starts_since, undone,
};
pub use search::{Progress, Refreshed, SearchHit, SearchPage, SearchQuery, StateCount, search};
pub use sessions::{
    Held, Keeper, Lease, NoteView, QuestionView, SessionContext, SessionView, Sessions, held_by, held_in, keeper,
    leases, live_session, live_sessions, question_at, session, session_context, session_of_process, session_over,
    session_row, sessions,
};
pub use standing::{
    Holder, Standing, deliveries_of, lease_ms, messages_of_run, run_row, running_rows, running_rows_of,
};
pub use stats::{Durations, GroupStats, Stats, stats};
pub use status::{Count, Status, next_due, status};
pub use thread::{
    Thread, ThreadLine, ThreadOutcome, ThreadRecipient, ThreadStatus, ThreadSummary, Threads, ThreadsQuery,
    conversation_of, thread, thread_summary, threads,
};
pub use timeline::{TimelineLine, timeline};
pub use track::{DeliveryView, ResultView, Step, Track, track};
pub(crate) use verify::unfinished_erasure;

pub use verify::{Problem, ProblemKind, VerifyReport, verify};
pub use wake::{
    LiveSession, MailSource, Sleeper, Unseen, WaitingMail, WakeView, has_wakes, is_news_to, mail_source, owed_mail,
    owed_rings, sleeper, sleepers, to_ring, waiting_mail,
};
pub use workflow::{
    Began, StepView, TaskResult, TaskView, WorkflowLine, WorkflowView, open_workflows, workflow, workflow_began,
    workflow_of, workflows,
};

use crate::error::Error;
use crate::log::{Content, Position};
use crate::store::Store;
use crate::store::tables::{ArchiveRow, Tables, content_row};

/// The content of a record, or why there is none.
#[derive(Debug)]
pub(crate) enum Found {
    Content(Box<Content>),
    /// The record never had any, or it was refused.
    Never,
    /// It was erased, by this record.
    Redacted(Position),
    /// It is missing.
    Gone,
}

/// The content of a record: from its row, its blob, or the archive.
pub(crate) fn content(store: &Store, position: Position) -> Result<Found, Error> {
    let row = content_row(store.conn(), position)?;
    let listed = row.as_ref().map(|row| row.subject.clone());
    let inline = match row {
        Some(row) => row.bytes,
        None => {
            let tables = store.tables()?;
            if let Some(redacted_by) = tables.redaction(position)? {
                return Ok(Found::Redacted(redacted_by));
            }
            match tables.archive_of_content(position)? {
                Some(archive) => archived_content(store, &archive, position)?,
                None => {
                    let had = envelope(store, position)?.is_some_and(|record| record.sealed.envelope.content.is_some());
                    return Ok(if had && tables.keeps_content(position)? { Found::Gone } else { Found::Never });
                }
            }
        }
    };
    let bytes = match inline {
        Some(bytes) => {
            check_genuine(store, position, &bytes)?;
            Some(bytes)
        }
        None => blob_of(store, position)?,
    };
    let Some(bytes) = bytes else { return Ok(Found::Gone) };
    let content = Content::decode(&bytes);
    let content = content.map_err(|error| Error::Damaged(format!("content of record {position}: {error}")))?;
    if listed.is_some_and(|listed| listed != content.subject) {
        return Err(Error::Damaged(format!("the subject of record {position} was changed")));
    }
    Ok(Found::Content(Box::new(content)))
}

/// Checks content against the log, so that changed text is never shown as its author's.
fn check_genuine(store: &Store, position: Position, bytes: &[u8]) -> Result<(), Error> {
    let record = match envelope(store, position)? {
        Some(record) => record,
        // A replayed store in memory has no log. Its content was checked when it was copied there.
        None if store.path().is_none() => return Ok(()),
        None => return Err(Error::Damaged(format!("there is content for record {position}, but no such record"))),
    };
    match record.sealed.envelope.content {
        Some(expected) if expected.is_of(bytes) => Ok(()),
        _ => Err(Error::Damaged(format!("the content of record {position} does not match its digest: it was changed"))),
    }
}

fn archived_content(store: &Store, archive: &ArchiveRow, position: Position) -> Result<Option<Vec<u8>>, Error> {
    let Some(archives) = store.archives() else { return Ok(None) };
    let lines = archives.find(archive, position)?;
    Ok(lines.into_iter().find_map(|line| line.content).map(String::into_bytes))
}

fn blob_of(store: &Store, position: Position) -> Result<Option<Vec<u8>>, Error> {
    let content = envelope(store, position)?.and_then(|record| record.sealed.envelope.content);
    match (content, store.blobs()) {
        (Some(content), Some(blobs)) => blobs.get(&content.digest),
        _ => Ok(None),
    }
}

pub(crate) fn envelope(store: &Store, position: Position) -> Result<Option<crate::log::Record>, Error> {
    store.tables()?.record(position)
}

/// Counting stops here, because the cost of a count must not grow with the mail.
pub(crate) const COUNT_MAX: u64 = 1_000;

pub(crate) fn count_up_to(tables: &Tables<'_>, from_where: &str, params: impl rusqlite::Params) -> Result<u64, Error> {
    count_within(tables, COUNT_MAX, from_where, params)
}

fn count_within(tables: &Tables<'_>, max: u64, from_where: &str, params: impl rusqlite::Params) -> Result<u64, Error> {
    tables.value(&format!("SELECT count(*) FROM (SELECT 1 FROM {from_where} LIMIT {max})"), params)
}
