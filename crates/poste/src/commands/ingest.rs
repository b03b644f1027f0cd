use std::io::{self, Read, Write};
use std::path::PathBuf;

use poste_config::SecretPlace;
use poste_core::text::TypeName;
use poste_core::vocabulary::Priority;
use poste_dispatch::ingest::{self as read, Request, Unfit};
use poste_dispatch::notify;
use poste_verbs::ingest::{self, Incoming};

use super::SecretArgs;
use crate::Result;
use crate::context::{Cx, recipients_text};
use crate::draft::parse_recipients;
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui};

/// Turn an email, webhook or text from outside into a message
///
/// The message is an alert unless you pass --type, has the trust label `outside`, and is stored once, however often it
/// arrives. Its sender is `ingest`, or the name of kind outside given with --as, which is registered on first use.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste ingest email ops < alert.eml\n  \
                  poste ingest webhook ops --secret-env HOOK_SECRET --headers headers.txt < body.json\n  \
                  df -h | poste ingest stdin ops --subject 'Disk usage' --key disk-2026-11-16")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: IngestCommand,
}

#[derive(Debug, clap::Subcommand)]
enum IngestCommand {
    /// Ingest a raw email, identified by its Message-ID
    #[command(
        after_help = "Examples:\n  poste ingest email ops < alert.eml\n  poste ingest email role:ops --attach --file alert.eml\n  \
                      In an aliases file:  monitor: \"|poste --office /srv/app/.poste ingest email ops\"\n\n\
                      While the office is busy or full, the exit code is 75, and the mail server retries later."
    )]
    Email {
        #[command(flatten)]
        common: Common,
        /// Also store attached files; otherwise only their names are kept
        #[arg(long)]
        attach: bool,
    },
    /// Ingest a webhook, identified by its idempotency key
    #[command(
        after_help = "Example:\n  poste ingest webhook ops --secret-env HOOK_SECRET --header 'webhook-id: evt-1' \\\n    \
                      --header 'webhook-timestamp: 1800000000' --header 'webhook-signature: v1,BASE64' < body.json"
    )]
    Webhook {
        #[command(flatten)]
        common: Common,
        /// Header of the request; may be repeated
        #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
        header: Vec<(String, String)>,
        /// File with headers of the request, one per line
        #[arg(long, value_name = "FILE")]
        headers: Option<PathBuf>,
        /// Environment variable that holds the signing secret
        #[arg(long, value_name = "NAME", group = "secret")]
        secret_env: Option<String>,
        /// File that holds the signing secret
        #[arg(long, value_name = "FILE", group = "secret")]
        secret_file: Option<String>,
        /// Accept a request whose sender cannot be verified
        #[arg(long, group = "secret")]
        unsigned: bool,
    },
    /// Ingest a plain text; its first line is the subject
    #[command(after_help = "Example:\n  df -h | poste ingest stdin ops --subject 'Disk usage'")]
    Stdin {
        #[command(flatten)]
        common: Common,
        /// Subject; otherwise the first line of the text
        #[arg(long, value_name = "TEXT")]
        subject: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Recipient, or several separated by commas
    to: String,
    /// Read this file instead of stdin
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Message type
    #[arg(long = "type", value_name = "TYPE", default_value = "alert")]
    kind: TypeName,
    /// Priority: low, normal, high or urgent; otherwise that of the type
    #[arg(long)]
    priority: Option<Priority>,
    /// Idempotency key: input with the same key is stored once
    #[arg(long, value_name = "TEXT", value_parser = key)]
    key: Option<String>,
    #[command(flatten)]
    secret: SecretArgs,
}

/// A script whose variable is unset must not give every message the same key.
fn key(text: &str) -> std::result::Result<String, String> {
    match text.trim().is_empty() {
        true => Err("the key is empty; leave it out or pass a value".to_owned()),
        false => Ok(text.to_owned()),
    }
}

