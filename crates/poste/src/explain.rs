//! What helps after a refusal, as errors of commands.

use poste_core::log::Proposal;
use poste_core::office::Office;
use poste_core::text::Name;

use crate::Result;
use crate::error::CommandError;

/// Adds to a refusal what helps: the nearest names, the next command.
pub(crate) fn explain(
    office: &Office,
    proposal: &Proposal,
    rejection: poste_core::fold::Rejection,
) -> Result<CommandError> {
    Ok(poste_verbs::explain(office, proposal, rejection.into())?.into())
}

/// "No such agent", with the nearest names.
pub(crate) fn unknown_agent(office: &Office, name: &Name) -> Result<CommandError> {
    Ok(poste_verbs::unknown_agent(office, name)?.into())
}
