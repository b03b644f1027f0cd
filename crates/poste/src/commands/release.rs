use poste_core::log::{Intent, MessageNo, Position, Release};
use poste_core::text::RecordId;

use super::subscribe::position;
use super::{Changed, read};
use crate::Result;
use crate::context::Cx;

/// Give a claimed message back, unfinished; no attempt is counted
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste release 12 --as coder")]
pub(crate) struct Args {
    /// The message's number
    #[arg(value_parser = read::number)]
    number: MessageNo,
    /// The claim's token; not needed in its session or on the first claim
    #[arg(long, value_parser = position)]
    token: Option<Position>,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open_to_write()?;
    let intent = Intent::Release(Release { message: args.number, token: args.token });
    let proposal = cx.proposal(&office, intent, None, args.id)?;
    let (outcome, _) = cx.decide(&mut office, &proposal)?;
    let what = "released, pending again".to_owned();
    cx.ui.answer(&Changed { number: args.number, position: outcome.position, what, repeat: outcome.repeat })
}
