//! Proposals that should never be made: used ids, and values at and beyond every limit.

use poste_core::log::{
    Archive, Claim, Close, Done, Drop, Extend, Intent, Policy, Proposal, Redact, Register, Retire, Send, Settings,
    Shown, Subscribe, TICK_IDS, TopicPattern,
};
use poste_core::text::{Name, Word};
use poste_core::time::When;
use poste_core::vocabulary::AgentKind;
use poste_core::{Address, Digest, MessageNo, Position, Timestamp, limits};

use super::sight::Sight;
use super::words::{artifact, name, word};
use super::{Draft, Generator, STRANGER};

impl Generator {
    /// An id that was used before, for the same proposal or for another one; or an id reserved for the office.
    pub(super) fn same_id_again(&mut self, sight: &Sight) -> Option<Proposal> {
        let earlier = self.rng.pick_any(&self.proposed)?.clone();
        if self.rng.chance(600) {
            // Neither the sender's clock nor its session makes it a different proposal.
            let session = if self.rng.chance(200) { None } else { earlier.session.clone() };
            return Some(Proposal { sent_at: sight.now, session, ..earlier });
        }
        let other = self.send(sight);
        if self.rng.chance(150) {
            let reserved = format!("{TICK_IDS}{}/{}", sight.now.ms(), self.proposed.len());
            let id = reserved.parse().expect("an id");
            return Some(Proposal { id, actor: other.actor, intent: other.intent, content: other.content, ..earlier });
        }
        Some(Proposal { actor: other.actor, intent: other.intent, content: other.content, ..earlier })
    }

    /// Values at and beyond every limit.
    pub(super) fn hostile(&mut self, sight: &Sight) -> Draft {
        let known = sight.message_last;
        let message = MessageNo(*self.rng.pick(&[0, u64::MAX, i64::MAX as u64, known + 1, known]));
        let token = Some(Position(*self.rng.pick(&[0, u64::MAX, i64::MAX as u64])));
        let lease_ms = Some(*self.rng.pick(&[i64::MIN, -1, 0, limits::LEASE_MS_MAX + 1, i64::MAX]));
        let when = *self.rng.pick(&[
            When::InMs(i64::MAX),
            When::InMs(i64::MIN),
            When::At(Timestamp::ZERO),
            When::At(Timestamp::MAX),
            When::InMs(0),
        ]);
        let actor = match self.rng.below(10) {
            0 => Name::poste(),
            1 => name(STRANGER),
            _ => self.somebody(sight),
        };
        let header = self.send_header(vec![Address::Agent(actor.clone())]);
        let one_artifact = |path: &str| vec![artifact(path)];
        let register = |capabilities: Vec<Word>, worktree: Option<&str>| Register {
            kind: Some(AgentKind::Agent),
            role: None,
            capabilities: Some(capabilities),
            worktree: worktree.map(str::to_owned),
            lead: None,
            clears: Vec::new(),
            update: true,
        };
        let intent = match self.rng.below(24) {
            0 => Intent::Claim(Claim { message: Some(message), max: 1, lease_ms: None, types: Vec::new() }),
            1 => Intent::Claim(Claim { message: None, max: 1, lease_ms, types: Vec::new() }),
            2 => Intent::Claim(Claim {
                message: None,
                max: *self.rng.pick(&[0, u32::MAX]),
                lease_ms: None,
                types: Vec::new(),
            }),
            3 => Intent::Done(Done { message, token, artifacts: one_artifact("") }),
            4 => Intent::Done(Done { message, token, artifacts: Vec::new() }),
            5 => Intent::Extend(Extend { message, token, lease_ms }),
            6 => Intent::Shown(Shown { messages: Vec::new() }),
            7 => Intent::Shown(Shown { messages: vec![message; limits::SHOWN_MAX + 1] }),
            8 => Intent::Send(Send { to: Vec::new(), ..header }),
            9 => Intent::Send(Send { to: vec![Address::Everyone; limits::ADDRESSES_MAX + 1], ..header }),
            10 => Intent::Send(Send { expires: Some(when), ..header }),
            11 => Intent::Send(Send { not_before: Some(when), respond_by: Some(when), ..header }),
            12 => Intent::Send(Send { reply_to: Some(message), ..header }),
            13 => Intent::Register(register(Vec::new(), Some("not/absolute"))),
            14 => {
                let many = (0..=limits::CAPABILITIES_MAX).map(|number| word(&format!("can-{number}")));
                Intent::Register(register(many.collect(), None))
            }
            15 => Intent::Subscribe(Subscribe { topic: TopicPattern::All, from: Some(Position(u64::MAX)) }),
            16 => Intent::Policy(Policy {
                replaces: sight.policy_version,
                machine: "edge".parse().expect("a label"),
                host: String::new(),
                settings: Settings { max_attempts: Some(0), lease_ms, ..Settings::default() },
                types: Vec::new(),
            }),
            17 => Intent::Close(Close { message }),
            18 => Intent::Drop(Drop { message, recipient: None }),
            19 => {
                let records = match self.rng.below(3) {
                    0 => Vec::new(),
                    1 => vec![Position(1); limits::REDACT_MAX + 1],
                    _ => token.into_iter().chain([sight.head.next()]).collect(),
                };
                Intent::Redact(Redact { records })
            }
            20..23 => {
                let label = |number: usize| format!("c{number}").parse().expect("a label");
                let file = *self.rng.pick(&["", "../1.jsonl", "1/2.jsonl", "x.jsonl", "1.jsonl"]);
                // No conversation is ever called c0, so there is nothing to archive, whatever else is right.
                let count = *self.rng.pick(&[1, limits::ARCHIVE_CONVERSATIONS_MAX + 1]);
                Intent::Archive(Archive {
                    file: file.to_owned(),
                    conversations: (0..count).map(label).chain(sight.finished.first().cloned()).collect(),
                    as_of: Position(*self.rng.pick(&[0, sight.head.0, u64::MAX])),
                    lines: *self.rng.pick(&[0, i64::MAX as u64 + 1, u64::MAX]),
                    digest: Digest::of(b"nothing"),
                })
            }
            _ => Intent::Retire(Retire { name: name(STRANGER) }),
        };
        let actor = if matches!(intent, Intent::Policy(_)) { Name::poste() } else { actor };
        self.draft(actor, intent)
    }
}
