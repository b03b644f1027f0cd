//! Tools that put messages before the model: what fits its budget is shown, and only that counts as shown.

use std::time::{Duration, Instant};

use poste_connect::mcp::Call;
use poste_connect::mcp::model::JsonObject;
use poste_core::log::MessageNo;
use poste_core::office::Stop;
use poste_core::store::Interest;
use poste_core::views::MessageView;
use poste_verbs::{claim, inbox, read, wait};
use serde_json::{Value, json};

use super::offer::{filled, room};
use crate::Result;
use crate::context::Mark;
use crate::mcp::connection::Connection;
use crate::mcp::notes;
use crate::mcp::render::{self, Reply};

fn max_tokens(arguments: &mut JsonObject) -> Option<i64> {
    arguments.remove("max_tokens").and_then(|budget| budget.as_i64())
}

pub(super) fn check_inbox(connection: &Connection, mut arguments: JsonObject, _: &Call) -> Result<Reply> {
    const LINES_MAX: u16 = 500;
    let own = connection.named()?;
    let budget = render::budget(max_tokens(&mut arguments));
    arguments.insert("limit".to_owned(), json!(LINES_MAX));
    let page = connection.call(&own, filled::<inbox::Input>(Value::Object(arguments))?)?.answer;
    Ok(render::digest(&page, connection.now()?, budget))
}

pub(super) fn read_message(connection: &Connection, mut arguments: JsonObject, _: &Call) -> Result<Reply> {
    let own = connection.named()?;
    let budget = room(max_tokens(&mut arguments));
    let offset = arguments.remove("offset").and_then(|offset| offset.as_u64()).unwrap_or(0);
    let answered = connection.call(&own, filled::<read::Input>(Value::Object(arguments))?)?;
    let view = answered.answer;
    let text = render::message(connection.ids(), &view, usize::try_from(offset).unwrap_or(0), budget);
    let number = view.number;
    let next = match (view.asks_work, view.wants_response) {
        (true, _) => format!("claim_work number={number}, do it, then finish_work"),
        (false, true) => format!("reply number={number}"),
        (false, false) => format!("nothing is asked of you; office action=ack number={number} ends it"),
    };
    let rows = json!({ "messages": [render::message_row(&view)] });
    Ok(Reply { marks: answered.marks, ..Reply::new(text, Some(next), rows) })
}

pub(super) fn claim_work(connection: &Connection, mut arguments: JsonObject, _: &Call) -> Result<Reply> {
    let own = connection.named()?;
    let budget = room(max_tokens(&mut arguments));
    let answered = connection.call(&own, filled::<claim::Input>(Value::Object(arguments))?)?;
    let claimed = answered.answer;
    let mut lines = Vec::new();
    for claim in &claimed.claims {
        let number = claim.message.number;
        connection.remember_claim(number, claimed.token);
        lines.push(format!("#{number} is yours until {}, longer while you call tools", claim.lease_until));
    }
    lines.extend(notes::texts(&answered.warnings).into_iter().map(|warning| format!("warning: {warning}")));
    let next = notes::texts(&answered.next).first().map(|next| format!("do it, then {next}"));
    let views: Vec<MessageView> = claimed.claims.into_iter().map(|claim| claim.message).collect();
    let (mail, shown) = render::messages(connection.ids(), &views, budget);
    let text = format!("{mail}\n{}", lines.join("\n"));
    let rows: Vec<Value> = views.iter().map(render::message_row).collect();
    let reply = Reply::new(text.trim().to_owned(), next, json!({ "messages": rows }));
    Ok(Reply { marks: only_shown(answered.marks, &shown), ..reply })
}

pub(super) fn wait_for_mail(connection: &Connection, mut arguments: JsonObject, call: &Call) -> Result<Reply> {
    const SECONDS_DEFAULT: u64 = 45;
    const SECONDS_MAX: u64 = 24 * 60 * 60;
    let own = connection.named()?;
    let budget = room(max_tokens(&mut arguments));
    let seconds = arguments.remove("seconds").and_then(|seconds| seconds.as_u64()).unwrap_or(SECONDS_DEFAULT);
    let patience = Duration::from_secs(seconds.min(SECONDS_MAX));
    let begun = Instant::now();
    let mut input = filled::<wait::Input>(Value::Object(arguments))?;
    let mut answered = connection.call(&own, input.clone())?;
    if answered.answer.news.messages.is_empty() && !patience.is_zero() {
        let interest = own.agent.as_ref().map_or_else(Interest::everything, Interest::mail);
        wait_until(connection, call, &interest, begun, patience, || {
            input.looked.clone_from(&answered.answer.looked);
            answered = connection.call(&own, input.clone())?;
            Ok(!answered.answer.news.messages.is_empty())
        })?;
    }
    let views = answered.answer.news.messages;
    if views.is_empty() {
        let text = format!("nothing new came in {} s", begun.elapsed().as_secs());
        let next = "go on with your work, or wait_for_mail again".to_owned();
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

/// Asks again whenever the office changed, until there is something, nobody waits any more, or the time is up. Now and then
/// the client is told that it still waits, and what the session holds is kept.
fn wait_until(
    connection: &Connection,
    call: &Call,
    interest: &Interest,
    begun: Instant,
    patience: Duration,
    mut is_there: impl FnMut() -> Result<bool>,
) -> Result {
    const SLICE: Duration = Duration::from_secs(5);
    let progress = || call.progress(begun.elapsed().as_secs_f64(), Some(patience.as_secs_f64()), "waiting for mail");
    let mut office = connection.open()?;
    let cancelled = call.cancellation();
    progress();
    loop {
        let left = patience.saturating_sub(begun.elapsed());
        if call.is_cancelled() || left.is_zero() {
            return Ok(());
        }
        let is_over = Stop::Raised(cancelled.interrupt());
        let found = office.wait_unless(interest, Some(left.min(SLICE)), is_over, |office| {
            connection.carrier().carry_out(office);
            match is_there() {
                Ok(false) => Ok(None),
                found => Ok(Some(found)),
            }
        })?;
        match found {
            Some(found) => return found.map(|_| ()),
            None => {
                progress();
                connection.keep_held();
            }
        }
    }
}

/// Only what was really put before the model counts as shown.
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
