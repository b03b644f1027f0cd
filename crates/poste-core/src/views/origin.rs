//! Where a record came from.

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Error;
use crate::log::{Envelope, Via};
use crate::store::Store;
use crate::text::Label;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Origin {
    /// The surface it came in by; unknown of what the office writes itself.
    pub via: Via,
    /// The machine it came from: an id of its own in this office.
    pub machine: Label,
    /// It came from another machine: of a cluster, or the one this office was copied from.
    #[serde(skip)]
    pub elsewhere: bool,
}

impl Origin {
    pub(crate) fn of(store: &Store, envelope: &Envelope) -> Result<Self, Error> {
        let (via, machine) = (envelope.via, envelope.machine.clone());
        let elsewhere = *store.machine()? != machine;
        Ok(Self { via, machine, elsewhere })
    }

    /// What people are told of it, after whose it is: not that it came by the command line of this machine.
    pub fn told(&self) -> String {
        let via = self.via.known().filter(|via| *via != Via::Cli);
        let via = via.map(|via| format!(" via {via}")).unwrap_or_default();
        if self.elsewhere { format!("{via} on {}", self.machine) } else { via }
    }
}
