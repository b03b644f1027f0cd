//! The office as the server sees it: one connection that stays open, who this process speaks for, and verbs called in its name.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use poste_core::Timestamp;
use poste_core::log::{MessageNo, Position};
use poste_core::office::Office;
use poste_core::store::last_rung;
use poste_core::store::processes::Presence;
use poste_core::store::schema::Schema;
use poste_core::views;
use poste_verbs::actions::Carrier;
use poste_verbs::caller::Ids;
use poste_verbs::{Answered, Mark, Verb};

use crate::Result;
use crate::cli::Global;
use crate::context::Cx;
use crate::error::CommandError;
use crate::identity::{self, Identity};

#[derive(Debug)]
pub(super) struct Connection {
    schema: Schema,
    office: Option<PathBuf>,
    ids: Ids,
    /// Opening an office takes longer than most calls.
    kept: Mutex<Option<Office>>,
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

impl Connection {
    pub(super) fn new(schema: Schema, office: Option<PathBuf>) -> Self {
        Self {
            schema,
            office,
            ids: Ids::default(),
            kept: Mutex::default(),
            known: Mutex::default(),
            told_of_another: AtomicBool::new(false),
            tokens: Mutex::default(),
        }
    }

    pub(super) fn ids(&self) -> &Ids {
        &self.ids
    }

    pub(super) fn cx(&self, own: &Identity) -> Result<Cx> {
        let global = Global {
            speaker: own.agent.clone(),
            session: own.session.clone(),
            office: self.office.clone(),
            ..Global::default()
        };
        Cx::new(global, "mcp", self.schema)
    }

    /// Works on the connection that stays open. One whose file is gone, or that failed, is opened again next time.
    pub(super) fn with_office<T>(&self, work: impl FnOnce(&mut Office) -> Result<T>) -> Result<T> {
        let mut kept = locked(&self.kept);
        let still_there = kept.take().filter(|office| office.store().check_identity().is_ok());
        let mut office = match still_there {
            Some(office) => office,
            None => self.open()?,
        };
        let done = work(&mut office)?;
        *kept = Some(office);
        Ok(done)
    }

    /// Carries out what is committed here in the name of whoever this process speaks for, as far as that is known.
    pub(super) fn carrier(&self) -> Carrier {
        let known = locked(&self.known).as_ref().map(|(own, _)| own.clone()).unwrap_or_default();
        Carrier { program: std::env::current_exe().ok(), caller: known.agent, session: known.session }
    }

    /// A connection of its own, for whoever waits on it.
    pub(super) fn open(&self) -> Result<Office> {
        Ok(self.cx(&Identity::default())?.place()?.open()?)
    }

    pub(super) fn now(&self) -> Result<Timestamp> {
        self.with_office(|office| Ok(office.now()?))
    }

    /// Calls a verb in the name of this process.
    pub(super) fn call<V: Verb>(&self, own: &Identity, verb: V) -> Result<Answered<V::Answer>> {
        let cx = self.cx(own)?;
        // A refusal says nothing against the connection.
        let called = self.with_office(|office| Ok(cx.ask(office, verb)))?;
        called.map_err(|error| match error.code {
            Some(crate::context::NO_SPEAKER) => unnamed(),
            _ => cx.unshown(error),
        })
    }

    /// Who this process speaks for, if that is known by now.
    pub(super) fn identity(&self) -> Result<Identity> {
        self.with_office(|office| {
            let mut known = locked(&self.known);
            if let Some((own, at)) = known.as_ref()
                && is_current(office, own, *at)?
            {
                return Ok(own.clone());
            }
            let own = identity::of_process(&self.cx(&Identity::default())?, office)?;
            *known = own.agent.is_some().then(|| (own.clone(), Instant::now()));
            Ok(own)
        })
    }

    /// Keeps what this session holds: for calls of tools, which show that the agent is there. Watching does not.
    ///
    /// That it fails stops nobody: what is lost is told to whoever finishes it.
    pub(super) fn keep_held(&self) {
        let kept = self.identity().and_then(|own| {
            let cx = self.cx(&own)?;
            self.with_office(|office| Ok(cx.with_desk(office, |desk| desk.extend_held())?))
        });
        drop(kept);
    }

    pub(super) fn named(&self) -> Result<Identity> {
        let own = self.identity()?;
        if own.agent.is_none() { Err(unnamed()) } else { Ok(own) }
    }

    /// Said once: the name this process speaks for also runs as a session that is not its own.
    pub(super) fn another(&self) -> Option<String> {
        let own = self.identity().ok()?;
        let name = own.agent.filter(|_| own.session.is_none())?;
        let live = self.with_office(|office| Ok(views::live_session(office.store(), &name)?)).ok()??;
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
        let confirmed = self.identity().and_then(|own| {
            let cx = self.cx(&own)?;
            self.with_office(|office| cx.confirm(office, marks))
        });
        if let Err(error) = confirmed {
            error.print(false);
        }
    }

    pub(super) fn remember_claim(&self, number: MessageNo, token: Position) {
        locked(&self.tokens).insert(number, token);
    }

    /// The token of a claim that was made here and still holds. One that was lost, or followed by another claim, is not named:
    /// what holds then is decided by agent and session.
    pub(super) fn token(&self, own: &Identity, number: MessageNo) -> Option<Position> {
        let (agent, token) = (own.agent.as_ref()?, locked(&self.tokens).get(&number).copied()?);
        let held = self.with_office(|office| Ok(views::held_token(office.store(), agent, Some(number))?));
        let still_holds = held.is_ok_and(|held| held == Some(token));
        if !still_holds {
            locked(&self.tokens).remove(&number);
        }
        still_holds.then_some(token)
    }

    /// The newest record this office was heard to have, by its bell: a look at one small file.
    pub(super) fn last_rung(&self) -> Option<Position> {
        let place = self.cx(&Identity::default()).and_then(|cx| cx.place()).ok()?;
        last_rung(&place.path)
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
        self.with_office(|office| Ok(poste_core::office::head(office.store())?)).ok()
    }
}

fn is_current(office: &Office, own: &Identity, found_at: Instant) -> Result<bool> {
    let Some(session) = &own.session else { return Ok(found_at.elapsed() < LOOK_FOR_SESSION_PERIOD) };
    Ok(views::session_row(office.store(), session)?.is_some_and(|session| session.is_live()))
}

pub(super) fn unnamed() -> CommandError {
    CommandError::usage("this session has no name yet, so it can neither get nor send mail")
        .code("unnamed")
        .hint("take one: office action=register name=NAME role=ROLE; see who is there: office action=agents")
}
