//! What helps after a refusal: the nearest names, the next command.

use poste_core::log::{ContextReplace, Intent, MessageNo, Proposal};
use poste_core::office::Office;
use poste_core::text::{Name, TypeName};
use poste_core::views;

use crate::Result;
use crate::error::CommandError;

/// Adds to a refusal what helps: the nearest names, the next command.
pub(crate) fn explain(office: &Office, proposal: &Proposal, error: CommandError) -> Result<CommandError> {
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
    let text = number.map(|number| number.to_string()).unwrap_or_default();
    let held = views::held_token(office.store(), &proposal.actor, number)?;
    let named = held.map(|token| format!(" --token {token}")).unwrap_or_default();
    Ok(match code {
        "unknown_type" => match mail {
            Some(mail) => check_filters(office, Some(&mail.kind), None).err().unwrap_or(error),
            None => error,
        },
        "archived" => {
            let conversation =
                number.map(|number| views::conversation_of(office.store(), number)).transpose()?.flatten();
            match conversation {
                Some(conversation) => error
                    .hint(format!("go on with a new message: poste send NAME SUBJECT --conversation {conversation}")),
                None => error,
            }
        }
        "not_allowed" => match &proposal.intent {
            Intent::Close(_) => error.hint(format!("see who takes part: poste thread {text} --summary")),
            Intent::Retry(_) | Intent::Drop(_) | Intent::HandoffWithdraw(_) => {
                error.hint(format!("see whose it is: poste track {text}"))
            }
            Intent::Unreserve(_) => {
                error.hint("ask whoever holds it: poste send NAME SUBJECT --type resource_conflict")
            }
            Intent::SessionNote(_) => error.hint("start a session below it: poste session start --parent ID"),
            Intent::Redact(_) => error.hint("ask its author or a human; each record of a message has its own author"),
            _ => error,
        },
        "nothing_to_do" if matches!(proposal.intent, Intent::Retry(_) | Intent::Drop(_)) => {
            error.hint(format!("see how it stands: poste track {text}"))
        }
        "needs_answer" => error.hint(format!(
            "decide it: poste approve {text}, or poste deny {text}; talk about it first: poste reply {text} TEXT"
        )),
        "not_reserved" => error.hint("see who holds what: poste reservations"),
        "is_handoff" => error
            .hint(format!("take it: poste handoff accept {text}; refuse it: poste handoff reject {text} --reason TEXT"))
            .hint(format!("only say something: poste reply {text} TEXT")),
        "no_handoff" => error.hint(format!("read it: poste read {text}; see the handoffs: poste handoff list")),
        "unverified" => error.hint(format!("see what it asks for: poste handoff show {text}")),
        "ended" if matches!(proposal.intent, Intent::HandoffWithdraw(_)) => {
            error.hint(format!("see what became of it: poste handoff show {text}"))
        }
        "ended" if matches!(proposal.intent, Intent::WorkflowEnd(_) | Intent::WorkflowRetry(_)) => {
            error.hint("see how they stand: poste workflow list --all")
        }
        "ended" if matches!(proposal.intent, Intent::Agree(_)) => error
            .hint(format!("see how it stands: poste agree {text} --list; poste track {text}"))
            .hint("if it is still wanted, propose it anew: poste send NAME SUBJECT --type interface_contract"),
        "ended" if matches!(proposal.intent, Intent::ContextLock(_)) => {
            error.hint("take it again, under another id").hint("see who has it now: poste context list")
        }
        "session_live" => error.hint("see which run: poste session list"),
        "session_taken" => error.hint("an id is for one session for ever; take another one, or let one be made"),
        "session_over" | "unknown_session" => error.hint("see which there are: poste session list --all"),
        "ended" if matches!(proposal.intent, Intent::SessionNote(_)) => {
            error.hint("see what was answered: poste session show; correct it with a note or a decision")
        }
        "unknown_question" => error.hint("see the questions: poste session show"),
        "unknown_workflow" | "unknown_step" => error.hint("see how it stands: poste workflow list --all"),
        "out_of_order" if number.is_some() => {
            error.hint(format!("see the steps: poste workflow list; poste track {text}"))
        }
        "not_finished" => error.hint("see what is open: poste threads --status open"),
        "unknown_record" => error.hint("see the records: poste log show"),
        "unknown_message" => error.hint("see what is there: poste inbox"),
        "no_member" => error.hint("see who is there: poste agents"),
        "not_recipient" => error.hint(format!("see who it is for: poste track {text}")),
        "ended" if matches!(proposal.intent, Intent::ApprovalAnswer(_)) => {
            error.hint(format!("see what was decided: poste approvals {text}"))
        }
        "already_claimed" if held.is_some() && !matches!(proposal.intent, Intent::Claim(_)) => {
            error.hint(format!("if the claim is yours, name it:{named}; to give it back: poste release {text}{named}"))
        }
        "already_claimed" | "lease_lost" | "ended" => error.hint(format!("see its ladder: poste track {text}")),
        "not_claimed" => error.hint(format!("see who holds it: poste track {text}; claim it: poste claim {text}")),
        "nothing_to_claim" => error.hint("wait for some: poste claim --wait"),
        "not_ready" => error.hint("wait for it: poste claim --wait"),
        "payload_unfit" => match mail {
            Some(mail) => error.hint(format!("see what it must look like: poste schema {} --payload", mail.kind)),
            None => error,
        },
        "unknown_context" | "unknown_version" | "context_locked" | "not_locked" | "data_unfit" => {
            about_context(office, proposal, error)?
        }
        "name_taken" if matches!(proposal.intent, Intent::ContextCreate(_)) => about_context(office, proposal, error)?,
        "gate_not_passed" if held.is_some() => error
            .hint(format!("give it back and claim it again: poste release {text}{named}, then poste claim {text}"))
            .hint(format!("see what they say: poste verify {text}")),
        "gate_not_passed" => {
            error.hint(format!("claim it: poste claim {text}")).hint(format!("see what they say: poste verify {text}"))
        }
        "superseded" | "not_agreed" => match &proposal.intent {
            Intent::Agree(agree) => error.hint(format!("see how it stands: poste agree {} --list", agree.message)),
            Intent::ContextReplace(ContextReplace { agreement: Some(number), .. }) => {
                error.hint(format!("see how it stands: poste agree {number} --list"))
            }
            _ => error,
        },
        "id_conflict" => error.hint("an id is for one write for ever; take another one"),
        "name_taken" => error.hint("change or revive it with --update, or take another name"),
        "retired" if !matches!(proposal.intent, Intent::Retire(_)) => {
            error.hint("an agent is revived with: poste register NAME --update")
        }
        _ => error,
    })
}

