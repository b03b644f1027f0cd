//! An office and a caller together: what verbs work on, and what surrounds every proposal.

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

/// The code of an error: the call needs an agent, and none was named.
pub const NO_SPEAKER: &str = "no_speaker";

pub fn no_speaker() -> Error {
    Error::usage("no sender was given").code(NO_SPEAKER).hint(note!("pass " @Speaker))
}

/// The office that a verb runs on, and its caller.
#[derive(Debug)]
pub struct Desk<'d> {
    pub office: &'d mut Office,
    pub caller: &'d Caller,
    pub host: &'d Host,
    watcher: Option<&'d mut dyn Watcher>,
    /// The schemas of this machine's `poste.toml`, read once per verb that writes.
    schemas: Option<PayloadSchemas>,
    cancelled: Option<&'d Interrupt>,
    stored: Vec<Stored>,
    warnings: Vec<Note>,
    next: Vec<Note>,
}

/// Follows the progress of a slow verb.
pub trait Watcher: std::fmt::Debug {
    /// Reports the progress of counted work.
    fn progress(&mut self, progress: Progress);

    /// Reports the start of something that may take a while.
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

    /// Ends the commands of a verb once this is raised.
    pub fn cancelled_by(self, cancelled: &'d Interrupt) -> Self {
        Self { cancelled: Some(cancelled), ..self }
    }

