//! The real MCP server over real pipes: both protocol revisions, every tool, budgets, and misbehaving clients.

mod budget;
mod client;
mod gates;
mod handshakes;
mod hostile;
mod subscriptions;
mod tools;
