//! Offices in folders that follow a log which something else orders.

mod answers;
mod idle;
mod malformed;
mod offices;
mod refusals;
mod resuming;
mod world;
