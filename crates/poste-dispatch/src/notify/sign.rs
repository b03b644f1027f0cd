//! Signatures of webhooks, in the form of Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`,
//! the last one `v1,` and the base64 of HMAC-SHA256 over `ID.TIMESTAMP.BODY`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// How far the time of a signed request may be from this machine's.
pub const TOLERANCE_S: i64 = 5 * 60;

/// The shortest key: 128 bits cannot be guessed.
pub const KEY_BYTES_MIN: usize = 16;

/// A key that signs and verifies.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

/// Why a secret cannot be used as a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Weak {
    #[error("what follows whsec_ is not valid base64")]
    Encoding,
    #[error("the key has {0} bytes; a signing key needs at least {KEY_BYTES_MIN}")]
    Short(usize),
}

impl Key {
    /// The key of a secret: the bytes after `whsec_`, in base64, or else the text as it is.
    pub fn new(secret: &str) -> Result<Self, Weak> {
        let bytes = match secret.strip_prefix("whsec_") {
            Some(encoded) => STANDARD.decode(encoded).map_err(|_| Weak::Encoding)?,
            None => secret.as_bytes().to_vec(),
        };
        match Hmac::new_from_slice(&bytes) {
            Ok(mac) if bytes.len() >= KEY_BYTES_MIN => Ok(Self(mac)),
            _ => Err(Weak::Short(bytes.len())),
        }
    }

    fn mac(&self, id: &str, timestamp: i64, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        mac
    }

    /// The value of `webhook-signature`.
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        format!("v1,{}", STANDARD.encode(self.mac(id, timestamp, body).finalize().into_bytes()))
    }

    /// Checks a signed request. One valid signature of several is enough, so that secrets can be rotated.
    pub fn verify(&self, id: &str, timestamp: &str, signatures: &str, body: &[u8], now_s: i64) -> Result<(), Unsigned> {
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
        match given.iter().any(|given| self.mac(id, timestamp, body).verify_slice(given).is_ok()) {
            true => Ok(()),
            false => Err(Unsigned::Wrong),
        }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
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
