use std::collections::HashMap;
use std::io::{self, Write};

use poste_core::Address;
use poste_core::log::{Body, Content, Intent, MessageNo, Send, SessionClose};
use poste_core::office::Office;
use poste_core::pattern::Pattern;
use poste_core::store::tables::SessionState;
use poste_core::text::{ContextName, RecordId, Session};
use poste_core::views::{self, ApprovalsQuery, Held, QuestionView, ReservationsQuery, SessionContext, SessionView};
use schemars::JsonSchema;
use serde::Serialize;

use super::{chosen, id_conflict, no_session, page};
use crate::Result;
use crate::commands::SecretArgs;
use crate::context::Cx;
use crate::draft::read_body;
use crate::ui::{Answer, Ui, escape};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session; otherwise the speaker's
    session_id: Option<Session>,
    /// What came of it; - for stdin
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    summary: Option<String>,
    /// Give back what it claimed (this is the default)
    #[arg(long, conflicts_with = "keep")]
    release: bool,
    /// Keep what it claimed until the leases run out; its tokens still finish it
    #[arg(long)]
    keep: bool,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CloseAnswer {
    pub session: SessionView,
    /// Claims that went back.
    pub released: Vec<Held>,
    /// Claims that stay held until their leases run out.
    pub kept: Vec<Held>,
    /// Questions nobody answered; of a root all of them, otherwise its own.
    pub open_questions: Vec<QuestionView>,
    /// What its agent asked and nobody decided.
    pub open_approvals: Vec<MessageNo>,
    /// Paths its agent still holds, until their time is up or it frees them.
    pub reserved: Vec<Pattern>,
    /// Shared contexts its agent still has locked.
    pub locked: Vec<ContextName>,
    /// Sessions below it that go on; their agents were told.
    pub still_live: Vec<Session>,
    /// The page of a root.
    pub page: Option<String>,
    pub repeat: bool,
}

impl Answer for CloseAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (before, under this id)" } else { "" };
        writeln!(out, "session {} of {} is closed{again}", self.session.id, self.session.agent)?;
        let numbers = |claims: &[Held]| claims.iter().map(|claim| format!("#{}", claim.number)).collect::<Vec<_>>();
        if !self.released.is_empty() {
            writeln!(out, "given back: {}", numbers(&self.released).join(", "))?;
        }
        for claim in &self.kept {
            writeln!(out, "kept: #{} until {}, token {}", claim.number, claim.lease_until, claim.token)?;
        }
        for asked in &self.open_questions {
            let number = asked.question.question.unwrap_or_default();
            writeln!(out, "unanswered: q{number} {}", escape::line(&asked.question.text))?;
        }
        for number in &self.open_approvals {
            writeln!(out, "undecided: #{number}")?;
        }
        for pattern in &self.reserved {
            writeln!(out, "still reserved: {}", escape::line(pattern.as_str()))?;
        }
        for context in &self.locked {
            writeln!(out, "still locked: context {context}")?;
        }
        if !self.still_live.is_empty() {
            let ids: Vec<&str> = self.still_live.iter().map(Session::as_str).collect();
            writeln!(out, "still live below it, and told: {}", ids.join(", "))?;
        }
        if let Some(page) = &self.page {
            writeln!(out, "kept in {}", escape::line(page))?;
        }
        Ok(())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open_to_write()?;
    if let Some(closed) = closed_before(cx, &office, &args)? {
        let session = views::session(office.store(), &closed)?.ok_or_else(|| no_session(&closed))?;
        return finish(cx, &office, session, args.keep, true);
    }
    let session = chosen(cx, &office, args.session_id)?;
    let context = context_of(&office, &session)?;
    let mut told: Vec<Address> =
        told(&session, &context).into_iter().map(|live| Address::Agent(live.agent.clone())).collect();
    let by_another = Some(cx.speaker()?).filter(|speaker| *speaker != session.agent);
    if by_another.is_some() {
        // It runs on, and has to know what it holds no more.
        told.push(Address::Agent(session.agent.clone()));
    }
    let mail = match told.is_empty() || session.state != SessionState::Live {
        true => None,
        false => Some(Send::plain("message".parse()?, told)),
    };
    let body = Body(read_body(cx, args.summary)?);
    let subject = match (&mail, &by_another) {
        (None, _) => String::new(),
        (Some(_), None) => format!("Session {} is closed", session.id),
        (Some(_), Some(by)) => {
            let back = if args.keep { String::new() } else { given_back(&session.holds) };
            format!("Session {} was closed by {by}{back}", session.id)
        }
    };
    let content = Content { subject, body, ..Content::default() };
    args.secret.check_as(&content, "summary")?;
    let has_words = !content.subject.is_empty() || !content.body.0.is_empty();
    let intent = Intent::SessionClose(SessionClose { session: session.id.clone(), keep_claims: args.keep, mail });
    let proposal = cx.proposal(&office, intent, has_words.then_some(content), args.id)?;
    let (outcome, _) = cx.decide(&mut office, &proposal)?;
    if by_another.is_some() {
        cx.ui.say(format!("{} was told", session.agent));
    }
    finish(cx, &office, session, args.keep, outcome.repeat)
}

