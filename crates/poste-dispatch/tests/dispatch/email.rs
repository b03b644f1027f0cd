use poste_dispatch::ingest::{Unfit, email};
use poste_verbs::ingest::Attachment;
use poste_verbs::mark;

/// The maximum total size of attachments, and their maximum number.
const ATTACHED_BYTES_MAX: usize = 16 * 1024 * 1024;
const ATTACHMENTS_MAX: usize = 20;

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
    let file = |name: &str, text: &str| format!("--x\nContent-Disposition: attachment; filename={name}\n\n{text}\n");
    let files = file("core", &"c".repeat(ATTACHED_BYTES_MAX + 1)) + &file("small", "s") + &file("empty", "");
    let read = email(format!("From: a@b\nContent-Type: multipart/mixed; boundary=x\n\n{files}--x--").as_bytes());
    let read = read.unwrap();
    let named = "Attachments: core (16 MiB, too large to be kept), small (1 bytes), empty (0 bytes)";
    assert!(read.body.ends_with(named), "{}", read.body);
    assert_eq!(read.attachments, [Attachment { name: "small".to_owned(), bytes: b"s".to_vec() }]);
}

#[test]
fn html_alone_becomes_text() {
    let mail =
        "From: a@b\nSubject: x\nContent-Type: text/html\n\n<h1>Down</h1><p>db1 &amp; db2</p><script>evil()</script>";
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
    // Answers of people, and mail of other programs, are no echo.
    assert!(!echo("From: a@b\nIn-Reply-To: <poste-1.MARK@b>\nAuto-Submitted: no\nSubject: x\n\n> MARK"));
    let ticket =
        "From: a@b\nAuto-Submitted: auto-generated\nIn-Reply-To: <poste-1.MARK@b>\nSubject: x\n\nAnn wrote: call Bob";
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
