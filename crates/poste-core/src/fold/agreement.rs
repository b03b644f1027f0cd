//! Agreements: a proposal, its parties, and which of them have agreed. A newer proposal supersedes an older one.

use super::outcome::{AgreedOn, Code, Effect, Stop, refuse};
use super::{Context, Rule, delivery, message, speaker};
use crate::address::Address;
use crate::error::Error;
use crate::log::{Agree, MessageNo, Send};
use crate::store::tables::{Agreed, Message, Party, Tables};
use crate::text::TypeName;

pub(crate) struct Plan {
    proposal: MessageNo,
    /// Set by the first agreement. From then on the parties are fixed.
    new_parties: Option<Vec<Party>>,
    party: Address,
    mail: message::Plan,
}

impl Rule for Agree {
    type Plan = Plan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Plan, Stop> {
        let agent = speaker(tables, cx)?;
        cx.require_proof(&agent)?;
        let proposal = delivery::message(tables, self.message)?;
        if proposal.kind != proposal_type() {
            let (number, kind) = (proposal.number, &proposal.kind);
            let why = format!("message {number} is of type {kind}: only type interface_contract can be agreed on");
            return Err(refuse(Code::NotAllowed, why));
        }
        if let Some(original) = proposal.forward_of {
            let why = format!("message {} forwards message {original}, which is the proposal", proposal.number);
            return Err(refuse(Code::NotAllowed, why));
        }
        not_superseded(tables, &proposal)?;
        let known = tables.parties(proposal.number)?;
        let new_parties = if known.is_empty() { Some(asked(tables, &proposal)?) } else { None };
        let parties = new_parties.as_ref().unwrap_or(&known);
        let own: Vec<&Party> = agent
            .addresses()
            .iter()
            // The sender of a proposal to a group is not a party of that group.
            .filter(|address| !(address.is_group() && proposal.sender == agent.name))
            .filter_map(|address| parties.iter().find(|party| party.party == *address))
            .collect();
        if own.is_empty() {
            let who = &agent.name;
            return Err(refuse(Code::NotRecipient, format!("{who} was not asked about message {}", proposal.number)));
        }
        let Some(party) = own.iter().find(|party| party.agreed.is_none()).map(|party| party.party.clone()) else {
            let how = if proposal.sender == agent.name { "by proposing it" } else { "already" };
            return Err(refuse(
                Code::NothingToDo,
                format!("{} has agreed on message {} {how}", agent.name, proposal.number),
            ));
        };
        still_asked(tables, &proposal, &party)?;
        let proposer = Address::Agent(proposal.sender.clone());
        if self.mail.reply_to != Some(proposal.number) || !(self.mail.to.is_empty() || self.mail.to.contains(&proposer))
        {
            return Err(refuse(Code::Malformed, "an agreement must be a reply to the proposal, sent to its author"));
        }
        Ok(Plan { proposal: proposal.number, new_parties, party, mail: self.mail.decide(tables, cx)? })
    }

    fn apply(plan: Plan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        let effect = Send::apply(plan.mail, tables, cx)?;
        let Some(message) = effect.message() else {
            return Err(Error::Damaged(format!("record {} answered nothing", cx.position)));
        };
        if let Some(parties) = &plan.new_parties {
            tables.insert_parties(plan.proposal, parties)?;
        }
        let agreed = Agreed { agent: cx.actor.clone(), position: cx.position, at: cx.at, message: Some(message) };
        tables.put_agreed(plan.proposal, &plan.party, &agreed)?;
        Ok(Effect::Agreed(sealed(tables, plan.proposal, message)?))
    }
}

/// The answer to a repeated agreement: who has not agreed by now.
pub(super) fn agreed_before(
    tables: &Tables<'_>,
    proposal: MessageNo,
    message: Option<MessageNo>,
) -> Result<AgreedOn, Error> {
    sealed(tables, proposal, message.unwrap_or_default())
}

