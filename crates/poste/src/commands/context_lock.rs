//! Locks of shared contexts: taking one, letting go, breaking one, and waiting for one.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use poste_core::fold::{Code, Effect, Locked, Outcome};
use poste_core::log::{Content, ContextLock, ContextUnlock, Intent, Proposal, Send};
use poste_core::office::Office;
use poste_core::text::{ContextName, RecordId};
use poste_core::{Address, MessageNo, views};
use schemars::JsonSchema;
use serde::Serialize;

use super::{SecretArgs, context, said};
use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui};

/// What every command takes that a lock can stop.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct WaitArgs {
    /// How long to wait while somebody else has locked it; 0 for not at all
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = patience)]
    pub wait: Duration,
}

/// A length of time, or 0 for none.
fn patience(text: &str) -> std::result::Result<Duration, String> {
    match text {
        "0" => Ok(Duration::ZERO),
        text => duration(text),
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct LockArgs {
    /// The context's name
    name: ContextName,
    /// For how long; taking it again prolongs it
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = duration)]
    length: Duration,
    #[command(flatten)]
    wait: WaitArgs,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct UnlockArgs {
    /// The context's name
    name: ContextName,
    /// Although somebody else has locked it; they are told
    #[arg(long, requires = "reason")]
    force: bool,
    /// With --force: why
    #[arg(long, value_name = "TEXT", requires = "force")]
    reason: Option<String>,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LockAnswer {
    #[serde(flatten)]
    pub locked: Locked,
    /// It was locked before under this id; there is no second effect.
    pub repeat: bool,
}

impl Answer for LockAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let Locked { context, token, until } = &self.locked;
        let again = if self.repeat { " (before, under this id)" } else { "" };
        writeln!(out, "{context} is locked until {until} ({}), token {token}{again}", ui.time(*until))
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UnlockAnswer {
    pub context: ContextName,
    /// The message that told the holder, when the lock was broken.
    pub told: Option<MessageNo>,
    /// It was unlocked before under this id; there is no second effect.
    pub repeat: bool,
}

impl Answer for UnlockAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (before, under this id)" } else { "" };
        match self.told {
            Some(number) => writeln!(out, "{} is unlocked; its holder is told with #{number}{again}", self.context),
            None => writeln!(out, "{} is unlocked{again}", self.context),
        }
    }
}

pub(crate) fn lock(cx: &mut Cx, args: LockArgs) -> Result {
    let mut office = cx.open_to_write()?;
    let for_ms = i64::try_from(args.length.as_millis()).unwrap_or(i64::MAX);
    let intent = Intent::ContextLock(ContextLock { name: args.name.clone(), for_ms });
    let proposal = cx.proposal(&office, intent, None, args.id)?;
    let (outcome, effect) = decide_patiently(cx, &mut office, &args.name, &proposal, args.wait)?;
    let Effect::Locked(locked) = effect else {
        return Err(CommandError::new(Kind::Internal, "the office took the lock for something else"));
    };
    cx.ui.answer(&LockAnswer { locked, repeat: outcome.repeat })?;
    context::follow_mirror(cx, &office, &args.name);
    Ok(())
}

pub(crate) fn unlock(cx: &mut Cx, args: UnlockArgs) -> Result {
    let mut office = cx.open_to_write()?;
    let id = args.id.unwrap_or_else(|| cx.new_id());
    let reason = match args.reason {
        Some(reason) => Some(broken(cx, &args.name, said("--reason", &reason)?, args.secret)?),
        None => None,
    };
    // Whoever breaks a lock names its holder. It may have changed hands since that was looked up.
    const TRIES_MAX: usize = 8;
    for attempt in 1.. {
        let holder = views::context_lock(office.store(), &args.name)?.map(|lock| lock.holder);
        let mail = match (&reason, told_before(&office, &id)?, holder) {
            (Some(_), Some(before), _) => Some(before),
            (Some(_), None, Some(holder)) => Some(Send::plain("alert".parse()?, vec![Address::Agent(holder)])),
            _ => None,
        };
        let content = reason.clone().filter(|_| mail.is_some());
        let intent = Intent::ContextUnlock(ContextUnlock { name: args.name.clone(), mail });
        let proposal = cx.proposal(&office, intent, content, Some(id.clone()))?;
        match cx.decide(&mut office, &proposal) {
            Ok((outcome, effect)) => {
                let answer = UnlockAnswer { context: args.name, told: effect.message(), repeat: outcome.repeat };
                return cx.ui.answer(&answer);
            }
            Err(error) if reason.is_some() && is(&error, Code::ContextLocked) && attempt < TRIES_MAX => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("the last try returns")
}

/// The mail of the lock that was broken under an id. Repeating it tells the same holder, whoever has a lock by now.
fn told_before(office: &Office, id: &RecordId) -> Result<Option<Send>> {
    let tables = office.store().tables()?;
    let Some(known) = tables.id(id)? else { return Ok(None) };
    let intent = tables.record(known.position)?.and_then(|record| record.sealed.intent().ok().flatten());
    Ok(match intent {
        Some(Intent::ContextUnlock(unlock)) => unlock.mail,
        _ => None,
    })
}

/// What the holder of a broken lock is told.
fn broken(cx: &Cx, name: &ContextName, reason: &str, secret: SecretArgs) -> Result<Content> {
    let subject = format!("{} broke your lock of context {name}", cx.speaker()?);
    let content = Content { subject, ..secret.text("reason", reason)? };
    secret.check_as(&content, "reason")?;
    Ok(content)
}

fn is(error: &CommandError, code: Code) -> bool {
    error.code == Some(code.word())
}

/// Proposes what a lock may stop, and waits for the lock as long as it is asked to.
pub(crate) fn decide_patiently(
    cx: &Cx,
    office: &mut Office,
    name: &ContextName,
    proposal: &Proposal,
    patience: WaitArgs,
) -> Result<(Outcome, Effect)> {
    let deadline = Instant::now() + patience.wait;
    loop {
        let stopped = match cx.decide(office, proposal) {
            Err(error) if is(&error, Code::ContextLocked) && !patience.wait.is_zero() => error,
            decided => return decided,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let mut late = CommandError::new(Kind::TimedOut, format!("waited in vain: {}", stopped.message));
            late.code = stopped.code;
            return Err(stopped.hints().iter().fold(late, |late, hint| late.hint(hint)));
        }
        cx.ui.say(format!("waiting: {}", stopped.message));
        let held = views::context_lock(office.store(), name)?.map(|lock| lock.token);
        office.wait_for(Some(left), |office| {
            let now = views::context_lock(office.store(), name)?.map(|lock| lock.token);
            Ok((now.is_none() || now != held).then_some(()))
        })?;
    }
}
