//! The log in sentences: one line for each record.

use schemars::JsonSchema;
use serde::Serialize;

use super::rows::{InLog, MessageRows, UNREADABLE, in_log, or_damage, rows, subject};
use crate::address::Address;
use crate::error::Error;
use crate::log::{Envelope, Intent, MessageNo, Position, Record, Settling, WakeOutcome, WakeWay};
use crate::pattern::Pattern;
use crate::store::Store;
use crate::store::tables::{Message, REPEAT, Refused, Tables};
use crate::text::{Name, Topic};
use crate::time::{Timestamp, length, rfc3339};

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TimelineLine {
    pub position: Position,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub by: String,
    /// The kind of the record.
    pub kind: String,
    /// One sentence.
    pub what: String,
    pub number: Option<MessageNo>,
    pub topic: Option<Topic>,
    /// Recipients of a message, groups as their members.
    pub recipients: Vec<String>,
    /// What is missing or damaged, so that not all of it could be read.
    pub unreadable: Option<String>,
}

/// What happened after a position, oldest first.
pub fn timeline(store: &Store, after: Position, limit: usize) -> Result<Vec<TimelineLine>, Error> {
    store.read(|conn| {
        let tables = Tables::load(conn)?;
        let mut lines = Vec::new();
        for record in tables.records_after(after, limit)? {
            add_lines(store, &tables, &record, &mut lines)?;
        }
        Ok(lines)
    })
}

/// One line for the record, and one for each notice that the fold wrote with it.
fn add_lines(store: &Store, tables: &Tables<'_>, record: &Record, lines: &mut Vec<TimelineLine>) -> Result<(), Error> {
    let messages = messages_at(store, tables, record.position)?;
    let is_sent = |message: &Found| match message {
        Found::Whole(found) => found.message.notice.is_none(),
        Found::Unreadable { said, .. } => said.header.is_some(),
    };
    let (sent_here, notices): (Vec<Found>, Vec<Found>) = messages.into_iter().partition(is_sent);
    if sent_here.is_empty() {
        let (number, what) = match tables.refusal(record.position)? {
            Some(refused) => (None, refusal(record, &refused)),
            None => other(tables, record)?,
        };
        lines.push(TimelineLine { number, what, ..line(record, &record.sealed.envelope.actor) });
    }
    for found in sent_here.into_iter().chain(notices) {
        lines.push(match found {
            Found::Whole(found) => sent(store, tables, record, &found)?,
            Found::Unreadable { number, said, damage } => unreadable(tables, record, number, *said, damage)?,
        });
    }
    Ok(())
}

fn line(record: &Record, by: &Name) -> TimelineLine {
    TimelineLine {
        position: record.position,
        at: record.at,
        by: by.to_string(),
        kind: record.sealed.envelope.name.clone(),
        what: String::new(),
        number: None,
        topic: None,
        recipients: Vec::new(),
        unreadable: None,
    }
}

/// A message, or what the log alone knows about it.
enum Found {
    Whole(Box<MessageRows>),
    Unreadable { number: MessageNo, said: Box<InLog>, damage: String },
}

fn messages_at(store: &Store, tables: &Tables<'_>, position: Position) -> Result<Vec<Found>, Error> {
    let mut messages = Vec::new();
    let mut number = tables.first_number_after(Position(position.0.saturating_sub(1)))?;
    while tables.position_of(number)? == Some(position) {
        match or_damage(rows(store, tables, number))? {
            Ok(found) => messages.extend(found.map(|found| Found::Whole(Box::new(found)))),
            Err(damage) => {
                let said = in_log(tables, number)?;
                messages.extend(said.map(|said| Found::Unreadable { number, said: Box::new(said), damage }));
            }
        }
        number = number.next();
    }
    Ok(messages)
}

