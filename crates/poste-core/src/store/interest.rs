//! What a waiter waits for, as a word that fits into a file name, and which words a commit touches.
//!
//! A word is a list of keys, and a key is a short hash of a [`Concern`]. If two concerns share a key, a waiter
//! sometimes wakes for nothing, but never misses anything. Programs of different versions use the same office, so the
//! hashed text must not change.

use std::collections::BTreeSet;
use std::fmt;

use super::tables::{Agent, Concern, Concerns};
use crate::address::Address;
use crate::text::Name;

/// 24 bits: short enough for a file name to hold the interest of nearly every waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u32);

/// Hexadecimal digits per key.
const KEY_DIGITS: usize = 6;
/// In place of keys: wakes at every commit.
const EVERYTHING: &str = "all";
/// More keys do not fit into a file name next to its other part.
const KEYS_MAX: usize = 36;

impl Key {
    fn of(concern: &Concern) -> Self {
        let text = match concern {
            Concern::Address(address) => format!("address {address}"),
            Concern::Message(number) => format!("message {number}"),
            Concern::Approval(number) => format!("approval {number}"),
            Concern::Handoff(number) => format!("handoff {number}"),
            Concern::Agreement(number) => format!("agreement {number}"),
            Concern::Context(name) => format!("context {name}"),
            Concern::Workflow(label) => format!("workflow {label}"),
            Concern::Reservations => "reservations".to_owned(),
            Concern::Agent(name) => format!("agent {name}"),
            Concern::Handler(label) => format!("handler {label}"),
            Concern::Policy => "policy".to_owned(),
        };
        let [first, second, third, ..] = *blake3::hash(text.as_bytes()).as_bytes();
        Self(u32::from_be_bytes([0, first, second, third]))
    }

    fn read(digits: &[u8]) -> Option<Self> {
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().map(Self)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0KEY_DIGITS$x}", self.0)
    }
}

/// The keys that a commit touched. `None` means all keys.
#[derive(Debug)]
pub(super) struct Touched(Option<BTreeSet<Key>>);

impl Touched {
    pub(super) fn by(concerns: &Concerns) -> Self {
        Self((!concerns.is_everything()).then(|| concerns.keys().map(Key::of).collect()))
    }

    /// Whether a waiter with this word has to look again. The word may be any part of any file name.
    pub(super) fn meets(&self, word: &[u8]) -> bool {
        let Some(keys) = &self.0 else { return true };
        word == EVERYTHING.as_bytes()
            || word.chunks_exact(KEY_DIGITS).filter_map(Key::read).any(|key| keys.contains(&key))
    }
}

/// What a waiter waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interest {
    is_everything: bool,
    concerns: Vec<Concern>,
    /// Agents whose mail it waits for, at the addresses they have at that time.
    mail_of: Vec<Name>,
}

impl Interest {
    /// Wakes at every commit.
    pub fn everything() -> Self {
        Self { is_everything: true, ..Self::default() }
    }

    /// The mail of an agent, whatever roles and capabilities it has or will get.
    pub fn mail(agent: &Name) -> Self {
        Self { mail_of: vec![agent.clone()], ..Self::default() }
    }

    /// Also wakes when this is touched.
    #[must_use]
    pub fn and(mut self, concern: Concern) -> Self {
        self.concerns.push(concern);
        self
    }

    pub(crate) fn mail_of(&self) -> &[Name] {
        &self.mail_of
    }

    /// The word of a waiter, with its agents as they are now.
    pub(crate) fn word<'a>(&self, agents: impl IntoIterator<Item = &'a Agent>) -> String {
        let mut keys: BTreeSet<Key> = self.concerns.iter().map(Key::of).collect();
        for name in &self.mail_of {
            keys.insert(Key::of(&Concern::Agent(name.clone())));
            keys.insert(Key::of(&Concern::Address(Address::Agent(name.clone()))));
        }
        let addresses = agents.into_iter().flat_map(Agent::addresses);
        keys.extend(addresses.map(|address| Key::of(&Concern::Address(address))));
        match self.is_everything || keys.len() > KEYS_MAX {
            true => EVERYTHING.to_owned(),
            false => keys.iter().map(Key::to_string).collect(),
        }
    }
}

