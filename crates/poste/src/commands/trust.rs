use std::io::{self, BufRead, IsTerminal, Write};

use poste_core::config::Command;
use poste_core::office::{Office, Trust, TrustView};
use poste_core::text::Name;
use poste_core::vocabulary::AgentKind;
use poste_core::{Digest, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui, escape};

/// Show whether this poste.toml is trusted to run commands here, or trust it
///
/// A poste.toml comes with a repository, from whoever may write there. Nothing in it runs a command until a person has
/// looked at it and said so, on this machine; after any change of the file they are asked again. Rules and limits need
/// no trust.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste trust\n  poste trust --yes --as anna\n  poste trust --revoke")]
pub(crate) struct Args {
    /// Trust the file as it is now, without being asked
    #[arg(long)]
    yes: bool,
    /// Forget what was trusted here
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TrustAnswer {
    pub file: String,
    /// BLAKE3 of its text; null without a file.
    pub digest: Option<Digest>,
    pub trusted: bool,
    /// `no_file`, `never`, `changed` or `trusted`.
    pub state: &'static str,
    /// Who trusted this file, or an earlier state of it.
    pub by: Option<Name>,
    #[serde(serialize_with = "poste_core::time::rfc3339_option")]
    pub at: Option<Timestamp>,
    /// What in it would run a command.
    pub commands: Vec<Command>,
}

impl TrustAnswer {
    fn new(file: String, view: TrustView) -> Self {
        let (state, mark) = match view.trust {
            Trust::NoFile => ("no_file", None),
            Trust::Never => ("never", None),
            Trust::Changed(mark) => ("changed", Some(mark)),
            Trust::Trusted(mark) => ("trusted", Some(mark)),
        };
        Self {
            file,
            digest: view.digest,
            trusted: state == "trusted",
            state,
            at: mark.as_ref().map(|mark| mark.at),
            by: mark.map(|mark| mark.by),
            commands: view.commands,
        }
    }
}

impl Answer for TrustAnswer {
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
    let mut office = cx.place()?.open()?;
    cx.ui.now = office.now()?;
    if args.revoke && !office.revoke_trust()? {
        cx.ui.say("nothing was trusted here");
    }
    let file = office.config_path()?.display().to_string();
    let view = office.trust()?;
    let (digest, is_trusted) = (view.digest, matches!(view.trust, Trust::Trusted(_)));
    let Some(digest) = digest.filter(|_| !args.revoke && !is_trusted) else {
        if args.yes && digest.is_none() {
            return Err(CommandError::not_found(format!("there is no {file} to trust")));
        }
        return cx.ui.answer(&TrustAnswer::new(file, view));
    };
    if args.yes {
        let by = person(cx, &office)?;
        office.trust_config(&digest, by)?;
        cx.note_stored(format!("that {file} is trusted"));
        return cx.ui.answer(&TrustAnswer::new(file, office.trust()?));
    }
    cx.ui.answer(&TrustAnswer::new(file.clone(), view))?;
    if cx.ui.json || !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        cx.ui.say("trust it, after reading it: poste trust --yes --as NAME");
        return Ok(());
    }
    let by = person(cx, &office)?;
    if !confirmed()? {
        return Err(CommandError::new(Kind::Refused, "it stays untrusted"));
    }
    office.trust_config(&digest, by)?;
    cx.ui.say(format!("{file} is trusted"));
    Ok(())
}

/// Who trusts. A program that could trust a file for others would be asked to by that very file.
fn person(cx: &Cx, office: &Office) -> Result<Name> {
    let speaker = cx.agent(office)?;
    if cx.is_in_run(office)? {
        let message = "a program that was started here does not trust files, whatever name it gives";
        return Err(CommandError::new(Kind::Refused, message)
            .code("not_a_person")
            .hint("a person does, in a shell of its own"));
    }
    if speaker.kind == AgentKind::Human {
        return Ok(speaker.name);
    }
    let message =
        format!("only a person may trust a file to run commands, and {} is of kind {}", speaker.name, speaker.kind);
    Err(CommandError::new(Kind::Refused, message)
        .code("not_a_person")
        .hint("a person has to do it: ask one to read the file and to decide"))
}

fn confirmed() -> Result<bool> {
    let mut talk = io::stderr().lock();
    let _ = write!(talk, "Trust this file to run commands? [y/N] ");
    let _ = talk.flush();
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
