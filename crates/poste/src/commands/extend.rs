use std::io::{self, Write};
use std::time::Duration;

use poste_core::log::MessageNo;
use poste_verbs::extend;
use poste_verbs::reservation::extend as paths;

use super::ClaimArgs;
use super::release::{message, patterns};
use super::reserve::ms;
use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::{Answer, Ui};

/// Extend the lease of a message or of reserved paths
///
/// The time counts from now and never shortens a lease. A number is a message; anything else is a reserved pattern, or
/// `all` for all of them. Write a file that is named like a number as ./12.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste extend 12 --lease 30m --as coder\n  poste extend 'src/auth/**' --for 2h\n  \
                        poste extend all"
)]
pub(crate) struct Args {
    /// Message number; or patterns as they were reserved, or `all`
    #[arg(required = true, value_name = "N|PATTERN")]
    what: Vec<String>,
    /// For a message: time from now
    #[arg(long, value_name = "TIME", value_parser = duration)]
    lease: Option<Duration>,
    /// For paths: time from now; otherwise 1h
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with = "lease")]
    length: Option<Duration>,
    /// For paths: take every character literally
    #[arg(long)]
    literal: bool,
    #[command(flatten)]
    claim: ClaimArgs,
}

impl Answer for extend::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        match self.lease_until {
            Some(until) => writeln!(out, "#{} extended: lease ends {}", self.number, ui.time(until)),
            None => writeln!(out, "#{} already extended under this id", self.number),
        }
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match message(&args.what) {
        Some(number) => extend_message(cx, number, args),
        None => extend_paths(cx, args),
    }
}

fn extend_message(cx: &mut Cx, number: MessageNo, args: Args) -> Result {
    if args.length.is_some() {
        return Err(CommandError::usage("--for is for reserved paths").hint("to extend a message, use --lease TIME"));
    }
    let ClaimArgs { token, id } = args.claim;
    cx.call(extend::Input { number, lease_ms: args.lease.map(ms), token, id })
}

fn extend_paths(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.office()?;
    let patterns = patterns(cx, &office, &args.what, args.literal)?;
    if args.lease.is_some() || args.claim.token.is_some() {
        let error = CommandError::usage("--lease and --token are for messages");
        return Err(error.hint("to extend paths, use --for TIME"));
    }
    cx.call_on(&mut office, paths::Input { patterns, for_ms: args.length.map(ms), id: args.claim.id })
}
