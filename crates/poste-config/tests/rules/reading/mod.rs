//! What the text of `poste.toml` and `.poste/local.toml` is read as, and what is said of mistakes in it.

mod agents;
mod gates;
mod on;
mod policy;
mod wake;

use poste_config::ConfigFile;

/// Everything that is wrong with a `poste.toml`.
fn problems(text: &str) -> Vec<String> {
    ConfigFile::check(text).1.into_iter().map(|problem| problem.to_string()).collect()
}
