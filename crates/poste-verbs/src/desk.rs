//! An office and a caller together: what verbs work at, and what surrounds every proposal.

use poste_core::Office;
use poste_core::fold::{Code, Effect, Outcome, Verdict};
use poste_core::limits;
use poste_core::log::{Ack, Author, Content, ContextRead, Intent, MessageNo, Position, Proposal, Shown};
use poste_core::payload::PayloadSchemas;
use poste_core::progress::Progress;
use poste_core::store::Interrupt;
use poste_core::store::artifact::Worktree;
use poste_core::store::tables::Agent;
use poste_core::text::{Name, RecordId};
use poste_core::{Timestamp, views};

use crate::actions::{CarriedOut, Carrier};
use crate::answer::{Answered, Mark, Stored};
use crate::caller::{Caller, Host};
use crate::error::{Before, Error, Kind};
use crate::explain::explain;
use crate::verb::{Access, Verb};
use crate::{Note, Result};

/// The code of an error: it takes a name to speak, and none was given.
pub const NO_SPEAKER: &str = "no_speaker";

pub fn no_speaker() -> Error {
    Error::usage("who speaks? No name was given").code(NO_SPEAKER).hint(note!("pass " @Speaker))
}

/// Where a verb is carried out.
#[derive(Debug)]
pub struct Desk<'d> {
    pub office: &'d mut Office,
    pub caller: &'d Caller,
    pub host: &'d Host,
    watcher: Option<&'d mut dyn Watcher>,
    /// Of this machine's `poste.toml`, once that was brought into force: a verb that sends reads it once.
    schemas: Option<PayloadSchemas>,
    cancelled: Option<&'d Interrupt>,
    stored: Vec<Stored>,
    warnings: Vec<Note>,
    next: Vec<Note>,
}

/// Whoever follows a verb that takes long.
pub trait Watcher: std::fmt::Debug {
    /// How far counted work is.
    fn progress(&mut self, progress: Progress);

    /// Something starts that may take a while.
    fn begins(&mut self, what: &Note);
}

impl<'d> Desk<'d> {
    pub fn new(office: &'d mut Office, caller: &'d Caller, host: &'d Host) -> Self {
        Self {
            office,
            caller,
            host,
            watcher: None,
            schemas: None,
            cancelled: None,
            stored: Vec::new(),
            warnings: Vec::new(),
            next: Vec::new(),
        }
    }

    pub fn watched_by(self, watcher: &'d mut dyn Watcher) -> Self {
        Self { watcher: Some(watcher), ..self }
    }

    /// Commands that a verb runs end once this is raised.
    pub fn cancelled_by(self, cancelled: &'d Interrupt) -> Self {
        Self { cancelled: Some(cancelled), ..self }
    }

