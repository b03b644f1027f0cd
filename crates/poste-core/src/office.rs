//! The one API of every surface: open an office, propose changes, ask views.

mod rules;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use rules::Rules;

use crate::error::Error;
use crate::fold::{Action, Outcome, Rejection, Verdict, foresee};
use crate::log::{Archive, Author, Content, Head, Intent, Position, Proposal, Record, Sealed, Sequencer, advance_id};
use crate::payload::Validators;
use crate::store::archive::{Archives, Line, Written};
use crate::store::clock::{Boot, Clock};
use crate::store::mirror::{self, Mirror, TakenOver};
use crate::store::session_pages;
use crate::store::tables::{Agent, Changes};
use crate::store::waiters::Waiter;
use crate::store::{
    Erased, Follower, Interest, Interrupt, LocalLog, OfficeFiles, Options, Store, WriteGuard, fresh_id,
};
use crate::text::{ContextName, Label, Name, RecordId};
use crate::time::Timestamp;
use crate::views::ArchiveBatch;

/// One workspace's log and tables, whatever orders the log.
#[derive(Debug)]
pub struct Office {
    order: Order,
    validators: Validators,
}

/// What gives records their positions.
#[derive(Debug)]
enum Order {
    /// This machine: append and fold are one transaction.
    Here(LocalLog),
    /// An engine for many machines: records are published there, pulled from there and folded here.
    Followed(Follower),
}

impl Order {
    fn files(&self) -> &OfficeFiles {
        match self {
            Self::Here(log) => &log.files,
            Self::Followed(follower) => &follower.files,
        }
    }
}

impl Office {
    fn over(order: Order) -> Self {
        Self { order, validators: Validators::default() }
    }

    /// An office in memory that follows a log.
    pub fn follow_in_memory(
        machine: &str,
        clock: Arc<dyn Clock>,
        sequencer: Box<dyn Sequencer>,
    ) -> Result<Self, Error> {
        Ok(Self::over(Order::Followed(Follower::in_memory(machine, clock, sequencer)?)))
    }

    /// Makes proposals durable and answers each with what the fold decided. One that the rules do not let through is
    /// refused alone, before the append.
    pub fn submit(&mut self, proposals: &[Proposal], rules: &Rules) -> Result<Vec<Outcome>, Error> {
        let unfit = self.unfit(proposals, rules)?;
        let mut sealed = Vec::with_capacity(proposals.len());
        for (proposal, unfit) in proposals.iter().zip(&unfit) {
            if unfit.is_none() {
                sealed.push(Sealed::seal(proposal, self.store().machine()?)?);
            }
        }
        if sealed.len() == proposals.len() {
            return self.append(sealed);
        }
        let decided = if sealed.is_empty() { Vec::new() } else { self.append(sealed)? };
        let at = self.head()?.at;
        let mut decided = decided.into_iter();
        let outcomes = proposals.iter().zip(unfit).filter_map(|(proposal, unfit)| match unfit {
            None => decided.next(),
            Some(rejection) => Some(unwritten(proposal, rejection, at)),
        });
        Ok(outcomes.collect())
    }

    fn append(&mut self, sealed: Vec<Sealed>) -> Result<Vec<Outcome>, Error> {
        match &mut self.order {
            Order::Here(log) => log.append(sealed),
            Order::Followed(follower) => follower.append(sealed),
        }
    }

    /// A proposal under a fresh id. A caller with an id of its own sets it afterwards.
    pub fn proposal(&self, author: &Author, intent: Intent, content: Option<Content>) -> Proposal {
        let Author { actor, session, via } = author.clone();
        Proposal { id: fresh_id(), actor, session, via, sent_at: self.wall(), intent, content }
    }

    /// [`submit`](Self::submit) for one.
    pub fn propose(&mut self, proposal: &Proposal, rules: &Rules) -> Result<Outcome, Error> {
        let outcome = self.submit(std::slice::from_ref(proposal), rules)?.pop();
        outcome.ok_or_else(|| Error::Damaged("the log gave no answer".to_owned()))
    }

