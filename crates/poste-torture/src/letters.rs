//! Proposals made in this process, where one process per proposal would take too long.

use poste_core::Office;
use poste_core::fold::{Effect, Verdict};
use poste_core::log::{Body, Content, Intent, MessageNo, Proof, Proposal, Send, Via};
use poste_core::office::Rules;
use poste_core::store::clock::{Clock as _, SystemClock};

use crate::rig::Result;

pub(crate) fn proposal(id: &str, actor: &str, intent: Intent) -> Result<Proposal> {
    let text = |error: poste_core::text::InvalidText| error.to_string();
    Ok(Proposal {
        id: id.parse().map_err(text)?,
        actor: actor.parse().map_err(text)?,
        session: None,
        via: Via::Cli,
        proof: Proof::None,
        sent_at: SystemClock.wall(),
        intent,
        content: None,
    })
}

/// A message with a subject and a body of `body` bytes.
pub(crate) fn letter(id: &str, from: &str, to: &str, kind: &str, body: usize) -> Result<Proposal> {
    let to = to.parse().map_err(|error| format!("{to}: {error}"))?;
    let kind = kind.parse().map_err(|error: poste_core::text::InvalidText| error.to_string())?;
    let content = Content { subject: id.to_owned(), body: Body(vec![b'x'; body]), ..Content::default() };
    Ok(Proposal { content: Some(content), ..proposal(id, from, Intent::Send(Send::plain(kind, vec![to])))? })
}

pub(crate) fn send(office: &mut Office, id: &str, from: &str, to: &str, kind: &str) -> Result<MessageNo> {
    let outcome =
        office.propose(&letter(id, from, to, kind, 100)?, &Rules::none()).map_err(|error| error.to_string())?;
    match outcome.verdict {
        Verdict::Accepted(Effect::Sent(sent)) => Ok(sent.number),
        other => Err(format!("a send was not accepted: {other:?}")),
    }
}
