//! Sends a plain text mail by SMTP, with the key in its Message-ID.

use std::sync::mpsc;
use std::time::Duration;

use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls as Encryption, TlsParameters};
use lettre::{Message, SmtpTransport, Transport};
use poste_config::{EmailConfig, Tls};

use super::{AttemptContext, Failure, Post};
use crate::notify::secret::{self, Secret};

const TEXT_CHARS_MAX: usize = 100_000;
const SUBJECT_CHARS_MAX: usize = 200;
/// Names the office that an email is from.
pub(crate) const OFFICE_HEADER: &str = "X-Poste-Office";

pub(super) fn send(config: &EmailConfig, post: &Post, context: AttemptContext<'_>) -> Result<(), Failure> {
    let password = config.password.as_ref().map(|place| secret::read(place, context.folder)).transpose()?;
    let message = message(config, post)?;
    let transport = transport(config, password.as_ref(), context.timeout)?;
    // The transport's timeout applies to each reply. This one limits the whole attempt.
    let (answered, answer) = mpsc::channel();
    std::thread::spawn(move || {
        let sent = transport.send(&message).map(drop);
        let _ = answered.send(sent.map_err(|error| (explain(&error), error.is_permanent())));
    });
    let failure = match answer.recv_timeout(context.timeout) {
        Ok(Ok(())) => return Ok(()),
        // Never final: servers call a wrong password a permanent error, but a person here can fix it.
        Ok(Err((why, _))) => Failure::from(why),
        Err(_) => Failure::from("the mail server did not answer in time".to_owned()),
    };
    Err(password.iter().fold(failure, |failure, password| failure.without(password)))
}

fn message(config: &EmailConfig, post: &Post) -> Result<Message, Failure> {
    let mailbox = |address: &str| -> Result<Mailbox, Failure> {
        address.parse().map_err(|_| Failure::from(format!("{address:?} is not a valid email address")))
    };
    let host = config.sender.rsplit_once('@').map_or("poste.invalid", |(_, host)| host);
    let subject: String = post.title().chars().take(SUBJECT_CHARS_MAX).collect();
    let mut builder = Message::builder()
        .from(mailbox(&config.sender)?)
        .message_id(Some(format!("<{}.{}@{host}>", post.key, post.mark)))
        .subject(subject)
        .header(ContentType::TEXT_PLAIN);
    // No program should answer it, and `poste ingest` for this office recognises it.
    let automatic = [
        ("Auto-Submitted", "auto-generated"),
        ("X-Auto-Response-Suppress", "OOF, AutoReply"),
        (OFFICE_HEADER, &post.mark),
    ];
    for (name, value) in automatic {
        builder = builder.raw_header(HeaderValue::new(HeaderName::new_from_ascii_str(name), value.to_owned()));
    }
    for recipient in &config.recipients {
        builder = builder.to(mailbox(recipient)?);
    }
    builder.body(post.text(TEXT_CHARS_MAX)).map_err(|error| Failure::from(format!("invalid mail: {error}")))
}

fn transport(config: &EmailConfig, password: Option<&Secret>, timeout: Duration) -> Result<SmtpTransport, Failure> {
    let (host, port) = match config.server.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') => {
            let port = port.parse::<u16>().map_err(|_| "the port of the mail server is not a number".to_owned())?;
            (host, Some(port))
        }
        _ => (config.server.as_str(), None),
    };
    let parameters = || TlsParameters::new(host.to_owned()).map_err(|_| "could not set up TLS".to_owned());
    let (encryption, usual_port) = match config.tls {
        Tls::Wrapped => (Encryption::Wrapper(parameters()?), 465),
        Tls::Starttls => (Encryption::Required(parameters()?), 587),
        Tls::Off => (Encryption::None, 25),
    };
    let mut builder =
        SmtpTransport::builder_dangerous(host).port(port.unwrap_or(usual_port)).tls(encryption).timeout(Some(timeout));
    if let (Some(user), Some(password)) = (&config.user, password) {
        builder = builder.credentials(Credentials::new(user.clone(), password.get().to_owned()));
    }
    Ok(builder.build())
}

fn explain(error: &lettre::transport::smtp::Error) -> String {
    if error.is_timeout() {
        return "the mail server did not answer in time".to_owned();
    }
    match error.status() {
        Some(code) => format!("the mail server answered with {code}"),
        None if error.is_tls() => "TLS with the mail server failed".to_owned(),
        None => "could not connect to the mail server".to_owned(),
    }
}
