//! The hostile corpus, given to real processes: each ends with a documented exit code and a reason, panics at nothing,
//! writes nothing when it refuses, and prints nothing that a terminal obeys.
//!
//! Rows 28 to 35 of the fault model.

mod bodies;
mod configs;
mod definitions;
mod desk;
mod fences;
mod paths;
mod payloads;
mod words;
