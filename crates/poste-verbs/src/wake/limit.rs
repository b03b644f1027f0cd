//! Limits of waking without a person's request: agents that write to each other must not keep each other awake.

use std::path::Path;
use std::time::Duration;

use poste_config::AgentConfig;
use poste_core::limits;
use poste_core::log::{MessageNo, WakeOutcome, WakeWay};
use poste_core::office::Office;
use poste_core::text::Name;
use poste_core::views;

use super::{Attempt, coalesce, record};
use crate::{Desk, Error, Result};

/// The messages that may wake the agent. The others came out of too many runs in a row: that is recorded once, so that
/// `track` shows it, and they stay pending.
pub fn hold_back_chains(desk: &mut Desk<'_>, agent: &Name, numbers: &[MessageNo]) -> Result<Vec<MessageNo>> {
    let mut rest = Vec::with_capacity(numbers.len());
    let mut max_hops = None;
    for number in numbers {
        let hops = views::mail_source(desk.office.store(), *number)?.map_or(0, |source| source.hops);
        let max = match max_hops {
            Some(max) => max,
            None if hops == 0 => u32::MAX,
            None => *max_hops.insert(max_hops_of(desk.office, agent)?),
        };
        if hops <= max {
            rest.push(*number);
            continue;
        }
        if !views::has_wakes(desk.office.store(), *number)? {
            let why = format!(
                "message #{number} came out of a chain of {hops} runs, and max_hops of {agent} is {max}: this looks like a loop"
            );
            let attempt = Attempt { how: WakeWay::Nothing, outcome: WakeOutcome::Failed, reason: Some(why) };
            record(desk, &[*number], agent, &attempt)?;
        }
    }
    Ok(rest)
}

fn max_hops_of(office: &Office, agent: &Name) -> Result<u32> {
    let runners = poste_config::runners(office)?;
    // A file that nobody trusts can only make it fewer.
    let max = |config: &AgentConfig| if config.trusted { u32::MAX } else { limits::RUN_HOPS_DEFAULT };
    Ok(runners.agents.get(agent).map_or(limits::RUN_HOPS_DEFAULT, |config| config.max_hops.min(max(config))))
}

/// How long the agent must not be woken for these messages. `None`: it may be woken now. Mail from people is never
/// limited.
pub fn rest(office: &Office, agent: &Name, numbers: &[MessageNo]) -> Result<Option<Duration>> {
    for number in numbers {
        if views::mail_source(office.store(), *number)?.is_some_and(|source| source.is_from_person) {
            return Ok(None);
        }
    }
    let per_minute = poste_config::wake_config(office)?.per_minute();
    let folder: &Path = office.path()?;
    coalesce::rest(folder, agent, per_minute).map_err(|error| not_counted(agent, &error))
}

/// Counts a wake that no ring caused.
pub fn woke(office: &Office, agent: &Name) -> Result {
    coalesce::woke(office.path()?, agent).map_err(|error| not_counted(agent, &error))
}

fn not_counted(agent: &Name, error: &std::io::Error) -> Error {
    Error::internal(format!("could not count the wakes of {agent}: {error}"))
}
