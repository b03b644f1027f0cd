//! One file per command: its arguments (their doc comments are the help), its answer, and how it runs.

pub(crate) mod ack;
pub(crate) mod adopt;
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
pub(crate) mod token;
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

use poste_core::log::Position;
use poste_core::text::RecordId;
use poste_verbs::answer::Changed;
use poste_verbs::secret::Secrets;

use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Ui};

/// Arguments of every command that ends or keeps a claim.
#[derive(Debug, clap::Args)]
pub(crate) struct ClaimArgs {
    /// The claim's token; not needed in its session or on the first claim
    #[arg(long, value_parser = crate::cli::position)]
    pub token: Option<Position>,
    /// Idempotency key: repeating the command with it is safe
    #[arg(long, value_name = "ID")]
    pub id: Option<RecordId>,
}

/// Arguments of every command that stores a text.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct SecretArgs {
    /// Store the text even if it appears to contain a secret
    #[arg(long)]
    pub allow_secret: bool,
}

/// Arguments of every command that stores a text in one record.
#[derive(Debug, clap::Args)]
pub(crate) struct WriteArgs {
    /// Idempotency key: repeating the command with it is safe
    #[arg(long, value_name = "ID")]
    pub id: Option<RecordId>,
    #[command(flatten)]
    pub secret: SecretArgs,
}

impl SecretArgs {
    /// Whether the text may contain a secret, which only a person can say.
    pub(crate) fn secrets(self, cx: &Cx) -> Result<Secrets> {
        match self.allow_secret {
            true => Ok(Secrets::allowed_by(cx.confirm("store what looks like a secret", "secret")?)),
            false => Ok(Secrets::default()),
        }
    }
}

impl Answer for Changed {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (already done under this id)" } else { "" };
        writeln!(out, "#{} {}{again}", self.number, self.what)
    }
}
