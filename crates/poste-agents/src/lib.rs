//! A scripted model on loopback, and the real agent programs that ask it.
//!
//! No program is imitated: each is installed as its makers publish it, is told that the model lives at an address of this
//! machine, and does what it always does with the answers. What it asked is kept, so that a test can say in which request a text
//! reached the model.

pub mod dialect;
pub mod model;
pub mod script;

pub use dialect::Dialect;
pub use model::{Asked, Model};
pub use script::{Rule, Say};