fn header(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err("expected 'NAME: VALUE'".to_owned()),
    }
}

impl Answer for ingest::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let Some(number) = self.number else { return writeln!(out, "nothing stored: this office caused the input") };
        match (self.repeat, self.to.as_slice()) {
            (true, _) => writeln!(out, "#{number} was stored before"),
            (false, []) => writeln!(out, "#{number} delivered to 0"),
            (false, to) => writeln!(out, "#{number} stored for {}", recipients_text(to)),
        }
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        IngestCommand::Email { common, attach } => {
            let bytes = read_all(&common)?;
            let incoming = read::email(&bytes).map_err(unfit)?;
            take_in(cx, common, incoming, attach)
        }
        IngestCommand::Webhook { common, header, headers, secret_env, secret_file, unsigned } => {
            let place = match (secret_env, secret_file, unsigned) {
                (Some(name), _, _) => Some(SecretPlace::Env(name)),
                (None, Some(path), _) => Some(SecretPlace::File(path)),
                (None, None, true) => None,
                (None, None, false) => {
                    return Err(CommandError::usage("no signing secret")
                        .hint("pass --secret-env NAME or --secret-file FILE; to accept any sender: --unsigned"));
                }
            };
            let key =
                place.map(|place| notify::read_key(&place, &cx.cwd()?).map_err(CommandError::usage)).transpose()?;
            let mut headers = match headers {
                Some(path) => read_headers(&path)?,
                None => Vec::new(),
            };
            headers.extend(header);
            let body = read_all(&common)?;
            let now_s = cx.ui.now.ms().div_euclid(1_000);
            let request = Request { body: &body, headers: &headers, now_s };
            let incoming = read::webhook(request, key.as_ref()).map_err(unfit)?;
            take_in(cx, common, incoming, false)
        }
        IngestCommand::Stdin { common, subject } => {
            let bytes = read_all(&common)?;
            let incoming = read::text(&bytes, subject.as_deref()).map_err(unfit)?;
            take_in(cx, common, incoming, false)
        }
    }
}

fn take_in(cx: &mut Cx, common: Common, mut incoming: Incoming, attach: bool) -> Result {
    let Common { to, kind, priority, key, secret, .. } = common;
    incoming.key = key.or(incoming.key);
    let (to, secrets) = (parse_recipients(&to)?, secret.secrets(cx)?);
    cx.call(ingest::Input { to, kind, priority, incoming, attach, secrets })
}

fn unfit(unfit: Unfit) -> CommandError {
    let code = match unfit {
        Unfit::Unsigned(_) => "unsigned",
        Unfit::TooLarge => "too_large",
        Unfit::NoMail(_) => "no_mail",
        Unfit::Empty => "empty",
    };
    CommandError::new(Kind::Refused, unfit.to_string()).code(code)
}

fn read_all(common: &Common) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = read::BYTES_MAX + 1;
    let read = match &common.file {
        None => std::io::stdin().lock().take(limit).read_to_end(&mut bytes),
        Some(path) => {
            let file = std::fs::File::open(path);
            let file = file.map_err(|error| CommandError::not_found(format!("{}: {error}", path.display())))?;
            file.take(limit).read_to_end(&mut bytes)
        }
    };
    read.map_err(|error| CommandError::new(Kind::Internal, format!("could not read the input: {error}")))?;
    match bytes.len() as u64 > read::BYTES_MAX {
        true => Err(unfit(Unfit::TooLarge)),
        false => Ok(bytes),
    }
}

fn read_headers(path: &PathBuf) -> Result<Vec<(String, String)>> {
    const BYTES_MAX: u64 = 256 * 1024;
    let mut text = String::new();
    let file = std::fs::File::open(path);
    let file = file.map_err(|error| CommandError::not_found(format!("{}: {error}", path.display())))?;
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.lines().filter_map(|line| header(line).ok()).collect())
}
