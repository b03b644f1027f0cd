//! The office as the server sees it: one connection that stays open, who this process speaks for, and verbs called in its name.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use poste_core::Timestamp;
use poste_core::log::{MessageNo, Position};
use poste_core::office::Office;
use poste_core::store::last_rung;
use poste_core::store::processes::{self, Presence};
use poste_core::views;
use poste_verbs::actions::Carrier;
use poste_verbs::caller::Ids;
use poste_verbs::desk::{NO_SPEAKER, hides_a_write, unshown};
use poste_verbs::session::Identity;
use poste_verbs::{Answered, Desk, Error, Mark, Note, Result, Verb, verb};
use serde_json::Value;

use super::notes;
use super::table::{Call, Cancellation};
use super::tools::Called;
use crate::station::{Opened, Station};

/// A verb whose answer a tool tells as people read it. Its words are those of the command line, which hands them over.
#[derive(Clone, Copy)]
pub struct VerbText {
    pub verb: &'static str,
    pub call: fn(&mut Desk<'_>, Value) -> Result<Answered<AnswerText>>,
}

impl std::fmt::Debug for VerbText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerbText").field("verb", &self.verb).finish_non_exhaustive()
    }
}

/// An answer for programs and for people.
#[derive(Debug, Default)]
pub struct AnswerText {
    pub value: Value,
    pub text: String,
}

#[derive(Debug)]
pub(super) struct Connection {
    station: Station,
    texts: &'static [VerbText],
    /// Opening an office takes longer than most calls.
    kept: Mutex<Option<Opened>>,
    /// For calls that wait or run commands, while others go on.
    spare: Mutex<Vec<Opened>>,
    /// Found once, and when; asked again when its session is over, or now and then while it has none.
    known: Mutex<Option<(Identity, Instant)>>,
    /// The model was told that its name runs elsewhere, too.
    told_of_another: AtomicBool,
    /// The tokens of what was claimed here: a model need not carry them.
    tokens: Mutex<HashMap<MessageNo, Position>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name without a session may get one from a hook at any time.
const LOOK_FOR_SESSION_PERIOD: Duration = Duration::from_secs(1);
/// Spare offices that stay open.
const SPARE_MAX: usize = 2;

impl Connection {
    pub(super) fn new(station: Station, texts: &'static [VerbText]) -> Self {
        Self {
            station,
            texts,
            kept: Mutex::default(),
            spare: Mutex::default(),
            known: Mutex::default(),
            told_of_another: AtomicBool::new(false),
            tokens: Mutex::default(),
        }
    }

    pub(super) fn ids(&self) -> &Ids {
        &self.station.host.ids
    }

    /// Notes that the model can do something with, as it reads them.
    pub(super) fn texts(&self, notes: &[Note]) -> Vec<String> {
        notes.iter().filter_map(|note| notes::text(note, self.station.command_line)).collect()
    }

    pub(super) fn error_text(&self, error: &Error) -> String {
        let mut lines = error.lines(|note| notes::text(note, self.station.command_line));
        let warnings = error.before.iter().flat_map(|before| self.texts(&before.warnings));
        lines.extend(warnings.map(|warning| format!("warning: {warning}")));
        lines.join("\n")
    }

    /// An error for the program that a model runs in. What was found so far may be words of others, which a model gets
    /// between fences or not at all.
    pub(super) fn error_data(&self, error: &Error) -> Value {
        let mut data = error.data(|note| notes::text(note, self.station.command_line));
        data.remove("partial");
        Value::Object(data)
    }

    /// Works on the connection that stays open.
    pub(super) fn with_office<T>(&self, work: impl FnOnce(&mut Opened) -> Result<T>) -> Result<T> {
        let mut kept = locked(&self.kept);
        let mut open = self.usable(kept.take())?;
        let done = work(&mut open);
        if is_sound(&done) {
            *kept = Some(open);
        }
        done
    }