/// What helps with a shared context.
fn about_context(office: &Office, proposal: &Proposal, error: CommandError) -> Result<CommandError> {
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
        "unknown_context" => crate::commands::context::unknown(office, name)?,
        "name_taken" => error.hint(format!("see it: poste context show {name}; or take another name")),
        "unknown_version" => error.hint(format!("see the versions: poste context history {name}")),
        "context_locked" => {
            let waits = !matches!(proposal.intent, Intent::ContextUnlock(_));
            let error = if waits { error.hint("wait longer: --wait TIME") } else { error };
            error.hint(format!("if it is stuck: poste context unlock {name} --force --reason TEXT"))
        }
        "data_unfit" if !matches!(proposal.intent, Intent::ContextCreate(_)) => {
            error.hint(format!("see its schema: poste context show {name} --json"))
        }
        _ => error,
    })
}

/// "No such agent", with the nearest names.
pub(crate) fn unknown_agent(office: &Office, name: &Name) -> Result<CommandError> {
    let near = views::nearest_agents(office.store(), name.as_str())?;
    let error = CommandError::not_found(format!("no agent is registered as {name}")).code("unknown_agent");
    Ok(match near.as_slice() {
        [] => error.hint(format!("register it: poste register {name}; or see who is there: poste agents")),
        near => error.hint(format!("did you mean {}?", near.join(" or "))),
    })
}

/// A filter that names nobody would never let anything through; better to say so than to show or wait for nothing.
pub(crate) fn check_filters(office: &Office, kind: Option<&TypeName>, from: Option<&str>) -> Result {
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
    let error = CommandError::not_found(format!("there is no message type {kind}")).code("unknown_type");
    let near = poste_core::text::nearest(kind.as_str(), known.iter().map(|known| known.name.as_str()));
    Err(match near.first() {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint("see the vocabulary: poste types"),
    })
}

pub(crate) fn no_message(number: MessageNo) -> CommandError {
    CommandError::not_found(format!("there is no message {number}")).hint("see what is there: poste inbox")
}
