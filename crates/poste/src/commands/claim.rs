use std::io::{self, Write};
use std::time::{Duration, Instant};

use poste_core::fold::{Claimed, Code, Effect, Verdict};
use poste_core::gates::{Gates, Report};
use poste_core::log::{Claim, Intent, MessageNo, Position};
use poste_core::office::Office;
use poste_core::store::tables::Agent;
use poste_core::text::{RecordId, TypeName};
use poste_core::views::{self, MessageView};
use poste_core::{Timestamp, config, limits};
use schemars::JsonSchema;
use serde::Serialize;

use super::read;
use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::explain::check_filters;
use crate::gates;
use crate::ui::{Answer, Ui};

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

impl Args {
    /// Whether it blocks until something happens.
    pub(crate) fn waits(&self) -> bool {
        self.wait
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClaimAnswer {
    /// Give it to done, fail, release, extend.
    pub token: Position,
    pub claims: Vec<ClaimView>,
    /// What went back to its sender instead, and what its gates found.
    pub returned: Vec<Report>,
    /// What was released again, because its gates run commands of a poste.toml that is not trusted here.
    pub released: Vec<MessageNo>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClaimView {
    #[serde(serialize_with = "poste_core::time::rfc3339")]
    pub lease_until: Timestamp,
    pub message: MessageView,
}

impl Answer for ClaimAnswer {
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
    let mut office = cx.open_to_write()?;
    for kind in &args.types {
        check_filters(&office, Some(kind), None)?;
    }
    let types = args.types.clone();
    let lease_ms = args.lease.map(|lease| i64::try_from(lease.as_millis()).unwrap_or(i64::MAX));
    let intent = Intent::Claim(Claim { message: args.number, max: args.max, lease_ms, types: args.types });
    let deadline = args.timeout.map(|timeout| Instant::now() + timeout);
    let (mut returned, mut released) = (Vec::new(), Vec::new());
    let claimed = loop {
        // Read before the claim: a file that cannot be read must not leave anything claimed.
        let gates = office.gates()?;
        if !is_known(&office, args.id.as_ref())? {
            check_trust(&office, &gates, args.number, &types)?;
        }
        let claimed = if args.wait {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            wait(cx, &mut office, intent.clone(), &types, args.id.clone(), left)?
        } else {
            let proposal = cx.proposal(&office, intent.clone(), None, args.id.clone())?;
            let (_, effect) = cx.decide(&mut office, &proposal)?;
            expect_claimed(effect)?
        };
        let token = claimed.token;
        let gated = gates::of_claim(cx, &mut office, &gates, claimed, lease_ms);
        let gated = gated.map_err(|error| ungated(token, error))?;
        gated.returned.iter().for_each(|report| say_returned(cx, report));
        returned.extend(gated.returned);
        released.extend(gated.released);
        // An id is for one claim. And what may not be run today would be claimed again at once.
        let goes_on = args.wait && args.id.is_none() && released.is_empty() && !returned.is_empty();
        if !gated.claimed.items.is_empty() || !goes_on {
            break gated.claimed;
        }
    };
    let token = claimed.token;
    let answer = view(cx, &office, claimed, returned, released).map_err(|error| stands(token, &error))?;
    if answer.claims.is_empty() && !(answer.returned.is_empty() && answer.released.is_empty()) {
        return nothing_left(cx, &office, &answer);
    }
    for number in &answer.released {
        cx.ui.warn(format!("#{number} is released again: {} is not trusted here (poste trust)", config::FILE));
    }
    let numbers: Vec<MessageNo> = answer.claims.iter().map(|claim| claim.message.number).collect();
    if args.for_model && !cx.ui.json {
        print_for_model(cx, &answer)?;
    } else {
        cx.ui.answer(&answer)?;
    }
    cx.mark_shown(&mut office, numbers)?;
    if let Some(claim) = answer.claims.first() {
        cx.ui.say(next_step(&office, &claim.message, token)?);
    }
    Ok(())
}

/// How what was claimed is brought to its end.
fn next_step(office: &Office, message: &MessageView, token: Position) -> Result<String> {
    let number = message.number;
    let tables = office.store().tables()?;
    Ok(if tables.handoff(number)?.is_some() {
        format!("take it over: poste handoff accept {number} --token {token}")
    } else if tables.approval(number)?.is_some_and(|approval| approval.is_open()) {
        format!("decide it: poste approve {number}, or poste deny {number} --reason TEXT")
    } else if message.kind.as_str() == "interface_contract" {
        format!("if you agree: poste agree {number}; otherwise say why: poste reply {number} TEXT")
    } else {
        format!("finish it: poste done {number} --token {token} --summary TEXT")
    })
}

/// Whether a claim was made under this id before.
fn is_known(office: &Office, id: Option<&RecordId>) -> Result<bool> {
    let known = id.map(|id| views::why_id(office.store(), id)).transpose()?;
    Ok(known.is_some_and(|known| known.position.is_some()))
}

/// Where it is known beforehand that a gate may not be run, nothing is claimed at all.
fn check_trust(office: &Office, gates: &Gates, number: Option<MessageNo>, types: &[TypeName]) -> Result {
    let (what, blocked) = match number {
        Some(number) => {
            let message = views::message(office.store(), number)?;
            let own = message.map(|message| gates.untrusted(&gates.of_message(&message))).unwrap_or_default();
            (format!("message {number} was not claimed"), own)
        }
        None => ("nothing was claimed".to_owned(), gates.untrusted(&gates.of_all(types))),
    };
    if blocked.is_empty() { Ok(()) } else { Err(gates::untrusted(&what, &blocked)) }
}

fn say_returned(cx: &Cx, report: &Report) {
    cx.ui.warn(format!("#{} went back to its sender: {}", report.number, report.summary()));
}

/// The claim came to nothing; what became of it is told.
fn nothing_left(cx: &Cx, office: &Office, answer: &ClaimAnswer) -> Result {
    if cx.ui.json {
        cx.ui.answer(answer)?;
    }
    if let Some(number) = answer.released.first() {
        let gates = office.gates()?;
        let message = views::message(office.store(), *number)?;
        let blocked = message.map(|message| gates.untrusted(&gates.of_message(&message))).unwrap_or_default();
        return Err(gates::untrusted(&format!("message {number} was claimed and released again"), &blocked));
    }
    let numbers: Vec<String> = answer.returned.iter().map(|report| report.number.to_string()).collect();
    let first = numbers.first().cloned().unwrap_or_default();
    let message = match numbers.as_slice() {
        [number] => format!("message {number} did not pass its gates and went back to its sender"),
        numbers => format!("messages {} did not pass their gates and went back to their senders", numbers.join(", ")),
    };
    Err(CommandError::new(Kind::Refused, message)
        .code("gate_failed")
        .hint(format!("see what they found: poste track {first}")))
}

/// The claim is committed, and its gates could not be run to their end.
fn ungated(token: Position, error: CommandError) -> CommandError {
    let hint = format!("what it claimed with token {token} is held until its lease ends, or released: poste release N");
    error.hint(hint)
}

/// Tries whenever something could be claimed; another member of a group may be faster.
fn wait(
    cx: &Cx,
    office: &mut Office,
    intent: Intent,
    types: &[TypeName],
    id: Option<RecordId>,
    timeout: Option<Duration>,
) -> Result<Claimed> {
    let name = cx.active_agent(office)?.name;
    if let Some(id) = id.as_ref()
        && views::why_id(office.store(), id)?.position.is_some()
    {
        // Claimed before, under this id: tell what it won instead of waiting for more.
        let proposal = cx.proposal_as(office, name, intent, None, Some(id.clone()));
        return cx.decide(office, &proposal).and_then(|(_, effect)| expect_claimed(effect));
    }
    let found = office.wait_for(timeout, |office| {
        // Asked anew each time: a role may come or go while it waits.
        let Some(agent) = office.agent(&name)?.filter(Agent::is_active) else { return Ok(Some(None)) };
        if !views::has_claimable(office.store(), &agent, types)? {
            return Ok(None);
        }
        let proposal = cx.proposal_as(office, name.clone(), intent.clone(), None, id.clone());
        match cx.propose(office, &proposal)?.verdict {
            Verdict::Rejected(rejection) if rejection.code == Code::NothingToClaim => Ok(None),
            verdict => Ok(Some(Some(verdict))),
        }
    })?;
    match found {
        Some(Some(verdict)) => expect_claimed(verdict.accepted()?),
        Some(None) => Err(cx.active_agent(office).err().unwrap_or_else(|| CommandError::usage("the agent is gone"))),
        None => Err(CommandError::new(Kind::TimedOut, "nothing came to claim in that time")),
    }
}

fn expect_claimed(effect: Effect) -> Result<Claimed> {
    match effect {
        Effect::Claimed(claimed) => Ok(claimed),
        _ => Err(CommandError::new(Kind::Internal, "the office took the claim for something else")),
    }
}

/// The claim is committed: what fails afterwards must not read as if it had not been.
fn stands(token: Position, error: &CommandError) -> CommandError {
    let message = format!("claimed with token {token}, but it cannot be shown: {}", error.message);
    CommandError::new(Kind::UnknownOutcome, message).hint(format!("the claim stands; see it: poste log show {token}"))
}

fn view(
    cx: &mut Cx,
    office: &Office,
    claimed: Claimed,
    returned: Vec<Report>,
    released: Vec<MessageNo>,
) -> Result<ClaimAnswer> {
    cx.ui.now = office.now()?;
    let mut claims = Vec::new();
    for item in claimed.items {
        let message = views::message(office.store(), item.number)?
            .ok_or_else(|| CommandError::new(Kind::Internal, "a claimed message is not there"))?;
        claims.push(ClaimView { lease_until: item.lease_until, message });
    }
    Ok(ClaimAnswer { token: claimed.token, claims, returned, released })
}

fn print_for_model(cx: &Cx, answer: &ClaimAnswer) -> Result {
    let mut out = cx.ui.out();
    for claim in &answer.claims {
        writeln!(out, "{}", read::fenced(cx, &claim.message))?;
        let (number, token) = (claim.message.number, answer.token);
        writeln!(out, "claimed #{number}: token {token}, lease ends {}", claim.lease_until)?;
    }
    out.flush()?;
    Ok(())
}
