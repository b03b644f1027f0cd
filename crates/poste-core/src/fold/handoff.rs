//! Handoffs: offered, then accepted, rejected or withdrawn. Nothing else ends one successfully.

use std::collections::BTreeSet;

use super::message::{self, Terms};
use super::outcome::{Code, Effect, Stop, refuse};
use super::{Context, Rule, delivery, notice, speaker};
use crate::address::Address;
use crate::error::Error;
use crate::limits;
use crate::log::{
    Artifact, ArtifactState, EndsHow, HandoffAccept, HandoffCreate, HandoffReject, HandoffWithdraw, MessageNo, Send,
    Verified,
};
use crate::store::tables::{Delivery, EndReason, Handoff, HandoffState, Notice, State, Tables};
use crate::text::is_path_below;

/// The message types of handoffs.
pub(crate) const REQUEST: &str = "handoff_request";
pub(crate) const ACCEPTED: &str = "handoff_accepted";
pub(crate) const REJECTED: &str = "handoff_rejected";

pub(crate) struct CreatePlan {
    mail: message::Plan,
    recipient: Address,
    checks: u32,
    verifies: u32,
}

impl Rule for HandoffCreate {
    type Plan = CreatePlan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<CreatePlan, Stop> {
        let recipient = match self.mail.to.as_slice() {
            [one @ (Address::Agent(_) | Address::Role(_) | Address::Can(_))] => one.clone(),
            _ => {
                let why = "a handoff goes to one agent, one role or one capability";
                return Err(refuse(Code::Malformed, why));
            }
        };
        if recipient == Address::Agent(cx.actor.clone()) {
            return Err(refuse(Code::NotAllowed, "you cannot hand over to yourself"));
        }
        // Required whatever the office configures for the type: otherwise an ack would end the handoff.
        if self.mail.kind.as_str() != REQUEST || self.mail.wants_response != Some(true) || self.mail.ends.is_some() {
            return Err(refuse(Code::Malformed, format!("a handoff is a {REQUEST} that wants a response")));
        }
        if self.checks > limits::HANDOFF_CHECKS_MAX || self.verifies > limits::HANDOFF_VERIFIES_MAX {
            let (checks, verifies) = (limits::HANDOFF_CHECKS_MAX, limits::HANDOFF_VERIFIES_MAX);
            return Err(refuse(Code::TooLarge, format!("more than {checks} checks or {verifies} commands")));
        }
        let is_place = |path: &String| path.starts_with('/') && path.len() <= limits::PATH_BYTES_MAX;
        if !self.worktree.as_ref().is_none_or(is_place) {
            return Err(refuse(Code::Malformed, "a worktree must be an absolute path"));
        }
        let terms = Terms { artifacts_max: limits::HANDOFF_ARTIFACTS_MAX, ..Terms::MAIL };
        let mut mail = message::plan(&self.mail, tables, cx, terms)?;
        check_files(&self.mail.artifacts)?;
        if is_about_one(tables, &self.mail)? {
            mail.answers_nothing();
        }
        Ok(CreatePlan { mail, recipient, checks: self.checks, verifies: self.verifies })
    }

    fn apply(plan: CreatePlan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        let effect = Send::apply(plan.mail, tables, cx)?;
        tables.insert_handoff(&Handoff {
            number: effect.message().unwrap_or_default(),
            position: cx.position,
            at: cx.at,
            sender: cx.actor.clone(),
            recipient: plan.recipient,
            checks: plan.checks,
            verifies: plan.verifies,
            state: HandoffState::Pending,
            overridden: false,
            decision: None,
            decided_at: None,
            decided_by: None,
            answer: None,
        })?;
        Ok(effect)
    }
}

/// A package holds copies of its files, each under its own path inside the package.
fn check_files(files: &[Artifact]) -> Result<(), Stop> {
    let mut seen = BTreeSet::new();
    for file in files {
        let path = crate::text::quoted(&file.path);
        if file.state != ArtifactState::Attached || file.size.is_none() || file.digest.is_none() {
            return Err(refuse(Code::Malformed, format!("a handoff contains copies, but has none of {path}")));
        }
        if !is_path_below(&file.path) {
            return Err(refuse(Code::Malformed, format!("{path} is not a path below a folder")));
        }
        if !seen.insert(&file.path) {
            return Err(refuse(Code::Malformed, format!("{path} is listed twice")));
        }
    }
    Ok(())
}

