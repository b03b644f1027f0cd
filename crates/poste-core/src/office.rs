//! The one API of every surface: open an office, propose changes, ask views.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::{self, FilePolicy};
use crate::error::Error;
use crate::fold::{Outcome, Verdict};
use crate::log::{Intent, Log, Position, Proposal, Sealed};
use crate::store::clock::Clock;
use crate::store::tables::Agent;
use crate::store::{LocalLog, Options, Store};
use crate::text::Name;
use crate::time::Timestamp;

/// One workspace's log and tables. Generic over the engine that orders the log.
#[derive(Debug)]
pub struct Office<L = LocalLog> {
    log: L,
}

impl<L: Log> Office<L> {
    pub fn over(log: L) -> Self {
        Self { log }
    }

    /// Makes proposals durable and answers each with what the fold decided.
    pub fn submit(&mut self, proposals: &[Proposal]) -> Result<Vec<Outcome>, Error> {
        let sealed = proposals.iter().map(Sealed::seal).collect::<Result<Vec<_>, _>>()?;
        self.log.append(sealed)
    }

    /// [`submit`](Self::submit) for one.
    pub fn propose(&mut self, proposal: &Proposal) -> Result<Outcome, Error> {
        let outcome = self.submit(std::slice::from_ref(proposal))?.pop();
        outcome.ok_or_else(|| Error::Damaged("the log gave no answer".to_owned()))
    }

    pub fn store(&self) -> &Store {
        self.log.store()
    }

    pub fn log(&self) -> &L {
        &self.log
    }

    pub fn log_mut(&mut self) -> &mut L {
        &mut self.log
    }
}

/// Where an office is and how to open it.
#[derive(Debug, Clone)]
pub struct Place {
    /// The `.poste` folder.
    pub path: PathBuf,
    pub clock: Arc<dyn Clock>,
    pub options: Options,
}

impl Place {
    /// Makes the office, or finds it there; any number of processes may do so at once. Says whether it was made.
    pub fn create(&self) -> Result<bool, Error> {
        LocalLog::create(&self.path, &self.clock, &self.options)
    }

    pub fn open(&self) -> Result<Office, Error> {
        Ok(Office { log: LocalLog::open(&self.path, self.clock.clone(), self.options.clone())? })
    }
}

/// Whether views are up to date with what was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    Yes,
    /// A tick could not be appended; views mark what it would change as unconfirmed.
    No,
}

impl Office<LocalLog> {
    /// Settles what is due before a view is read. A view is still worth reading when that fails.
    pub fn settle(&mut self) -> Result<Settled, Error> {
        match self.log.settle() {
            Ok(()) => Ok(Settled::Yes),
            Err(
                Error::ReadOnly(_)
                | Error::Busy { .. }
                | Error::NeedsUpgrade { .. }
                | Error::ClockLeap { .. }
                | Error::DiskFull { .. },
            ) => Ok(Settled::No),
            Err(error) => Err(error),
        }
    }

    /// The time views measure ages against: what the next record would say.
    pub fn now(&self) -> Result<Timestamp, Error> {
        Ok(self.log.reading()?.for_views())
    }

    /// Takes a leap of more than a day, in somebody's name.
    pub fn accept_clock(&mut self, actor: &Name) -> Result<Option<i64>, Error> {
        self.log.accept_clock(actor)
    }

    /// The sender's clock, for the envelope.
    pub fn wall(&self) -> Timestamp {
        self.log.clock().wall()
    }

    pub fn path(&self) -> Result<&Path, Error> {
        self.store().path().ok_or_else(|| Error::Damaged("the office has no folder".to_owned()))
    }

    pub fn agent(&self, name: &Name) -> Result<Option<Agent>, Error> {
        self.store().tables()?.agent(name.as_str())
    }

