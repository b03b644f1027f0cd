//! Sending: resolves addresses to deliveries at this position of the log.

use std::collections::BTreeSet;

use super::delivery::{self, Authority};
use super::notice::{deliver, next_message};
use super::outcome::{Code, Effect, Sent, Stop, refuse};
use super::{Context, Rule, active_agent, approval, handoff, run, speaker, workflow};
use crate::address::Address;
use crate::error::Error;
use crate::limits;
use crate::log::{Artifact, EndsHow, Intent, MessageNo, Position, Proof, Send};
use crate::store::tables::{Agent, Delivery, EndReason, Message, State, Tables, TypeDefaults};
use crate::text::{Label, Name, Topic};
use crate::time::{Timestamp, When};
use crate::vocabulary::TrustLabel;

pub(crate) struct Plan {
    header: Send,
    sender: Agent,
    label: TrustLabel,
    defaults: TypeDefaults,
    deliveries: Vec<Address>,
    topic: Option<Topic>,
    conversation: Option<Label>,
    respond_by: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    ready_at: Option<Timestamp>,
    answers: Option<Delivery>,
    ends: Option<(Delivery, Authority, EndReason)>,
    lease_ms: i64,
    hops: u32,
}

/// What a record may do with its mail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub artifacts_max: usize,
    /// A reply to a retired agent is stored too, without a delivery.
    pub to_retired: bool,
}

impl Terms {
    pub(crate) const MAIL: Self = Self { artifacts_max: limits::ARTIFACTS_MAX, to_retired: false };
}

/// Checks the mail of a record. Rules for records that contain mail among other things start with it.
pub(crate) fn plan(header: &Send, tables: &Tables<'_>, cx: &Context, terms: Terms) -> Result<Plan, Stop> {
    let sender = speaker(tables, cx)?;
    let defaults = tables
        .type_defaults(&header.kind)?
        .ok_or_else(|| refuse(Code::UnknownType, format!("there is no message type {}", header.kind)))?;
    let settings = tables.policy()?.settings;
    if let Some(max) = settings.content_bytes_max.filter(|max| cx.content_bytes > *max) {
        return Err(refuse(Code::TooLarge, format!("this office takes messages of up to {max} bytes")));
    }
    check_artifacts(&header.artifacts, terms.artifacts_max)?;

    let original = header.reply_to.map(|number| delivery::message(tables, number)).transpose()?;
    let (deliveries, topic) = if header.to.is_empty() {
        (reply_address(tables, &sender, original.as_ref(), terms)?.into_iter().collect(), None)
    } else {
        expand(tables, &sender, &header.to)?
    };
    let fan_out_max = settings.fan_out_max.map_or(limits::FAN_OUT_MAX, |max| max as usize).min(limits::FAN_OUT_MAX);
    if deliveries.len() > fan_out_max {
        return Err(refuse(
            Code::TooLarge,
            format!("that would make {} deliveries, at most {fan_out_max} are allowed", deliveries.len()),
        ));
    }

    let ready_at = future(cx, "not-before", header.not_before, true)?;
    let expires_at = future(cx, "the expiry", header.expires, false)?;
    // A message forwarded after its deadline no longer has one.
    let forwards = header.ends.as_ref().is_some_and(|ends| ends.how == EndsHow::Forwarded);
    let respond_by = future(cx, "the response deadline", header.respond_by, forwards)?;
    if let (Some(ready_at), Some(expires_at)) = (ready_at, expires_at)
        && expires_at <= ready_at
    {
        return Err(refuse(Code::TimeOutOfRange, "it would expire before it is delivered"));
    }
    if let (Some(ready_at), Some(respond_by)) = (ready_at, respond_by)
        && respond_by <= ready_at
    {
        let why = format!("the response deadline ({respond_by}) is not after the delivery time ({ready_at})");
        return Err(refuse(Code::TimeOutOfRange, why));
    }

    let answers = match &original {
        // Replying to an approval question does not decide it.
        Some(original) if tables.approval(original.number)?.is_some() => None,
        Some(original) if deliveries.contains(&Address::Agent(original.sender.clone())) => {
            match delivery::own_delivery(tables, &sender, original, None) {
                Ok(own) => Some(own),
                Err(Stop::Rejected(_)) => None, // a reply by a third party is not an answer
                Err(failed) => return Err(failed),
            }
        }
        _ => None,
    };
    let ends = match &header.ends {
        None => None,
        Some(ends) => {
            cx.require_proof(&sender)?;
            let message = delivery::message(tables, ends.message)?;
            approval::must_not_await(tables, ends.message)?;
            let own = delivery::own_delivery(tables, &sender, &message, ends.token)?;
            let authority = delivery::authority(tables, cx, &own, ends.token)?;
            if authority == Authority::Lost {
                return Err(delivery::lease_lost(&own));
            }
            if authority == Authority::Unclaimed && !own.ready {
                return Err(delivery::not_ready(&own));
            }
            if authority == Authority::Unclaimed {
                workflow::must_be_in_order(tables, &own)?;
            }
            if ends.how == EndsHow::Forwarded {
                workflow::refuse_forward(tables, ends.message)?;
            }
            let reason = match ends.how {
                EndsHow::Replied => EndReason::Replied,
                EndsHow::Forwarded => EndReason::Forwarded,
            };
            Some((message.conversation, own, authority, reason))
        }
    };
    let conversation = header
        .conversation
        .clone()
        .or_else(|| original.map(|original| original.conversation))
        .or_else(|| ends.as_ref().map(|(conversation, ..)| conversation.clone()));
    Ok(Plan {
        header: header.clone(),
        label: TrustLabel::of(sender.kind, cx.proof),
        sender,
        defaults,
        deliveries,
        topic,
        conversation,
        respond_by,
        expires_at,
        ready_at,
        answers,
        ends: ends.map(|(_, own, authority, reason)| (own, authority, reason)),
        lease_ms: settings.lease_ms.unwrap_or(limits::LEASE_MS_DEFAULT),
        hops: run::hops(tables, cx.session.as_ref())?,
    })
}

