//! New inputs from old ones: by bytes, by significant tokens, and by the structure of JSON.

use serde_json::{Map, Value, json};

use crate::corpus;
use crate::rng::Rng;

/// Inputs do not grow beyond this. Larger ones are tested explicitly, in `tests/hostile`.
const INPUT_BYTES_MAX: usize = 64 * 1024;

/// A changed copy of `input`. `other` is another input to take parts from.
pub fn mutate(rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut changed = input.to_vec();
    for _ in 0..=rng.below(4) {
        changed = match rng.below(10) {
            0..5 => by_structure(rng, &changed, other).unwrap_or_else(|| by_bytes(rng, &changed, other)),
            _ => by_bytes(rng, &changed, other),
        };
    }
    changed.truncate(INPUT_BYTES_MAX);
    changed
}

fn by_bytes(rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let at = rng.below(bytes.len() + 1);
    let span = rng.below(bytes.len() - at + 1).min(1 << rng.below(12));
    match rng.below(11) {
        0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
        1 if at < bytes.len() => bytes[at] = rng.bytes(1)[0],
        2 => bytes.truncate(at),
        3 => {
            bytes.drain(at..at + span);
        }
        4 => {
            let copy = bytes[at..at + span].to_vec();
            for _ in 0..=rng.below(8) {
                bytes.splice(at..at, copy.iter().copied());
            }
        }
        5 if !other.is_empty() => {
            let from = rng.below(other.len());
            let length = rng.below(other.len() - from + 1);
            bytes.splice(at..at + span, other[from..from + length].iter().copied());
        }
        6 => return with_another_number(rng, &bytes),
        7 => {
            let token = rng.pick(TOKENS).as_bytes();
            bytes.splice(at..at, token.iter().copied());
        }
        8 => {
            let token = some_text(rng).into_bytes();
            bytes.splice(at..at + span, token);
        }
        9 => {
            let other_at = rng.below(bytes.len() + 1);
            let (low, high) = (at.min(other_at), at.max(other_at));
            bytes[low..high].rotate_left((high - low) / 2);
        }
        _ => bytes.insert(at, rng.bytes(1)[0]),
    }
    bytes
}

/// Tokens that matter to grammars.
const TOKENS: &[&str] = &[
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\n",
    "\r\n",
    "\0",
    "\\u",
    "\\ud800",
    "null",
    "true",
    "-",
    ".",
    "/",
    "..",
    "=",
    "#",
    "'",
    "@",
    "e",
    "E",
    "+",
    "*",
    ">",
    "every:",
    "role:",
    "topic:",
    "can:",
    "everyone",
    "poste",
    "--",
    "--as",
    "--json",
    "Z",
    "T",
    "P",
    "h",
    "m",
    "s",
    "d",
    " ",
    "\t",
    "[[",
    "]]",
    "\"\"\"",
    "</poste-message-",
    "\u{feff}",
    "\u{202e}",
    "\u{1b}[",
    ",\"content\":",
    ",\"checksum\":\"",
    "{\"position\":",
];

fn some_text(rng: &mut Rng) -> String {
    match rng.below(6) {
        0 => rng.pick(corpus::NAMES).to_string(),
        1 => rng.pick(corpus::TEXTS).to_string(),
        2 => rng.pick(corpus::FENCES).to_string(),
        3 => rng.pick(corpus::JSON_TEXTS).to_string(),
        4 => "x".repeat(rng.below(300)),
        _ => char::from_u32(rng.below(0x11_0000) as u32).map(String::from).unwrap_or_default(),
    }
}

/// Replaces one run of digits with another number.
fn with_another_number(rng: &mut Rng, bytes: &[u8]) -> Vec<u8> {
    let starts: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at].is_ascii_digit() && (*at == 0 || !bytes[at - 1].is_ascii_digit()))
        .collect();
    let Some(start) = rng.pick_any(&starts).copied() else { return bytes.to_vec() };
    let end =
        bytes[start..].iter().position(|byte| !byte.is_ascii_digit()).map_or(bytes.len(), |length| start + length);
    let number = some_number(rng).to_string();
    [&bytes[..start], number.as_bytes(), &bytes[end..]].concat()
}

fn some_number(rng: &mut Rng) -> i128 {
    let near = rng.between(-2, 2);
    match rng.below(8) {
        0 => i128::from(*rng.pick(corpus::NUMBERS)) + i128::from(near),
        1 => 1_i128 << rng.below(65),
        2 => -(1_i128 << rng.below(64)),
        _ => i128::from(rng.between(0, 150)),
    }
}

