//! Registers an agent or a person. Registering the same agent again changes nothing.

use poste_config::Runners;
use poste_core::Office;
use poste_core::fold::Verdict;
use poste_core::log::{Author, Cleared, Intent, Register, Via};
use poste_core::store::tables::Agent;
use poste_core::text::{Name, RecordId, Word};
use poste_core::vocabulary::AgentKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Error, Result, Touch, Verb};

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Lower-case letters, digits, - and _
    pub name: Name,
    /// Role; role:ROLE addresses the agents that share it
    pub role: Option<Word>,
    /// Capabilities; can:CAPABILITY addresses the agents that have it
    #[serde(default)]
    pub capabilities: Vec<Word>,
    /// The folder it works in, as an absolute path. Set by people only.
    #[serde(skip)]
    pub worktree: Option<String>,
    /// The agent to notify when it does not answer in time; default: the agents with role lead
    pub lead: Option<Name>,
    /// Default: agent. A model must not register people.
    #[serde(skip)]
    pub kind: Option<AgentKind>,
    /// With `update`: what to remove from the agent
    #[serde(skip)]
    pub clears: Vec<Cleared>,
    /// Change or revive a registered agent; omitted fields stay as they are
    #[serde(default)]
    pub update: bool,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
}

impl Input {
    /// An input with a name and nothing else.
    pub fn of(name: Name) -> Self {
        Self {
            name,
            role: None,
            capabilities: Vec::new(),
            worktree: None,
            lead: None,
            kind: None,
            clears: Vec::new(),
            update: false,
            id: None,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The agent as it is registered now.
    pub agent: Agent,
    /// False if it was registered with the same values before.
    pub changed: bool,
}

impl Verb for Input {
    const NAME: &'static str = "register";
    const ACCESS: Access = Access::Writes;
    const TOUCHES: &'static [(&'static str, Touch)] =
        &[("worktree", Touch::ReadsFiles), ("kind", Touch::SpeaksAsPerson)];
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let Self { name, role, mut capabilities, worktree, lead, kind, clears, update, id } = self;
        capabilities.sort_unstable();
        capabilities.dedup();
        let capabilities = (!capabilities.is_empty()).then_some(capabilities);
        let header = Register { kind, role, capabilities, worktree, lead, clears, update };
        let known = desk.office.agent(&name)?;
        let same = known.as_ref().is_some_and(|known| known.is_active() && is_same(known, &header));
        if !same {
            let proposal = desk.proposal_as(name.clone(), Intent::Register(header), None, id);
            desk.decide(&proposal)?;
        }
        let missing = || Error::internal("the agent was registered but is missing");
        let agent = desk.office.agent(&name)?.ok_or_else(missing)?;
        Ok(Answered::new(Answer { agent, changed: !same }))
    }
}

/// Registers a name unless it is registered. Safe in any number of processes at once. Returns whether this one did it.
pub fn if_missing(office: &mut Office, name: &Name, header: Register, via: Via) -> Result<bool, poste_core::Error> {
    if office.agent(name)?.is_some() {
        return Ok(false);
    }
    let proposal = office.proposal(&Author::new(name.clone(), via), Intent::Register(header), None);
    match poste_config::propose(office, &proposal)?.verdict {
        Verdict::Accepted(_) => Ok(true),
        Verdict::Rejected(_) if office.agent(name)?.is_some() => Ok(false),
        Verdict::Rejected(rejection) => Err(rejection.into()),
    }
}

/// Registers an agent as this machine's files describe it.
pub fn configured(office: &mut Office, runners: &Runners, name: &Name, via: Via) -> Result<bool, poste_core::Error> {
    let config = runners.agents.get(name);
    let role = config.and_then(|config| config.role.as_ref()).and_then(|role| role.as_str().parse().ok());
    let lead = match runners.team.lead.clone().filter(|lead| lead != name) {
        Some(lead) if office.agent(&lead)?.is_some_and(|lead| lead.is_active()) => Some(lead),
        _ => None,
    };
    if_missing(office, name, Register { role, lead, ..Register::default() }, via)
}

/// Whether the agent is registered with these values. With `update`, omitted values are not compared.
fn is_same(known: &Agent, asked: &Register) -> bool {
    if !asked.clears.is_empty() {
        return false;
    }
    let partial = asked.update;
    let kind = asked.kind.unwrap_or(if partial { known.kind } else { AgentKind::Agent });
    let capabilities = asked.capabilities.as_ref();
    kind == known.kind
        && (asked.role == known.role || (partial && asked.role.is_none()))
        && (capabilities.map_or(&[][..], Vec::as_slice) == known.capabilities || (partial && capabilities.is_none()))
        && (asked.worktree == known.worktree || (partial && asked.worktree.is_none()))
        && (asked.lead == known.lead || (partial && asked.lead.is_none()))
}
