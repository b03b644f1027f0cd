use std::io::{self, Write};
use std::path::PathBuf;

use poste_core::log::Cleared;
use poste_core::store::tables::Agent;
use poste_core::text::{Name, RecordId, Word};
use poste_core::vocabulary::AgentKind;
use poste_verbs::register;

use crate::Result;
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::{Answer, Ui};

/// Register an agent or a person
///
/// Registering the same agent again, unchanged, is harmless; to change or revive one needs --update.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste register coder --role builder --capability typescript\n  \
                        poste register anna --kind human\n  poste register coder --role reviewer --update")]
pub(crate) struct Args {
    /// Lower-case letters, digits, - and _
    pub(crate) name: Name,
    /// What it is for; role:ROLE addresses all who share it
    #[arg(long)]
    role: Option<Word>,
    /// What it can do; can:CAPABILITY addresses all who can
    #[arg(long, value_name = "CAPABILITY")]
    capability: Vec<Word>,
    /// The folder it works in; its artifacts must be below
    #[arg(long, value_name = "DIR")]
    worktree: Option<PathBuf>,
    /// Who is told when it does not answer in time; otherwise whoever has the role lead
    #[arg(long, value_name = "NAME")]
    lead: Option<Name>,
    /// agent or human; otherwise agent
    #[arg(long)]
    pub(crate) kind: Option<AgentKind>,
    /// With --update: it has no role any more
    #[arg(long, requires = "update", conflicts_with = "role")]
    no_role: bool,
    /// With --update: it has no capabilities any more
    #[arg(long, requires = "update", conflicts_with = "capability")]
    no_capabilities: bool,
    /// With --update: it has no worktree of its own any more
    #[arg(long, requires = "update", conflicts_with = "worktree")]
    no_worktree: bool,
    /// With --update: it has no lead of its own any more
    #[arg(long, requires = "update", conflicts_with = "lead")]
    no_lead: bool,
    /// Change or revive a registered name; what is not given stays as it was
    #[arg(long)]
    pub(crate) update: bool,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
}

impl Answer for register::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let what = if self.changed { "registered" } else { "registered already:" };
        writeln!(out, "{what} {}", describe(&self.agent))
    }
}

/// An agent in one line.
pub(crate) fn describe(agent: &Agent) -> String {
    let mut text = format!("{} ({}", agent.name, agent.kind);
    if let Some(role) = &agent.role {
        text.push_str(&format!(", role {role}"));
    }
    if !agent.capabilities.is_empty() {
        let words: Vec<&str> = agent.capabilities.iter().map(Word::as_str).collect();
        text.push_str(&format!(", can {}", words.join(" ")));
    }
    if let Some(lead) = &agent.lead {
        text.push_str(&format!(", lead {lead}"));
    }
    text.push(')');
    text
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let cleared = [
        (args.no_role, Cleared::Role),
        (args.no_capabilities, Cleared::Capabilities),
        (args.no_worktree, Cleared::Worktree),
        (args.no_lead, Cleared::Lead),
    ];
    let input = register::Input {
        name: args.name,
        role: args.role,
        capabilities: args.capability,
        worktree: args.worktree.map(|path| absolute(&path)).transpose()?,
        lead: args.lead,
        kind: args.kind,
        clears: cleared.into_iter().filter_map(|(asked, what)| asked.then_some(what)).collect(),
        update: args.update,
        id: args.id,
    };
    let mut office = cx.office()?;
    let answered = cx.ask(&mut office, input)?;
    let new = answered.answer.changed.then(|| answered.answer.agent.name.clone());
    cx.show(&mut office, answered)?;
    if let Some(name) = new {
        cx.ui.say(format!("speak as it: --as {name}, or export POSTE_AGENT={name}"));
    }
    Ok(())
}

fn absolute(path: &std::path::Path) -> Result<String> {
    let real = path.canonicalize().map_err(|error| CommandError::not_found(format!("{}: {error}", path.display())))?;
    if !real.is_dir() {
        return Err(CommandError::usage(format!("{} is no folder", path.display())));
    }
    real.into_os_string().into_string().map_err(|_| CommandError::usage("the worktree's path is no UTF-8"))
}
