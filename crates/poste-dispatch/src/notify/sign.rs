//! Signatures of webhooks, in the form of Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`,
//! the last one `v1,` and the base64 of HMAC-SHA256 over `ID.TIMESTAMP.BODY`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// How far the time of a signed request may be from this machine's.
pub const TOLERANCE_S: i64 = 5 * 60;

/// The key of a secret: the bytes after `whsec_`, in base64, else the text as it is.
fn key(secret: &str) -> Vec<u8> {
    let encoded = secret.strip_prefix("whsec_");
    encoded.and_then(|encoded| STANDARD.decode(encoded).ok()).unwrap_or_else(|| secret.as_bytes().to_vec())
}

fn mac(secret: &str, id: &str, timestamp: i64, body: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key(secret)).ok()?;
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    Some(mac)
}

/// The value of `webhook-signature`.
pub fn sign(secret: &str, id: &str, timestamp: i64, body: &[u8]) -> Option<String> {
    let signed = mac(secret, id, timestamp, body)?.finalize().into_bytes();
    Some(format!("v1,{}", STANDARD.encode(signed)))
}

/// Why the signature of a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsigned {
    #[error("the request has no usable signature")]
    Missing,
    #[error("the request was signed too long ago, or the clocks differ")]
    Stale,
    #[error("the signature does not match the secret and the body")]
    Wrong,
}

/// Checks a signed request. One valid signature of several is enough, so that secrets can be rotated.
pub fn verify(
    secret: &str,
    id: &str,
    timestamp: &str,
    signatures: &str,
    body: &[u8],
    now_s: i64,
) -> Result<(), Unsigned> {
    let timestamp: i64 = timestamp.trim().parse().map_err(|_| Unsigned::Missing)?;
    if now_s.abs_diff(timestamp) > TOLERANCE_S.unsigned_abs() {
        return Err(Unsigned::Stale);
    }
    let given: Vec<Vec<u8>> = signatures
        .split_whitespace()
        .filter_map(|signature| STANDARD.decode(signature.strip_prefix("v1,")?).ok())
        .collect();
    if given.is_empty() {
        return Err(Unsigned::Missing);
    }
    // `verify_slice` compares in constant time.
    let is_it = |given: &Vec<u8>| mac(secret, id, timestamp, body).is_some_and(|mac| mac.verify_slice(given).is_ok());
    match given.iter().any(is_it) {
        true => Ok(()),
        false => Err(Unsigned::Wrong),
    }
}
