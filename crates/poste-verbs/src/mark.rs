//! The mark of an office. Its outgoing notifications carry it, so that they are recognized when they come back.

use std::collections::BTreeSet;

use poste_core::error::Error;
use poste_core::{Digest, Office, Position, views};

const PREFIX: &str = "poste-office-";
const DIGITS: usize = 16;

/// The unique id of an office: that of its first record.
pub fn office_id(office: &Office) -> Result<String, Error> {
    let first = views::sealed(office.store(), Position(1))?;
    let first = first.ok_or_else(|| Error::Damaged("the log has no first record".to_owned()))?;
    Ok(first.envelope.id.to_string())
}

pub fn of(office_id: &str) -> String {
    let digest = Digest::of(office_id.as_bytes()).to_string();
    format!("{PREFIX}{}", &digest[..DIGITS])
}

/// All marks in a text.
pub fn all_in(text: &str) -> BTreeSet<String> {
    let marks = text.match_indices(PREFIX).filter_map(|(at, _)| text.get(at..at + PREFIX.len() + DIGITS));
    marks.map(ToOwned::to_owned).collect()
}
