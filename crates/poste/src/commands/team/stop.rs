use std::io::{self, Write};
use std::time::Duration;

use poste_core::limits;
use poste_core::text::Name;
use poste_dispatch::team::{self, Stop, StopError, Stopped, StoppedHow};
use schemars::JsonSchema;
use serde::Serialize;

use super::not_on_team;
use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::explain::unknown_agent;
use crate::ui::{self, Answer, Paint, Ui, escape};

/// Ask teammates to stop, wait for it, and end those that do not
///
/// From here on nothing is started for them. Each gets a shutdown_request; it finishes or hands back what it holds and answers
/// with a shutdown_response, or it is answered for it once its run is over. Who does not stop within the time is ended, which is
/// recorded, and what it held waits again. Mail to who is stopped stays, and its sender is told. poste team up lets them go on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste team stop coder --as lead\n  \
                        poste team stop --all --within 5m --reason 'Enough for today' --as lead\n  \
                        poste team stop coder --within 0s --force --as lead")]
pub(crate) struct Args {
    /// Whom
    names: Vec<Name>,
    /// Everybody something is run for here, but the speaker
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// How long they may take
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    within: Duration,
    /// Why, for those who stop and those who wait for them
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Also who says no is ended when the time is up
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StopAnswer {
    pub stopped: Vec<Stopped>,
}

impl Answer for StopAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        ui.rows(out, &["AGENT", "IS", ""], self.stopped.iter().map(|stopped| row(ui, stopped)).collect())
    }
}

fn row(ui: &Ui, stopped: &Stopped) -> Vec<String> {
    let (paint, what) = match stopped.how {
        StoppedHow::Answered => (Paint::Good, "stopped, as it says"),
        StoppedHow::Finished => (Paint::Good, "stopped"),
        StoppedHow::Forced => (Paint::Attention, "ended by force"),
        StoppedHow::Refused => (Paint::Bad, "goes on: it said no"),
        StoppedHow::Already => (Paint::Dim, "stopped already"),
        StoppedHow::Left => (Paint::Bad, "still runs"),
    };
    let mut notes = Vec::new();
    notes.extend(stopped.request.map(|request| format!("request #{request}")));
    notes.extend(stopped.response.map(|response| format!("response #{response}")));
    if !stopped.returned.is_empty() {
        let numbers: Vec<String> = stopped.returned.iter().map(|number| format!("#{number}")).collect();
        notes.push(format!("handed back {}", numbers.join(" ")));
    }
    notes.extend(stopped.why.clone());
    vec![stopped.agent.to_string(), ui.paint(paint, what), escape::line(&notes.join("; ")).into_owned()]
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    if args.names.is_empty() && !args.all {
        return Err(CommandError::usage("whom to stop is not said")
            .hint("name them: poste team stop NAME")
            .hint("everybody something is run for here: poste team stop --all"));
    }
    let mut office = cx.open_to_write()?;
    let by = cx.active_agent(&mut office)?.name;
    let team = team::members(&poste_config::runners(&office)?);
    let mut names = args.names;
    if args.all {
        names = team
            .iter()
            .filter(|member| member.config.is_some() && member.name != by)
            .map(|member| member.name.clone())
            .collect();
    }
    names.sort();
    names.dedup();
    let mut known = Vec::new();
    for name in names {
        let Some(agent) = office.agent(&name)? else {
            // Listed, and not even registered: there is nothing to stop.
            match team.iter().any(|member| member.name == name) {
                true if args.all => continue,
                true => return Err(not_up(&name)),
                false => return Err(unknown_agent(&office, &name)?),
            }
        };
        match agent.is_active() {
            true => known.push(name),
            false if args.all => {}
            false => return Err(not_on_team(&name)),
        }
    }
    let stop = Stop { by, reason: args.reason, within: args.within, force: args.force };
    let (mut asked, mut requests) = (Vec::new(), 0);
    for name in known {
        let config = team.iter().find(|member| member.name == name).and_then(|member| member.config.as_ref());
        let grace_ms = config.map_or(limits::RUN_GRACE_MS_DEFAULT, |config| config.grace_ms);
        let grace = Duration::from_millis(u64::try_from(grace_ms).unwrap_or(0));
        let (mut stopping, request) = stop.begin(&mut office, &name, grace).map_err(failed)?;
        cx.carry_out(&mut office);
        if let Some(request) = request {
            requests += 1;
            let (_, effect) = cx.decide(&mut office, &request)?;
            effect.message().into_iter().for_each(|number| stopping.asked(number));
        }
        asked.push(stopping);
    }
    if requests > 0 {
        cx.ui.say(format!("asked {}; waiting", ui::count(requests, "teammate")));
    }
    let ui = cx.ui.clone();
    let stopped = stop.wait(&mut office, &cx.carrier(), asked, |what| ui.say(what)).map_err(failed)?;
    cx.ui.now = office.now()?;
    let trouble = trouble(&stopped);
    cx.ui.answer(&StopAnswer { stopped })?;
    trouble
}

fn not_up(name: &Name) -> CommandError {
    CommandError::not_found(format!("{name} was never started")).hint("see what each does: poste team status")
}

fn failed(error: StopError) -> CommandError {
    match error {
        StopError::Office(error) => error.into(),
        StopError::Itself(_) => CommandError::new(Kind::Refused, error.to_string())
            .code("itself")
            .hint("answer the shutdown_request, or just end; whoever leads it stops it: poste team stop"),
    }
}

fn trouble(stopped: &[Stopped]) -> Result {
    let of = |how: StoppedHow| stopped.iter().filter(move |one| one.how == how).map(|one| one.agent.as_str());
    let refused: Vec<&str> = of(StoppedHow::Refused).collect();
    if !refused.is_empty() {
        return Err(CommandError::new(Kind::Denied, format!("said no: {}", refused.join(", ")))
            .hint("stop them all the same: poste team stop --force"));
    }
    let left: Vec<&str> = of(StoppedHow::Left).collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(CommandError::new(Kind::TimedOut, format!("still runs: {}", left.join(", ")))
            .hint("nothing new is started for them; see where they run: poste team status")),
    }
}
