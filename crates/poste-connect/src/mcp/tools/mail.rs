//! Tools that show messages to the model: as many as fit its budget, and only those count as shown.

use std::time::{Duration, Instant};

use poste_core::log::MessageNo;
use poste_core::office::Stop;
use poste_core::store::Interest;
use poste_core::views::MessageView;
use poste_verbs::session::Identity;
use poste_verbs::{Answered, Mark, Result, claim, inbox, read, wait};
use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::offer::{filled, room};
use crate::mcp::Call;
use crate::mcp::connection::Connection;
use crate::mcp::render::{self, Reply};

/// The size of an answer that a model asks for, as a field of tools.
pub(super) const MAX_TOKENS: (&str, &str) = ("max_tokens", "");

fn max_tokens(arguments: &mut JsonObject) -> Option<i64> {
    arguments.remove(MAX_TOKENS.0).and_then(|budget| budget.as_i64())
}

pub(super) fn check_inbox(
    connection: &Connection,
    own: &Identity,
    mut arguments: JsonObject,
    _: &Call,
) -> Result<Reply> {
    /// More lines would cost every call tokens and time as soon as much mail waits. A larger budget asks for more.
    const LINES_DEFAULT: usize = 20;
    const LINES_MAX: usize = 500;
    /// Fewer than any line costs, so that lines that cannot be shown are not looked up.
    const LINE_TOKENS_MIN: usize = 25;
    let asked = max_tokens(&mut arguments);
    let budget = render::budget(asked);
    let lines_max = if asked.is_some() { LINES_MAX } else { LINES_DEFAULT };
    arguments.insert("limit".to_owned(), json!((budget / LINE_TOKENS_MIN).min(lines_max)));
    let (page, now) = connection.call_at(own, filled::<inbox::Input>(Value::Object(arguments))?)?;
    Ok(render::digest(&page, now, budget))
}

pub(super) fn read_message(
    connection: &Connection,
    own: &Identity,
    mut arguments: JsonObject,
    _: &Call,
) -> Result<Reply> {
    let budget = room(max_tokens(&mut arguments));
    let offset = arguments.remove("offset").and_then(|offset| offset.as_u64()).unwrap_or(0);
    let answered = connection.call(own, filled::<read::Input>(Value::Object(arguments))?)?;
    let view = answered.answer;
    let text = render::message(connection.ids(), &view, usize::try_from(offset).unwrap_or(0), budget);
    let number = view.number;
    let next = match (view.asks_work, view.wants_response) {
        (true, _) => format!("claim_work number={number}, do it, then finish_work"),
        (false, true) => format!("reply number={number}"),
        (false, false) => format!("no action needed; office action=ack number={number} ends it"),
    };
    let rows = json!({ "messages": [render::message_row(&view)] });
    Ok(Reply { marks: answered.marks, ..Reply::new(text, Some(next), rows) })
}

pub(super) fn claim_work(
    connection: &Connection,
    own: &Identity,
    mut arguments: JsonObject,
    call: &Call,
) -> Result<Reply> {
    let budget = room(max_tokens(&mut arguments));
    let answered = connection.call_apart(own, filled::<claim::Input>(Value::Object(arguments))?, call)?;
    let claimed = answered.answer;
    let mut lines = Vec::new();
    for claim in &claimed.claims {
        let number = claim.message.number;
        connection.remember_claim(number, claimed.token);
        lines.push(format!("#{number} is yours until {}; tool calls extend that", claim.lease_until));
    }
    lines.extend(connection.texts(&answered.warnings).into_iter().map(|warning| format!("warning: {warning}")));
    let next = connection.texts(&answered.next).first().map(|next| format!("do it, then {next}"));
    let views: Vec<MessageView> = claimed.claims.into_iter().map(|claim| claim.message).collect();
    let (mail, shown) = render::messages(connection.ids(), &views, budget);
    let text = format!("{mail}\n{}", lines.join("\n"));
    let rows: Vec<Value> = views.iter().map(render::message_row).collect();
    let reply = Reply::new(text.trim().to_owned(), next, json!({ "messages": rows }));
    Ok(Reply { marks: only_shown(answered.marks, &shown), ..reply })
}

