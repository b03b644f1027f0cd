use std::io::{self, Write};

use poste_core::log::{Via, WakeWay};
use poste_core::text::Name;
use poste_dispatch::wake::Input;
use poste_verbs::wake::{self, RungOutcome, WakeRequest};

use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Paint, Ui, escape};

/// Wake an agent that has mail, or the recipients of a message
///
/// Tries the ways that the session offers, in order, until one accepts the request: its own waiter, the socket of
/// Claude Code, `codex queue`, the server of OpenCode, its tmux pane, your own command. `poste track` shows every
/// attempt. Only one line with message numbers is passed on, never text of a message.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste wake coder --as lead       for all pending mail of coder\n  \
                        poste wake 12 --as lead          every recipient of message 12\n  \
                        poste wake --as lead             every agent that is owed a ring\n  \
                        poste track 12                   show the outcome")]
pub(crate) struct Args {
    /// Agent name or message number; otherwise every agent that is owed a ring
    #[arg(value_name = "NAME|N")]
    who: Vec<String>,
    /// Only for messages that have not been shown
    #[arg(long)]
    unseen: bool,
    /// For messages that were just stored, in a process session apart from the sender
    #[arg(long, hide = true, conflicts_with = "unseen")]
    apart: bool,
    /// Also ask servers on other hosts; for dispatchers, which may use the network
    #[arg(long, hide = true)]
    remote: bool,
    /// Surface of the command that started it
    #[arg(long, hide = true, value_name = "SURFACE")]
    via: Option<Via>,
}

impl Answer for wake::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for rung in &self.rung {
            let (paint, word) = match rung.outcome {
                RungOutcome::Requested => (Paint::Good, "wake requested"),
                RungOutcome::Covered => (Paint::Good, "already rung"),
                RungOutcome::Failed => (Paint::Bad, "not woken"),
                RungOutcome::Postponed => (Paint::Attention, "not rung yet"),
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
        // Otherwise the end of the sender's terminal could end it. If this fails, nothing else changes.
        let _ = rustix::process::setsid();
    }
    let Args { who, unseen, apart, remote, via } = args;
    cx.set_surface(via);
    let mut request = WakeRequest { who, unseen, apart, remote, later: None };
    let mut office = cx.office()?;
    loop {
        cx.ui.now = office.now()?;
        let mut answered = cx.call_verb(&mut office, Input(request))?;
        let Some(later) = answered.answer.later.take() else {
            cx.ui.now = office.now()?;
            return cx.show(&mut office, answered);
        };
        std::thread::sleep(later.wait);
        request = WakeRequest { later: Some(later), ..WakeRequest::default() };
    }
}
