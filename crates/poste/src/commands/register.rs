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
/// Registering the same agent again, unchanged, is harmless. To change or revive an agent, pass --update.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste register coder --role builder --capability typescript\n  \
                        poste register anna --kind human\n  poste register coder --role reviewer --update")]
pub(crate) struct Args {
    /// Name of the agent: lower-case letters, digits, - and _
    pub(crate) name: Name,
    /// Role; role:ROLE addresses the agents that share it
    #[arg(long)]
    role: Option<Word>,
    /// Capability; can:CAPABILITY addresses the agents that have it; may be repeated
    #[arg(long, value_name = "CAPABILITY")]
    capability: Vec<Word>,
    /// Folder it works in, which must contain its artifacts
    #[arg(long, value_name = "DIR")]
    worktree: Option<PathBuf>,
    /// Agent to notify when it does not answer in time; otherwise the agents with the role lead
    #[arg(long, value_name = "NAME")]
    lead: Option<Name>,
    /// agent or human; otherwise agent
    #[arg(long)]
    pub(crate) kind: Option<AgentKind>,
    /// With --update: remove its role
    #[arg(long, requires = "update", conflicts_with = "role")]
    no_role: bool,
    /// With --update: remove its capabilities
    #[arg(long, requires = "update", conflicts_with = "capability")]
    no_capabilities: bool,
    /// With --update: remove its worktree
    #[arg(long, requires = "update", conflicts_with = "worktree")]
    no_worktree: bool,
    /// With --update: remove its lead
    #[arg(long, requires = "update", conflicts_with = "lead")]
    no_lead: bool,
    /// Change or revive a registered agent; options that are not given keep their values
    #[arg(long)]
    pub(crate) update: bool,
    /// Idempotency key: repeating the command with it is safe
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
}

impl Answer for register::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let what = if self.changed { "registered" } else { "already registered:" };
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
    let known = office.agent(&input.name)?;
    let is_person = known.as_ref().is_some_and(|known| known.is_person());
    match input.kind {
        // A person says so themselves. An agent cannot become one, nor a person an agent.
        Some(kind) if (kind == AgentKind::Human) != is_person => {
            cx.confirm(&format!("register {} as {kind}", input.name), input.name.as_str())?;
        }
        _ if input.update => {
            cx.prove(&office);
        }
        _ => {}
    }
    let answered = cx.call_verb(&mut office, input)?;
    let new = answered.answer.changed.then(|| answered.answer.agent.name.clone());
    cx.show(&mut office, answered)?;
    if let Some(name) = new {
        cx.ui.say(format!("act as it: --as {name}, or export POSTE_AGENT={name}"));
    }
    Ok(())
}

fn absolute(path: &std::path::Path) -> Result<String> {
    let real = path.canonicalize().map_err(|error| CommandError::not_found(format!("{}: {error}", path.display())))?;
    if !real.is_dir() {
        return Err(CommandError::usage(format!("{} is not a folder", path.display())));
    }
    real.into_os_string().into_string().map_err(|_| CommandError::usage("the path of the worktree is not valid UTF-8"))
}
