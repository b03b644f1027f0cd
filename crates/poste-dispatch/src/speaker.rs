//! The service that dispatchers and watchers act as.

use poste_core::Office;
use poste_core::error::Error;
use poste_core::log::{Author, Content, Intent, Proposal, Register, Via};
use poste_core::text::Name;
use poste_core::vocabulary::AgentKind;
use poste_verbs::register;

/// The name of the office's own services, unless another one is given.
pub const SPEAKER: &str = "dispatcher";

/// The service to act as, registered on first use. A given name must already be registered.
pub fn speaker(office: &mut Office, given: Option<Name>) -> Result<Name, Error> {
    if let Some(given) = given {
        return Ok(given);
    }
    let name: Name = SPEAKER.parse().map_err(|error| Error::Damaged(format!("{error}")))?;
    register::if_missing(office, &name, of_kind(AgentKind::Service), Via::Dispatch)?;
    Ok(name)
}

/// The registration of an agent of this kind.
pub(crate) fn of_kind(kind: AgentKind) -> Register {
    Register { kind: Some(kind), ..Register::default() }
}

/// A proposal of the dispatcher or a watcher, in an agent's name.
pub(crate) fn proposal(office: &Office, actor: &Name, intent: Intent, content: Option<Content>) -> Proposal {
    office.proposal(&Author::new(actor.clone(), Via::Dispatch), intent, content)
}
