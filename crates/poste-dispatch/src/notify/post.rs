//! The text of a notification, the same for every handler, and its key.

use poste_core::Office;
use poste_core::digest::Digest;
use poste_core::error::Error;
use poste_core::escape::plain;
use poste_core::text::Label;
use poste_core::views::{self, MessageView};
use poste_verbs::model::sender;
use serde_json::{Value, json};

use crate::mark;

/// Maximum size of a body or payload that is sent.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// One message to be reported by one rule.
#[derive(Debug, Clone)]
pub struct Post {
    /// Always the same for this message and this rule of this office.
    pub key: String,
    /// By this the office recognises its own notifications when they come back.
    pub mark: String,
    pub rule: Label,
    pub message: MessageView,
}

impl Post {
    pub(super) fn of(office: &Office, office_id: &str, rule: &Label, message: MessageView) -> Result<Self, Error> {
        // After a restore another message may have this number. The id of its record is unique.
        let record = views::sealed(office.store(), message.position)?;
        let record = record.map(|record| record.envelope.id.to_string()).unwrap_or_default();
        let known_by = format!("{office_id}\n{record}\n{}\n{rule}", message.number);
        let key = Digest::of(known_by.as_bytes()).to_string();
        Ok(Self { key: format!("poste-{}", &key[..32]), mark: mark::of(office_id), rule: rule.clone(), message })
    }

    /// One line with priority, type, number, sender and subject.
    pub fn title(&self) -> String {
        let MessageView { number, kind, priority, from, trust, .. } = &self.message;
        let from = sender::named(from, *trust);
        one_line(&format!("[{priority}] {kind} #{number} from {from}: {}", self.message.subject))
    }

    /// Plain text without control characters.
    pub fn text(&self, chars_max: usize) -> String {
        let message = &self.message;
        let mut text = self.title();
        text.push('\n');
        if !message.to.is_empty() {
            text.push_str(&one_line(&format!("to {}", message.to.join(", "))));
            text.push('\n');
        }
        let body = plain(&message.body);
        let body = body.trim();
        if message.content_gone {
            text.push_str("\n(its content is no longer available)\n");
        } else if !body.is_empty() && body != message.subject.trim() {
            text.push('\n');
            text.push_str(body);
            text.push('\n');
        }
        let next = format!("\nposte read {}", message.number);
        let room = chars_max.saturating_sub(next.len());
        if text.chars().count() > room {
            text = text.chars().take(room.saturating_sub(2)).collect();
            text.push_str("…\n");
        }
        text + &next
    }

    /// For programs.
    pub fn data(&self) -> Value {
        let mut message = serde_json::to_value(&self.message).unwrap_or(Value::Null);
        let mut cut = false;
        if let Some(fields) = message.as_object_mut() {
            if self.message.body.len() > BODY_BYTES_MAX {
                let end = (0..=BODY_BYTES_MAX).rev().find(|at| self.message.body.is_char_boundary(*at)).unwrap_or(0);
                fields.insert("body".to_owned(), json!(&self.message.body[..end]));
                fields.remove("body_base64");
                cut = true;
            }
            let payload = self.message.payload.as_ref().map_or(0, |payload| payload.get().len());
            if payload > BODY_BYTES_MAX {
                fields.insert("payload".to_owned(), Value::Null);
                cut = true;
            }
        }
        json!({ "rule": self.rule, "idempotency_key": self.key, "office": self.mark, "message": message, "cut": cut })
    }
}

fn one_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}
