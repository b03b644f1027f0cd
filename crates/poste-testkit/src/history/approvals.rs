//! Asking for decisions and making them, in time or not.

use poste_core::limits;
use poste_core::log::{ApprovalAnswer, ApprovalAsk, Intent, Send};
use poste_core::store::tables::Approval;
use poste_core::text::Word;
use poste_core::time::When;

use super::sight::Sight;
use super::words::{type_name, word};
use super::{Draft, Generator};
use crate::rng::Rng;

const CHOICES: &[&str] = &["approve", "deny", "later"];

fn some_choice(rng: &mut Rng) -> Word {
    let text = *rng.pick(CHOICES);
    word(text)
}

impl Generator {
    pub(super) fn ask(&mut self, sight: &Sight) -> Draft {
        let actor = self.somebody(sight);
        let to = vec![self.address(sight)];
        let rng = &mut self.rng;
        let kind = if rng.chance(300) { "plan_approval_request" } else { "question" };
        let mail = Send::plain(type_name(kind), to);
        let mail = Send {
            conversation: rng.chance(150).then(|| "planning".parse().expect("a label")),
            // Not allowed here: it is refused and changes nothing.
            expires: rng.chance(30).then_some(When::InMs(limits::MINUTE_MS)),
            ..mail
        };
        let choices = CHOICES[..rng.weighted(&[(80, 2), (15, 3), (5, 1)])].iter().map(|text| word(text)).collect();
        let deadline = rng.chance(700).then(|| When::InMs(rng.between(1_000, 12 * limits::HOUR_MS)));
        let default = deadline.filter(|_| rng.chance(700)).map(|_| some_choice(rng));
        let intent = Intent::ApprovalAsk(ApprovalAsk { mail, choices, default, deadline });
        Draft { content: self.content(), ..self.draft(actor, intent) }
    }

    /// Mostly decides something that can be decided; sometimes something else, or as an agent that may not.
    pub(super) fn decide(&mut self, sight: &Sight) -> Option<Draft> {
        let open: Vec<&Approval> = sight.asked.iter().filter(|asked| asked.is_open()).collect();
        let asked = match self.rng.pick_any(&open) {
            Some(open) if self.rng.chance(850) => (*open).clone(),
            _ => self.rng.pick_any(&sight.asked).cloned()?,
        };
        let number = match self.rng.chance(50) {
            true => self.some_delivery(sight)?.message,
            false => asked.number,
        };
        let actor = match sight.in_state(|seen| seen.message == asked.number).first() {
            Some(seen) => self.taker(sight, seen),
            None => self.somebody(sight),
        };
        let kind = if asked.plan { "plan_approval_response" } else { "response" };
        let mail = Send { reply_to: Some(number), ..Send::plain(type_name(kind), Vec::new()) };
        let choice = match self.rng.pick_any(&asked.choices) {
            Some(offered) if self.rng.chance(900) => offered.clone(),
            _ => some_choice(&mut self.rng),
        };
        let intent = Intent::ApprovalAnswer(ApprovalAnswer { mail, choice });
        Some(Draft { content: self.content(), ..self.draft(actor, intent) })
    }
}
