//! The ways to ring an agent.

use crate::live::Live;
use crate::wake::{self, Known, Plan};
use poste_core::error::Error;
use poste_core::log::MessageNo;
use poste_core::office::Office;
use poste_core::text::Name;
use poste_core::views::{self, LiveSession};

/// Ways that not every caller may use.
#[derive(Debug, Clone, Copy)]
pub struct Allowed {
    /// The agent's own program may be started.
    pub spawn: bool,
    /// Servers on other hosts may be contacted.
    pub remote: bool,
}

/// The ways to ring an agent for this mail. `None`: for mail stored just now, which any waiter notices itself.
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
        (Some(session), Some(numbers)) => {
            let heard = live.as_ref().map(|live| live.told.heard().numbers).unwrap_or_default();
            let mut unreported = numbers.iter().filter(|number| !heard.contains(number));
            // A waiter announces nothing twice, and no mail that is for the next session.
            unreported.try_fold(false, |is_news, number| {
                Ok::<_, Error>(is_news || views::is_news_to(office.store(), *number, agent, &session.id)?)
            })?
        }
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
        plan.why_not.push_str("; its command runs once a person trusts the file: poste trust");
    }
    Ok(plan)
}
