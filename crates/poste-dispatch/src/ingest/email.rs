//! A mail, as a mail server or a filter pipes it in.

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

/// Reads a mail: its text, or what its HTML says, and the names of its files.
pub fn email(bytes: &[u8]) -> Result<Incoming, Unfit> {
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Unfit::TooLarge);
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(Unfit::Empty);
    }
    // A file of many mails begins each with a line that is no header.
    let bytes = match bytes.starts_with(b"From ") {
        true => bytes.iter().position(|byte| *byte == b'\n').map_or(bytes, |end| &bytes[end + 1..]),
        false => bytes,
    };
    if is_deep(bytes) {
        return Err(Unfit::NoMail("too many messages are in one another"));
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
    // What has no name of its own is known by all of its bytes.
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

/// The offices that sent it, or that a program answers with it.
fn echo_of(mail: &Message<'_>) -> BTreeSet<String> {
    let header = |name: &'static str| mark::all_in(mail.header_raw(name).unwrap_or_default());
    let mut marks = header(OFFICE_HEADER);
    marks.append(&mut header("Message-ID"));
    // Ticket systems say auto-generated of what people write, too, and what a mail quotes may be anybody's words: neither
    // silences it.
    let automatic = mail.header_raw("Auto-Submitted").unwrap_or_default().trim().to_ascii_lowercase();
    if automatic.starts_with("auto-replied") {
        ["In-Reply-To", "References"].into_iter().for_each(|name| marks.append(&mut header(name)));
    }
    marks
}

/// The offices whose mail comes back with it: a return has what is returned in it.
fn returned_to(mail: &Message<'_>, bytes: &[u8]) -> BTreeSet<String> {
    match mail.content_type().is_some_and(|kind| kind.subtype() == Some("report")) {
        true => mark::all_in(&String::from_utf8_lossy(bytes)),
        false => BTreeSet::new(),
    }
}

/// Messages that may be in one mail. The parser goes into each, and that of the next, on one stack.
const MESSAGES_MAX: usize = 1_000;

/// Counts what could begin a message within a message, in headers and what continues them.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_of_many_parts_is_read() {
        let mail = concat!(
            "From: Monitor <monitor@example.org>\r\nTo: ops@example.org\r\nMessage-ID: <a1@example.org>\r\n",
            "Date: Mon, 16 Nov 2026 10:00:00 +0100\r\n",
            "Subject: =?utf-8?B?RGlzayBmdWxsIOKAkyBkYjE=?=\r\nMIME-Version: 1.0\r\n",
            "Content-Type: multipart/mixed; boundary=\"b\"\r\n\r\n--b\r\n",
            "Content-Type: multipart/alternative; boundary=\"c\"\r\n\r\n--c\r\n",
            "Content-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n",
            "Platte f=FCllt sich=\r\n weiter\r\n--c\r\nContent-Type: text/html\r\n\r\n<p>html</p>\r\n--c--\r\n",
            "--b\r\nContent-Type: text/csv; name=\"../../etc/df.csv\"\r\n",
            "Content-Disposition: attachment; filename=\"../../etc/df.csv\"\r\n",
            "Content-Transfer-Encoding: base64\r\n\r\nYSxiCg==\r\n--b--\r\n"
        );
        let read = email(mail.as_bytes()).unwrap();
        assert_eq!(read.subject, "Disk full – db1");
        assert!(read.body.starts_with("Platte füllt sich weiter"), "{}", read.body);
        assert!(read.body.ends_with("Attachments: df.csv (4 bytes)"), "{}", read.body);
        assert_eq!(read.attachments, [Attachment { name: "df.csv".to_owned(), bytes: b"a,b\n".to_vec() }]);
        assert_eq!(read.key.as_deref(), Some("message-id a1@example.org"));
        assert_eq!(read.metadata["mail_from"], "monitor@example.org");
        assert_eq!(read.metadata["source"], "email");
    }

    #[test]
    fn what_is_too_large_to_be_kept_is_said_to_be() {
        let file =
            |name: &str, text: &str| format!("--x\nContent-Disposition: attachment; filename={name}\n\n{text}\n");
        let files = file("core", &"c".repeat(ATTACHED_BYTES_MAX + 1)) + &file("small", "s") + &file("empty", "");
        let read = email(format!("From: a@b\nContent-Type: multipart/mixed; boundary=x\n\n{files}--x--").as_bytes());
        let read = read.unwrap();
        let named = "Attachments: core (16 MiB, too large to be kept), small (1 bytes), empty (0 bytes)";
        assert!(read.body.ends_with(named), "{}", read.body);
        assert_eq!(read.attachments, [Attachment { name: "small".to_owned(), bytes: b"s".to_vec() }]);
    }

    #[test]
    fn html_alone_becomes_text() {
        let mail = "From: a@b\nSubject: x\nContent-Type: text/html\n\n<h1>Down</h1><p>db1 &amp; db2</p><script>evil()</script>";
        let read = email(mail.as_bytes()).unwrap();
        assert!(read.body.contains("Down") && read.body.contains("db1 & db2"), "{}", read.body);
        assert!(!read.body.contains('<'), "{}", read.body);
    }

    #[test]
    fn a_mail_without_a_name_is_known_by_its_bytes() {
        let one = email(b"From: a@b\nSubject: x\n\nhi").unwrap();
        let again = email(b"From: a@b\nSubject: x\n\nhi").unwrap();
        let other = email(b"From: a@b\nSubject: x\n\nho").unwrap();
        assert_eq!(one.key, again.key);
        assert_ne!(one.key, other.key);
    }

    #[test]
    fn what_is_no_mail_is_said_to_be_none() {
        assert_eq!(email(b"").unwrap_err(), Unfit::Empty);
        assert_eq!(email(b" \n\n").unwrap_err(), Unfit::Empty);
        assert!(matches!(email(b"just a line of text").unwrap_err(), Unfit::NoMail(_)));
        assert!(matches!(email(&[0, 159, 146, 150]).unwrap_err(), Unfit::NoMail(_)));
    }

    #[test]
    fn what_an_office_caused_itself_names_it() {
        let mark = mark::of("an office");
        let echo = |mail: &str| email(mail.replace("MARK", &mark).as_bytes()).unwrap().echo_of.contains(&mark);
        assert!(echo("From: a@b\nX-Poste-Office: MARK\nSubject: x\n\nhi"));
        assert!(echo("From: a@b\nAuto-Submitted: auto-replied\nIn-Reply-To: <poste-1.MARK@b>\nSubject: x\n\naway"));
        let report = "From: a@b\nSubject: x\nContent-Type: multipart/report; boundary=q\n\n--q\n\nreturned\n--q\n\
            Content-Type: message/rfc822\n\nMessage-ID: <poste-1.MARK@b>\nSubject: y\n\nz\n--q--\n";
        assert!(!echo(report));
        assert!(email(report.replace("MARK", &mark).as_bytes()).unwrap().returned_to.contains(&mark));
        // People answer, and programs that this office did not make speak.
        assert!(!echo("From: a@b\nIn-Reply-To: <poste-1.MARK@b>\nAuto-Submitted: no\nSubject: x\n\n> MARK"));
        let ticket = "From: a@b\nAuto-Submitted: auto-generated\nIn-Reply-To: <poste-1.MARK@b>\nSubject: x\n\nAnn wrote: call Bob";
        assert!(!echo(ticket));
        assert!(!echo("From: a@b\nAuto-Submitted: auto-generated\nSubject: MARK\n\nthe log says MARK"));
    }

    #[test]
    fn hostile_mails_stay_bounded() {
        let deep: String =
            (0..5_000).map(|n| format!("--{n}\nContent-Type: multipart/mixed; boundary={}\n\n", n + 1)).collect();
        let _ = email(format!("From: a@b\nSubject: x\nContent-Type: multipart/mixed; boundary=0\n\n{deep}").as_bytes());
        for header in ["Content-Type: message/rfc822\n\n", "content-TYPE:\n Message/rfc822\n\n"] {
            let within = email(format!("From: a@b\nSubject: x\n{}", header.repeat(100_000)).as_bytes());
            assert!(matches!(within, Err(Unfit::NoMail(_))), "{header}");
        }
        let words = format!("From: a@b\nSubject: x\n\n{}", "see message/rfc822\n".repeat(5_000));
        assert!(email(words.as_bytes()).is_ok());
        let long = format!("From: a@b\nSubject: {}\n\n{}", "s".repeat(10_000), "b".repeat(1_000_000));
        let read = email(long.as_bytes()).unwrap();
        assert!(read.subject.len() <= 512 && read.body.len() < 300 * 1024);
        let many: String =
            (0..200).map(|n| format!("--x\nContent-Disposition: attachment; filename=f{n}\n\n{n}\n")).collect();
        let read = email(format!("From: a@b\nContent-Type: multipart/mixed; boundary=x\n\n{many}--x--").as_bytes());
        let read = read.unwrap();
        assert_eq!(read.attachments.len(), ATTACHMENTS_MAX);
        assert!(read.body.ends_with("and 180 more"), "{}", read.body);
        let read = email(b"From: a@b\nSubject: =?utf-8?q?a=00b=1B?=\n\nx").unwrap();
        assert_eq!(read.subject, "a\u{fffd}b\u{fffd}");
    }
}
