//! Approvals: a question is asked as a message and decided once, by the first answer or at its deadline.

use super::delivery::{self, own_delivery};
use super::message::{self, finish, future};
use super::outcome::{Code, Effect, Sent, Stop, refuse};
use super::{Context, Rule, notice, speaker, workflow};
use crate::address::Address;
use crate::error::Error;
use crate::limits;
use crate::log::{ApprovalAnswer, ApprovalAsk, MessageNo, Proof, Send};
use crate::store::tables::{
    Agent, Approval, ApprovalState, Delivery, DueItem, EndReason, Message, Notice, State, Tables,
};
use crate::text::{Label, Name, TypeName, Word};
use crate::time::Timestamp;

const QUESTION: &str = "question";
const PLAN: &str = "plan_approval_request";
const ANSWER: &str = "response";
const PLAN_ANSWER: &str = "plan_approval_response";

pub(crate) struct AskPlan {
    mail: message::Plan,
    plan: bool,
    choices: Vec<Word>,
    default: Option<Word>,
    deadline: Option<Timestamp>,
}

impl Rule for ApprovalAsk {
    type Plan = AskPlan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<AskPlan, Stop> {
        plan(self, tables, cx, false)
    }

    fn apply(plan: AskPlan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        let sent = send(plan.mail, tables, cx)?;
        let conversation = delivery::expect_message(tables, sent.number)?.conversation;
        tables.insert_approval(&Approval {
            number: sent.number,
            position: cx.position,
            at: cx.at,
            asker: cx.actor.clone(),
            conversation,
            plan: plan.plan,
            choices: plan.choices,
            default: plan.default,
            deadline: plan.deadline,
            state: ApprovalState::Open,
            choice: None,
            decided_by: None,
            answer: None,
            ended_at: None,
            ended_by: None,
        })?;
        Ok(Effect::Sent(sent))
    }
}

/// Checks a question. `of_itself`: the asker may also be the one who decides.
pub(crate) fn plan(ask: &ApprovalAsk, tables: &Tables<'_>, cx: &Context, of_itself: bool) -> Result<AskPlan, Stop> {
    let is_plan = match ask.mail.kind.as_str() {
        QUESTION => false,
        PLAN => true,
        _ => return Err(refuse(Code::Malformed, format!("an approval is a {QUESTION} or a {PLAN}"))),
    };
    require_no_times(&ask.mail)?;
    check_choices(&ask.choices)?;
    let deadline = future(cx, "the deadline", ask.deadline, false)?;
    if let Some(default) = &ask.default {
        must_offer(&ask.choices, default)?;
        may_default(tables, &ask.mail.kind, &ask.choices, default)?;
    }
    if ask.default.is_some() && deadline.is_none() {
        return Err(refuse(Code::Malformed, "a default needs a deadline"));
    }
    // Required whatever the office configures for the type: a decision is wanted, and an ack is not one.
    let mail = Send { wants_response: Some(true), ..ask.mail.clone() }.decide(tables, cx)?;
    let recipients = mail.recipients();
    if mail.is_published() {
        return Err(refuse(Code::Malformed, "an approval needs recipients; it cannot be published"));
    }
    if !of_itself && recipients.contains(&Address::Agent(cx.actor.clone())) {
        return Err(refuse(Code::NotAllowed, "you cannot answer your own request"));
    }
    if recipients.is_empty() {
        return Err(refuse(Code::NoRecipient, "there is no agent to ask"));
    }
    if recipients.len() > limits::APPROVAL_RECIPIENTS_MAX {
        let max = limits::APPROVAL_RECIPIENTS_MAX;
        return Err(refuse(Code::TooLarge, format!("an approval may have at most {max} recipients")));
    }
    Ok(AskPlan { mail, plan: is_plan, choices: ask.choices.clone(), default: ask.default.clone(), deadline })
}

impl AskPlan {
    pub(crate) fn recipients(&self) -> &[Address] {
        self.mail.recipients()
    }

    pub(crate) fn after_hops(self, hops: u32) -> Self {
        Self { mail: self.mail.after_hops(hops), ..self }
    }

    pub(crate) fn proven_by(self, proof: Proof) -> Self {
        Self { mail: self.mail.proven_by(proof), ..self }
    }
}

/// An approval has one time, its deadline. Any other would end or hide the question unnoticed.
fn require_no_times(mail: &Send) -> Result<(), Stop> {
    let plain = mail.expires.is_none() && mail.respond_by.is_none() && mail.not_before.is_none() && mail.ends.is_none();
    match plain {
        true => Ok(()),
        false => Err(refuse(Code::Malformed, "an approval has no time but its deadline, and ends no message")),
    }
}

