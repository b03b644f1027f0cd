//! The tools that Poste is tested with.
//!
//! ```text
//!  history ── Proposal ──▶ Office that follows sim::SimLog (or orders here) ──▶ tables ──▶ invariants
//! ```
//!
//! * [`rng`], [`seeds`]: every random choice is drawn from a seed; a failure names it and how to replay it.
//! * [`clock`]: clocks that a test sets by hand.
//! * [`sim`]: a sequencer and replicas in one thread, with the faults of networks and machines.
//! * [`history`]: random histories in which most proposals make sense.
//! * [`invariants`]: what must hold for an office at any time, and for a simulation at its end.
//! * [`reports`]: checks that the reports of an office agree with each other.
//! * [`large_office`]: a large office to search.
//! * [`forge`]: records that no honest program writes.
//! * [`corpus`]: hostile names, texts, JSON, TOML and fences.
//! * [`endpoints`]: servers that notifiers talk to.
//! * [`fuzz`]: generates more hostile input, and checks what must hold for any input.
//! * [`next`]: the schema of a future program.
//! * [`signals`]: makes sure that started programs ignore no signal, however the test was started.

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
pub mod state;
