//! Shared contexts: consecutive versions, none of them lost, and a lock that expires.
//!
//! Every version is also a message. The same record publishes it, so subscribers are notified exactly once.

use super::outcome::{Code, Effect, Locked, Rejection, Stop, Versioned, refuse};
use super::{Context as Cx, Rule, agreement, message, speaker};
use crate::address::Address;
use crate::error::Error;
use crate::limits;
use crate::log::{
    ContextAppend, ContextCreate, ContextLock, ContextRead, ContextReplace, ContextUnlock, Lines, Position, Send,
    context_mail,
};
use crate::store::tables::{Context, DueItem, Lock, Tables, TextPart, Version};
use crate::text::{ContextName, Name, Session};

/// A version to be added: its context, what it contains, and the message that announces it.
pub(crate) struct Plan {
    context: Context,
    /// The first version creates the context.
    is_new: bool,
    text: TextPart,
    data: bool,
    lines: Lines,
    agreement: Option<crate::log::MessageNo>,
    /// The writer has seen the version before this one.
    seen: bool,
    mail: message::Plan,
}

impl Rule for ContextCreate {
    type Plan = Plan;

    fn decide(&self, tables: &Tables<'_>, cx: &Cx) -> Result<Plan, Stop> {
        let agent = speaker(tables, cx)?;
        cx.require_proof(&agent)?;
        if tables.context(&self.name)?.is_some() {
            return Err(refuse(Code::NameTaken, format!("context {} already exists", self.name)));
        }
        let context = Context {
            number: cx.position,
            name: self.name.clone(),
            kind: self.kind.clone(),
            has_schema: self.schema,
            created_at: cx.at,
            created_by: agent.name.clone(),
            version: 0,
            updated_at: cx.at,
            updated_by: agent.name,
            lock: None,
        };
        Ok(Plan {
            context,
            is_new: true,
            text: TextPart::Whole,
            data: self.data,
            lines: self.lines,
            agreement: None,
            seen: true,
            mail: publication(&self.name, &self.mail, tables, cx)?,
        })
    }

    fn apply(plan: Plan, tables: &mut Tables<'_>, cx: &Cx) -> Result<Effect, Error> {
        add_version(plan, tables, cx)
    }
}

impl Rule for ContextAppend {
    type Plan = Plan;

    fn decide(&self, tables: &Tables<'_>, cx: &Cx) -> Result<Plan, Stop> {
        let agent = speaker(tables, cx)?;
        cx.require_proof(&agent)?;
        let context = known(tables, &self.name)?;
        may_write(&context, cx)?;
        Ok(Plan {
            is_new: false,
            text: TextPart::Section,
            data: false,
            lines: self.lines,
            agreement: None,
            seen: tables.version_read(&agent.name, context.number)? == Some(context.version),
            mail: publication(&self.name, &self.mail, tables, cx)?,
            context,
        })
    }

    fn apply(plan: Plan, tables: &mut Tables<'_>, cx: &Cx) -> Result<Effect, Error> {
        add_version(plan, tables, cx)
    }
}

impl Rule for ContextReplace {
    type Plan = Plan;

    fn decide(&self, tables: &Tables<'_>, cx: &Cx) -> Result<Plan, Stop> {
        cx.require_proof(&speaker(tables, cx)?)?;
        let context = known(tables, &self.name)?;
        if !self.text && !self.data {
            return Err(refuse(Code::Malformed, "it replaces neither the text nor the data"));
        }
        if self.if_version > context.version {
            return Err(unknown_version(&context, self.if_version));
        }
        if self.if_version < context.version {
            let (name, made_from, now) = (&context.name, self.if_version, context.version);
            return Err(refuse(
                Code::StaleVersion,
                format!("context {name} is at version {now}, but this was made from version {made_from}"),
            ));
        }
        may_write(&context, cx)?;
        if let Some(proposal) = self.agreement {
            agreement::must_hold(tables, proposal)?;
        }
        Ok(Plan {
            is_new: false,
            text: if self.text { TextPart::Whole } else { TextPart::None },
            data: self.data,
            lines: self.lines,
            agreement: self.agreement,
            seen: true,
            mail: publication(&self.name, &self.mail, tables, cx)?,
            context,
        })
    }

    fn apply(plan: Plan, tables: &mut Tables<'_>, cx: &Cx) -> Result<Effect, Error> {
        add_version(plan, tables, cx)
    }
}

impl Rule for ContextLock {
    type Plan = (Context, Lock);

