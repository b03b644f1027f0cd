//! Refuses content that looks like a secret before it is in the log, from where it could only be redacted.

use poste_core::log::{Content, Proof};
use poste_core::secrets;

use crate::{Error, Result};

/// Whether content that looks like a secret may be stored. Only a person can lift this check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Secrets {
    allowed: bool,
}

impl Secrets {
    /// Lifts the check if a person confirmed that.
    pub fn allowed_by(proof: Proof) -> Self {
        Self { allowed: proof.is_confirmed() }
    }

    pub(crate) fn are_allowed(self) -> bool {
        self.allowed
    }

    /// For texts that no one wrote: paths, for example.
    pub(crate) fn unchecked() -> Self {
        Self { allowed: true }
    }

    /// Checks a plain text about a message, such as a reason, a note or an outcome.
    pub fn text(self, what: &str, text: &str) -> Result<Content> {
        let content = Content { body: text.into(), ..Content::default() };
        self.check_as(&content, what)?;
        Ok(content)
    }

    pub fn check(self, content: &Content) -> Result {
        self.check_as(content, "body")
    }

    /// As [`Self::check`], for a text whose field is not called body.
    pub fn check_as(self, content: &Content, body: &str) -> Result {
        if self.allowed {
            return Ok(());
        }
        let found = secrets::find(content);
        if found.is_empty() {
            return Ok(());
        }
        let found = found.into_iter().map(|mut found| {
            if found.part == "body" {
                found.part = body.to_owned();
            }
            found.to_string()
        });
        let found: Vec<String> = found.collect();
        Err(refusal(format!("this looks like a secret: {}", found.join("; "))))
    }
}

pub(crate) fn refusal(message: String) -> Error {
    Error::refused(message)
        .code("looks_secret")
        .hint("name the place it is kept instead; stored content stays in the log until it is redacted")
        .hint(note!("if it is not a secret, a person can store it: " {allow_secret = true}))
}

/// The output of a program for the log, left out if it seems to hold a secret.
pub fn scrubbed(content: Content) -> Content {
    match secrets::find(&content).first() {
        None => content,
        Some(found) => not_kept(found.what),
    }
}

/// The replacement for content that seems to hold a secret.
pub fn not_kept(what: &str) -> Content {
    Content { body: format!("(not kept here: it seems to hold {what})").as_str().into(), ..Content::default() }
}
