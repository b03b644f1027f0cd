//! Who speaks for what acts by itself.

use poste_core::Office;
use poste_core::error::Error;
use poste_core::fold::{Code, Verdict};
use poste_core::log::{Content, Intent, Proposal, Register, Via};
use poste_core::text::{Name, RecordId};
use poste_core::vocabulary::AgentKind;

/// The name of the office's own services, unless another one is given.
pub const SPEAKER: &str = "dispatcher";

/// The service that speaks, registered on its first use. A name that is given must be registered already.
pub fn speaker(office: &mut Office, given: Option<Name>) -> Result<Name, Error> {
    if let Some(given) = given {
        return Ok(given);
    }
    let name: Name = SPEAKER.parse().map_err(|error| Error::Damaged(format!("{error}")))?;
    register(office, &name, AgentKind::Service)?;
    Ok(name)
}

/// Registers a name unless it is there: any number of processes may do so at once.
pub(crate) fn register(office: &mut Office, name: &Name, kind: AgentKind) -> Result<(), Error> {
    if office.agent(name)?.is_some() {
        return Ok(());
    }
    let register = Register { kind: Some(kind), ..Register::default() };
    let proposal = proposal(office, name, Intent::Register(register), None)?;
    match poste_config::propose(office, &proposal)?.verdict {
        Verdict::Accepted(_) => Ok(()),
        Verdict::Rejected(rejection) if rejection.code == Code::NameTaken => Ok(()),
        Verdict::Rejected(rejection) => Err(rejection.into()),
    }
}

pub(crate) fn proposal(
    office: &Office,
    actor: &Name,
    intent: Intent,
    content: Option<Content>,
) -> Result<Proposal, Error> {
    let (id, sent_at) = (fresh_id()?, office.wall());
    Ok(Proposal { id, actor: actor.clone(), session: None, via: Via::Dispatch, sent_at, intent, content })
}

fn fresh_id() -> Result<RecordId, Error> {
    uuid::Uuid::now_v7().to_string().parse().map_err(|error| Error::Damaged(format!("{error}")))
}
