//! Keeps a session from stopping while it holds work or has urgent mail.

use poste_core::office::Office;
use poste_core::store::tables::Agent;
use poste_core::views;
use poste_verbs::Result;
use poste_verbs::live::Announced;
use poste_verbs::model::sender;
use poste_verbs::session::Identity;

use super::serve::Call;
use super::{Reply, news};

/// How often in a row a session is kept from stopping. One that cannot finish must be able to stop.
const HOLDS_MAX: u32 = 3;
/// Reasons to list; the others are counted.
const NAMED_MAX: usize = 5;
/// Urgent messages to look at.
const MAIL_MAX: usize = 200;
/// The beginning of a reason. Some programs give it to the model as a prompt, which must not count as a person's.
const OPENING: &str = "Poste: something is unfinished.";

/// Whether a prompt is new work, and not the reason printed by a stop hook.
pub(super) fn is_new_work(prompt: &str) -> bool {
    !prompt.trim_start().starts_with(OPENING)
}

pub(super) fn reply(
    office: &Office,
    call: &Call,
    agent: &Agent,
    own: &Identity,
    told: &mut Announced,
) -> Result<Reply> {
    // The program says that this is the first attempt of a turn. Where it does not, a prompt resets the count.
    if call.event.stop_hook_active == Some(false) {
        told.holds = 0;
    }
    let reasons = reasons(office, agent, own)?;
    if reasons.is_empty() {
        told.holds = 0;
        return Ok(Reply::Nothing);
    }
    let text = joined(&reasons);
    if told.holds >= HOLDS_MAX {
        let text = format!("Poste: this session stops with unfinished work: {}", text.replace('\n', "; "));
        call.print_for_people(&text);
        return Ok(Reply::Remark(text));
    }
    told.holds += 1;
    Ok(Reply::Hold(format!("{OPENING}\n{text}\n(reminder {} of {HOLDS_MAX})", told.holds)))
}

fn joined(reasons: &[String]) -> String {
    let mut named = reasons[..reasons.len().min(NAMED_MAX)].to_vec();
    if let more @ 1.. = reasons.len().saturating_sub(NAMED_MAX) {
        named.push(format!("and {more} more: poste inbox"));
    }
    named.join("\n")
}

fn reasons(office: &Office, agent: &Agent, own: &Identity) -> Result<Vec<String>> {
    let mut reasons = Vec::new();
    for held in views::held_in(office.store(), &agent.name, own.session.as_ref())? {
        let number = held.message;
        let what = match views::message(office.store(), number)? {
            Some(message) => news::line(
                number,
                &message.kind,
                message.priority,
                &sender::named(&message.from, message.trust),
                &message.subject,
            ),
            None => format!("#{number}"),
        };
        reasons.push(format!(
            "This session holds {what}. Finish it: poste done {number} --summary TEXT, poste fail {number} --reason TEXT or poste release {number}."
        ));
    }
    for line in views::unhandled(office.store(), agent, MAIL_MAX, office.now()?)? {
        let number = line.number;
        let what = news::line(number, &line.kind, line.priority, &sender::named(&line.from, line.trust), &line.subject);
        let group = match line.to == agent.name.as_str() {
            true => String::new(),
            false => format!(" for {}, unclaimed", line.to),
        };
        reasons.push(format!(
            "Urgent mail waits{group}: {what}. Read it: poste read {number}; then poste ack, reply or claim {number}."
        ));
    }
    Ok(reasons)
}