    /// [`propose`](Self::propose) for what Poste proposes by itself, each time it looks: a log that keeps refusals would grow
    /// with every look. What the fold would refuse now is refused here, and not published.
    pub fn propose_unless_refused(&mut self, proposal: &Proposal, rules: &Rules) -> Result<Outcome, Error> {
        match self.foresee(proposal)? {
            None => self.propose(proposal, rules),
            Some(rejection) => Ok(unwritten(proposal, rejection, self.head()?.at)),
        }
    }

    /// Why the fold would refuse a proposal now, on a log that keeps refusals. Any other drops them by itself.
    pub fn foresee(&mut self, proposal: &Proposal) -> Result<Option<Rejection>, Error> {
        // By tables that are not up to date nothing is foreseen.
        if !self.follows() || self.settle()? == Settled::No {
            return Ok(None);
        }
        let (position, at) = (self.head()?.position.next(), self.now()?);
        let record = Record { position, at, sealed: Sealed::seal(proposal, self.store().machine()?)? };
        foresee(&self.store().tables()?, &record)
    }

    pub fn store(&self) -> &Store {
        self.files().store()
    }

    fn files(&self) -> &OfficeFiles {
        self.order.files()
    }

    fn files_mut(&mut self) -> &mut OfficeFiles {
        match &mut self.order {
            Order::Here(log) => &mut log.files,
            Order::Followed(follower) => &mut follower.files,
        }
    }

    /// The id of this machine in this office. A copy of the folder has another one.
    pub fn machine(&self) -> Result<&Label, Error> {
        self.store().machine()
    }

    /// Keeps every writer out until the guard is dropped.
    pub fn lock(&self) -> Result<Option<WriteGuard>, Error> {
        self.files().hold()
    }

    /// Remembers that this machine's `poste.toml` stands on this policy version.
    pub fn see_policy(&mut self, version: u64) -> Result<(), Error> {
        self.files_mut().see_policy(version)
    }

    /// The id for what advances a workflow, so that whoever else sees the same thing to do proposes it under the same one.
    /// Anything else gets an id nobody has.
    pub fn advance_id(&self, intent: &Intent) -> Result<RecordId, Error> {
        match advance_id(intent) {
            Some(base) => self.free_id(&base),
            None => Ok(fresh_id()),
        }
    }

    /// The first id that nobody has taken: this one, or the next after it.
    pub fn free_id(&self, base: &str) -> Result<RecordId, Error> {
        self.store().tables()?.next_id(base)
    }

    /// The newest record that is folded here.
    pub fn head(&self) -> Result<Head, Error> {
        Ok(self.store().tables()?.cursor.head)
    }

    /// Writes a copy of log and tables, sound by itself, to a new file; says where it ends.
    pub fn snapshot(&self, into: &Path) -> Result<Head, Error> {
        self.store().copy_into(into)?;
        Ok(Store::open_copy(into)?.tables()?.cursor.head)
    }

    /// Whether another engine orders the log, for many machines.
    pub fn follows(&self) -> bool {
        matches!(self.order, Order::Followed(_))
    }

    /// Folds what was published elsewhere. An office that orders its own log has nothing to follow.
    pub fn follow(&mut self) -> Result<(), Error> {
        match &mut self.order {
            Order::Here(_) => Ok(()),
            Order::Followed(follower) => follower.follow(),
        }
    }
}

/// The answer to a proposal that was refused before the append.
fn unwritten(proposal: &Proposal, rejection: Rejection, at: Timestamp) -> Outcome {
    let verdict = Verdict::Rejected(rejection);
    Outcome { id: proposal.id.clone(), position: None, at, repeat: false, verdict }
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
        let log = LocalLog::open(&self.path, self.clock.clone(), self.options.clone())?;
        Ok(Office::over(Order::Here(log)))
    }

    /// The files alone, whatever orders the log: nothing can be proposed through them.
    pub(crate) fn open_files(&self) -> Result<OfficeFiles, Error> {
        OfficeFiles::open(&self.path, self.clock.clone(), self.options.clone())
    }

    /// Makes an office that follows a log, or finds it there. Says whether it was made.
    pub fn create_following(&self) -> Result<bool, Error> {
        Follower::create(&self.path, &self.options)
    }

    /// Opens an office that follows a log.
    pub fn open_following(&self, sequencer: Box<dyn Sequencer>) -> Result<Office, Error> {
        let follower = Follower::open(&self.path, self.clock.clone(), self.options.clone(), sequencer)?;
        Ok(Office::over(Order::Followed(follower)))
    }
}

