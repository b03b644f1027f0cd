//! Adds a teammate on this machine, and starts it.

use poste_config::{Mode, NewAgent, Preset};
use poste_core::gates::Source;
use poste_core::text::{Name, Word};
use poste_core::vocabulary::AgentKind;
use poste_verbs::{Access, Answered, Desk, Error, Result, Touch, Verb, note, person, register, unknown_agent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::team::{self, Started, Starts};

/// A model must not choose what is run, so JSON has no command.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub name: Name,
    /// What it is for; role:ROLE addresses all who share it
    pub role: Option<Word>,
    /// Its lead; default: the lead of [team]
    pub lead: Option<Name>,
    /// A prompt that precedes its mail
    #[serde(skip)]
    pub prompt: Option<String>,
    #[serde(skip)]
    pub preset: Option<Preset>,
    #[serde(skip)]
    pub mode: Option<Mode>,
    /// Run it in its own git worktree
    #[serde(skip)]
    pub worktree: bool,
    /// Command and arguments, instead of the preset's
    #[serde(skip)]
    pub command: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// False: it was already there, unchanged.
    pub added: bool,
    pub file: String,
    #[serde(flatten)]
    pub started: Started,
    #[serde(skip)]
    pub starts: Starts,
}

impl Verb for Input {
    const NAME: &'static str = "team add";
    const ACCESS: Access = Access::Writes;
    const TOUCHES: &'static [(&'static str, Touch)] = &[
        ("prompt", Touch::RunsCommand),
        ("preset", Touch::RunsCommand),
        ("mode", Touch::RunsCommand),
        ("worktree", Touch::WritesFiles),
        ("command", Touch::RunsCommand),
    ];
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let (name, role) = (self.name.clone(), self.role.clone());
        let lead = self.check(desk)?;
        let added = self.write(desk)?;
        if added {
            desk.note_stored(format!("[agent.{name}] in .poste/{}", poste_config::LOCAL_FILE));
        }
        // An agent that was already registered keeps what is not given here.
        let update = desk.office.agent(&name)?.is_some();
        let of_another = lead.filter(|lead| *lead != name);
        let register = register::Input { role, lead: of_another, update, ..register::Input::of(name.clone()) };
        register.run(desk)?;
        let runners = poste_config::runners(desk.office)?;
        let member = team::members(&runners).into_iter().find(|member| member.name == name);
        let member = member.ok_or_else(|| Error::internal("the agent was added but is missing"))?;
        let mut starts = Starts::default();
        let started = starts.add(desk, &runners, &member)?.clone();
        let file = desk.office.path()?.join(poste_config::LOCAL_FILE).display().to_string();
        Ok(Answered::new(Answer { added, file, started, starts }))
    }
}

impl Input {
    /// Checks that it can be added, and returns its lead.
    fn check(&self, desk: &Desk<'_>) -> Result<Option<Name>> {
        let name = &self.name;
        if self.preset.is_none_or(|preset| preset == Preset::Command) && self.command.is_empty() {
            return Err(Error::usage("no preset and no command")
                .hint(note!("pass a preset: " {preset = "claude-code"} "; or a command after --: -- ./agent.sh")));
        }
        let runners = poste_config::runners(desk.office)?;
        if runners.agents.get(name).is_some_and(|known| known.source != Source::Machine) {
            return Err(Error::conflict(format!("{name} is already in {}", poste_config::FILE))
                .hint(note!("start it: " [team up, names = name])));
        }
        let known = desk.office.agent(name)?.map(|known| known.kind);
        if let Some(kind @ (AgentKind::Human | AgentKind::Outside)) = known {
            return Err(Error::refused(format!("{name} is registered as {kind}, which no program can act as"))
                .code("not_an_agent")
                .hint("use another name"));
        }
        let lead = self.lead.clone().or(runners.team.lead);
        if let Some(lead) = lead.as_ref().filter(|lead| *lead != name)
            && !desk.office.agent(lead)?.is_some_and(|lead| lead.is_active())
        {
            return Err(unknown_agent(desk.office, lead)?);
        }
        Ok(lead)
    }

    /// Writes its section. Returns whether it is new.
    fn write(self, desk: &mut Desk<'_>) -> Result<bool> {
        let name = self.name.clone();
        let is_there = poste_config::runners(desk.office)?.agents.contains_key(&name);
        let agent = NewAgent {
            name: self.name,
            preset: self.preset,
            run: self.command,
            mode: self.mode,
            role: self.role,
            prompt: self.prompt,
            worktree: self.worktree,
            resume: self.preset.is_some_and(|preset| preset != Preset::Command) && self.mode != Some(Mode::Subagent),
        };
        let by = person::decider(desk).ok();
        let written = poste_config::add_agent(desk.office, &agent, by).map_err(|error| match error {
            poste_core::Error::Config { .. } if is_there => Error::conflict(error.to_string()).hint(note!(
                "see how it is run: " [team list] "; edit it by hand, or start it: " [team up, names = name]
            )),
            // The section would be invalid; the file is unchanged.
            poste_core::Error::Config { message, .. } => {
                Error::usage(message).hint("nothing was written; see docs/runners.md")
            }
            other => other.into(),
        })?;
        if !written.trusted {
            desk.warn(note!("{name} does not run until a person trusts what was written: "[trust]));
        }
        Ok(written.changed)
    }
}
