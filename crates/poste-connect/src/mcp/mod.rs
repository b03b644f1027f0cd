//! The Model Context Protocol over a [`Table`] of tools, resources and prompts, and the table of Poste.
//!
//! The protocol part does not know what the tools do. [`Server`] supports the stateless revision of 2026-07-28 and the
//! older ones with a handshake, over any transport; [`serve_stdio`] is the transport of `poste mcp`: lines on stdin and
//! stdout. [`PosteTable`] calls verbs as the agent of this process.

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
