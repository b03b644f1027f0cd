//! Text for a model: mail and contexts in a fence, subjects in quotes, and the cost of a text in tokens.

pub mod fence;
pub mod sender;
pub mod subject;
pub mod tokens;
