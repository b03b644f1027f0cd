//! Writing: to which recipients, how, and in reply to what.

use poste_core::log::{Ends, EndsHow, Intent, Send};
use poste_core::text::{Topic, Word};
use poste_core::time::When;
use poste_core::vocabulary::{BUILT_IN, Priority};
use poste_core::{Address, limits};

use super::sight::Sight;
use super::words::{artifact, name, type_name, word};
use super::{ABILITIES, Draft, Generator, ROLES, STRANGER, TOPICS};

impl Generator {
    pub(super) fn send(&mut self, sight: &Sight) -> Draft {
        let count = self.rng.weighted(&[(75, 1), (20, 2), (5, 4)]);
        let mut to: Vec<Address> = (0..count).map(|_| self.address(sight)).collect();
        if let Some(agent) = self.rng.pick_any(&sight.active)
            && self.rng.chance(60)
        {
            // By name and as a member: two deliveries of one message to the same agent.
            to = agent.addresses();
        }
        let header = self.send_header(to);
        let actor = self.somebody(sight);
        Draft { content: self.content(), ..self.draft(actor, Intent::Send(header)) }
    }

    /// A recipient replies, with or without finishing, sometimes also to others.
    pub(super) fn reply(&mut self, sight: &Sight) -> Option<Draft> {
        let seen = self.some_delivery(sight)?;
        let actor = self.taker(sight, &seen);
        let to = if self.rng.chance(700) { Vec::new() } else { vec![self.address(sight)] };
        let (token, session) = self.right(&seen, &actor);
        let ends = self.rng.chance(500).then_some(Ends { message: seen.message, how: EndsHow::Replied, token });
        let header = Send { reply_to: Some(seen.message), ends, ..self.send_header(to) };
        Some(Draft { actor, session, intent: Intent::Send(header), content: self.content() })
    }

    pub(super) fn forward(&mut self, sight: &Sight) -> Option<Draft> {
        let seen = self.some_delivery(sight)?;
        let actor = self.taker(sight, &seen);
        let to = vec![self.address(sight)];
        let (token, session) = self.right(&seen, &actor);
        let ends = Ends { message: seen.message, how: EndsHow::Forwarded, token };
        let header = Send { ends: Some(ends), ..self.send_header(to) };
        Some(Draft { actor, session, intent: Intent::Send(header), content: self.content() })
    }

    pub(super) fn send_header(&mut self, to: Vec<Address>) -> Send {
        let rng = &mut self.rng;
        let kind = match rng.below(100) {
            0..2 => "no_such_type",
            2..8 => "deploy",
            // Work lives longer, so it is drawn more often than its share of the vocabulary.
            8..50 => rng.pick(&["directive", "question", "draft_ready"]),
            _ => rng.pick(BUILT_IN).name,
        };
        Send {
            to,
            kind: type_name(kind),
            priority: rng.chance(250).then(|| *rng.pick(Priority::ALL)),
            reply_to: None,
            conversation: rng.chance(100).then(|| "planning".parse().expect("a label")),
            wants_response: rng.chance(100).then(|| rng.chance(500)),
            respond_by: rng.chance(200).then(|| When::InMs(rng.between(1, limits::HOUR_MS))),
            expires: rng.chance(200).then(|| When::InMs(rng.between(1_000, 2 * limits::MINUTE_MS))),
            not_before: rng.chance(150).then(|| When::InMs(rng.between(-1_000, limits::MINUTE_MS))),
            workflow: rng.chance(50).then(|| "release-7".parse().expect("a label")),
            step: rng.chance(50).then(|| "build".parse().expect("a label")),
            artifacts: if rng.chance(80) { vec![artifact("src/main.rs")] } else { Vec::new() },
            ends: None,
        }
    }

    pub(super) fn address(&mut self, sight: &Sight) -> Address {
        match self.rng.below(100) {
            0..45 => Address::Agent(self.somebody(sight)),
            45..58 => Address::Role(self.role()),
            58..70 => Address::Can(self.ability()),
            70..75 => Address::EveryRole(self.role()),
            75..80 => Address::EveryCan(self.ability()),
            80..85 => Address::Everyone,
            85..96 => Address::Topic(self.topic()),
            96..98 => Address::Agent(name(STRANGER)),
            _ => match self.rng.pick_any(&sight.retired) {
                Some(agent) => Address::Agent(agent.name.clone()),
                None => Address::Agent(name(STRANGER)),
            },
        }
    }

    pub(super) fn role(&mut self) -> Word {
        let text = *self.rng.pick(ROLES);
        word(text)
    }

    pub(super) fn ability(&mut self) -> Word {
        let text = *self.rng.pick(ABILITIES);
        word(text)
    }

    pub(super) fn topic(&mut self) -> Topic {
        let text = *self.rng.pick(TOPICS);
        text.parse().expect("a topic")
    }
}