fn sent(store: &Store, tables: &Tables<'_>, record: &Record, found: &MessageRows) -> Result<TimelineLine, Error> {
    let MessageRows { message, deliveries, .. } = found;
    let addresses: Vec<&Address> = deliveries.iter().map(|delivery| &delivery.address).collect();
    let topic = message.topic.as_ref().map(|topic| format!(" [{topic}]")).unwrap_or_default();
    let (subject, unreadable) = match or_damage(subject(store, tables, message))? {
        Ok(subject) => (subject, None),
        Err(damage) => (UNREADABLE.to_owned(), Some(damage)),
    };
    let Message { number, kind, sender, .. } = message;
    Ok(TimelineLine {
        what: format!("{sender} → {}  #{number} {kind}{topic}: {subject}", to_text(&addresses)),
        number: Some(*number),
        topic: message.topic.clone(),
        recipients: recipients(tables, &addresses)?,
        unreadable,
        ..line(record, sender)
    })
}

/// A message whose archive is missing or damaged. The recipients of a notice were only there.
fn unreadable(
    tables: &Tables<'_>,
    record: &Record,
    number: MessageNo,
    said: InLog,
    damage: String,
) -> Result<TimelineLine, Error> {
    let mut line = TimelineLine { number: Some(number), unreadable: Some(damage), ..line(record, &said.sender) };
    let Some(header) = said.header else {
        line.what = format!("{}  #{number}: {UNREADABLE}", said.sender);
        return Ok(line);
    };
    let addresses: Vec<&Address> = header.to.iter().collect();
    line.what = format!("{} → {}  #{number} {}: {UNREADABLE}", said.sender, to_text(&addresses), header.kind);
    line.topic =
        header.to.iter().find_map(|to| if let Address::Topic(topic) = to { Some(topic.clone()) } else { None });
    line.recipients = recipients(tables, &addresses)?;
    Ok(line)
}

fn to_text(addresses: &[&Address]) -> String {
    const SHOWN_MAX: usize = 4;
    match addresses {
        [] => "nobody".to_owned(),
        few if few.len() <= SHOWN_MAX => few.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        many => format!("{} recipients", many.len()),
    }
}

fn recipients(tables: &Tables<'_>, addresses: &[&Address]) -> Result<Vec<String>, Error> {
    let mut recipients = Vec::new();
    for address in addresses {
        match address {
            Address::Role(role) => {
                recipients.extend(tables.active_with_role(role)?.iter().map(ToString::to_string));
            }
            Address::Can(word) => {
                recipients.extend(tables.active_with_capability(word)?.iter().map(ToString::to_string));
            }
            address => recipients.push(address.to_string()),
        }
    }
    Ok(recipients)
}

/// A record that changed nothing, on a log that keeps it.
fn refusal(record: &Record, Refused { code, reason }: &Refused) -> String {
    let Envelope { actor, name, .. } = &record.sealed.envelope;
    match code == REPEAT {
        true => format!("{actor} {reason}"),
        false => format!("{actor} proposed {name}, which was refused: {reason}"),
    }
}

