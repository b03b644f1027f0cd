//! Connects agent programs to an office: the MCP server, the hooks, the waiter that wakes an idle session, the git
//! guard, and the set-up of each program.
//!
//! Nothing here decides about mail: the rules are in `poste-core`, and tools call the verbs of `poste-verbs`.

pub mod guard;
pub mod hook;
pub mod mcp;
pub mod paths;
pub mod person;
pub mod setup;
pub mod shell;
pub mod station;
