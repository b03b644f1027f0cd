//! The command line: what it reads, and how it prints foreign text.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use poste::probe;
use poste_core::log::{Artifact, ArtifactState, Body, Content, Intent, MessageNo, Proof, Proposal, Sealed, Via};
use poste_core::views::MessageView;
use poste_core::vocabulary::TrustLabel;
use poste_core::{Digest, Timestamp};

use super::{Checked, must};
use crate::corpus;

pub(super) fn batch_seeds() -> Vec<Vec<u8>> {
    let honest = [
        r#"{"to":"coder","subject":"Fix the login"}"#,
        r#"{"to":["role:reviewer","everyone"],"subject":"s","body":"b","type":"question","priority":"high","payload":{"a":[1,2.5,null]},"artifacts":["src/a.rs"],"reply_to":12,"conversation":"auth-1","wants_response":true,"respond_by":"2h","expires":"2027-01-31T12:00:00Z","not_before":"10m","workflow":"w","step":"s1","context":"c","expect":"e","references":["a"],"metadata":{"k":"v"},"id":"line-1"}"#,
    ];
    let payloads =
        corpus::JSON_TEXTS.iter().map(|json| format!("{{\"to\":\"coder\",\"subject\":\"s\",\"payload\":{json}}}"));
    honest.iter().map(ToString::to_string).chain(payloads).map(String::into_bytes).collect()
}

pub(super) fn batch(input: &[u8]) -> Checked {
    let told = |told: [String; 2]| -> Checked {
        must(told.iter().all(|text| is_safe(text)), || format!("an error is not safe to print: {told:?}"))?;
        let json: Result<serde_json::Value, _> = serde_json::from_str(&told[1]);
        must(json.is_ok(), || format!("an error is not valid JSON: {}", told[1]))?;
        Ok(told[0].clone())
    };
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(content) = probe::payload(text)
        && content.check().is_ok()
    {
        let shown = probe::escape_json_line(text);
        must(is_safe(&shown) && !shown.contains('\n'), || format!("a payload is not safe to print: {shown:?}"))?;
    }
    let (header, content) = match probe::batch_line(input) {
        Ok(message) => message,
        Err(error) => return told(error),
    };
    let proposal = Proposal {
        id: "line".parse().expect("an id"),
        actor: "lead".parse().expect("a name"),
        session: None,
        via: Via::Cli,
        proof: Proof::None,
        sent_at: Timestamp::ZERO,
        intent: Intent::Send(header),
        content: Some(content),
    };
    let sealed = match Sealed::seal(&proposal, &"machine".parse().expect("a label")) {
        Ok(sealed) => sealed,
        Err(malformed) => return Ok(malformed.to_string()),
    };
    let opened = Sealed::open(sealed.bytes().to_vec()).map_err(|error| format!("the sealed record: {error}"))?;
    must(matches!(opened.intent(), Ok(Some(Intent::Send(_)))), || "the sealed record is not a message".to_owned())?;
    if let Some(content) = &sealed.content {
        Content::decode(&content.bytes).map_err(|error| format!("the stored content does not decode: {error}"))?;
    }
    Ok("a message".to_owned())
}

pub(super) fn argument_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = [
        "init", "register coder --role builder --capability rust --kind agent --worktree .", "agents --json", "retire coder --as lead",
        "send coder Hello Body --type question --priority high --payload {} --meta a=b --ref x --id i --respond-by 2h --as lead",
        "send --batch - --as lead", "broadcast Hello --as lead", "publish Builds Hello", "subscribe * --from 3", "unsubscribe Builds",
        "inbox --limit 3 --all --tokens 500", "read 1 --for-model", "claim 1 --lease 10m --max 2", "claim --for-model",
        "done 1 --token 3 --summary s --result r --file a", "fail 1 --reason r --retry", "release 1", "extend 1 --lease 5m",
        "reply 1 Body --done", "ack 1 --note n", "forward 1 coder", "retry 1", "wait --timeout 0s --after 3", "wait --replies 1 --any",
        "tail --log --after 0 --for 0s", "track #1 --history", "thread 1 --summary", "thread close 1 --outcome ok", "threads", "overdue",
        "dead list", "dead drop 1", "status", "stats", "log show --limit 5", "log why 3", "log why --id x", "log verify", "archive",
        "redact 1 --reason r", "types", "schema inbox", "clock accept", "--help", "--version", "send --help", "demo --color always --time iso",
        "--office /nowhere --session s --lock-timeout 1s inbox",
    ]
    .iter()
    .map(|line| line.replace(' ', "\n").into_bytes())
    .collect();
    seeds.extend(corpus::NAMES.iter().map(|name| format!("register\n--\n{name}").into_bytes()));
    seeds
}

/// One argument per line.
pub(super) fn arguments(input: &[u8]) -> Checked {
    let words = input.split(|byte| *byte == b'\n').map(|word| OsString::from_vec(word.to_vec()));
    let arguments: Vec<OsString> = std::iter::once(OsString::from("poste")).chain(words).collect();
    match probe::arguments(&arguments) {
        Ok(command) => Ok(command.to_owned()),
        Err(told) => {
            must(told.iter().all(|text| is_safe(text)), || format!("an error is not safe to print: {told:?}"))?;
            let json = serde_json::from_str::<serde_json::Value>(&told[1]);
            must(json.is_ok(), || format!("an error is not valid JSON: {}", told[1]))?;
            Ok(told[0].replace('\'', "\""))
        }
    }
}

pub(super) fn escape_seeds() -> Vec<Vec<u8>> {
    corpus::TEXTS.iter().chain(corpus::JSON_TEXTS).map(|text| text.as_bytes().to_vec()).collect()
}

