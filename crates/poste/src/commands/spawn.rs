//! `poste spawn`: the same as `poste team add`.

pub(crate) use super::team::add::{Args, run};
