//! The real server of tools over real pipes: both revisions, every tool, budgets, and clients that behave badly.

mod budget;
mod client;
mod gates;
mod handshakes;
mod hostile;
mod subscriptions;
mod tools;
