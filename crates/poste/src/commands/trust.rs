use std::io::{self, Write};

use poste_config::Command;
use poste_core::log::MessageNo;
use poste_verbs::trust;

use super::workflow;
use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Ui, escape};

/// Said to programs and scripts.
pub(super) const DECIDES: &str = "only a person can decide that, at a terminal";

/// Show which commands of files may run here, and trust them
///
/// A poste.toml comes with a repository, and an archive or an agent can bring any file. So poste.toml, .poste/local.toml
/// and the commands of a handoff run nothing, and a workflow does not speak in a person's name, before a person on this
/// machine has reviewed that exact text. A change ends the trust. Rules and limits need none.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste trust\n  poste trust release\n  poste trust --handoff 12\n  poste trust --revoke release"
)]
pub(crate) struct Args {
    /// Workflow to trust: its name, or a file; with --revoke also a name that --list shows
    #[arg(value_name = "WORKFLOW")]
    workflow: Option<String>,
    /// Trust the commands of this handoff
    #[arg(long, value_name = "N", value_parser = crate::cli::number, conflicts_with = "workflow")]
    handoff: Option<MessageNo>,
    /// List everything that is trusted in this office
    #[arg(long, conflicts_with_all = ["workflow", "handoff", "revoke"])]
    list: bool,
    /// Revoke the trust; without a name, in everything
    #[arg(long)]
    revoke: bool,
}

impl Answer for trust::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        if self.files.is_empty() {
            return writeln!(out, "{}", self.nothing);
        }
        for (nth, file) in self.files.iter().enumerate() {
            if nth > 0 {
                writeln!(out)?;
            }
            print_file(ui, out, file)?;
        }
        Ok(())
    }
}

fn print_file(ui: &Ui, out: &mut dyn Write, file: &trust::File) -> io::Result<()> {
    writeln!(out, "{}, digest {}", escape::line(&file.file), file.digest)?;
    print_commands(out, &file.commands)?;
    if !file.changes.is_empty() {
        writeln!(out, "changed:")?;
    }
    let text = file.text.iter().filter(|_| file.changes.is_empty()).flat_map(|text| text.lines());
    for line in file.changes.iter().map(String::as_str).chain(text) {
        writeln!(out, "  {}", escape::line(line))?;
    }
    let by = file.by.as_ref().zip(file.at);
    let by = by.map(|(by, at)| format!("by {}, {}", escape::line(by), ui.time(at))).unwrap_or_default();
    match file.state {
        "trusted" => writeln!(out, "trusted {by}"),
        "changed" => writeln!(out, "not trusted: it has changed since it was trusted {by}"),
        _ => writeln!(out, "not trusted"),
    }
}

/// What each entry of a file runs, with everything that decides what that does.
pub(super) fn print_commands(out: &mut dyn Write, commands: &[Command]) -> io::Result<()> {
    for Command { key, line, command, environment, folder, prompt, program, digest, problem } in commands {
        let place = if *line > 0 { format!("line {line}: ") } else { String::new() };
        writeln!(out, "{place}{} runs {}", escape::line(key), escape::line(command))?;
        if !environment.is_empty() {
            writeln!(out, "  with {}", escape::line(&environment.join(", ")))?;
        }
        if let Some(folder) = folder {
            writeln!(out, "  in {}", escape::line(folder))?;
        }
        if let (Some(program), Some(digest)) = (program, digest) {
            writeln!(out, "  {}, digest {digest}", escape::line(program))?;
        }
        if let Some(problem) = problem {
            writeln!(out, "  cannot be trusted: {}", escape::line(problem))?;
        }
        if let Some(prompt) = prompt {
            writeln!(out, "  prompt:")?;
            for line in prompt.lines() {
                writeln!(out, "    {}", escape::line(line))?;
            }
        }
    }
    Ok(())
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let Args { workflow, handoff, list, revoke } = args;
    let input = || -> Result<trust::Input> {
        let (named, workflow) = if revoke { (workflow.clone(), None) } else { (None, workflow.clone()) };
        let workflow = workflow.map(workflow::given).transpose()?;
        Ok(trust::Input { workflow, handoff, list, revoke, named, seen: None })
    };
    let mut office = cx.office()?;
    let answered = cx.call_verb(&mut office, input()?)?;
    cx.ui.now = office.now()?;
    let is_open = answered.answer.files.iter().any(|file| !file.trusted);
    let is_asked = is_open && !(list || revoke);
    let all: Vec<_> = answered.answer.files.iter().map(|file| file.seen).collect();
    let has_problem = answered.answer.files.iter().flat_map(|file| &file.commands).any(|file| file.problem.is_some());
    if is_asked && cx.is_confirmed() {
        // It was confirmed before it was shown, so what is shown is the outcome.
        let trusted = cx.call_verb(&mut office, trust::Input { seen: Some(all), ..input()? })?;
        return cx.show(&mut office, trusted);
    }
    cx.show(&mut office, answered)?;
    if !is_asked {
        return Ok(());
    }
    if cx.ui.json || !cx.has_person() {
        cx.ui.say(DECIDES);
        return Ok(());
    }
    if has_problem {
        let error = poste_verbs::Error::refused("what cannot be trusted keeps the rest from it");
        return Err(error.code("untrusted").hint("correct it, then review all of it again").into());
    }
    cx.confirm("let these run on this machine", "trust")?;
    cx.call_verb(&mut office, trust::Input { seen: Some(all), ..input()? })?;
    cx.ui.say("trusted");
    Ok(())
}
