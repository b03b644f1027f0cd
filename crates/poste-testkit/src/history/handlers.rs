//! Notification rules: take one, renew it, advance its cursor, give up on a message, release it, and all of that
//! without the lease.

use poste_core::log::{HandlerCursor, HandlerDead, HandlerRelease, HandlerSettle, HandlerTake, Intent, Settling};
use poste_core::store::tables::HandlerLease;
use poste_core::text::Name;
use poste_core::{MessageNo, Position, limits};

use super::sight::Sight;
use super::{Draft, Generator};

/// One that every agent competes for, and another.
const RULES: &[(u32, &str)] = &[(6, "pager"), (1, "desk")];

impl Generator {
    pub(super) fn handling(&mut self, sight: &Sight) -> Draft {
        let rule = self.rng.weighted(RULES).parse().expect("a label");
        let known = sight.handlers.iter().find(|handler| handler.rule == rule);
        let lease: Option<&HandlerLease> = known.and_then(|known| known.lease.as_ref());
        // Mostly the holder; sometimes another agent, or an old token.
        let holder: Option<Name> = lease.map(|lease| lease.holder.clone()).filter(|_| !self.rng.chance(150));
        let actor = holder.unwrap_or_else(|| self.somebody(sight));
        let token = lease.map(|lease| lease.token).filter(|_| !self.rng.chance(60)).unwrap_or(Position(1));
        let message =
            MessageNo(self.rng.between(1, i64::try_from(sight.message_last).unwrap_or(1).max(1)).unsigned_abs());
        let act = self.rng.weighted(&[(6, 0), (10, 1), (24, 2), (18, 3), (14, 4), (18, 5)]);
        // A rule without a holder is mostly taken.
        let act = if lease.is_none() && !self.rng.chance(200) { 0 } else { act };
        let intent = match act {
            0 | 1 => Intent::HandlerTake(HandlerTake {
                rule,
                lease_ms: self.rng.between(limits::LEASE_MS_MIN - 1, 20 * limits::MINUTE_MS),
                token: (act == 1).then_some(token),
                from: self.rng.chance(200).then_some(Position(0)),
            }),
            2 => {
                let from = known.map_or(0, |known| known.cursor.0);
                let most = i64::try_from(sight.head.0 + 1).unwrap_or(i64::MAX);
                let position = self.rng.between(i64::try_from(from).unwrap_or(0), most).unsigned_abs();
                Intent::HandlerCursor(HandlerCursor { rule, token, position: Position(position) })
            }
            3 => {
                let attempts = u32::from(!self.rng.chance(60)) * 5;
                let mail = self.rng.chance(400).then(|| {
                    let to = vec![self.address(sight)];
                    self.send_header(to)
                });
                let dead = HandlerDead { rule, token, message, attempts, mail };
                return Draft { content: self.content(), ..self.draft(actor, Intent::HandlerDead(dead)) };
            }
            4 => Intent::HandlerRelease(HandlerRelease { rule, token }),
            _ => {
                let waiting: Vec<_> = sight.untold.iter().filter(|untold| untold.rule == rule).collect();
                let message = self.rng.pick_any(&waiting).map_or(message, |untold| untold.message);
                let how = *self.rng.pick(Settling::ALL);
                let token = ((how == Settling::Sent) != self.rng.chance(60)).then_some(token);
                Intent::HandlerSettle(HandlerSettle { rule, message, how, token })
            }
        };
        self.draft(actor, intent)
    }
}
