//! One file a command: its arguments (whose comments are the help), its answer, and what it does.

pub(crate) mod ack;
pub(crate) mod agents;
pub(crate) mod agree;
pub(crate) mod approvals;
pub(crate) mod approve;
pub(crate) mod archive;
pub(crate) mod ask;
pub(crate) mod broadcast;
pub(crate) mod claim;
pub(crate) mod clock;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod context_lock;
pub(crate) mod context_write;
pub(crate) mod dead;
pub(crate) mod demo;
pub(crate) mod deny;
pub(crate) mod dispatch;
pub(crate) mod dispatch_live;
pub(crate) mod dispatch_runs;
pub(crate) mod dispatch_send;
pub(crate) mod doctor;
pub(crate) mod done;
pub(crate) mod extend;
pub(crate) mod fail;
pub(crate) mod forward;
pub(crate) mod guard;
pub(crate) mod handoff;
pub(crate) mod handoff_accept;
pub(crate) mod handoff_create;
pub(crate) mod hook;
pub(crate) mod inbox;
pub(crate) mod ingest;
pub(crate) mod init;
pub(crate) mod log;
pub(crate) mod log_digest;
pub(crate) mod log_replay;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod overdue;
pub(crate) mod publish;
pub(crate) mod read;
pub(crate) mod redact;
pub(crate) mod register;
pub(crate) mod release;
pub(crate) mod reply;
pub(crate) mod report;
pub(crate) mod reservations;
pub(crate) mod reserve;
pub(crate) mod restore;
pub(crate) mod retire;
pub(crate) mod retry;
pub(crate) mod run_agent;
pub(crate) mod schema;
pub(crate) mod search;
pub(crate) mod send;
pub(crate) mod session;
pub(crate) mod setup;
pub(crate) mod snapshot;
pub(crate) mod spawn;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod subscribe;
pub(crate) mod tail;
pub(crate) mod team;
pub(crate) mod thread;
pub(crate) mod threads;
pub(crate) mod topics;
pub(crate) mod track;
pub(crate) mod trust;
pub(crate) mod types;
pub(crate) mod unsubscribe;
pub(crate) mod verify;
pub(crate) mod wait;
pub(crate) mod wake;
pub(crate) mod watch;
pub(crate) mod whoami;
pub(crate) mod workflow;

use std::io::{self, Write};

use poste_core::Timestamp;
use poste_core::log::{Content, Intent, MessageNo, Position};
use poste_core::office::Office;
use poste_core::text::RecordId;
use poste_core::time::{When, parse_when};
use schemars::JsonSchema;
use serde::Serialize;

use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui};

/// What every command that ends or keeps a claim takes.
#[derive(Debug, clap::Args)]
pub(crate) struct ClaimArgs {
    /// The claim's token; not needed in its session or on the first claim
    #[arg(long, value_parser = crate::cli::position)]
    pub token: Option<Position>,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    pub id: Option<RecordId>,
}

/// What every command that stores a text takes.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct SecretArgs {
    /// Store it although it looks like it carries a secret
    #[arg(long)]
    pub allow_secret: bool,
}

/// The record that the speaker wrote under an id, if it did: what takes time or looks at files is not done twice.
pub(crate) fn recorded(cx: &Cx, office: &Office, id: &RecordId) -> crate::Result<Option<(Position, Intent)>> {
    let tables = office.store().tables()?;
    let Some(row) = tables.id(id)? else { return Ok(None) };
    let Some(record) = tables.record(row.position)? else { return Ok(None) };
    let speaker = cx.speaker()?;
    let intent = record.sealed.intent().ok().flatten().filter(|_| record.sealed.envelope.actor == speaker);
    Ok(intent.map(|intent| (row.position, intent)))
}

/// A text that must say something: whoever reads it later has nothing else.
pub(crate) fn said<'a>(option: &str, text: &'a str) -> crate::Result<&'a str> {
    match text.trim().is_empty() {
        true => Err(CommandError::usage(format!("{option} is empty; say it in a few words"))),
        false => Ok(text),
    }
}

impl SecretArgs {
    /// A plain text about something that is in the log already: a reason, a note, an outcome.
    pub(crate) fn text(self, what: &str, text: &str) -> crate::Result<Content> {
        let content = Content { body: text.into(), ..Content::default() };
        self.check_as(&content, what)?;
        Ok(content)
    }

    /// Stops what looks like a secret before it is in the log, from where it could only be redacted.
    pub(crate) fn check(self, content: &Content) -> crate::Result {
        self.check_as(content, "body")
    }

    /// As [`Self::check`], of a text that its writer knows by another name than the body of a message.
    pub(crate) fn check_as(self, content: &Content, body: &str) -> crate::Result {
        if self.allow_secret {
            return Ok(());
        }
        let found = poste_core::secrets::find(content);
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
        Err(CommandError::new(Kind::Refused, format!("this looks like a secret: {}", found.join("; ")))
            .code("looks_secret")
            .hint("say where it is kept instead; what is stored stays in the log until it is redacted")
            .hint("if it is none, or must be sent: --allow-secret"))
    }
}

/// The answer of commands that change one message's delivery.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Changed {
    pub number: MessageNo,
    /// The record that did it.
    pub position: Option<Position>,
    /// What happened, in a word: done, failed, released …
    pub what: String,
    /// The same change was made before, under the same id.
    pub repeat: bool,
}

impl Answer for Changed {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (before, under this id)" } else { "" };
        writeln!(out, "#{} {}{again}", self.number, self.what)
    }
}

/// What `--since` says: a moment in the past, or so long before now.
pub(crate) fn since(text: &str, now: Timestamp) -> crate::Result<Timestamp> {
    let since = match parse_when(text).map_err(|why| CommandError::usage(format!("--since: {why}")))? {
        When::InMs(ms) => now.plus_ms(-ms),
        When::At(at) => at,
    };
    if since >= now {
        return Err(CommandError::usage("--since is not in the past").hint("for example --since 7d"));
    }
    Ok(since)
}