    fn decide(&self, tables: &Tables<'_>, cx: &Cx) -> Result<Self::Plan, Stop> {
        let agent = speaker(tables, cx)?;
        cx.require_proof(&agent)?;
        let context = known(tables, &self.name)?;
        if !(limits::CONTEXT_LOCK_MS_MIN..=limits::CONTEXT_LOCK_MS_MAX).contains(&self.for_ms) {
            let (min, max) = (limits::CONTEXT_LOCK_MS_MIN, limits::CONTEXT_LOCK_MS_MAX);
            let range = format!("{} to {}", crate::time::length(min), crate::time::length(max));
            return Err(refuse(Code::TimeOutOfRange, format!("a context can be locked for {range}")));
        }
        may_write(&context, cx)?;
        // Locking again extends the lock and never shortens it.
        let asked = cx.at.plus_ms(self.for_ms);
        let until = context.lock.as_ref().map_or(asked, |lock| lock.until.max(asked));
        let lock = Lock { token: cx.position, holder: agent.name, session: cx.session.clone(), until };
        Ok((context, lock))
    }

    fn apply((context, lock): Self::Plan, tables: &mut Tables<'_>, _: &Cx) -> Result<Effect, Error> {
        let locked = Locked { context: context.name.clone(), token: lock.token, until: lock.until };
        tables.set_lock(&context, Some(lock))?;
        Ok(Effect::Locked(locked))
    }
}

impl Rule for ContextUnlock {
    type Plan = (Context, Option<message::Plan>);

    fn decide(&self, tables: &Tables<'_>, cx: &Cx) -> Result<Self::Plan, Stop> {
        cx.require_proof(&speaker(tables, cx)?)?;
        let context = known(tables, &self.name)?;
        let Some(lock) = &context.lock else {
            return Err(refuse(Code::NotLocked, format!("context {} is not locked", self.name)));
        };
        let Some(mail) = &self.mail else {
            may_write(&context, cx)?;
            return Ok((context, None));
        };
        // An agent that breaks a lock notifies the previous holder, and no one else.
        if mail.to != [Address::Agent(lock.holder.clone())] || mail.reply_to.is_some() || mail.ends.is_some() {
            return Err(held(&context, lock));
        }
        let mail = mail.decide(tables, cx)?;
        Ok((context, Some(mail)))
    }

    fn apply((context, mail): Self::Plan, tables: &mut Tables<'_>, cx: &Cx) -> Result<Effect, Error> {
        tables.set_lock(&context, None)?;
        match mail {
            Some(mail) => Send::apply(mail, tables, cx),
            None => Ok(Effect::Noted),
        }
    }
}

impl Rule for ContextRead {
    type Plan = (Name, Position, u64);

    fn decide(&self, tables: &Tables<'_>, cx: &Cx) -> Result<Self::Plan, Stop> {
        let agent = speaker(tables, cx)?;
        cx.require_proof(&agent)?;
        let context = known(tables, &self.name)?;
        if self.version == 0 || self.version > context.version {
            return Err(unknown_version(&context, self.version));
        }
        if tables.version_read(&agent.name, context.number)?.is_some_and(|seen| seen >= self.version) {
            return Err(refuse(
                Code::NothingToDo,
                format!("{} has seen version {} of context {}", agent.name, self.version, self.name),
            ));
        }
        Ok((agent.name, context.number, self.version))
    }

    fn apply((agent, context, version): Self::Plan, tables: &mut Tables<'_>, cx: &Cx) -> Result<Effect, Error> {
        tables.put_version_read(&agent, context, version, cx.at)?;
        Ok(Effect::Noted)
    }
}

fn known(tables: &Tables<'_>, name: &ContextName) -> Result<Context, Stop> {
    tables.context(name)?.ok_or_else(|| refuse(Code::UnknownContext, format!("there is no context {name}")))
}

fn unknown_version(context: &Context, version: u64) -> Stop {
    let (name, newest) = (&context.name, context.version);
    refuse(Code::UnknownVersion, format!("context {name} has no version {version}; its newest is {newest}"))
}

/// Only the holder of a lock may write: the same agent and, if both name one, the same session.
fn may_write(context: &Context, cx: &Cx) -> Result<(), Stop> {
    lock_against(context, &cx.actor, cx.session.as_ref()).map_or(Ok(()), |rejection| Err(Stop::Rejected(rejection)))
}

