//! Closes a session: lists what is left open, and writes its page.

use std::collections::HashMap;

use poste_core::Address;
use poste_core::log::{Body, Content, Intent, MessageNo, Send, SessionClose};
use poste_core::pattern::Pattern;
use poste_core::store::tables::SessionState;
use poste_core::text::{ContextName, RecordId, Session};
use poste_core::views::{self, ApprovalsQuery, Held, QuestionView, ReservationsQuery, SessionContext, SessionView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{chosen, id_conflict, no_session, page};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Result, Verb, input};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Session to close; default: the caller's
    pub session_id: Option<Session>,
    /// Outcome of the session, in Markdown
    #[serde(deserialize_with = "input::bytes")]
    #[schemars(with = "String")]
    pub summary: Vec<u8>,
    /// Keep its claims until their leases expire, instead of releasing them
    pub keep: bool,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The session after closing.
    pub session: SessionView,
    /// Claims that were released.
    pub released: Vec<Held>,
    /// Claims that stay held until their leases expire.
    pub kept: Vec<Held>,
    /// Unanswered questions: for a root all of them, otherwise those of this session.
    pub open_questions: Vec<QuestionView>,
    /// Approvals that its agent asked for and that are not decided yet.
    pub open_approvals: Vec<MessageNo>,
    /// Paths that its agent still has reserved, until they are released or expire.
    pub reserved: Vec<Pattern>,
    /// Shared contexts its agent still has locked.
    pub locked: Vec<ContextName>,
    /// Sessions below it that are still live; their agents were notified.
    pub still_live: Vec<Session>,
    /// File of the session's page; only for a root.
    pub page: Option<String>,
    /// The session was already closed under this id.
    pub repeat: bool,
}

impl Verb for Input {
    const NAME: &'static str = "session close";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        if let Some(closed) = closed_before(desk, &self)? {
            let session = views::session(desk.office.store(), &closed)?.ok_or_else(|| no_session(&closed))?;
            return finish(desk, session, self.keep, true);
        }
        let session = chosen(desk, self.session_id)?;
        let context = context_of(desk, &session)?;
        let mut notified: Vec<Address> =
            live_below(&session, &context).into_iter().map(|live| Address::Agent(live.agent.clone())).collect();
        let by_another = Some(desk.speaker()?).filter(|speaker| *speaker != session.agent);
        if by_another.is_some() {
            // It keeps running, and must know what it no longer holds.
            notified.push(Address::Agent(session.agent.clone()));
        }
        let mail = match notified.is_empty() || session.state != SessionState::Live {
            true => None,
            false => Some(Send::plain("message".parse()?, notified)),
        };
        let subject = match (&mail, &by_another) {
            (None, _) => String::new(),
            (Some(_), None) => format!("Session {} is closed", session.id),
            (Some(_), Some(by)) => {
                let back = if self.keep { String::new() } else { given_back(&session.holds) };
                format!("Session {} was closed by {by}{back}", session.id)
            }
        };
        let content = Content { subject, body: Body(self.summary), ..Content::default() };
        self.secrets.check_as(&content, "summary")?;
        let has_words = !content.subject.is_empty() || !content.body.0.is_empty();
        let intent = Intent::SessionClose(SessionClose { session: session.id.clone(), keep_claims: self.keep, mail });
        let proposal = desk.proposal(intent, has_words.then_some(content), self.id)?;
        let (outcome, _) = desk.decide(&proposal)?;
        if by_another.is_some() {
            desk.say(format!("{} was notified", session.agent));
        }
        finish(desk, session, self.keep, outcome.repeat)
    }
}

/// The released claims, as the end of a subject.
fn given_back(holds: &[Held]) -> String {
    const NAMED_MAX: usize = 5;
    let mut numbers: Vec<String> = holds.iter().take(NAMED_MAX).map(|claim| format!("#{}", claim.number)).collect();
    if let more @ 1.. = holds.len().saturating_sub(NAMED_MAX) {
        numbers.push(format!("{more} more"));
    }
    if numbers.is_empty() { String::new() } else { format!("; released: {}", numbers.join(", ")) }
}

/// Maximum number of undecided approvals and of reservations that are listed.
const SHOWN_MAX: usize = 50;

