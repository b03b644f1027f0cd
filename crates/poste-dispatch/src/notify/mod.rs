//! Telling people of mail: rules of `[[on]]`, each seen to by one process at a time.
//!
//! A rule is held only while there is something to tell, by a lease in the log; its cursor is a record. So any number of
//! watchers may run beside each other, one may be killed anywhere, and whoever comes next goes on where the cursor
//! stands: each message is told at least once, always with the same key, by which a receiver knows it again.
//!
//! Messages of one rule are told in the order of the log. One that cannot be told holds up those behind it, not other
//! rules, until it was tried as often as its rule says; then it is a dead letter of the rule and the next one follows.

pub mod by_hand;
mod channels;
mod held;
mod matching;
mod post;
mod secret;
pub mod sign;
mod watcher;

pub use by_hand::Retried;
pub(crate) use channels::{MESSAGE_TYPE, OFFICE_HEADER};
pub use matching::{RULE_KEY, RULE_VARIABLE};
pub use secret::{Secret, missing as missing_secret, read as read_secret};
pub use watcher::{Line, WatchOptions, Watcher, What, begin_rules, catch_up};
