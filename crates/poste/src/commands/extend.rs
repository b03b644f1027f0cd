use std::io::{self, Write};
use std::time::Duration;

use poste_core::Timestamp;
use poste_core::fold::Effect;
use poste_core::log::{Extend, Intent, MessageNo};
use schemars::JsonSchema;
use serde::Serialize;

use super::ClaimArgs;
use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui};

/// Keep a claimed message longer: the lease counts anew from now
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste extend 12 --lease 30m --as coder")]
pub(crate) struct Args {
    /// The message's number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// How long from now
    #[arg(long, value_name = "TIME", value_parser = duration)]
    lease: Option<Duration>,
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
    let lease_ms = args.lease.map(|lease| i64::try_from(lease.as_millis()).unwrap_or(i64::MAX));
    let intent = Intent::Extend(Extend { message: args.number, token: args.claim.token, lease_ms });
    let proposal = cx.proposal(&office, intent, None, args.claim.id)?;
    let (_, effect) = cx.decide(&mut office, &proposal)?;
    let lease_until = match effect {
        Effect::Claimed(claimed) => claimed.items.first().map(|item| item.lease_until),
        Effect::Noted => None,
        _ => return Err(CommandError::new(Kind::Internal, "the office took it for something else")),
    };
    cx.ui.answer(&ExtendAnswer { number: args.number, lease_until })
}