/// The message a record is about, if any, and what the record did.
fn other(tables: &Tables<'_>, record: &Record) -> Result<(Option<MessageNo>, String), Error> {
    let actor = &record.sealed.envelope.actor;
    let intent = match record.sealed.intent() {
        Ok(Some(intent)) => intent,
        _ => {
            let name = &record.sealed.envelope.name;
            return Ok((None, format!("a record of kind {name}, which this poste does not know")));
        }
    };
    let about = |number: MessageNo, what: &str| (Some(number), format!("{actor} {what} #{number}"));
    Ok(match intent {
        Intent::Barrier(barrier) => {
            (None, format!("barrier: fold version {} ({})", barrier.fold_version, barrier.reason))
        }
        Intent::Tick(_) => (None, "tick: due changes were settled".to_owned()),
        Intent::Clock(clock) => (None, format!("the clock jumped by {}; leases moved along", length(clock.leap_ms))),
        Intent::Policy(policy) => (None, format!("policy {} from {}", policy.replaces + 1, policy.host)),
        Intent::Register(register) => {
            let role = register.role.map(|role| format!(" as {role}")).unwrap_or_default();
            (None, format!("{actor} registers{role}"))
        }
        Intent::Retire(retire) => (None, format!("{actor} retires {}", retire.name)),
        Intent::Send(_)
        | Intent::HandoffCreate(_)
        | Intent::HandoffAccept(_)
        | Intent::HandoffReject(_)
        | Intent::ApprovalAsk(_)
        | Intent::ApprovalAnswer(_)
        | Intent::WorkflowStep(_) => (None, format!("{actor} sent a message that cannot be found")),
        Intent::HandoffWithdraw(withdraw) => about(withdraw.message, "withdraws the handoff"),
        Intent::Shown(shown) => (only(&shown.messages), format!("{} shown to {actor}", numbers(&shown.messages))),
        Intent::Claim(_) => {
            let won = tables.claimed_at(record.position)?;
            let what = if won.is_empty() { "nothing".to_owned() } else { numbers(&won) };
            (only(&won), format!("{actor} claims {what}"))
        }
        Intent::Ack(ack) => about(ack.message, "acknowledges"),
        Intent::Done(done) => about(done.message, "finishes"),
        Intent::Fail(fail) if fail.retry => {
            (Some(fail.message), format!("{actor} fails #{}, to be retried", fail.message))
        }
        Intent::Fail(fail) => about(fail.message, "fails"),
        Intent::Release(release) => about(release.message, "releases"),
        Intent::Extend(extend) => (Some(extend.message), format!("{actor} extends the lease of #{}", extend.message)),
        Intent::Retry(retry) => about(retry.message, "retries"),
        Intent::Drop(dropped) => about(dropped.message, "drops"),
        Intent::Close(close) => (Some(close.message), format!("{actor} closes the conversation of #{}", close.message)),
        Intent::Archive(archive) => {
            (None, format!("{actor} archives {} conversations in {}", archive.conversations.len(), archive.file))
        }
        Intent::Redact(redact) => (None, format!("{actor} redacts records {}", positions(&redact.records))),
        Intent::ContextCreate(create) => (None, format!("{actor} creates context {}", create.name)),
        Intent::ContextAppend(append) => (None, format!("{actor} appends to context {}", append.name)),
        Intent::ContextReplace(replace) => {
            (None, format!("{actor} changes context {}, version {}", replace.name, replace.if_version))
        }
        Intent::ContextLock(lock) => (None, format!("{actor} locks context {} for {}", lock.name, length(lock.for_ms))),
        Intent::ContextUnlock(unlock) => (None, format!("{actor} unlocks context {}", unlock.name)),
        Intent::ContextRead(read) => {
            (None, format!("{actor} has seen version {} of context {}", read.version, read.name))
        }
        Intent::Agree(agree) => about(agree.message, "agrees on"),
        Intent::Subscribe(subscribe) => (None, format!("{actor} subscribes to {}", subscribe.topic.as_str())),
        Intent::Reserve(reserve) => {
            let how = if reserve.shared { " as shared" } else { "" };
            (None, format!("{actor} reserves {}{how} for {}", patterns(&reserve.patterns), length(reserve.for_ms)))
        }
        Intent::Unreserve(released) => {
            let whose = released.holder.map(|holder| format!(" of {holder}")).unwrap_or_default();
            (None, format!("{actor} releases {}{whose}", patterns(&released.patterns)))
        }
        Intent::Prolong(prolong) => {
            (None, format!("{actor} extends {} for {}", patterns(&prolong.patterns), length(prolong.for_ms)))
        }
        Intent::Unsubscribe(unsubscribe) => (None, format!("{actor} unsubscribes from {}", unsubscribe.topic.as_str())),
        Intent::SessionStart(start) => {
            let over = start.takes_over.map(|id| format!(", taking over from {id}")).unwrap_or_default();
            (None, format!("{actor} starts session {}{over}", start.id))
        }
        Intent::SessionNote(note) => (None, format!("{actor} notes a {} in session {}", note.what, note.session)),
        Intent::SessionClose(close) => (None, format!("{actor} closes session {}", close.session)),
        Intent::RunStart(start) => {
            let for_what = &start.messages;
            let what = if for_what.is_empty() { "its inbox".to_owned() } else { numbers(for_what) };
            (only(for_what), format!("{actor} is started for {what}, as run {}", start.run))
        }
        Intent::RunEnd(end) => {
            let code = end.code.map(|code| format!(" {code}")).unwrap_or_default();
            (None, format!("run {} of {actor} ended: {}{code}", end.run, end.how))
        }
        Intent::RunHold(hold) => match hold.message {
            Some(number) => (Some(number), format!("{actor} is not started for #{number} ({})", hold.why)),
            None => (None, format!("{actor} is not started ({})", hold.why)),
        },
        Intent::RunResume(resume) => match resume.message {
            Some(number) => (Some(number), format!("{actor} resumes {} for #{number}", resume.agent)),
            None => (None, format!("{actor} resumes {}", resume.agent)),
        },
        Intent::WorkflowStart(start) => {
            let label = tables.workflow_at(record.position)?.map_or(start.name, |workflow| workflow.label);
            (None, format!("{actor} starts workflow {label}"))
        }
        Intent::WorkflowMark(mark) => {
            (None, format!("step {} of workflow {}: {}", mark.step, mark.workflow, mark.what))
        }
        Intent::WorkflowEnd(end) => (None, format!("workflow {} ended: {}", end.workflow, end.how)),
        Intent::WorkflowRetry(retry) => (None, format!("{actor} retries workflow {}", retry.workflow)),
        Intent::HandlerTake(take) => {
            let how = if take.token.is_some() { "keeps" } else { "takes" };
            (None, format!("{actor} {how} rule {} for {}", take.rule, length(take.lease_ms)))
        }
        Intent::HandlerCursor(cursor) => (None, format!("rule {} is at record {}", cursor.rule, cursor.position)),
        Intent::HandlerDead(dead) => (
            Some(dead.message),
            format!("rule {} could not report #{} in {} attempts", dead.rule, dead.message, dead.attempts),
        ),
        Intent::HandlerRelease(release) => (None, format!("{actor} releases rule {}", release.rule)),
        Intent::HandlerSettle(settle) => {
            let what = match settle.how {
                Settling::Sent => "reported",
                Settling::Dropped => "will not report",
            };
            (Some(settle.message), format!("rule {} {what} #{}", settle.rule, settle.message))
        }
        Intent::Wake(wake) => {
            let (number, agent, how) = (wake.message, wake.agent, wake.how);
            let what = match wake.outcome {
                WakeOutcome::Requested => format!("{actor} rings {agent} for #{number}, by {how}"),
                WakeOutcome::Failed if how == WakeWay::Nothing => {
                    format!("{actor} finds no way to wake {agent} for #{number}")
                }
                WakeOutcome::Failed => format!("{actor} cannot wake {agent} for #{number}, by {how}"),
            };
            (Some(number), what)
        }
        Intent::GateResult(result) => {
            let passed = if result.passed { "passes" } else { "does not pass" };
            (Some(result.message), format!("#{} {passed} its gates, run by {actor}", result.message))
        }
    })
}

/// An empty list means all of them.
fn patterns(patterns: &[Pattern]) -> String {
    match patterns {
        [] => "everything it reserved".to_owned(),
        patterns => patterns.iter().map(Pattern::as_str).collect::<Vec<_>>().join(" "),
    }
}

fn positions(records: &[Position]) -> String {
    records.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn only(messages: &[MessageNo]) -> Option<MessageNo> {
    match messages {
        [one] => Some(*one),
        _ => None,
    }
}

fn numbers(messages: &[MessageNo]) -> String {
    messages.iter().map(|number| format!("#{number}")).collect::<Vec<_>>().join(" ")
}
