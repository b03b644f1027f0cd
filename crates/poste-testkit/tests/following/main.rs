//! Offices in folders that follow a log which something else orders.

mod refusals;
mod world;