/// Changes one line of the input that is JSON, in one place. `None` if there is no such line.
fn by_structure(rng: &mut Rng, input: &[u8], other: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(input).ok()?;
    let lines: Vec<&str> = text.split('\n').collect();
    // Most inputs are one JSON text, possibly on several lines; the others are lines of JSON.
    if let Some(changed) = change_json(rng, text, other) {
        return Some(changed.into_bytes());
    }
    let chosen = rng.below(lines.len());
    let mut changed: Vec<String> = lines.iter().map(ToString::to_string).collect();
    match rng.below(12) {
        0 => {
            changed.remove(chosen);
        }
        1 => changed.insert(chosen, lines[chosen].to_owned()),
        2 => {
            let place = rng.below(changed.len());
            changed.swap(chosen, place);
        }
        3 => {
            let others = String::from_utf8_lossy(other);
            let others: Vec<&str> = others.split('\n').collect();
            changed.insert(chosen, (*rng.pick(&others)).to_owned());
        }
        _ => {
            let start = lines[chosen].find('{')?;
            let (before, json) = lines[chosen].split_at(start);
            changed[chosen] = format!("{before}{}", change_json(rng, json, other)?);
        }
    }
    Some(changed.join("\n").into_bytes())
}

fn change_json(rng: &mut Rng, json: &str, other: &[u8]) -> Option<String> {
    let mut value: Value = serde_json::from_str(json).ok()?;
    if !value.is_object() && !value.is_array() {
        return None;
    }
    if rng.chance(60) {
        return Some(with_a_key_twice(rng, json));
    }
    let donor = donor(rng, other);
    change_somewhere(rng, &mut value, donor.as_ref());
    Some(value.to_string())
}

/// A JSON text may contain the same key twice; a parsed value cannot.
fn with_a_key_twice(rng: &mut Rng, json: &str) -> String {
    let Some((key, rest)) = json.trim_start().strip_prefix("{\"").and_then(|rest| rest.split_once('"')) else {
        return json.to_owned();
    };
    format!("{{\"{key}\":{},\"{key}\"{rest}", some_value(rng))
}

fn donor(rng: &mut Rng, other: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(other).ok()?;
    serde_json::from_str(text).ok().or_else(|| {
        let lines: Vec<&str> = text.lines().filter_map(|line| line.find('{').map(|start| &line[start..])).collect();
        serde_json::from_str(rng.pick_any(&lines)?).ok()
    })
}

fn change_somewhere(rng: &mut Rng, value: &mut Value, donor: Option<&Value>) {
    let stays_here = rng.chance(200);
    match value {
        Value::Object(object) if !object.is_empty() && !stays_here => {
            let key = object.keys().nth(rng.below(object.len())).cloned().unwrap_or_default();
            let same_of_donor = donor.and_then(|donor| donor.get(&key));
            match rng.below(12) {
                0 => {
                    object.shift_remove(&key);
                }
                1 => {
                    object.insert(some_text(rng), some_value(rng));
                }
                2 | 3 => take_from(rng, object, donor),
                4 if same_of_donor.is_some() => object[&key] = same_of_donor.cloned().unwrap_or_default(),
                _ => change_somewhere(rng, &mut object[&key], same_of_donor),
            }
        }
        Value::Array(items) if !items.is_empty() && !stays_here => {
            let index = rng.below(items.len());
            match rng.below(6) {
                0 => {
                    items.remove(index);
                }
                1 => {
                    let copies = 1 << rng.below(9);
                    let item = items[index].clone();
                    items.extend(std::iter::repeat_n(item, copies));
                }
                _ => change_somewhere(rng, &mut items[index], donor.and_then(|donor| donor.get(0))),
            }
        }
        Value::Number(number) if rng.chance(600) => {
            let near = number.as_i64().map(|number| number.saturating_add(rng.between(-2, 2)));
            *value = near.map_or_else(|| some_value(rng), |near| json!(near));
        }
        Value::String(text) if rng.chance(500) => {
            let part = some_text(rng);
            let mut bytes = by_bytes(rng, text.as_bytes(), part.as_bytes());
            bytes.truncate(2_000);
            *text = String::from_utf8_lossy(&bytes).into_owned();
        }
        other => *other = some_value(rng),
    }
}

/// A member of another object: a field of another kind of record, or another value for the same field.
fn take_from(rng: &mut Rng, object: &mut Map<String, Value>, donor: Option<&Value>) {
    let Some(Value::Object(donor)) = donor else { return };
    if donor.is_empty() {
        return;
    }
    if let Some((key, value)) = donor.iter().nth(rng.below(donor.len())) {
        object.insert(key.clone(), value.clone());
    }
}

fn some_value(rng: &mut Rng) -> Value {
    match rng.below(10) {
        0 => json!(null),
        1 => json!(rng.chance(500)),
        2 | 3 => {
            let number = some_number(rng);
            i64::try_from(number)
                .map(Value::from)
                .or_else(|_| u64::try_from(number).map(Value::from))
                .unwrap_or_default()
        }
        4 => json!(1.5),
        5 => json!([some_text(rng), some_text(rng)]),
        6 => json!({ some_text(rng): some_text(rng) }),
        7 => {
            let depth = 1 << rng.below(8);
            (0..depth).fold(json!([]), |inner, _| json!([inner]))
        }
        8 => rng.pick(&[json!([]), json!({}), json!({"at": i64::MAX}), json!({"in_ms": -1}), json!([1, 1, 0])]).clone(),
        _ => json!(some_text(rng)),
    }
}
