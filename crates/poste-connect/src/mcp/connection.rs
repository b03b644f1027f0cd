//! The server's connection to the office: it stays open, knows the identity of this process and calls verbs as it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use poste_core::Timestamp;
use poste_core::log::{MessageNo, Position};
use poste_core::office::Office;
use poste_core::store::processes::{self, Presence};
use poste_core::store::{Folder, last_rung};
use poste_core::text::Name;
use poste_core::views;
use poste_verbs::actions::Carrier;
use poste_verbs::caller::Ids;
use poste_verbs::desk::{NO_SPEAKER, is_after_write, stored_but_not_shown};
use poste_verbs::session::Identity;
use poste_verbs::{Answered, Desk, Error, Mark, Note, Result, Verb, verb};
use serde_json::Value;

use super::notes;
use super::table::{Call, Cancellation};
use super::tools::Called;
use crate::person::run_above;
use crate::station::{Opened, Station};

/// A verb whose answer a tool shows as text. The command line provides the text.
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

/// An answer as JSON and as text.
#[derive(Debug, Default)]
pub struct AnswerText {
    pub value: Value,
    pub text: String,
}

#[derive(Debug)]
pub(super) struct Connection {
    station: Station,
    texts: &'static [VerbText],
    /// Stays open, because opening an office takes longer than most calls.
    kept: Mutex<Option<Opened>>,
    /// For calls that wait or run commands, so that others need not wait for them.
    spare: Mutex<Vec<Opened>>,
    /// The identity, and when it was found. Looked up again when its session has ended, or now and then without one.
    known: Mutex<Option<(Identity, Instant)>>,
    /// The name this process has, also after its session was closed: a model cannot become somebody else.
    name: Mutex<Option<Name>>,
    /// Whether the model was told that its agent also runs elsewhere.
    told_of_another: AtomicBool,
    /// How many calls wait for mail now.
    waiting: AtomicUsize,
    /// The tokens of claims made here, so that a model need not pass them.
    tokens: Mutex<HashMap<MessageNo, Position>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A hook may bind a session to the name at any time.
const LOOK_FOR_SESSION_PERIOD: Duration = Duration::from_secs(1);
const WAITING_MAX: usize = 16;
/// Spare connections that stay open.
const SPARE_MAX: usize = 2;

impl Connection {
    pub(super) fn new(station: Station, texts: &'static [VerbText]) -> Self {
        Self {
            station,
            texts,
            kept: Mutex::default(),
            spare: Mutex::default(),
            known: Mutex::default(),
            name: Mutex::default(),
            told_of_another: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            tokens: Mutex::default(),
        }
    }

    pub(super) fn ids(&self) -> &Ids {
        &self.station.host.ids
    }

    /// The notes that a model can act on, as text.
    pub(super) fn texts(&self, notes: &[Note]) -> Vec<String> {
        notes.iter().filter_map(|note| notes::text(note, self.station.command_line)).collect()
    }

    pub(super) fn error_text(&self, error: &Error) -> String {
        let mut lines = error.lines(|note| notes::text(note, self.station.command_line));
        let warnings = error.before.iter().flat_map(|before| self.texts(&before.warnings));
        lines.extend(warnings.map(|warning| format!("warning: {warning}")));
        lines.join("\n")
    }

    /// An error as JSON. Partial results are left out: they may contain text of other agents, which a model must only
    /// get fenced.
    pub(super) fn error_data(&self, error: &Error) -> Value {
        let mut data = error.data(|note| notes::text(note, self.station.command_line));
        data.remove("partial");
        Value::Object(data)
    }

    /// Uses the connection that stays open.
    pub(super) fn with_office<T>(&self, work: impl FnOnce(&mut Opened) -> Result<T>) -> Result<T> {
        let mut kept = locked(&self.kept);
        let mut open = self.usable(kept.take())?;
        let done = work(&mut open);
        if is_sound(&done) {
            *kept = Some(open);
        }
        done
    }

