//! Sends one request with a time limit, and reads only the beginning of the response.

use std::io::Read;
use std::time::Duration;

use serde_json::Value;

use super::{Failure, Post};

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How much is read of a response that describes an error.
const ANSWER_BYTES_MAX: u64 = 4 * 1024;

/// Whether the error text of a response may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorText {
    Shown,
    /// The URL is a secret, and servers repeat URLs: whole, in part, or encoded.
    Hidden,
}

pub(super) fn post(
    url: &str,
    error_text: ErrorText,
    headers: &[(&str, String)],
    post: &Post,
    body: &Value,
    timeout: Duration,
) -> Result<(), Failure> {
    let mut config = ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .timeout_connect(Some(timeout.min(CONNECT_MAX)))
        .http_status_as_error(false)
        // Only the configured server gets the message, not one that it redirects to.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("poste/", env!("CARGO_PKG_VERSION")));
    if is_this_machine(url) {
        config = config.proxy(None);
    }
    let agent: ureq::Agent = config.build().into();
    let mut request = agent
        .post(url)
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, */*")
        .header("Idempotency-Key", &post.key);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let response = request.send(body.to_string().as_bytes()).map_err(|error| Failure::from(explain(&error)))?;
    let status = response.status().as_u16();
    if (200..300).contains(&status) {
        return Ok(());
    }
    let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let mut answer = Vec::new();
    // A read error does not matter: the status says enough.
    let _ = response.into_body().into_reader().take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
    let answer: Value = serde_json::from_slice(&answer).unwrap_or(Value::Null);
    let seconds = retry_after.or_else(|| answer["parameters"]["retry_after"].as_u64());
    let why = answer["description"].as_str().or_else(|| answer["error"].as_str());
    let why = why.filter(|_| error_text == ErrorText::Shown);
    let why = why.map(|why| format!(": {}", shortened(why))).unwrap_or_default();
    Err(Failure {
        why: format!("the server answered with HTTP {status}{why}"),
        again_in: seconds.map(Duration::from_secs),
        is_final: matches!(status, 400 | 413 | 422),
    })
}

fn is_this_machine(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    ["localhost", "127.0.0.1", "[::1]"].contains(&host)
}

fn shortened(text: &str) -> String {
    poste_core::escape::plain(text).chars().take(200).collect()
}

/// Says nothing about the request, because its URL may be a secret.
fn explain(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "the server did not answer in time".to_owned(),
        ureq::Error::Io(error) => format!("no connection: {}", error.kind()),
        ureq::Error::HostNotFound => "host not found".to_owned(),
        ureq::Error::ConnectionFailed => "no connection".to_owned(),
        ureq::Error::Tls(why) => format!("TLS: {why}"),
        ureq::Error::Rustls(why) => format!("TLS: {why}"),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => "invalid URL".to_owned(),
        _ => "the server did not answer with HTTP".to_owned(),
    }
}
