//! What is recorded when a run ends: the outcome of each of its messages, and the end of the run.

use std::collections::BTreeMap;
use std::time::Duration;

use poste_config::AgentConfig;
use poste_core::log::{
    Body, Content, Done, Ends, EndsHow, Fail, Intent, MessageNo, Position, Release, RunOutcome, Send,
};
use poste_core::text::last_line;
use poste_core::views::MessageView;
use poste_core::{limits, secrets};
use poste_verbs::draft::prefixed;
use poste_verbs::secret::{not_kept, scrubbed};
use serde_json::value::RawValue;

/// The longest answer that is sent; the whole one is in the folder of the run.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// How much of the last output the record of an end keeps.
const TAIL_BYTES: usize = 4 * 1024;

/// The result of the program of a run.
#[derive(Debug, Clone)]
pub(crate) struct ProgramResult {
    pub how: RunOutcome,
    pub code: Option<u8>,
    pub took: Duration,
    /// Empty: no answer.
    pub answer: String,
    /// Why it failed, in one line.
    pub problem: Option<String>,
    pub printed: String,
    pub cost_micros: Option<u64>,
    pub conversation: Option<String>,
    /// It was ended because of another message: release its messages without counting an attempt.
    pub gives_back: bool,
}

impl ProgramResult {
    pub(crate) fn not_started(why: String) -> Self {
        Self {
            how: RunOutcome::NotStarted,
            code: None,
            took: Duration::ZERO,
            answer: String::new(),
            problem: Some(why),
            printed: String::new(),
            cost_micros: None,
            conversation: None,
            gives_back: false,
        }
    }

    pub(crate) fn took_ms(&self) -> u64 {
        let ms = u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX);
        ms.min(limits::RUN_NUMBER_MAX.unsigned_abs())
    }
}

/// What to record for a message that is still held. If several, each is tried only if the one before was refused.
pub(crate) fn of_message(
    result: &ProgramResult,
    config: &AgentConfig,
    message: &MessageView,
    attempts: u32,
    token: Position,
    run: &str,
) -> Vec<(Intent, Option<Content>)> {
    let number = message.number;
    if result.how == RunOutcome::Stopped || result.gives_back {
        return vec![(Intent::Release(Release { message: number, token: Some(token) }), None)];
    }
    if let Some(problem) = &result.problem {
        return vec![fail(number, token, &with_last_words(problem, &result.printed), retry(config, attempts))];
    }
    let wants_answer = message.asks_work || message.wants_response;
    if result.answer.is_empty() {
        return match wants_answer {
            true => vec![fail(number, token, "it ended without an answer", retry(config, attempts))],
            false => vec![done(number, token, &result.answer)],
        };
    }
    let answer = answer(result, message, run);
    if let Some(found) = secrets::find(&answer).first() {
        let why = format!("its answer was not sent, as it seems to hold {}: see .poste/runs/{run}/answer", found.what);
        return vec![fail(number, token, &why, None)];
    }
    let last = fail(number, token, "its answer was refused", None);
    let done = done(number, token, &result.answer);
    // A notice of the office takes no answer.
    match message.notice.is_none() && wants_answer {
        true => vec![(Intent::Send(response(number, token)), Some(answer)), done, last],
        false => vec![done, last],
    }
}

/// The same for a message that could not be read, or whose supervisor died.
pub(crate) fn of_unread(
    config: Option<&AgentConfig>,
    number: MessageNo,
    attempts: u32,
    token: Position,
    why: &str,
) -> (Intent, Option<Content>) {
    fail(number, token, why, config.map_or(Some(Retry { delay_ms: None }), |config| retry(config, attempts)))
}

fn response(number: MessageNo, token: Position) -> Send {
    let kind = "response".parse().expect("a built-in type");
    let ends = Ends { message: number, how: EndsHow::Replied, token: Some(token) };
    Send { reply_to: Some(number), ends: Some(ends), ..Send::plain(kind, Vec::new()) }
}

fn answer(result: &ProgramResult, message: &MessageView, run: &str) -> Content {
    let payload = serde_json::json!({
        "request_id": message.number,
        "duration_seconds": result.took.as_millis() as f64 / 1_000.0,
        "run": run,
    });
    Content {
        subject: prefixed("Re: ", &message.subject),
        body: Body(bounded(&result.answer)),
        payload: RawValue::from_string(payload.to_string()).ok(),
        ..Content::default()
    }
}

fn bounded(answer: &str) -> Vec<u8> {
    if answer.len() <= ANSWER_BYTES_MAX {
        return answer.as_bytes().to_vec();
    }
    let end = answer.floor_char_boundary(ANSWER_BYTES_MAX);
    format!("{}\n[… {} bytes left out …]\n", &answer[..end], answer.len() - end).into_bytes()
}

fn done(message: MessageNo, token: Position, answer: &str) -> (Intent, Option<Content>) {
    let content = Content { body: Body(bounded(answer)), ..Content::default() };
    (Intent::Done(Done { message, token: Some(token), artifacts: Vec::new() }), Some(scrubbed(content)))
}

/// A retry, after this delay or the office's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Retry {
    delay_ms: Option<i64>,
}