impl Plan {
    pub(crate) fn recipients(&self) -> &[Address] {
        &self.deliveries
    }

    pub(crate) fn is_published(&self) -> bool {
        self.topic.is_some()
    }

    /// Sets the minimum number of runs that the message comes out of, whatever the sender's own run says.
    pub(crate) fn after_hops(self, hops: u32) -> Self {
        Self { hops: self.hops.max(hops), ..self }
    }

    /// Labels the message as written with this proof, instead of that of the record.
    pub(crate) fn proven_by(self, proof: Proof) -> Self {
        Self { label: TrustLabel::of(self.sender.kind, proof), ..self }
    }

    /// The message comments on the one it replies to, without answering it.
    pub(crate) fn answers_nothing(&mut self) {
        self.answers = None;
    }
}

impl Rule for Send {
    type Plan = Plan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Plan, Stop> {
        let mut plan = plan(self, tables, cx, Terms::MAIL)?;
        if handoff::is_about_one(tables, self)? {
            plan.answers_nothing(); // only accepting or rejecting a handoff answers it
        }
        Ok(plan)
    }

    fn apply(plan: Plan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        let header = plan.header;
        let number = next_message(tables);
        let wants_response = header.wants_response.unwrap_or(plan.defaults.response) || plan.respond_by.is_some();
        let message = Message {
            number,
            position: cx.position,
            at: cx.at,
            sender: plan.sender.name.clone(),
            label: plan.label,
            kind: header.kind,
            priority: header.priority.unwrap_or(plan.defaults.priority),
            urgency: plan.defaults.urgency,
            // A message that wants a response asks for work. Otherwise an ack would end it unanswered.
            work: plan.defaults.work || wants_response,
            max_attempts: plan.defaults.max_attempts,
            retry_delay_ms: plan.defaults.retry_delay_ms,
            conversation: plan.conversation.unwrap_or_else(|| Label::of_number(number)),
            reply_to: header.reply_to,
            forward_of: header.ends.filter(|ends| ends.how == EndsHow::Forwarded).map(|ends| ends.message),
            wants_response,
            respond_by: plan.respond_by,
            ready_at: plan.ready_at,
            expires_at: plan.expires_at,
            workflow: header.workflow,
            step: header.step,
            topic: plan.topic,
            notice: None,
            about: None,
            hops: plan.hops,
        };
        tables.delete_closed(&message.conversation)?; // the conversation has something open again
        tables.insert_message(&message)?;
        let mut delivered = Vec::new();
        for address in &plan.deliveries {
            delivered.push((address, deliver(tables, &message, address.clone(), cx.at)?));
        }
        if let Some(topic) = &message.topic {
            tables.count_publication(topic, number, cx.at)?;
        }
        // Only a reply that also ends the step answers it. Other replies, such as a blocker, still go to the workflow's
        // owner.
        let ended = plan.ends.as_ref().map(|(own, ..)| own.number);
        if ended.is_some() && ended == plan.answers.as_ref().map(|answered| answered.number) {
            workflow::settle_answer(tables, cx, &message)?;
        }
        for (address, delivery) in delivered {
            run::tell_of_stop(tables, cx, &message, address, delivery)?;
        }
        let answered = match &plan.answers {
            Some(before) => Some(delivery::answer(tables, cx, before, number)?),
            None => None,
        };
        if let Some((own, authority, reason)) = plan.ends {
            // The reply may have changed the same delivery that it ends.
            let own = answered.filter(|answered| answered.number == own.number).unwrap_or(own);
            finish(tables, cx, own, authority, plan.lease_ms, State::Done, reason)?;
        }
        Ok(Effect::Sent(Sent { number, conversation: message.conversation.to_string(), deliveries: plan.deliveries }))
    }
}

