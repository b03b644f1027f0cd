//! Rules for proposals from this machine's configuration: payloads must fit their schemas, and a message must pass its
//! gates when it is claimed. The configuration is in no record, so the fold cannot enforce these rules. They are
//! enforced here, for every surface.

use super::Office;
use crate::error::Error;
use crate::fold::{self, Code, Rejection};
use crate::gates::Gates;
use crate::log::{EndsHow, Intent, MessageNo, Position, Proposal};
use crate::payload::{self, PayloadSchemas};
use crate::store::Store;
use crate::store::tables::Tables;

/// Requirements that proposals must meet before they are appended.
#[derive(Debug, Clone)]
pub struct Rules {
    pub schemas: PayloadSchemas,
    pub gates: Gates,
}

impl Rules {
    /// No rules, for an office without configuration files: only the log decides.
    pub fn none() -> Self {
        Self { schemas: PayloadSchemas::default(), gates: Gates::default() }
    }

    /// Whether a schema may apply to one of these proposals.
    pub fn ask_for_schemas(proposals: &[Proposal]) -> bool {
        proposals.iter().any(|proposal| proposal.intent.mail().is_some())
    }

    /// Whether a gate may apply to one of these proposals.
    pub fn ask_for_gates(proposals: &[Proposal]) -> bool {
        proposals.iter().any(|proposal| ending(&proposal.intent).is_some())
    }
}

impl Office {
    /// For each proposal, why it is refused before the append.
    pub(super) fn unfit(&mut self, proposals: &[Proposal], rules: &Rules) -> Result<Vec<Option<Rejection>>, Error> {
        let mut unfit = self.unfit_payloads(proposals, &rules.schemas)?;
        for (unfit, ungated) in unfit.iter_mut().zip(self.ungated(proposals, &rules.gates)?) {
            *unfit = unfit.take().or(ungated);
        }
        Ok(unfit)
    }

    /// For each proposal, why its payload is refused.
    fn unfit_payloads(
        &mut self,
        proposals: &[Proposal],
        schemas: &PayloadSchemas,
    ) -> Result<Vec<Option<Rejection>>, Error> {
        let mut unfit = vec![None; proposals.len()];
        let Self { order, validators } = self;
        let store = order.files().store();
        validators.begin();
        for (proposal, unfit) in proposals.iter().zip(&mut unfit) {
            *unfit = schemas.check(proposal, validators)?;
            if unfit.is_none() {
                *unfit = unfit_data(store, proposal)?;
            }
            // A proposal stored earlier under this id is a repeat, whatever the schema says by now.
            if unfit.is_some() && store.tables()?.id(&proposal.id)?.is_some() {
                *unfit = None;
            }
        }
        Ok(unfit)
    }

    /// For each proposal, why it may not end a delivery whose gates are not passed.
    fn ungated(&self, proposals: &[Proposal], gates: &Gates) -> Result<Vec<Option<Rejection>>, Error> {
        let mut refused = vec![None; proposals.len()];
        if gates.gates.is_empty() {
            return Ok(refused);
        }
        let tables = self.store().tables()?;
        for (proposal, refused) in proposals.iter().zip(&mut refused) {
            *refused = unpassed(&tables, gates, proposal)?;
        }
        Ok(refused)
    }
}

/// The message that a record would end successfully, and the claim it names. A forward does not count: it continues as
/// a message of the same type, with the same gates. A failure does not claim that anything was accepted.
fn ending(intent: &Intent) -> Option<(MessageNo, Option<Position>)> {
    match intent {
        Intent::Done(done) => Some((done.message, done.token)),
        Intent::Ack(ack) => Some((ack.message, None)),
        // Agreeing accepts the message, even if the delivery stays open.
        Intent::Agree(agree) => Some((agree.message, agree.mail.ends.as_ref().and_then(|ends| ends.token))),
        // A rejection accepts nothing. An override records its reason.
        Intent::HandoffReject(_) => None,
        Intent::HandoffAccept(accept) if accept.overridden => None,
        // Approved or denied: a message that did not pass its gates must not be decided at all.
        Intent::ApprovalAnswer(answer) => Some((answer.mail.reply_to?, None)),
        other => {
            let ends = other.mail()?.ends.as_ref().filter(|ends| ends.how == EndsHow::Replied)?;
            Some((ends.message, ends.token))
        }
    }
}