/// Whether views are up to date with what was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    Yes,
    /// A tick could not be appended; views mark what it would change as unconfirmed.
    No,
}

impl Office {
    /// Settles what is due before a view is read. A view is still worth reading when that fails.
    pub fn settle(&mut self) -> Result<Settled, Error> {
        let settled = match &mut self.order {
            Order::Here(log) => log.settle(),
            Order::Followed(follower) => follower.settle(Duration::ZERO),
        };
        match settled {
            Ok(()) => Ok(Settled::Yes),
            Err(
                Error::ReadOnly(_)
                | Error::Busy { .. }
                | Error::WalFull { .. }
                | Error::Lost { .. }
                | Error::NeedsUpgrade { .. }
                | Error::ClockLeap { .. }
                | Error::DiskFull { .. }
                | Error::Unreachable { .. },
            ) => Ok(Settled::No),
            Err(error) => Err(error),
        }
    }

    /// As [`settle`](Self::settle), for somebody who would rather wait for the lock, and hear why it failed.
    pub(crate) fn settle_patiently(&mut self) -> Result<(), Error> {
        let patience = self.store().options().lock_timeout;
        match &mut self.order {
            Order::Here(log) => log.settle_patiently(),
            Order::Followed(follower) => follower.settle(patience),
        }
    }

    /// What the records that were committed through this office ask to be done, ticks included, since the last call. Whoever
    /// committed them carries it out.
    pub fn take_actions(&mut self) -> Vec<Action> {
        self.take_changes().into_actions()
    }

    /// As [`take_actions`](Self::take_actions), with whom the changes concern.
    pub fn take_changes(&mut self) -> Changes {
        self.files_mut().take_changes()
    }

    /// The time views measure ages against: what the next record would say.
    pub fn now(&self) -> Result<Timestamp, Error> {
        match &self.order {
            Order::Here(log) => Ok(log.files.reading()?.for_views()),
            // What the engine's clock says only the engine knows; views make do with this machine's.
            Order::Followed(_) => Ok(self.head()?.at.max(self.wall())),
        }
    }

    /// Erases what was redacted from every file of the folder; the record alone only takes it out of the tables.
    pub fn erase(&mut self) -> Result<Erased, Error> {
        self.files_mut().erase()
    }

    /// Brings the mirror of a shared context up to the log; an edit by hand is left alone, unless it is to be dropped.
    pub fn mirror(&self, name: &ContextName, drop_edit: bool) -> Result<Option<Mirror>, Error> {
        mirror::write(self.store(), name, drop_edit)
    }

    /// Lets a mirror follow the log again after the text that was edited in it was stored.
    pub fn take_over_mirror(&self, name: &ContextName, made_from: u64, edited: &str) -> Result<TakenOver, Error> {
        mirror::take_over(self.store(), name, made_from, edited)
    }

    /// Everything that was ever redacted, once more.
    pub fn erase_all(&mut self) -> Result<Erased, Error> {
        self.files_mut().erase_all()
    }

    /// Writes finished conversations to a file of the archive. The record that names it must follow, or
    /// [`discard_archive`](Self::discard_archive).
    pub fn write_archive(&self, batch: &ArchiveBatch) -> Result<Archive, Error> {
        let archives = self.archives()?;
        // Nobody erases meanwhile, so whoever does finds whole files, or what the dead have left.
        let _guard = self.files().hold()?;
        let lines = without_redacted(self.store(), &batch.lines)?;
        let head = head(self.store())?;
        let day = &self.now()?.to_string()[..10];
        // Two who archive at the same moment, or one who died there before, must not share a name.
        for attempt in 1..=ARCHIVE_NAMES_MAX {
            let more = if attempt == 1 { String::new() } else { format!("-{attempt}") };
            let file = format!("{day}-{head}{more}.jsonl");
            if let Some(written) = archives.write(&file, &lines)? {
                let conversations = batch.conversations.clone();
                let Written { lines, digest } = written;
                return Ok(Archive { file, conversations, as_of: batch.as_of, lines, digest });
            }
        }
        Err(Error::Damaged(format!("the archive folder is full of files of record {head}")))
    }

