//! Notifies leads of troubles, once each.

use poste_core::address::Address;
use poste_core::fold::Verdict;
use poste_core::log::{Content, Intent, MessageNo, Proposal, Send};
use poste_core::office::Office;
use poste_core::text::Name;
use poste_core::{Error, Timestamp, views};
use serde_json::value::RawValue;

use super::facts::{self, Member};
use super::state::{self, Trouble};
use crate::speaker;

/// Checks every agent with a runner here and notifies its lead of troubles: each occurrence once, however many
/// dispatchers check. Called periodically by a dispatcher; cheap if there are no troubles.
pub fn alerts(office: &mut Office) -> Result<Vec<MessageNo>, Error> {
    let runners = poste_config::runners(office)?;
    let patience_ms = facts::patience_ms(&runners);
    let mut sent = Vec::new();
    for member in facts::members(&runners).into_iter().filter(|member| member.config.is_some()) {
        let now = office.now()?;
        let facts = facts::facts(office, &member)?;
        for trouble in state::troubles(&facts, now, patience_ms) {
            sent.extend(notify_lead(office, &member, runners.team.lead.as_ref(), &trouble, now)?);
        }
    }
    Ok(sent)
}

fn notify_lead(
    office: &mut Office,
    member: &Member,
    team_lead: Option<&Name>,
    trouble: &Trouble,
    now: Timestamp,
) -> Result<Option<MessageNo>, Error> {
    // A sweep handles that and records it in the log.
    if matches!(trouble, Trouble::Unwatched { .. }) {
        return Ok(None);
    }
    let name = &member.name;
    let (Some(id), Some(lead)) = (trouble.id(), lead_of(office, name, team_lead)?) else { return Ok(None) };
    let Some(id) = views::id_to_write_once(office.store(), &id, name)? else { return Ok(None) };
    let what = trouble.text(now);
    let run = match trouble {
        Trouble::Silent { run, .. } | Trouble::LeaseNearlyOut { run, .. } | Trouble::Unwatched { run } => run,
        Trouble::Failing(failures) => &failures.last,
    };
    let payload = serde_json::json!({ "agent": name, "run": run, "trouble": word(trouble) });
    let body = format!(
        "{name}, run {run}: {what}.\n\nInspect it: `poste team status {name}`, `poste team logs {name}`. Stop it: \
         `poste team stop {name}`."
    );
    let content = Content {
        subject: format!("{name} is stuck: {what}"),
        body: body.as_str().into(),
        payload: RawValue::from_string(payload.to_string()).ok(),
        ..Content::default()
    };
    let kind = "alert".parse().expect("a built-in type");
    let intent = Intent::Send(Send::plain(kind, vec![lead]));
    let proposal = Proposal { id, ..speaker::proposal(office, name, intent, Some(content)) };
    // Refused if the agent has retired or another dispatcher has just reported it: then there is nothing to do.
    match poste_config::propose(office, &proposal)?.verdict {
        Verdict::Accepted(effect) => Ok(effect.message()),
        Verdict::Rejected(_) => Ok(None),
    }
}

fn word(trouble: &Trouble) -> &'static str {
    match trouble {
        Trouble::Silent { .. } => "silent",
        Trouble::LeaseNearlyOut { .. } => "lease_nearly_out",
        Trouble::Unwatched { .. } => "unwatched",
        Trouble::Failing(_) => "failing",
    }
}

/// Its registered lead, else the lead of `[team]`, else the agents with the role `lead`; never itself.
fn lead_of(office: &Office, name: &Name, team_lead: Option<&Name>) -> Result<Option<Address>, Error> {
    let registered = office.agent(name)?.and_then(|agent| agent.lead);
    for lead in registered.iter().chain(team_lead).filter(|lead| *lead != name) {
        if office.agent(lead)?.is_some_and(|lead| lead.is_active()) {
            return Ok(Some(Address::Agent(lead.clone())));
        }
    }
    let role = Address::Role("lead".parse().expect("a word"));
    let others = views::members(office.store(), &role)?.into_iter().any(|lead| lead != *name);
    Ok(others.then_some(role))
}
