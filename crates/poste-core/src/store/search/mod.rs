//! The search index: a cache of its own in `search.db`, which anybody may delete at any time.
//!
//! Only searching opens it, so a send never pays for it. It is brought up to date in two steps, both in short
//! transactions, so that whoever is killed in the middle leaves a sound index for the next one to go on with, and two
//! searches at once share the work:
//!
//! 1. The log is read on from where the index stands. Every message that is new, or that somebody said something
//!    about (a result, a reason, a note), is put on the list of waiting numbers.
//! 2. Waiting messages are indexed, newest first, each with everything said about it so far. So an index that is not
//!    full yet lacks only the oldest messages.
//!
//! A document's key is the message's number. Numbers rise with time, so newest first is one walk down the index, and a
//! time is a range of it. Who wrote to whom, the type and the conversation are tokens in a column of their own, so
//! that a filter is an intersection of two lists and not a look at each match.

mod index;
mod marks;
mod query;

pub use index::{Chunk, DAMAGED, Document, Filters, Index, Range, Start, forget, is_damage};
pub use marks::{Marks, Piece};
pub use query::{InvalidQuery, QUERY_BYTES_MAX, Words};
