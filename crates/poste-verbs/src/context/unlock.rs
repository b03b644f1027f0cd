//! Unlocks a context.

use poste_core::fold::Code;
use poste_core::log::{Content, ContextUnlock, Intent, MessageNo, Send};
use poste_core::text::{ContextName, RecordId};
use poste_core::{Address, views};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::draft::said;
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Result, Touch, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The context's name
    pub name: ContextName,
    /// The reason to break another agent's lock; the holder is notified
    pub reason: Option<String>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The context's name.
    pub context: ContextName,
    /// The message that notified the holder, if the lock was broken.
    pub told: Option<MessageNo>,
    /// The id was used before; nothing new was stored.
    pub repeat: bool,
}

impl Verb for Input {
    const NAME: &'static str = "context unlock";
    const ACCESS: Access = Access::Writes;
    const TOUCHES: &'static [(&'static str, Touch)] = &[("force", Touch::Nothing)];
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let first = self.id.unwrap_or_else(|| desk.fresh_id());
        let mut id = desk.tried_ids(&first)?.pop().unwrap_or_else(|| first.clone());
        if views::written_under(desk.office.store(), &id)?.is_some_and(|written| written.refused) {
            id = desk.free_id(&first)?;
        }
        let reason = match &self.reason {
            Some(reason) => Some(broken(desk, &self.name, said("reason", reason)?, self.secrets)?),
            None => None,
        };
        // Breaking a lock names its holder, which may have changed since it was looked up.
        const TRIES_MAX: usize = 8;
        for attempt in 1.. {
            let holder = views::context_lock(desk.office.store(), &self.name)?.map(|lock| lock.holder);
            let mail = match (&reason, told_before(desk, &id)?, holder) {
                (Some(_), Some(before), _) => Some(before),
                (Some(_), None, Some(holder)) => Some(Send::plain("alert".parse()?, vec![Address::Agent(holder)])),
                _ => None,
            };
            let content = reason.clone().filter(|_| mail.is_some());
            let intent = Intent::ContextUnlock(ContextUnlock { name: self.name.clone(), mail });
            let proposal = desk.proposal(intent, content, Some(id.clone()))?;
            match desk.decide(&proposal) {
                Ok((outcome, effect)) => {
                    let (context, told, repeat) = (self.name, effect.message(), outcome.repeat);
                    return Ok(Answered::new(Answer { context, told, repeat }));
                }
                Err(error) if reason.is_some() && error.is(Code::ContextLocked) && attempt < TRIES_MAX => {
                    id = desk.free_id(&first)?;
                }
                Err(error) => return Err(error),
            }
        }
        unreachable!("the last try returns")
    }
}

/// The mail sent when a lock was broken with this id. A repeat names the same holder, even if the lock changed hands.
fn told_before(desk: &Desk<'_>, id: &RecordId) -> Result<Option<Send>> {
    Ok(match desk.recorded(id)? {
        Some((_, Intent::ContextUnlock(unlock))) => unlock.mail,
        _ => None,
    })
}

/// The mail to the holder of a broken lock.
fn broken(desk: &Desk<'_>, name: &ContextName, reason: &str, secrets: Secrets) -> Result<Content> {
    let subject = format!("{} broke your lock of context {name}", desk.speaker()?);
    let content = Content { subject, ..secrets.text("reason", reason)? };
    secrets.check_as(&content, "reason")?;
    Ok(content)
}