/// A default that approves would let an agent approve its own request by waiting.
fn may_default(tables: &Tables<'_>, kind: &TypeName, choices: &[Word], default: &Word) -> Result<(), Stop> {
    let is_allowed = tables.type_defaults(kind)?.is_some_and(|defaults| defaults.default_approve);
    match is_allowed || !approves(choices, default) {
        true => Ok(()),
        false => {
            Err(refuse(Code::DefaultApproves, format!("{default} approves, so it cannot be the default of a {kind}")))
        }
    }
}

/// Words that approve wherever they stand.
const APPROVING: &[&str] = &[
    "accept", "allow", "approve", "approved", "confirm", "deploy", "do", "go", "merge", "ok", "okay", "proceed",
    "ship", "yes",
];

/// Whether a choice approves: the first one, or a word that does so wherever it stands.
pub fn approves(choices: &[Word], choice: &Word) -> bool {
    choices.first() == Some(choice) || APPROVING.contains(&choice.as_str())
}

fn check_choices(choices: &[Word]) -> Result<(), Stop> {
    let max = limits::APPROVAL_CHOICES_MAX;
    if choices.is_empty() || choices.len() > max {
        return Err(refuse(Code::Malformed, format!("an approval offers 1 to {max} choices")));
    }
    match choices.iter().enumerate().find(|(index, choice)| choices[..*index].contains(choice)) {
        Some((_, twice)) => Err(refuse(Code::Malformed, format!("the choice {twice} is offered twice"))),
        None => Ok(()),
    }
}

fn must_offer(choices: &[Word], choice: &Word) -> Result<(), Stop> {
    if choices.contains(choice) {
        return Ok(());
    }
    Err(refuse(Code::NotOffered, format!("{choice} is not offered; the choices are {}", listed(choices))))
}

fn listed(choices: &[Word]) -> String {
    choices.iter().map(Word::as_str).collect::<Vec<_>>().join(", ")
}

fn send(plan: message::Plan, tables: &mut Tables<'_>, cx: &Context) -> Result<Sent, Error> {
    match Send::apply(plan, tables, cx)? {
        Effect::Sent(sent) => Ok(sent),
        other => Err(Error::Damaged(format!("sending resulted in {other:?}"))),
    }
}

pub(crate) struct AnswerPlan {
    approval: Approval,
    mail: message::Plan,
    /// The answering agent's own delivery, unless a human decides for others.
    own: Option<Delivery>,
    choice: Word,
    lease_ms: i64,
}

impl Rule for ApprovalAnswer {
    type Plan = AnswerPlan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<AnswerPlan, Stop> {
        let agent = speaker(tables, cx)?;
        let Some(number) = self.mail.reply_to else {
            return Err(refuse(Code::Malformed, "an answer must name the question it decides"));
        };
        let Some(approval) = tables.approval(number)? else {
            delivery::message(tables, number)?;
            return Err(refuse(Code::UnknownMessage, format!("message {number} is not an approval request")));
        };
        require_no_times(&self.mail)?;
        if !self.mail.to.is_empty() {
            return Err(refuse(Code::Malformed, "an answer must go to the asker"));
        }
        let kind = if approval.plan { PLAN_ANSWER } else { ANSWER };
        if self.mail.kind != kind {
            return Err(refuse(Code::Malformed, format!("the answer to message {number} must be a {kind}")));
        }
        cx.require_proof(&agent)?;
        // A workflow asks in its owner's name, and may ask the owner itself.
        if approval.asker == agent.name && tables.task(number)?.is_none() {
            return Err(refuse(Code::NotAllowed, "you cannot answer your own request"));
        }
        must_be_open(&approval, cx.at)?;
        let own = answered_delivery(tables, cx, &agent, &approval)?;
        must_offer(&approval.choices, &self.choice)?;
        let mail = Send { to: vec![Address::Agent(approval.asker.clone())], ..self.mail.clone() };
        let lease_ms = tables.policy()?.settings.lease_ms.unwrap_or(limits::LEASE_MS_DEFAULT);
        Ok(AnswerPlan { mail: mail.decide(tables, cx)?, approval, own, choice: self.choice.clone(), lease_ms })
    }

