//! The office as the server sees it: one connection that stays open, who this process speaks for, and commands run in its name.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use poste_core::log::{MessageNo, Position};
use poste_core::office::Office;
use poste_core::store::processes::Presence;
use poste_core::store::schema::Schema;
use poste_core::store::{last_rung, processes};
use poste_core::text::{Name, Session};
use poste_core::views;

use crate::Result;
use crate::call::{self, Called, Caller};
use crate::cli::Global;
use crate::context::{Cx, Mark};
use crate::error::{CommandError, Kind};
use crate::identity::{self, Identity};
use crate::leases;

#[derive(Debug)]
pub(super) struct Desk {
    schema: Schema,
    office: Option<PathBuf>,
    /// Opening an office takes longer than most calls.
    kept: Mutex<Option<Office>>,
    /// One more for the next command, which closes it when it ends.
    spare: Mutex<Option<Office>>,
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

impl Desk {
    pub(super) fn new(schema: Schema, office: Option<PathBuf>) -> Self {
        Self {
            schema,
            office,
            kept: Mutex::default(),
            spare: Mutex::default(),
            known: Mutex::default(),
            told_of_another: AtomicBool::new(false),
            tokens: Mutex::default(),
        }
    }

    /// Opens what the next command needs, while nobody waits for it.
    pub(super) fn prepare(&self) {
        if locked(&self.spare).is_none()
            && let Ok(office) = self.open()
        {
            *locked(&self.spare) = Some(office);
        }
    }

    pub(super) fn cx(&self, own: &Identity) -> Result<Cx> {
        Cx::new(self.caller(own).global(Global::default()), "mcp", self.schema)
    }

    /// Works on the connection that stays open. Whenever something fails it is opened anew next time.
    pub(super) fn with_office<T>(&self, work: impl FnOnce(&Cx, &mut Office) -> Result<T>) -> Result<T> {
        let cx = self.cx(&Identity::default())?;
        let mut kept = locked(&self.kept);
        let still_there = kept.take().filter(|office| office.store().check_identity().is_ok());
        let mut office = match still_there {
            Some(office) => office,
            None => cx.place()?.open()?,
        };
        office.settle()?;
        let done = work(&cx, &mut office)?;
        *kept = Some(office);
        Ok(done)
    }

    /// A connection of its own, for whoever waits on it.
    pub(super) fn open(&self) -> Result<Office> {
        Ok(self.cx(&Identity::default())?.place()?.open()?)
    }

    /// Who this process speaks for, if that is known by now.
    pub(super) fn identity(&self) -> Result<Identity> {
        self.with_office(|cx, office| {
            let mut known = locked(&self.known);
            let own = match known.take() {
                Some((own, at)) if is_current(office, &own, at)? => {
                    *known = Some((own.clone(), at));
                    own
                }
                _ => {
                    let own = identity::of_process(cx, office)?;
                    *known = own.agent.is_some().then(|| (own.clone(), Instant::now()));
                    own
                }
            };
            Ok(own)
        })
    }

    /// Keeps what this session holds: for calls of tools, which show that the agent is there. Watching does not.
    ///
    /// That it fails stops nobody: what is lost is told to whoever finishes it.
    pub(super) fn keep_held(&self) {
        let kept = self.identity().and_then(|own| self.with_office(|cx, office| leases::extend_held(cx, office, &own)));
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
        let live = self.with_office(|_, office| Ok(views::live_session(office.store(), &name)?)).ok()??;
        if live.process != Presence::Running || self.told_of_another.swap(true, Ordering::Relaxed) {
            return None;
        }
        Some(format!(
            "{name} also runs as session {}, and what you take or answer is in its name; if you are somebody else, have a \
             name of your own: poste args [\"session\", \"start\", \"--own-name\"]",
            live.id
        ))
    }

    /// Who this process speaks for may have changed.
    pub(super) fn look_again(&self) {
        *locked(&self.known) = None;
    }

    pub(super) fn caller(&self, own: &Identity) -> Caller {
        Caller {
            schema: self.schema,
            speaker: own.agent.clone(),
            session: own.session.clone(),
            office: self.office.clone(),
        }
    }

    /// Runs `poste ARGUMENTS`.
    pub(super) fn run(&self, own: &Identity, arguments: Vec<String>) -> Called {
        let spare = locked(&self.spare).take();
        call::call_with(&self.caller(own), spare, arguments)
    }

