use poste_core::log::MessageNo;
use poste_verbs::fail;

use super::{ClaimArgs, SecretArgs};
use crate::Result;
use crate::context::Cx;

/// Report that a message could not be handled
///
/// The sender is notified. The failure is final, except with --retry: then it counts as an attempt, and the message
/// comes back after a growing delay, until its last attempt fails and it is dead.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste fail 12 --reason 'No access to the database'\n  \
                        poste fail 12 --reason 'Network down' --retry")]
pub(crate) struct Args {
    /// Message number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Reason for the sender
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Retry later instead of failing for good
    #[arg(long)]
    retry: bool,
    #[command(flatten)]
    claim: ClaimArgs,
    #[command(flatten)]
    secret: SecretArgs,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let ClaimArgs { token, id } = args.claim;
    let secrets = args.secret.secrets(cx)?;
    cx.call(fail::Input { number: args.number, reason: args.reason, retry: args.retry, token, id, secrets })
}
