//! Senders inside lines that Poste writes.

use poste_core::escape;
use poste_core::vocabulary::TrustLabel;

/// A sender. Where nothing proves that a person wrote in their own name, the line says so: people and models would take
/// the name for the person.
pub fn named(from: &str, trust: TrustLabel) -> String {
    let from = escape::line(from);
    match trust {
        TrustLabel::Unproven => format!("{from} ({trust})"),
        _ => from.into_owned(),
    }
}
