//! The daily work: sending, reading, claiming, finishing, waiting.

use std::time::{Duration, Instant};

use poste_connect::mcp::Call;
use poste_core::log::{MessageNo, Position};
use poste_core::office::Office;
use poste_core::store::tables::Agent;
use poste_core::text::TypeName;
use poste_core::views::{self, NewsQuery};
use serde_json::{Value, json};

use super::answers::{command, needed, number, only_shown, room, said, views_of};
use super::inputs::{CheckInbox, ClaimWork, FinishWork, Outcome, Priority, ReadMessage, Reply_, Send, WaitForMail};
use super::words::Words;
use crate::Result;
use crate::call::Called;
use crate::error::Kind;
use crate::identity::Identity;
use crate::mcp::desk::{self, Desk};
use crate::mcp::render::{self, Reply};

pub(super) fn send_message(desk: &Desk, input: Send, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let words = Words::of(&["send"])
        .option("type", input.r#type)
        .option("priority", input.priority.map(Priority::word))
        .flag("wants-response", input.wants_response)
        .option("respond-by", input.respond_by)
        .each("artifact", input.files)
        .option("id", input.id)
        .value(input.to)
        .value(input.subject)
        .maybe(input.body);
    Ok(said(command(desk, &own, words)?))
}

pub(super) fn check_inbox(desk: &Desk, input: CheckInbox, _: &Call) -> Result<Reply> {
    const LINES_MAX: usize = 500;
    let own = desk.named()?;
    if input.r#type.is_some() || input.from.is_some() {
        // The command checks what was filled in, and says what is wrong with it.
        let words = Words::of(&["inbox", "--limit=1"]);
        command(desk, &own, words.option("type", input.r#type.clone()).option("from", input.from.clone()))?;
    }
    let kind = input.r#type.map(|kind| kind.parse::<TypeName>()).transpose()?;
    desk.with_office(|_, office| {
        let agent = agent(office, &own)?;
        let query = views::InboxQuery {
            unread: input.unread.unwrap_or(false),
            kind,
            from: input.from,
            all: false,
            limit: LINES_MAX,
        };
        let now = office.now()?;
        let page = views::inbox(office.store(), &agent, &query, now)?;
        Ok(render::digest(&page, now, render::budget(input.max_tokens)))
    })
}

fn agent(office: &Office, own: &Identity) -> Result<Agent> {
    let name = own.agent.as_ref().ok_or_else(desk::unnamed)?;
    match office.agent(name)? {
        Some(agent) => Ok(agent),
        None => Err(crate::explain::unknown_agent(office, name)?),
    }
}

pub(super) fn read_message(desk: &Desk, input: ReadMessage, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let number = number(input.number)?;
    let called = command(desk, &own, Words::of(&["read"]).value(number))?;
    let offset = usize::try_from(input.offset.unwrap_or(0)).unwrap_or(0);
    let view = views_of(desk, &[number])?.pop().ok_or_else(|| crate::explain::no_message(number))?;
    let text = render::message(&desk.cx(&own)?, &view, offset, room(input.max_tokens));
    let next = match (view.asks_work, view.wants_response) {
        (true, _) => format!("claim_work number={number}, do it, then finish_work"),
        (false, true) => format!("reply number={number}"),
        (false, false) => format!("nothing is asked of you; poste args [\"ack\", \"{number}\"] ends it"),
    };
    let more = json!({ "messages": [render::message_row(&view)] });
    Ok(Reply { marks: called.marks, ..Reply::new(text, Some(next), more) })
}

pub(super) fn claim_work(desk: &Desk, input: ClaimWork, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let words = Words::of(&["claim"])
        .option("lease", input.lease)
        .option("type", input.r#type)
        .maybe(input.number.map(number).transpose()?);
    let called = command(desk, &own, words)?;
    let answer = called.answer.unwrap_or_default();
    let token = answer.get("token").and_then(Value::as_u64).map(Position);
    let claims = answer.get("claims").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut numbers = Vec::new();
    let mut lines = Vec::new();
    for claim in &claims {
        let claimed = claim.pointer("/message/number").and_then(Value::as_u64).map(MessageNo);
        let until = claim.get("lease_until").and_then(Value::as_str).unwrap_or_default();
        let (Some(number), Some(token)) = (claimed, token) else { continue };
        desk.remember_claim(number, token);
        numbers.push(number);
        lines.push(format!("#{number} is yours until {until}, longer while you call tools"));
    }
    lines.extend(called.warnings.iter().map(|warning| format!("warning: {warning}")));
    let views = views_of(desk, &numbers)?;
    let (mail, shown) = render::messages(&desk.cx(&own)?, &views, room(input.max_tokens));
    let text = format!("{mail}\n{}", lines.join("\n"));
    let next = numbers.first().map(|number| format!("do it, then finish_work number={number} outcome=done summary=…"));
    let rows: Vec<Value> = views.iter().map(render::message_row).collect();
    let marks = only_shown(called.marks, &shown);
    Ok(Reply { marks, ..Reply::new(text.trim().to_owned(), next, json!({ "messages": rows })) })
}

pub(super) fn finish_work(desk: &Desk, input: FinishWork, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let message = number(input.number)?;
    let words = match input.outcome {
        Outcome::Done => Words::of(&["done"])
            .option("summary", input.summary)
            .option("result", input.result)
            .each("file", input.files),
        Outcome::Fail => {
            let why = needed(input.summary.or(input.result), "summary: say why it failed; it")?;
            Words::of(&["fail"]).option("reason", Some(why)).flag("retry", input.retry)
        }
        Outcome::Release => Words::of(&["release"]),
        Outcome::Extend => Words::of(&["extend"]).option("lease", input.lease),
    };
    let called = command(desk, &own, words.option("token", desk.token(&own, message)).value(message))?;
    if !matches!(input.outcome, Outcome::Extend) {
        desk.forget_claim(message);
    }
    Ok(said(called))
}

pub(super) fn reply(desk: &Desk, input: Reply_, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let message = number(input.number)?;
    let is_done = input.done.unwrap_or(false);
    let words = Words::of(&["reply"])
        .flag("done", input.done)
        .option("token", desk.token(&own, message).filter(|_| is_done))
        .flag("wants-response", input.wants_response)
        .each("artifact", input.files)
        .value(message)
        .value(input.body);
    let called = command(desk, &own, words)?;
    if is_done {
        desk.forget_claim(message);
    }
    Ok(said(called))
}

pub(super) fn wait_for_mail(desk: &Desk, input: WaitForMail, call: &Call) -> Result<Reply> {
    const SECONDS_DEFAULT: i64 = 45;
    const SECONDS_MAX: i64 = 24 * 60 * 60;
    /// How often whoever waits is told so, and what it holds is kept.
    const SLICE: Duration = Duration::from_secs(5);
    let own = desk.named()?;
    let seconds = input.seconds.unwrap_or(SECONDS_DEFAULT).clamp(0, SECONDS_MAX);
    let words = || Words::of(&["wait"]).option("type", input.r#type.clone()).option("from", input.from.clone());
    // A first look, which also says what is wrong with the arguments.
    let mut called = desk.run(&own, words().option("timeout", Some("0s")).line());
    let begun = Instant::now();
    let patience = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let mut office = desk.open()?;
    let name = own.agent.clone().ok_or_else(desk::unnamed)?;
    let query = NewsQuery {
        session: own.session.clone(),
        kind: input.r#type.as_deref().map(str::parse).transpose()?,
        from: input.from.clone(),
        limit: 1,
        ..NewsQuery::default()
    };
    let is_waiting = |called: &Called| called.error.as_ref().is_some_and(|error| error.kind == Kind::TimedOut);
    let progress = |seconds: f64| call.progress(seconds, Some(patience.as_secs_f64()), "waiting for mail");
    if is_waiting(&called) && !patience.is_zero() {
        progress(0.0);
    }
    while is_waiting(&called) {
        let left = patience.saturating_sub(begun.elapsed());
        if call.is_cancelled() || left.is_zero() {
            break;
        }
        let found = office.wait_unless(
            Some(left.min(SLICE)),
            || call.is_cancelled(),
            |office| {
                let Some(agent) = office.agent(&name)? else { return Ok(Some(())) };
                let news = views::news(office.store(), &agent, &query)?;
                Ok((!news.messages.is_empty()).then_some(()))
            },
        )?;
        match found {
            Some(()) => called = desk.run(&own, words().option("timeout", Some("0s")).line()),
            None => {
                progress(begun.elapsed().as_secs_f64());
                desk.keep_held();
            }
        }
    }
    match called.error.take() {
        Some(error) if error.kind == Kind::TimedOut => {
            let text = format!("nothing new came in {} s", begun.elapsed().as_secs());
            let next = "go on with your work, or wait_for_mail again".to_owned();
            return Ok(Reply::new(text, Some(next), json!({ "messages": [] })));
        }
        Some(error) => return Err(error),
        None => {}
    }
    let found = called.answer.as_ref().and_then(|answer| answer.get("messages")).and_then(Value::as_array);
    let numbers: Vec<MessageNo> = found
        .into_iter()
        .flatten()
        .filter_map(|message| message.get("number").and_then(Value::as_u64).map(MessageNo))
        .collect();
    let views = views_of(desk, &numbers)?;
    let (text, shown) = render::messages(&desk.cx(&own)?, &views, room(input.max_tokens));
    let next = views.iter().find(|view| view.asks_work).map_or_else(
        || "answer with reply, or wait_for_mail again".to_owned(),
        |view| format!("claim_work number={}", view.number),
    );
    let rows: Vec<Value> = views.iter().take(shown.len()).map(render::message_row).collect();
    let marks = only_shown(called.marks, &shown);
    Ok(Reply { marks, ..Reply::new(text, Some(next), json!({ "messages": rows })) })
}
