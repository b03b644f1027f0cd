//! The ways to notify people. Each makes one attempt within a time limit, and says why it failed without revealing a
//! secret.

mod email;
mod http;
mod local;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use poste_config::HandlerConfig;
use serde_json::json;

pub(crate) use self::email::OFFICE_HEADER;
use self::http::ErrorText;
use super::post::Post;
use super::secret::{self, Secret};

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub why: String,
    /// The receiver said when to retry.
    pub again_in: Option<Duration>,
    /// The receiver will never accept this message.
    pub is_final: bool,
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self { why, again_in: None, is_final: false }
    }
}

impl Failure {
    fn without(self, secret: &Secret) -> Self {
        Self { why: secret.hide_in(&self.why), ..self }
    }
}

/// The context of an attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttemptContext<'s> {
    /// The folder of the office, and that of `poste.toml`.
    pub office: &'s Path,
    pub folder: &'s Path,
    pub timeout: Duration,
    /// Seconds, for signatures.
    pub now_s: i64,
    /// Set when the watcher stops: it then stops a running command.
    pub stop: &'s AtomicBool,
}

/// The type of a webhook that a rule sends.
pub(crate) const MESSAGE_TYPE: &str = "poste.message";
/// Longer texts are cut, because chats limit the length of a message.
const CHAT_CHARS_MAX: usize = 3_500;

pub(super) fn send(handler: &HandlerConfig, post: &Post, context: AttemptContext<'_>) -> Result<(), Failure> {
    match handler {
        HandlerConfig::Telegram { token, chat, url } => {
            let token = secret::read(token, context.folder)?;
            // Without a parse mode, nothing in the text is markup.
            let body = json!({ "chat_id": chat, "text": post.text(CHAT_CHARS_MAX), "link_preview_options": { "is_disabled": true } });
            let url = format!("{}/bot{}/sendMessage", url.trim_end_matches('/'), token.get());
            http::post(&url, ErrorText::Hidden, &[], post, &body, context.timeout)
        }
        HandlerConfig::Slack { url } => {
            let url = secret::read(url, context.folder)?;
            if !url.get().starts_with("https://") && !url.get().starts_with("http://") {
                return Err("the secret is not an http or https URL".to_owned().into());
            }
            let text = slack_text(&post.text(CHAT_CHARS_MAX));
            let body = json!({ "text": text, "mrkdwn": false, "unfurl_links": false, "unfurl_media": false });
            http::post(url.get(), ErrorText::Hidden, &[], post, &body, context.timeout)
        }
        HandlerConfig::Webhook { url, secret: place } => {
            let secret = secret::read(place, context.folder)?;
            let body = json!({ "type": MESSAGE_TYPE, "timestamp": post.message.at.to_string(), "data": post.data() });
            let signature = secret.key(place)?.sign(&post.key, context.now_s, body.to_string().as_bytes());
            let headers = [
                ("webhook-id", post.key.clone()),
                ("webhook-timestamp", context.now_s.to_string()),
                ("webhook-signature", signature),
            ];
            http::post(url, ErrorText::Shown, &headers, post, &body, context.timeout)
                .map_err(|failure| failure.without(&secret))
        }
        HandlerConfig::Email(config) => email::send(config, post, context),
        HandlerConfig::Desktop => local::desktop(post, context),
        HandlerConfig::Exec { words } => local::exec(words, post, context),
        HandlerConfig::Log => local::log(post, context),
    }
}

/// Slack reads `<…>` as links and mentions, and `&` as the beginning of an entity, also in plain text.
fn slack_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
