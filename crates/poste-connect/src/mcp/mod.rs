//! The Model Context Protocol, spoken over a [`Table`] of tools, resources and prompts, and the table of Poste.
//!
//! The protocol does not know what the tools do. [`Server`] answers both revisions, the stateless one of 2026-07-28 and those with a
//! handshake, whatever carries it; [`serve_stdio`] is the carrier of `poste mcp`: lines on stdin and stdout. [`PosteTable`] calls verbs on one connection, in the
//! name of the agent this process speaks for.

mod connection;
mod notes;
mod poste;
mod prompts;
mod render;
mod resources;
#[expect(deprecated, reason = "older revisions can set what is logged")]
mod server;
mod stdio;
#[expect(deprecated, reason = "older revisions can set what is logged")]
mod table;
mod tools;
mod watch;

pub use connection::{AnswerText, VerbText};
pub use poste::PosteTable;

pub use rmcp;
pub use rmcp::ErrorData;
pub use rmcp::model;
pub use server::Server;
pub use stdio::{FRAME_BYTES_MAX, serve_stdio};
pub use table::{After, Answered, Call, News, Notices, Table};
pub use tools::{Profile, verbs_with_text};