    /// Nobody waits for the answer any more.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_some_and(Interrupt::is_raised)
    }

    /// The office, and where to tell how far work on it is.
    pub fn watched_office(&mut self) -> (&mut Office, impl FnMut(Progress)) {
        let Self { office, watcher, .. } = self;
        let tell = move |progress| {
            if let Some(watcher) = watcher {
                watcher.progress(progress);
            }
        };
        (office, tell)
    }

    /// Tells whoever follows that something starts which may take a while.
    pub fn begins(&mut self, what: impl Into<Note>) {
        if let Some(watcher) = &mut self.watcher {
            watcher.begins(&what.into());
        }
    }

    /// Prepares the office for a verb and runs it.
    pub fn call<V: Verb>(&mut self, verb: V) -> Result<Answered<V::Answer>> {
        let answered = self.prepare::<V>().and_then(|()| verb.run(self));
        let mut carried_out = self.carry_out();
        let (stored, mut warnings) = (self.take_stored(), std::mem::take(&mut self.warnings));
        let next = std::mem::take(&mut self.next);
        match answered {
            Ok(mut answered) => {
                answered.stored = stored;
                answered.warnings.splice(..0, warnings);
                answered.next.splice(..0, next);
                answered.warnings.extend(carried_out.all_warnings());
                answered.next.extend(carried_out.next);
                answered.notes_mut().for_each(|note| note.comes_from(V::NAME));
                Ok(answered)
            }
            Err(mut error) => {
                warnings.extend(carried_out.all_warnings());
                error.notes_mut().chain(&mut warnings).for_each(|note| note.comes_from(V::NAME));
                Err(Error { before: Some(Box::new(Before { stored, warnings })), ..error })
            }
        }
    }

    /// Carries out what this office has committed and nobody has carried out yet. Calling a verb does so too: this is for
    /// surfaces that settle or wait themselves.
    pub fn carry_out(&mut self) -> CarriedOut {
        self.carrier().carry_out(self.office)
    }

    /// Who carries actions out: this process, in the caller's name.
    pub fn carrier(&self) -> Carrier {
        let (caller, session) = (self.caller.actor.clone(), self.caller.session.clone());
        Carrier { program: self.host.program.clone(), caller, session, via: self.caller.via, remote: false }
    }

    fn prepare<V: Verb>(&mut self) -> Result {
        match V::ACCESS {
            Access::Reads => {
                self.office.settle()?;
            }
            Access::Writes => {
                // Verbs look before they propose, and must not see what is over by now.
                self.office.settle()?;
                self.schemas = Some(poste_config::sync_policy(self.office)?);
                // Whoever starts or closes one knows.
                if !V::NAME.starts_with("session ") {
                    self.warn_of_session()?;
                }
            }
            Access::Administers => {}
        }
        Ok(())
    }

    /// A session that is over still has its mail taken: words must not be lost to that. But it is said.
    fn warn_of_session(&mut self) -> Result {
        let Some(id) = &self.caller.session else { return Ok(()) };
        if let Some(over) = views::session_over(self.office.store(), id)? {
            self.warnings.push(over.into());
        }
        Ok(())
    }

    pub fn warn(&mut self, note: impl Into<Note>) {
        self.warnings.push(note.into());
    }

    /// Says something beside the answer.
    pub fn say(&mut self, note: impl Into<Note>) {
        self.next.push(note.into());
    }

    /// Who speaks. Never a guess.
    pub fn speaker(&self) -> Result<Name> {
        self.caller.actor.clone().ok_or_else(no_speaker)
    }

    /// The speaker as a registered agent.
    pub fn agent(&self) -> Result<Agent> {
        self.caller.agent(self.office)
    }

    /// Whoever reads, if anybody says so.
    pub fn reader(&self) -> Result<Option<Agent>> {
        self.caller.actor.as_ref().map(|_| self.agent()).transpose()
    }

    /// The speaker as an agent mail can come to.
    pub fn active_agent(&self) -> Result<Agent> {
        self.caller.active_agent(self.office)
    }

    /// What marks a message as shown to the caller, if it is for them. Anybody else only looks.
    pub fn shown_mark(&self, number: MessageNo) -> Result<Option<Mark>> {
        let Some(reader) = self.reader()? else { return Ok(None) };
        let is_for_them = views::is_addressed_to(self.office.store(), &reader, number)?;
        Ok(is_for_them.then(|| Mark::Shown(vec![number])))
    }

    /// Whether a supervisor started whoever calls, and watches over it.
    pub fn is_in_run(&self) -> Result<bool> {
        let Some(session) = &self.caller.session else { return Ok(false) };
        Ok(views::run(self.office.store(), session)?.is_some_and(|run| run.how.is_none()))
    }

    /// A program that waited for an answer has it: to start it once more for that would never end.
    pub fn waited_for(&mut self, answer: MessageNo) -> Result {
        if self.is_in_run()? {
            let ack = self.proposal(Intent::Ack(Ack { message: answer }), None, None)?;
            // Refused: somebody saw to it already.
            self.propose(&ack)?;
        }
        Ok(())
    }

    /// The files the caller may touch.
    pub fn worktree(&self) -> Result<&'d Worktree> {
        let own = self.caller.files.own();
        own.ok_or_else(|| Error::refused("no files can be named here").code("no_files"))
    }

    pub fn now(&self) -> Result<Timestamp> {
        Ok(self.office.now()?)
    }

    pub fn fresh_id(&self) -> RecordId {
        self.host.ids.fresh(self.office.wall())
    }

    pub fn proposal(&self, intent: Intent, content: Option<Content>, id: Option<RecordId>) -> Result<Proposal> {
        Ok(self.proposal_as(self.speaker()?, intent, content, id))
    }

    /// In a name that is not the caller's: where a verb registers it, or speaks for the office itself.
    pub fn proposal_as(&self, actor: Name, intent: Intent, content: Option<Content>, id: Option<RecordId>) -> Proposal {
        let author = Author { actor, session: self.caller.session.clone(), via: self.caller.via };
        Proposal { id: id.unwrap_or_else(|| self.fresh_id()), ..self.office.proposal(&author, intent, content) }
    }

    /// Proposes and expects to be accepted.
    pub fn decide(&mut self, proposal: &Proposal) -> Result<(Outcome, Effect)> {
        let outcome = self.propose(proposal)?;
        match outcome.verdict.clone() {
            Verdict::Accepted(effect) => Ok((outcome, effect)),
            Verdict::Rejected(rejection) => Err(explain(self.office, proposal, rejection.into())?),
        }
    }

    /// Proposes, and remembers what was accepted.
    pub fn propose(&mut self, proposal: &Proposal) -> Result<Outcome, poste_core::Error> {
        let outcome = self.submit(std::slice::from_ref(proposal))?.pop();
        outcome.ok_or_else(|| poste_core::Error::Damaged("the log gave no answer".to_owned()))
    }

    /// Proposes several in one transaction, under the rules of this machine's files.
    pub fn submit(&mut self, proposals: &[Proposal]) -> Result<Vec<Outcome>, poste_core::Error> {
        let rules = poste_config::rules(self.office, proposals, self.schemas.as_ref())?;
        let outcomes = self.office.submit(proposals, &rules)?;
        for (proposal, outcome) in proposals.iter().zip(&outcomes) {
            self.remember(proposal, outcome);
        }
        Ok(outcomes)
    }

    fn remember(&mut self, proposal: &Proposal, outcome: &Outcome) {
        if let Verdict::Accepted(effect) = &outcome.verdict {
            let what = stored_text(proposal, outcome, effect);
            self.stored.push(Stored { what, id: Some(outcome.id.clone()) });
        }
    }

    /// What was accepted here, for whoever works at a desk without calling a verb.
    pub fn take_stored(&mut self) -> Vec<Stored> {
        std::mem::take(&mut self.stored)
    }

    /// Remembers a write that is no single record: it is done, whatever becomes of the answer.
    pub fn note_stored(&mut self, what: impl Into<String>) {
        self.stored.push(Stored { what: what.into(), id: None });
    }

    /// The record that the speaker wrote under an id, if it did: what takes time or looks at files is not done twice.
    pub fn recorded(&self, id: &RecordId) -> Result<Option<(Position, Intent)>> {
        Ok(views::record_of_id(self.office.store(), id, &self.speaker()?)?)
    }

    /// Whether something was stored under this id.
    pub fn is_known(&self, id: Option<&RecordId>) -> Result<bool> {
        Ok(id.map(|id| views::is_known_id(self.office.store(), id)).transpose()?.unwrap_or(false))
    }

    /// The ids that something was tried under: this one, and after refusals that the log keeps, the next ones.
    pub fn tried_ids(&self, id: &RecordId) -> Result<Vec<RecordId>> {
        let mut tried = Vec::new();
        let mut next = id.clone();
        while self.is_known(Some(&next))? {
            tried.push(next);
            next = id.then(tried.len() + 1);
        }
        Ok(tried)
    }

    /// The id to try under again after a refusal. A log that keeps refusals has used up those that were tried.
    pub fn free_id(&self, id: &RecordId) -> Result<RecordId> {
        let tried = self.tried_ids(id)?.len();
        Ok(if tried == 0 { id.clone() } else { id.then(tried + 1) })
    }

    /// Marks what was put before the caller, after it was. What was marked before stays marked.
    pub fn confirm(&mut self, marks: Vec<Mark>) -> Result {
        let confirmed = self.write_marks(marks);
        self.carry_out();
        confirmed
    }

    fn write_marks(&mut self, marks: Vec<Mark>) -> Result {
        for mark in marks {
            let intents = match mark {
                Mark::Shown(numbers) => {
                    let chunks = numbers.chunks(limits::SHOWN_MAX);
                    chunks.map(|chunk| Intent::Shown(Shown { messages: chunk.to_vec() })).collect()
                }
                Mark::ContextRead(name, version) => vec![Intent::ContextRead(ContextRead { name, version })],
            };
            for intent in intents {
                let proposal = self.proposal(intent, None, None)?;
                match poste_config::propose(self.office, &proposal)?.verdict {
                    Verdict::Accepted(_) => {}
                    Verdict::Rejected(rejection) if rejection.code == Code::NothingToDo => {}
                    Verdict::Rejected(rejection) => return Err(rejection.into()),
                }
            }
        }
        Ok(())
    }
}

