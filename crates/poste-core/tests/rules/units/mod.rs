//! Unit tests of the parts of an office.

mod address;
mod archive;
mod artifacts;
mod blobs;
mod clock;
mod content;
mod discover;
mod document;
mod envelope;
mod error;
mod escape;
mod files;
mod gates;
mod handoff;
mod lock;
mod package;
mod processes;
mod search;
mod secrets;
mod session_pages;
mod store;
mod text;
mod time;
mod vocabulary;
