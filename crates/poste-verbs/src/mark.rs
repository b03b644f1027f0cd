//! The mark of an office. What it sends out carries it, so that it is known when it comes back in.

use std::collections::BTreeSet;

use poste_core::error::Error;
use poste_core::{Digest, Office, Position, views};

const PREFIX: &str = "poste-office-";
const DIGITS: usize = 16;

/// What no other office has: the id of the first record.
pub fn office_id(office: &Office) -> Result<String, Error> {
    let first = views::sealed(office.store(), Position(1))?;
    let first = first.ok_or_else(|| Error::Damaged("the log has no first record".to_owned()))?;
    Ok(first.envelope.id.to_string())
}

pub fn of(office_id: &str) -> String {
    let digest = Digest::of(office_id.as_bytes()).to_string();
    format!("{PREFIX}{}", &digest[..DIGITS])
}

/// Every mark that stands anywhere in a text.
pub fn all_in(text: &str) -> BTreeSet<String> {
    let marks = text.match_indices(PREFIX).filter_map(|(at, _)| text.get(at..at + PREFIX.len() + DIGITS));
    marks.map(ToOwned::to_owned).collect()
}
