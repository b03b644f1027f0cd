//! A visible stop: the record, and the mail that tells whom it concerns.

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

/// Whoever was told of a rate once is not told again so soon: it comes and goes within minutes.
const TOLD_AGAIN_MS: i64 = 60 * 60 * 1_000;
/// People one hold is told to at most.
const TOLD_MAX: usize = 32;

/// Holds it in the name of the agent, and says which message tells of it. None: it is held already, or somebody saw to it
/// meanwhile.
pub(super) fn write(office: &mut Office, runners: &Runners, hold: &Hold) -> Result<Option<Option<MessageNo>>, Error> {
    let told = if was_told(office, hold)? { Vec::new() } else { concerned(office, runners, hold)? };
    let held = propose(office, hold, &told)?;
    if held.is_some() {
        return Ok(held);
    }
    // Somebody of them may have retired this moment; a stop that nobody hears of is still a stop that can be seen.
    let is_held = || -> Result<bool, Error> {
        let now = office.now()?;
        let holds = views::holds(office.store(), &hold.agent, now)?;
        Ok(holds.iter().any(|held| held.message == hold.message))
    };
    if told.is_empty() || is_held()? {
        return Ok(None);
    }
    propose(office, hold, &[])
}

fn propose(office: &mut Office, hold: &Hold, told: &[Name]) -> Result<Option<Option<MessageNo>>, Error> {
    let to: Vec<Address> = told.iter().cloned().map(Address::Agent).collect();
    let kind = "alert".parse().map_err(|_| Error::Damaged("alert is no type".to_owned()))?;
    let mail = (!to.is_empty()).then(|| Send::plain(kind, to));
    let header = RunHold { agent: None, message: hold.message, why: hold.why, until: hold.until.map(When::At), mail };
    let proposal = speaker::proposal(office, &hold.agent, Intent::RunHold(header), Some(content(hold)));
    match poste_config::propose(office, &proposal)?.verdict {
        Verdict::Accepted(effect) => Ok(Some(effect.message())),
        Verdict::Rejected(why) if is_moot(why.code) || !told.is_empty() => Ok(None),
        Verdict::Rejected(why) => Err(Error::Damaged(format!("{} cannot be held: {}", hold.agent, why.reason))),
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
    // A command stands at the end, without a full stop that would be typed along.
    let stop = if hold.text.contains(": poste ") { "" } else { "." };
    let mut body = format!("{}{stop}\n\nNothing is started for it{until}.", upper_first(&hold.text));
    // Otherwise it would be held again at once.
    let command = format!("poste dispatch resume {agent}{number}");
    match (hold.why, hold.until) {
        (HoldReason::Misconfigured, _) => {}
        // A longer chain is held again, so one word of a person is one more run.
        (HoldReason::Hops, _) => {
            body.push_str(&format!(" A person, or who leads it, may let it go on by one run: {command}"));
        }
        (_, Some(_)) => body.push_str(&format!(" A person, or who leads it, may let it go before that: {command}")),
        (_, None) => body.push_str(&format!(" A person, or who leads it, may let it go: {command}")),
    }
    body.push('\n');
    Content { subject, body: body.as_str().into(), ..Content::default() }
}

/// Names stay as they are written.
fn upper_first(text: &str) -> String {
    let mut signs = text.chars();
    match signs.next().filter(|_| text.starts_with("the ") || text.starts_with("message ") || text.starts_with("what "))
    {
        Some(first) => first.to_uppercase().chain(signs).collect(),
        None => text.to_owned(),
    }
}

/// Whose mail it stops, who began what led to it, and who leads the agent; every person, if nobody does.
fn concerned(office: &Office, runners: &Runners, hold: &Hold) -> Result<Vec<Name>, Error> {
    let lead = office.agent(&hold.agent)?.and_then(|agent| agent.lead).or_else(|| runners.team.lead.clone());
    let lead = match lead {
        Some(lead) if office.agent(&lead)?.is_some_and(|lead| lead.is_active()) => vec![lead],
        _ => views::active_humans(office.store())?,
    };
    let mut beginners = Vec::new();
    for message in &hold.about {
        beginners.extend(views::began_by(office.store(), *message)?);
    }
    let mut concerned = Vec::new();
    for name in hold.senders.iter().chain(&beginners).chain(&lead).take(TOLD_MAX) {
        let is_there = office.agent(name)?.is_some_and(|agent: Agent| agent.is_active());
        if is_there && *name != hold.agent && !concerned.contains(name) {
            concerned.push(name.clone());
        }
    }
    Ok(concerned)
}

fn was_told(office: &Office, hold: &Hold) -> Result<bool, Error> {
    if hold.why != HoldReason::Rate {
        return Ok(false);
    }
    let now = office.now()?;
    let before = views::all_holds(office.store(), &hold.agent)?;
    Ok(before.iter().any(|before| before.why == hold.why && now.since_ms(before.since) < TOLD_AGAIN_MS))
}
