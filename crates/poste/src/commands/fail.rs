use poste_core::log::{Fail, Intent, MessageNo, Position};
use poste_core::office::Office;
use poste_core::store::tables::Event;
use poste_core::views;

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
    let content = args.secret.text("reason", &args.reason)?;
    let intent =
        Intent::Fail(Fail { message: args.number, token: args.claim.token, retry: args.retry, delay_ms: None });
    let proposal = cx.proposal(&office, intent, Some(content), args.claim.id)?;
    let (outcome, _) = cx.decide(&mut office, &proposal)?;
    let is_dead = args.retry && ended_dead(&office, args.number, outcome.position)?;
    let what = match (args.retry, is_dead) {
        (false, _) => "failed",
        (true, false) => "attempt failed",
        (true, true) => "attempt failed, the last one: it is dead now",
    }
    .to_owned();
    cx.ui.answer(&Changed { number: args.number, position: outcome.position, what, repeat: outcome.repeat })?;
    cx.ui.say(match is_dead {
        true => format!("its sender is told; another chance: poste retry {}", args.number),
        false => format!("see what comes of it: poste track {}", args.number),
    });
    Ok(())
}

/// Whether this record was the end of it: no attempts were left.
fn ended_dead(office: &Office, number: MessageNo, position: Option<Position>) -> Result<bool> {
    let Some(track) = views::track(office.store(), number, office.now()?)? else { return Ok(false) };
    let mut steps = track.deliveries.iter().flat_map(|delivery| &delivery.history);
    Ok(steps.any(|step| Some(step.position) == position && step.event == Event::Dead))
}