/// Lists what is left open, and writes the page of a root. `before` is the session before it was closed.
fn finish(desk: &mut Desk<'_>, before: SessionView, kept: bool, repeat: bool) -> Result<Answered<Answer>> {
    let now = desk.now()?;
    let store = desk.office.store();
    let session = views::session(store, &before.id)?.ok_or_else(|| no_session(&before.id))?;
    let context = context_of(desk, &session)?;
    let is_root = session.root == session.id;
    let questions = context.open_questions.iter().filter(|asked| is_root || asked.question.session == session.id);
    let asked = ApprovalsQuery::AskedBy(session.agent.clone());
    let undecided = views::approvals(store, &asked, SHOWN_MAX, now)?.approvals;
    let reserved =
        ReservationsQuery { holder: Some(session.agent.clone()), limit: SHOWN_MAX, ..ReservationsQuery::default() };
    let reserved = views::reservations(store, &reserved)?.reservations;
    let (released, kept) = if kept { (Vec::new(), before.holds) } else { (before.holds, Vec::new()) };
    let answer = Answer {
        released: if repeat { Vec::new() } else { released },
        kept,
        open_questions: questions.cloned().collect(),
        open_approvals: undecided.iter().map(|approval| approval.number).collect(),
        reserved: reserved.into_iter().map(|held| held.pattern).collect(),
        locked: views::locked_by(store, &session.agent)?,
        still_live: live_below(&session, &context).into_iter().map(|live| live.id.clone()).collect(),
        page: if is_root { kept_page(desk, &context.root) } else { None },
        repeat,
        session,
    };
    let answered = Answered::new(answer);
    Ok(match undecided.is_empty() {
        true => answered,
        false => answered.next(note!("see what waits for a decision: " [approvals, asked = true])),
    })
}

/// Failing to write the page is only a warning: the log can produce it at any time.
fn kept_page(desk: &mut Desk<'_>, root: &SessionView) -> Option<String> {
    match page::write(desk.office, root) {
        Ok(path) => Some(path.display().to_string()),
        Err(error) => {
            desk.warn(format!("its page was not written: {}", error.message));
            desk.say(note!("see it: " [session show, id = root.id]));
            None
        }
    }
}

fn context_of(desk: &Desk<'_>, session: &SessionView) -> Result<SessionContext> {
    views::session_context(desk.office.store(), &session.id)?.ok_or_else(|| no_session(&session.id))
}

/// The live sessions of other agents below a session.
fn live_below<'a>(session: &SessionView, context: &'a SessionContext) -> Vec<&'a SessionView> {
    let mut parents: HashMap<&Session, Vec<&SessionView>> = HashMap::new();
    for below in &context.below {
        parents.entry(below.parent.as_ref().unwrap_or(&below.root)).or_default().push(below);
    }
    let (mut above, mut found) = (vec![&session.id], Vec::new());
    while let Some(children) = above.pop().map(|id| parents.remove(id).unwrap_or_default()) {
        above.extend(children.iter().map(|below| &below.id));
        found.extend(children.into_iter().filter(|below| below.state == SessionState::Live));
    }
    found.retain(|below| below.agent != session.agent);
    found.sort_by_key(|below| below.started_at);
    found
}

/// The session that this speaker closed under this id.
fn closed_before(desk: &Desk<'_>, input: &Input) -> Result<Option<Session>> {
    let store = desk.office.store();
    let Some(known) = input.id.as_ref().map(|id| views::written_under(store, id)).transpose()?.flatten() else {
        return Ok(None);
    };
    let is_theirs = desk.caller.actor.as_ref() == Some(&known.actor);
    let named = match (&input.session_id, &desk.caller.session) {
        (Some(named), _) => Some(named.clone()),
        // An id that was never started only labels records.
        (None, Some(id)) => views::session_row(store, id)?.map(|session| session.id),
        (None, None) => None,
    };
    match known.intent {
        Some(Intent::SessionClose(close)) if is_theirs && !known.refused => {
            match named.is_none_or(|named| named == close.session) {
                true => Ok(Some(close.session)),
                false => Err(id_conflict()),
            }
        }
        Some(_) => Err(id_conflict()),
        None => Ok(None),
    }
}
