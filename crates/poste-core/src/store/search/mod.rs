//! The search index: a separate cache in `search.db`, which can be deleted at any time.
//!
//! Only searches open it, so a send never pays for it. It is updated in two steps, both in short transactions. So a
//! killed search leaves a valid index for the next one to continue with, and concurrent searches share the work:
//!
//! 1. Read the log from where the index ends. Every message that is new, or that a record says something about (a
//!    result, a reason, a note), is added to the list of waiting numbers.
//! 2. Index the waiting messages, newest first, each with everything said about it so far. So an incomplete index
//!    lacks only the oldest messages.
//!
//! A document's key is the message's number. Numbers increase with time, so newest first is one walk down the index,
//! and a time span is a range of it. Sender, recipients, type and conversation are tokens in a column of their own, so
//! that a filter is an intersection of two lists and not a check of each match.

mod index;
mod marks;
mod query;

pub use index::{Chunk, DAMAGED, Document, Filters, Index, Range, Start, forget, is_damage};
pub use marks::{Marks, Piece};
pub use query::{InvalidQuery, QUERY_BYTES_MAX, Words};
