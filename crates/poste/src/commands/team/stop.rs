use std::io::{self, Write};
use std::time::Duration;

use poste_core::text::{Name, RecordId};
use poste_dispatch::team::{Stopped, StoppedHow};
use poste_dispatch::verbs::team_stop;
use poste_verbs::Desk;

use super::poll;
use crate::cli::duration;
use crate::commands::SecretArgs;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Paint, Ui, escape};
use crate::{Result, notes};

/// Stop agents, by force if they do not stop in time
///
/// From now on nothing is started for them. Each agent gets a shutdown_request; it finishes or releases what it holds
/// and answers with a shutdown_response. If its run has ended, Poste answers for it. An agent that does not stop in
/// time is stopped by force, which is recorded, and what it held is pending again. Mail to stopped agents stays, and
/// its senders are notified. poste team up resumes them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste team stop coder --as lead\n  \
                        poste team stop --all --within 5m --reason 'Enough for today' --as lead\n  \
                        poste team stop coder --within 0s --force --as lead")]
pub(crate) struct Args {
    /// Agents to stop
    names: Vec<Name>,
    /// Stop every agent with a runner here, except yourself
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// How long they have to stop
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    within: Duration,
    /// Reason, for the agents and for senders that wait for them
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Stop agents after the timeout even if they refuse
    #[arg(long)]
    force: bool,
    /// Idempotency key: repeating the command with it resumes
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
    #[command(flatten)]
    secret: SecretArgs,
}

impl Answer for team_stop::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        ui.rows(out, &["AGENT", "IS", ""], self.stopped.iter().map(|stopped| row(ui, stopped)).collect())
    }
}

fn row(ui: &Ui, stopped: &Stopped) -> Vec<String> {
    let (paint, what) = match stopped.how {
        StoppedHow::Answered => (Paint::Good, "stopped on request"),
        StoppedHow::Finished => (Paint::Good, "stopped"),
        StoppedHow::Forced => (Paint::Attention, "ended by force"),
        StoppedHow::Refused => (Paint::Bad, "still running: it refused"),
        StoppedHow::Already => (Paint::Dim, "already stopped"),
        StoppedHow::Left => (Paint::Bad, "still running"),
    };
    let mut notes = Vec::new();
    notes.extend(stopped.request.map(|request| format!("request #{request}")));
    notes.extend(stopped.response.map(|response| format!("response #{response}")));
    if !stopped.returned.is_empty() {
        let numbers: Vec<String> = stopped.returned.iter().map(|number| format!("#{number}")).collect();
        notes.push(format!("released {}", numbers.join(" ")));
    }
    notes.extend(stopped.why.clone());
    vec![stopped.agent.to_string(), ui.paint(paint, what), escape::line(&notes.join("; ")).into_owned()]
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let Args { names, all, within, reason, force, id, secret } = args;
    let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    let input = team_stop::Input { names, all, within_ms, reason, force, id, secrets: secret.secrets(cx)? };
    let (mut office, answered) = cx.call_verb_here(input)?;
    notes::say(&cx.ui, &answered);
    let mut answer = answered.answer;
    let ui = cx.ui.clone();
    poll(cx, &mut office, |cx, office| {
        let caller = cx.caller(office);
        let polled = answer.stop.poll(&mut Desk::new(office, &caller, cx.host()), |what| ui.say(what));
        polled.map_err(|error| CommandError::of(&ui, error))?;
        Ok(answer.stop.is_over())
    })?;
    answer.stopped = answer.stop.stopped();
    cx.ui.answer(&answer)?;
    trouble(&answer.stopped)
}

fn trouble(stopped: &[Stopped]) -> Result {
    let of = |how: StoppedHow| stopped.iter().filter(move |one| one.how == how).map(|one| one.agent.as_str());
    let refused: Vec<&str> = of(StoppedHow::Refused).collect();
    if !refused.is_empty() {
        return Err(CommandError::new(Kind::Denied, format!("refused to stop: {}", refused.join(", ")))
            .hint("stop them anyway: poste team stop --force"));
    }
    let left: Vec<&str> = of(StoppedHow::Left).collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(CommandError::new(Kind::TimedOut, format!("still running: {}", left.join(", ")))
            .hint("nothing new is started for them; see where they run: poste team status")),
    }
}
