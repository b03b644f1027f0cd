//! Approvals: open questions, who must decide them, and the decisions.

use schemars::JsonSchema;
use serde::Serialize;

use super::records::WhyLine;
use super::rows::{MessageRows, UNREADABLE, or_damage, or_unreadable, rows, subject};
use super::thread::numbers_after;
use super::{Found, content};
use crate::error::Error;
use crate::fold;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{Agent, Approval, ApprovalState, State, Tables};
use crate::text::{Label, Name, Word};
use crate::time::{Timestamp, rfc3339, rfc3339_option};
use crate::vocabulary::TrustLabel;

/// A question that needs a decision, and its outcome.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ApprovalView {
    /// The number of the message that asks.
    pub number: MessageNo,
    pub subject: String,
    pub from: Name,
    /// Where it comes from.
    pub trust: TrustLabel,
    pub to: Vec<AskedOf>,
    /// A plan, not a question.
    pub plan: bool,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub conversation: Label,
    /// The first one is the approving one.
    pub choices: Vec<Word>,
    pub default: Option<Word>,
    #[serde(serialize_with = "rfc3339_option")]
    pub deadline: Option<Timestamp>,
    pub state: ApprovalState,
    /// It is open, but every delivery ended without an answer.
    pub nobody_left: bool,
    /// The deadline has passed, but this is not recorded yet.
    pub unconfirmed: bool,
    pub choice: Option<Word>,
    pub decided_by: Option<Name>,
    /// The message that answers.
    pub answer: Option<MessageNo>,
    /// The note that came with the decision.
    pub note: Option<String>,
    #[serde(serialize_with = "rfc3339_option")]
    pub ended_at: Option<Timestamp>,
    /// The record that decided or ended it.
    pub ended_by: Option<Position>,
}

impl ApprovalView {
    /// It will not be decided any more, or already is.
    pub fn is_settled(&self) -> bool {
        self.state != ApprovalState::Open || (self.nobody_left && self.deadline.is_none())
    }

    /// An agent or a person picked the first choice. A default is no one's approval.
    pub fn is_approved(&self) -> bool {
        self.state == ApprovalState::Answered && self.choice.as_ref() == self.choices.first()
    }
}

/// One recipient of a question.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AskedOf {
    pub recipient: String,
    /// The state of its delivery.
    pub state: State,
}

