use poste_core::log::MessageNo;
use poste_core::vocabulary::Priority;
use poste_verbs::forward;

use super::{ClaimArgs, SecretArgs};
use crate::Result;
use crate::context::Cx;
use crate::draft::parse_recipients;

/// Forward a message to another recipient
///
/// Your own delivery is then done.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste forward 12 lead --note 'Above my pay grade' --priority urgent --as coder")]
pub(crate) struct Args {
    /// Message number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Recipient that takes over
    to: String,
    /// Note to the new recipient
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// New priority; otherwise that of the message
    #[arg(long)]
    priority: Option<Priority>,
    #[command(flatten)]
    claim: ClaimArgs,
    #[command(flatten)]
    secret: SecretArgs,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    cx.call(forward::Input {
        number: args.number,
        to: parse_recipients(&args.to)?,
        note: args.note,
        priority: args.priority,
        token: args.claim.token,
        id: args.claim.id,
        secrets: args.secret.secrets(cx)?,
    })
}
