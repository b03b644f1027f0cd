use poste_core::log::MessageNo;
use poste_verbs::ack;

use super::WriteArgs;
use crate::Result;
use crate::context::Cx;

/// Acknowledge a message
///
/// An ack ends a message whose type asks for no work. On any other it is a mark that the sender sees. It is not a
/// response.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste ack 12 --note 'Will comply' --as builder-1")]
pub(crate) struct Args {
    /// Message number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Note to the sender
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    write: WriteArgs,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    cx.call(ack::Input {
        number: args.number,
        note: args.note,
        id: args.write.id,
        secrets: args.write.secret.secrets(cx)?,
    })
}
