//! Hints for refusals: the nearest names, the next command.

use poste_core::log::{ContextReplace, Intent, MessageNo, Proposal};
use poste_core::office::Office;
use poste_core::text::{Name, TypeName};
use poste_core::views;

use crate::{Error, Result, person};

/// How a person lets questions of this type be approved by their default.
pub(crate) fn allow_default(error: Error, kind: &TypeName) -> Error {
    error
        .hint("let another choice be the default, or ask without one")
        .hint(format!("or allow it in poste.toml, which a person trusts: [types.{kind}] default_approve = true"))
}

/// Adds hints to a refusal: the nearest names, the next command.
pub fn explain(office: &Office, proposal: &Proposal, error: Error) -> Result<Error> {
    let mail = proposal.intent.mail();
    for address in mail.iter().flat_map(|mail| &mail.to) {
        if let poste_core::Address::Agent(name) = address
            && office.agent(name)?.is_none()
        {
            return unknown_agent(office, name);
        }
    }
    let number = match &proposal.intent {
        Intent::Retire(retire) if office.agent(&retire.name)?.is_none() => {
            return unknown_agent(office, &retire.name);
        }
        Intent::Unreserve(released) => {
            if let Some(holder) = &released.holder
                && office.agent(holder)?.is_none()
            {
                return unknown_agent(office, holder);
            }
            None
        }
        Intent::Claim(claim) => claim.message,
        Intent::Done(done) => Some(done.message),
        Intent::Fail(fail) => Some(fail.message),
        Intent::Release(release) => Some(release.message),
        Intent::Extend(extend) => Some(extend.message),
        Intent::GateResult(result) => Some(result.message),
        Intent::Wake(wake) => Some(wake.message),
        Intent::Ack(ack) => Some(ack.message),
        Intent::Retry(retry) => Some(retry.message),
        Intent::Drop(drop) => Some(drop.message),
        Intent::Close(close) => Some(close.message),
        Intent::HandoffWithdraw(withdraw) => Some(withdraw.message),
        _ => mail.and_then(|mail| mail.ends.as_ref().map(|ends| ends.message).or(mail.reply_to)),
    };
    if let Intent::Register(register) = &proposal.intent {
        let lead = register.lead.as_ref().filter(|lead| **lead != proposal.actor);
        if let Some(lead) = lead
            && office.agent(lead)?.is_none()
        {
            return unknown_agent(office, lead);
        }
    } else if office.agent(&proposal.actor)?.is_none() {
        return unknown_agent(office, &proposal.actor);
    }
    let code = error.code.unwrap_or_default();
    // Only refusals about a message use its number.
    let n = number.unwrap_or_default();
    let held = views::held_token(office.store(), &proposal.actor, number)?;
    Ok(match code {
        "unknown_type" => match mail {
            Some(mail) => check_filters(office, Some(&mail.kind), None).err().unwrap_or(error),
            None => error,
        },
        "archived" => {
            let conversation =
                number.map(|number| views::conversation_of(office.store(), number)).transpose()?.flatten();
            match conversation {
                Some(conversation) => error.hint(
                    note!("continue with a new message: " [send, to = "NAME", subject = "SUBJECT", conversation = conversation]),
                ),
                None => error,
            }
        }
        "not_allowed" => match &proposal.intent {
            Intent::Close(_) => error.hint(note!("see its participants: " [thread, conversation = n.to_string(), summary = true])),
            Intent::Retry(_) | Intent::Drop(_) | Intent::HandoffWithdraw(_) => {
                error.hint(note!("see whose it is: " [track, number = n]))
            }
            Intent::Unreserve(_) => {
                error.hint(
                    note!("ask the holder: " [send, to = "NAME", subject = "SUBJECT", r#type = "resource_conflict"]),
                )
            }
            Intent::SessionNote(_) => error.hint(note!("start a session below it: " [session start, parent = "ID"])),
            Intent::Redact(_) => error.hint("ask its author or a human; each record of a message has its own author"),
            _ => error,
        },
        "not_a_person" => person::with_hints(error),
        "default_approves" => match mail {
            Some(mail) => allow_default(error, &mail.kind),
            None => error,
        },
        "nothing_to_do" if matches!(proposal.intent, Intent::Retry(_) | Intent::Drop(_)) => {
            error.hint(note!("see its state: " [track, number = n]))
        }
        "needs_answer" => error.hint(
            note!("decide it: " [approve, number = n] ", or " [deny, number = n] "; talk about it first: " [reply, number = n, body = "TEXT"]),
        ),
        "not_reserved" => error.hint(note!("see who holds what: " [reservations])),
        "is_handoff" => error
            .hint(
                note!("accept it: " [handoff accept, number = n] "; reject it: " [handoff reject, number = n, reason = "TEXT"]),
            )
            .hint(note!("or just comment: " [reply, number = n, body = "TEXT"])),
        "no_handoff" => error.hint(note!("read it: " [read, number = n] "; list handoffs: " [handoff list])),
        "unverified" => error.hint(note!("see what it requires: " [handoff show, number = n])),
        "ended" if matches!(proposal.intent, Intent::HandoffWithdraw(_)) => {
            error.hint(note!("see the outcome: " [handoff show, number = n]))
        }
        "ended" if matches!(proposal.intent, Intent::WorkflowEnd(_) | Intent::WorkflowRetry(_)) => {
            error.hint(note!("list workflows: " [workflow list, all = true]))
        }
        "ended" if matches!(proposal.intent, Intent::Agree(_)) => error
            .hint(note!("see its state: " [agreement, number = n] "; " [track, number = n]))
            .hint(
                note!("if it is still needed, propose it again: " [send, to = "NAME", subject = "SUBJECT", r#type = "interface_contract"]),
            ),
        "ended" if matches!(proposal.intent, Intent::ContextLock(_)) => {
            error.hint("lock it again, with another id").hint(note!("see who holds it: " [context list]))
        }
        "session_live" => error.hint(note!("list running sessions: " [session list])),
        "session_taken" => error.hint("a session id is never reused; use another one, or omit it"),
        "session_over" | "unknown_session" => error.hint(note!("list sessions: " [session list, all = true])),
        "ended" if matches!(proposal.intent, Intent::SessionNote(_)) => {
            error.hint(note!("see the answer: " [session show] "; correct it with a note or a decision"))
        }
        "unknown_question" => error.hint(note!("see the questions: " [session show])),
        "unknown_workflow" | "unknown_step" => error.hint(note!("list workflows: " [workflow list, all = true])),
        "out_of_order" if number.is_some() => {
            error.hint(note!("see the steps: " [workflow list] "; " [track, number = n]))
        }
        "not_finished" => error.hint(note!("see what is open: " [threads, status = "open"])),
        "unknown_record" => error.hint(note!("list records: " [log show])),
        "unknown_message" => error.hint(note!("list your mail: " [inbox])),
        "no_member" => error.hint(note!("list agents: " [agents])),
        "not_recipient" => error.hint(note!("see its recipients: " [track, number = n])),
        "ended" if matches!(proposal.intent, Intent::ApprovalAnswer(_)) => {
            error.hint(note!("see the decision: " [approval, number = n]))
        }
        "already_claimed" if !matches!(proposal.intent, Intent::Claim(_)) && let Some(token) = held => error
            .hint(note!("if the claim is yours, name it: " {token = token}))
            .hint(note!("to give it back: " [release, number = n, token = token])),
        "already_claimed" | "lease_lost" | "ended" => error.hint(note!("see its history: " [track, number = n])),
        "not_claimed" => error.hint(note!("see who holds it: " [track, number = n] "; claim it: " [claim, number = n])),
        "nothing_to_claim" => error.hint(note!("wait for mail: " [claim, wait = true])),
        "not_ready" => error.hint(note!("wait for it: " [claim, wait = true])),
        "payload_unfit" => match mail {
            Some(mail) => error.hint(note!("see its schema: " [schema, name = mail.kind, payload = true])),
            None => error,
        },
        "unknown_context" | "unknown_version" | "context_locked" | "not_locked" | "data_unfit" => {
            about_context(office, proposal, error)?
        }
        "name_taken" if matches!(proposal.intent, Intent::ContextCreate(_)) => about_context(office, proposal, error)?,
        "gate_not_passed" if let Some(token) = held => error
            .hint(
                note!("give it back and claim it again: " [release, number = n, token = token] ", then " [claim, number = n]),
            )
            .hint(note!("see their findings: " [verify, number = n])),
        "gate_not_passed" => error
            .hint(note!("claim it: " [claim, number = n]))
            .hint(note!("see their findings: " [verify, number = n])),
        "superseded" | "not_agreed" => match &proposal.intent {
            Intent::Agree(agree) => error.hint(note!("see its state: " [agreement, number = agree.message])),
            Intent::ContextReplace(ContextReplace { agreement: Some(number), .. }) => {
                error.hint(note!("see its state: " [agreement, number = number]))
            }
            _ => error,
        },
        "id_conflict" => error.hint("an id is for one write only; use another one"),
        "name_taken" => error.hint(note!("change or revive it with " {update = true} ", or use another name")),
        "retired" if !matches!(proposal.intent, Intent::Retire(_)) => {
            error.hint(note!("to revive an agent: " [register, name = "NAME", update = true]))
        }
        _ => error,
    })
}

/// Hints for refusals about a shared context.
fn about_context(office: &Office, proposal: &Proposal, error: Error) -> Result<Error> {
    let name = match &proposal.intent {
        Intent::ContextCreate(create) => &create.name,
        Intent::ContextAppend(append) => &append.name,
        Intent::ContextReplace(replace) => &replace.name,
        Intent::ContextLock(lock) => &lock.name,
        Intent::ContextUnlock(unlock) => &unlock.name,
        Intent::ContextRead(read) => &read.name,
        _ => return Ok(error),
    };
    Ok(match error.code.unwrap_or_default() {
        "unknown_context" => crate::context::unknown(office, name)?,
        "name_taken" => error.hint(note!("see it: " [context show, name = name] "; or use another name")),
        "unknown_version" => error.hint(note!("see the versions: " [context history, name = name])),
        "context_locked" => {
            let waits = !matches!(proposal.intent, Intent::ContextUnlock(_));
            let error = if waits { error.hint(note!("wait longer: " {wait = "TIME"})) } else { error };
            error.hint(note!("if it is stuck: " [context unlock, name = name, force = true, reason = "TEXT"]))
        }
        "data_unfit" if !matches!(proposal.intent, Intent::ContextCreate(_)) => {
            error.hint(note!("see its schema: " [context show, name = name] " " @Json))
        }
        _ => error,
    })
}

/// The error for an unknown agent, with the nearest names.
pub fn unknown_agent(office: &Office, name: &Name) -> Result<Error> {
    let near = views::nearest_agents(office.store(), name.as_str())?;
    let error = Error::not_found(format!("no agent is registered as {name}")).code("unknown_agent");
    Ok(match near.as_slice() {
        [] => error.hint(note!("register it: " [register, name = name] "; or list agents: " [agents])),
        near => error.hint(format!("did you mean {}?", near.join(" or "))),
    })
}

/// Refuses filters that can never match, such as an unknown sender, instead of showing or waiting for nothing.
pub fn check_filters(office: &Office, kind: Option<&TypeName>, from: Option<&str>) -> Result {
    if let Some(from) = from.filter(|from| *from != poste_core::text::POSTE) {
        let name: Name = from.parse()?;
        if office.agent(&name)?.is_none() {
            return Err(unknown_agent(office, &name)?);
        }
    }
    let Some(kind) = kind else { return Ok(()) };
    let known = views::types(office.store())?;
    if known.iter().any(|known| known.name == *kind) {
        return Ok(());
    }
    let error = Error::not_found(format!("there is no message type {kind}")).code("unknown_type");
    let near = poste_core::text::nearest(kind.as_str(), known.iter().map(|known| known.name.as_str()));
    Err(match near.first() {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint(note!("list types: "[types])),
    })
}

pub fn no_message(number: MessageNo) -> Error {
    Error::not_found(format!("there is no message {number}")).hint(note!("list your mail: "[inbox]))
}
