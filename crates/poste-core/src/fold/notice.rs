//! Notices: messages that the fold itself sends as `poste`, numbered like any other message.

use super::{Context, workflow};
use crate::address::Address;
use crate::error::Error;
use crate::log::{DeliveryNo, MessageNo};
use crate::store::tables::{Delivery, Message, Notice, State, Tables};
use crate::text::{Name, TypeName, Word};
use crate::time::Timestamp;
use crate::vocabulary::{Priority, TrustLabel, Urgency};

/// Sends a notice about a delivery. Sends nothing to a retired agent, a group without active members or the office
/// itself, and nothing about a message that is itself a notice.
pub(crate) fn tell(
    tables: &mut Tables<'_>,
    cx: &Context,
    to: Address,
    notice: Notice,
    about_message: &Message,
    about: &Delivery,
) -> Result<(), Error> {
    let listens = match &to {
        Address::Agent(name) => tables.agent(name.as_str())?.is_some_and(|agent| agent.is_active()),
        // A notice without a reader would keep its conversation open forever.
        Address::Role(role) => !tables.active_with_role(role)?.is_empty(),
        Address::Can(word) => !tables.active_with_capability(word)?.is_empty(),
        _ => true,
    };
    if !listens || about_message.notice.is_some() {
        return Ok(());
    }
    let message = Message {
        number: next_message(tables),
        position: cx.position,
        at: cx.at,
        sender: Name::poste(),
        label: TrustLabel::Poste,
        kind: notice_type(),
        priority: Priority::High,
        urgency: Urgency::Now,
        work: false,
        max_attempts: about_message.max_attempts,
        retry_delay_ms: about_message.retry_delay_ms,
        conversation: about_message.conversation.clone(),
        reply_to: Some(about_message.number),
        forward_of: None,
        wants_response: false,
        respond_by: None,
        ready_at: None,
        expires_at: None,
        workflow: about_message.workflow.clone(),
        step: about_message.step.clone(),
        topic: None,
        notice: Some(notice),
        about: Some(about.number),
        hops: 0,
    };
    tables.insert_message(&message)?;
    deliver(tables, &message, to, cx.at)?;
    Ok(())
}

/// The lead of a delivery's recipient: the active lead it is registered with, else the role `lead`. Never the recipient
/// or the sender.
pub(crate) fn lead_of(tables: &Tables<'_>, message: &Message, delivery: &Delivery) -> Result<Option<Address>, Error> {
    let recipient = match &delivery.address {
        Address::Agent(name) => Some(name.clone()),
        _ => delivery.holder.clone(),
    };
    let agent = recipient.as_ref().map(|name| tables.agent(name.as_str())).transpose()?.flatten();
    let is_other = |name: &Name| *name != message.sender && Some(name) != recipient.as_ref();
    let lead = agent.and_then(|agent| agent.lead).map(|name| tables.agent(name.as_str())).transpose()?.flatten();
    if let Some(lead) = lead.filter(|lead| lead.is_active()) {
        return Ok(Some(lead.name).filter(is_other).map(Address::Agent));
    }
    let role: Word = "lead".parse().expect("lead is a word");
    let leads = tables.active_with_role(&role)?;
    Ok(leads.iter().all(is_other).then_some(Address::Role(role)).filter(|_| !leads.is_empty()))
}

fn notice_type() -> TypeName {
    "alert".parse().expect("alert is a built-in type")
}

pub(crate) fn next_message(tables: &mut Tables<'_>) -> MessageNo {
    let number = tables.cursor.message_last.next();
    tables.cursor.message_last = number;
    number
}

/// Creates one delivery of a message, with the message's times.
pub(crate) fn deliver(
    tables: &mut Tables<'_>,
    message: &Message,
    address: Address,
    now: Timestamp,
) -> Result<DeliveryNo, Error> {
    let ready_at = message.ready_at.filter(|at| *at > now);
    let number = tables.cursor.delivery_last.next();
    tables.cursor.delivery_last = number;
    // First, so that no agent is rung for a step that an earlier one holds up.
    workflow::number_delivery(tables, message, number)?;
    tables.insert_delivery(&Delivery {
        number,
        message: message.number,
        address,
        state: State::Pending,
        ready: ready_at.is_none(),
        priority: message.priority,
        attempts: 0,
        claims: 0,
        token: None,
        holder: None,
        session: None,
        lease_until: None,
        ready_at,
        expires_at: message.expires_at,
        respond_by: message.respond_by.filter(|at| *at > now),
        reminded_at: None,
        shown_at: None,
        acked_at: None,
        answer: None,
        answered_at: None,
        ended_at: None,
        ended_by: None,
        reason: None,
        dropped_at: None,
    })?;
    Ok(number)
}
