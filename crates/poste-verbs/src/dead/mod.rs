//! What failed, died, expired or came back.

pub mod drop;
pub mod list;
