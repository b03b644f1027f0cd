//! Detects text that looks like a secret. Content in the log can only be redacted, so it is checked beforehand.
//!
//! One pass over the bytes: every sign contains one of six bytes (the `_` of `ghp_`, the `=` of `password=`), and only
//! there the code looks closer, back and ahead by a bounded length. So the time is linear in the text, whatever it
//! contains. The aim is few false alarms: a sign alone is not enough, something that looks random must follow it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::log::Content;

/// Something that looks like a secret, and where. Never the secret itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// For example "a GitHub token".
    pub what: &'static str,
    /// The part of the message: `body`, `payload`, `metadata api_key`, `file .env` …
    pub part: String,
    /// From 1, within that part.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in the {}, line {}, column {}", self.what, self.part, self.line, self.column)
    }
}

/// No one reads more findings than this.
const FINDINGS_MAX: usize = 5;
/// How far to look ahead of a sign, and back, and how much of a value to judge.
const AHEAD_MAX: usize = 4_096;
const BACK_MAX: usize = 64;
const VALUE_MAX: usize = 128;

/// Finds what looks like a secret in a message or a result. For attached files see [`find_in_file`].
pub fn find(content: &Content) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut look = |part: &str, text: &[u8]| {
        for hit in scan(text, FINDINGS_MAX - found.len()) {
            let (line, column) = place(text, hit.at);
            found.push(Finding { what: hit.what, part: part.to_owned(), line, column });
        }
    };
    look("subject", content.subject.as_bytes());
    look("body", &content.body.0);
    if let Some(payload) = &content.payload {
        look("payload", payload.get().as_bytes());
    }
    let texts = [
        ("context", &content.context),
        ("expectation", &content.expect),
        ("summary", &content.summary),
        ("recommendation", &content.recommend),
    ];
    for (part, text) in texts {
        look(part, text.as_deref().unwrap_or_default().as_bytes());
    }
    if let Some(document) = &content.document {
        look("title", document.title.as_deref().unwrap_or_default().as_bytes());
        look("text", document.text.as_deref().unwrap_or_default().as_bytes());
        for (part, json) in [("data", &document.data), ("schema", &document.schema)] {
            look(part, json.as_ref().map_or("", |json| json.get()).as_bytes());
        }
    }
    for reference in &content.references {
        look("references", reference.as_bytes());
    }
    for (key, value) in &content.metadata {
        // A key that holds a secret is not repeated.
        let is_secret = !scan(key.as_bytes(), 1).is_empty();
        let part = if is_secret { "metadata".to_owned() } else { format!("metadata {key}") };
        look(&part, format!("{key}={value}").as_bytes());
    }
    found
}

