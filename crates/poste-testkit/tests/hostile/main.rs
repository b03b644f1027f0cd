//! The hostile corpus, given to real processes: each ends with a documented exit code and a reason, never panics,
//! writes nothing when it refuses, and prints nothing that a terminal would interpret.
//!
//! Rows 28 to 35 of the fault model.

mod bodies;
mod configs;
mod definitions;
mod desk;
mod fences;
mod generated;
mod paths;
mod payloads;
mod words;
