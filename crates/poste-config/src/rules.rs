//! Proposing under the rules of this machine's files.

use poste_core::fold::Outcome;
use poste_core::log::Proposal;
use poste_core::office::Rules;
use poste_core::payload::PayloadSchemas;
use poste_core::{Error, Office};

use crate::{gates, payload_schemas};

/// The rules of this machine's files for these proposals. Reads only the files that can concern them; `schemas` are
/// those that [`sync_policy`](crate::sync_policy) has just read, if it has.
pub fn rules(office: &Office, proposals: &[Proposal], schemas: Option<&PayloadSchemas>) -> Result<Rules, Error> {
    let mut rules = Rules::none();
    if Rules::ask_for_schemas(proposals) {
        rules.schemas = schemas.map_or_else(|| payload_schemas(office), |schemas| Ok(schemas.clone()))?;
    }
    if Rules::ask_for_gates(proposals) {
        rules.gates = gates(office)?;
    }
    Ok(rules)
}

/// [`Office::submit`] under the rules of this machine's files.
pub fn submit(office: &mut Office, proposals: &[Proposal]) -> Result<Vec<Outcome>, Error> {
    let rules = rules(office, proposals, None)?;
    office.submit(proposals, &rules)
}

/// [`Office::propose_unless_refused`] under the rules of this machine's files.
pub fn propose(office: &mut Office, proposal: &Proposal) -> Result<Outcome, Error> {
    let rules = rules(office, std::slice::from_ref(proposal), None)?;
    office.propose_unless_refused(proposal, &rules)
}
