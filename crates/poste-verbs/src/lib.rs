//! The verbs of an office: one file each, from a typed input to a typed answer.
//!
//! ```text
//!  surface ── Input + Caller ──▶ Desk ──▶ verb ──▶ Office::submit ──▶ Answered { answer, next, warnings, marks }
//! ```
//!
//! * [`verb`]: what a verb is, and the registry of all of them.
//! * [`caller`]: on whose behalf a verb runs, and which files it may touch.
//! * [`desk`]: an office and a caller together: proposing, and what surrounds every proposal.
//! * [`answer`]: what comes back: the answer, next steps, warnings, and what to mark once it was printed.
//! * [`note`]: texts that name verbs, which each surface writes in its own form.
//! * [`error`]: what went wrong, as data.
//!
//! Verbs do not use the terminal, environment, working folder or standard streams, and they never wait: a verb that
//! finds nothing yet says so, and its surface waits. This crate never prints.
#![warn(clippy::disallowed_methods)]

#[macro_use]
pub mod note;

pub mod ack;
#[allow(clippy::disallowed_methods, reason = "actions start processes")]
pub mod actions;
pub mod adopt;
pub mod agents;
pub mod agree;
pub mod agreement;
pub mod answer;
pub mod approval;
pub mod approvals;
pub mod approve;
pub mod archive;
pub mod artifacts;
pub mod ask;
pub mod batch;
pub mod broadcast;
pub mod caller;
pub mod claim;
pub mod clock;
pub mod config;
pub mod context;
pub mod dead;
pub mod deny;
pub mod desk;
pub mod doctor;
pub mod done;
pub mod draft;
pub mod error;
mod explain;
pub mod extend;
pub mod fail;
pub mod forward;
pub mod gates;
pub mod handoff;
pub mod inbox;
pub mod ingest;
pub mod init;
mod input;
pub mod leases;
#[allow(clippy::disallowed_methods, reason = "a session's file belongs to the office, not to a caller")]
pub mod live;
pub mod log;
pub mod mark;
pub mod model;
pub mod overdue;
pub mod person;
pub mod program;
pub mod publish;
pub mod read;
pub mod redact;
pub mod register;
pub mod release;
pub mod reply;
pub mod report;
pub mod reservation;
pub mod restore;
pub mod retire;
pub mod retry;
pub mod search;
pub mod secret;
pub mod send;
pub mod session;
pub mod snapshot;
pub mod stats;
pub mod status;
pub mod subscribe;
pub mod tail;
pub mod thread;
pub mod threads;
pub mod topics;
pub mod track;
pub mod trust;
pub mod types;
pub mod unsubscribe;
pub mod verb;
pub mod verify;
pub mod wait;
#[allow(clippy::disallowed_methods, reason = "ringing talks to programs, sockets and terminals")]
pub mod wake;
pub mod watch;
pub mod whoami;
pub mod workflow;

pub use answer::{Answered, Mark};
pub use caller::{Caller, Files, Host};
pub use desk::{Desk, Watcher};
pub use error::{Error, Kind};
pub use explain::{check_filters, explain, no_message, unknown_agent};
pub use input::{Recipients, past_moment};
pub use note::Note;
pub use verb::{Access, Spec, Touch, VERBS, Verb};

pub type Result<T = (), E = Error> = std::result::Result<T, E>;
