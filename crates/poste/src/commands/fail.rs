use poste_core::log::MessageNo;
use poste_verbs::fail;

use super::{ClaimArgs, SecretArgs};
use crate::Result;
use crate::context::Cx;

/// Say that a message could not be handled; its sender is told
///
/// Final, unless --retry: then an attempt is counted and it comes back after a growing delay, until it is dead.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste fail 12 --reason 'No access to the database'\n  \
                        poste fail 12 --reason 'Network down' --retry")]
pub(crate) struct Args {
    /// The message's number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Not final: try again later
    #[arg(long)]
    retry: bool,
    #[command(flatten)]
    claim: ClaimArgs,
    #[command(flatten)]
    secret: SecretArgs,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let ClaimArgs { token, id } = args.claim;
    let secrets = args.secret.secrets();
    cx.call(fail::Input { number: args.number, reason: args.reason, retry: args.retry, token, id, secrets })
}
