use std::path::PathBuf;

use poste_core::fold::Effect;
use poste_core::log::{Body, Content, Done, Intent, MessageNo};

use super::{Changed, ClaimArgs, SecretArgs};
use crate::Result;
use crate::context::Cx;
use crate::draft;
use crate::error::{CommandError, Kind};

/// Finish a message with its result
///
/// Without a claim it is claimed and finished in one step.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste done 12 --summary 'Login fixed' --file src/login.rs\n  \
                        cargo test 2>&1 | poste done 12 --token 40 --summary 'All tests pass' --result -")]
pub(crate) struct Args {
    /// The message's number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// What was done, in a line or two
    #[arg(long, value_name = "TEXT")]
    summary: Option<String>,
    /// The detailed result; - for stdin
    #[arg(long, value_name = "TEXT")]
    result: Option<String>,
    /// A file that came of it: must exist; size and digest are recorded
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// What to do next
    #[arg(long, value_name = "TEXT")]
    recommend: Option<String>,
    #[command(flatten)]
    claim: ClaimArgs,
    #[command(flatten)]
    secret: SecretArgs,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open_to_write()?;
    let speaker = cx.speaker()?;
    let artifacts = draft::named_artifacts(cx, &office, &speaker, &args.file, &[], &[])?;
    let content = Content {
        body: Body(draft::read_body(cx, args.result)?),
        summary: args.summary,
        recommend: args.recommend,
        ..Content::default()
    };
    args.secret.check_as(&content, "result")?;
    let intent = Intent::Done(Done { message: args.number, token: args.claim.token, artifacts });
    let proposal = cx.proposal(&office, intent, Some(content), args.claim.id)?;
    let (outcome, effect) = cx.decide(&mut office, &proposal)?;
    if let Effect::Late(late) = effect {
        let now = match late.holder {
            Some(holder) => format!("held by {holder}"),
            None => late.state.to_owned(),
        };
        let message = format!("the lease on message {} was lost; it is {now} now", args.number);
        return Err(CommandError::new(Kind::Conflict, message)
            .code("lease_lost")
            .hint(format!("your result is kept as late; its sender sees it: poste track {}", args.number)));
    }
    let what = "done".to_owned();
    cx.ui.answer(&Changed { number: args.number, position: outcome.position, what, repeat: outcome.repeat })
}
