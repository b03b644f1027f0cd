//! Bytes of a log and of stored content.

use std::path::PathBuf;

use poste_core::log::{Content, KINDS, Sealed};
use poste_core::secrets;

use super::{Checked, must};
use crate::{corpus, forge};

/// One record of each kind, from the golden files.
pub(super) fn golden_records() -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/records/v1");
    KINDS
        .iter()
        .map(|kind| {
            let path = folder.join(format!("{:02}-{}.json", kind.number, kind.name));
            std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        })
        .collect()
}

pub(super) fn record_seeds() -> Vec<Vec<u8>> {
    golden_records()
}

pub(super) fn record(input: &[u8]) -> Checked {
    let as_given = open(input)?;
    // A process that can append can compute a checksum, so the same bytes are also tried with a correct one.
    let mut object = without_checksum(input).to_vec();
    if object.last() != Some(&b'}') {
        object.push(b'}');
    }
    let forged = open(&forge::with_checksum(&object))?;
    Ok(format!("{as_given}; forged: {forged}"))
}

/// What precedes the checksum, if there is one at the end.
fn without_checksum(input: &[u8]) -> &[u8] {
    let key = b",\"checksum\":\"";
    match input.windows(key.len()).rposition(|window| window == key) {
        Some(at) if input.len() - at < 40 => &input[..at],
        _ => input,
    }
}

fn open(bytes: &[u8]) -> Checked {
    let sealed = match Sealed::open(bytes.to_vec()) {
        Ok(sealed) => sealed,
        Err(malformed) => return Ok(malformed.to_string()),
    };
    must(sealed.bytes() == bytes, || "a record is not kept byte for byte".to_owned())?;
    let again = Sealed::open(sealed.bytes().to_vec()).map_err(|error| format!("it does not open again: {error}"))?;
    must(again.envelope.fingerprint() == sealed.envelope.fingerprint(), || {
        "two fingerprints of one record".to_owned()
    })?;
    Ok(match sealed.intent() {
        Ok(Some(intent)) => intent.kind().name.to_owned(),
        Ok(None) => "unknown kind".to_owned(),
        Err(malformed) => format!("{}: {malformed}", sealed.envelope.kind),
    })
}

pub(super) fn content_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = [
        r#"{}"#,
        r##"{"subject":"Fix the login","body":"# Steps\n\n1. look","payload":{"z":1e400,"a":[9007199254740993,{}]},"context":"c","expect":"e","references":["a","b"],"metadata":{"k":"v"},"summary":"s","recommend":"r"}"##,
        r#"{"subject":"bytes","body":{"base64":"//4A"}}"#,
        r#"{"payload":"\ud83d\ude42"}"#,
        r#"{"payload":"\ud800"}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    seeds.extend(corpus::JSON_TEXTS.iter().map(|json| format!("{{\"payload\":{json}}}").into_bytes()));
    seeds
}

pub(super) fn content(input: &[u8]) -> Checked {
    let content = match Content::decode(input) {
        Ok(content) => content,
        Err(error) => return Ok(error.to_string()),
    };
    let encoded = content.encode();
    let again = Content::decode(&encoded).map_err(|error| format!("what was encoded does not decode: {error}"))?;
    must(again.encode() == encoded, || "equal content has two encodings".to_owned())?;
    must(again.body == content.body, || "a body changed".to_owned())?;
    let raw = |content: &Content| content.payload.as_ref().map(|payload| payload.get().to_owned());
    must(raw(&again) == raw(&content), || "a payload changed".to_owned())?;
    for finding in secrets::find(&content) {
        must(finding.line > 0 && finding.column > 0, || format!("a secret is nowhere: {finding:?}"))?;
    }
    if let Some(payload) = raw(&content)
        && content.check().is_ok()
    {
        let strict = serde_json::from_str::<serde_json::Value>(&payload);
        // Numbers beyond a double are kept as written; everything else must be readable for any parser.
        let readable = strict.is_ok() || strict.is_err_and(|error| error.to_string().contains("number out of range"));
        must(readable, || format!("a payload was taken that a strict reader refuses: {payload}"))?;
    }
    Ok(match content.check().and_then(|()| content.check_message()) {
        Ok(()) => format!("content, text {}, payload {}", content.body.is_text(), content.payload.is_some()),
        Err(why) => why,
    })
}