fn stored_text(proposal: &Proposal, outcome: &Outcome, effect: &Effect) -> String {
    let id = &outcome.id;
    match effect {
        Effect::Sent(sent) => format!("message #{}, id {id}", sent.number),
        Effect::Claimed(claimed) => {
            let numbers: Vec<String> = claimed.items.iter().map(|item| format!("#{}", item.number)).collect();
            format!("the claim of {} with token {}, id {id}", numbers.join(", "), claimed.token)
        }
        _ => {
            let position = outcome.position.map(|position| format!(" at record {position}")).unwrap_or_default();
            format!("{}{position}, id {id}", proposal.intent.kind().name)
        }
    }
}

/// Something is committed, and what follows failed: that must not read as if nothing had been.
pub fn hides_a_write(stored: &[Stored], error: &Error) -> bool {
    !stored.is_empty() && error.kind == Kind::Internal
}

/// What to say instead of an error that [hides a write](hides_a_write).
pub fn unshown(stored: &[Stored], error: Error) -> Error {
    const NAMED_MAX: usize = 8;
    let mut what: Vec<&str> = stored.iter().take(NAMED_MAX).map(|stored| stored.what.as_str()).collect();
    if stored.len() > NAMED_MAX {
        what.push("and more");
    }
    let message = format!("stored, and could not be shown: {}", what.join("; "));
    let told = Error { hints: error.hints, ..Error::new(Kind::UnknownOutcome, message).cause(error.message) };
    let told = told.after(stored);
    match stored.iter().rev().find_map(|stored| stored.id.as_ref()) {
        Some(id) => told.hint(note!("do not write it again; see it: " [log why id, id = id])),
        None => told.hint("it is done; do not do it again"),
    }
}
