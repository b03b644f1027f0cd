//! A session that is about to stop while it holds work, or while somebody waits for it now, is told so and goes on.

use poste_connect::hook::Reply;
use poste_connect::live::Told;
use poste_core::office::Office;
use poste_core::store::tables::{Agent, Delivery, State};
use poste_core::views::{self, InboxLine, InboxQuery};
use poste_core::vocabulary::{Priority, Urgency};

use super::{Call, news};
use crate::Result;
use crate::context::Cx;
use crate::identity::Identity;
use crate::ui::talk;

/// So often in a row a session is kept from stopping. Whoever cannot finish must be able to stop.
const HOLDS_MAX: u32 = 3;
/// Reasons that are named; the others are counted.
const NAMED_MAX: usize = 5;
/// Urgent mail stands first, and so much of it is one reason.
const MAIL_MAX: usize = 200;
/// How a reason begins. Some programs hand it to the model as a prompt, of which no person knows.
const OPENING: &str = "Poste: something is unfinished.";

/// Whether a prompt is what a stop hook said.
pub(super) fn is_own_reason(prompt: Option<&str>) -> bool {
    prompt.is_some_and(|prompt| prompt.trim_start().starts_with(OPENING))
}

pub(super) fn reply(
    office: &Office,
    call: &Call,
    agent: &Agent,
    own: &Identity,
    cx: &Cx,
    told: &mut Told,
) -> Result<Reply> {
    // The program itself says that this is the first try of a turn. Not all do; then a prompt tells.
    if call.event.stop_hook_active == Some(false) {
        told.holds = 0;
    }
    let reasons = reasons(office, agent, own, cx)?;
    if reasons.is_empty() {
        told.holds = 0;
        return Ok(Reply::Nothing);
    }
    let text = joined(&reasons);
    if told.holds >= HOLDS_MAX {
        let text = format!("Poste: this session stops, and leaves unfinished: {}", text.replace('\n', "; "));
        talk(&text);
        return Ok(Reply::Remark(text));
    }
    told.holds += 1;
    Ok(Reply::Hold(format!("{OPENING}\n{text}\n(said {} of {HOLDS_MAX} times)", told.holds)))
}

fn joined(reasons: &[String]) -> String {
    let mut named = reasons[..reasons.len().min(NAMED_MAX)].to_vec();
    if let more @ 1.. = reasons.len().saturating_sub(NAMED_MAX) {
        named.push(format!("and {more} more: poste inbox"));
    }
    named.join("\n")
}

fn reasons(office: &Office, agent: &Agent, own: &Identity, cx: &Cx) -> Result<Vec<String>> {
    let mut reasons = Vec::new();
    let held = office.store().tables()?.held_by(&agent.name)?;
    for held in held.iter().filter(|held| is_of(held, own)) {
        let number = held.message;
        let what = match views::message(office.store(), number)? {
            Some(message) => news::line(number, &message.kind, message.priority, &message.from, &message.subject),
            None => format!("#{number}"),
        };
        reasons.push(format!(
            "This session holds {what}. It ends by poste done {number} --summary TEXT, poste fail {number} --reason TEXT or poste release {number}."
        ));
    }
    let query = InboxQuery { limit: MAIL_MAX, ..InboxQuery::default() };
    let inbox = views::inbox(office.store(), agent, &query, cx.ui.now)?;
    for line in inbox.messages.iter().filter(|line| is_urgent(line, agent)) {
        let number = line.number;
        let what = news::line(number, &line.kind, line.priority, &line.from, &line.subject);
        reasons.push(format!(
            "Urgent mail waits: {what}. Read it: poste read {number}; then poste ack, reply or claim {number}."
        ));
    }
    Ok(reasons)
}

/// As with leases: what another session of this agent holds is not this one's.
fn is_of(held: &Delivery, own: &Identity) -> bool {
    held.session.is_none() || held.session == own.session
}

/// To this agent by name: of a group's mail somebody else may take care. What was acked or answered was taken note of.
fn is_urgent(line: &InboxLine, agent: &Agent) -> bool {
    line.state == State::Pending
        && line.ready
        && line.to == agent.name.as_str()
        && !line.acked
        && !line.answered
        && (line.urgency == Urgency::Now || line.priority == Priority::Urgent)
}
