//! Reports on messages, conversations, agents and days. A report marks nothing as shown.

pub mod agent;
pub mod blocker;
pub mod broadcast;
pub mod conversation;
pub mod day;
pub mod page;
