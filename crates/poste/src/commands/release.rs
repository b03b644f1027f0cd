use poste_core::log::{Intent, MessageNo, Release};

use super::{Changed, ClaimArgs};
use crate::Result;
use crate::context::Cx;

/// Give a claimed message back, unfinished; no attempt is counted
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste release 12 --as coder")]
pub(crate) struct Args {
    /// The message's number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    #[command(flatten)]
    claim: ClaimArgs,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open_to_write()?;
    let intent = Intent::Release(Release { message: args.number, token: args.claim.token });
    let proposal = cx.proposal(&office, intent, None, args.claim.id)?;
    let (outcome, _) = cx.decide(&mut office, &proposal)?;
    let what = "released, pending again".to_owned();
    cx.ui.answer(&Changed { number: args.number, position: outcome.position, what, repeat: outcome.repeat })
}
