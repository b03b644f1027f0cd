//! Sessions: an agent runs as one session at a time, and notes made below a root are kept at the root. A session that
//! takes over gets the place of the previous one: its children continue below the new session, which also inherits
//! everything kept at a root.
//!
//! The fold cannot know whether the process of a session is still running. It only keeps what was recorded.

use super::outcome::{Code, Effect, Stop, refuse};
use super::{Context, Rule, delivery, message, speaker};
use crate::error::Error;
use crate::limits;
use crate::log::{NoteKind, Send, SessionClose, SessionNote, SessionStart};
use crate::store::tables::{Delivery, NoteRow, SessionRow, SessionState, Tables};
use crate::text::{Name, Session};

pub(crate) struct StartPlan {
    session: SessionRow,
    ends: Option<SessionRow>,
    stands: Stands,
}

/// The place of a session in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    New,
    /// In the place of the session it ends.
    InPlace,
    /// In the place it had before it ended.
    AsBefore,
}

impl Rule for SessionStart {
    type Plan = StartPlan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<StartPlan, Stop> {
        let agent = speaker(tables, cx)?;
        self.check()?;
        let before = self.before(tables, &agent.name)?;
        let live = tables.live_session(&agent.name)?.filter(|live| live.id != self.id);
        if let Some(live) = live.as_ref().filter(|live| self.takes_over.as_ref() != Some(&live.id)) {
            let process = live.process.as_ref().map(|process| format!("pid {}, ", process.pid)).unwrap_or_default();
            return Err(refuse(
                Code::SessionLive,
                format!(
                    "{} runs as session {} ({process}{} on {}) since {}",
                    agent.name, live.id, live.program, live.host, live.at
                ),
            ));
        }
        if let Some(before) = before {
            let session = SessionRow {
                process: self.process.clone(),
                machine: cx.machine.clone(),
                host: self.host.clone(),
                program: self.program.clone(),
                worktree: self.worktree.clone(),
                state: SessionState::Live,
                ended_at: None,
                ended_by: None,
                ..before
            };
            return Ok(StartPlan { session, ends: live, stands: Stands::AsBefore });
        }
        let parent = self.place(tables, live.as_ref())?;
        let in_place = live.as_ref().is_some_and(|live| live.parent == parent);
        let root = match &parent {
            None => self.id.clone(),
            Some(parent) => root_of(tables, parent)?.id,
        };
        let inherited = live.as_ref().filter(|live| in_place && live.is_root());
        let session = SessionRow {
            id: self.id.clone(),
            position: cx.position,
            at: cx.at,
            agent: agent.name,
            parent,
            root,
            process: self.process.clone(),
            machine: cx.machine.clone(),
            host: self.host.clone(),
            program: self.program.clone(),
            worktree: self.worktree.clone(),
            questions: inherited.map_or(0, |before| before.questions),
            state: SessionState::Live,
            ended_at: None,
            ended_by: None,
            successor: None,
        };
        let stands = if in_place { Stands::InPlace } else { Stands::New };
        Ok(StartPlan { session, ends: live, stands })
    }

    fn apply(plan: StartPlan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        if let Some(before) = &plan.ends {
            // Its claims stay: they belong to the agent's name, and their tokens still finish them.
            let successor = Some(plan.session.id.clone());
            end(tables, cx, SessionRow { state: SessionState::TakenOver, successor, ..before.clone() })?;
        }
        match plan.stands {
            Stands::AsBefore => tables.resume_session(&plan.session)?,
            Stands::New | Stands::InPlace => tables.insert_session(&plan.session)?,
        }
        if let Some(before) = plan.ends.filter(|_| plan.stands == Stands::InPlace) {
            tables.succeed_session(&before, &plan.session.id)?;
        }
        Ok(Effect::Noted)
    }
}

