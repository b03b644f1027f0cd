//! The command line, played by real processes on desks of their own.

mod archive;
mod artifacts;
mod backup;
mod batch;
mod common;
mod conversations;
mod dead;
mod doctor;
mod finding;
mod first_steps;
mod help;
mod hostile;
mod house;
mod inbox;
mod looking;
mod overdue;
mod policy;
mod redact;
mod schemas;
mod search;
mod sending;
mod status;
mod times;
mod topics;
mod waiting;
mod work;
