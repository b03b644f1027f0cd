//! Rates, hops, secrets in attachments, and keys that are no keys.