/// Finds what looks like a secret in the beginning of a file. A binary file, which has a zero byte, is not searched.
pub fn find_in_file(path: &str, beginning: &[u8]) -> Vec<Finding> {
    if beginning.contains(&0) {
        return Vec::new();
    }
    let finding = |hit: Hit| {
        let (line, column) = place(beginning, hit.at);
        Finding { what: hit.what, part: format!("file {}", crate::escape::line(path)), line, column }
    };
    scan(beginning, FINDINGS_MAX).into_iter().map(finding).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hit {
    what: &'static str,
    at: usize,
}

/// Bytes that trigger a closer look.
const fn is_trigger(byte: u8) -> bool {
    matches!(byte, b'_' | b'-' | b'=' | b':' | b'A' | b'J')
}

/// Like [`is_trigger`], as a number and without a branch, so that a whole chunk can be compared at once.
fn triggers(byte: u8) -> u8 {
    [b'_', b'-', b'=', b':', b'A', b'J'].iter().fold(0, |any, trigger| any | u8::from(byte == *trigger))
}

fn scan(text: &[u8], hits_max: usize) -> Vec<Hit> {
    let mut hits: Vec<Hit> = Vec::new();
    let mut from = 0;
    while hits.len() < hits_max
        && let Some(at) = next_trigger(text, from)
    {
        from = at + 1;
        if let Some((hit, end)) = sign_at(text, at) {
            // The end marker of a key whose beginning was already found is the same hit.
            let is_same = hits.last().is_some_and(|last| last.what == hit.what) && text[at..].starts_with(KEY_END);
            if !is_same {
                hits.push(hit);
            }
            from = from.max(end);
        }
    }
    hits
}

/// The next trigger. Skips chunks without one as a whole, because comparing without branches is fast.
fn next_trigger(text: &[u8], from: usize) -> Option<usize> {
    const CHUNK: usize = 32;
    let mut at = from;
    while let Some(chunk) = text.get(at..at + CHUNK)
        && chunk.iter().fold(0, |any, byte| any | triggers(*byte)) == 0
    {
        at += CHUNK;
    }
    text[at..].iter().position(|byte| is_trigger(*byte)).map(|offset| at + offset)
}

/// A secret whose sign ends at this byte, and where the secret ends.
fn sign_at(text: &[u8], at: usize) -> Option<(Hit, usize)> {
    match text[at] {
        b'_' | b'A' => token(text, at),
        b'-' => token(text, at).or_else(|| private_key(text, at)),
        b'J' => web_token(text, at),
        b':' => connection(text, at).or_else(|| assignment(text, at)),
        b'=' => assignment(text, at),
        _ => None,
    }
}

/// A kind of token that its issuer marks with a prefix.
struct Marked {
    prefix: &'static str,
    what: &'static str,
    /// Minimum number of characters after the prefix.
    length_min: usize,
    alphabet: fn(u8) -> bool,
}

const fn marked(prefix: &'static str, what: &'static str, length_min: usize, alphabet: fn(u8) -> bool) -> Marked {
    Marked { prefix, what, length_min, alphabet }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_upper(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

/// Each prefix contains a trigger: at its front (`A`), or after at least two bytes.
const MARKED: &[Marked] = &[
    marked("ghp_", "a GitHub token", 30, is_alphanumeric),
    marked("gho_", "a GitHub token", 30, is_alphanumeric),
    marked("ghu_", "a GitHub token", 30, is_alphanumeric),
    marked("ghs_", "a GitHub token", 30, is_alphanumeric),
    marked("ghr_", "a GitHub token", 30, is_alphanumeric),
    marked("github_pat_", "a GitHub token", 22, is_word),
    marked("glpat-", "a GitLab token", 20, is_word),
    marked("glptt-", "a GitLab token", 20, is_word),
    marked("gldt-", "a GitLab token", 20, is_word),
    marked("xoxa-", "a Slack token", 20, is_word),
    marked("xoxb-", "a Slack token", 20, is_word),
    marked("xoxp-", "a Slack token", 20, is_word),
    marked("xoxr-", "a Slack token", 20, is_word),
    marked("xoxs-", "a Slack token", 20, is_word),
    marked("xapp-", "a Slack token", 20, is_word),
    marked("sk-ant-", "an Anthropic key", 24, is_word),
    marked("sk-proj-", "an OpenAI key", 24, is_word),
    marked("sk-svcacct-", "an OpenAI key", 24, is_word),
    marked("sk-", "an OpenAI key", 32, is_alphanumeric),
    marked("sk_live_", "a Stripe key", 16, is_alphanumeric),
    marked("rk_live_", "a Stripe key", 16, is_alphanumeric),
    marked("sk_test_", "a Stripe key", 16, is_alphanumeric),
    marked("whsec_", "a Stripe key", 24, is_alphanumeric),
    marked("npm_", "an npm token", 36, is_alphanumeric),
    marked("pypi-", "a PyPI token", 40, is_word),
    marked("hf_", "a Hugging Face token", 30, is_alphanumeric),
    marked("AIza", "a Google key", 35, is_word),
    marked("AKIA", "an AWS access key", 16, is_upper),
    marked("ASIA", "an AWS access key", 16, is_upper),
];

/// `FIRST` is the number of bytes before the first trigger of each prefix. `BEFORE` marks the two bytes right before
/// that trigger: bit 1 for the last one, bit 2 for the one before it. Most places are ruled out by these alone.
const FIRST: [usize; MARKED.len()] = {
    let mut first = [0; MARKED.len()];
    let mut index = 0;
    while index < MARKED.len() {
        let prefix = MARKED[index].prefix.as_bytes();
        while !is_trigger(prefix[first[index]]) {
            first[index] += 1;
        }
        index += 1;
    }
    first
};
const BEFORE: [u8; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < MARKED.len() {
        let prefix = MARKED[index].prefix.as_bytes();
        if FIRST[index] >= 2 {
            table[prefix[FIRST[index] - 1] as usize] |= 1;
            table[prefix[FIRST[index] - 2] as usize] |= 2;
        }
        index += 1;
    }
    table
};

fn token(text: &[u8], at: usize) -> Option<(Hit, usize)> {
    let may_begin = match text[at] {
        b'A' => text.get(at + 1).is_some_and(|next| b"KSI".contains(next)),
        _ => at >= 2 && BEFORE[usize::from(text[at - 1])] & 1 != 0 && BEFORE[usize::from(text[at - 2])] & 2 != 0,
    };
    if !may_begin {
        return None;
    }
    MARKED.iter().zip(FIRST).find_map(|(kind, first)| marked_at(text, at.checked_sub(first)?, kind))
}

/// A token of this kind that starts here.
fn marked_at(text: &[u8], start: usize, kind: &Marked) -> Option<(Hit, usize)> {
    let rest = text[start..].strip_prefix(kind.prefix.as_bytes())?;
    if start > 0 && is_word(text[start - 1]) {
        return None;
    }
    let run = run_of(rest, kind.alphabet);
    let fits = run.len() >= kind.length_min && looks_random(run);
    fits.then_some((Hit { what: kind.what, at: start }, start + kind.prefix.len() + run.len()))
}

fn run_of(text: &[u8], alphabet: impl Fn(u8) -> bool) -> &[u8] {
    let window = &text[..text.len().min(AHEAD_MAX)];
    let length = window.iter().position(|byte| !alphabet(*byte)).unwrap_or(window.len());
    &window[..length]
}

/// Not `xxxxxxxx`, `EXAMPLE` or words with dashes, but letters and digits, and many different ones.
fn looks_random(run: &[u8]) -> bool {
    const DISTINCT_MIN: u32 = 8;
    let has = |class: fn(&u8) -> bool| run.iter().any(class);
    distinct(run) >= DISTINCT_MIN
        && has(u8::is_ascii_alphabetic)
        && has(u8::is_ascii_digit)
        && !contains_ignoring_case(run, b"example")
        && !contains_ignoring_case(run, b"your")
}

fn distinct(run: &[u8]) -> u32 {
    let seen = run.iter().fold(0_u128, |seen, byte| seen | 1 << (byte & 0x7f));
    seen.count_ones()
}

fn contains_ignoring_case(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}

const KEY_END: &[u8] = b"-----END ";

/// `-----BEGIN … PRIVATE KEY-----` with a key after it, or the `END` line with a key before it: the beginning of a text
/// may be cut off.
fn private_key(text: &[u8], at: usize) -> Option<(Hit, usize)> {
    const BEGIN: &[u8] = b"-----BEGIN ";
    const LABEL_MAX: usize = 48;
    const BODY_MAX: usize = 512;
    const KEY_RUN_MIN: usize = 24;
    let (begin, rest) = [BEGIN, KEY_END].iter().find_map(|sign| Some((*sign, text[at..].strip_prefix(*sign)?)))?;
    let window = &rest[..rest.len().min(LABEL_MAX)];
    let end = window.windows(5).position(|five| five == b"-----")?;
    if !contains_ignoring_case(&window[..end], b"private key") {
        return None;
    }
    let body = match begin == BEGIN {
        true => &rest[end + 5..],
        false => &text[at.saturating_sub(BODY_MAX)..at],
    };
    let body = &body[..body.len().min(BODY_MAX)];
    let is_key = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let longest = body.split(|byte| !is_key(*byte)).map(<[u8]>::len).max().unwrap_or(0);
    (longest >= KEY_RUN_MIN).then_some((Hit { what: "a private key", at }, at + begin.len() + end))
}

/// `eyJ….eyJ….…`: three parts, the first two JSON objects in base64url.
fn web_token(text: &[u8], at: usize) -> Option<(Hit, usize)> {
    const PART_MIN: usize = 12;
    let start = at.checked_sub(2).filter(|_| at < text.len())?;
    if !text[start..].starts_with(b"eyJ") || start > 0 && is_word(text[start - 1]) {
        return None;
    }
    let header = run_of(&text[start..], is_word);
    let claims_at = start + header.len() + 1;
    let claims = run_of(text.get(claims_at..)?, is_word);
    let signature_at = claims_at + claims.len() + 1;
    let signature = run_of(text.get(signature_at..)?, is_word);
    let dots = text[claims_at - 1] == b'.' && text.get(signature_at - 1) == Some(&b'.');
    let long = [header, claims, signature].iter().all(|part| part.len() >= PART_MIN);
    let fits = dots && long && claims.starts_with(b"eyJ") && looks_random(signature);
    fits.then_some((Hit { what: "a web token (JWT)", at: start }, signature_at + signature.len()))
}

/// `scheme://user:password@host`.
fn connection(text: &[u8], at: usize) -> Option<(Hit, usize)> {
    let rest = text[at..].strip_prefix(b"://")?;
    let scheme =
        text[..at].iter().rev().take(BACK_MAX).take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'+');
    let scheme = scheme.count();
    let authority = run_of(rest, |byte| byte.is_ascii_graphic() && !b"/?#\"'`<>()[]{}|\\,".contains(&byte));
    let user_end = authority.iter().rposition(|byte| *byte == b'@')?;
    let colon = authority[..user_end].iter().position(|byte| *byte == b':')?;
    let (user, password) = (&authority[..colon], &authority[colon + 1..user_end]);
    if scheme == 0 || password.len() < 3 || password == user || is_placeholder(password) {
        return None;
    }
    Some((Hit { what: "a password in an address", at: at - scheme }, at + 3 + user_end))
}

fn is_placeholder(value: &[u8]) -> bool {
    /// Words that do not occur in real secrets …
    const ANYWHERE: &[&[u8]] =
        &[b"example", b"changeme", b"change-me", b"your", b"redacted", b"dummy", b"placeholder", b"xxxx", b"****"];
    /// … and words that may be part of one, but not nearly all of it.
    const NEARLY_ALL: &[&[u8]] = &[b"pass", b"pwd", b"secret", b"token", b"xxx", b"***", b"todo", b"..."];
    const STARTS: &[u8] = b"$%<{[(*@";
    let holds = |word: &&[u8]| contains_ignoring_case(value, word);
    value.first().is_none_or(|byte| STARTS.contains(byte))
        || distinct(value) <= 2
        || ANYWHERE.iter().any(holds)
        || NEARLY_ALL.iter().any(|word| value.len() <= word.len() + 8 && holds(word))
}

/// Names of secrets. A key counts if it ends with one of them.
const SECRET_KEYS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "accesskey",
    "access_key",
    "secretkey",
    "secret_key",
    "private_key",
    "privatekey",
    "encryption_key",
    "auth_key",
    "authkey",
    "client_key",
    "credential",
    "credentials",
];

/// `password=value`, `"api_key": "value"`, with a value that no one would make up as an example.
fn assignment(text: &[u8], at: usize) -> Option<(Hit, usize)> {
    // `==`, `=>`, `:=` and `::` compare, map or name; only the character next to the value assigns.
    let ahead = &text[at + 1..];
    if ahead.first().is_some_and(|byte| b"=:>~".contains(byte)) || at > 0 && b"=!<>".contains(&text[at - 1]) {
        return None;
    }
    let key = secret_key_before(text, at)?;
    let start = ahead.iter().take(BACK_MAX).position(|byte| !b" \t\"'`\\".contains(byte))?;
    let quoted = ahead[..start].iter().any(|byte| b"\"'`".contains(byte));
    let window = &ahead[start..ahead.len().min(start + VALUE_MAX)];
    let value = run_of(window, |byte| {
        byte.is_ascii_graphic() && !b"\"'`\\".contains(&byte) && (quoted || !b",;&".contains(&byte))
    });
    if !looks_chosen(value, quoted) {
        return None;
    }
    // The value itself is more specific than the name before it.
    let value_at = at + 1 + start;
    let precise = MARKED.iter().find_map(|kind| marked_at(text, value_at, kind));
    precise
        .or_else(|| web_token(text, value_at + 2))
        .or(Some((Hit { what: "a password or key", at: at - key.len() }, value_at + value.len())))
}

/// The name before a `=` or `:`, skipping quotes and spaces, if it is the name of a secret.
fn secret_key_before(text: &[u8], at: usize) -> Option<&[u8]> {
    let back = &text[at.saturating_sub(BACK_MAX)..at];
    let end = back.iter().rposition(|byte| !b" \t\"'`\\:".contains(byte))? + 1;
    // Every name in the list ends with one of these; most others do not.
    let tail = [back.get(end.checked_sub(2)?)?.to_ascii_lowercase(), back[end - 1].to_ascii_lowercase()];
    if !matches!(&tail, b"rd" | b"wd" | b"se" | b"et" | b"en" | b"ey" | b"al" | b"ls") {
        return None;
    }
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let start = back[..end].iter().rposition(|byte| !is_name(byte)).map_or(0, |before| before + 1);
    let key = &back[start..end];
    let is_secret = |known: &&str| {
        key.len().checked_sub(known.len()).is_some_and(|from| key[from..].eq_ignore_ascii_case(known.as_bytes()))
    };
    SECRET_KEYS.iter().any(is_secret).then_some(key)
}

/// Whether a machine or a careful person chose the value: long and mixed enough, and not code, a path, a UUID or an
/// example.
fn looks_chosen(value: &[u8], quoted: bool) -> bool {
    const LENGTH_MIXED_MIN: usize = 8;
    const LENGTH_PLAIN_MIN: usize = 16;
    const DISTINCT_MIN: u32 = 6;
    let has = |class: fn(&u8) -> bool| u8::from(value.iter().any(class));
    let (lower, upper, digit) = (has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase), has(u8::is_ascii_digit));
    let symbols = value.iter().any(|byte| byte.is_ascii_punctuation() && !b"._-/:".contains(byte));
    let classes = lower + upper + digit + u8::from(symbols);
    let length_min = if classes >= 3 { LENGTH_MIXED_MIN } else { LENGTH_PLAIN_MIN };
    let is_mixed = digit == 1 && lower + upper >= 1;
    if !is_mixed || value.len() < length_min || distinct(value) < DISTINCT_MIN {
        return false;
    }
    let code: &[u8] = if quoted { b"(${<" } else { b"(){}<>$[]" };
    let is_code =
        value.iter().any(|byte| code.contains(byte)) || value.windows(2).any(|two| two == b"::" || two == b"->");
    let slashes = value.iter().filter(|byte| **byte == b'/').count();
    let is_place = slashes * 12 > value.len()
        || contains_ignoring_case(&value[..value.len().min(8)], b"://")
        || value.starts_with(b"arn:");
    !is_code && !is_place && !is_uuid(value) && !is_placeholder(value)
}

fn is_uuid(value: &[u8]) -> bool {
    value.len() == 36
        && value.iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Line and column, both from 1; columns count characters.
fn place(text: &[u8], at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    (line, String::from_utf8_lossy(&before[line_start..]).chars().count() + 1)
}