/// Ends a delivery; claims it first if no agent holds it.
pub(crate) fn finish(
    tables: &mut Tables<'_>,
    cx: &Context,
    own: Delivery,
    authority: Authority,
    lease_ms: i64,
    state: State,
    reason: EndReason,
) -> Result<(), Error> {
    let held = match authority {
        Authority::Unclaimed => delivery::take(tables, cx, &own, lease_ms)?,
        Authority::Holder | Authority::Lost => own,
    };
    delivery::end(tables, cx, &held, held.clone(), state, reason)
}

/// The answer to a repeated send.
pub(crate) fn sent_before(tables: &Tables<'_>, number: MessageNo) -> Result<Sent, Error> {
    if let Some(archived) = tables.archived_message(number)? {
        let deliveries = addressed_to(tables, archived.position)?;
        return Ok(Sent { number, conversation: archived.conversation.to_string(), deliveries });
    }
    let message = delivery::expect_message(tables, number)?;
    let deliveries = tables.deliveries_of(number)?.into_iter().map(|delivery| delivery.address).collect();
    Ok(Sent { number, conversation: message.conversation.to_string(), deliveries })
}

/// The addresses of an archived message. Its deliveries left the tables, but its header still names its recipients. A
/// reply that names none goes to the author of the message it replies to.
fn addressed_to(tables: &Tables<'_>, position: Position) -> Result<Vec<Address>, Error> {
    let intent = tables.record(position)?.and_then(|record| record.sealed.intent().ok().flatten());
    let Some(header) = intent.as_ref().and_then(Intent::mail).cloned() else { return Ok(Vec::new()) };
    let Some(original) = header.reply_to.filter(|_| header.to.is_empty()) else { return Ok(header.to) };
    let original = tables.position_of(original)?.map(|position| tables.record(position)).transpose()?.flatten();
    Ok(original.map(|record| Address::Agent(record.sealed.envelope.actor)).into_iter().collect())
}

/// A reply without recipients goes to the sender of the message it answers. Only recipients of that message may send
/// one.
fn reply_address(
    tables: &Tables<'_>,
    sender: &Agent,
    original: Option<&Message>,
    terms: Terms,
) -> Result<Option<Address>, Stop> {
    let Some(original) = original else {
        return Err(refuse(Code::NoRecipient, "the message names no recipient"));
    };
    if original.sender.is_poste() {
        return Err(refuse(
            Code::NoRecipient,
            format!("message {} is a notice of the office, which reads no replies", original.number),
        ));
    }
    delivery::own_delivery(tables, sender, original, None)?;
    if !(terms.to_retired && tables.is_active(original.sender.as_str())? == Some(false)) {
        active_agent(tables, &original.sender)?;
        return Ok(Some(Address::Agent(original.sender.clone())));
    }
    Ok(None)
}

