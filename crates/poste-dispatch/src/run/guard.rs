//! Watches over the leases of a run while its program runs.

use std::time::Duration;

use poste_core::fold::{Claimed, Effect, Verdict};
use poste_core::log::{Author, Extend, Intent, MessageNo, Position, Via};
use poste_core::office::Office;
use poste_core::store::processes;
use poste_core::store::tables::{Event, State};
use poste_core::text::{Name, Session};
use poste_core::{Error, Timestamp, limits};
use poste_run::{Watch, Watcher};

use super::folder::{About, RunFolder};
use poste_verbs::actions::Carrier;

/// How often it looks; with a short lease more often.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_AT_LEAST: Duration = Duration::from_millis(50);
/// What ending everything takes at most, apart from the grace.
const ENDING_MS: i64 = 2_000;

/// What became of a message of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Held,
    /// In the session of the run: the program finished it.
    Finished,
    /// It is not its own any more, as its program gave it back.
    GivenBack,
    /// The same by somebody else's act, or as the lease ran out.
    Lost,
}

impl Standing {
    /// Somebody else has it, ended it, or may take it.
    pub(crate) fn is_lost(self) -> bool {
        matches!(self, Self::GivenBack | Self::Lost)
    }
}

/// Whether a delivery is not held any more after this.
pub(crate) fn lets_go(event: Event) -> bool {
    matches!(
        event,
        Event::Released
            | Event::LeaseExpired
            | Event::Done
            | Event::Failed
            | Event::AttemptFailed
            | Event::Dead
            | Event::Expired
            | Event::Returned
    )
}

/// Who holds what by which right.
#[derive(Debug, Clone)]
pub(crate) struct Holder {
    pub agent: Name,
    pub run: Session,
    pub token: Position,
}

impl Holder {
    pub(crate) fn standing(&self, office: &Office, number: MessageNo) -> Result<Standing, Error> {
        let tables = office.store().tables()?;
        // None once its conversation is archived.
        let Some(delivery) = tables.won_by(number, &self.agent, self.token)? else { return Ok(Standing::Lost) };
        let is_latest = delivery.token == Some(self.token);
        if is_latest && delivery.state == State::Claimed {
            return Ok(Standing::Held);
        }
        if !is_latest || delivery.state == State::Pending {
            let events = tables.events_of_delivery(&delivery)?;
            let let_go = events.iter().find(|row| row.position > self.token && lets_go(row.event));
            let by_itself = let_go.is_some_and(|row| row.session.as_ref() == Some(&self.run));
            return Ok(if by_itself { Standing::GivenBack } else { Standing::Lost });
        }
        let is_end = |event: Event| matches!(event, Event::Done | Event::Failed | Event::Dead | Event::Returned);
        let events = tables.events_of_delivery(&delivery)?;
        let by_itself =
            events.iter().rfind(|row| is_end(row.event)).is_some_and(|row| row.session.as_ref() == Some(&self.run));
        Ok(if by_itself { Standing::Finished } else { Standing::Lost })
    }
}

/// How long it may hold what it has, and how long its program may take to end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub lease_ms: i64,
    pub grace_ms: i64,
}

struct Open {
    number: MessageNo,
    until: Timestamp,
}

pub(crate) struct Guard<'a> {
    pub office: &'a mut Office,
    carrier: &'a Carrier,
    holder: Holder,
    open: Vec<Open>,
    given_back: usize,
    lost: usize,
    lease_ms: i64,
    grace_ms: i64,
    seen: Option<i64>,
    folder: &'a RunFolder,
    about: About,
    /// Why the program was ended.
    pub why: Option<String>,
    /// The rest of its messages is none the worse for it.
    pub gives_back: bool,
}

