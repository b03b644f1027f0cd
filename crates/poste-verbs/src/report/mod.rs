//! Reports of what became of something. Reporting is not showing: nothing is marked.

pub mod agent;
pub mod blocker;
pub mod broadcast;
pub mod conversation;
pub mod day;
pub mod page;