pub(crate) struct AnswerPlan {
    mail: message::Plan,
    handoff: Handoff,
    state: HandoffState,
    overridden: bool,
}

impl AnswerPlan {
    fn apply(self, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        let effect = Send::apply(self.mail, tables, cx)?;
        tables.decide_handoff(&Handoff {
            state: self.state,
            overridden: self.overridden,
            decision: Some(cx.position),
            decided_at: Some(cx.at),
            decided_by: Some(cx.actor.clone()),
            answer: effect.message(),
            ..self.handoff
        })?;
        Ok(effect)
    }
}

impl Rule for HandoffAccept {
    type Plan = AnswerPlan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<AnswerPlan, Stop> {
        let (handoff, mail) = decide_answer(tables, cx, &self.mail, ACCEPTED)?;
        if handoff.sender == cx.actor {
            return Err(refuse(Code::NotAllowed, "you cannot accept your own handoff"));
        }
        check_marks(&self.checked, handoff.checks)?;
        if self.verified.len() > handoff.verifies as usize || self.gates.len() > limits::GATES_MAX {
            return Err(refuse(Code::Malformed, "there are more results than commands"));
        }
        if self.overridden && cx.content_bytes == 0 {
            return Err(refuse(Code::Malformed, "an override needs a reason"));
        }
        if self.overridden && !cx.proof.is_confirmed() {
            let why = format!("only a person can accept handoff {} without its checks", handoff.number);
            return Err(refuse(Code::NotAPerson, why));
        }
        if let Some(missing) = self.missing(&handoff).filter(|_| !self.overridden) {
            return Err(refuse(Code::Unverified, missing));
        }
        Ok(AnswerPlan { mail, handoff, state: HandoffState::Accepted, overridden: self.overridden })
    }

    fn apply(plan: AnswerPlan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        plan.apply(tables, cx)
    }
}

impl HandoffAccept {
    /// The first missing or failed requirement, as a sentence.
    fn missing(&self, handoff: &Handoff) -> Option<String> {
        let number = handoff.number;
        let open: Vec<String> =
            (1..=handoff.checks).filter(|check| !self.checked.contains(check)).map(|check| check.to_string()).collect();
        if !open.is_empty() {
            return Some(format!("these checks of handoff {number} are not done: {}", open.join(", ")));
        }
        let failed = |results: &[Verified]| results.iter().position(|result| !result.ok).map(|index| index + 1);
        if let Some(command) = failed(&self.verified) {
            return Some(format!("command {command} of handoff {number} failed"));
        }
        if self.verified.len() < handoff.verifies as usize {
            return Some(format!("not every command of handoff {number} was run"));
        }
        failed(&self.gates).map(|gate| format!("handoff {number} does not pass gate {gate} of the receiver"))
    }
}

fn check_marks(checked: &[u32], checks: u32) -> Result<(), Stop> {
    let mut seen = BTreeSet::new();
    for mark in checked {
        if !(1..=checks).contains(mark) {
            return Err(refuse(Code::Malformed, format!("there is no check {mark}; the handoff has {checks}")));
        }
        if !seen.insert(mark) {
            return Err(refuse(Code::Malformed, format!("check {mark} is named twice")));
        }
    }
    Ok(())
}

impl Rule for HandoffReject {
    type Plan = AnswerPlan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<AnswerPlan, Stop> {
        let (handoff, mail) = decide_answer(tables, cx, &self.mail, REJECTED)?;
        if cx.content_bytes == 0 {
            return Err(refuse(Code::Malformed, "a rejection needs a reason"));
        }
        Ok(AnswerPlan { mail, handoff, state: HandoffState::Rejected, overridden: false })
    }

    fn apply(plan: AnswerPlan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        plan.apply(tables, cx)
    }
}

/// Checks the answer to a pending handoff: it goes to the sender and ends the receiver's own delivery.
fn decide_answer(tables: &Tables<'_>, cx: &Context, mail: &Send, kind: &str) -> Result<(Handoff, message::Plan), Stop> {
    let ends = mail.ends.as_ref().filter(|ends| ends.how == EndsHow::Replied && mail.reply_to == Some(ends.message));
    let Some(ends) = ends.filter(|_| mail.kind.as_str() == kind && mail.to.is_empty()) else {
        return Err(refuse(Code::Malformed, format!("a handoff is answered with a {kind} that ends it")));
    };
    let handoff = waiting(tables, ends.message)?;
    // The sender may have retired since. That must not keep the receiver from taking the work.
    let plan = message::plan(mail, tables, cx, Terms { to_retired: true, ..Terms::MAIL })?;
    Ok((handoff, plan))
}

