//! Working: claiming, finishing, acknowledging and retrying.

use poste_core::log::{
    Ack, Claim, Done, Drop, Extend, Fail, GateResult, GateVerdict, Intent, Release, Retry, Shown, Wake, WakeOutcome,
    WakeWay,
};
use poste_core::store::tables::State;
use poste_core::text::{Name, Session};
use poste_core::{Address, MessageNo, Position, limits};

use super::sight::{Seen, Sight};
use super::{Draft, Generator, WonClaim};

impl Generator {
    /// Mostly open deliveries, and claimed ones more often than their share.
    pub(super) fn some_delivery(&mut self, sight: &Sight) -> Option<Seen> {
        let wanted = self.rng.weighted(&[(50, 0), (38, 1), (12, 2)]);
        let of = |wanted: u8| {
            sight.in_state(|seen| match wanted {
                0 => seen.state == State::Claimed,
                1 => seen.state == State::Pending,
                _ => !seen.state.is_open(),
            })
        };
        let mut candidates = of(wanted);
        if candidates.is_empty() {
            candidates = sight.in_state(|_| true);
        }
        let seen = self.rng.pick_any(&candidates).map(|seen| (*seen).clone())?;
        match self.rng.pick_any(&sight.archived) {
            // A caller remembers a message that was archived in the meantime.
            Some(archived) if self.rng.chance(60) => Some(Seen { message: *archived, ..seen }),
            _ => Some(seen),
        }
    }

    /// The holder of a delivery, or an agent that could claim it; sometimes an agent that may not.
    pub(super) fn taker(&mut self, sight: &Sight, seen: &Seen) -> Name {
        if self.rng.chance(60) {
            return self.somebody(sight);
        }
        if let Some(holder) = &seen.holder
            && self.rng.chance(850)
        {
            return holder.clone();
        }
        match self.rng.pick_any(&sight.takers(seen)) {
            Some(agent) => agent.name.clone(),
            None => self.somebody(sight),
        }
    }

    /// Token and session to act on a delivery with: right, missing, stale or made up.
    pub(super) fn right(&mut self, seen: &Seen, actor: &Name) -> (Option<Position>, Option<Session>) {
        let session = self.session(actor);
        match self.rng.below(100) {
            0..45 => (seen.token, session),
            45..70 => (None, seen.session.clone()),
            70..80 => (None, session),
            80..93 => {
                let old: Vec<&WonClaim> =
                    self.won.iter().filter(|won| won.actor == *actor && won.message == seen.message).collect();
                let Some(won) = self.rng.pick_any(&old) else { return (None, session) };
                if self.rng.chance(300) { (None, won.session.clone()) } else { (Some(won.token), session) }
            }
            _ => (Some(Position(*self.rng.pick(&[0, 1, 7, 40, u64::MAX]))), session),
        }
    }

    pub(super) fn claim_number(&mut self, sight: &Sight) -> Option<Draft> {
        let ready = sight.in_state(|seen| seen.state == State::Pending && seen.ready);
        let seen = match self.rng.pick_any(&ready) {
            Some(seen) if self.rng.chance(850) => (*seen).clone(),
            _ => self.some_delivery(sight)?,
        };
        let actor = self.taker(sight, &seen);
        let claim = Claim { message: Some(seen.message), max: 1, lease_ms: self.lease_ms(), types: Vec::new() };
        let draft = self.draft(actor, Intent::Claim(claim));
        if !self.rng.chance(300) {
            return Some(draft);
        }
        // In a session of its own, like a run.
        self.files_made += 1;
        let run = format!("{}-run-{}", draft.actor, self.files_made).parse().expect("a session");
        Some(Draft { session: Some(run), ..draft })
    }

    pub(super) fn claim_next(&mut self, sight: &Sight) -> Draft {
        let max = u32::try_from(self.rng.weighted(&[(70, 1), (25, 3), (5, 100)])).expect("a small number");
        let claim = Claim { message: None, max, lease_ms: self.lease_ms(), types: Vec::new() };
        let actor = self.somebody(sight);
        self.draft(actor, Intent::Claim(claim))
    }

    /// Mostly short leases, so that they expire.
    pub(super) fn lease_ms(&mut self) -> Option<i64> {
        match self.rng.below(100) {
            0..70 => Some(self.rng.between(limits::LEASE_MS_MIN, limits::MINUTE_MS)),
            70..75 => Some(limits::LEASE_MS_MAX),
            _ => None,
        }
    }

