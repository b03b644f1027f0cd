//! Dead letters: mail that failed, died, expired or was returned.

pub mod drop;
pub mod list;
