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

/// Claim work: a lease on a message, yours until it is finished or runs out
///
/// Without N, the best pending messages. Finish each with done, fail, reply --done or forward; give it back with
/// release; keep it longer with extend. The token printed here proves the claim; with POSTE_SESSION set it is
/// not needed.
///
/// A message with gates is claimed, then its gates are run. What does not pass them goes back to its sender with the
/// reason, and is not printed; if nothing is left, the exit code is 4.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste claim --as coder\n  poste claim 12 --lease 30m\n  poste claim --max 5 --wait --timeout 10m\n  \
                  poste claim --type directive --type question --wait"
)]
pub(crate) struct Args {
    /// The message's number
    #[arg(value_parser = crate::cli::number)]
    number: Option<MessageNo>,
    /// At most so many
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::CLAIM_MAX)))]
    max: u32,
    /// Only of this type; may be given several times
    #[arg(long = "type", value_name = "TYPE", conflicts_with = "number")]
    types: Vec<TypeName>,
    /// How long it is yours
    #[arg(long, value_name = "TIME", value_parser = duration)]
    lease: Option<Duration>,
    /// Wait until there is something
    #[arg(long, conflicts_with = "number")]
    wait: bool,
    /// With --wait: give up after this
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "wait")]
    timeout: Option<Duration>,
    /// Print the messages fenced as data, for a model's context
    #[arg(long)]
    for_model: bool,
    /// An id of your own: claiming again under it tells what it won
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
}

impl Answer for claim::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        if self.claims.is_empty() && self.returned.is_empty() && self.released.is_empty() {
            return writeln!(out, "claimed before, under this id; nothing of it is held any more");
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
        false => cx.ask(&mut office, input),
    };
    let answered = claimed.map_err(|error| tell_partial(cx, error))?;
    cx.ui.now = office.now()?;
    if args.for_model && !cx.ui.json {
        return cx.show_as(&mut office, answered, |answer| print_for_model(cx, answer));
    }
    cx.show(&mut office, answered)
}

/// A claim that came to nothing tells programs what became of it.
fn tell_partial(cx: &Cx, error: CommandError) -> CommandError {
    if cx.ui.json
        && let Some(partial) = &error.partial
        && let Err(unprinted) = cx.ui.value(partial)
    {
        return unprinted;
    }
    error
}

/// Tries whenever something could be claimed; another member of a group may be faster. What did not pass its gates went
/// back to its sender, and the wait goes on; but an id is for one claim, and what may not be run today would be claimed
/// again at once.
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
        let found = cx.wait(office, &interest, left, |office| match cx.ask(office, input.clone()) {
            Err(error) if error.code == Some(Code::NothingToClaim.word()) => Ok(None),
            claimed => claimed.map(Some),
        })?;
        let Some(mut answered) = found else {
            return Err(CommandError::new(Kind::TimedOut, "nothing came to claim in that time"));
        };
        let answer = &mut answered.answer;
        returned.append(&mut answer.returned);
        let goes_on =
            answer.claims.is_empty() && input.id.is_none() && answer.released.is_empty() && !returned.is_empty();
        if goes_on {
            notes::say(&cx.ui, &answered);
            continue;
        }
        answer.returned = returned;
        if answer.came_to_nothing() {
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