    /// Takes a file back whose record was refused. One that a record names all the same is somebody else's by now.
    pub fn discard_archive(&self, archive: &Archive) -> Result<(), Error> {
        let archives = self.archives()?;
        let _guard = self.files().hold()?;
        match self.store().tables()?.has_archive_file(&archive.file)? {
            true => Ok(()),
            false => archives.discard(&archive.file),
        }
    }

    /// Writes the page of a closed session, made from the log by whoever renders it. What was redacted meanwhile is not
    /// in it: nobody erases while it is rendered and written.
    pub fn write_session_page<E: From<Error>>(
        &self,
        name: &str,
        render: impl FnOnce(&Store) -> Result<String, E>,
    ) -> Result<PathBuf, E> {
        let path = self.path()?;
        let _guard = self.files().hold()?;
        Ok(session_pages::write(path, name, &render(self.store())?)?)
    }

    fn archives(&self) -> Result<&Archives, Error> {
        self.store().archives().ok_or_else(|| Error::Damaged("the office has no folder".to_owned()))
    }

    /// Takes a leap of more than a day, in somebody's name.
    pub fn accept_clock(&mut self, actor: &Name) -> Result<Option<i64>, Error> {
        match &mut self.order {
            Order::Here(log) => log.accept_clock(actor),
            Order::Followed(_) => Ok(None), // the engine's clock leaps, or does not
        }
    }

    /// The sender's clock, for the envelope.
    pub fn wall(&self) -> Timestamp {
        self.files().clock().wall()
    }

    /// The clock that nobody sets and that goes on while the machine sleeps: what a lease is guarded by.
    pub fn boot(&self) -> Boot {
        self.files().clock().boot()
    }

    pub fn path(&self) -> Result<&Path, Error> {
        self.store().path().ok_or_else(|| Error::Damaged("the office has no folder".to_owned()))
    }

    pub fn agent(&self, name: &Name) -> Result<Option<Agent>, Error> {
        self.store().tables()?.agent(name.as_str())
    }

    /// Blocks until `look` finds something or the time is up. Looks whenever what the interest names has changed, when
    /// something falls due, which no ring announces, and every few seconds if the office has changed at all.
    pub fn wait_for<T>(
        &mut self,
        interest: &Interest,
        patience: Option<Duration>,
        look: impl FnMut(&mut Self) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        self.wait_unless(interest, patience, Stop::Never, look)
    }

    /// As [`wait_for`](Self::wait_for), but gives up when it is to end.
    pub fn wait_unless<T>(
        &mut self,
        interest: &Interest,
        patience: Option<Duration>,
        stop: Stop<'_>,
        look: impl FnMut(&mut Self) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        let mut waiter = self.files().take_waiter()?;
        let found = self.wait_as(&mut waiter, interest, patience, stop, look);
        self.files().keep_waiter(waiter);
        found
    }