fn sealed(tables: &Tables<'_>, proposal: MessageNo, message: MessageNo) -> Result<AgreedOn, Error> {
    let missing = tables.parties(proposal)?.into_iter().filter(|party| party.agreed.is_none());
    Ok(AgreedOn { proposal, message, missing: missing.map(|party| party.party).collect() })
}

/// The parties of a proposal: its sender, who has agreed by sending it, and everyone it was delivered to.
pub(crate) fn asked(tables: &Tables<'_>, proposal: &Message) -> Result<Vec<Party>, Error> {
    let sender = Address::Agent(proposal.sender.clone());
    let agreed = Agreed { agent: proposal.sender.clone(), position: proposal.position, at: proposal.at, message: None };
    let mut parties = vec![Party { party: sender.clone(), agreed: Some(agreed) }];
    let others = tables.deliveries_of(proposal.number)?.into_iter().map(|delivery| delivery.address);
    parties.extend(others.filter(|address| *address != sender).map(|party| Party { party, agreed: None }));
    Ok(parties)
}

/// A party that failed or missed the proposal can no longer agree. An agreement must not reopen a closed conversation.
fn still_asked(tables: &Tables<'_>, proposal: &Message, party: &Address) -> Result<(), Stop> {
    let number = proposal.number;
    let own = tables.deliveries_of(number)?.into_iter().find(|delivery| delivery.address == *party);
    if let Some(own) = own.filter(|own| own.state.is_bad_end()) {
        let state = own.state.word();
        return Err(refuse(Code::Ended, format!("message {number} is {state} for {party}, which is no longer asked")));
    }
    if let Some(closed) = tables.closed(&proposal.conversation)? {
        let (conversation, by) = (&proposal.conversation, &closed.by);
        return Err(refuse(Code::Ended, format!("{by} closed the conversation {conversation} of message {number}")));
    }
    Ok(())
}

/// The newest proposal that supersedes this one: sent by one of its parties, in the same conversation.
pub(crate) fn superseded_by(tables: &Tables<'_>, proposal: &Message) -> Result<Option<MessageNo>, Error> {
    let newer = tables.newer_of_type(&proposal.conversation, &proposal.kind, proposal.number)?;
    if newer.is_empty() {
        return Ok(None);
    }
    let mut parties = tables.parties(proposal.number)?;
    if parties.is_empty() {
        parties = asked(tables, proposal)?;
    }
    for (number, sender) in newer {
        let own = tables.agent(sender.as_str())?.map(|agent| agent.addresses()).unwrap_or_default();
        if parties.iter().any(|party| own.contains(&party.party)) {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

fn not_superseded(tables: &Tables<'_>, proposal: &Message) -> Result<(), Stop> {
    match superseded_by(tables, proposal)? {
        None => Ok(()),
        Some(newer) => {
            let older = proposal.number;
            Err(refuse(Code::Superseded, format!("message {newer} is a newer proposal than message {older}")))
        }
    }
}

/// Requires that every party has agreed on a proposal and that no newer one supersedes it.
pub(super) fn must_hold(tables: &Tables<'_>, number: MessageNo) -> Result<(), Stop> {
    let proposal = delivery::message(tables, number)?;
    not_superseded(tables, &proposal)?;
    let parties = tables.parties(number)?;
    let missing: Vec<String> =
        parties.iter().filter(|party| party.agreed.is_none()).map(|party| party.party.to_string()).collect();
    if parties.is_empty() {
        return Err(refuse(Code::NotAgreed, format!("no agent has agreed on message {number}")));
    }
    if !missing.is_empty() {
        let who = missing.join(", ");
        return Err(refuse(Code::NotAgreed, format!("{who} has not agreed on message {number}")));
    }
    Ok(())
}

pub(crate) fn proposal_type() -> TypeName {
    "interface_contract".parse().expect("interface_contract is a built-in type")
}
