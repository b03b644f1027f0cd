//! The envelope: the permanent form of a record.
//!
//! An envelope is one JSON object whose last member is a checksum over every byte before it. The bytes are stored and
//! passed on unchanged, so nothing depends on writing JSON the same way twice:
//!
//! ```text
//! {"format":1,"kind":20,"name":"message.send","version":1,"critical":true,"id":…,"actor":…,
//!  "session":…,"machine":…,"via":1,"sent_at":…,"header":{…},"content":{"length":…,"digest":…},"checksum":"0123456789abcdef"}
//! ```

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::digest::Digest;
use crate::limits;
use crate::log::{Artifact, ArtifactState, Content, Intent, Proof, Proposal, Via};
use crate::text::{Label, Name, RecordId, Session};
use crate::time::Timestamp;

/// The format of the envelope itself. A reader stops at one it does not know.
pub const FORMAT: u16 = 1;

const CHECKSUM_HEX_DIGITS: usize = 16;
const CHECKSUM_KEY: &[u8] = b",\"checksum\":\"";
const CHECKSUM_END: &[u8] = b"\"}";

/// Length and digest of the content that belongs to a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentRef {
    pub length: u64,
    pub digest: Digest,
}

impl ContentRef {
    /// Whether these are the bytes that were written.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.length && Digest::of(bytes) == self.digest
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Envelope {
    pub format: u16,
    pub kind: u16,
    pub name: String,
    pub version: u16,
    /// A reader that does not know the kind must stop instead of keeping the record for later.
    pub critical: bool,
    pub id: RecordId,
    #[serde(deserialize_with = "crate::text::name_in_log")]
    pub actor: Name,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    /// The machine whose office proposed the record. A machine has a different id in every office.
    pub machine: Label,
    #[serde(with = "via_number")]
    pub via: Via,
    #[serde(default = "unproven", with = "proof_number", skip_serializing_if = "is_unproven")]
    pub proof: Proof,
    pub sent_at: Timestamp,
    pub header: Box<RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<ContentRef>,
}

impl Envelope {
    /// Equal for two proposals that ask for the same change. Covers kind, actor, header and content, but not the
    /// sender's clock, session, machine, surface or proof.
    pub fn fingerprint(&self) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.kind.to_le_bytes());
        hasher.update(&self.version.to_le_bytes());
        hasher.update(&[u8::try_from(self.actor.as_str().len()).unwrap_or(u8::MAX)]);
        hasher.update(self.actor.as_str().as_bytes());
        if let Some(content) = &self.content {
            hasher.update(content.digest.as_bytes());
        }
        hasher.update(self.header.get().as_bytes());
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        fingerprint
    }
}

/// A surface is a number in an envelope, so that an older program can read records of a newer one that knows more
/// surfaces.
mod via_number {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::log::Via;

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    pub(super) fn serialize<S: Serializer>(via: &Via, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(via.number())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Via, D::Error> {
        let number = u8::deserialize(deserializer)?;
        Ok(Via::of_number(number.into()).unwrap_or(Via::Unknown))
    }
}

/// A proof is a number too. One that only a newer program knows proves nothing here.
mod proof_number {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::log::Proof;

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    pub(super) fn serialize<S: Serializer>(proof: &Proof, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(proof.number())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Proof, D::Error> {
        let number = u8::deserialize(deserializer)?;
        Ok(Proof::of_number(number.into()).unwrap_or(Proof::None))
    }
}

fn unproven() -> Proof {
    Proof::None
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_unproven(proof: &Proof) -> bool {
    !proof.is_given()
}

/// Why bytes are not a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the envelope has {0} bytes, at most {max} are allowed", max = limits::ENVELOPE_BYTES_MAX)]
    TooLarge(usize),
    #[error("the checksum is missing")]
    NoChecksum,
    #[error("the checksum does not match: the record is damaged")]
    Checksum,
    #[error("the envelope is not of a known shape: {0}")]
    Shape(String),
    #[error("the envelope has format {0}, this program knows {FORMAT}")]
    Format(u16),
    #[error("{0}")]
    Content(String),
}

/// An envelope as stored: decoded and as exact bytes, with the content beside it.
#[derive(Debug, Clone)]
pub struct Sealed {
    bytes: Vec<u8>,
    pub envelope: Envelope,
    /// Absent when it was redacted, archived, or has not arrived yet.
    pub content: Option<EncodedContent>,
}

#[derive(Debug, Clone)]
pub struct EncodedContent {
    pub subject: String,
    pub bytes: Vec<u8>,
}

impl Sealed {
    /// Encodes a proposal. Checks all limits here, before anything is written anywhere.
    pub fn seal(proposal: &Proposal, machine: &Label) -> Result<Self, Malformed> {
        let content = match &proposal.content {
            Some(content) if !content.is_empty() => Some(encode_content(content)?),
            _ => None,
        };
        let header = proposal.intent.header();
        let kind = proposal.intent.kind();
        let envelope = Envelope {
            format: FORMAT,
            kind: kind.number,
            name: kind.name.to_owned(),
            version: kind.version,
            critical: kind.critical,
            id: proposal.id.clone(),
            actor: proposal.actor.clone(),
            session: proposal.session.clone(),
            machine: machine.clone(),
            via: proposal.via,
            proof: proposal.proof,
            sent_at: proposal.sent_at,
            header,
            content: content
                .as_ref()
                .map(|content| ContentRef { length: content.bytes.len() as u64, digest: Digest::of(&content.bytes) }),
        };
        let mut bytes = serde_json::to_vec(&envelope).map_err(|error| Malformed::Shape(error.to_string()))?;
        bytes.pop(); // the closing brace, added back after the checksum
        let checksum = checksum(&bytes);
        bytes.extend_from_slice(CHECKSUM_KEY);
        bytes.extend_from_slice(checksum.as_bytes());
        bytes.extend_from_slice(CHECKSUM_END);
        if bytes.len() > limits::ENVELOPE_BYTES_MAX {
            return Err(Malformed::TooLarge(bytes.len()));
        }
        Ok(Self { bytes, envelope, content })
    }