    fn apply(plan: AnswerPlan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        let AnswerPlan { approval, mail, own, choice, lease_ms } = plan;
        let sent = send(mail, tables, cx)?;
        workflow::settle_answer(tables, cx, &delivery::expect_message(tables, sent.number)?)?;
        let decided = Approval {
            state: ApprovalState::Answered,
            choice: Some(choice),
            decided_by: Some(cx.actor.clone()),
            answer: Some(sent.number),
            ..approval.clone()
        };
        end(tables, cx, &approval, decided)?;
        let message = delivery::expect_message(tables, approval.number)?;
        for open in open_deliveries(tables, approval.number)? {
            if own.as_ref().is_some_and(|own| own.number == open.number) {
                let authority = match open.state {
                    State::Claimed => delivery::Authority::Holder,
                    _ => delivery::Authority::Unclaimed,
                };
                let answered = delivery::answer(tables, cx, &open, sent.number)?;
                finish(tables, cx, answered, authority, lease_ms, State::Done, EndReason::Replied)?;
            } else {
                delivery::end(tables, cx, &open, open.clone(), State::Done, EndReason::Settled)?;
                tell_holder(tables, cx, &message, &open)?;
            }
        }
        Ok(Effect::Sent(sent))
    }
}

/// The delivery that an answer ends. An agent answers what was sent to it and is not held by another agent. A human may
/// decide for anyone, just as a human may retry and close mail of others.
///
/// Unlike work, an answer takes effect at once. It needs no token, and it is not refused because the claim ran out
/// while its holder was thinking.
fn answered_delivery(
    tables: &Tables<'_>,
    cx: &Context,
    agent: &Agent,
    approval: &Approval,
) -> Result<Option<Delivery>, Stop> {
    let message = delivery::message(tables, approval.number)?;
    let found = own_delivery(tables, agent, &message, None).and_then(|own| match own.state {
        State::Claimed if own.holder.as_ref() != Some(&agent.name) => Err(delivery::held_by(&own)),
        State::Pending | State::Claimed => Ok(own),
        _ => Err(delivery::ended(&own)),
    });
    match found {
        Ok(own) => Ok(Some(own)),
        Err(Stop::Rejected(_)) if cx.speaks_as_person(agent) => Ok(None),
        Err(stop) => Err(stop),
    }
}

/// A question is decided once, and not after its deadline, even if no tick has settled that yet.
fn must_be_open(approval: &Approval, now: Timestamp) -> Result<(), Stop> {
    let number = approval.number;
    let choice = approval.choice.as_ref().map(Word::as_str).unwrap_or_default();
    let why = match approval.state {
        ApprovalState::Open => match approval.deadline.filter(|deadline| *deadline <= now) {
            None => return Ok(()),
            Some(deadline) => late(deadline, approval.default.as_ref()),
        },
        ApprovalState::Answered => {
            let by = approval.decided_by.as_ref().map(Name::as_str).unwrap_or_default();
            format!("was already decided by {by}: {choice}")
        }
        ApprovalState::Defaulted | ApprovalState::Unanswered => {
            late(approval.deadline.unwrap_or(now), approval.choice.as_ref())
        }
        ApprovalState::Closed => "was closed with its conversation".to_owned(),
        ApprovalState::Withdrawn => format!("was withdrawn: {} is retired", approval.asker),
    };
    Err(refuse(Code::Ended, format!("question {number} {why}")))
}

fn late(deadline: Timestamp, default: Option<&Word>) -> String {
    match default {
        Some(default) => format!("had to be decided by {deadline}; its default was applied: {default}"),
        None => format!("had to be decided by {deadline}, and has no default"),
    }
}

fn open_deliveries(tables: &Tables<'_>, number: MessageNo) -> Result<Vec<Delivery>, Error> {
    let mut open = tables.deliveries_of(number)?;
    open.retain(|delivery| delivery.state.is_open());
    Ok(open)
}

fn end(tables: &mut Tables<'_>, cx: &Context, before: &Approval, after: Approval) -> Result<(), Error> {
    let after = Approval { ended_at: Some(cx.at), ended_by: Some(cx.position), ..after };
    tables.end_approval(before, &after)
}

/// Notifies the holder, which would otherwise keep working for nothing.
fn tell_holder(tables: &mut Tables<'_>, cx: &Context, message: &Message, before: &Delivery) -> Result<(), Error> {
    match delivery::holder(before).filter(|holder| *holder != cx.actor) {
        Some(holder) => notice::tell(tables, cx, Address::Agent(holder), Notice::Settled, message, before),
        None => Ok(()),
    }
}

