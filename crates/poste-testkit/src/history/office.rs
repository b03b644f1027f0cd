//! Registering, subscribing, and the records that only the office writes.

use poste_core::log::{
    Barrier, Clock, Intent, Policy, PolicyType, Register, Retire, Settings, Subscribe, Tick, TopicPattern, Unsubscribe,
};
use poste_core::text::Name;
use poste_core::vocabulary::{Priority, Urgency};
use poste_core::{Position, limits};

use super::sight::Sight;
use super::words::{name, type_name, word};
use super::{ABILITIES, CAST, Draft, Generator};

impl Generator {
    pub(super) fn register(&mut self) -> Draft {
        let (who, kind, role, abilities) = *self.rng.pick(CAST);
        let register = Register {
            kind: Some(kind),
            role: role.map(word),
            capabilities: Some(abilities.iter().map(|ability| word(ability)).collect()),
            worktree: self.rng.chance(200).then(|| "/trees/one".to_owned()),
            lead: self.rng.chance(200).then(|| name(self.rng.pick(CAST).0)),
            clears: Vec::new(),
            update: self.rng.chance(800),
        };
        self.draft(name(who), Intent::Register(register))
    }

    pub(super) fn membership(&mut self, sight: &Sight) -> Draft {
        if self.rng.chance(300) && !sight.active.is_empty() {
            let actor = self.somebody(sight);
            let gone = self.somebody(sight);
            return self.draft(actor, Intent::Retire(Retire { name: gone }));
        }
        if self.rng.chance(300) {
            // An agent changes its role and capabilities while it has mail and claims.
            let role = if self.rng.chance(700) { Some(self.role()) } else { None };
            let capabilities = ABILITIES.iter().filter(|_| self.rng.chance(400)).map(|ability| word(ability)).collect();
            let register = Register {
                kind: None,
                role,
                capabilities: Some(capabilities),
                worktree: None,
                lead: self.rng.chance(300).then(|| self.somebody(sight)),
                clears: Vec::new(),
                update: true,
            };
            let actor = self.somebody(sight);
            return self.draft(actor, Intent::Register(register));
        }
        self.register()
    }

    pub(super) fn subscription(&mut self, sight: &Sight) -> Draft {
        let actor = self.somebody(sight);
        let topic = match self.rng.below(4) {
            0 => TopicPattern::All,
            _ => TopicPattern::One(self.topic()),
        };
        let intent = if self.rng.chance(250) {
            Intent::Unsubscribe(Unsubscribe { topic })
        } else {
            let head = i64::try_from(sight.head.0).unwrap_or(i64::MAX);
            let from = self.rng.chance(500).then(|| Position(self.rng.between(0, head).unsigned_abs()));
            Intent::Subscribe(Subscribe { topic, from })
        };
        self.draft(actor, intent)
    }

    pub(super) fn policy(&mut self, sight: &Sight) -> Draft {
        let rng = &mut self.rng;
        let settings = Settings {
            max_attempts: rng.chance(600).then(|| u32::try_from(rng.between(1, 4)).expect("a small number")),
            retry_delay_ms: rng.chance(600).then(|| rng.between(0, limits::MINUTE_MS)),
            lease_ms: rng.chance(500).then(|| rng.between(limits::LEASE_MS_MIN, 10 * limits::MINUTE_MS)),
            retention_ms: rng.chance(200).then_some(limits::DAY_MS),
            content_bytes_max: rng.chance(150).then_some(30),
            fan_out_max: rng.chance(150).then_some(2),
        };
        let deploy = PolicyType {
            name: type_name(if rng.chance(300) { "question" } else { "deploy" }),
            priority: *rng.pick(Priority::ALL),
            urgency: *rng.pick(Urgency::ALL),
            work: rng.chance(700),
            response: rng.chance(300),
            max_attempts: rng.chance(300).then_some(1),
            retry_delay_ms: rng.chance(300).then_some(0),
            patience_ms: rng.chance(300).then_some(limits::MINUTE_MS),
            default_approve: rng.chance(500),
        };
        let replaces = if rng.chance(850) { sight.policy_version } else { sight.policy_version + 1 };
        let machine = rng.pick(&["one", "two"]).parse().expect("a label");
        let types = if rng.chance(700) { vec![deploy] } else { Vec::new() };
        let policy = Policy { replaces, machine, host: "desk".to_owned(), settings, types };
        Draft { actor: Name::poste(), session: None, intent: Intent::Policy(policy), content: None }
    }

    /// Records that only the office may write, from actors that may and actors that may not.
    pub(super) fn office_only(&mut self, sight: &Sight) -> Draft {
        let actor = if self.rng.chance(500) { Name::poste() } else { self.somebody(sight) };
        let intent = match self.rng.below(3) {
            0 => Intent::Tick(Tick {}),
            // Never a version above ours: that rightly stops the fold, and with it the history.
            1 => Intent::Barrier(Barrier { fold_version: 1, reason: "again".to_owned() }),
            _ => Intent::Clock(Clock { leap_ms: self.rng.between(-limits::HOUR_MS, 2 * limits::DAY_MS) }),
        };
        Draft { actor, session: None, intent, content: None }
    }
}
