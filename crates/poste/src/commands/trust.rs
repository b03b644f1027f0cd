use std::io::{self, BufRead, IsTerminal, Write};

use poste_config::Command;
use poste_verbs::{person, trust};

use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui, escape};

/// Show whether this poste.toml is trusted, or trust it
///
/// A poste.toml comes with a repository and can be changed by everyone who writes there. It runs no command until a
/// person on this machine has reviewed and trusted it, and again after each change of the file. Rules and limits need
/// no trust.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste trust\n  poste trust --yes --as anna\n  poste trust --revoke")]
pub(crate) struct Args {
    /// Trust the file as it is now, without a prompt
    #[arg(long)]
    yes: bool,
    /// Revoke the trust on this machine
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
}

impl Answer for trust::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let file = escape::line(&self.file).into_owned();
        let Some(digest) = self.digest else {
            return writeln!(out, "there is no {file}: nothing to trust");
        };
        writeln!(out, "{file}, digest {digest}")?;
        for Command { key, line, command } in &self.commands {
            writeln!(out, "line {line}: {key} runs {}", escape::line(command))?;
        }
        if self.commands.is_empty() {
            writeln!(out, "nothing in it runs a command")?;
        }
        let by = self.by.as_ref().zip(self.at).map(|(by, at)| format!("by {by}, {}", ui.time(at))).unwrap_or_default();
        match self.state {
            "trusted" => writeln!(out, "trusted {by}"),
            "changed" => writeln!(out, "not trusted: it has changed since it was trusted {by}"),
            _ => writeln!(out, "not trusted"),
        }
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.office()?;
    if args.yes {
        cx.confirm("trust this poste.toml", "trust")?;
    }
    let answered =
        cx.call_verb(&mut office, trust::Input { yes: args.yes, revoke: args.revoke, ..trust::Input::default() })?;
    cx.ui.now = office.now()?;
    let (file, trusted) = (answered.answer.file.clone(), answered.answer.trusted);
    let seen = answered.answer.digest.filter(|_| !args.revoke && !trusted);
    cx.show(&mut office, answered)?;
    let Some(seen) = seen else { return Ok(()) };
    if cx.ui.json || !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        cx.ui.say("review it, then trust it: poste trust --yes --as NAME");
        return Ok(());
    }
    // Only a person who may answer is asked.
    cx.with_desk(&mut office, |desk| person::present(desk))?;
    if !confirmed()? {
        return Err(CommandError::new(Kind::Refused, "the file stays untrusted"));
    }
    cx.confirm("trust this poste.toml", "trust")?;
    cx.call_verb(&mut office, trust::Input { yes: true, seen: Some(seen), revoke: false })?;
    cx.ui.say(format!("{file} is trusted"));
    Ok(())
}

fn confirmed() -> Result<bool> {
    let mut talk = io::stderr().lock();
    let _ = write!(talk, "Trust this file to run commands? [y/N] ");
    let _ = talk.flush();
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
