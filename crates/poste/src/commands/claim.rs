use std::io::{self, Write};
use std::time::{Duration, Instant};

use poste_core::fold::Code;
use poste_core::limits;
use poste_core::log::MessageNo;
use poste_core::office::Office;
use poste_core::store::Interest;
use poste_core::text::{RecordId, TypeName};
use poste_verbs::{Answered, claim};

use super::read;
use crate::cli::duration;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui};
use crate::{Result, notes};

/// Claim messages to work on them
///
/// A claim is a lease: no other agent can take the message until you finish it or the lease ends. Without NUMBER,
/// claims the best pending messages: highest priority first, then oldest. Finish each with done, fail, reply --done or
/// forward; give it back with release; keep it longer with extend. The printed token proves the claim; with
/// POSTE_SESSION set it is not needed.
///
/// If a message has gates, they run after the claim. A message that fails a gate goes back to its sender with the
/// reason and is not printed; if nothing is left, the exit code is 4.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste claim --as coder\n  poste claim 12 --lease 30m\n  poste claim --max 5 --wait --timeout 10m\n  \
                  poste claim --type directive --type question --wait"
)]
pub(crate) struct Args {
    /// Message number
    #[arg(value_parser = crate::cli::number)]
    number: Option<MessageNo>,
    /// Maximum number of messages
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::CLAIM_MAX)))]
    max: u32,
    /// Only messages of this type; may be repeated
    #[arg(long = "type", value_name = "TYPE", conflicts_with = "number")]
    types: Vec<TypeName>,
    /// Length of the lease
    #[arg(long, value_name = "TIME", value_parser = duration)]
    lease: Option<Duration>,
    /// Wait until there is a message to claim
    #[arg(long, conflicts_with = "number")]
    wait: bool,
    /// With --wait: give up after this time
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "wait")]
    timeout: Option<Duration>,
    /// Print the messages fenced as data, for a model's context
    #[arg(long)]
    for_model: bool,
    /// Idempotency key: repeating the command with it returns the same claim
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
}

impl Answer for claim::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        if self.claims.is_empty() && self.returned.is_empty() && self.released.is_empty() {
            return writeln!(out, "already claimed under this id; none of these claims is held any more");
        }
        for (index, claim) in self.claims.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            read::print_message(ui, &claim.message, out)?;
            let lease = ui.time(claim.lease_until);
            writeln!(out, "\nclaimed #{}: token {}, lease ends {lease}", claim.message.number, self.token)?;
        }
        Ok(())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let lease_ms = args.lease.map(|lease| i64::try_from(lease.as_millis()).unwrap_or(i64::MAX));
    let input =
        claim::Input { number: args.number, max: args.max, types: args.types, lease_ms, id: args.id, waits: args.wait };
    let mut office = cx.open_to_write()?;
    let claimed = match args.wait {
        true => wait(cx, &mut office, &input, args.timeout),
        false => cx.call_verb(&mut office, input),
    };
    let answered = claimed.map_err(|error| print_partial(cx, error))?;
    cx.ui.now = office.now()?;
    if cx.is_for_model(args.for_model, &office) {
        return cx.show_as(&mut office, answered, |answer| print_for_model(cx, answer));
    }
    cx.show(&mut office, answered)
}

/// Prints what a failed claim did to its messages, for programs.
fn print_partial(cx: &Cx, error: CommandError) -> CommandError {
    if cx.ui.json
        && let Some(partial) = &error.partial
        && let Err(unprinted) = cx.ui.value(partial)
    {
        return unprinted;
    }
    error
}

/// Tries whenever a message may be claimable, as another member of a group may be faster. After messages that failed
/// their gates and went back to their sender, keeps waiting; not with an id, which is for one claim, and not if a gate
/// is not trusted, as the same message would be claimed again at once.
pub(super) fn wait(
    cx: &Cx,
    office: &mut Office,
    input: &claim::Input,
    timeout: Option<Duration>,
) -> Result<Answered<claim::Answer>> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let interest = Interest::mail(&cx.speaker()?);
    let mut returned = Vec::new();
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let found = cx.wait(office, &interest, left, |office| match cx.call_verb(office, input.clone()) {
            Err(error) if error.code == Some(Code::NothingToClaim.word()) => Ok(None),
            claimed => claimed.map(Some),
        })?;
        let Some(mut answered) = found else {
            return Err(CommandError::new(Kind::TimedOut, "timed out: nothing to claim"));
        };
        let answer = &mut answered.answer;
        returned.append(&mut answer.returned);
        let keeps_waiting =
            answer.claims.is_empty() && input.id.is_none() && answer.released.is_empty() && !returned.is_empty();
        if keeps_waiting {
            notes::say(&cx.ui, &answered);
            continue;
        }
        answer.returned = returned;
        if answer.nothing_passed() {
            return Err(cx.with_desk(office, |desk| claim::nothing_left(desk, answer))?.into());
        }
        return Ok(answered);
    }
}

fn print_for_model(cx: &Cx, answer: &claim::Answer) -> Result {
    let mut out = cx.ui.out();
    for claim in &answer.claims {
        writeln!(out, "{}", read::fenced(cx, &claim.message))?;
        let (number, token) = (claim.message.number, answer.token);
        writeln!(out, "claimed #{number}: token {token}, lease ends {}", claim.lease_until)?;
    }
    out.flush()?;
    Ok(())
}