pub(super) fn wait_for_mail(
    connection: &Connection,
    own: &Identity,
    mut arguments: JsonObject,
    call: &Call,
) -> Result<Reply> {
    const SECONDS_DEFAULT: u64 = 45;
    const SECONDS_MAX: u64 = 24 * 60 * 60;
    let budget = room(max_tokens(&mut arguments));
    let seconds = arguments.remove("seconds").and_then(|seconds| seconds.as_u64()).unwrap_or(SECONDS_DEFAULT);
    let patience = Duration::from_secs(seconds.min(SECONDS_MAX));
    let begun = Instant::now();
    let input = filled::<wait::Input>(Value::Object(arguments))?;
    let mut answered = connection.call(own, input.clone())?;
    if answered.answer.news.messages.is_empty() && !patience.is_zero() {
        let waiting = Waiting { begun, patience };
        answered = connection.waiting(|| wait_until_mail(connection, own, call, input, answered, waiting))?;
    }
    let views = answered.answer.news.messages;
    if views.is_empty() {
        let text = format!("no new mail in {} s", begun.elapsed().as_secs());
        let next = "continue your work, or wait_for_mail again".to_owned();
        return Ok(Reply::new(text, Some(next), json!({ "messages": [] })));
    }
    let (text, shown) = render::messages(connection.ids(), &views, budget);
    let next = views.iter().find(|view| view.asks_work).map_or_else(
        || "answer with reply, or wait_for_mail again".to_owned(),
        |view| format!("claim_work number={}", view.number),
    );
    let rows: Vec<Value> = views.iter().take(shown.len()).map(render::message_row).collect();
    let reply = Reply::new(text, Some(next), json!({ "messages": rows }));
    Ok(Reply { marks: only_shown(answered.marks, &shown), ..reply })
}

/// Since when, and how long, a call waits.
#[derive(Clone, Copy)]
struct Waiting {
    begun: Instant,
    patience: Duration,
}

/// Looks again whenever mail may have come, until there is some, the call is cancelled or the time is up. Now and then
/// it reports progress and extends the leases of the session.
fn wait_until_mail(
    connection: &Connection,
    own: &Identity,
    call: &Call,
    mut input: wait::Input,
    mut answered: Answered<wait::Answer>,
    Waiting { begun, patience }: Waiting,
) -> Result<Answered<wait::Answer>> {
    const SLICE: Duration = Duration::from_secs(5);
    let progress = || call.progress(begun.elapsed().as_secs_f64(), Some(patience.as_secs_f64()), "waiting for mail");
    let interest = own.agent.as_ref().map_or_else(Interest::everything, Interest::mail);
    let cancelled = call.cancellation();
    connection.apart(|open| {
        open.act_as(own);
        progress();
        loop {
            let left = patience.saturating_sub(begun.elapsed());
            if call.is_cancelled() || left.is_zero() {
                return Ok(answered);
            }
            let stop = Stop::Raised(cancelled.interrupt());
            let found = open.wait(&interest, Some(left.min(SLICE)), stop, |desk| {
                input.looked.clone_from(&answered.answer.looked);
                answered = desk.call(input.clone())?;
                Ok((!answered.answer.news.messages.is_empty()).then_some(()))
            })?;
            if found.is_some() {
                return Ok(answered);
            }
            progress();
            // If a lease cannot be extended now, waiting continues.
            drop(connection.identity_of_call());
        }
    })
}

/// Only what was really printed for the model counts as shown.
fn only_shown(marks: Vec<Mark>, shown: &[MessageNo]) -> Vec<Mark> {
    let only = |mark| match mark {
        Mark::Shown(numbers) => {
            let numbers: Vec<_> = numbers.into_iter().filter(|number| shown.contains(number)).collect();
            (!numbers.is_empty()).then_some(Mark::Shown(numbers))
        }
        other => Some(other),
    };
    marks.into_iter().filter_map(only).collect()
}
