//! Reads an email as piped in by a mail server or a filter.

use std::collections::BTreeSet;

use mail_parser::{Address, Message, MessageParser, MimeHeaders};
use poste_core::Digest;
use poste_core::text::size;

use super::{
    ATTACHED_BYTES_MAX, ATTACHMENTS_MAX, Attachment, BYTES_MAX, Incoming, Origin, Unfit, bounded, file_name, one_line,
};
use crate::mark;
use crate::notify::OFFICE_HEADER;

const HEADER_CHARS_MAX: usize = 300;

/// Reads an email: its text, or the text of its HTML, and its attachments.
pub fn email(bytes: &[u8]) -> Result<Incoming, Unfit> {
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Unfit::TooLarge);
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(Unfit::Empty);
    }
    // In an mbox file each email begins with a `From ` line, which is not a header.
    let bytes = match bytes.starts_with(b"From ") {
        true => bytes.iter().position(|byte| *byte == b'\n').map_or(bytes, |end| &bytes[end + 1..]),
        false => bytes,
    };
    if is_deep(bytes) {
        return Err(Unfit::NoMail("messages are nested too deeply"));
    }
    let mail = MessageParser::default().parse(bytes).ok_or(Unfit::NoMail("it has no header"))?;
    if mail.from().is_none() && mail.subject().is_none() && mail.message_id().is_none() {
        return Err(Unfit::NoMail("it has neither From nor Subject nor Message-ID"));
    }
    let mut incoming = Incoming {
        subject: one_line(mail.subject().unwrap_or_default()),
        origin: Origin::Email,
        ..Incoming::default()
    };
    let texts: Vec<String> = (0..mail.text_body_count())
        .filter_map(|part| mail.body_text(part))
        .map(|text| text.trim().to_owned())
        .collect();
    let mut body = texts.join("\n\n");
    let (mut named, mut room) = (Vec::new(), ATTACHED_BYTES_MAX);
    for (ordinal, part) in (1..).zip(mail.attachments().take(ATTACHMENTS_MAX)) {
        let (name, bytes) = (file_name(part.attachment_name().unwrap_or_default(), ordinal), part.contents());
        let left = room.checked_sub(bytes.len());
        let aside = if left.is_none() { ", too large to be kept" } else { "" };
        named.push(format!("{name} ({}{aside})", size(bytes.len() as u64)));
        room = left.unwrap_or(room);
        if left.is_some() && !bytes.is_empty() {
            incoming.attachments.push(Attachment { name, bytes: bytes.to_vec() });
        }
    }
    if !named.is_empty() {
        let more = mail.attachment_count().saturating_sub(ATTACHMENTS_MAX);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        body.push_str(&format!("\n\nAttachments: {}{more}", named.join(", ")));
    }
    incoming.body = bounded(&body);
    incoming.echo_of = echo_of(&mail);
    incoming.returned_to = returned_to(&mail, bytes);
    let key = mail.message_id().map(|id| format!("message-id {id}"));
    // Without a Message-ID, the digest of its bytes identifies an email.
    incoming.key = Some(key.unwrap_or_else(|| format!("digest {}", Digest::of(bytes))));
    let mut note = |key: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let value = one_line(&value).chars().take(HEADER_CHARS_MAX).collect();
            incoming.metadata.insert(key.to_owned(), value);
        }
    };
    note("source", Some("email".to_owned()));
    note("mail_from", mail.from().map(addresses));
    note("mail_to", mail.to().map(addresses));
    note("message_id", mail.message_id().map(ToOwned::to_owned));
    note("mail_date", mail.date().map(|date| date.to_rfc3339()));
    Ok(incoming)
}

/// The marks of the offices that sent this mail, or that it replies to automatically.
fn echo_of(mail: &Message<'_>) -> BTreeSet<String> {
    let header = |name: &'static str| mark::all_in(mail.header_raw(name).unwrap_or_default());
    let mut marks = header(OFFICE_HEADER);
    marks.append(&mut header("Message-ID"));
    // Ticket systems also mark mail from people as auto-generated, and a body may quote anything: neither counts.
    let automatic = mail.header_raw("Auto-Submitted").unwrap_or_default().trim().to_ascii_lowercase();
    if automatic.starts_with("auto-replied") {
        ["In-Reply-To", "References"].into_iter().for_each(|name| marks.append(&mut header(name)));
    }
    marks
}

/// The marks of the offices whose mail bounced: a bounce contains the original mail.
fn returned_to(mail: &Message<'_>, bytes: &[u8]) -> BTreeSet<String> {
    match mail.content_type().is_some_and(|kind| kind.subtype() == Some("report")) {
        true => mark::all_in(&String::from_utf8_lossy(bytes)),
        false => BTreeSet::new(),
    }
}

/// Maximum number of messages nested in one email. The parser recurses into them.
const MESSAGES_MAX: usize = 1_000;

/// Counts header lines and their continuations that could begin a nested message.
fn is_deep(bytes: &[u8]) -> bool {
    let holds_one = |line: &&[u8]| {
        let line = line.to_ascii_lowercase();
        let is_header = line.first().is_some_and(u8::is_ascii_whitespace) || line.starts_with(b"content-type");
        let names = |word: &[u8]| line.windows(word.len()).any(|found| found == word);
        is_header && (names(b"message/") || names(b"multipart/digest"))
    };
    bytes.split(|byte| matches!(byte, b'\n' | b'\r')).filter(holds_one).nth(MESSAGES_MAX).is_some()
}

fn addresses(given: &Address<'_>) -> String {
    given.iter().filter_map(|one| one.address()).take(10).collect::<Vec<_>>().join(", ")
}
