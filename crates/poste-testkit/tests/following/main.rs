//! Offices in folders that follow a log ordered elsewhere.

mod answers;
mod idle;
mod malformed;
mod offices;
mod refusals;
mod resuming;
mod world;
