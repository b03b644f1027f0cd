//! Handoffs: offered, accepted, rejected, withdrawn; sometimes by the wrong agent, or without a check.

use poste_core::Address;
use poste_core::limits;
use poste_core::log::{
    Content, Ends, EndsHow, HandoffAccept, HandoffCreate, HandoffReject, HandoffWithdraw, Intent, Send, Verified,
};
use poste_core::time::When;

use super::sight::{Seen, SeenHandoff, Sight};
use super::words::type_name;
use super::{Draft, Generator};

impl Generator {
    pub(super) fn handoff(&mut self, sight: &Sight) -> Draft {
        let wanted = self.rng.below(100);
        let draft = match wanted {
            0..45 => None,
            45..75 => self.accept(sight),
            75..85 => self.reject(sight),
            _ => self.withdraw(sight),
        };
        draft.unwrap_or_else(|| self.offer(sight))
    }

    fn offer(&mut self, sight: &Sight) -> Draft {
        let to = match self.rng.below(100) {
            0..70 => Address::Agent(self.somebody(sight)),
            70..85 => Address::Role(self.role()),
            85..95 => Address::Can(self.ability()),
            _ => self.address(sight),
        };
        let wants_response = if self.rng.chance(970) { Some(true) } else { None };
        let respond_by = self.rng.chance(500).then(|| When::InMs(self.rng.between(1, limits::HOUR_MS)));
        let kind = type_name("handoff_request");
        let mail = Send { kind, wants_response, respond_by, artifacts: Vec::new(), ..self.send_header(vec![to]) };
        let checks = *self.rng.pick(&[0, 0, 1, 2, 3, limits::HANDOFF_CHECKS_MAX + 1]);
        let verifies = *self.rng.pick(&[0, 0, 0, 1, 2]);
        let actor = self.somebody(sight);
        let create = HandoffCreate { mail, worktree: None, checks, verifies };
        Draft { content: self.words(), ..self.draft(actor, Intent::HandoffCreate(create)) }
    }

    fn accept(&mut self, sight: &Sight) -> Option<Draft> {
        let handoff = self.some_handoff(sight)?;
        let (seen, draft) = self.answer(sight, &handoff, "handoff_accepted")?;
        let careless = self.rng.chance(200);
        let kept = |rng: &mut crate::rng::Rng| !careless || rng.chance(500);
        let checked = (1..=handoff.checks).filter(|_| kept(&mut self.rng)).collect();
        let count = (0..handoff.verifies).filter(|_| kept(&mut self.rng)).count();
        let ok = !careless || self.rng.chance(500);
        let result = Verified { ok, exit_code: Some(i32::from(!ok)), duration_ms: seen.message.0 };
        let gates = if self.rng.chance(50) { vec![result] } else { Vec::new() };
        let (mail, draft) = draft;
        let overridden = self.rng.chance(150);
        let accept = HandoffAccept { mail, checked, verified: vec![result; count], gates, overridden };
        Some(Draft { intent: Intent::HandoffAccept(accept), ..draft })
    }

    fn reject(&mut self, sight: &Sight) -> Option<Draft> {
        let handoff = self.some_handoff(sight)?;
        let (_, (mail, draft)) = self.answer(sight, &handoff, "handoff_rejected")?;
        Some(Draft { intent: Intent::HandoffReject(HandoffReject { mail }), ..draft })
    }

    fn withdraw(&mut self, sight: &Sight) -> Option<Draft> {
        let handoff = self.some_handoff(sight)?;
        let actor = if self.rng.chance(150) { self.somebody(sight) } else { self.human_or(sight, &handoff.sender) };
        let intent = Intent::HandoffWithdraw(HandoffWithdraw { message: handoff.number });
        Some(Draft { content: self.words(), ..self.draft(actor, intent) })
    }

    /// Mostly a pending one; otherwise one that ended, or a message that is not a handoff.
    fn some_handoff(&mut self, sight: &Sight) -> Option<SeenHandoff> {
        let handoff = self.rng.pick_any(&sight.handoffs).cloned()?;
        match self.rng.pick_any(&sight.seen) {
            Some(seen) if self.rng.chance(80) => Some(SeenHandoff { number: seen.message, ..handoff }),
            _ => Some(handoff),
        }
    }

    /// The mail of an answer and its sender, with or without the right to end the request.
    fn answer(&mut self, sight: &Sight, handoff: &SeenHandoff, kind: &str) -> Option<(Seen, (Send, Draft))> {
        let seen = sight.seen.iter().find(|seen| seen.message == handoff.number)?.clone();
        let actor = self.taker(sight, &seen);
        let (token, session) = self.right(&seen, &actor);
        let ends = Ends { message: seen.message, how: EndsHow::Replied, token };
        let header = self.send_header(Vec::new());
        let kind = type_name(kind);
        let mail = Send { kind, reply_to: Some(seen.message), ends: Some(ends), artifacts: Vec::new(), ..header };
        let content = self.words();
        let intent = Intent::HandoffReject(HandoffReject { mail: mail.clone() });
        Some((seen, (mail, Draft { actor, session, intent, content })))
    }

    /// Almost always some content: a rejection without any is refused.
    fn words(&mut self) -> Option<Content> {
        match self.rng.chance(950) {
            true => Some(Content { subject: "about some work".to_owned(), ..Content::default() }),
            false => None,
        }
    }
}
