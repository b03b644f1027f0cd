//! Runs: started under a claim, ended, held and resumed, and all of that where nothing was claimed.

use poste_core::limits;
use poste_core::log::{
    HoldReason, Intent, MessageNo, RunEnd, RunHold, RunOutcome, RunResume, RunStart, SessionProcess,
};
use poste_core::store::tables::State;
use poste_core::time::When;

use super::sight::{Seen, Sight};
use super::{Draft, Generator};

impl Generator {
    /// Mostly for waiting mail; sometimes for mail that others have claimed, for the same mail twice, or in another
    /// session.
    pub(super) fn start_run(&mut self, sight: &Sight) -> Option<Draft> {
        let waiting = sight.in_state(|seen| seen.state == State::Pending || seen.state == State::Claimed);
        let seen = (*self.rng.pick_any(&waiting)?).clone();
        let takers = sight.takers(&seen);
        let taker = self.rng.pick_any(&takers).map(|agent| agent.name.clone());
        let actor = taker.filter(|_| !self.rng.chance(60)).unwrap_or_else(|| self.somebody(sight));
        let before = self.rng.pick_any(&sight.runs).map(|run| run.run.clone()).filter(|_| self.rng.chance(60));
        let run = before.unwrap_or_else(|| format!("run-{}", self.rng.below(1_000)).parse().expect("a session"));
        let mut messages: Vec<MessageNo> = vec![seen.message];
        if self.rng.chance(60) {
            messages.push(seen.message);
        } else if self.rng.chance(300) {
            messages
                .extend(self.rng.pick_any(&waiting).map(|other| other.message).filter(|other| *other != seen.message));
        }
        if self.rng.chance(60) {
            messages.clear();
        }
        let start = RunStart {
            run: run.clone(),
            messages,
            lease_ms: self.rng.chance(500).then(|| self.rng.between(limits::LEASE_MS_MIN, limits::HOUR_MS)),
            limit: self.rng.chance(300).then_some(1),
            runner: "codex".to_owned(),
            host: "desk".to_owned(),
            supervisor: SessionProcess { pid: 7, started_ms: Some(11), place: String::new() },
        };
        let session = if self.rng.chance(40) { None } else { Some(run) };
        Some(Draft { session, ..self.draft(actor, Intent::RunStart(start)) })
    }

    pub(super) fn end_run(&mut self, sight: &Sight) -> Option<Draft> {
        let run = self.rng.pick_any(&sight.runs)?.clone();
        let actor = if self.rng.chance(60) { self.somebody(sight) } else { run.agent };
        let how = *self.rng.pick(RunOutcome::ALL);
        let has_code = matches!(how, RunOutcome::Exited | RunOutcome::Signalled) != self.rng.chance(40);
        let end = RunEnd {
            run: if self.rng.chance(40) { "nowhere".parse().expect("a session") } else { run.run },
            how,
            code: has_code.then_some(3),
            took_ms: self.rng.below(100_000) as u64,
            cost_micros: self.rng.chance(500).then_some(1_200),
        };
        Some(Draft { content: self.content(), ..self.draft(actor, Intent::RunEnd(end)) })
    }

    pub(super) fn hold_run(&mut self, sight: &Sight) -> Draft {
        let waiting = sight.in_state(|seen| seen.state == State::Pending || seen.state == State::Claimed);
        let seen: Option<Seen> =
            self.rng.pick_any(&waiting).map(|seen| (*seen).clone()).filter(|_| self.rng.chance(700));
        let taker = seen.as_ref().and_then(|seen| {
            let takers = sight.takers(seen);
            self.rng.pick_any(&takers).map(|agent| agent.name.clone())
        });
        let actor = taker.unwrap_or_else(|| self.somebody(sight));
        let mail = self.rng.chance(300).then(|| {
            let to = vec![self.address(sight)];
            self.send_header(to)
        });
        let agent = self.rng.chance(200).then(|| self.somebody(sight));
        let hold = RunHold {
            agent,
            message: seen.map(|seen| seen.message),
            why: *self.rng.pick(HoldReason::ALL),
            until: self.rng.chance(500).then(|| When::InMs(self.rng.between(1, limits::HOUR_MS))),
            mail,
        };
        Draft { content: self.content(), ..self.draft(actor, Intent::RunHold(hold)) }
    }

    pub(super) fn resume_runs(&mut self, sight: &Sight) -> Draft {
        let actor = self.somebody(sight);
        let waiting = sight.in_state(|seen| seen.state == State::Pending);
        let message = self.rng.pick_any(&waiting).map(|seen| seen.message).filter(|_| self.rng.chance(400));
        let agent = self.somebody(sight);
        let why = self.rng.chance(300).then(|| *self.rng.pick(HoldReason::ALL));
        self.draft(actor, Intent::RunResume(RunResume { agent, message, why }))
    }
}