/// The retry that the agent's configuration allows; where it says nothing, the office decides. `None`: no retry.
fn retry(config: &AgentConfig, attempts: u32) -> Option<Retry> {
    if config.retries.is_some_and(|tries| attempts.saturating_add(1) >= tries) {
        return None;
    }
    let doubled = |first: i64| first.saturating_mul(1_i64 << attempts.min(30)).clamp(0, limits::RETRY_DELAY_MS_MAX);
    Some(Retry { delay_ms: config.backoff_ms.map(doubled) })
}

fn fail(message: MessageNo, token: Position, why: &str, again: Option<Retry>) -> (Intent, Option<Content>) {
    let delay_ms = again.and_then(|again| again.delay_ms);
    let intent = Intent::Fail(Fail { message, token: Some(token), retry: again.is_some(), delay_ms });
    let whole = scrubbed(Content { body: Body(why.as_bytes().to_vec()), ..Content::default() });
    let text = String::from_utf8_lossy(&whole.body.0);
    (intent, Some(Content { body: Body(tail(&text).as_bytes().to_vec()), ..Content::default() }))
}

/// Adds the last line of output, which often says why a run failed. Not if the output seems to contain a secret,
/// because a part of one is not recognised, and not if the line is JSON.
fn with_last_words(problem: &str, printed: &str) -> String {
    let whole = Content { body: Body(printed.as_bytes().to_vec()), ..Content::default() };
    let last = last_line(printed).filter(|line| !line.starts_with(['{', '[']) && !problem.contains(line.as_str()));
    match last.filter(|_| secrets::find(&whole).is_empty()) {
        Some(line) => format!("{problem}; last output: {line}"),
        None => problem.to_owned(),
    }
}

/// The content of the end of a run: why it failed, its last output, and where the transcript is.
pub(crate) fn end_content(result: &ProgramResult, run: &str) -> Content {
    let transcript = BTreeMap::from([("transcript".to_owned(), format!(".poste/runs/{run}/output"))]);
    let mut metadata = transcript.clone();
    metadata.extend(result.conversation.clone().map(|id| ("conversation".to_owned(), id)));
    let problem = result.problem.as_deref().unwrap_or_default();
    // Search all of it, because a part of a key is not recognised.
    let whole =
        Content { body: Body(format!("{problem}\n{}", result.printed).into_bytes()), metadata, ..Content::default() };
    if let Some(found) = secrets::find(&whole).first() {
        return Content { metadata: transcript, ..not_kept(found.what) };
    }
    let summary = result.problem.as_deref().map(|problem| tail(problem).to_owned());
    let body = Body(tail(result.printed.trim()).as_bytes().to_vec());
    scrubbed(Content { summary, body, metadata: whole.metadata, ..Content::default() })
}

fn tail(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(TAIL_BYTES))..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: String, conversation: Option<&str>) -> Content {
        let conversation = conversation.map(str::to_owned);
        end_content(
            &ProgramResult { printed: text, conversation, ..ProgramResult::not_started("it failed".to_owned()) },
            "r",
        )
    }

    #[test]
    fn all_output_is_searched_for_secrets() {
        let begin = concat!("-----BEGIN RSA PRIV", "ATE KEY-----");
        let lines = "MIIEowIBAAKCAQEA7bq2l3Zk9xQe4Yt1Vw8Rr5sP0uHnJc6dXfGaBmKyTzLoWiEv\n".repeat(70);
        let content = printed(format!("{begin}\n{lines}"), Some("id-1"));
        let text = String::from_utf8(content.body.0).unwrap();
        assert_eq!(text, "(not kept here: it seems to hold a private key)");
        assert_eq!(content.metadata.keys().collect::<Vec<_>>(), ["transcript"]);
    }

    #[test]
    fn a_secret_in_the_metadata_is_not_kept_either() {
        let token = concat!("gh", "p_", "16C7e42F292c6912E7710c838347Ae178B4a");
        let content = printed("nothing to see".to_owned(), Some(token));
        assert!(!format!("{content:?}").contains(token));
        let plain = printed("nothing to see".to_owned(), Some("id-1"));
        assert_eq!(plain.metadata["conversation"], "id-1");
        assert_eq!((plain.summary.as_deref(), &*plain.body.0), (Some("it failed"), &b"nothing to see"[..]));
    }

    #[test]
    fn the_last_output_says_why_unless_it_may_be_a_secret() {
        let said = |printed: &str| with_last_words("it ended with exit code 3", printed);
        assert_eq!(said(""), "it ended with exit code 3");
        assert_eq!(said("one\n\ttwo \n\n"), "it ended with exit code 3; last output: two");
        assert_eq!(said("{\"type\":\"result\"}"), "it ended with exit code 3");
        let long = said(&"x".repeat(100_000));
        assert!(long.ends_with("x…") && long.chars().count() < 300, "{long}");
        let begin = concat!("-----BEGIN RSA PRIV", "ATE KEY-----");
        assert_eq!(
            said(&format!("{begin}\nMIIEowIBAAKCAQEA7bq2l3Zk9xQe4Yt1Vw8Rr5sP0uHn")),
            "it ended with exit code 3"
        );
    }

    #[test]
    fn only_the_end_of_long_output_is_kept() {
        let content = printed("line of text\n".repeat(10_000), None);
        assert!(content.body.0.len() < 2 * TAIL_BYTES && content.body.0.ends_with(b"line of text"));
    }
}
