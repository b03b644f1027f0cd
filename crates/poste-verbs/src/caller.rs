//! The agent that a verb runs for, the files it may use, and the process it runs in.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use poste_core::log::{Proof, Via};
pub use poste_core::store::artifact::Files;
use poste_core::store::tables::Agent;
use poste_core::text::{Name, RecordId, Session};
use poste_core::{Office, Timestamp};

use crate::desk::no_speaker;
use crate::explain::unknown_agent;
use crate::{Error, Result};

/// The agent, session, surface and files of a call. The surface sets them; a verb's input cannot change them.
#[derive(Debug)]
pub struct Caller {
    /// `None`: no agent was named. Verbs that only read work without one.
    pub actor: Option<Name>,
    pub session: Option<Session>,
    /// The surface the call came through.
    pub via: Via,
    /// What proves that a person made the call. Verbs never take it from their input.
    pub proof: Proof,
    /// The files the call may use, opened by the surface.
    pub files: Files,
}

impl Caller {
    /// A caller that acts for an agent, without access to files.
    pub fn acting_for(actor: Name, session: Option<Session>, via: Via) -> Self {
        Self { actor: Some(actor), session, via, proof: Proof::None, files: Files::none() }
    }

    /// The calling agent, which must be registered.
    pub fn agent(&self, office: &Office) -> Result<Agent> {
        let name = self.actor.as_ref().ok_or_else(no_speaker)?;
        match office.agent(name)? {
            Some(agent) => Ok(agent),
            None => Err(unknown_agent(office, name)?),
        }
    }

    /// The calling agent, which must be active.
    pub fn active_agent(&self, office: &Office) -> Result<Agent> {
        let agent = self.agent(office)?;
        if agent.is_active() {
            return Ok(agent);
        }
        let name = &agent.name;
        Err(Error::refused(format!("{name} is retired and gets no mail"))
            .code("retired")
            .hint(note!("revive it: " [register, name = name, update = true])))
    }
}

/// What verbs need from the process they run in.
#[derive(Debug)]
pub struct Host {
    pub ids: Ids,
    /// This program, which is started again to wake agents. `None`: start nothing.
    pub program: Option<PathBuf>,
    /// The run this process belongs to, according to its environment.
    pub run: Option<Session>,
}

/// Generates ids and nonces. Tests set a seed to get comparable output.
#[derive(Debug, Default)]
pub struct Ids {
    seed: Option<u64>,
    drawn: AtomicU64,
}

impl Ids {
    pub fn seeded(seed: Option<u64>) -> Self {
        Self { seed, drawn: AtomicU64::new(0) }
    }

    pub fn fresh(&self, at: Timestamp) -> RecordId {
        let uuid = match self.seed {
            None => uuid::Uuid::now_v7(),
            Some(_) => {
                let mut random = [0; 10];
                random.copy_from_slice(&self.bytes()[..10]);
                let ms = u64::try_from(at.ms()).unwrap_or(0);
                uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid()
            }
        };
        uuid.to_string().parse().expect("a UUID is printable ASCII")
    }

    /// For fences: the sender of a message cannot predict it.
    pub fn nonce(&self) -> String {
        self.bytes()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn bytes(&self) -> [u8; 16] {
        let Some(seed) = self.seed else { return uuid::Uuid::new_v4().into_bytes() };
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed) + 1;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        hasher.update(&drawn.to_le_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        bytes
    }
}
