//! A scripted model on loopback, and the real agent programs that query it.
//!
//! No program is imitated: each is installed as its vendor publishes it, is told that the model is at an address of
//! this machine, and treats the answers as usual. Its requests are kept, so that a test can say in which request a text
//! reached the model.

pub mod dialect;
pub mod model;
pub mod script;

pub use dialect::Dialect;
pub use model::{Asked, Model};
pub use script::{Rule, Say};
