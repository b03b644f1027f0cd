//! Records that no honest program writes: envelopes with a correct checksum around anything.
//!
//! The checksum guards against damage, not against malice: a process that can append can also compute it. So the fold
//! has to withstand every envelope that passes, and these are made to pass.

use poste_core::Digest;
use poste_core::log::{Envelope, Malformed, Sealed};
use serde_json::value::RawValue;

/// Must match what `poste_core::log::Sealed` writes and reads; the golden records keep it from changing.
const CHECKSUM_HEX_DIGITS: usize = 16;

/// Appends the correct checksum to a JSON object, whatever is in it.
pub fn with_checksum(object: &[u8]) -> Vec<u8> {
    let mut bytes = object.to_vec();
    assert_eq!(bytes.pop(), Some(b'}'), "an envelope is a JSON object");
    let checksum = Digest::of(&bytes).to_string();
    bytes.extend_from_slice(b",\"checksum\":\"");
    bytes.extend_from_slice(&checksum.as_bytes()[..CHECKSUM_HEX_DIGITS]);
    bytes.extend_from_slice(b"\"}");
    bytes
}

/// Seals a record again after `change` has edited its envelope.
pub fn reseal(original: &Sealed, change: impl FnOnce(&mut Envelope)) -> Result<Sealed, Malformed> {
    let mut envelope = original.envelope.clone();
    change(&mut envelope);
    let object = serde_json::to_vec(&envelope).expect("an envelope is plain data");
    Sealed::open(with_checksum(&object))
}

/// A header from any JSON text.
pub fn header(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).expect("a header is JSON")
}
