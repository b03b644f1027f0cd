//! What the fold tells people by itself: messages from `poste`, numbered like any other.

use super::Context;
use crate::address::Address;
use crate::error::Error;
use crate::log::{DeliveryNo, MessageNo};
use crate::store::tables::{Delivery, Message, Notice, State, Tables};
use crate::text::{Name, TypeName};
use crate::time::Timestamp;
use crate::vocabulary::{Priority, TrustLabel, Urgency};

/// Writes a notice about a delivery to an agent. A retired agent or the office itself is told nothing.
pub(crate) fn tell(
    tables: &mut Tables<'_>,
    cx: &Context,
    to: &Name,
    notice: Notice,
    about_message: &Message,
    about: &Delivery,
) -> Result<(), Error> {
    let listens = tables.agent(to.as_str())?.is_some_and(|agent| agent.is_active());
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
    };
    tables.insert_message(&message)?;
    deliver(tables, &message, Address::Agent(to.clone()), cx.at)?;
    Ok(())
}

fn notice_type() -> TypeName {
    "alert".parse().expect("alert is a built-in type")
}

pub(crate) fn next_message(tables: &mut Tables<'_>) -> MessageNo {
    let number = tables.cursor.message_last.next();
    tables.cursor.message_last = number;
    number
}

/// Makes one delivery of a message, with the times the message has.
pub(crate) fn deliver(
    tables: &mut Tables<'_>,
    message: &Message,
    address: Address,
    now: Timestamp,
) -> Result<DeliveryNo, Error> {
    let ready_at = message.ready_at.filter(|at| *at > now);
    let number = tables.cursor.delivery_last.next();
    tables.cursor.delivery_last = number;
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
        shown_at: None,
        acked_at: None,
        answer: None,
        answered_at: None,
        ended_at: None,
        ended_by: None,
        reason: None,
    })?;
    Ok(number)
}