/// Why a context's lock stops the actor from writing.
pub(super) fn lock_against(context: &Context, actor: &Name, session: Option<&Session>) -> Option<Rejection> {
    let lock = context.lock.as_ref()?;
    let other_session = matches!((&lock.session, session), (Some(its), Some(ours)) if its != ours);
    match held(context, lock) {
        Stop::Rejected(rejection) if lock.holder != *actor || other_session => Some(rejection),
        _ => None,
    }
}

fn held(context: &Context, lock: &Lock) -> Stop {
    let session = lock.session.as_ref().map(|session| format!(" in session {session}")).unwrap_or_default();
    let (name, holder, until) = (&context.name, &lock.holder, lock.until);
    refuse(Code::ContextLocked, format!("context {name} is locked by {holder}{session} until {until}"))
}

/// The message of a version. It has exactly one form, so subscribers can rely on it.
fn publication(name: &ContextName, mail: &Send, tables: &Tables<'_>, cx: &Cx) -> Result<message::Plan, Stop> {
    if *mail != context_mail(name) {
        return Err(refuse(Code::Malformed, format!("a version of context {name} is published only to its topic")));
    }
    mail.decide(tables, cx)
}

fn add_version(plan: Plan, tables: &mut Tables<'_>, cx: &Cx) -> Result<Effect, Error> {
    let effect = Send::apply(plan.mail, tables, cx)?;
    let Effect::Sent(sent) = effect else {
        return Err(Error::Damaged(format!("record {} published nothing", cx.position)));
    };
    if plan.is_new {
        tables.insert_context(&plan.context)?;
    }
    let version = plan.context.version + 1;
    tables.insert_version(&Version {
        context: plan.context.number,
        version,
        position: cx.position,
        at: cx.at,
        agent: cx.actor.clone(),
        text: plan.text,
        data: plan.data,
        lines: plan.lines,
        message: sent.number,
        agreement: plan.agreement,
    })?;
    if plan.seen {
        tables.put_version_read(&cx.actor, plan.context.number, version, cx.at)?;
    }
    Ok(Effect::Versioned(Versioned {
        context: plan.context.name,
        version,
        message: sent.number,
        subscribers: sent.deliveries.len(),
    }))
}

/// The answer to a repeated write.
pub(super) fn versioned_before(tables: &Tables<'_>, version: Version) -> Result<Versioned, Error> {
    let context = tables
        .context_by_number(version.context)?
        .ok_or_else(|| Error::Damaged(format!("version {} belongs to no context", version.version)))?;
    let subscribers = message::sent_before(tables, version.message)?.deliveries;
    // For an archived message only its address is known: the topic itself.
    let subscribers = subscribers.iter().filter(|address| matches!(address, Address::Agent(_))).count();
    Ok(Versioned { context: context.name, version: version.version, message: version.message, subscribers })
}

/// The answer to a repeated lock: the lock, if it is still the same one.
pub(super) fn locked_before(
    tables: &Tables<'_>,
    name: &ContextName,
    token: Position,
) -> Result<Result<Locked, Rejection>, Error> {
    let lock = tables.context(name)?.and_then(|context| context.lock);
    Ok(match lock.filter(|lock| lock.token == token) {
        Some(lock) => Ok(Locked { context: name.clone(), token, until: lock.until }),
        None => {
            let reason = format!("the lock of context {name} that was taken under this id (token {token}) has ended");
            Err(Rejection { code: Code::Ended, reason })
        }
    })
}

/// Ends a lock whose time is up. No earlier item of the same tick can have changed it.
pub(super) fn settle_lock(tables: &mut Tables<'_>, item: DueItem) -> Result<(), Error> {
    match tables.context_by_number(Position(item.subject))? {
        Some(context) if context.lock.as_ref().is_some_and(|lock| lock.until == item.at) => {
            tables.set_lock(&context, None)
        }
        _ => Err(Error::Damaged(format!("the lock of context {} is due, but it has none", item.subject))),
    }
}

/// Extends all locks by a clock leap, so that no agent loses one to a clock.
pub(super) fn move_locks(tables: &mut Tables<'_>, leap_ms: i64) -> Result<usize, Error> {
    let locked = tables.locked_contexts(None)?;
    for context in &locked {
        let moved = context.lock.clone().map(|lock| Lock { until: lock.until.plus_ms(leap_ms), ..lock });
        tables.set_lock(context, moved)?;
    }
    Ok(locked.len())
}

/// Releases the locks of a retiring agent.
pub(super) fn release_locks(tables: &mut Tables<'_>, holder: &Name) -> Result<(), Error> {
    for context in tables.locked_contexts(Some(holder))? {
        tables.set_lock(&context, None)?;
    }
    Ok(())
}