    /// The caller no longer waits for the answer.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_some_and(Interrupt::is_raised)
    }

    /// The office, and a function that reports progress.
    pub fn watched_office(&mut self) -> (&mut Office, impl FnMut(Progress)) {
        let Self { office, watcher, .. } = self;
        let report = move |progress| {
            if let Some(watcher) = watcher {
                watcher.progress(progress);
            }
        };
        (office, report)
    }

    /// Reports the start of something that may take a while.
    pub fn begins(&mut self, what: impl Into<Note>) {
        if let Some(watcher) = &mut self.watcher {
            watcher.begins(&what.into());
        }
    }

    /// Prepares the office for a verb and runs it.
    pub fn call<V: Verb>(&mut self, verb: V) -> Result<Answered<V::Answer>> {
        match self.prepare(V::NAME, V::ACCESS).and_then(|()| verb.run(self)) {
            Ok(mut answered) => {
                let Answered { warnings, next, .. } = &mut answered;
                answered.stored = self.finish(warnings, next);
                answered.notes_mut().for_each(|note| note.comes_from(V::NAME));
                Ok(answered)
            }
            Err(error) => Err(self.finish_refused(V::NAME, error)),
        }
    }

    /// Carries out what the verb caused, and adds the notes made on the way to those of its answer. Returns what was
    /// stored. Not generic, or the program would have a copy for every verb.
    fn finish(&mut self, warnings: &mut Vec<Note>, next: &mut Vec<Note>) -> Vec<Stored> {
        let mut carried_out = self.carry_out();
        warnings.splice(..0, std::mem::take(&mut self.warnings));
        warnings.extend(carried_out.all_warnings());
        next.splice(..0, std::mem::take(&mut self.next));
        next.extend(carried_out.next);
        self.take_stored()
    }

    fn finish_refused(&mut self, verb: &'static str, mut error: Error) -> Error {
        // The hints of an error already say what to do next.
        let (mut warnings, mut next) = (Vec::new(), Vec::new());
        let stored = self.finish(&mut warnings, &mut next);
        error.notes_mut().chain(&mut warnings).for_each(|note| note.comes_from(verb));
        Error { before: Some(Box::new(Before { stored, warnings })), ..error }
    }

    /// Carries out the pending actions of this office's commits. Calling a verb does so too: this is for surfaces that
    /// settle or wait themselves.
    pub fn carry_out(&mut self) -> CarriedOut {
        self.carrier().carry_out(self.office)
    }

    /// Carries out actions in this process, in the caller's name.
    pub fn carrier(&self) -> Carrier {
        let (caller, session) = (self.caller.actor.clone(), self.caller.session.clone());
        Carrier { program: self.host.program.clone(), caller, session, via: self.caller.via, remote: false }
    }

    fn prepare(&mut self, verb: &str, access: Access) -> Result {
        match access {
            Access::Reads => {
                self.office.settle()?;
            }
            Access::Writes => {
                // Verbs look before they propose, and must not see leases and deadlines that have passed.
                self.office.settle()?;
                self.schemas = Some(poste_config::sync_policy(self.office)?);
                // Verbs that start or close a session need no warning.
                if !verb.starts_with("session ") {
                    self.warn_of_session()?;
                }
            }
            Access::Administers => {}
        }
        Ok(())
    }

    /// Warns if the caller's session has ended. Its mail is accepted all the same, so that nothing is lost.
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

    /// Adds a note to the answer.
    pub fn say(&mut self, note: impl Into<Note>) {
        self.next.push(note.into());
    }

    /// The calling agent. Never guessed.
    pub fn speaker(&self) -> Result<Name> {
        self.caller.actor.clone().ok_or_else(no_speaker)
    }

    /// The calling agent, which must be registered.
    pub fn agent(&self) -> Result<Agent> {
        self.caller.agent(self.office)
    }

    /// The calling agent, if one was named.
    pub fn reader(&self) -> Result<Option<Agent>> {
        self.caller.actor.as_ref().map(|_| self.agent()).transpose()
    }

    /// The calling agent, which must be active.
    pub fn active_agent(&self) -> Result<Agent> {
        self.caller.active_agent(self.office)
    }

    /// The mark that shows a message to the caller, if it is addressed to them.
    pub fn shown_mark(&self, number: MessageNo) -> Result<Option<Mark>> {
        let Some(reader) = self.reader()? else { return Ok(None) };
        let is_for_them = views::is_addressed_to(self.office.store(), &reader, number)?;
        Ok(is_for_them.then(|| Mark::Shown(vec![number])))
    }

    /// Whether a supervisor started the caller's program and still watches it.
    pub fn is_in_run(&self) -> Result<bool> {
        let Some(session) = &self.caller.session else { return Ok(false) };
        Ok(views::run(self.office.store(), session)?.is_some_and(|run| run.how.is_none()))
    }

    /// Acknowledges an answer that the caller's program waited for, so that no run is started for it.
    pub fn waited_for(&mut self, answer: MessageNo) -> Result {
        if self.is_in_run()? {
            let ack = self.proposal(Intent::Ack(Ack { message: answer }), None, None)?;
            // A refusal means that it was dealt with already.
            self.propose(&ack)?;
        }
        Ok(())
    }

    /// The worktree whose files the caller may use.
    pub fn worktree(&self) -> Result<&'d Worktree> {
        let own = self.caller.files.own();
        own.ok_or_else(|| {
            Error::refused("files cannot be named here: there is no project around this process")
                .code("no_files")
                .hint("start it in a git repository, or in the folder that holds the office; the home folder and / do not count")
        })
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

    /// A proposal in another agent's name: one that the verb registers, or the office itself.
    pub fn proposal_as(&self, actor: Name, intent: Intent, content: Option<Content>, id: Option<RecordId>) -> Proposal {
        let author =
            Author { actor, session: self.caller.session.clone(), via: self.caller.via, proof: self.caller.proof };
        Proposal { id: id.unwrap_or_else(|| self.fresh_id()), ..self.office.proposal(&author, intent, content) }
    }

    /// Proposes, and turns a refusal into an error.
    pub fn decide(&mut self, proposal: &Proposal) -> Result<(Outcome, Effect)> {
        let outcome = self.propose(proposal)?;
        match outcome.verdict.clone() {
            Verdict::Accepted(effect) => Ok((outcome, effect)),
            Verdict::Rejected(rejection) => Err(explain(self.office, proposal, rejection.into())?),
        }
    }

    /// Proposes, and notes what was accepted.
    pub fn propose(&mut self, proposal: &Proposal) -> Result<Outcome, poste_core::Error> {
        let outcome = self.submit(std::slice::from_ref(proposal))?.pop();
        outcome.ok_or_else(|| poste_core::Error::Damaged("the log did not answer".to_owned()))
    }

    /// Submits proposals in one transaction, under the rules of this machine's files.
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

    /// Takes the accepted writes, for surfaces that propose without calling a verb.
    pub fn take_stored(&mut self) -> Vec<Stored> {
        std::mem::take(&mut self.stored)
    }

    /// Notes a write that is not a single record. It is done, even if the answer fails.
    pub fn note_stored(&mut self, what: impl Into<String>) {
        self.stored.push(Stored { what: what.into(), id: None });
    }

    /// The record that the caller wrote under an id, if any: slow work is not repeated.
    pub fn recorded(&self, id: &RecordId) -> Result<Option<(Position, Intent)>> {
        Ok(views::record_of_id(self.office.store(), id, &self.speaker()?)?)
    }

    /// Whether something was stored under this id.
    pub fn is_known(&self, id: Option<&RecordId>) -> Result<bool> {
        Ok(id.map(|id| views::is_known_id(self.office.store(), id)).transpose()?.unwrap_or(false))
    }

    /// The ids of earlier tries: this one, and the next ones if the log kept refusals.
    pub fn tried_ids(&self, id: &RecordId) -> Result<Vec<RecordId>> {
        let mut tried = Vec::new();
        let mut next = id.clone();
        while self.is_known(Some(&next))? {
            tried.push(next);
            next = id.then(tried.len() + 1);
        }
        Ok(tried)
    }

    /// The id for the next try after a refusal. If the log keeps refusals, the earlier ids are used up.
    pub fn free_id(&self, id: &RecordId) -> Result<RecordId> {
        let tried = self.tried_ids(id)?.len();
        Ok(if tried == 0 { id.clone() } else { id.then(tried + 1) })
    }

    /// Records what was shown to the caller. Call it after printing; marks that exist already stay.
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