    /// Uses a separate connection, so that other calls need not wait.
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

    /// Reopens an office whose file was deleted or replaced.
    fn usable(&self, open: Option<Opened>) -> Result<Opened> {
        match open.filter(|open| open.office.store().check_identity().is_ok()) {
            Some(open) => Ok(open),
            None => self.station.open(),
        }
    }

    /// Carries out actions as this process's agent, as far as that is known.
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

    /// Calls a verb as this identity.
    pub(super) fn call<V: Verb>(&self, own: &Identity, verb: V) -> Result<Answered<V::Answer>> {
        self.ask(own, None, |desk| desk.call(verb))
    }

    /// Like [`Self::call`], with the time of the answer.
    pub(super) fn call_at<V: Verb>(&self, own: &Identity, verb: V) -> Result<(V::Answer, Timestamp)> {
        self.ask(own, None, |desk| Ok((desk.call(verb)?.answer, desk.now()?)))
    }

    /// Calls a verb that runs commands. Other calls need not wait for it, and cancelling it ends the commands.
    pub(super) fn call_apart<V: Verb>(&self, own: &Identity, verb: V, call: &Call) -> Result<Answered<V::Answer>> {
        self.ask(own, Some(&call.cancellation()), |desk| desk.call(verb))
    }

    /// Calls a verb and returns its answer as text.
    pub(super) fn show(&self, own: &Identity, verb: &str, input: Value, call: Option<&Call>) -> Result<Called> {
        let found = self.texts.iter().find(|text| text.verb == verb);
        let found = found.ok_or_else(|| Error::internal(format!("{verb} has no text")))?;
        let runs_commands = verb::find(verb).is_some_and(|spec| spec.runs_commands);
        let cancellation = call.filter(|_| runs_commands).map(Call::cancellation);
        let answered = self.ask(own, cancellation.as_ref(), |desk| (found.call)(desk, input))?;
        Ok(self.called(answered, false))
    }

    /// An answer with its notes as text for the model.
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