    /// Reads bytes from a log. Total: any input gives a record or a reason.
    pub fn open(bytes: Vec<u8>) -> Result<Self, Malformed> {
        Self::open_or_return(bytes).map_err(|(malformed, _)| malformed)
    }

    /// Like [`open`](Self::open), but returns the bytes if they are not a record.
    pub(super) fn open_or_return(bytes: Vec<u8>) -> Result<Self, (Malformed, Vec<u8>)> {
        match read_envelope(&bytes) {
            Ok(envelope) => Ok(Self { bytes, envelope, content: None }),
            Err(malformed) => Err((malformed, bytes)),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The typed header, if this program knows the kind and version.
    pub fn intent(&self) -> Result<Option<Intent>, Malformed> {
        Intent::decode(self.envelope.kind, self.envelope.version, self.envelope.header.get())
            .map_err(|error| Malformed::Shape(error.to_string()))
    }
}

impl EncodedContent {
    /// The content received with a record; `None` if it is not the content that the record names.
    pub(super) fn of_record(bytes: Vec<u8>, envelope: &Envelope) -> Option<Self> {
        let is_it = envelope.content.is_some_and(|content| content.is_of(&bytes));
        let content = is_it.then(|| Content::decode(&bytes).ok()).flatten()?;
        Some(Self { subject: content.subject, bytes })
    }
}

impl Sealed {
    /// The files that this record needs copies of in the office.
    pub(crate) fn attached(&self) -> Vec<Artifact> {
        // This runs for every record, but few have attachments: a substring search skips the others.
        if !self.envelope.header.get().contains("\"attached\"") {
            return Vec::new();
        }
        let Ok(Some(intent)) = self.intent() else { return Vec::new() };
        intent.artifacts().iter().filter(|artifact| artifact.state == ArtifactState::Attached).cloned().collect()
    }

    /// Digests of the blobs that a record names: large content, and copies of artifacts.
    pub(crate) fn blobs(&self) -> BTreeSet<Digest> {
        let large = |content: &ContentRef| content.length > limits::CONTENT_INLINE_BYTES_MAX as u64;
        let content = self.envelope.content.filter(large).map(|content| content.digest);
        content.into_iter().chain(self.attached().into_iter().filter_map(|artifact| artifact.digest)).collect()
    }
}

fn read_envelope(bytes: &[u8]) -> Result<Envelope, Malformed> {
    if bytes.len() > limits::ENVELOPE_BYTES_MAX {
        return Err(Malformed::TooLarge(bytes.len()));
    }
    let tail = CHECKSUM_KEY.len() + CHECKSUM_HEX_DIGITS + CHECKSUM_END.len();
    let covered = bytes.len().checked_sub(tail).ok_or(Malformed::NoChecksum)?;
    let written = bytes[covered..]
        .strip_prefix(CHECKSUM_KEY)
        .and_then(|rest| rest.strip_suffix(CHECKSUM_END))
        .ok_or(Malformed::NoChecksum)?;
    if written != checksum(&bytes[..covered]).as_bytes() {
        return Err(Malformed::Checksum);
    }
    /// What every format has in common.
    #[derive(Deserialize)]
    struct AnyFormat {
        format: u16,
    }
    let shape = |error: serde_json::Error| Malformed::Shape(error.to_string());
    match serde_json::from_slice::<AnyFormat>(bytes).map_err(shape)?.format {
        FORMAT => serde_json::from_slice(bytes).map_err(shape),
        other => Err(Malformed::Format(other)),
    }
}

fn encode_content(content: &Content) -> Result<EncodedContent, Malformed> {
    content.check().map_err(Malformed::Content)?;
    let bytes = content.encode();
    if bytes.len() > limits::CONTENT_BYTES_MAX {
        return Err(Malformed::Content(format!(
            "the message has {} bytes, at most {} are allowed; send large things with --attach",
            bytes.len(),
            limits::CONTENT_BYTES_MAX
        )));
    }
    Ok(EncodedContent { subject: content.subject.clone(), bytes })
}

fn checksum(covered: &[u8]) -> String {
    let mut hex = Digest::of(covered).to_string();
    hex.truncate(CHECKSUM_HEX_DIGITS);
    hex
}
