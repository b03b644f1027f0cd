//! Notifies people of mail by the `[[on]]` rules. One process at a time handles a rule.
//!
//! A rule is held, by a lease in the log, only while there is something to send; its cursor is a record. So any number
//! of watchers may run side by side and each may be killed at any point: the next one continues at the cursor. Each
//! message is sent at least once, always with the same key, by which a receiver recognises a repeat.
//!
//! A rule sends its messages in log order. One that cannot be sent delays those behind it, but no other rule, until its
//! attempts are used up; then it is a dead letter of the rule and the next one follows.

mod channels;
pub mod commands;
mod held;
mod matching;
mod post;
mod secret;
pub mod sign;
mod watcher;

pub(crate) use channels::{MESSAGE_TYPE, OFFICE_HEADER};
pub use commands::Retried;
pub use secret::{read_key, unusable as unusable_secret};
pub use watcher::{Line, WatchOptions, Watcher, What, begin_rules, catch_up};