/// A pending handoff that can still be decided.
fn waiting(tables: &Tables<'_>, number: MessageNo) -> Result<Handoff, Stop> {
    let Some(handoff) = tables.handoff(number)? else {
        delivery::message(tables, number)?;
        return Err(refuse(Code::NoHandoff, format!("message {number} is not a handoff")));
    };
    if handoff.state == HandoffState::Pending {
        return Ok(handoff);
    }
    let by = handoff.decided_by.map(|name| format!(" by {name}")).unwrap_or_default();
    Err(refuse(Code::Ended, format!("handoff {number} is already {}{by}", handoff.state)))
}

impl Rule for HandoffWithdraw {
    type Plan = (Handoff, Vec<Delivery>);

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Self::Plan, Stop> {
        let agent = speaker(tables, cx)?;
        let handoff = waiting(tables, self.message)?;
        if handoff.sender != agent.name && !cx.speaks_as_person(&agent) {
            let why = format!("only {} or a human may withdraw handoff {}", handoff.sender, handoff.number);
            return Err(cx.only_person(&agent, why));
        }
        let mut open = tables.deliveries_of(self.message)?;
        open.retain(|delivery| delivery.state.is_open());
        Ok((handoff, open))
    }

    fn apply((handoff, open): Self::Plan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        for before in &open {
            delivery::end(tables, cx, before, before.clone(), State::Returned, EndReason::Withdrawn)?;
            // It ended on request, so it is not a dead letter.
            if let Some(ended) = tables.delivery(before.number)? {
                delivery::drop_it(tables, cx, &ended)?;
            }
            tell_receiver(tables, cx, before)?;
        }
        tables.decide_handoff(&Handoff {
            state: HandoffState::Withdrawn,
            decision: Some(cx.position),
            decided_at: Some(cx.at),
            decided_by: Some(cx.actor.clone()),
            ..handoff
        })?;
        Ok(Effect::Touched(open.len()))
    }
}

/// Notifies the receiver, whether it claimed the handoff or only has it in its inbox. In a group, only the holder.
fn tell_receiver(tables: &mut Tables<'_>, cx: &Context, before: &Delivery) -> Result<(), Error> {
    let receiver = match &before.address {
        Address::Agent(name) => Some(name.clone()),
        _ => delivery::holder(before),
    };
    let Some(receiver) = receiver.filter(|name| *name != cx.actor) else { return Ok(()) };
    let message = delivery::expect_message(tables, before.message)?;
    notice::tell(tables, cx, Address::Agent(receiver), Notice::Withdrawn, &message, before)
}

/// Whether mail is about a handoff. Ordinary mail neither ends a handoff nor counts as its answer, before or after the
/// decision.
pub(crate) fn is_about_one(tables: &Tables<'_>, mail: &Send) -> Result<bool, Stop> {
    if let Some(ends) = &mail.ends {
        refuse_plain_end(tables, ends.message)?;
    }
    let Some(number) = mail.reply_to else { return Ok(false) };
    if tables.handoff(number)?.is_none() {
        return Ok(false);
    }
    if [ACCEPTED, REJECTED].contains(&mail.kind.as_str()) {
        return Err(is_handoff(number));
    }
    Ok(true)
}

/// A handoff that is done, replied to or forwarded would look accepted although no one checked it.
pub(crate) fn refuse_plain_end(tables: &Tables<'_>, number: MessageNo) -> Result<(), Stop> {
    match tables.handoff(number)? {
        Some(_) => Err(is_handoff(number)),
        None => Ok(()),
    }
}

fn is_handoff(number: MessageNo) -> Stop {
    refuse(Code::IsHandoff, format!("message {number} is a handoff: it must be accepted or rejected"))
}

/// A decided handoff cannot be retried; the sender offers a new one instead.
pub(crate) fn refuse_second_life(tables: &Tables<'_>, number: MessageNo) -> Result<(), Stop> {
    match tables.handoff(number)? {
        Some(handoff) if handoff.decision.is_some() => {
            Err(refuse(Code::Ended, format!("handoff {number} is already {}", handoff.state)))
        }
        _ => Ok(()),
    }
}