/// Its claims that are no longer its own, as the end of a subject.
fn given_back(holds: &[Held]) -> String {
    const NAMED_MAX: usize = 5;
    let mut numbers: Vec<String> = holds.iter().take(NAMED_MAX).map(|claim| format!("#{}", claim.number)).collect();
    if let more @ 1.. = holds.len().saturating_sub(NAMED_MAX) {
        numbers.push(format!("{more} more"));
    }
    if numbers.is_empty() { String::new() } else { format!("; given back: {}", numbers.join(", ")) }
}

/// Says what is left, and keeps the page of a root. `before` is the session as it was until now.
fn finish(cx: &Cx, office: &Office, before: SessionView, kept: bool, repeat: bool) -> Result {
    let session = views::session(office.store(), &before.id)?.ok_or_else(|| no_session(&before.id))?;
    let context = context_of(office, &session)?;
    let is_root = session.root == session.id;
    let questions = context.open_questions.iter().filter(|asked| is_root || asked.question.session == session.id);
    let asked = ApprovalsQuery::AskedBy(session.agent.clone());
    let undecided = views::approvals(office.store(), &asked, SHOWN_MAX, cx.ui.now)?.approvals;
    let still_live = told(&session, &context).into_iter().map(|live| live.id.clone()).collect();
    let open_questions = questions.cloned().collect();
    let page = if is_root { kept_page(cx, office, &context.root) } else { None };
    let reserved =
        ReservationsQuery { holder: Some(session.agent.clone()), limit: SHOWN_MAX, ..ReservationsQuery::default() };
    let reserved = views::reservations(office.store(), &reserved)?.reservations;
    let locked = office.store().tables()?.locked_contexts(Some(&session.agent))?;
    let (released, kept) = if kept { (Vec::new(), before.holds) } else { (before.holds, Vec::new()) };
    cx.ui.answer(&CloseAnswer {
        released: if repeat { Vec::new() } else { released },
        kept,
        open_questions,
        open_approvals: undecided.iter().map(|approval| approval.number).collect(),
        reserved: reserved.into_iter().map(|held| held.pattern).collect(),
        locked: locked.into_iter().map(|context| context.name).collect(),
        still_live,
        page,
        repeat,
        session,
    })?;
    if !undecided.is_empty() {
        cx.ui.say("see what waits for a decision: poste approvals --asked");
    }
    Ok(())
}

/// The session is closed whatever becomes of its page, which the log can give at any time.
fn kept_page(cx: &Cx, office: &Office, root: &SessionView) -> Option<String> {
    match page::write(office, root) {
        Ok(path) => Some(path.display().to_string()),
        Err(error) => {
            cx.ui.warn(format!("its page was not written: {}", error.message));
            cx.ui.say(format!("see it: poste session show {}", root.id));
            None
        }
    }
}

/// As many undecided questions are named.
const SHOWN_MAX: usize = 50;

fn context_of(office: &Office, session: &SessionView) -> Result<SessionContext> {
    views::session_context(office.store(), &session.id)?.ok_or_else(|| no_session(&session.id))
}

/// The live sessions below one, of other agents.
fn told<'a>(session: &SessionView, context: &'a SessionContext) -> Vec<&'a SessionView> {
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
fn closed_before(cx: &Cx, office: &Office, args: &Args) -> Result<Option<Session>> {
    let tables = office.store().tables()?;
    let Some(known) = args.id.as_ref().map(|id| tables.id(id)).transpose()?.flatten() else { return Ok(None) };
    let Some(record) = tables.record(known.position)? else { return Ok(None) };
    let is_theirs = cx.optional_speaker().as_ref() == Some(&record.sealed.envelope.actor);
    let named = match args.session_id.clone() {
        Some(named) => Some(named),
        // An id that was never started only marks who did what.
        None => cx.session().map(|id| tables.session(&id)).transpose()?.flatten().map(|session| session.id),
    };
    match record.sealed.intent().ok().flatten() {
        Some(Intent::SessionClose(close)) if is_theirs && tables.refusal(known.position)?.is_none() => {
            match named.is_none_or(|named| named == close.session) {
                true => Ok(Some(close.session)),
                false => Err(id_conflict()),
            }
        }
        Some(_) => Err(id_conflict()),
        None => Ok(None),
    }
}
