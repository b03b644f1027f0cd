//! The clock of this machine, as the office sees it.

pub mod accept;
