//! How agents are reached: files that are set up, hooks, and the server of tools.

mod files;
mod hook;
mod server;
mod texts;
