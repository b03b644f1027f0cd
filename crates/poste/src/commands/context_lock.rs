//! Locks of shared contexts: locking, unlocking, breaking a lock, and waiting for one.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use poste_core::fold::{Code, Locked};
use poste_core::office::Office;
use poste_core::store::tables::Concern;
use poste_core::text::{ContextName, RecordId};
use poste_core::views;
use poste_verbs::Error;
use poste_verbs::context::{lock, unlock};

use super::WriteArgs;
use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::error::Kind;
use crate::ui::{Answer, Ui};

/// Arguments of every command that a lock can block.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct WaitArgs {
    /// How long to wait for another agent's lock; 0 to not wait
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = patience)]
    pub wait: Duration,
}

/// A duration, or 0 for none.
fn patience(text: &str) -> std::result::Result<Duration, String> {
    match text {
        "0" => Ok(Duration::ZERO),
        text => duration(text),
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct LockArgs {
    /// Context name
    name: ContextName,
    /// Length of the lock; locking again extends it
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = duration)]
    length: Duration,
    #[command(flatten)]
    wait: WaitArgs,
    /// Idempotency key: repeating the command with it is safe
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct UnlockArgs {
    /// Context name
    name: ContextName,
    /// Break another agent's lock; the holder is notified
    #[arg(long, requires = "reason")]
    force: bool,
    /// With --force: reason for the holder
    #[arg(long, value_name = "TEXT", requires = "force")]
    reason: Option<String>,
    #[command(flatten)]
    write: WriteArgs,
}

impl Answer for lock::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let Locked { context, token, until } = &self.locked;
        let again = if self.repeat { " (already done under this id)" } else { "" };
        writeln!(out, "{context} is locked until {until} ({}), token {token}{again}", ui.time(*until))
    }
}

impl Answer for unlock::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (already done under this id)" } else { "" };
        match self.told {
            Some(number) => {
                writeln!(out, "{} is unlocked; its holder was notified with #{number}{again}", self.context)
            }
            None => writeln!(out, "{} is unlocked{again}", self.context),
        }
    }
}

pub(crate) fn lock(cx: &mut Cx, args: LockArgs) -> Result {
    let for_ms = Some(i64::try_from(args.length.as_millis()).unwrap_or(i64::MAX));
    let input = lock::Input { name: args.name, for_ms, id: args.id };
    let mut office = cx.open_to_write()?;
    let answered =
        args.wait.retry_while_locked(cx, &mut office, &input.name, |office| cx.call_verb(office, input.clone()))?;
    cx.ui.now = office.now()?;
    cx.show(&mut office, answered)
}

pub(crate) fn unlock(cx: &mut Cx, args: UnlockArgs) -> Result {
    cx.call(unlock::Input {
        name: args.name,
        reason: args.reason,
        id: args.write.id,
        secrets: args.write.secret.secrets(cx)?,
    })
}

impl WaitArgs {
    /// Runs `work`, and runs it again after each change of the lock that blocks it, until the wait is over.
    pub(crate) fn retry_while_locked<T>(
        self,
        cx: &Cx,
        office: &mut Office,
        name: &ContextName,
        mut work: impl FnMut(&mut Office) -> Result<T>,
    ) -> Result<T> {
        let deadline = Instant::now() + self.wait;
        loop {
            let stopped = match work(office) {
                Err(error) if error.code == Some(Code::ContextLocked.word()) && !self.wait.is_zero() => error,
                worked => return worked,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let message = format!("timed out: {}", stopped.message);
                let stopped = stopped.into_inner();
                return Err(Error { kind: Kind::TimedOut, message, wording: None, ..stopped }.into());
            }
            cx.ui.say(format!("waiting: {}", stopped.message));
            let held = views::context_lock(office.store(), name)?.map(|lock| lock.token);
            cx.wait_for(office, &Concern::Context(name.clone()).into(), Some(left), |office| {
                let now = views::context_lock(office.store(), name)?.map(|lock| lock.token);
                Ok((now.is_none() || now != held).then_some(()))
            })?;
        }
    }
}