    /// Waits, unless too many calls do so already: each needs its own connection and thread.
    pub(super) fn waiting<T>(&self, wait: impl FnOnce() -> Result<T>) -> Result<T> {
        let waited = match self.waiting.fetch_add(1, Ordering::Relaxed) {
            others if others < WAITING_MAX => wait(),
            _ => Err(Error::refused(format!("{WAITING_MAX} calls wait for mail already")).code("waiting")),
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        waited
    }

    fn ask<A>(
        &self,
        own: &Identity,
        apart: Option<&Cancellation>,
        ask: impl FnOnce(&mut Desk<'_>) -> Result<A>,
    ) -> Result<A> {
        let asked = match apart {
            None => self.with_office(|open| ask(&mut open.act_as(own).desk())),
            Some(cancelled) => self.apart(|open| ask(&mut open.act_as(own).desk().cancelled_by(cancelled.interrupt()))),
        };
        asked.map_err(for_model)
    }

    /// The identity of this process, as far as it is known.
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
        let mut own = Identity::of_process(&open.act_as(&self.station.own).desk(), &processes::above())?;
        if own.session.is_none() {
            // A run does not lose its limits by starting a server of its own.
            own.session = run_above(&open.office).ok().flatten().map(|run| run.session);
        }
        *known = own.agent.is_some().then(|| (own.clone(), Instant::now()));
        if own.agent.is_some() {
            locked(&self.name).clone_from(&own.agent);
        }
        Ok(own)
    }

    /// The name that this process has or had.
    pub(super) fn name(&self) -> Option<Name> {
        locked(&self.name).clone()
    }

    /// The identity for a tool call. A call shows that the agent is there, so its session's leases are extended;
    /// watching does not extend them.
    pub(super) fn identity_of_call(&self) -> Result<Identity> {
        self.with_office(|open| {
            let own = self.identity_in(open)?;
            // If this fails, finishing a lost claim reports it.
            drop(open.act_as(&own).desk().extend_held());
            Ok(own)
        })
    }

    /// Warns once that the agent of this process also runs as a session that is not this one.
    pub(super) fn another(&self) -> Option<String> {
        let known = locked(&self.known).as_ref().map(|(own, _)| own.clone())?;
        let name = known.agent.filter(|_| known.session.is_none())?;
        let live = self.with_office(|open| Ok(views::live_session(open.office.store(), &name)?)).ok()??;
        if live.process != Presence::Running || self.told_of_another.swap(true, Ordering::Relaxed) {
            return None;
        }
        Some(format!(
            "{name} also runs as session {}, and what you claim or answer is in its name; if you are another agent, take \
             your own name: office action=register name={name} own_name=true",
            live.id
        ))
    }

    /// Forgets the identity, which may have changed.
    pub(super) fn look_again(&self) {
        *locked(&self.known) = None;
    }

    /// Marks what was shown. If that fails it is shown once more, which is better than never.
    pub(super) fn confirm(&self, marks: Vec<Mark>) {
        drop(self.with_office(|open| {
            let own = self.identity_in(open)?;
            open.act_as(&own).desk().confirm(marks)
        }));
    }

    pub(super) fn remember_claim(&self, number: MessageNo, token: Position) {
        locked(&self.tokens).insert(number, token);
    }

    /// The token of a claim made here that still holds. For a claim that was lost or followed by another one, agent and
    /// session decide instead.
    pub(super) fn token(&self, own: &Identity, number: MessageNo) -> Option<Position> {
        let (agent, token) = (own.agent.as_ref()?, locked(&self.tokens).get(&number).copied()?);
        let held = self.with_office(|open| Ok(views::held_token(open.office.store(), agent, Some(number))?));
        let still_holds = held.is_ok_and(|held| held == Some(token));
        if !still_holds {
            locked(&self.tokens).remove(&number);
        }
        still_holds.then_some(token)
    }

    /// The newest record according to the bell, which is one small file.
    pub(super) fn last_rung(&self) -> Option<Position> {
        last_rung(&Folder::open(&self.station.place().ok()?.path).ok()?)
    }

    #[cfg(test)]
    pub(super) fn close(&self) {
        *locked(&self.kept) = None;
    }

    #[cfg(test)]
    pub(super) fn is_open(&self) -> bool {
        locked(&self.kept).is_some()
    }

    /// The newest record in the log.
    pub(super) fn newest(&self) -> Option<Position> {
        self.with_office(|open| Ok(poste_core::office::head(open.office.store())?)).ok()
    }
}

/// Whether the connection can be kept. A refusal does not concern it; after a fault of the office it is opened again.
fn is_sound<T>(done: &Result<T>) -> bool {
    done.as_ref().err().is_none_or(|error| !error.is_office_fault)
}

fn is_current(office: &Office, own: &Identity, found_at: Instant) -> Result<bool> {
    let Some(session) = &own.session else { return Ok(found_at.elapsed() < LOOK_FOR_SESSION_PERIOD) };
    Ok(views::session_row(office.store(), session)?.is_some_and(|session| session.is_live()))
}

/// A verb's error, for a model: it names what was already stored, and the tool to take a name with.
fn for_model(error: Error) -> Error {
    if error.code == Some(NO_SPEAKER) {
        return unnamed();
    }
    let stored = error.before.as_ref().map(|before| before.stored.clone()).unwrap_or_default();
    if is_after_write(&stored, &error) { stored_but_not_shown(&stored, error) } else { error }
}

pub(super) fn unnamed() -> Error {
    Error::usage("this session has no name yet, so it can neither get nor send mail")
        .code("unnamed")
        .hint("take one: office action=register name=NAME role=ROLE; list the agents: office action=agents")
}
