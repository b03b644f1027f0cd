//! What Poste is tested with.
//!
//! ```text
//!  history ── Proposal ──▶ Office that follows sim::SimLog (or orders here) ──▶ tables ──▶ invariants
//! ```
//!
//! * [`rng`], [`seeds`]: every random choice comes from a seed; a failure names it and how to replay it.
//! * [`clock`]: clocks a test sets by hand.
//! * [`sim`]: a sequencer and replicas in one thread, with the faults of a network and of machines.
//! * [`history`]: random histories in which most proposals are worth making.
//! * [`invariants`]: what must hold of an office at any time, and of a simulation at its end.
//! * [`reports`]: that the reports of an office agree with each other.
//! * [`large_office`]: a large office to search.
//! * [`forge`]: records no honest program writes.
//! * [`corpus`]: hostile names, texts, JSON, TOML and fences.
//! * [`endpoints`]: servers that notifiers talk to.
//! * [`fuzz`]: what makes more of them, and what must hold whatever they are.
//! * [`next`]: the schema of a program of the future.
//! * [`signals`]: what is started ignores none, however the test was started.

pub mod clock;
pub mod corpus;
pub mod endpoints;
pub mod forge;
pub mod fuzz;
pub mod history;
pub mod invariants;
pub mod large_office;
pub mod next;
pub mod reports;
pub mod rng;
pub mod seeds;
pub mod signals;
pub mod sim;