    fn wait_as<T>(
        &mut self,
        waiter: &mut Waiter,
        interest: &Interest,
        patience: Option<Duration>,
        stop: Stop<'_>,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        let deadline = patience.map(|patience| now_instant() + patience);
        loop {
            // It is time and the tick could not be appended: look all the same, and try again soon, not at once.
            let unsettled = (self.settle()? == Settled::No).then_some(UNSETTLED_PERIOD);
            // No bell rings here for what is published elsewhere.
            let period = unsettled.or_else(|| self.follows().then_some(FOLLOW_PERIOD));
            let try_again = period.map(|period| now_instant() + period);
            // In this order. Whatever is committed after the version was read is noticed before the pause; whatever is
            // committed after it listens rings, by the addresses its agents have at that version.
            let seen = self.store().data_version()?;
            if patience != Some(Duration::ZERO) {
                waiter.listen(&self.word_of(interest)?);
            }
            if let Some(found) = look(self)? {
                return Ok(Some(found));
            }
            // As long as nobody else commits, nothing else falls due.
            let due = self.store().tables()?.next_due()?;
            loop {
                let left = deadline.map(|deadline| deadline.saturating_duration_since(now_instant()));
                if left.is_some_and(|left| left.is_zero()) || stop.is_over() {
                    return Ok(None);
                }
                let again_in = match (try_again, due) {
                    (Some(at), _) => Some(at.saturating_duration_since(now_instant())),
                    (None, Some(due)) => Some(self.time_until(due)?),
                    (None, None) => None,
                };
                let is_time = again_in.is_some_and(|left| left.is_zero());
                if is_time || self.store().data_version()? != seen || waiter.is_deaf() {
                    break;
                }
                let pause = [left, again_in].into_iter().flatten().min().unwrap_or(Duration::MAX);
                waiter.pause(pause, stop.interrupt());
                // Nothing ever happens in a file that was deleted; better to say so than to wait for it.
                self.store().check_identity()?;
            }
        }
    }

    /// Asked anew before each pause: the log's time may have leapt while this process slept.
    fn time_until(&self, due: Timestamp) -> Result<Duration, Error> {
        Ok(Duration::from_millis(u64::try_from(due.since_ms(self.now()?)).unwrap_or(0)))
    }

    /// What a waiter is rung for, at the addresses its agents have now.
    fn word_of(&self, interest: &Interest) -> Result<String, Error> {
        let agents = interest.mail_of().iter().map(|name| self.agent(name)).collect::<Result<Vec<_>, _>>()?;
        Ok(interest.word(agents.iter().flatten()))
    }
}

/// What ends a wait before its time.
#[derive(Clone, Copy)]
pub enum Stop<'a> {
    Never,
    /// Another thread raises it.
    Raised(&'a Interrupt),
    /// Asked whenever the waiter wakes, every few seconds at least. [`wake`](crate::store::wake) makes it ask at once.
    When(&'a dyn Fn() -> bool),
}

impl std::fmt::Debug for Stop<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Never => "Never",
            Self::Raised(_) => "Raised",
            Self::When(_) => "When",
        })
    }
}

impl<'a> Stop<'a> {
    fn is_over(&self) -> bool {
        match self {
            Self::Never => false,
            Self::Raised(interrupt) => interrupt.is_raised(),
            Self::When(is_over) => is_over(),
        }
    }

    fn interrupt(&self) -> Option<&'a Interrupt> {
        match self {
            Self::Raised(interrupt) => Some(interrupt),
            Self::Never | Self::When(_) => None,
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "waiting is measured on the machine, not in the log")]
fn now_instant() -> Instant {
    Instant::now()
}

/// Words that were erased after they were read must not come back in a file. The fold will refuse the archive; this is
/// for whoever dies before it is asked.
fn without_redacted<'lines>(store: &Store, lines: &'lines [Line]) -> Result<Cow<'lines, [Line]>, Error> {
    let tables = store.tables()?;
    let mut lines = Cow::Borrowed(lines);
    for index in 0..lines.len() {
        if lines[index].content.is_some() && tables.redaction(lines[index].position)?.is_some() {
            lines.to_mut()[index].content = None;
        }
    }
    Ok(lines)
}

/// Names tried for one archive before giving up.
const ARCHIVE_NAMES_MAX: u32 = 100;

/// How often a waiter tries again to settle what it could not.
const UNSETTLED_PERIOD: Duration = Duration::from_millis(100);

/// How often a waiter asks the engine that orders the log for news.
const FOLLOW_PERIOD: Duration = Duration::from_millis(250);

/// The end of the log, for cursors.
pub fn head(store: &Store) -> Result<Position, Error> {
    Ok(store.tables()?.cursor.head.position)
}
