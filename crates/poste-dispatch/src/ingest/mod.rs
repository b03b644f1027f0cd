//! Reads input from outside: an email, a webhook, a text. The verb `ingest` stores it.

mod email;
mod webhook;

pub use email::email;
pub use webhook::{Request, webhook};

use poste_core::limits;
use poste_verbs::ingest::{Attachment, Incoming, Origin};

/// Maximum size of an email or a request.
pub const BYTES_MAX: u64 = 25 * 1024 * 1024;
/// Maximum size of the body and of the payload.
pub(crate) const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of attachments that are named or kept, and their maximum total size.
pub(crate) const ATTACHMENTS_MAX: usize = 20;
pub(crate) const ATTACHED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Why input is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("not an email: {0}")]
    NoMail(&'static str),
    #[error(transparent)]
    Unsigned(#[from] crate::notify::sign::Unsigned),
    #[error("the input is empty")]
    Empty,
    #[error("the input has more than {BYTES_MAX} bytes")]
    TooLarge,
}

/// A plain text. Its first line is the subject, unless one is given.
pub fn text(bytes: &[u8], subject: Option<&str>) -> Result<Incoming, Unfit> {
    let text = String::from_utf8_lossy(bytes);
    if text.trim().is_empty() && subject.is_none() {
        return Err(Unfit::Empty);
    }
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut incoming =
        Incoming { subject: one_line(subject.unwrap_or(first)), body: bounded(&text), ..Incoming::default() };
    incoming.metadata.insert("source".to_owned(), "stdin".to_owned());
    Ok(incoming)
}

/// A subject in one line, cut to the maximum length.
pub(crate) fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace(char::is_control, "\u{fffd}");
    line[..line.floor_char_boundary(limits::SUBJECT_BYTES_MAX)].to_owned()
}

pub(crate) fn bounded(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    match text.len() > TEXT_BYTES_MAX {
        true => {
            format!("{}\n[… {} bytes in all]\n", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)], text.len())
        }
        false => text,
    }
}

/// A plain file name without any path.
pub(crate) fn file_name(name: &str, ordinal: usize) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String =
        last.chars().map(|sign| if sign.is_alphanumeric() || "._- ".contains(sign) { sign } else { '_' }).collect();
    let plain = plain.trim().trim_start_matches('.');
    if plain.is_empty() { format!("attachment-{ordinal}") } else { plain[..plain.floor_char_boundary(120)].to_owned() }
}