impl<'a> Guard<'a> {
    pub(crate) fn new(
        office: &'a mut Office,
        carrier: &'a Carrier,
        holder: Holder,
        claimed: &Claimed,
        terms: Terms,
        (folder, about): (&'a RunFolder, About),
    ) -> Self {
        let open: Vec<Open> =
            claimed.items.iter().map(|item| Open { number: item.number, until: item.lease_until }).collect();
        let Terms { lease_ms, grace_ms } = terms;
        let (given_back, lost) = (0, 0);
        Self {
            office,
            carrier,
            holder,
            open,
            given_back,
            lost,
            lease_ms,
            grace_ms,
            seen: None,
            folder,
            about,
            why: None,
            gives_back: false,
        }
    }

    /// How long the lease of what was just taken is.
    pub(crate) fn lease_ms(office: &Office, claimed: &Claimed) -> Result<i64, Error> {
        let now = office.now()?;
        let left = claimed.items.iter().map(|item| item.lease_until.since_ms(now)).min();
        Ok(left.unwrap_or(limits::LEASE_MS_DEFAULT).clamp(limits::LEASE_MS_MIN, limits::LEASE_MS_MAX))
    }

    pub(crate) fn look_every(&self) -> Duration {
        let sixth = Duration::from_millis(u64::try_from(self.lease_ms / 6).unwrap_or_default());
        sixth.clamp(LOOK_AT_LEAST, LOOK)
    }

    /// So long before the lease ends, the program is ended if it cannot be kept: it must be gone when another one may begin.
    fn margin_ms(&self) -> i64 {
        self.grace_ms.saturating_add(ENDING_MS).min(self.lease_ms / 3)
    }

    /// Looks what is still held, and keeps it.
    fn keep(&mut self) -> Result<(), Error> {
        self.office.store().check_identity()?;
        let version = self.office.store().data_version()?;
        if self.seen != Some(version) {
            let mut open = Vec::new();
            for own in std::mem::take(&mut self.open) {
                match self.holder.standing(self.office, own.number)? {
                    Standing::Held => open.push(own),
                    Standing::Finished => {}
                    Standing::GivenBack => self.given_back += 1,
                    Standing::Lost => self.lost += 1,
                }
            }
            self.open = open;
            self.seen = Some(version);
        }
        let now = self.office.now()?;
        let mut lost = Vec::new();
        for index in 0..self.open.len() {
            let own = &self.open[index];
            if own.until.since_ms(now) >= self.lease_ms * 2 / 3 {
                continue;
            }
            let number = own.number;
            match self.extend(number)? {
                Some(until) => self.open[index].until = until,
                None => lost.push(number),
            }
        }
        self.lost += lost.len();
        self.open.retain(|own| !lost.contains(&own.number));
        Ok(())
    }

    fn extend(&mut self, message: MessageNo) -> Result<Option<Timestamp>, Error> {
        let extend = Extend { message, token: Some(self.holder.token), lease_ms: Some(self.lease_ms) };
        let Holder { agent, run, .. } = &self.holder;
        let author = Author { actor: agent.clone(), session: Some(run.clone()), via: Via::Dispatch };
        let proposal = self.office.proposal(&author, Intent::Extend(extend), None);
        let outcome = poste_config::propose(self.office, &proposal)?;
        self.carrier.carry_out(self.office);
        Ok(match outcome.verdict {
            Verdict::Accepted(Effect::Claimed(claimed)) => claimed.items.first().map(|item| item.lease_until),
            Verdict::Accepted(_) | Verdict::Rejected(_) => None,
        })
    }

    /// Whether the leases may end before they can be kept.
    fn is_running_out(&self) -> bool {
        let Ok(now) = self.office.now() else { return true };
        self.open.iter().any(|own| own.until.since_ms(now) < self.margin_ms())
    }
}

impl Watcher for Guard<'_> {
    fn started(&mut self, pid: u32) {
        self.about.program = Some(processes::written_down(pid));
        // Only for who looks: what ends the program does not read it.
        let _ = self.folder.write_about(&self.about);
    }

    fn look(&mut self, _: Duration) -> Watch {
        match self.keep() {
            Err(Error::Replaced(_)) => {
                self.why = Some("the office was deleted or replaced".to_owned());
                return Watch::End;
            }
            // Busy, a full disk: there is time to try again.
            Err(error) if self.is_running_out() => {
                self.why = Some(format!("the lease could not be kept: {error}"));
                return Watch::End;
            }
            Err(_) => return Watch::GoOn,
            Ok(()) => {}
        }
        // Whoever finished everything may still tidy up; whoever works on what is not its own any more may not. Nobody can tell on
        // which of several messages a program works, so it goes on only if it knows itself what it gave back.
        if self.lost > 0 || self.open.is_empty() && self.given_back > 0 {
            self.gives_back = !self.open.is_empty();
            self.why = Some(match self.gives_back {
                true => "another message it had was taken away".to_owned(),
                false => "the lease was lost".to_owned(),
            });
            return Watch::End;
        }
        Watch::GoOn
    }
}
