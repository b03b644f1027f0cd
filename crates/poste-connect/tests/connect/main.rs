//! How agents are reached: set-up files, hooks and the tool server.

mod files;
mod hook;
mod server;
mod texts;
