//! Reserving paths, from a few patterns that conflict with each other.

use poste_core::log::{Intent, Prolong, Reserve, Send, Unreserve};
use poste_core::pattern::Pattern;
use poste_core::{Address, limits};

use super::sight::Sight;
use super::words::type_name;
use super::{Draft, Generator};

const PATTERNS: &[&str] = &[
    "src/**",
    "src/auth",
    "src/auth/*.rs",
    "src/{auth,api}/mod.rs",
    "src/api/[a-m]*",
    "docs",
    "docs/guide.md",
    "**/*.md",
    "Cargo.lock",
    "tests/??/é",
];

impl Generator {
    pub(super) fn reserving(&mut self, sight: &Sight) -> Draft {
        let actor = self.somebody(sight);
        let intent = match self.rng.below(100) {
            0..60 => Intent::Reserve(Reserve {
                patterns: self.some_patterns(),
                for_ms: self.reservation_ms(),
                shared: self.rng.chance(400),
            }),
            60..80 => {
                let patterns = if self.rng.chance(300) { Vec::new() } else { self.some_patterns() };
                let holder = self.rng.chance(400).then(|| self.somebody(sight));
                let told = holder.clone().filter(|holder| *holder != actor);
                let mail = told.map(|holder| Send::plain(type_name("alert"), vec![Address::Agent(holder)]));
                Intent::Unreserve(Unreserve { patterns, holder, mail })
            }
            80..96 => Intent::Prolong(Prolong {
                patterns: if self.rng.chance(500) { Vec::new() } else { self.some_patterns() },
                for_ms: self.reservation_ms(),
            }),
            _ => Intent::Reserve(Reserve {
                patterns: match self.rng.below(2) {
                    0 => Vec::new(),
                    _ => (0..=limits::RESERVE_MAX).map(|number| pattern(&format!("f{number}"))).collect(),
                },
                for_ms: *self.rng.pick(&[i64::MIN, 0, limits::RESERVATION_MS_MAX + 1, i64::MAX]),
                shared: false,
            }),
        };
        let content = self.content();
        Draft { content, ..self.draft(actor, intent) }
    }

    fn some_patterns(&mut self) -> Vec<Pattern> {
        let count = self.rng.weighted(&[(70, 1), (25, 2), (5, 4)]);
        (0..count).map(|_| pattern(self.rng.pick::<&str>(PATTERNS))).collect()
    }

    /// Mostly short, so that reservations expire.
    fn reservation_ms(&mut self) -> i64 {
        match self.rng.below(100) {
            0..75 => self.rng.between(limits::LEASE_MS_MIN, 10 * limits::MINUTE_MS),
            75..95 => limits::RESERVATION_MS_DEFAULT,
            _ => limits::RESERVATION_MS_MAX,
        }
    }
}

fn pattern(text: &str) -> Pattern {
    text.parse().expect("a pattern")
}