impl From<Concern> for Interest {
    fn from(concern: Concern) -> Self {
        Self::default().and(concern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::MessageNo;
    use crate::time::Timestamp;
    use crate::vocabulary::AgentKind;

    fn touched(concerns: &[Concern]) -> Touched {
        Touched::by(&concerns.iter().cloned().collect())
    }

    fn agent(name: &str, role: &str, capabilities: usize) -> Agent {
        Agent {
            name: name.parse().unwrap(),
            kind: AgentKind::Agent,
            role: Some(role.parse().unwrap()),
            capabilities: (0..capabilities).map(|n| format!("c{n}").parse().unwrap()).collect(),
            worktree: None,
            lead: None,
            registered_at: Timestamp::from_ms(0),
            retired_at: None,
        }
    }

    #[test]
    fn a_word_is_met_by_what_it_names_and_by_nothing_else() {
        let word = Interest::from(Concern::Message(MessageNo(7))).and(Concern::Reservations).word([]);
        assert!(touched(&[Concern::Message(MessageNo(7))]).meets(word.as_bytes()));
        assert!(touched(&[Concern::Policy, Concern::Reservations]).meets(word.as_bytes()));
        assert!(!touched(&[Concern::Message(MessageNo(8)), Concern::Approval(MessageNo(7))]).meets(word.as_bytes()));
        assert!(!touched(&[]).meets(word.as_bytes()));
        assert!(touched(&[]).meets(Interest::everything().word([]).as_bytes()));
        assert!(Touched::by(&Concerns::everything()).meets(word.as_bytes()));
    }

    #[test]
    fn mail_is_waited_for_at_every_address_and_so_is_the_agent_itself() {
        let coder = agent("coder", "worker", 1);
        let word = Interest::mail(&coder.name).word([&coder]);
        for address in ["coder", "role:worker", "can:c0"] {
            assert!(touched(&[Concern::Address(address.parse().unwrap())]).meets(word.as_bytes()), "{address}");
        }
        assert!(touched(&[Concern::Agent(coder.name)]).meets(word.as_bytes()));
        assert!(!touched(&[Concern::Address("role:reviewer".parse().unwrap())]).meets(word.as_bytes()));
        assert!(!touched(&[Concern::Address("other".parse().unwrap())]).meets(word.as_bytes()));
    }

    #[test]
    fn more_than_a_name_holds_is_everything() {
        let some = agent("coder", "worker", KEYS_MAX - 3);
        assert_eq!(Interest::mail(&some.name).word([&some]).len(), KEYS_MAX * KEY_DIGITS);
        let many = agent("coder", "worker", KEYS_MAX - 2);
        assert_eq!(Interest::mail(&many.name).word([&many]), EVERYTHING);
    }

    #[test]
    fn any_name_of_a_file_can_be_asked() {
        let reservations = touched(&[Concern::Reservations]);
        for word in ["", "a", "zzzzzz", "+00000", "é1234", "ffffffz", "al", "all.new"] {
            assert!(!reservations.meets(word.as_bytes()), "{word}");
        }
    }

    /// Programs of different versions share an office.
    #[test]
    fn keys_stay_the_same() {
        let concerns = [
            Concern::Address("coder".parse().unwrap()),
            Concern::Address("role:worker".parse().unwrap()),
            Concern::Message(MessageNo(1)),
            Concern::Approval(MessageNo(1)),
            Concern::Handoff(MessageNo(1)),
            Concern::Agreement(MessageNo(1)),
            Concern::Context("plan".parse().unwrap()),
            Concern::Workflow("build-1".parse().unwrap()),
            Concern::Reservations,
            Concern::Agent("coder".parse().unwrap()),
            Concern::Handler("phone".parse().unwrap()),
            Concern::Policy,
        ];
        let words: Vec<String> = concerns.map(|concern| Interest::from(concern).word([])).into();
        assert_eq!(
            words.join(" "),
            "a48272 b8179c 7b9939 164bcf 34bb4b fa9cfd 20b66a 0aff15 75487f 1527f7 1fbed9 ff0960"
        );
    }
}