/// The deadline passed: the default becomes the decision, or there is none. Notifies both sides.
pub(crate) fn settle(tables: &mut Tables<'_>, cx: &Context, item: DueItem) -> Result<(), Error> {
    let number = MessageNo(item.subject);
    let Some(approval) = tables.approval(number)? else {
        return Err(Error::Damaged(format!("approval {number} is due but does not exist")));
    };
    if !approval.is_open() || approval.deadline != Some(item.at) {
        return Err(Error::Damaged(format!("approval {number} is {}, but its deadline is due", approval.state)));
    }
    let (state, how, reason, told) = match &approval.default {
        Some(_) => (ApprovalState::Defaulted, State::Done, EndReason::Defaulted, Notice::Defaulted),
        None => (ApprovalState::Unanswered, State::Expired, EndReason::Unanswered, Notice::Unanswered),
    };
    end(tables, cx, &approval, Approval { state, choice: approval.default.clone(), ..approval.clone() })?;
    let message = delivery::expect_message(tables, number)?;
    let asked = tables.deliveries_of(number)?;
    if let Some(first) = asked.first() {
        notice::tell(tables, cx, Address::Agent(approval.asker.clone()), told, &message, first)?;
    }
    for open in asked.into_iter().filter(|delivery| delivery.state.is_open()) {
        delivery::end(tables, cx, &open, open.clone(), how, reason)?;
        let to = delivery::holder(&open).map_or_else(|| open.address.clone(), Address::Agent);
        notice::tell(tables, cx, to, told, &message, &open)?;
    }
    Ok(())
}

/// Withdraws the questions of a retiring asker: no one waits for the decision.
pub(crate) fn withdraw_of(tables: &mut Tables<'_>, cx: &Context, asker: &Name) -> Result<usize, Error> {
    let mut returned = 0;
    for approval in tables.open_approvals_of(asker)? {
        end(tables, cx, &approval, Approval { state: ApprovalState::Withdrawn, ..approval.clone() })?;
        let message = delivery::expect_message(tables, approval.number)?;
        for open in open_deliveries(tables, approval.number)? {
            delivery::end(tables, cx, &open, open.clone(), State::Returned, EndReason::Withdrawn)?;
            tell_holder(tables, cx, &message, &open)?;
            returned += 1;
        }
    }
    Ok(returned)
}

/// Closes the questions of a conversation. Called before its deliveries are returned, which notifies the asker. If none
/// is open, only this function can notify it.
pub(crate) fn close_in(tables: &mut Tables<'_>, cx: &Context, conversation: &Label) -> Result<(), Error> {
    for approval in tables.open_approvals_in(conversation)? {
        end(tables, cx, &approval, Approval { state: ApprovalState::Closed, ..approval.clone() })?;
        let asked = tables.deliveries_of(approval.number)?;
        let is_told = asked.iter().any(|delivery| delivery.state.is_open()) || approval.asker == cx.actor;
        if let Some(about) = asked.last().filter(|_| !is_told) {
            let message = delivery::expect_message(tables, approval.number)?;
            let asker = Address::Agent(approval.asker.clone());
            notice::tell(tables, cx, asker, Notice::Unanswered, &message, about)?;
        }
    }
    Ok(())
}

/// Closes the question of a task that was stopped. The caller returns its deliveries.
pub(crate) fn close_one(tables: &mut Tables<'_>, cx: &Context, number: MessageNo) -> Result<(), Error> {
    match tables.approval(number)?.filter(Approval::is_open) {
        None => Ok(()),
        Some(open) => end(tables, cx, &open, Approval { state: ApprovalState::Closed, ..open.clone() }),
    }
}

/// Closes the open questions of a conversation that is archived: no one was left to decide them. The asker was notified
/// when each delivery ended.
pub(crate) fn archive_in(tables: &mut Tables<'_>, cx: &Context, conversation: &Label) -> Result<(), Error> {
    for approval in tables.open_approvals_in(conversation)? {
        end(tables, cx, &approval, Approval { state: ApprovalState::Closed, ..approval.clone() })?;
    }
    Ok(())
}

/// `done`, `reply --done` and `forward` would end a question without deciding it.
pub(crate) fn must_not_await(tables: &Tables<'_>, number: MessageNo) -> Result<(), Stop> {
    match tables.approval(number)?.filter(Approval::is_open) {
        None => Ok(()),
        Some(approval) => {
            Err(refuse(Code::NeedsAnswer, format!("message {number} needs a decision: {}", listed(&approval.choices))))
        }
    }
}

/// Only a question that can still be decided may be retried.
pub(crate) fn may_be_retried(tables: &Tables<'_>, number: MessageNo, now: Timestamp) -> Result<(), Stop> {
    tables.approval(number)?.map_or(Ok(()), |approval| must_be_open(&approval, now))
}
