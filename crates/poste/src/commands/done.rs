use std::path::PathBuf;

use poste_core::log::MessageNo;
use poste_verbs::done;

use super::{ClaimArgs, SecretArgs};
use crate::Result;
use crate::context::Cx;
use crate::draft;

/// Finish a message with its result
///
/// Without a claim, the message is claimed and finished in one step.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste done 12 --summary 'Login fixed' --file src/login.rs\n  \
                        cargo test 2>&1 | poste done 12 --token 40 --summary 'All tests pass' --result -")]
pub(crate) struct Args {
    /// Message number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// What was done, in a line or two
    #[arg(long, value_name = "TEXT")]
    summary: Option<String>,
    /// Detailed result; - for stdin
    #[arg(long, value_name = "TEXT")]
    result: Option<String>,
    /// Result file; it must exist, its size and digest are recorded
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// Recommended next step
    #[arg(long, value_name = "TEXT")]
    recommend: Option<String>,
    #[command(flatten)]
    claim: ClaimArgs,
    #[command(flatten)]
    secret: SecretArgs,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let input = done::Input {
        number: args.number,
        summary: args.summary,
        result: draft::read_body(args.result)?,
        files: cx.paths(args.file),
        recommend: args.recommend,
        token: args.claim.token,
        id: args.claim.id,
        secrets: args.secret.secrets(cx)?,
    };
    cx.call(input)
}