    /// Blocks until `look` finds something or the time is up. Looks whenever the office changed, and when
    /// something falls due, which no bell announces.
    pub fn wait_for<T>(
        &mut self,
        patience: Option<Duration>,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        // Armed before the first look: news that comes between look and wait rings the bell.
        let waiter = self.log.waiter();
        let deadline = patience.map(|patience| now_instant() + patience);
        loop {
            // It is time and the tick could not be appended: look all the same, and try again soon, not at once.
            let try_again = (self.settle()? == Settled::No).then(|| now_instant() + UNSETTLED_PERIOD);
            let seen = self.store().data_version()?;
            if let Some(found) = look(self)? {
                return Ok(Some(found));
            }
            loop {
                let left = deadline.map(|deadline| deadline.saturating_duration_since(now_instant()));
                if left.is_some_and(|left| left.is_zero()) {
                    return Ok(None);
                }
                // Asked anew each time: the log's time may have leapt while this process slept.
                let due_in = match try_again {
                    Some(at) => Some(at.saturating_duration_since(now_instant())),
                    None => self.due_in()?,
                };
                if due_in.is_some_and(|due| due.is_zero()) || self.store().data_version()? != seen {
                    break;
                }
                let pause = [left, due_in].into_iter().flatten().min().unwrap_or(Duration::MAX);
                waiter.pause(pause);
                // Nothing ever happens in a file that was deleted; better to say so than to wait for it.
                self.store().check_identity()?;
            }
        }
    }

    /// How long until something falls due; zero when it is time.
    fn due_in(&self) -> Result<Option<Duration>, Error> {
        let Some(due) = self.store().tables()?.next_due()? else { return Ok(None) };
        Ok(Some(Duration::from_millis(u64::try_from(due.since_ms(self.now()?)).unwrap_or(0))))
    }

    /// Proposes this machine's `poste.toml` if it differs from what this machine last proposed.
    ///
    /// It replaces the policy the file was last known to stand on. If another machine set one meanwhile, that is a
    /// clash, and the error names that machine.
    pub fn sync_policy(&mut self) -> Result<(), Error> {
        let path = self.path()?.with_file_name(config::FILE);
        let text = crate::store::read_config(&path)?;
        let tables = self.store().tables()?;
        let machine = self.store().machine()?;
        let last = tables.policy_last_proposed(&machine)?;
        let file = match &text {
            Some(text) => FilePolicy::parse(text, &path)?,
            None if last.is_none() => return Ok(()),
            None => FilePolicy::default(),
        };
        let in_force = tables.policy()?;
        // What this machine proposed itself it has seen, whether or not it lived to remember it.
        let own = tables.policy_version_of(&machine)?;
        drop(tables);
        let seen = self.store().policy_seen()?.max(own);
        let policy = file.into_policy(machine, crate::store::host_name(), seen);
        let digest = policy.digest();
        if digest == in_force.digest {
            // The file came to agree, for example by a pull: a later change of it stands on this version.
            return if seen == in_force.version { Ok(()) } else { self.log.see_policy(in_force.version) };
        }
        if last == Some(digest) {
            return Ok(()); // unchanged here; another machine's policy stands
        }
        let proposal = Proposal {
            id: crate::store::fresh_id()?,
            actor: Name::poste(),
            session: None,
            sent_at: self.wall(),
            intent: Intent::Policy(policy),
            content: None,
        };
        match self.propose(&proposal)?.verdict {
            Verdict::Accepted(_) => Ok(()),
            // Another process of this machine was faster with the same file.
            Verdict::Rejected(_) if self.store().tables()?.policy()?.digest == digest => Ok(()),
            Verdict::Rejected(rejection) => Err(rejection.into()),
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "waiting is measured on the machine, not in the log")]
fn now_instant() -> Instant {
    Instant::now()
}

/// How often a waiter tries again to settle what it could not.
const UNSETTLED_PERIOD: Duration = Duration::from_millis(100);

/// The end of the log, for cursors.
pub fn head(store: &Store) -> Result<Position, Error> {
    Ok(store.tables()?.cursor.head.position)
}