/// Resolves addresses to deliveries, one per recipient, in the order they were named.
fn expand(tables: &Tables<'_>, sender: &Agent, to: &[Address]) -> Result<(Vec<Address>, Option<Topic>), Stop> {
    if to.len() > limits::ADDRESSES_MAX {
        return Err(refuse(Code::TooLarge, format!("more than {} addresses", limits::ADDRESSES_MAX)));
    }
    let mut seen = BTreeSet::new();
    let mut deliveries = Vec::new();
    let mut topic = None;
    let mut add = |address: Address| {
        if seen.insert(address.clone()) {
            deliveries.push(address);
        }
    };
    for address in to {
        let others = |members: Vec<Name>| members.into_iter().filter(|name| *name != sender.name);
        let each: Vec<Name> = match address {
            Address::Agent(name) => {
                if tables.is_active(name.as_str())? != Some(true) {
                    active_agent(tables, name)?; // says why the agent cannot get mail
                }
                add(address.clone());
                continue;
            }
            Address::Role(_) | Address::Can(_) => {
                require_member(tables, sender, address)?;
                add(address.clone());
                continue;
            }
            Address::EveryRole(role) => others(tables.active_with_role(role)?).collect(),
            Address::EveryCan(word) => others(tables.active_with_capability(word)?).collect(),
            Address::Everyone => others(tables.active_readers()?).collect(),
            Address::Topic(name) => {
                if topic.replace(name.clone()).is_some_and(|earlier| earlier != *name) {
                    return Err(refuse(Code::Malformed, "a message is published to one topic"));
                }
                others(tables.subscribers(name)?).collect()
            }
        };
        #[cfg(feature = "sabotage")]
        let each = crate::sabotage::in_order_of_a_map(each);
        each.into_iter().map(Address::Agent).for_each(&mut add);
    }
    Ok((deliveries, topic))
}

/// Refuses a group in which no agent other than the sender could take the message.
pub(crate) fn require_member(tables: &Tables<'_>, sender: &Agent, group: &Address) -> Result<(), Stop> {
    let members = match group {
        Address::Role(role) => tables.active_with_role(role)?,
        Address::Can(word) => tables.active_with_capability(word)?,
        _ => return Ok(()),
    };
    if members.iter().any(|name| *name != sender.name) {
        return Ok(());
    }
    Err(refuse(Code::NoMember, format!("no other active agent could take mail to {group}")))
}

/// Resolves a time against the record's own and requires it to be in the future.
pub(crate) fn future(
    cx: &Context,
    what: &str,
    when: Option<When>,
    past_is_now: bool,
) -> Result<Option<Timestamp>, Stop> {
    let Some(when) = when else { return Ok(None) };
    let at = when.resolve(cx.at);
    if at <= cx.at {
        if past_is_now {
            return Ok(None);
        }
        return Err(refuse(Code::TimeOutOfRange, format!("{what} is in the past ({at})")));
    }
    if at.since_ms(cx.at) > limits::HORIZON_MS_MAX {
        return Err(refuse(Code::TimeOutOfRange, format!("{what} is too far in the future ({at})")));
    }
    Ok(Some(at))
}

pub(crate) fn check_artifacts(artifacts: &[Artifact], max: usize) -> Result<(), Stop> {
    if artifacts.len() > max {
        return Err(refuse(Code::TooLarge, format!("more than {max} artifacts")));
    }
    for artifact in artifacts {
        let lengths = [Some(&artifact.path), artifact.worktree.as_ref()];
        if lengths.into_iter().flatten().any(|path| path.is_empty() || path.len() > limits::PATH_BYTES_MAX) {
            return Err(refuse(Code::Malformed, "an artifact's path is empty or too long"));
        }
        // Gate commands get it as an argument: it must not look like an option or mean a different folder there.
        if artifact.worktree.as_ref().is_some_and(|worktree| !worktree.starts_with('/')) {
            return Err(refuse(Code::Malformed, "the worktree of an artifact must be an absolute path"));
        }
    }
    Ok(())
}