fn unpassed(tables: &Tables<'_>, gates: &Gates, proposal: &Proposal) -> Result<Option<Rejection>, Error> {
    let Some((number, token)) = ending(&proposal.intent) else { return Ok(None) };
    let Some(message) = tables.message(number)?.filter(|message| message.notice.is_none()) else { return Ok(None) };
    // For a message that asks for work, an ack is only a mark and does not end it.
    if matches!(proposal.intent, Intent::Ack(_)) && message.work {
        return Ok(None);
    }
    let own = gates.of(&message.kind, message.workflow.as_ref(), message.step.as_ref());
    // A proposal stored earlier under this id is a repeat, whatever the gates are by now.
    if own.is_empty() || tables.id(&proposal.id)?.is_some() {
        return Ok(None);
    }
    // The receiver of a handoff runs its gates when it accepts; the fold refuses an acceptance whose gates failed.
    if matches!(&proposal.intent, Intent::HandoffAccept(accept) if accept.gates.len() >= own.len()) {
        return Ok(None);
    }
    let names: Vec<&str> = own.iter().map(|gate| gate.name.as_str()).collect();
    let names = names.join(", ");
    let unpassed = match &proposal.intent {
        Intent::ApprovalAnswer(_) => fold::gates_passed_to_decide(tables, &proposal.actor, &message)?,
        _ => fold::gates_passed(tables, &proposal.actor, &message, token)?,
    };
    Ok(unpassed.map(|unpassed| {
        let reason = match unpassed {
            fold::Unpassed::Unclaimed => {
                format!("message {number} has gates to pass ({names}), which are run when it is claimed")
            }
            fold::Unpassed::Claimed => format!("message {number} has not passed its gates ({names}) under this claim"),
            fold::Unpassed::Elsewhere => {
                format!("message {number} has gates to pass ({names}), which are run when its recipient claims it")
            }
        };
        Rejection { code: Code::GateNotPassed, reason }
    }))
}

/// Why the data of a shared context is refused: it does not fit the schema that the context was created with.
fn unfit_data(store: &Store, proposal: &Proposal) -> Result<Option<Rejection>, Error> {
    let document = proposal.content.as_ref().and_then(|content| content.document.as_ref());
    let refused = |reason: String| Ok(Some(Rejection { code: Code::DataUnfit, reason }));
    let (name, brings_data) = match &proposal.intent {
        Intent::ContextCreate(create) => (&create.name, create.data),
        Intent::ContextReplace(replace) => (&replace.name, replace.data),
        _ => return Ok(None),
    };
    let data = document.and_then(|document| document.data.as_deref());
    if brings_data != data.is_some() {
        return refused(format!(
            "the change of context {name} announces data without having any, or has data without announcing it"
        ));
    }
    let own = document.and_then(|document| document.schema.clone());
    if let Some(own) = &own
        && let Err(why) = payload::check_schema(own)
    {
        return refused(format!("the schema of context {name}: {why}"));
    }
    let Some(data) = data else { return Ok(None) };
    let schema = match (own, store.tables()?.context(name)?) {
        (Some(own), _) => own,
        (None, Some(context)) if context.has_schema => match crate::views::context_schema(store, &context)? {
            Some(schema) => schema,
            None => return refused(format!("the data cannot be checked: the schema of context {name} was redacted")),
        },
        (None, _) => return Ok(None),
    };
    match payload::check_against(&schema, data) {
        Ok(()) => Ok(None),
        Err(why) => refused(format!("the data does not fit the schema of context {name}: {why}")),
    }
}