impl SessionStart {
    /// The former state of this session, if it is resumed. A session that was taken over continues as another one and
    /// can never be resumed, so successors always lead forward.
    fn before(&self, tables: &Tables<'_>, agent: &Name) -> Result<Option<SessionRow>, Stop> {
        let Some(before) = tables.session(&self.id)? else {
            return match self.resumes {
                true => Err(refuse(Code::UnknownSession, format!("no session {} was started", self.id))),
                false => Ok(None),
            };
        };
        if !self.resumes || before.agent != *agent {
            let why = format!("session {} was already started by {}", self.id, before.agent);
            return Err(refuse(Code::SessionTaken, why));
        }
        if before.state == SessionState::TakenOver {
            return Err(refuse(Code::SessionOver, format!("session {} has ended ({})", before.id, before.state)));
        }
        if self.parent.is_some() {
            return Err(refuse(Code::Malformed, "a resumed session keeps its parent"));
        }
        if !before.is_root() {
            root_of(tables, &before.root)?;
        }
        Ok(Some(before))
    }

    /// The session it runs below: the newest successor of the named one in the same tree. No session can run below the
    /// one that it ends, so naming that one means taking its place.
    fn place(&self, tables: &Tables<'_>, ends: Option<&SessionRow>) -> Result<Option<Session>, Stop> {
        let Some(parent) = &self.parent else { return Ok(None) };
        let mut parent = known(tables, parent)?;
        while let Some(next) = successor(tables, &parent)?.filter(|next| next.root == parent.root) {
            parent = next;
        }
        Ok(match ends.filter(|ends| ends.id == parent.id) {
            Some(ends) => ends.parent.clone(),
            None => Some(parent.id),
        })
    }

    fn check(&self) -> Result<(), Stop> {
        let is_word = |text: &str| text.len() <= limits::LABEL_BYTES_MAX && !text.chars().any(char::is_control);
        let place = self.process.as_ref().map_or("", |process| process.place.as_str());
        if ![&self.host, &self.program].into_iter().all(|text| is_word(text)) || !is_word(place) {
            return Err(refuse(Code::Malformed, "the name of a host, program or process must be one short line"));
        }
        if self.worktree.as_ref().is_some_and(|path| !path.starts_with('/') || path.len() > limits::PATH_BYTES_MAX) {
            return Err(refuse(Code::Malformed, "a worktree must be an absolute path"));
        }
        Ok(())
    }
}

/// The root of a session. The root, or its newest successor if it was taken over, must be live.
fn root_of(tables: &Tables<'_>, id: &Session) -> Result<SessionRow, Stop> {
    let session = known(tables, id)?;
    let root = if session.is_root() { session } else { known(tables, &session.root)? };
    let mut newest = root.clone();
    while let Some(next) = successor(tables, &newest)? {
        newest = next;
    }
    if newest.is_live() {
        return Ok(root);
    }
    let over = match root.id == *id {
        true => format!("session {id} has ended ({})", root.state),
        false => format!("session {}, at the root of {id}, has ended ({})", root.id, root.state),
    };
    Err(refuse(Code::SessionOver, over))
}

/// The session that took over. It is always a later one, so a chain of successors ends.
fn successor(tables: &Tables<'_>, session: &SessionRow) -> Result<Option<SessionRow>, Error> {
    Ok(session.successor.as_ref().map(|id| tables.session(id)).transpose()?.flatten())
}

fn known(tables: &Tables<'_>, id: &Session) -> Result<SessionRow, Stop> {
    tables.session(id)?.ok_or_else(|| refuse(Code::UnknownSession, format!("no session {id} was started")))
}

fn end(tables: &mut Tables<'_>, cx: &Context, session: SessionRow) -> Result<(), Error> {
    tables.end_session(&SessionRow { ended_at: Some(cx.at), ended_by: Some(cx.position), ..session })
}