pub(super) fn escape(input: &[u8]) -> Checked {
    let text = String::from_utf8_lossy(input);
    let (line, block) = (probe::escape_line(&text), probe::escape_block(&text));
    must(!line.chars().any(corpus::is_unfit), || format!("a line has {line:?}"))?;
    must(is_safe(&block), || format!("a block has {block:?}"))?;
    must(probe::escape_line(&line) == line, || format!("escaped twice, {line:?} differs"))?;
    must(probe::escape_block(&block) == block, || format!("escaped twice, {block:?} differs"))?;
    must(text.chars().any(corpus::is_unfit) || line == text, || format!("harmless text becomes {line:?}"))?;
    let value: serde_json::Value = match serde_json::from_str(&text) {
        Ok(value) => value,
        Err(_) => return Ok(format!("text {}", marks(line.matches("\\u{").count()))),
    };
    for safe in [probe::escape_json(&text), probe::escape_json_line(&text)] {
        must(is_safe(&safe), || format!("JSON has {safe:?}"))?;
        let back = serde_json::from_str::<serde_json::Value>(&safe);
        must(back.as_ref().ok() == Some(&value), || format!("escaped, {text:?} means {back:?}"))?;
    }
    let one = probe::escape_json_line(&text);
    must(!one.contains(['\n', '\t']), || format!("{one:?} is more than one line"))?;
    Ok(format!("JSON {}", marks(one.matches("\\u").count())))
}

pub(super) fn fence_seeds() -> Vec<Vec<u8>> {
    corpus::FENCES
        .iter()
        .chain(corpus::TEXTS)
        .map(|text| {
            let mut content = Content { subject: (*text).to_owned(), body: Body::from(*text), ..Content::default() };
            content.context = Some((*text).to_owned());
            content.expect = Some((*text).to_owned());
            content.references = vec![(*text).to_owned()];
            content.metadata = [((*text).to_owned(), (*text).to_owned())].into();
            content.payload = serde_json::value::to_raw_value(text).ok();
            content.encode()
        })
        .collect()
}

pub(super) fn fence(input: &[u8]) -> Checked {
    let content = Content::decode(input).unwrap_or_else(|_| Content {
        body: Body(input.to_vec()),
        subject: "raw".to_owned(),
        ..Content::default()
    });
    if content.check().is_err() {
        return Ok("no message".to_owned());
    }
    let message = view(content);
    // An attacker who guesses: the first nonces drawn already occur in the message.
    let whole = serde_json::to_string(&message).map_err(|error| error.to_string())?;
    let runs = whole.split(|c: char| !c.is_ascii_hexdigit()).filter(|run| run.len() >= 16);
    let mut guessed: Vec<String> = runs.take(3).map(|run| run[..16].to_owned()).collect();
    let mut drawn = 0_u64;
    let fresh = || {
        drawn += 1;
        guessed.pop().unwrap_or_else(|| Digest::of(&drawn.to_le_bytes()).short() + "0123")
    };
    let (text, nonce) = probe::fenced(&message, fresh);
    must(is_safe(&text), || format!("the fence lets through {text:?}"))?;
    let (open, close) = (format!("<poste-message-{nonce}>"), format!("</poste-message-{nonce}>"));
    must(text.starts_with(&open) && text.ends_with(&close), || "the fence does not stand around it".to_owned())?;
    must(text.matches(&nonce).count() == 3, || format!("the nonce {nonce} stands inside its fence"))?;
    let lines: Vec<&str> = text.lines().collect();
    for (at, wanted) in [(2, "number: 12"), (3, "from: lead (trust: agent)"), (4, "to: coder")] {
        must(lines.get(at) == Some(&wanted), || format!("line {at} is {:?}", lines.get(at)))?;
    }
    // What the office says is before the first empty line, one field per line.
    let head = lines.iter().take_while(|line| !line.is_empty()).filter(|line| line.starts_with("from:")).count();
    must(head == 1, || format!("{head} lines of the head name the sender"))?;
    let (body, payload) = (!message.body.is_empty(), message.payload.is_some());
    let parts = [message.context.is_some(), message.expect.is_some(), !message.metadata.is_empty()];
    let escaped = marks(text.matches("\\u{").count());
    Ok(format!("fenced after {}: body {body}, payload {payload}, {parts:?} {escaped}", marks(drawn as usize)))
}

fn view(content: Content) -> MessageView {
    let path = content.references.first().cloned().unwrap_or_else(|| "a.txt".to_owned());
    let artifact =
        Artifact { worktree: Some(path.clone()), path, state: ArtifactState::Later, size: None, digest: None };
    let kind = "message".parse().expect("a type");
    MessageView {
        number: MessageNo(12),
        from: "lead".to_owned(),
        trust: TrustLabel::Agent,
        to: vec!["coder".to_owned()],
        subject: content.subject,
        body: content.body.text().into_owned(),
        body_bytes: content.body.0,
        payload: content.payload,
        context: content.context,
        expect: content.expect,
        references: content.references,
        metadata: content.metadata,
        artifacts: vec![artifact],
        ..MessageView::blank(kind, Timestamp::from_ms(1_800_000_000_000))
    }
}

/// A capped count in a form that cannot be mistaken for another number.
fn marks(count: usize) -> &'static str {
    &"!!!!!!!!!!!!"[..count.min(12)]
}

/// Whether it contains nothing that a terminal obeys, except line ends and tabs.
fn is_safe(text: &str) -> bool {
    !text.chars().any(|character| corpus::is_unfit(character) && character != '\n' && character != '\t')
}
