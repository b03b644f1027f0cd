//! Parsing `poste.toml` and `.poste/local.toml`, and reporting mistakes in them.

mod agents;
mod gates;
mod on;
mod policy;
mod wake;

use poste_config::ConfigFile;

/// All problems of a `poste.toml`.
fn problems(text: &str) -> Vec<String> {
    ConfigFile::check(text).1.into_iter().map(|problem| problem.to_string()).collect()
}
