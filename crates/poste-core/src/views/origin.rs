//! The origin of a record.

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Error;
use crate::log::{Envelope, Via};
use crate::store::Store;
use crate::text::Label;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Origin {
    /// The surface it came by; unknown for records of the office itself.
    pub via: Via,
    /// The id of its machine in this office.
    pub machine: Label,
    /// It came from another machine: one of a cluster, or the one this office was copied from.
    #[serde(skip)]
    pub elsewhere: bool,
}

impl Origin {
    pub(crate) fn of(store: &Store, envelope: &Envelope) -> Result<Self, Error> {
        let (via, machine) = (envelope.via, envelope.machine.clone());
        let elsewhere = *store.machine()? != machine;
        Ok(Self { via, machine, elsewhere })
    }

    /// For people, after the name of the actor. Empty for the command line of this machine.
    pub fn text(&self) -> String {
        let via = self.via.known().filter(|via| *via != Via::Cli);
        let via = via.map(|via| format!(" via {via}")).unwrap_or_default();
        if self.elsewhere { format!("{via} on {}", self.machine) } else { via }
    }
}