/// Whether this error came after a commit and must not read as if nothing was stored. A disk that became read-only
/// refuses the next read as it would have refused the write.
pub fn is_after_write(stored: &[Stored], error: &Error) -> bool {
    let is_of_disk = error.kind == Kind::Refused && error.is_office_fault;
    !stored.is_empty() && (error.kind == Kind::Internal || is_of_disk)
}

/// The error to show instead of one that came [after a write](is_after_write).
pub fn stored_but_not_shown(stored: &[Stored], error: Error) -> Error {
    const NAMED_MAX: usize = 8;
    let mut what: Vec<&str> = stored.iter().take(NAMED_MAX).map(|stored| stored.what.as_str()).collect();
    if stored.len() > NAMED_MAX {
        what.push("and more");
    }
    let message = format!("stored, but the answer could not be shown: {}", what.join("; "));
    let shown = Error { hints: error.hints, ..Error::new(Kind::UnknownOutcome, message).cause(error.message) };
    let shown = shown.after(stored);
    match stored.iter().rev().find_map(|stored| stored.id.as_ref()) {
        Some(id) => shown.hint(note!("do not repeat it; see it: " [log why id, id = id])),
        None => shown.hint("it is done; do not repeat it"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_disk_that_becomes_read_only_after_a_write_does_not_deny_the_write() {
        let stored = [Stored { what: "message #1".to_owned(), id: None }];
        let unreadable =
            || Error::from(poste_core::Error::io(Path::new("blob"), io::ErrorKind::ReadOnlyFilesystem.into()));
        assert_eq!(unreadable().kind, Kind::Refused);
        assert!(is_after_write(&stored, &unreadable()));
        assert!(!is_after_write(&[], &unreadable()));
        assert!(!is_after_write(&stored, &Error::refused("it is claimed by another agent")));
        assert_eq!(stored_but_not_shown(&stored, unreadable()).kind, Kind::UnknownOutcome);
    }
}
