//! Workflows: a definition is read and checked, started once, and gone on with by whoever looks.
//!
//! ```text
//!  NAME.toml ── lint ──▶ Definition ── start ──▶ workflow.start        the log keeps the definition, too
//!                                                    │
//!        plan(definition, inputs, what happened) ◀───┘   views::workflow
//!                     │ acts
//!                     ▼
//!                  advance ──▶ workflow.step · workflow.mark · workflow.end
//! ```

mod definition;
mod engine;
mod lint;
mod plan;
pub mod render;
mod source;
mod words;

pub use definition::{Definition, ForEach, Input, OnFail, Step, Target};
pub use engine::{
    Advanced, FOLDER, Registered, Source, StartError, Started, advance, advance_news, advance_news_of, advance_one,
    began, definitions, find, folders, proposal_of, start,
};
pub use lint::{Anybody, Known, lint};
pub use plan::{Act, Inputs, Stir, Task, plan};
pub use source::Format;
