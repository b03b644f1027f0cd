use poste_core::log::{Ack, Intent, MessageNo};
use poste_core::text::RecordId;
use poste_core::views;

use super::{Changed, SecretArgs};
use crate::Result;
use crate::context::Cx;

/// Acknowledge a message
///
/// If its type asks for no work, that ends it; otherwise it is a mark its sender sees. An ack is no response.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste ack 12 --note 'Will comply' --as builder-1")]
pub(crate) struct Args {
    /// The message's number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// A word to the sender
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
    #[command(flatten)]
    secret: SecretArgs,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open_to_write()?;
    let content = args.note.map(|note| args.secret.text("note", &note)).transpose()?;
    let proposal = cx.proposal(&office, Intent::Ack(Ack { message: args.number }), content, args.id)?;
    let (outcome, _) = cx.decide(&mut office, &proposal)?;
    let asks_work = views::message(office.store(), args.number)?.is_some_and(|message| message.asks_work);
    let what = if asks_work { "acknowledged; it still asks for work" } else { "acknowledged, done" }.to_owned();
    cx.ui.answer(&Changed { number: args.number, position: outcome.position, what, repeat: outcome.repeat })
}
