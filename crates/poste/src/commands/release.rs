use std::io::{self, Write};

use poste_core::Address;
use poste_core::fold::{Effect, Reserved};
use poste_core::log::{Content, Intent, MessageNo, Position, Release, Send, Unreserve};
use poste_core::pattern::Pattern;
use poste_core::text::Name;
use schemars::JsonSchema;
use serde::Serialize;

use super::reserve::{one_line, shortened};
use super::{Changed, ClaimArgs, SecretArgs, said};
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
                        poste release all --of coder --reason 'it has crashed' --as anna"
)]
pub(crate) struct Args {
    /// The message's number; or patterns as they were reserved, or `all`
    #[arg(required = true, value_name = "N|PATTERN")]
    what: Vec<String>,
    /// Of paths: what this agent reserved; for its lead and for humans. It is told
    #[arg(long, value_name = "NAME", conflicts_with = "token", requires = "reason")]
    of: Option<Name>,
    /// With --of: why
    #[arg(long, value_name = "TEXT", requires = "of")]
    reason: Option<String>,
    /// Of paths: every character means itself
    #[arg(long)]
    literal: bool,
    #[command(flatten)]
    claim: ClaimArgs,
    #[command(flatten)]
    secret: SecretArgs,
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
    /// The message that told the holder, if it is another one.
    pub told: Option<MessageNo>,
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
        if let Some(number) = self.told {
            writeln!(out, "its holder is told with #{number}{again}")?;
        }
        Ok(())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open_to_write()?;
    let mut content = None;
    let intent = match Target::read(cx, &office, &args.what, args.literal)? {
        Target::Message(_) if args.of.is_some() => {
            return Err(CommandError::usage("--of is for reserved paths, not for messages"));
        }
        Target::Message(message) => Intent::Release(Release { message, token: args.claim.token }),
        Target::Paths(_) if args.claim.token.is_some() => {
            return Err(CommandError::usage("--token is for messages, not for reserved paths"));
        }
        Target::Paths(patterns) => {
            let other = args.of.clone().filter(|holder| cx.speaker().is_ok_and(|speaker| speaker != *holder));
            let mail = match other {
                Some(holder) => Some(Send::plain("alert".parse()?, vec![Address::Agent(holder)])),
                None => None,
            };
            if let (Some(_), Some(reason)) = (&mail, &args.reason) {
                content = Some(freed(cx, &patterns, said("--reason", reason)?, args.secret)?);
            }
            Intent::Unreserve(Unreserve { patterns, holder: args.of, mail })
        }
    };
    let message = match &intent {
        Intent::Release(release) => Some(release.message),
        _ => None,
    };
    let proposal = cx.proposal(&office, intent, content, args.claim.id)?;
    let (outcome, effect) = cx.decide(&mut office, &proposal)?;
    match (message, effect) {
        (Some(number), _) => {
            let what = "released, pending again".to_owned();
            cx.ui.answer(&Changed { number, position: outcome.position, what, repeat: outcome.repeat })
        }
        (None, Effect::Reserved(released)) => {
            cx.ui.answer(&ReleaseAnswer { released, told: None, position: outcome.position, repeat: outcome.repeat })
        }
        (None, Effect::Freed { released, message }) => {
            let (position, repeat) = (outcome.position, outcome.repeat);
            cx.ui.answer(&ReleaseAnswer { released, told: Some(message), position, repeat })
        }
        _ => Err(CommandError::new(Kind::Internal, "the office took it for something else")),
    }
}

/// What the holder is told whose paths another one freed.
fn freed(cx: &Cx, patterns: &[Pattern], reason: &str, secret: SecretArgs) -> Result<Content> {
    let which = match patterns {
        [] => "all that you reserved".to_owned(),
        some => some.iter().map(|pattern| one_line(pattern.as_str())).collect::<Vec<_>>().join(" "),
    };
    let subject = shortened(&format!("{} freed {which}", cx.speaker()?));
    let content = Content { subject, ..secret.text("reason", reason)? };
    secret.check_as(&content, "reason")?;
    Ok(content)
}