/// Which approvals to list.
#[derive(Debug, Clone)]
pub enum ApprovalsQuery {
    /// Questions that wait for a decision by this agent.
    ToDecide(Box<Agent>),
    /// Open questions of this agent.
    AskedBy(Name),
    /// All open questions.
    Open,
    /// The newest, decided or not.
    All,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Approvals {
    pub approvals: Vec<ApprovalView>,
    /// There are more than this page shows.
    pub more: bool,
    pub as_of: Position,
}

/// The approval with this number, if there is one.
pub fn approval(store: &Store, number: MessageNo, now: Timestamp) -> Result<Option<ApprovalView>, Error> {
    store.view(|tables| tables.approval(number)?.map(|found| view(store, tables, found, now)).transpose())
}

/// A message that discusses a question without deciding it.
#[derive(Debug, Clone)]
pub struct Talk {
    pub number: MessageNo,
    pub from: Name,
    pub trust: TrustLabel,
    pub subject: String,
}

/// Messages of others in a question's conversation after a message, in order. The asker may have to answer them before
/// the question is decided.
pub fn talk_after(store: &Store, asked: &ApprovalView, after: MessageNo) -> Result<Vec<Talk>, Error> {
    const TOLD_MAX: usize = 100;
    store.view(|tables| {
        let mut talk = Vec::new();
        for number in numbers_after(tables, &asked.conversation, after, TOLD_MAX)? {
            let Some(message) = tables.message(number)? else { continue };
            if message.notice.is_some() || message.sender == asked.from || asked.answer == Some(number) {
                continue;
            }
            talk.push(Talk {
                number,
                subject: subject(store, tables, &message)?,
                trust: message.label,
                from: message.sender,
            });
        }
        Ok(talk)
    })
}

/// Approvals: open ones oldest first, otherwise newest first.
pub fn approvals(store: &Store, query: &ApprovalsQuery, limit: usize, now: Timestamp) -> Result<Approvals, Error> {
    store.view(|tables| {
        let mut found = match query {
            ApprovalsQuery::ToDecide(agent) => to_decide(tables, agent)?,
            ApprovalsQuery::AskedBy(name) => tables.open_approvals_of(name)?,
            ApprovalsQuery::Open => tables.open_approvals()?,
            ApprovalsQuery::All => tables.newest_approvals(limit + 1)?,
        };
        let more = found.len() > limit;
        found.truncate(limit);
        let approvals = found.into_iter().map(|found| view(store, tables, found, now)).collect::<Result<_, _>>()?;
        Ok(Approvals { approvals, more, as_of: tables.cursor.head.position })
    })
}

/// Checks every open question. There are few: an agent waits for each of them.
fn to_decide(tables: &Tables<'_>, agent: &Agent) -> Result<Vec<Approval>, Error> {
    let mut found = Vec::new();
    for approval in tables.open_approvals()? {
        let Some(message) = tables.message(approval.number)? else { continue };
        let mut can = false;
        for own in fold::own_deliveries(tables, agent, &message)? {
            let is_free = own.holder.is_none() || own.holder.as_ref() == Some(&agent.name);
            can = can || (own.state.is_open() && is_free);
        }
        if can {
            found.push(approval);
        }
    }
    Ok(found)
}

pub(super) fn view(store: &Store, tables: &Tables<'_>, found: Approval, now: Timestamp) -> Result<ApprovalView, Error> {
    // An unreadable archive must not hide the decision.
    let asked = or_damage(rows(store, tables, found.number))?.ok().flatten();
    let trust = asked.as_ref().map_or(TrustLabel::Unproven, |asked| asked.message.label);
    let (title, to) = match asked {
        Some(MessageRows { message, deliveries, .. }) => {
            let title = or_unreadable(subject(store, tables, &message))?;
            let to = deliveries.into_iter().map(|own| AskedOf { recipient: own.address.to_string(), state: own.state });
            (title, to.collect::<Vec<_>>())
        }
        None => (UNREADABLE.to_owned(), Vec::new()),
    };
    let note = match found.answer.map(|answer| tables.position_of(answer)).transpose()?.flatten() {
        Some(position) => match or_damage(content(store, position))? {
            Ok(Found::Content(content)) => Some(content.body.text().into_owned()).filter(|note| !note.is_empty()),
            Ok(Found::Redacted(_)) => Some("(redacted)".to_owned()),
            Ok(Found::Never | Found::Gone) | Err(_) => None,
        },
        None => None,
    };
    Ok(ApprovalView {
        number: found.number,
        subject: title,
        from: found.asker.clone(),
        trust,
        plan: found.plan,
        at: found.at,
        conversation: found.conversation.clone(),
        default: found.default.clone(),
        deadline: found.deadline,
        state: found.state,
        nobody_left: found.is_open() && !to.iter().any(|asked| asked.state.is_open()),
        unconfirmed: found.is_open() && found.deadline.is_some_and(|deadline| deadline <= now),
        choices: found.choices,
        choice: found.choice,
        decided_by: found.decided_by,
        answer: found.answer,
        note,
        ended_at: found.ended_at,
        ended_by: found.ended_by,
        to,
    })
}

/// The lines of `log why` about a question, without those of its deliveries.
pub(super) fn why(tables: &Tables<'_>, number: MessageNo) -> Result<Vec<WhyLine>, Error> {
    let Some(approval) = tables.approval(number)? else { return Ok(Vec::new()) };
    let listed = approval.choices.iter().map(Word::as_str).collect::<Vec<_>>().join(", ");
    let by = approval.deadline.map(|deadline| format!(" by {deadline}")).unwrap_or_default();
    let otherwise = approval.default.as_ref().map(|default| format!(", else {default}")).unwrap_or_default();
    let mut lines = vec![WhyLine {
        position: approval.position,
        at: approval.at,
        by: approval.asker.to_string(),
        what: format!("wants a decision{by}: {listed}{otherwise}"),
    }];
    let choice = approval.choice.as_ref().map(Word::as_str).unwrap_or_default();
    let what = match approval.state {
        ApprovalState::Open => return Ok(lines),
        ApprovalState::Answered => format!("decided: {choice}"),
        ApprovalState::Defaulted => format!("decided by its default: {choice}"),
        ApprovalState::Unanswered => "not decided: the deadline passed, and there was no default".to_owned(),
        ApprovalState::Closed => "not decided: its conversation ended".to_owned(),
        ApprovalState::Withdrawn => format!("withdrawn: {} retired", approval.asker),
    };
    if let (Some(position), Some(at)) = (approval.ended_by, approval.ended_at) {
        let by = tables.record(position)?.map(|record| record.sealed.envelope.actor.to_string());
        lines.push(WhyLine { position, at, by: by.unwrap_or_default(), what });
    }
    Ok(lines)
}
