use std::collections::BTreeMap;
use std::io::{self, Write};

use poste_core::log::{MessageNo, WakeWay};
use poste_core::office::Office;
use poste_core::text::Name;
use poste_core::views;
use poste_verbs::actions;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::explain::{no_message, unknown_agent};
use crate::ui::{Answer, Paint, Ui, escape};
use crate::wake::{self, Cause, Rung, RungOutcome};

/// Ring for mail that waits: wake an agent, or everybody a message waits for
///
/// Tries the ways its session offers, one after the other, until one could be asked: its own waiter, the socket of Claude
/// Code, `codex queue`, the server of OpenCode, the pane of tmux it runs in, a command of yours. Every attempt stands on the
/// message's ladder. What is passed on is one line with numbers, never a word of a message.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste wake coder --as lead       for everything that waits for coder\n  \
                        poste wake 12 --as lead          everybody message 12 waits for\n  \
                        poste wake --as lead             every agent that is owed a ring\n  \
                        poste track 12                   what came of it")]
pub(crate) struct Args {
    /// An agent's name, or a message's number; none: every agent that is owed a ring
    #[arg(value_name = "NAME|N")]
    who: Vec<String>,
    /// Only for what was not shown yet
    #[arg(long)]
    unseen: bool,
    /// For what was stored just now, apart from whoever did: in a session of its own
    #[arg(long, hide = true, conflicts_with = "unseen")]
    apart: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WakeAnswer {
    /// One for each agent, and for each message that waits for none.
    pub rung: Vec<Rung>,
}

impl Answer for WakeAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for rung in &self.rung {
            let (paint, word) = match rung.outcome {
                RungOutcome::Requested => (Paint::Good, "wake requested"),
                RungOutcome::Covered => (Paint::Good, "rung already"),
                RungOutcome::Failed => (Paint::Bad, "not woken"),
                RungOutcome::Nothing => (Paint::Attention, "not rung"),
            };
            let numbers: Vec<String> = rung.numbers.iter().take(8).map(|number| format!("#{number}")).collect();
            let more = if rung.numbers.len() > numbers.len() { " …" } else { "" };
            let what = if numbers.is_empty() { String::new() } else { format!(" for {}{more}", numbers.join(" ")) };
            let why = rung.reason.as_ref().map(|why| format!(": {}", escape::line(why))).unwrap_or_default();
            let who = rung.agent.as_ref().map_or("nobody", Name::as_str);
            writeln!(out, "{who}: {}{what}{why}", ui.paint(paint, word))?;
            for tried in &rung.tried {
                let why = tried.reason.as_ref().map(|why| format!(": {}", escape::line(why))).unwrap_or_default();
                match tried.how {
                    WakeWay::Nothing => writeln!(out, "  no way{why}")?,
                    how => writeln!(out, "  {how} {}{why}", tried.outcome)?,
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    if args.apart {
        // So that no terminal of the sender's ends it with itself. If it cannot, it is no worse off.
        let _ = rustix::process::setsid();
    }
    let mut office = cx.open_to_write()?;
    cx.agent(&office)?;
    let Targets { mut agents, nobody, mut errors } = targets(&office, &args.who)?;
    // Whoever rings anyway also rings for what somebody who died before its ring left behind.
    let owed = match args.who.is_empty() {
        true => views::owed_rings(office.store(), office.now()?)?,
        false if args.apart => actions::lost_rings(&office)?,
        false => Vec::new(),
    };
    for (sleeper, number) in owed {
        agents.entry(sleeper.agent).or_insert_with(|| vec![number]);
    }
    let mut answer = WakeAnswer { rung: nobody.into_iter().map(Rung::for_nobody).collect() };
    for (agent, numbers) in agents {
        let cause = match args.apart || args.who.is_empty() {
            true => Cause::Stored,
            false => Cause::Asked { numbers: &numbers, only_unseen: args.unseen },
        };
        // Whatever is in the way of one is not in the way of the others.
        match wake::ring(cx, &mut office, &agent, cause) {
            Ok(rung) => answer.rung.push(rung),
            Err(error) => errors.push(error),
        }
    }
    if args.who.is_empty() && answer.rung.is_empty() && errors.is_empty() {
        cx.ui.say("no agent is owed a ring");
    }
    if !answer.rung.is_empty() || args.who.is_empty() {
        cx.ui.now = office.now()?;
        cx.ui.answer(&answer)?;
    }
    errors.extend(not_woken(&answer));
    // The first is told in full, of the others what happened.
    let error = errors.into_iter().reduce(|first, other| first.cause(other.text()));
    error.map_or(Ok(()), Err)
}

fn not_woken(answer: &WakeAnswer) -> Option<CommandError> {
    let failed = || answer.rung.iter().filter(|rung| rung.outcome == RungOutcome::Failed);
    let number = failed().find_map(|rung| rung.numbers.first())?;
    let names: Vec<&str> = failed().filter_map(|rung| rung.agent.as_ref()).map(Name::as_str).collect();
    Some(
        CommandError::new(Kind::NotFound, format!("no way to wake {} worked", names.join(", ")))
            .code("not_woken")
            .hint(format!("the mail is kept for its next session or tool call; follow it: poste track {number}")),
    )
}

/// Whom to wake, each for which messages; none for all that wait.
#[derive(Default)]
struct Targets {
    agents: BTreeMap<Name, Vec<MessageNo>>,
    /// Messages that wait for nobody.
    nobody: Vec<MessageNo>,
    /// What was named and is not there.
    errors: Vec<CommandError>,
}

fn targets(office: &Office, who: &[String]) -> Result<Targets> {
    let mut targets = Targets::default();
    let mut everything = Vec::new();
    for word in who {
        if let Ok(number) = crate::cli::number(word) {
            match sleepers(office, number)? {
                None => targets.errors.push(no_message(number)),
                Some(sleepers) if sleepers.is_empty() => targets.nobody.push(number),
                Some(sleepers) => {
                    for sleeper in sleepers {
                        targets.agents.entry(sleeper).or_default().push(number);
                    }
                }
            }
            continue;
        }
        let name: Name = match word.parse() {
            Ok(name) => name,
            Err(error) => {
                targets.errors.push(CommandError::from(error));
                continue;
            }
        };
        match office.agent(&name)? {
            None => targets.errors.push(unknown_agent(office, &name)?),
            Some(agent) if !agent.is_active() => {
                targets.errors.push(CommandError::new(Kind::Refused, format!("{name} is retired")).code("retired"));
            }
            Some(_) => everything.push(name),
        }
    }
    targets.agents.extend(everything.into_iter().map(|name| (name, Vec::new())));
    Ok(targets)
}

/// Whom a message waits for; `None`: there is no such message.
fn sleepers(office: &Office, number: MessageNo) -> Result<Option<Vec<Name>>> {
    match views::sleepers(office.store(), number)? {
        Some(sleepers) => Ok(Some(sleepers.into_iter().map(|sleeper| sleeper.agent).collect())),
        // It may be archived, where nothing waits any more.
        None => Ok(views::track(office.store(), number, office.now()?)?.map(|_| Vec::new())),
    }
}
