//! The command line, played by real processes on desks of their own.

mod artifacts;
mod backup;
mod batch;
mod common;
mod doctor;
mod finding;
mod first_steps;
mod help;
mod hostile;
mod house;
mod inbox;
mod looking;
mod policy;
mod schemas;
mod sending;
mod times;
mod topics;
mod waiting;
mod work;
