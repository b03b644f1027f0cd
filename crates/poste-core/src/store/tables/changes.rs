//! What the records of a transaction changed: the actions they ask for, and the waiters they concern.
//!
//! Row writes collect both, so no rule has to remember it. Only a writer that commits to an office collects
//! ([`Tables::collect_changes`]); a refold does not.

use std::collections::BTreeSet;

use super::{Delivery, Message, State, Tables};
use crate::address::Address;
use crate::error::Error;
use crate::fold::Action;
use crate::log::{DeliveryNo, MessageNo, Position};
use crate::text::{ContextName, Label, Name, Session};
use crate::time::Timestamp;

/// Something a waiter can wait for. A waiter names its concerns, and must look again when one of them was touched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Concern {
    /// The mail at an address: a delivery came there or changed.
    Address(Address),
    /// A message: one of its deliveries changed, or it got a reply.
    Message(MessageNo),
    /// A question that needs a decision.
    Approval(MessageNo),
    Handoff(MessageNo),
    /// The agreement on a proposal.
    Agreement(MessageNo),
    /// A version or the lock of a shared context.
    Context(ContextName),
    Workflow(Label),
    /// Paths that are held. Patterns overlap, so there is one key for all of them.
    Reservations,
    /// An agent's own row, its sessions, runs, holds and subscriptions.
    Agent(Name),
    /// An `[[on]]` rule: its holder and cursor.
    Handler(Label),
    Policy,
}

/// More keys than this wake all waiters: a needless look costs less than a long list.
const CONCERNS_MAX: usize = 256;
/// More actions of one kind than this become one that covers all.
const ACTIONS_MAX: usize = 256;

/// The keys that were touched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Concerns {
    keys: BTreeSet<Concern>,
    everything: bool,
}

impl Concerns {
    fn add(&mut self, key: Concern) {
        if self.everything {
            return;
        }
        self.keys.insert(key);
        if self.keys.len() > CONCERNS_MAX {
            self.everything = true;
            self.keys.clear();
        }
    }

    /// Whether a waiter for this must look again.
    pub fn touch(&self, key: &Concern) -> bool {
        self.everything || self.keys.contains(key)
    }

    /// Every waiter must look.
    pub(crate) fn everything() -> Self {
        Self { keys: BTreeSet::new(), everything: true }
    }

    /// So much was touched that every waiter must look.
    pub fn is_everything(&self) -> bool {
        self.everything
    }

    /// In order; none if everything was touched.
    pub fn keys(&self) -> impl Iterator<Item = &Concern> {
        self.keys.iter()
    }
}

impl FromIterator<Concern> for Concerns {
    fn from_iter<I: IntoIterator<Item = Concern>>(keys: I) -> Self {
        let mut concerns = Self::default();
        keys.into_iter().for_each(|key| concerns.add(key));
        concerns
    }
}

/// Actions to carry out, and the waiters they concern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    actions: BTreeSet<Action>,
    pub concerns: Concerns,
    /// The earliest time of a newly due item.
    soonest_due: Option<Timestamp>,
}

impl Changes {
    pub(crate) fn act(&mut self, action: Action) {
        let all = action.for_all();
        if self.actions.contains(&all) {
            return;
        }
        self.actions.insert(action);
        let is_same_kind = |other: &Action| other.for_all() == all;
        // Counted only when there are many: most records ask for one or two.
        if self.actions.len() > ACTIONS_MAX
            && self.actions.iter().filter(|&other| is_same_kind(other)).count() > ACTIONS_MAX
        {
            self.actions.retain(|other| !is_same_kind(other));
            self.actions.insert(all);
        }
    }

    /// Whether a new item is due before this time.
    pub(crate) fn falls_due_before(&self, then: Timestamp) -> bool {
        self.soonest_due.is_some_and(|soonest| soonest < then)
    }

    /// Adds the changes of a later transaction.
    pub(crate) fn absorb(&mut self, later: Self) {
        later.actions.into_iter().for_each(|action| self.act(action));
        self.concerns.everything |= later.concerns.everything;
        later.concerns.keys.into_iter().for_each(|key| self.concerns.add(key));
        if self.concerns.everything {
            self.concerns.keys.clear();
        }
    }

    /// Rings come first, because the other actions are slower.
    pub fn into_actions(self) -> Vec<Action> {
        self.actions.into_iter().collect()
    }
}

