use poste_core::log::MessageNo;
use poste_verbs::deny;

use super::WriteArgs;
use crate::Result;
use crate::context::Cx;
use crate::draft::read_body;

/// Deny a question
///
/// Same as poste approve --choice deny.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste deny 12 --reason 'Not before the release' --as lead")]
pub(crate) struct Args {
    /// Number of the question
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Reason for the asker; - for stdin
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,
    #[command(flatten)]
    write: WriteArgs,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    cx.call(deny::Input {
        number: args.number,
        reason: read_body(args.reason)?,
        id: args.write.id,
        secrets: args.write.secret.secrets(cx)?,
    })
}
