//! How agents are reached: the server of tools they call, the hooks their programs run, the ways to wake an idle session,
//! and the set-up of each program.
//!
//! Nothing here decides about mail: rules live in `poste-core`. What a tool does is a verb of `poste-verbs`.

pub mod guard;
pub mod hook;
pub mod mcp;
pub mod paths;
pub mod setup;
pub mod shell;
pub mod station;