    /// What was shown is marked. If that fails it is shown once more, which is better than never.
    pub(super) fn mark(&self, own: &Identity, marks: Vec<Mark>) {
        let marked = self.cx(own).and_then(|cx| {
            self.with_office(|_, office| marks.into_iter().try_for_each(|mark| cx.mark_now(office, mark)))
        });
        if let Err(error) = marked {
            error.print(false);
        }
    }

    /// Gives this process a name: registers it, and starts a session that lives as long as the program above.
    ///
    /// The session has the program's own id, if that is known and no session of this office has it yet.
    pub(super) fn register(
        &self,
        name: &Name,
        arguments: Vec<String>,
        session: Vec<String>,
        id: Option<Session>,
    ) -> Called {
        let own = Identity { agent: Some(name.clone()), session: None };
        let mut registered = self.run(&own, arguments);
        if registered.error.is_some() {
            return registered;
        }
        let mut start = vec!["session".to_owned(), "start".to_owned(), "--root".to_owned()];
        start.extend(processes::who_started().map(|pid| format!("--pid={pid}")));
        start.extend(session);
        let is_new = |id: &Session| self.with_office(|_, office| Ok(views::session(office.store(), id)?.is_none()));
        start.extend(id.filter(|id| is_new(id).unwrap_or(false)).map(|id| format!("--name={id}")));
        let started = self.run(&own, start);
        self.look_again();
        registered.warnings.extend(started.warnings);
        registered.talk = match &started.error {
            Some(_) => Vec::new(),
            None => started.talk,
        };
        registered.error = started.error.map(|error| own_hints(error, name));
        registered
    }

    pub(super) fn remember_claim(&self, number: MessageNo, token: Position) {
        locked(&self.tokens).insert(number, token);
    }

    /// The token of a claim that was made here and still holds. One that was lost, or followed by another claim, is not named:
    /// what holds then is decided by agent and session.
    pub(super) fn token(&self, own: &Identity, number: MessageNo) -> Option<Position> {
        let (agent, token) = (own.agent.as_ref()?, locked(&self.tokens).get(&number).copied()?);
        let held = self.with_office(|_, office| Ok(views::held_token(office.store(), agent, Some(number))?));
        let still_holds = held.is_ok_and(|held| held == Some(token));
        if !still_holds {
            self.forget_claim(number);
        }
        still_holds.then_some(token)
    }

    /// The newest record this office was heard to have, by its bell: a look at one small file.
    pub(super) fn last_rung(&self) -> Option<Position> {
        let place = self.cx(&Identity::default()).and_then(|cx| cx.place()).ok()?;
        last_rung(&place.path)
    }

    #[cfg(test)]
    pub(super) fn is_open(&self) -> bool {
        locked(&self.kept).is_some()
    }

    /// The newest record there is.
    pub(super) fn newest(&self) -> Option<Position> {
        self.with_office(|_, office| Ok(office.store().tables()?.cursor.head.position)).ok()
    }

    pub(super) fn forget_claim(&self, number: MessageNo) {
        locked(&self.tokens).remove(&number);
    }
}

fn is_current(office: &Office, own: &Identity, found_at: Instant) -> Result<bool> {
    let Some(session) = &own.session else { return Ok(found_at.elapsed() < LOOK_FOR_SESSION_PERIOD) };
    Ok(office.store().tables()?.session(session)?.is_some_and(|session| session.is_live()))
}

pub(super) fn unnamed() -> CommandError {
    CommandError::usage("this session has no name yet, so it can neither get nor send mail")
        .code("unnamed")
        .hint("take one with the tool poste, args [\"register\", \"NAME\", \"--role\", \"ROLE\"]; see who is there: args [\"agents\"]")
}

/// A name that is in use: the ways on that can be gone from here.
fn own_hints(error: CommandError, name: &Name) -> CommandError {
    if error.code != Some("session_live") {
        return error;
    }
    CommandError::new(Kind::Conflict, error.message)
        .code("session_live")
        .hint(format!("run beside it under a name of its own: args [\"register\", \"{name}\", \"--own-name\"]"))
        .hint(format!("or go on in its place, if that one is over: args [\"register\", \"{name}\", \"--take-over\"]"))
}
