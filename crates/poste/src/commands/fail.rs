use poste_core::log::{Fail, Intent, MessageNo};

use super::{Changed, ClaimArgs, SecretArgs};
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
    let mut office = cx.open_to_write()?;
    let content = args.secret.text(&args.reason)?;
    let intent = Intent::Fail(Fail { message: args.number, token: args.claim.token, retry: args.retry });
    let proposal = cx.proposal(&office, intent, Some(content), args.claim.id)?;
    let (outcome, _) = cx.decide(&mut office, &proposal)?;
    let what = if args.retry { "attempt failed" } else { "failed" }.to_owned();
    cx.ui.answer(&Changed { number: args.number, position: outcome.position, what, repeat: outcome.repeat })?;
    cx.ui.say(format!("see what comes of it: poste track {}", args.number));
    Ok(())
}
