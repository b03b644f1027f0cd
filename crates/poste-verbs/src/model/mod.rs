//! Words for a model: mail and contexts in a fence, subjects in quotes, and what a text costs.

pub mod fence;
pub mod subject;
pub mod tokens;
