//! Copies of an office, and offices made from copies.
//!
//! ```text
//! SNAPSHOT/
//!   snapshot.json   what was copied: office, position, chain, table digest, each file with size and digest
//!   office.db       log and tables at that position, one self-contained SQLite file
//!   blobs/          large content and attachments that this log names
//!   archive/        finished conversations
//! ```
//!
//! Both snapshots and restored offices are built under a temporary name and renamed last, so a copy is complete or
//! absent, and an office is replaced completely or not at all. A copy is verified before it gets its name, and again
//! before it becomes an office.

mod manifest;
mod restore;
mod take;

pub use manifest::{Manifest, ManifestFile};
pub use restore::{Restored, restore};
pub(crate) use restore::{kept_prefix, restoring_prefix};
pub use take::take;
