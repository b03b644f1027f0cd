//! Writes a hold: the record, and the alert to the agents that it concerns.

use poste_config::Runners;
use poste_core::Address;
use poste_core::error::Error;
use poste_core::fold::Verdict;
use poste_core::log::{Content, HoldReason, Intent, MessageNo, RunHold, Send};
use poste_core::office::Office;
use poste_core::store::tables::Agent;
use poste_core::text::Name;
use poste_core::time::When;
use poste_core::views;

use super::choose::Hold;
use super::dispatcher::is_moot;
use crate::speaker;

/// How long the next alert about the rate of an agent is suppressed: such holds come and go within minutes.
const TOLD_AGAIN_MS: i64 = 60 * 60 * 1_000;
/// Maximum number of recipients of one alert.
const TOLD_MAX: usize = 32;

/// Writes a hold in the name of the agent, and returns the alert about it. None: it is already held, or no longer needs
/// to be.
pub(super) fn write(office: &mut Office, runners: &Runners, hold: &Hold) -> Result<Option<Option<MessageNo>>, Error> {
    let recipients = if was_notified(office, hold)? { Vec::new() } else { concerned(office, runners, hold)? };
    let held = propose(office, hold, &recipients)?;
    if held.is_some() {
        return Ok(held);
    }
    // A recipient may have just retired. A hold without an alert is still visible.
    let is_held = || -> Result<bool, Error> {
        let now = office.now()?;
        let holds = views::holds(office.store(), &hold.agent, now)?;
        Ok(holds.iter().any(|held| held.message == hold.message))
    };
    if recipients.is_empty() || is_held()? {
        return Ok(None);
    }
    propose(office, hold, &[])
}

fn propose(office: &mut Office, hold: &Hold, recipients: &[Name]) -> Result<Option<Option<MessageNo>>, Error> {
    let to: Vec<Address> = recipients.iter().cloned().map(Address::Agent).collect();
    let kind = "alert".parse().map_err(|_| Error::Damaged("alert is not a type".to_owned()))?;
    let mail = (!to.is_empty()).then(|| Send::plain(kind, to));
    let header = RunHold { agent: None, message: hold.message, why: hold.why, until: hold.until.map(When::At), mail };
    let proposal = speaker::proposal(office, &hold.agent, Intent::RunHold(header), Some(content(hold)));
    match poste_config::propose(office, &proposal)?.verdict {
        Verdict::Accepted(effect) => Ok(Some(effect.message())),
        Verdict::Rejected(why) if is_moot(why.code) || !recipients.is_empty() => Ok(None),
        Verdict::Rejected(why) => Err(Error::Damaged(format!("could not hold {}: {}", hold.agent, why.reason))),
    }
}

fn content(hold: &Hold) -> Content {
    let agent = &hold.agent;
    let subject = match hold.message {
        Some(message) => format!("{agent} is not started for #{message} ({})", hold.why),
        None => format!("{agent} is not started ({})", hold.why),
    };
    let number = hold.message.map(|message| format!(" {message}")).unwrap_or_default();
    let until = hold.until.map(|until| format!(" until {until}")).unwrap_or_default();
    // A text that ends with a command gets no full stop, which would be copied along.
    let stop = if hold.text.contains(": poste ") { "" } else { "." };
    let mut body = format!("{}{stop}\n\nIt will not be started{until}.", upper_first(&hold.text));
    let command = format!("poste dispatch resume {agent}{number}");
    let who = if hold.why.is_limit() { "A person" } else { "A person or its lead" };
    match (hold.why, hold.until) {
        // Lifting it without trust would hold it again immediately.
        (HoldReason::Misconfigured, _) => {}
        // A longer chain is held again, so lifting the hold allows one more run.
        (HoldReason::Hops, _) => {
            body.push_str(&format!(" {who} can allow one more run: {command}"));
        }
        (_, Some(_)) => body.push_str(&format!(" {who} can lift the hold earlier: {command}")),
        (_, None) => body.push_str(&format!(" {who} can lift the hold: {command}")),
    }
    body.push('\n');
    Content { subject, body: body.as_str().into(), ..Content::default() }
}

/// Names keep their spelling.
fn upper_first(text: &str) -> String {
    let mut signs = text.chars();
    match signs.next().filter(|_| text.starts_with("the ") || text.starts_with("message ") || text.starts_with("what "))
    {
        Some(first) => first.to_uppercase().chain(signs).collect(),
        None => text.to_owned(),
    }
}

/// The senders of the mail it stops, the agents that started the chains it came from, and the lead of the agent, or
/// every person if it has none.
fn concerned(office: &Office, runners: &Runners, hold: &Hold) -> Result<Vec<Name>, Error> {
    let lead = office.agent(&hold.agent)?.and_then(|agent| agent.lead).or_else(|| runners.team.lead.clone());
    let lead = match lead {
        Some(lead) if office.agent(&lead)?.is_some_and(|lead| lead.is_active()) => vec![lead],
        _ => views::active_humans(office.store())?,
    };
    let mut origins = Vec::new();
    for message in &hold.about {
        origins.extend(views::chain_started_by(office.store(), *message)?);
    }
    let mut concerned = Vec::new();
    for name in hold.senders.iter().chain(&origins).chain(&lead).take(TOLD_MAX) {
        let is_there = office.agent(name)?.is_some_and(|agent: Agent| agent.is_active());
        if is_there && *name != hold.agent && !concerned.contains(name) {
            concerned.push(name.clone());
        }
    }
    Ok(concerned)
}

fn was_notified(office: &Office, hold: &Hold) -> Result<bool, Error> {
    if hold.why != HoldReason::Rate {
        return Ok(false);
    }
    let now = office.now()?;
    let before = views::all_holds(office.store(), &hold.agent)?;
    Ok(before.iter().any(|before| before.why == hold.why && now.since_ms(before.since) < TOLD_AGAIN_MS))
}
