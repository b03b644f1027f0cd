//! Attacks that once succeeded. Each test gives an attacker what they would have (a repository, an archive, a message, an
//! agent with tools only, an agent that edits files, another local user) and checks that it gets them nothing.

#[path = "../processes/common.rs"]
mod common;

mod folders;
mod limits;
mod models;
mod persons;
mod setup;
mod trust;