impl Rule for SessionNote {
    type Plan = NoteRow;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<NoteRow, Stop> {
        let agent = speaker(tables, cx)?;
        cx.require_proof(&agent)?;
        let root = root_of(tables, &self.session)?;
        if self.what == NoteKind::Goal && agent.name != root.agent && !cx.speaks_as_person(&agent) {
            let why = format!("only {} or a human may set the goal of session {}", root.agent, root.id);
            return Err(refuse(Code::NotAllowed, why));
        }
        if !cx.speaks_as_person(&agent) && !tables.took_part(&root.id, &agent.name)? {
            let why = format!("only agents in session {} or below it, or a human, may add notes to it", root.id);
            return Err(cx.only_person(&agent, why));
        }
        if (self.what == NoteKind::Answer) != self.question.is_some() {
            return Err(refuse(Code::Malformed, "an answer must name its question, and no other note may"));
        }
        if (self.what == NoteKind::Agent) != self.agent.is_some() {
            return Err(refuse(Code::Malformed, "a note of an invoked agent must name it, and no other note may"));
        }
        let question = match (self.what, self.question) {
            (NoteKind::Question, _) => Some(next_question(&root)?),
            (_, Some(question)) => {
                if question == 0 || question > root.questions {
                    let why = format!("session {} has no question q{question}", root.id);
                    return Err(refuse(Code::UnknownQuestion, why));
                }
                if tables.is_answered(&root.id, question)? {
                    return Err(refuse(Code::Ended, format!("question q{question} is already answered")));
                }
                Some(question)
            }
            _ => None,
        };
        Ok(NoteRow {
            root: root.id,
            position: cx.position,
            at: cx.at,
            session: self.session.clone(),
            by: agent.name,
            what: self.what,
            question,
            agent: self.agent.clone(),
        })
    }

    fn apply(note: NoteRow, tables: &mut Tables<'_>, _: &Context) -> Result<Effect, Error> {
        tables.insert_note(&note)?;
        Ok(Effect::Noted)
    }
}

fn next_question(root: &SessionRow) -> Result<u32, Stop> {
    let max = limits::SESSION_QUESTIONS_MAX;
    match root.questions < max {
        true => Ok(root.questions + 1),
        false => Err(refuse(Code::TooLarge, format!("a session has at most {max} questions"))),
    }
}

pub(crate) struct ClosePlan {
    session: SessionRow,
    released: Vec<Delivery>,
    mail: Option<message::Plan>,
}

impl Rule for SessionClose {
    type Plan = ClosePlan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<ClosePlan, Stop> {
        let agent = speaker(tables, cx)?;
        let session = known(tables, &self.session)?;
        if agent.name != session.agent && !cx.speaks_as_person(&agent) {
            let why = format!("only {} or a human may close session {}", session.agent, session.id);
            return Err(cx.only_person(&agent, why));
        }
        if !session.is_live() {
            let why = format!("session {} has already ended ({})", session.id, session.state);
            return Err(refuse(Code::SessionOver, why));
        }
        if self.mail.as_ref().is_some_and(|mail| mail.ends.is_some() || mail.reply_to.is_some()) {
            return Err(refuse(Code::Malformed, "the end of a session cannot answer or end a message"));
        }
        let released = if self.keep_claims { Vec::new() } else { held_in(tables, &session)? };
        let mail = self.mail.as_ref().map(|mail| mail.decide(tables, cx)).transpose()?;
        Ok(ClosePlan { session, released, mail })
    }

    fn apply(plan: ClosePlan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        for before in &plan.released {
            delivery::release(tables, cx, before)?;
        }
        end(tables, cx, SessionRow { state: SessionState::Closed, ..plan.session })?;
        match plan.mail {
            Some(mail) => Send::apply(mail, tables, cx),
            None => Ok(Effect::Touched(plan.released.len())),
        }
    }
}

/// Deliveries that a session claimed and did not finish.
fn held_in(tables: &Tables<'_>, session: &SessionRow) -> Result<Vec<Delivery>, Error> {
    let mut held = tables.held_by(&session.agent)?;
    held.retain(|delivery| delivery.session.as_ref() == Some(&session.id));
    Ok(held)
}

/// Ends the session of a retiring agent.
pub(crate) fn retire_of(tables: &mut Tables<'_>, cx: &Context, agent: &Name) -> Result<(), Error> {
    match tables.live_session(agent)? {
        Some(live) => end(tables, cx, SessionRow { state: SessionState::Retired, ..live }),
        None => Ok(()),
    }
}
