//! Reports tell the same story from different sides: per message, conversation, agent and day. They must agree for
//! every history.

use std::collections::{BTreeMap, BTreeSet};

use poste_core::store::Store;
use poste_core::text::Label;
use poste_core::views::{self, AgentReport, ConversationStatus, DayReport, Happening, ThreadStatus};
use poste_core::{Error, MessageNo, Position, Timestamp};

/// Where reports of an office contradict each other or themselves.
pub fn contradictions(store: &Store, now: Timestamp) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let last = store.tables()?.cursor.message_last;
    let mut conversations = BTreeSet::new();
    let mut blocked: BTreeSet<Label> = BTreeSet::new();
    for number in (1..=last.0).map(MessageNo) {
        of_message(store, number, &mut found)?;
        conversations.extend(views::conversation_of(store, number)?);
        let message = views::message(store, number)?;
        let message = message.filter(|message| message.notice.is_none() && message.forward_of.is_none());
        blocked.extend(
            message.filter(|message| message.kind.as_str() == "blocker_notification").map(|found| found.conversation),
        );
    }
    for conversation in &conversations {
        of_conversation(store, conversation, blocked.contains(conversation), now, &mut found)?;
    }
    of_time(store, last, now, &mut found)?;
    Ok(found)
}

fn of_message(store: &Store, number: MessageNo, found: &mut Vec<String>) -> Result<(), Error> {
    let Some(report) = views::broadcast_report(store, number)? else {
        found.push(format!("message {number} has no report"));
        return Ok(());
    };
    let line = &report.line;
    let told = line.acknowledged + line.missing.len() as u64;
    if told != line.recipients || line.recipients != report.receipts.len() as u64 {
        found.push(format!("message {number}: {told} of {} recipients are accounted for", line.recipients));
    }
    for receipt in &report.receipts {
        let is_early = [receipt.received_at, receipt.responded_at].into_iter().flatten().any(|at| at < line.at);
        if is_early || receipt.response.is_some() != receipt.responded_at.is_some() {
            found.push(format!("message {number}: {receipt:?}"));
        }
    }
    found.extend(report.damage.iter().map(|damage| format!("message {number}: {damage}")));
    check_order(&format!("message {number}"), &report.timeline, found);
    Ok(())
}

fn check_order(what: &str, timeline: &[Happening], found: &mut Vec<String>) {
    if !timeline.is_sorted_by_key(|happening| (happening.position, happening.at)) {
        found.push(format!("{what}: the timeline is out of order"));
    }
}

fn of_conversation(
    store: &Store,
    conversation: &Label,
    is_blocked: bool,
    now: Timestamp,
    found: &mut Vec<String>,
) -> Result<(), Error> {
    let report = views::conversation_report(store, conversation)?;
    let summary = views::thread_summary(store, conversation)?;
    let is_open = report.status == ConversationStatus::Open;
    if is_open != (summary.status == ThreadStatus::Open)
        || report.archived != (summary.status == ThreadStatus::Archived)
    {
        found.push(format!("conversation {conversation} is {} and {}", report.status, summary.status));
    }
    if report.duration_ms < 0 || report.messages != summary.messages {
        found.push(format!("conversation {conversation}: {report:?}"));
    }
    check_order(&format!("conversation {conversation}"), &report.timeline, found);
    let blocker = views::blocker_report(store, conversation, now)?;
    if blocker.is_some() != is_blocked {
        found.push(format!("conversation {conversation}: a blocker was reported ({is_blocked}) and {blocker:?}"));
    }
    if let Some(blocker) = blocker {
        check_order(&format!("blocker {conversation}"), &blocker.timeline, found);
        if blocker.line.resolution_ms.is_some_and(|ms| ms < 0) {
            found.push(format!("conversation {conversation}: resolved before it was reported"));
        }
    }
    Ok(())
}

/// The sum of all agents' actions is what happened in the whole period, also if the period is reported in two parts.
fn of_time(store: &Store, last: MessageNo, now: Timestamp, found: &mut Vec<String>) -> Result<(), Error> {
    let tables = store.tables()?;
    let middle = Position(tables.cursor.head.position.0.div_ceil(2));
    let middle = tables.record(middle)?.map_or(now, |record| record.at);
    let end = now.plus_ms(1);
    let whole = views::day_report(store, Timestamp::ZERO, end, now)?;
    let parts = [views::day_report(store, Timestamp::ZERO, middle, now)?, views::day_report(store, middle, end, now)?];
    let sum = parts.iter().map(sums).fold(Sums::new(), add);
    if sums(&whole) != sum {
        found.push(format!("all of it is {:?}, and its parts are {sum:?}", sums(&whole)));
    }
    let mut notices = 0;
    for number in (1..=last.0).map(MessageNo) {
        notices += u64::from(views::message(store, number)?.is_some_and(|message| message.notice.is_some()));
    }
    if whole.messages + notices != last.0 {
        found.push(format!("{} messages and {notices} notices are not {last}", whole.messages));
    }
    let mut by_agents = Sums::new();
    for entry in views::roster(store)? {
        let agent = entry.agent;
        let report = views::agent_report(store, &agent, Timestamp::ZERO, now)?;
        if report.open_mail.len() as u64 > report.open.count {
            found.push(format!("{} has {:?} and lists {}", report.name, report.open, report.open_mail.len()));
        }
        by_agents.extend(agent_sums(&report));
    }
    let of_day = sums(&whole).into_iter().filter(|((who, _), count)| !who.is_empty() && *count > 0).collect::<Sums>();
    by_agents.retain(|_, count| *count > 0);
    if by_agents != of_day {
        found.push(format!("the day tells {of_day:?}, and the agents {by_agents:?}"));
    }
    Ok(())
}

/// How often each agent did each thing. What belongs to no agent has an empty name.
type Sums = BTreeMap<(String, &'static str), u64>;

fn add(mut one: Sums, other: Sums) -> Sums {
    for (key, count) in other {
        *one.entry(key).or_default() += count;
    }
    one
}

fn sums(day: &DayReport) -> Sums {
    let mut sums = Sums::new();
    sums.insert((String::new(), "messages"), day.messages);
    sums.insert((String::new(), "ended badly"), day.counts.ended_badly as u64);
    sums.insert((String::new(), "broadcasts"), day.counts.broadcasts as u64);
    for agent in &day.agents {
        let counts = [
            ("sent", agent.sent),
            ("received", agent.received),
            ("claimed", agent.claimed),
            ("done", agent.done),
            ("failed", agent.failed),
            ("acknowledged", agent.acknowledged),
            ("answered", agent.answered),
        ];
        sums.extend(counts.map(|(what, count)| ((agent.name.clone(), what), count)));
    }
    sums
}

fn agent_sums(agent: &AgentReport) -> Sums {
    let counts = [
        ("sent", agent.sent),
        ("received", agent.received),
        ("claimed", agent.claimed),
        ("done", agent.done),
        ("failed", agent.failed),
        ("acknowledged", agent.acknowledged),
        ("answered", agent.answered.count),
    ];
    counts.map(|(what, count)| ((agent.name.clone(), what), count)).into_iter().collect()
}
