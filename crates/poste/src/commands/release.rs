use std::io::{self, Write};

use poste_connect::paths::Top;
use poste_core::log::MessageNo;
use poste_core::pattern::Pattern;
use poste_core::text::Name;
use poste_verbs::release;
use poste_verbs::reservation::release as paths;

use super::{ClaimArgs, SecretArgs};
use crate::Result;
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::{Answer, Ui, escape};

/// Release a claimed message or reserved paths
///
/// A number is a message: it is pending again, and no attempt is counted. Anything else is a reserved pattern, or `all`
/// for all of them. Write a file whose name is a number as ./12.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste release 12 --as coder\n  poste release 'src/auth/**'\n  poste release all\n  \
                        poste release all --of coder --reason 'it has crashed' --as anna"
)]
pub(crate) struct Args {
    /// Message number; or patterns as they were reserved, or `all`
    #[arg(required = true, value_name = "N|PATTERN")]
    what: Vec<String>,
    /// For paths: agent that holds them, which is notified; only for its lead and for humans
    #[arg(long, value_name = "NAME", conflicts_with = "token", requires = "reason")]
    of: Option<Name>,
    /// With --of: reason for the release
    #[arg(long, value_name = "TEXT", requires = "of")]
    reason: Option<String>,
    /// For paths: take every character literally
    #[arg(long)]
    literal: bool,
    #[command(flatten)]
    claim: ClaimArgs,
    #[command(flatten)]
    secret: SecretArgs,
}

/// The message number, unless the arguments are patterns.
pub(crate) fn message(what: &[String]) -> Option<MessageNo> {
    match what {
        [one] => crate::cli::number(one).ok(),
        _ => None,
    }
}

/// The patterns to release; an empty list means all of them.
pub(crate) fn patterns(cx: &Cx, office: &poste_core::Office, what: &[String], literal: bool) -> Result<Vec<Pattern>> {
    match what {
        [all] if all == "all" && !literal => Ok(Vec::new()),
        several => {
            let stands_alone = |text: &&String| crate::cli::number(text).is_ok() || *text == "all";
            if let Some(odd) = several.iter().find(stands_alone) {
                let message = format!("{odd} cannot be combined with others");
                return Err(CommandError::usage(message).hint(format!("if it is a file: ./{odd}")));
            }
            let top = Top::find(cx.cwd()?, office)?;
            Ok(top.patterns(several, literal)?)
        }
    }
}

impl Answer for paths::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (already done under this id)" } else { "" };
        for held in &self.released {
            writeln!(out, "released {}{again}", escape::line(held.pattern.as_str()))?;
        }
        if let Some(number) = self.told {
            writeln!(out, "its holder was notified with #{number}{again}")?;
        }
        Ok(())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let ClaimArgs { token, id } = args.claim;
    match message(&args.what) {
        Some(_) if args.of.is_some() => Err(CommandError::usage("--of is for reserved paths, not for messages")),
        Some(number) => cx.call(release::Input { number, token, id }),
        None => {
            let mut office = cx.office()?;
            let patterns = patterns(cx, &office, &args.what, args.literal)?;
            if token.is_some() {
                return Err(CommandError::usage("--token is for messages, not for reserved paths"));
            }
            let secrets = args.secret.secrets(cx)?;
            cx.call_on(&mut office, paths::Input { patterns, of: args.of, reason: args.reason, id, secrets })
        }
    }
}
