use std::io::{self, Write};

use poste_core::fold::{Effect, Reserved};
use poste_core::log::{Intent, MessageNo, Position, Release, Unreserve};
use poste_core::pattern::Pattern;
use poste_core::text::Name;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Changed, ClaimArgs};
use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::paths::Top;
use crate::ui::{Answer, Ui, escape};

/// Give back a claimed message, or free reserved paths
///
/// A number is a message: it is pending again, unfinished, and no attempt is counted. Anything else is a pattern that
/// was reserved, or `all` of them. A file that is called like a number is written ./12.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste release 12 --as coder\n  poste release 'src/auth/**'\n  poste release all\n  \
                        poste release all --of coder --as anna"
)]
pub(crate) struct Args {
    /// The message's number; or patterns as they were reserved, or `all`
    #[arg(required = true, value_name = "N|PATTERN")]
    what: Vec<String>,
    /// Of paths: what this agent reserved; for its lead and for humans
    #[arg(long, value_name = "NAME", conflicts_with = "token")]
    of: Option<Name>,
    /// Of paths: every character means itself
    #[arg(long)]
    literal: bool,
    #[command(flatten)]
    claim: ClaimArgs,
}

/// What a command speaks of that takes either.
#[derive(Debug)]
pub(crate) enum Target {
    Message(MessageNo),
    /// None: all of them.
    Paths(Vec<Pattern>),
}

impl Target {
    pub(crate) fn read(cx: &Cx, office: &poste_core::Office, what: &[String], literal: bool) -> Result<Self> {
        let number = |text: &String| crate::cli::number(text).ok();
        match what {
            [one] if number(one).is_some() => Ok(Self::Message(number(one).unwrap_or_default())),
            [all] if all == "all" && !literal => Ok(Self::Paths(Vec::new())),
            several => {
                if let Some(odd) = several.iter().find(|text| number(text).is_some() || *text == "all") {
                    let message = format!("{odd} stands alone, not among several");
                    return Err(CommandError::usage(message).hint(format!("if it is a file: ./{odd}")));
                }
                let top = Top::find(cx, office)?;
                Ok(Self::Paths(several.iter().map(|typed| top.pattern(typed, literal)).collect::<Result<_>>()?))
            }
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReleaseAnswer {
    /// What is free again.
    pub released: Vec<Reserved>,
    /// The record that did it.
    pub position: Option<Position>,
    /// The same was done before, under the same id.
    pub repeat: bool,
}

impl Answer for ReleaseAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (before, under this id)" } else { "" };
        for held in &self.released {
            writeln!(out, "released {}{again}", escape::line(held.pattern.as_str()))?;
        }
        Ok(())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open_to_write()?;
    let intent = match Target::read(cx, &office, &args.what, args.literal)? {
        Target::Message(_) if args.of.is_some() => {
            return Err(CommandError::usage("--of is for reserved paths, not for messages"));
        }
        Target::Message(message) => Intent::Release(Release { message, token: args.claim.token }),
        Target::Paths(_) if args.claim.token.is_some() => {
            return Err(CommandError::usage("--token is for messages, not for reserved paths"));
        }
        Target::Paths(patterns) => Intent::Unreserve(Unreserve { patterns, holder: args.of }),
    };
    let message = match &intent {
        Intent::Release(release) => Some(release.message),
        _ => None,
    };
    let proposal = cx.proposal(&office, intent, None, args.claim.id)?;
    let (outcome, effect) = cx.decide(&mut office, &proposal)?;
    match (message, effect) {
        (Some(number), _) => {
            let what = "released, pending again".to_owned();
            cx.ui.answer(&Changed { number, position: outcome.position, what, repeat: outcome.repeat })
        }
        (None, Effect::Reserved(released)) => {
            cx.ui.answer(&ReleaseAnswer { released, position: outcome.position, repeat: outcome.repeat })
        }
        _ => Err(CommandError::new(Kind::Internal, "the office took it for something else")),
    }
}
