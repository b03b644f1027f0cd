//! The rules that configuration files set, one test a sentence, against a real office folder.
#![allow(clippy::disallowed_methods, reason = "these tests write the files, as people do")]

mod adopt;
#[path = "../../../poste-core/tests/rules/common.rs"]
#[allow(dead_code, reason = "the desk of the core's own tests")]
mod common;
mod doctor;
mod edit;
mod gates;
mod machine;
mod payload;
mod policy;
mod reading;
mod trust;

/// How a [`common::Desk`] proposes.
use poste_config::propose;
