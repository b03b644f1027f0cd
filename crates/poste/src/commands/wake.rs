use std::collections::BTreeMap;
use std::io::{self, Write};

use poste_core::log::MessageNo;
use poste_core::office::Office;
use poste_core::text::Name;
use poste_core::views;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::explain::{no_message, unknown_agent};
use crate::ui::{Answer, Paint, Ui, escape};
use crate::wake::{self, Rung, RungOutcome};

/// Ring for mail that waits: wake an agent, or everybody a message waits for
///
/// Tries the ways its session offers, one after the other, until one could be asked: its own waiter, the socket of Claude
/// Code, `codex queue`, the server of OpenCode, the pane of tmux it runs in, a command of yours. Every attempt stands on the
/// message's ladder. What is passed on is one line with numbers, never a word of a message.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste wake coder --as lead       for everything that waits for coder\n  \
                        poste wake 12 --as lead          everybody message 12 waits for\n  \
                        poste track 12                   what came of it")]
pub(crate) struct Args {
    /// An agent's name, or a message's number
    #[arg(required = true, value_name = "NAME|N")]
    who: Vec<String>,
    /// Only for what was not shown yet
    #[arg(long)]
    unseen: bool,
    /// Apart from whoever started it: a session of its own
    #[arg(long, hide = true)]
    apart: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WakeAnswer {
    /// One for each agent.
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
            writeln!(out, "{}: {}{what}{why}", rung.agent, ui.paint(paint, word))?;
            for tried in &rung.tried {
                let why = tried.reason.as_ref().map(|why| format!(": {}", escape::line(why))).unwrap_or_default();
                writeln!(out, "  {} {}{why}", tried.how, tried.outcome)?;
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
    let mut answer = WakeAnswer { rung: Vec::new() };
    for (agent, numbers) in targets(&office, &args.who)? {
        answer.rung.push(wake::ring(cx, &mut office, &agent, &numbers, args.unseen)?);
    }
    cx.ui.now = office.now()?;
    cx.ui.answer(&answer)?;
    let failed: Vec<&Rung> = answer.rung.iter().filter(|rung| rung.outcome == RungOutcome::Failed).collect();
    let Some(number) = failed.iter().find_map(|rung| rung.numbers.first()) else { return Ok(()) };
    let names: Vec<&str> = failed.iter().map(|rung| rung.agent.as_str()).collect();
    Err(CommandError::new(Kind::NotFound, format!("no way to wake {} worked", names.join(", ")))
        .code("not_woken")
        .hint(format!("the mail is kept for its next session or tool call; follow it: poste track {number}")))
}

/// Whom to wake, each for which messages; none for all that wait.
fn targets(office: &Office, who: &[String]) -> Result<BTreeMap<Name, Vec<MessageNo>>> {
    let mut targets: BTreeMap<Name, Vec<MessageNo>> = BTreeMap::new();
    let mut everything = Vec::new();
    for word in who {
        if let Ok(number) = crate::cli::number(word) {
            for sleeper in sleepers(office, number)? {
                targets.entry(sleeper).or_default().push(number);
            }
            continue;
        }
        let name: Name = word.parse()?;
        match office.agent(&name)? {
            None => return Err(unknown_agent(office, &name)?),
            Some(agent) if !agent.is_active() => {
                return Err(CommandError::new(Kind::Refused, format!("{name} is retired")).code("retired"));
            }
            Some(_) => everything.push(name),
        }
    }
    targets.extend(everything.into_iter().map(|name| (name, Vec::new())));
    Ok(targets)
}

fn sleepers(office: &Office, number: MessageNo) -> Result<Vec<Name>> {
    let Some(sleepers) = views::sleepers(office.store(), number)? else {
        // It may be archived, where nothing waits any more.
        return match views::track(office.store(), number, office.now()?)? {
            Some(_) => Err(waits_for_nobody(number)),
            None => Err(no_message(number)),
        };
    };
    match sleepers.is_empty() {
        true => Err(waits_for_nobody(number)),
        false => Ok(sleepers.into_iter().map(|sleeper| sleeper.agent).collect()),
    }
}

fn waits_for_nobody(number: MessageNo) -> CommandError {
    CommandError::new(Kind::Refused, format!("message {number} waits for nobody who could be woken"))
        .code("nothing_to_do")
        .hint(format!("see where it is: poste track {number}"))
}