    pub(super) fn finish(&mut self, sight: &Sight) -> Option<Draft> {
        let seen = self.some_delivery(sight)?;
        let actor = self.taker(sight, &seen);
        let message = seen.message;
        let (token, session) = self.right(&seen, &actor);
        let intent = match self.rng.below(100) {
            0..12 => self.gates(message, token),
            12..45 => Intent::Done(Done { message, token, artifacts: Vec::new() }),
            45..60 => Intent::Fail(Fail { message, token, retry: false, delay_ms: None }),
            60..78 => Intent::Fail(Fail { message, token, retry: true, delay_ms: self.delay_ms() }),
            78..89 => Intent::Release(Release { message, token }),
            _ => Intent::Extend(Extend { message, token, lease_ms: self.lease_ms() }),
        };
        Some(Draft { actor, session, intent, content: self.content() })
    }

    /// Mostly the office's default; sometimes a delay that is not allowed.
    fn delay_ms(&mut self) -> Option<i64> {
        match self.rng.below(100) {
            0..70 => None,
            70..95 => i64::try_from(self.rng.below(60_000)).ok(),
            _ => Some(-1),
        }
    }

    /// Gate results under a claim; sometimes impossible ones.
    fn gates(&mut self, message: MessageNo, token: Option<Position>) -> Intent {
        let gates: Vec<GateVerdict> = (0..self.rng.weighted(&[(4, 0), (60, 1), (36, 3)]))
            .map(|index| GateVerdict {
                name: format!("gate-{index}").parse().expect("a label"),
                passed: self.rng.chance(800),
            })
            .collect();
        let passed = gates.iter().all(|gate| gate.passed) != self.rng.chance(30);
        let token = token.or_else(|| self.won.iter().rev().find(|won| won.message == message).map(|won| won.token));
        Intent::GateResult(GateResult { message, token: token.unwrap_or(Position(1)), passed, gates })
    }

    pub(super) fn ack(&mut self, sight: &Sight) -> Option<Draft> {
        let seen = self.some_delivery(sight)?;
        let actor = self.taker(sight, &seen);
        Some(self.draft(actor, Intent::Ack(Ack { message: seen.message })))
    }

    pub(super) fn shown(&mut self, sight: &Sight) -> Option<Draft> {
        let seen = self.rng.pick_any(&sight.seen)?.clone();
        let actor = self.taker(sight, &seen);
        let mut messages = vec![seen.message];
        let more = sight.in_state(|other| other.address == Address::Agent(actor.clone()));
        if let Some(other) = self.rng.pick_any(&more) {
            messages.push(other.message);
        }
        Some(self.draft(actor, Intent::Shown(Shown { messages })))
    }

    /// Wakes a recipient; sometimes without success, for a stranger, or without end.
    pub(super) fn wake(&mut self, sight: &Sight) -> Option<Draft> {
        let pending = sight.in_state(|seen| seen.state == State::Pending);
        let seen = match self.rng.pick_any(&pending) {
            Some(seen) if self.rng.chance(800) => (*seen).clone(),
            _ => self.some_delivery(sight)?,
        };
        let agent = self.taker(sight, &seen);
        let how = *self.rng.pick(WakeWay::ALL);
        let outcome = if self.rng.chance(500) { WakeOutcome::Requested } else { WakeOutcome::Failed };
        let actor = if self.rng.chance(800) { self.human_or(sight, &seen.sender) } else { self.somebody(sight) };
        let content = self.content();
        let wake = Wake { message: seen.message, agent, how, outcome };
        Some(Draft { content, ..self.draft(actor, Intent::Wake(wake)) })
    }

    pub(super) fn retry(&mut self, sight: &Sight) -> Option<Draft> {
        let bad = sight.in_state(|seen| seen.state.is_bad_end());
        let seen = (*self.rng.pick_any(&bad)?).clone();
        let actor = self.human_or(sight, &seen.sender);
        let recipient = self.rng.chance(300).then(|| seen.address.clone());
        Some(self.draft(actor, Intent::Retry(Retry { message: seen.message, recipient })))
    }

    pub(super) fn drop_bad(&mut self, sight: &Sight) -> Option<Draft> {
        let bad = sight.in_state(|seen| seen.state.is_bad_end());
        let seen = (*self.rng.pick_any(&bad)?).clone();
        let actor = if self.rng.chance(100) { self.somebody(sight) } else { self.human_or(sight, &seen.sender) };
        let recipient = self.rng.chance(300).then(|| seen.address.clone());
        let content = self.content();
        Some(Draft { content, ..self.draft(actor, Intent::Drop(Drop { message: seen.message, recipient })) })
    }
}
