//! Machines with office folders of their own, over one simulated log without faults.

use std::path::PathBuf;
use std::sync::Arc;

use poste_core::fold::{Code, Effect, Outcome, Verdict};
use poste_core::log::{Body, Content, Intent, Proof, Proposal, Register, Send, Via};
use poste_core::office::Place;
use poste_core::office::Rules;
use poste_core::store::Options;
use poste_core::store::clock::Clock as _;
use poste_core::store::table_digest::digest;
use poste_core::vocabulary::AgentKind;
use poste_core::{Digest, Office};
use poste_testkit::clock::SimClock;
use poste_testkit::sim::{Faults, Sequencer};
use poste_verbs::caller::Ids;
use poste_verbs::{Caller, Desk, Files, Host, Verb};
use serde_json::Value;
use tempfile::TempDir;

pub struct World {
    pub clock: Arc<SimClock>,
    pub sequencer: Sequencer,
    pub folder: TempDir,
    machines: usize,
    proposed: usize,
}

impl World {
    pub fn new() -> Self {
        let clock = SimClock::new();
        let sequencer = Sequencer::new(clock.clone());
        Self { clock, sequencer, folder: tempfile::tempdir().unwrap(), machines: 0, proposed: 0 }
    }

    /// A world of two machines, with these agents registered.
    pub fn with(agents: &[&str]) -> (Self, Office, Office) {
        let mut world = Self::new();
        let (mut one, two) = (world.machine("one"), world.machine("two"));
        for agent in agents {
            accepted(world.propose(&mut one, agent, register()));
        }
        (world, one, two)
    }

    /// The office of a machine. Each machine has its own mark.
    pub fn place(&self, name: &str) -> Place {
        let state = Some(self.folder.path().join("state/poste"));
        let options = Options { machine_mark: format!("mark of {name}"), state, ..Options::default() };
        Place { path: self.path(name), clock: self.clock.clone(), options }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name).join(".poste")
    }

    /// A new machine with an office that has folded the whole log.
    pub fn machine(&mut self, name: &str) -> Office {
        std::fs::create_dir(self.folder.path().join(name)).unwrap();
        assert!(self.place(name).create_following().unwrap());
        let mut office = self.open(name);
        office.follow().unwrap();
        office
    }

    /// Opens a machine's office in another process.
    pub fn open(&mut self, name: &str) -> Office {
        self.machines += 1;
        let log = self.sequencer.connect(self.machines, 0, Faults::NONE);
        self.place(name).open_following(Box::new(log)).unwrap()
    }

    pub fn proposal(&mut self, actor: &str, intent: Intent) -> Proposal {
        self.proposed += 1;
        Proposal {
            id: format!("r{}", self.proposed).parse().unwrap(),
            actor: actor.parse().unwrap(),
            session: None,
            via: Via::Cli,
            proof: Proof::Word,
            sent_at: self.clock.wall(),
            intent,
            content: None,
        }
    }

    pub fn propose(&mut self, office: &mut Office, actor: &str, intent: Intent) -> Outcome {
        let proposal = self.proposal(actor, intent);
        office.propose(&proposal, &Rules::none()).unwrap()
    }

    /// A message with this body.
    pub fn letter(&mut self, from: &str, to: &str, body: impl Into<String>) -> Proposal {
        let send = Send::plain("message".parse().unwrap(), vec![to.parse().unwrap()]);
        let mut proposal = self.proposal(from, Intent::Send(send));
        let body = Body(body.into().into_bytes());
        proposal.content = Some(Content { subject: "a letter".to_owned(), body, ..Content::default() });
        proposal
    }

    pub fn send(&mut self, office: &mut Office, from: &str, to: &str, body: impl Into<String>) -> Outcome {
        let letter = self.letter(from, to, body);
        office.propose(&letter, &Rules::none()).unwrap()
    }
}

/// Calls a verb the way a surface does, with JSON, and answers with JSON.
pub fn call<V: Verb>(office: &mut Office, actor: &str, input: Value) -> Value {
    let caller = Caller {
        actor: Some(actor.parse().unwrap()),
        session: None,
        via: Via::Cli,
        proof: Proof::Word,
        files: Files::none(),
    };
    let host = Host { ids: Ids::default(), program: None, run: None };
    let input: V = serde_json::from_value(input).unwrap();
    let answered = Desk::new(office, &caller, &host).call(input).unwrap();
    serde_json::to_value(&answered.answer).unwrap()
}

pub fn register() -> Intent {
    Intent::Register(Register {
        kind: Some(AgentKind::Human),
        role: None,
        capabilities: None,
        worktree: None,
        lead: None,
        clears: Vec::new(),
        update: false,
    })
}

pub fn accepted(outcome: Outcome) -> Effect {
    outcome.verdict.accepted().unwrap()
}

pub fn refused(outcome: &Outcome) -> Code {
    match &outcome.verdict {
        Verdict::Rejected(rejection) => rejection.code,
        accepted @ Verdict::Accepted(_) => panic!("not refused: {accepted:?}"),
    }
}

pub fn tables(office: &Office) -> Digest {
    digest(office.store().conn()).unwrap()
}
