//! Endings: conversations are closed and archived, content is redacted.

use poste_core::log::{Archive, Close, Intent, Redact};
use poste_core::store::tables::Agent;
use poste_core::text::Name;
use poste_core::vocabulary::AgentKind;
use poste_core::{Digest, Position};

use super::sight::Sight;
use super::words::name;
use super::{Draft, Generator, STRANGER};

impl Generator {
    /// Mostly a human; otherwise `other`.
    pub(super) fn human_or(&mut self, sight: &Sight, other: &str) -> Name {
        let humans: Vec<&Agent> = sight.active.iter().filter(|agent| agent.kind == AgentKind::Human).collect();
        match self.rng.pick_any(&humans) {
            Some(human) if self.rng.chance(600) => human.name.clone(),
            _ => other.parse().unwrap_or_else(|_| name(STRANGER)),
        }
    }

    pub(super) fn close(&mut self, sight: &Sight) -> Option<Draft> {
        let seen = self.rng.pick_any(&sight.seen)?.clone();
        let actor = if self.rng.chance(150) {
            self.somebody(sight)
        } else if self.rng.chance(300) {
            self.taker(sight, &seen)
        } else {
            self.human_or(sight, &seen.sender)
        };
        let content = self.content();
        Some(Draft { content, ..self.draft(actor, Intent::Close(Close { message: seen.message })) })
    }

    /// The record of a file that need not exist, because the fold decides by the header. Some name conversations that
    /// are still active.
    pub(super) fn archive(&mut self, sight: &Sight) -> Option<Draft> {
        let count = self.rng.weighted(&[(60, 1), (30, 3), (10, 20)]);
        let mut conversations: Vec<_> =
            (0..count).filter_map(|_| self.rng.pick_any(&sight.finished).cloned()).collect();
        if conversations.is_empty() {
            return None;
        }
        if self.rng.chance(50) {
            conversations.push("planning".parse().expect("a label"));
        }
        // Mostly a file that was just written; sometimes one whose writer was slow.
        let behind = if self.rng.chance(850) { 0 } else { self.rng.below(20) as u64 };
        self.files_made += 1;
        let file = if self.rng.chance(950) { self.files_made } else { 1 };
        let archive = Archive {
            file: format!("2027-01-15-{file}.jsonl"),
            conversations,
            as_of: Position(sight.head.0.saturating_sub(behind)),
            lines: 3,
            digest: Digest::of(b"a file"),
        };
        let actor = self.somebody(sight);
        Some(self.draft(actor, Intent::Archive(archive)))
    }

    pub(super) fn redact(&mut self, sight: &Sight) -> Option<Draft> {
        let count = self.rng.weighted(&[(80, 1), (20, 3)]);
        let chosen: Vec<_> = (0..count).filter_map(|_| self.rng.pick_any(&sight.said).cloned()).collect();
        let (_, author) = chosen.first()?;
        let actor = if self.rng.chance(100) { self.somebody(sight) } else { self.human_or(sight, author) };
        let records = chosen.into_iter().map(|(position, _)| position).collect();
        let content = self.content();
        Some(Draft { content, ..self.draft(actor, Intent::Redact(Redact { records })) })
    }
}