impl Tables<'_> {
    /// From now on, row writes record what they change.
    pub fn collect_changes(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// The changes recorded since the last call; none if they are not collected. Collecting continues.
    pub fn take_changes(&mut self) -> Changes {
        self.changes.as_deref_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn concern(&mut self, key: impl FnOnce() -> Concern) {
        if let Some(changes) = &mut self.changes {
            changes.concerns.add(key());
        }
    }

    pub(super) fn act(&mut self, action: impl FnOnce() -> Action) {
        if let Some(changes) = &mut self.changes {
            changes.act(action());
        }
    }

    pub(super) fn falls_due(&mut self, at: Timestamp) {
        if let Some(changes) = &mut self.changes {
            changes.soonest_due = Some(changes.soonest_due.map_or(at, |soonest| soonest.min(at)));
        }
    }

    pub(super) fn message_came(&mut self, message: &Message) {
        if let Some(original) = message.reply_to {
            self.concern(|| Concern::Message(original));
        }
    }

    /// A delivery was created or changed: waiters look again, and mail that rings and can be taken now is rung for. The
    /// owed ring is kept, in case it is lost.
    pub(super) fn delivery_changed(&mut self, before: Option<&Delivery>, after: &Delivery) -> Result<(), Error> {
        self.concern(|| Concern::Address(after.address.clone()));
        self.concern(|| Concern::Message(after.message));
        match (before.is_some_and(waits), waits(after)) {
            (false, true) => self.can_be_taken(after),
            (true, false) => {
                if let Some(changes) = &mut self.changes {
                    // Another rule of the same record, or a later record, took it: no ring is needed.
                    changes.actions.remove(&Action::Ring { message: after.message, address: after.address.clone() });
                }
                self.settle_rings(after.number)
            }
            _ => Ok(()),
        }
    }

    /// A numbered step of a workflow no longer blocks later ones. The earliest remaining step, if it comes after that
    /// one, can be taken now.
    pub(super) fn came_into_order(&mut self, workflow: &Label, after: u32) -> Result<(), Error> {
        let next: Vec<DeliveryNo> = self.column(
            "SELECT delivery FROM numbered_steps WHERE workflow = ?1 AND step > ?2
                 AND step = (SELECT min(step) FROM numbered_steps WHERE workflow = ?1) ORDER BY delivery",
            rusqlite::params![workflow, after],
        )?;
        for number in next {
            if let Some(delivery) = self.delivery(number)?.filter(waits) {
                self.can_be_taken(&delivery)?;
            }
        }
        Ok(())
    }

    fn can_be_taken(&mut self, delivery: &Delivery) -> Result<(), Error> {
        self.concern(|| Concern::Address(delivery.address.clone()));
        // A step that an earlier one holds up is rung for when its turn comes.
        if !self.message_rings(delivery.message)? || self.held_up_by(delivery.number)?.is_some() {
            return Ok(());
        }
        self.act(|| Action::Ring { message: delivery.message, address: delivery.address.clone() });
        self.owe_ring(delivery)
    }

    fn message_rings(&self, number: MessageNo) -> Result<bool, Error> {
        let known = self.newest_message.filter(|(newest, _)| *newest == number).map(|(_, urgency)| urgency);
        match known {
            Some(urgency) => Ok(urgency.rings()),
            None => Ok(self.message(number)?.is_some_and(|message| message.urgency.rings())),
        }
    }

    pub(super) fn run_changed(&mut self, run: &Session) -> Result<(), Error> {
        if self.changes.is_some()
            && let Some(run) = self.run(run)?
        {
            self.concern(|| Concern::Agent(run.agent));
        }
        Ok(())
    }

    pub(super) fn context_changed(&mut self, context: Position, has_new_version: bool) -> Result<(), Error> {
        if self.changes.is_none() {
            return Ok(());
        }
        let Some(context) = self.context_by_number(context)? else { return Ok(()) };
        if has_new_version {
            self.act(|| Action::Mirror { context: context.name.clone() });
        }
        self.concern(|| Concern::Context(context.name));
        Ok(())
    }

    /// Something in a workflow changed; if the workflow is open, it may be able to advance.
    pub(super) fn workflow_changed(&mut self, number: u64) -> Result<(), Error> {
        if self.changes.is_none() {
            return Ok(());
        }
        let Some(workflow) = self.workflow_numbered(number)? else { return Ok(()) };
        if workflow.is_open() {
            self.act(|| Action::Advance { workflow: workflow.label.clone() });
        }
        self.concern(|| Concern::Workflow(workflow.label));
        Ok(())
    }
}

/// It can be taken now and is not claimed.
fn waits(delivery: &Delivery) -> bool {
    delivery.state == State::Pending && delivery.ready
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(number: u64) -> Action {
        Action::Ring { message: MessageNo(number), address: "coder".parse().expect("an address") }
    }

    #[test]
    fn too_many_actions_of_one_kind_become_one_that_covers_all() {
        let mut changes = Changes::default();
        let advance = Action::Advance { workflow: "build-1".parse().expect("a label") };
        changes.act(advance.clone());
        (1..=ACTIONS_MAX as u64).for_each(|number| changes.act(ring(number)));
        assert_eq!(changes.actions.len(), ACTIONS_MAX + 1);
        changes.act(ring(ACTIONS_MAX as u64 + 1));
        assert_eq!(changes.clone().into_actions(), [Action::RingOwed, advance.clone()]);
        changes.act(ring(9_999));
        assert_eq!(changes.into_actions(), [Action::RingOwed, advance]);
    }

    #[test]
    fn too_many_concerns_wake_every_waiter() {
        let mut changes = Changes::default();
        for number in 1..=CONCERNS_MAX as u64 {
            changes.concerns.add(Concern::Message(MessageNo(number)));
        }
        assert!(!changes.concerns.touch(&Concern::Policy) && changes.concerns.touch(&Concern::Message(MessageNo(7))));
        let mut later = Changes::default();
        later.concerns.add(Concern::Policy);
        changes.absorb(later);
        assert!(changes.concerns.is_everything() && changes.concerns.touch(&Concern::Reservations));
        assert_eq!(changes.concerns.keys().count(), 0);
    }
}
