//! What helps after a refusal, as errors of commands.

use poste_core::log::MessageNo;
use poste_core::office::Office;
use poste_core::text::Name;

use crate::Result;
use crate::error::CommandError;

/// "No such agent", with the nearest names.
pub(crate) fn unknown_agent(office: &Office, name: &Name) -> Result<CommandError> {
    Ok(poste_verbs::unknown_agent(office, name)?.into())
}

pub(crate) fn no_message(number: MessageNo) -> CommandError {
    poste_verbs::no_message(number).into()
}