    /// Works on another connection, so that nobody has to wait until it is done.
    pub(super) fn apart<T>(&self, work: impl FnOnce(&mut Opened) -> Result<T>) -> Result<T> {
        let spare = locked(&self.spare).pop();
        let mut open = self.usable(spare)?;
        let done = work(&mut open);
        let mut spare = locked(&self.spare);
        if is_sound(&done) && spare.len() < SPARE_MAX {
            spare.push(open);
        }
        done
    }

    /// An office whose file is gone is opened again.
    fn usable(&self, open: Option<Opened>) -> Result<Opened> {
        match open.filter(|open| open.office.store().check_identity().is_ok()) {
            Some(open) => Ok(open),
            None => self.station.open(),
        }
    }

    /// Carries out what is committed here in the name of whoever this process speaks for, as far as that is known.
    pub(super) fn carrier(&self) -> Carrier {
        let known = locked(&self.known).as_ref().map(|(own, _)| own.clone()).unwrap_or_default();
        Carrier {
            program: self.station.host.program.clone(),
            caller: known.agent,
            session: known.session,
            via: self.station.via,
            remote: false,
        }
    }

    /// Calls a verb in the name of this process.
    pub(super) fn call<V: Verb>(&self, own: &Identity, verb: V) -> Result<Answered<V::Answer>> {
        self.ask(own, None, |desk| desk.call(verb))
    }

    /// As [`Self::call`], with the moment it was answered.
    pub(super) fn call_at<V: Verb>(&self, own: &Identity, verb: V) -> Result<(V::Answer, Timestamp)> {
        self.ask(own, None, |desk| Ok((desk.call(verb)?.answer, desk.now()?)))
    }

    /// Calls a verb that runs commands: other calls go on meanwhile, and cancelling this one ends them.
    pub(super) fn call_apart<V: Verb>(&self, own: &Identity, verb: V, call: &Call) -> Result<Answered<V::Answer>> {
        self.ask(own, Some(&call.cancellation()), |desk| desk.call(verb))
    }

    /// Calls a verb and tells its answer as people read it.
    pub(super) fn show(&self, own: &Identity, verb: &str, input: Value, call: Option<&Call>) -> Result<Called> {
        let found = self.texts.iter().find(|text| text.verb == verb);
        let found = found.ok_or_else(|| Error::internal(format!("{verb} has no text")))?;
        let runs_commands = verb::find(verb).is_some_and(|spec| spec.runs_commands);
        let cancellation = call.filter(|_| runs_commands).map(Call::cancellation);
        let answered = self.ask(own, cancellation.as_ref(), |desk| (found.call)(desk, input))?;
        Ok(self.called(answered, false))
    }

    /// An answer with its notes as the model reads them.
    pub(super) fn called(&self, answered: Answered<AnswerText>, is_fenced: bool) -> Called {
        Called {
            answer: answered.answer.value,
            text: answered.answer.text,
            is_fenced,
            next: self.texts(&answered.next),
            warnings: self.texts(&answered.warnings),
            marks: answered.marks,
            failed: answered.failed,
        }
    }

