use std::io::{self, Write};
use std::time::Duration;

use poste_core::fold::Effect;
use poste_core::log::{Extend, Intent, MessageNo, Prolong};
use poste_core::office::Office;
use poste_core::pattern::Pattern;
use poste_core::{Timestamp, limits};
use schemars::JsonSchema;
use serde::Serialize;

use super::ClaimArgs;
use super::release::Target;
use super::reserve::{ReserveAnswer, ms};
use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui};

/// Keep a claimed message or reserved paths longer: the time counts anew from now
///
/// It is never cut. A number is a message. Anything else is a pattern that was reserved, or `all` of them. A file that is called like
/// a number is written ./12.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste extend 12 --lease 30m --as coder\n  poste extend 'src/auth/**' --for 2h\n  \
                        poste extend all"
)]
pub(crate) struct Args {
    /// The message's number; or patterns as they were reserved, or `all`
    #[arg(required = true, value_name = "N|PATTERN")]
    what: Vec<String>,
    /// Of a message: how long from now
    #[arg(long, value_name = "TIME", value_parser = duration)]
    lease: Option<Duration>,
    /// Of paths: how long from now; otherwise 1h
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with = "lease")]
    length: Option<Duration>,
    /// Of paths: every character means itself
    #[arg(long)]
    literal: bool,
    #[command(flatten)]
    claim: ClaimArgs,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExtendAnswer {
    pub number: MessageNo,
    /// Null when it was extended before, under the same id.
    #[serde(serialize_with = "poste_core::time::rfc3339_option")]
    pub lease_until: Option<Timestamp>,
}

impl Answer for ExtendAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        match self.lease_until {
            Some(until) => writeln!(out, "#{} extended: lease ends {}", self.number, ui.time(until)),
            None => writeln!(out, "#{} extended before, under this id", self.number),
        }
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open_to_write()?;
    match Target::read(cx, &office, &args.what, args.literal)? {
        Target::Message(number) => extend_message(cx, &mut office, number, args),
        Target::Paths(patterns) => extend_paths(cx, &mut office, patterns, args),
    }
}

fn extend_message(cx: &Cx, office: &mut Office, number: MessageNo, args: Args) -> Result {
    if args.length.is_some() {
        return Err(CommandError::usage("--for is for reserved paths").hint("a message is kept with --lease TIME"));
    }
    let lease_ms = args.lease.map(ms);
    let intent = Intent::Extend(Extend { message: number, token: args.claim.token, lease_ms });
    let proposal = cx.proposal(office, intent, None, args.claim.id)?;
    let (_, effect) = cx.decide(office, &proposal)?;
    let lease_until = match effect {
        Effect::Claimed(claimed) => claimed.items.first().map(|item| item.lease_until),
        Effect::Noted => None,
        _ => return Err(CommandError::new(Kind::Internal, "the office took it for something else")),
    };
    cx.ui.answer(&ExtendAnswer { number, lease_until })
}

fn extend_paths(cx: &Cx, office: &mut Office, patterns: Vec<Pattern>, args: Args) -> Result {
    if args.lease.is_some() || args.claim.token.is_some() {
        let error = CommandError::usage("--lease and --token are for messages");
        return Err(error.hint("paths are kept with --for TIME"));
    }
    let for_ms = args.length.map_or(limits::RESERVATION_MS_DEFAULT, ms);
    let proposal = cx.proposal(office, Intent::Prolong(Prolong { patterns, for_ms }), None, args.claim.id)?;
    let (outcome, effect) = cx.decide(office, &proposal)?;
    cx.ui.answer(&ReserveAnswer::of(outcome, effect)?)
}
