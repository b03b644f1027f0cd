//! The ways to an agent, with everything that decides which there are.

use crate::live::Live;
use crate::wake::{self, Known, Plan};
use poste_core::error::Error;
use poste_core::log::MessageNo;
use poste_core::office::Office;
use poste_core::text::{Name, Session};
use poste_core::views::{self, LiveSession};

/// Mail of one agent that is looked at.
const LOOKED_AT_MAX: usize = 1_000;

/// Ways that not everybody may use.
#[derive(Debug, Clone, Copy)]
pub struct Allowed {
    /// The agent's own program may be started.
    pub spawn: bool,
    /// Servers on other hosts may be asked.
    pub remote: bool,
}

/// The ways to an agent, for this mail; for none, if it was stored this moment: any waiter hears of that.
pub fn plan(
    office: &Office,
    agent: &Name,
    session: Option<&LiveSession>,
    numbers: Option<&[MessageNo]>,
    Allowed { spawn, remote }: Allowed,
) -> Result<Plan, Error> {
    let folder = office.path()?;
    let config = poste_config::wake_config(office)?;
    let live = session.and_then(|session| Live::load(folder, &session.id));
    let waiter = match (session.filter(|session| wake::is_waiting(folder, &session.id)), numbers) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(session), Some(numbers)) => will_tell(office, agent, &session.id, live.as_ref(), numbers)?,
    };
    let mut plan = wake::plan(&Known {
        session,
        waiter,
        reach: &live.map(|live| live.reach).unwrap_or_default(),
        spawn,
        command: config.command.as_ref().map(|command| command.words.as_slice()),
        hosts: &config.hosts,
        remote,
    });
    if config.untrusted {
        plan.why_not.push_str("; the command in poste.toml is run once a person has said poste trust");
    }
    Ok(plan)
}

/// Whether the waiter of a session still has to tell it of any of this mail. It tells of nothing twice, and of nothing that waits
/// for the next session.
fn will_tell(
    office: &Office,
    agent: &Name,
    session: &Session,
    live: Option<&Live>,
    numbers: &[MessageNo],
) -> Result<bool, Error> {
    let Some(agent) = office.agent(agent)? else { return Ok(false) };
    let heard = live.map(|live| live.told.heard()).unwrap_or_default();
    let news = views::unheard(office.store(), &agent, session, &heard, LOOKED_AT_MAX)?;
    Ok(news.messages.iter().any(|message| numbers.contains(&message.number)))
}
