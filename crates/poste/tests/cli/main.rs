//! The command line, played by real processes on desks of their own.

mod artifacts;
mod batch;
mod common;
mod config;
mod finding;
mod first_steps;
mod help;
mod hostile;
mod house;
mod inbox;
mod looking;
mod policy;
mod replay;
mod schemas;
mod secrets;
mod sending;
mod shells;
mod times;
mod topics;
mod trust;
mod waiting;
mod work;