    fn ask<A>(
        &self,
        own: &Identity,
        apart: Option<&Cancellation>,
        ask: impl FnOnce(&mut Desk<'_>) -> Result<A>,
    ) -> Result<A> {
        let asked = match apart {
            None => self.with_office(|open| ask(&mut open.speak_as(own).desk())),
            Some(cancelled) => {
                self.apart(|open| ask(&mut open.speak_as(own).desk().cancelled_by(cancelled.interrupt())))
            }
        };
        asked.map_err(for_model)
    }

    /// Who this process speaks for, if that is known by now.
    pub(super) fn identity(&self) -> Result<Identity> {
        self.with_office(|open| self.identity_in(open))
    }

    fn identity_in(&self, open: &mut Opened) -> Result<Identity> {
        let mut known = locked(&self.known);
        if let Some((own, at)) = known.as_ref()
            && is_current(&open.office, own, *at)?
        {
            return Ok(own.clone());
        }
        let own = Identity::of_process(&open.speak_as(&self.station.own).desk(), &processes::above())?;
        *known = own.agent.is_some().then(|| (own.clone(), Instant::now()));
        Ok(own)
    }

    /// Who calls a tool, which shows that the agent is there: what its session holds is kept. Watching does not keep it.
    pub(super) fn arrive(&self) -> Result<Identity> {
        self.with_office(|open| {
            let own = self.identity_in(open)?;
            // That it fails stops nobody: what is lost is told to whoever finishes it.
            drop(open.speak_as(&own).desk().extend_held());
            Ok(own)
        })
    }

    /// Said once: the name this process speaks for also runs as a session that is not its own.
    pub(super) fn another(&self) -> Option<String> {
        let known = locked(&self.known).as_ref().map(|(own, _)| own.clone())?;
        let name = known.agent.filter(|_| known.session.is_none())?;
        let live = self.with_office(|open| Ok(views::live_session(open.office.store(), &name)?)).ok()??;
        if live.process != Presence::Running || self.told_of_another.swap(true, Ordering::Relaxed) {
            return None;
        }
        Some(format!(
            "{name} also runs as session {}, and what you take or answer is in its name; if you are somebody else, have a \
             name of your own: office action=register name={name} own_name=true",
            live.id
        ))
    }

    /// Who this process speaks for may have changed.
    pub(super) fn look_again(&self) {
        *locked(&self.known) = None;
    }

    /// What was shown is marked. If that fails it is shown once more, which is better than never.
    pub(super) fn confirm(&self, marks: Vec<Mark>) {
        drop(self.with_office(|open| {
            let own = self.identity_in(open)?;
            open.speak_as(&own).desk().confirm(marks)
        }));
    }

    pub(super) fn remember_claim(&self, number: MessageNo, token: Position) {
        locked(&self.tokens).insert(number, token);
    }

    /// The token of a claim that was made here and still holds. One that was lost, or followed by another claim, is not named:
    /// what holds then is decided by agent and session.
    pub(super) fn token(&self, own: &Identity, number: MessageNo) -> Option<Position> {
        let (agent, token) = (own.agent.as_ref()?, locked(&self.tokens).get(&number).copied()?);
        let held = self.with_office(|open| Ok(views::held_token(open.office.store(), agent, Some(number))?));
        let still_holds = held.is_ok_and(|held| held == Some(token));
        if !still_holds {
            locked(&self.tokens).remove(&number);
        }
        still_holds.then_some(token)
    }

    /// The newest record this office was heard to have, by its bell: a look at one small file.
    pub(super) fn last_rung(&self) -> Option<Position> {
        last_rung(&self.station.place().ok()?.path)
    }

    #[cfg(test)]
    pub(super) fn close(&self) {
        *locked(&self.kept) = None;
    }

    #[cfg(test)]
    pub(super) fn is_open(&self) -> bool {
        locked(&self.kept).is_some()
    }

    /// The newest record there is.
    pub(super) fn newest(&self) -> Option<Position> {
        self.with_office(|open| Ok(poste_core::office::head(open.office.store())?)).ok()
    }
}

/// A refusal says nothing against the connection. One that failed is opened again next time.
fn is_sound<T>(done: &Result<T>) -> bool {
    done.as_ref().err().is_none_or(|error| !error.is_office_fault)
}

fn is_current(office: &Office, own: &Identity, found_at: Instant) -> Result<bool> {
    let Some(session) = &own.session else { return Ok(found_at.elapsed() < LOOK_FOR_SESSION_PERIOD) };
    Ok(views::session_row(office.store(), session)?.is_some_and(|session| session.is_live()))
}

/// The error of a verb: what was stored before it is named, and a name is taken with a tool.
fn for_model(error: Error) -> Error {
    if error.code == Some(NO_SPEAKER) {
        return unnamed();
    }
    let stored = error.before.as_ref().map(|before| before.stored.clone()).unwrap_or_default();
    if hides_a_write(&stored, &error) { unshown(&stored, error) } else { error }
}

pub(super) fn unnamed() -> Error {
    Error::usage("this session has no name yet, so it can neither get nor send mail")
        .code("unnamed")
        .hint("take one: office action=register name=NAME role=ROLE; see who is there: office action=agents")
}
