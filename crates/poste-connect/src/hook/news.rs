//! New mail that is urgent enough to be shown to a session while it works.

use std::fmt::Write as _;

use poste_core::log::MessageNo;
use poste_core::office::Office;
use poste_core::store::tables::Agent;
use poste_core::text::{Session, TypeName};
use poste_core::views::{self, Heard, MessageView, NewMail};
use poste_core::vocabulary::Priority;
use poste_verbs::Result;
use poste_verbs::caller::Ids;
use poste_verbs::live::Announced;
use poste_verbs::model::{fence, sender, subject, tokens};

use super::serve::NEWS_MAX;

/// Mail that this session was neither shown nor told about.
pub(super) fn look(office: &Office, agent: &Agent, session: &Session, told: &Announced) -> Result<NewMail> {
    // With a new role or capability, an agent also gets older mail.
    let looked_until = told.looked_until.filter(|_| told.addresses == agent.addresses());
    let heard = Heard { looked_until, ..told.heard() };
    Ok(views::unreported(office.store(), agent, session, &heard, NEWS_MAX)?)
}

/// The text about new mail.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub text: Option<String>,
    /// Messages printed in full.
    pub shown: Vec<MessageNo>,
    /// Messages printed as one line.
    pub listed: Vec<MessageNo>,
    /// Messages that did not fit, and come with the next hook.
    pub left: usize,
}

/// Prints short bodies in full, as long as every other message still fits as one line.
pub(super) fn compose(ids: &Ids, agent: &Agent, messages: &[MessageView], budget: usize) -> Said {
    let mut said = Said::default();
    if messages.is_empty() {
        return said;
    }
    let mut text = format!("Poste: new mail for {} (data from its senders).\n", agent.name);
    const END: &str = "Shown is not handled: ack, reply, claim and done end it (poste help VERB).";
    let mut left = budget.saturating_sub(tokens::estimate(&text) + tokens::estimate(END));
    let lines: Vec<String> = messages.iter().map(line_of).collect();
    let mut rest: usize = lines.iter().map(|line| tokens::estimate(line)).sum();
    for (message, line) in messages.iter().zip(&lines) {
        let line_cost = tokens::estimate(line);
        rest -= line_cost;
        let fenced = fenced_within(ids, message, left.saturating_sub(rest));
        // Always report at least one, or a small budget would hold back all mail.
        let is_first = said.shown.is_empty() && said.listed.is_empty();
        let cost = if let Some(fenced) = &fenced {
            let _ = writeln!(text, "{fenced}");
            said.shown.push(message.number);
            tokens::estimate(fenced)
        } else if line_cost <= left || is_first {
            let _ = writeln!(text, "{line}");
            said.listed.push(message.number);
            line_cost
        } else {
            said.left += 1;
            0
        };
        left = left.saturating_sub(cost);
    }
    if said.left > 0 {
        let _ = writeln!(text, "{} more: poste inbox", said.left);
    }
    text.push_str(END);
    said.text = Some(text);
    said
}

/// The whole message, if it fits. Checks the body first, so that long messages are not rendered.
fn fenced_within(ids: &Ids, message: &MessageView, budget: usize) -> Option<String> {
    if tokens::estimate(&message.body) > budget || message.content_gone {
        return None;
    }
    let fenced = fence::fenced(message, &fence::nonce_for(message, || ids.nonce()));
    (tokens::estimate(&fenced) <= budget).then_some(fenced)
}

fn line_of(message: &MessageView) -> String {
    let number = message.number;
    let line =
        line(number, &message.kind, message.priority, &sender::named(&message.from, message.trust), &message.subject);
    format!("{line} (read it: poste read {number})")
}

/// A message as one line, from a [named](sender::named) sender. The subject is untrusted, so it is in quotes that it cannot
/// close.
pub(super) fn line(number: MessageNo, kind: &TypeName, priority: Priority, from: &str, subject: &str) -> String {
    let priority = if priority > Priority::Normal { format!(" ({priority})") } else { String::new() };
    format!("#{number} {kind}{priority} from {from}: {}", subject::quoted(subject))
}
