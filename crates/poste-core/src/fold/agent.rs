//! Registering and retiring agents.

use super::outcome::{Code, Effect, Stop, refuse};
use super::{
    Context, Rule, active_agent, approval, context, delivery, handler, reservation, run, session, speaker, workflow,
};
use crate::address::Address;
use crate::error::Error;
use crate::limits;
use crate::log::{Cleared, Register, Retire};
use crate::store::tables::{Agent, Delivery, EndReason, State, Tables};
use crate::text::Name;
use crate::vocabulary::AgentKind;

impl Rule for Register {
    type Plan = Agent;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Agent, Stop> {
        if cx.actor.is_poste() {
            return Err(refuse(Code::NotAllowed, "the office is not an agent"));
        }
        if self.capabilities.as_ref().is_some_and(|words| words.len() > limits::CAPABILITIES_MAX) {
            return Err(refuse(Code::TooLarge, format!("more than {} capabilities", limits::CAPABILITIES_MAX)));
        }
        if self.worktree.as_ref().is_some_and(|path| !path.starts_with('/') || path.len() > limits::PATH_BYTES_MAX) {
            return Err(refuse(Code::Malformed, "a worktree must be an absolute path"));
        }
        if let Some(lead) = &self.lead {
            if *lead == cx.actor {
                return Err(refuse(Code::Malformed, "an agent cannot be its own lead"));
            }
            active_agent(tables, lead)?;
        }
        let known = tables.agent(cx.actor.as_str())?;
        if let Some(known) = &known
            && !self.update
        {
            let state = if known.is_active() { "registered" } else { "retired; its name stays taken" };
            return Err(refuse(Code::NameTaken, format!("{} is {state}", cx.actor)));
        }
        let is_new = known.is_none();
        let mut before = known.unwrap_or_else(|| Agent {
            name: cx.actor.clone(),
            kind: AgentKind::Agent,
            role: None,
            capabilities: Vec::new(),
            worktree: None,
            lead: None,
            registered_at: cx.at,
            retired_at: None,
        });
        let was = before.clone();
        for cleared in &self.clears {
            match cleared {
                Cleared::Role => before.role = None,
                Cleared::Capabilities => before.capabilities.clear(),
                Cleared::Worktree => before.worktree = None,
                Cleared::Lead => before.lead = None,
            }
        }
        let mut capabilities = self.capabilities.clone().unwrap_or(before.capabilities);
        capabilities.sort_unstable();
        capabilities.dedup();
        let agent = Agent {
            kind: self.kind.unwrap_or(before.kind),
            role: self.role.clone().or(before.role),
            capabilities,
            worktree: self.worktree.clone().or(before.worktree),
            lead: self.lead.clone().or(before.lead),
            retired_at: None,
            ..before
        };
        may_become(cx, &was, &agent, is_new)?;
        Ok(agent)
    }

    fn apply(agent: Agent, tables: &mut Tables<'_>, _: &Context) -> Result<Effect, Error> {
        tables.put_agent(&agent)?;
        Ok(Effect::Noted)
    }
}

/// An agent registers itself, but what decides its rights is not its own to choose: whether it is a person, which agent
/// leads it, and which folder it may touch. The first lead and folder come with the name.
fn may_become(cx: &Context, was: &Agent, agent: &Agent, is_new: bool) -> Result<(), Stop> {
    if agent.kind != was.kind && [agent.kind, was.kind].contains(&AgentKind::Human) && !cx.proof.is_confirmed() {
        let why = format!("only a person can register {} as {}", agent.name, agent.kind);
        return Err(refuse(Code::NotAPerson, why));
    }
    let is_reserved = !is_new
        && (was.kind == AgentKind::Human
            || (agent.kind, &agent.lead, &agent.worktree) != (was.kind, &was.lead, &was.worktree));
    if is_reserved && !cx.proof.is_given() {
        let why = match was.kind {
            AgentKind::Human => format!("nothing proves that {} gave this command", agent.name),
            _ => format!("only a person can change the kind, lead or worktree of {}", agent.name),
        };
        return Err(refuse(Code::NotAPerson, why));
    }
    Ok(())
}

impl Rule for Retire {
    type Plan = Agent;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Agent, Stop> {
        let agent = speaker(tables, cx)?;
        let retired = active_agent(tables, &self.name)?;
        if retired.is_person() && !cx.speaks_as_person(&agent) {
            return Err(cx.only_person(&agent, format!("only a person may retire {}, who is one", retired.name)));
        }
        Ok(retired)
    }

    fn apply(agent: Agent, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        // Retired first, so that mail it sent to itself does not produce notices to it.
        let retired = Agent { retired_at: Some(cx.at), ..agent };
        tables.put_agent(&retired)?;
        tables.delete_subscriptions(&retired.name)?;
        context::release_locks(tables, &retired.name)?;
        session::retire_of(tables, cx, &retired.name)?;
        run::retire_of(tables, &retired.name)?;
        workflow::retire_of(tables, cx, &retired.name)?;
        handler::release_of(tables, &retired.name)?;
        let withdrawn = approval::withdraw_of(tables, cx, &retired.name)?;
        reservation::end_all_of(tables, cx, &retired.name)?;
        let own = Address::Agent(retired.name.clone());
        let released =
            release_claims(tables, cx, &retired.name)?.into_iter().filter(|held| held.address != own).count();
        let returned = return_mail(tables, cx, &retired.name)?;
        Ok(Effect::Touched(released + returned + withdrawn))
    }
}

fn release_claims(tables: &mut Tables<'_>, cx: &Context, name: &Name) -> Result<Vec<Delivery>, Error> {
    let held = tables.held_by(name)?;
    for before in &held {
        delivery::release(tables, cx, before)?;
    }
    Ok(held)
}

fn return_mail(tables: &mut Tables<'_>, cx: &Context, name: &Name) -> Result<usize, Error> {
    // In batches: returned deliveries are no longer open, so each query finds the next ones, and memory holds one
    // batch.
    const AT_A_TIME: usize = 1_000;
    let address = Address::Agent(name.clone());
    let mut returned = 0;
    loop {
        let open = tables.open_deliveries_to(&address, AT_A_TIME)?;
        for before in &open {
            delivery::end(tables, cx, before, before.clone(), State::Returned, EndReason::RecipientRetired)?;
        }
        returned += open.len();
        if open.len() < AT_A_TIME {
            return Ok(returned);
        }
    }
}
