//! Reports are computed from the log: the same before and after an archive, and only from the reported span.

use poste_core::log::{ApprovalAnswer, ApprovalAsk, Content, Intent, Send};
use poste_core::store::tables::Event;
use poste_core::views::{
    self, AgentReport, BlockerReport, BlockerStatus, BroadcastReport, ConversationReport, ConversationStatus,
    DayReport, Happened, Response, Stats,
};
use poste_core::{MessageNo, Timestamp};

use crate::common::*;

fn desk() -> Desk {
    let mut desk = Desk::with(&["lead", "bob", "cy", "dot"]);
    desk.register("ann", human());
    desk
}

fn about(subject: &str) -> Option<Content> {
    Some(Content { subject: subject.to_owned(), ..Content::default() })
}

/// Sends with a subject; the number.
fn post(desk: &mut Desk, from: &str, letter: Send, subject: &str) -> MessageNo {
    accepted(desk.say(from, Intent::Send(letter), about(subject)));
    desk.last_message()
}

fn within(conversation: &str, letter: Send) -> Send {
    Send { conversation: Some(conversation.parse().expect("a label")), ..letter }
}

fn broadcast(desk: &Desk, number: MessageNo) -> BroadcastReport {
    let report = views::broadcast_report(desk.office.store(), number).expect("it can be read");
    report.expect("the message is there")
}

fn blocker(desk: &Desk, conversation: &str) -> Option<BlockerReport> {
    let conversation = conversation.parse().expect("a label");
    views::blocker_report(desk.office.store(), &conversation, desk.now()).expect("it can be read")
}

fn conversation(desk: &Desk, conversation: &str) -> ConversationReport {
    let conversation = conversation.parse().expect("a label");
    views::conversation_report(desk.office.store(), &conversation).expect("it can be read")
}

fn agent(desk: &Desk, name: &str, since: Timestamp) -> AgentReport {
    let agent = desk.office.agent(&name.parse().expect("a name")).expect("agents can be read").expect("it is there");
    views::agent_report(desk.office.store(), &agent, since, desk.now()).expect("it can be read")
}

fn day(desk: &Desk, since: Timestamp, until: Timestamp) -> DayReport {
    views::day_report(desk.office.store(), since, until, desk.now()).expect("it can be read")
}

/// The receipts of a broadcast.
fn responses(report: &BroadcastReport) -> Vec<(&str, Option<Response>)> {
    report.receipts.iter().map(|receipt| (receipt.recipient.as_str(), receipt.response)).collect()
}

fn happened(timeline: &[views::Happening]) -> Vec<(Happened, &str, u64)> {
    timeline.iter().map(|happening| (happening.what, happening.by.as_str(), happening.number.0)).collect()
}

/// The report without the fields that an archive changes: where it is read from, and as of which record.
fn comparable<T: serde::Serialize>(report: &T) -> serde_json::Value {
    let mut value = serde_json::to_value(report).expect("a report is JSON");
    for key in ["as_of", "archive", "archived", "until"] {
        value.as_object_mut().expect("an object").remove(key);
    }
    for list in ["finished", "open"] {
        let lines = value.get_mut(list).and_then(|list| list.as_array_mut());
        for line in lines.into_iter().flatten() {
            line.as_object_mut().expect("an object").remove("status");
        }
    }
    value
}

// ── Broadcasts ───────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn each_way_to_take_note_of_a_broadcast_counts_and_silence_does_not() {
    let mut desk = desk();
    let number = post(&mut desk, "lead", letter("everyone", "decision_announcement"), "RS256");
    accepted(desk.shown("bob", number));
    desk.pass(MINUTE);
    accepted(desk.ack("bob", number));
    let acknowledgment = Send { reply_to: Some(number), ..letter("", "acknowledgment") };
    accepted(desk.say("cy", Intent::Send(acknowledgment), Some(text("we comply"))));
    desk.pass(MINUTE);
    accepted(desk.done("dot", number));
    let report = broadcast(&desk, number);
    let expected = [
        ("ann", None),
        ("bob", Some(Response::Acknowledged)),
        ("cy", Some(Response::Acknowledged)),
        ("dot", Some(Response::Done)),
    ];
    assert_eq!(responses(&report), expected);
    assert_eq!((report.line.acknowledged, report.line.recipients), (3, 4));
    assert_eq!(report.line.missing, ["ann"]);
    let notes: Vec<Option<&str>> = report.receipts.iter().map(|receipt| receipt.note.as_deref()).collect();
    assert_eq!(notes, [None, Some("noted"), Some("we comply"), Some("done by dot")]);
    let bob = &report.receipts[1];
    assert_eq!(bob.received_at, Some(report.line.at));
    assert_eq!(bob.responded_at, Some(report.line.at.plus_ms(MINUTE)));
}

#[test]
fn an_answer_counts_more_than_an_acknowledgment_whichever_came_first() {
    let mut desk = desk();
    let number = desk.send("lead", "bob cy", "message");
    let acknowledgment = || Send { reply_to: Some(number), ..letter("", "acknowledgment") };
    // The delivery keeps only the first reply; the report knows all replies.
    let answer = accepted(desk.reply("bob", number)).number;
    accepted(desk.post("bob", acknowledgment()));
    accepted(desk.post("cy", acknowledgment()));
    let later = accepted(desk.reply("cy", number)).number;
    let report = broadcast(&desk, number);
    assert_eq!(responses(&report), [("bob", Some(Response::Answered)), ("cy", Some(Response::Answered))]);
    assert_eq!([report.receipts[0].answer, report.receipts[1].answer], [Some(answer), Some(later)]);
}

#[test]
fn who_failed_or_let_it_expire_has_not_taken_note_and_a_third_partys_word_is_no_answer() {
    let mut desk = desk();
    let number = accepted(desk.post("lead", Send { expires: after(MINUTE), ..letter("bob cy", "directive") })).number;
    accepted(desk.fail("bob", number));
    let third = Send { reply_to: Some(number), ..letter("lead", "acknowledgment") };
    accepted(desk.post("dot", third));
    desk.pass(2 * MINUTE);
    assert_eq!(responses(&broadcast(&desk, number)), [("bob", None), ("cy", None)]);
}

#[test]
fn whoever_takes_the_mail_of_a_group_answers_for_it() {
    let mut desk = Desk::with(&["lead"]);
    desk.register("bob", with_role("coder"));
    desk.register("cy", with_role("coder"));
    let number = desk.send("lead", "role:coder", "question");
    assert_eq!(responses(&broadcast(&desk, number)), [("role:coder", None)]);
    accepted(desk.claim("bob", number));
    accepted(desk.reply("bob", number));
    let report = broadcast(&desk, number);
    assert_eq!(responses(&report), [("role:coder", Some(Response::Answered))]);
    assert_eq!(report.receipts[0].taken_by.as_deref(), Some("bob"));
}

// ── Blockers ─────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_blocker_is_resolved_by_a_word_or_by_the_end_of_its_conversation_and_comes_back_by_another() {
    let mut desk = desk();
    let report = |desk: &Desk| blocker(desk, "b").expect("there is one");
    assert!(blocker(&desk, "b").is_none());
    post(&mut desk, "lead", within("b", letter("bob", "message")), "hello");
    assert!(blocker(&desk, "b").is_none(), "no blocker is reported yet");
    let first = post(&mut desk, "bob", within("b", letter("lead", "blocker_notification")), "no disk");
    assert_eq!(report(&desk).line.status, BlockerStatus::Open);
    assert_eq!(report(&desk).waiting.len(), 1, "lead has work to do; bob has only news");

    desk.pass(25 * MINUTE);
    post(&mut desk, "bob", within("b", letter("lead", "blocker_resolved")), "a larger one");
    let resolved = report(&desk).line;
    assert_eq!((resolved.status, resolved.number), (BlockerStatus::Resolved, first));
    assert_eq!((resolved.reported_by.as_str(), resolved.resolved_by.as_deref()), ("bob", Some("bob")));
    assert_eq!((resolved.resolution_ms, resolved.resolution.as_deref()), (Some(25 * MINUTE), Some("a larger one")));

    post(&mut desk, "bob", within("b", letter("lead", "blocker_notification")), "full again");
    let again = report(&desk).line;
    assert_eq!((again.status, again.number, again.resolved_at), (BlockerStatus::Open, first, None));
    desk.pass(MINUTE);
    accepted(desk.close("ann", first));
    let closed = report(&desk).line;
    assert_eq!((closed.resolved_by.as_deref(), closed.resolution_ms), (Some("ann"), Some(26 * MINUTE)));
    assert_eq!(closed.resolution.as_deref(), Some("that is that"));
}

#[test]
fn passing_a_blocker_on_reports_no_new_one_and_what_comes_before_it_resolves_nothing() {
    let mut desk = desk();
    post(&mut desk, "bob", within("b", letter("lead", "blocker_resolved")), "the last one");
    let first = post(&mut desk, "bob", within("b", letter("lead", "blocker_notification")), "no disk");
    let forward = Send {
        ends: Some(poste_core::log::Ends { message: first, how: poste_core::log::EndsHow::Forwarded, token: None }),
        ..letter("cy", "blocker_notification")
    };
    post(&mut desk, "lead", forward, "Fwd: no disk");
    let report = blocker(&desk, "b").expect("there is one");
    assert_eq!((report.line.number, report.line.status), (first, BlockerStatus::Open));
    let told = happened(&report.timeline);
    assert_eq!(
        told,
        [(Happened::Resolved, "bob", 1), (Happened::Reported, "bob", 2), (Happened::Forwarded, "lead", 3)]
    );
}

#[test]
fn a_timeline_tells_each_step_once() {
    let mut desk = desk();
    let first = post(&mut desk, "bob", letter("lead", "blocker_notification"), "no disk");
    accepted(desk.shown("lead", first));
    accepted(desk.shown("lead/2", first));
    accepted(desk.ack("lead", first));
    let question = post(&mut desk, "lead", within("1", letter("cy", "question")), "how large?");
    accepted(desk.post("cy", answer_and_finish(question)));
    accepted(desk.done("lead", first));
    let report = blocker(&desk, "1").expect("there is one");
    let expected = [
        (Happened::Reported, "bob", 1),
        (Happened::Shown, "lead", 1),
        (Happened::Acknowledged, "lead", 1),
        (Happened::Sent, "lead", 2),
        (Happened::Answered, "cy", 3),
        (Happened::Done, "lead", 1),
    ];
    assert_eq!(happened(&report.timeline), expected);
}

#[test]
fn what_refers_to_a_blocker_from_another_conversation_belongs_to_its_timeline() {
    let mut desk = desk();
    let first = post(&mut desk, "bob", within("b", letter("lead", "blocker_notification")), "no disk");
    let order = post(&mut desk, "lead", within("shop", letter("cy", "directive")), "buy a disk");
    let unrelated = post(&mut desk, "lead", within("shop", letter("cy", "directive")), "buy coffee");
    let reply =
        post(&mut desk, "lead", within("other", Send { reply_to: Some(first), ..letter("bob", "response") }), "soon");
    let refers = Content {
        subject: "ordered".to_owned(),
        references: vec![format!("#{order}"), "docs/disk.md".to_owned(), "0".to_owned(), "99".to_owned()],
        ..Content::default()
    };
    accepted(desk.say("lead", Intent::Send(within("b", letter("bob", "message"))), Some(refers)));
    let report = blocker(&desk, "b").expect("there is one");
    let linked: Vec<MessageNo> =
        report.timeline.iter().filter(|happening| happening.linked).map(|happening| happening.number).collect();
    assert_eq!(linked, [order, reply]);
    assert!(!linked.contains(&unrelated));
    assert!(report.timeline.is_sorted_by_key(|happening| happening.position));
}

// ── Conversations ────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_conversation_is_open_then_resolved_then_closed_with_the_results_of_its_work() {
    let mut desk = desk();
    let first = post(&mut desk, "lead", within("plan", letter("bob", "directive")), "build it");
    let second = post(&mut desk, "lead", within("plan", letter("cy", "directive")), "test it");
    assert_eq!(conversation(&desk, "plan").status, ConversationStatus::Open);
    desk.pass(8 * MINUTE);
    accepted(desk.done("bob", first));
    accepted(desk.done("cy", second));
    let report = conversation(&desk, "plan");
    assert_eq!((report.status, report.messages.count), (ConversationStatus::Resolved, 2));
    assert_eq!((report.duration_ms, report.participants.join(" ")), (8 * MINUTE, "bob cy lead".to_owned()));
    let said: Vec<&str> = report.results.iter().filter_map(|result| result.result.summary.as_deref()).collect();
    assert_eq!(said, ["done by bob", "done by cy"]);
    desk.pass(MINUTE);
    accepted(desk.close("lead", first));
    let report = conversation(&desk, "plan");
    assert_eq!((report.status, report.duration_ms), (ConversationStatus::Closed, 9 * MINUTE));
    assert_eq!(report.outcome.expect("it was closed").text, "that is that");
}

/// A day with a bit of everything, all of it finished.
fn busy_day(desk: &mut Desk) {
    let decision = post(desk, "lead", within("decision", letter("everyone", "decision_announcement")), "RS256");
    for who in ["bob", "cy", "dot"] {
        accepted(desk.shown(who, decision));
        accepted(desk.ack(who, decision));
    }
    let acknowledgment = Send { reply_to: Some(decision), ..letter("", "acknowledgment") };
    accepted(desk.post("ann", acknowledgment));
    accepted(desk.done("ann", decision));
    accepted(desk.ack("lead", desk.last_message()));
    desk.pass(MINUTE);
    let blocked = post(desk, "bob", within("blocked", letter("lead", "blocker_notification")), "no disk");
    accepted(desk.claim("lead", blocked));
    desk.pass(MINUTE);
    accepted(desk.done("lead", blocked));
    post(desk, "bob", within("blocked", letter("lead", "blocker_resolved")), "a larger one");
    accepted(desk.ack("lead", desk.last_message()));
    let failed = post(desk, "lead", within("failed", letter("cy", "directive")), "deploy");
    accepted(desk.fail("cy", failed));
    let expiring = Send { expires: after(MINUTE), ..within("expired", letter("dot", "message")) };
    post(desk, "lead", expiring, "today only");
    let question = post(desk, "lead", within("asked", letter("cy", "question")), "which key?");
    desk.pass(3 * MINUTE);
    accepted(desk.post("cy", answer_and_finish(question)));
    accepted(desk.ack("lead", desk.last_message()));
    accepted(desk.close("ann", failed));
    for told in desk.notices() {
        accepted(desk.ack(&told.to, told.number));
    }
}

#[test]
fn an_archive_changes_no_report() {
    let mut desk = desk();
    let since = desk.now();
    busy_day(&mut desk);
    let until = since.plus_ms(DAY);
    let all = |desk: &Desk| {
        let named = ["decision", "blocked", "failed", "expired", "asked"];
        let mut reports: Vec<serde_json::Value> =
            named.iter().map(|name| comparable(&conversation(desk, name))).collect();
        reports.push(comparable(&broadcast(desk, MessageNo(1))));
        reports.push(comparable(&blocker(desk, "blocked").expect("there is one")));
        // Also for spans that begin after some of their messages were stored.
        for since in [since, since.plus_ms(MINUTE + SECOND), since.plus_ms(3 * MINUTE)] {
            reports.push(comparable(&day(desk, since, until)));
            reports.extend(["lead", "bob", "cy", "dot", "ann"].map(|name| comparable(&agent(desk, name, since))));
        }
        reports
    };
    let before = all(&desk);
    let _ = desk.archive("lead");
    assert!(desk.office.store().tables().expect("tables").message(MessageNo(1)).expect("it is read").is_none());
    for (before, after) in before.iter().zip(all(&desk)) {
        assert_eq!(*before, after);
    }
    assert!(conversation(&desk, "asked").archived);
}

#[test]
fn erased_words_are_said_to_be_erased() {
    let mut desk = desk();
    let number = post(&mut desk, "lead", within("secret", letter("bob", "directive")), "the password is x");
    accepted(desk.done("bob", number));
    accepted(desk.close("lead", number));
    let closed = desk.head();
    desk.redact_message("lead", number);
    accepted(desk.redact("lead", &[closed]));
    let done = conversation(&desk, "secret").results[0].result.position;
    accepted(desk.redact("bob", &[done]));
    desk.office.erase().expect("it is erased");
    let report = conversation(&desk, "secret");
    assert_eq!(
        (report.subject.as_str(), report.outcome.expect("it is closed").text.as_str()),
        ("(redacted)", "(redacted)")
    );
    assert!(report.results[0].result.content_gone);
    assert!(report.timeline.iter().all(|happening| happening.text.as_deref() == Some("(redacted)")));
    assert_eq!(broadcast(&desk, number).receipts[0].note.as_deref(), Some("(redacted)"));
}

#[test]
fn an_archive_that_is_gone_is_named_and_hides_nothing_else() {
    let mut desk = desk();
    let since = desk.now();
    busy_day(&mut desk);
    let _ = desk.archive("lead");
    let live = post(&mut desk, "lead", within("asked", letter("cy", "message")), "one more thing");
    std::fs::remove_dir_all(desk.place.path.join("archive")).expect("the archive is removed");
    desk.leave_unverified();
    let report = conversation(&desk, "asked");
    assert!(!report.damage.is_empty());
    assert_eq!(report.timeline.last().map(|happening| happening.number), Some(live));
    assert_eq!(report.timeline[0].text.as_deref(), Some("(unreadable)"));
    let report = day(&desk, since, since.plus_ms(DAY));
    assert!(!report.damage.is_empty());
    assert_eq!(report.messages, 9, "senders are read from the log, not from the archive");
}

// ── Agents and days ──────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn an_agents_report_counts_what_it_did_in_the_span_and_nothing_else() {
    let mut desk = desk();
    let early = desk.send("lead", "bob", "question");
    accepted(desk.shown("bob", early));
    desk.pass(HOUR);
    let since = desk.now();
    let question = desk.send("lead", "bob", "question");
    let work = desk.send("lead", "bob", "directive");
    desk.send("lead", "cy", "directive");
    desk.pass(10 * MINUTE);
    accepted(desk.post("bob", answer_and_finish(question)));
    accepted(desk.reply("bob", early));
    accepted(desk.claim("bob", work));
    desk.pass(20 * MINUTE);
    let report = agent(&desk, "bob", since);
    assert_eq!((report.sent, report.received, report.shown), (2, 2, 0));
    assert_eq!((report.claimed, report.done, report.failed, report.attempts_lost), (2, 1, 0, 1), "one lease expired");
    assert_eq!((report.answered.count, report.answered.median_ms), (2, Some(10 * MINUTE)));
    assert_eq!(report.answered.p95_ms, Some(70 * MINUTE), "the early one waited for an hour more");
    let open: Vec<MessageNo> = report.open_mail.iter().map(|mail| mail.number).collect();
    assert_eq!((report.open.count, open.len()), (2, 2));
    let nothing = agent(&desk, "bob", desk.now());
    assert_eq!((nothing.sent, nothing.received, nothing.claimed, nothing.answered.count), (0, 0, 0, 0));
    let all = agent(&desk, "bob", Timestamp::ZERO);
    assert_eq!((all.shown, all.received), (1, 3));
}

#[test]
fn an_agents_report_tells_what_is_dead_and_what_is_overdue() {
    let mut desk = desk();
    let since = desk.now();
    let dying = desk.send("lead", "bob", "directive");
    desk.fail_until("bob", dying, 0);
    let late = accepted(desk.post("lead", Send { respond_by: after(MINUTE), ..letter("bob", "question") })).number;
    accepted(desk.post("lead", Send { respond_by: after(HOUR), ..letter("bob", "question") }));
    accepted(desk.post("lead", Send { respond_by: after(MINUTE), ..letter("cy", "question") }));
    desk.pass(2 * MINUTE);
    let report = agent(&desk, "bob", since);
    assert_eq!((report.dead, report.attempts_lost, report.failed), (1, 5, 0));
    assert_eq!(report.overdue.iter().map(|mail| mail.number).collect::<Vec<_>>(), [late]);
    assert_eq!(agent(&desk, "cy", since).dead, 0);
}

#[test]
fn a_day_ends_where_the_next_begins() {
    let mut desk = desk();
    let midnight = desk.now().plus_ms(HOUR);
    desk.send("lead", "bob", "message");
    desk.pass(HOUR - 1);
    let last = desk.send("lead", "bob", "directive");
    desk.pass(1);
    let first = desk.send("lead", "bob", "question");
    accepted(desk.fail("bob", last));
    let (yesterday, today) =
        (day(&desk, midnight.plus_ms(-DAY), midnight), day(&desk, midnight, midnight.plus_ms(DAY)));
    assert_eq!((yesterday.messages, today.messages), (2, 1));
    assert_eq!((yesterday.counts.ended_badly, today.counts.ended_badly), (0, 1));
    let ended = &today.ended_badly[0];
    assert_eq!((ended.number, ended.what, ended.reason.as_deref()), (last, Event::Failed, Some("it broke")));
    let open: Vec<(String, u64)> =
        today.open.iter().map(|line| (line.conversation.to_string(), line.messages)).collect();
    assert_eq!(open, [(last.to_string(), 0), (first.to_string(), 1)], "deliveries that end in it count too");
    let tomorrow = day(&desk, midnight.plus_ms(DAY), midnight.plus_ms(2 * DAY));
    assert_eq!((tomorrow.messages, tomorrow.agents.len()), (0, 0));
}

#[test]
fn a_day_has_broadcasts_blockers_and_what_everybody_did() {
    let mut desk = desk();
    let since = desk.now();
    busy_day(&mut desk);
    let report = day(&desk, since, since.plus_ms(DAY));
    let broadcasts: Vec<(u64, u64)> =
        report.broadcasts.iter().map(|line| (line.acknowledged, line.recipients)).collect();
    assert_eq!(broadcasts, [(4, 4)]);
    let blockers: Vec<Option<i64>> = report.blockers.iter().map(|line| line.resolution_ms).collect();
    assert_eq!(blockers, [Some(MINUTE)]);
    let bad: Vec<Event> = report.ended_badly.iter().map(|ended| ended.what).collect();
    assert_eq!(bad, [Event::Failed, Event::Expired]);
    assert_eq!((report.counts.finished, report.counts.open), (5, 0));
    let lead = report.agents.iter().find(|agent| agent.name == "lead").expect("lead was busy");
    assert_eq!((lead.sent, lead.claimed, lead.done), (4, 1, 1));
    let cy = report.agents.iter().find(|agent| agent.name == "cy").expect("cy was busy");
    assert_eq!((cy.answered, cy.failed, cy.acknowledged), (1, 1, 1));
    let stats: Stats = views::stats(desk.office.store(), since, desk.now()).expect("it can be read");
    let notices = desk.notices().len() as u64;
    assert_eq!(report.messages + notices, stats.messages, "notices are counted separately");
}

/// Asks all members of the role, with the default "deny" after an hour; the number.
fn question(desk: &mut Desk, to: &str) -> MessageNo {
    let choices = ["approve", "deny"].map(|word| word.parse().expect("a word")).to_vec();
    let default = choices.last().cloned();
    let ask = ApprovalAsk { mail: letter(to, "question"), choices, default, deadline: after(HOUR) };
    accepted(desk.say("ann", Intent::ApprovalAsk(ask), about("Deploy?")));
    desk.last_message()
}

fn told(desk: &Desk, number: MessageNo) -> Vec<(String, Happened, Option<String>)> {
    let timeline = conversation(desk, &number.to_string()).timeline;
    timeline.into_iter().map(|line| (line.by, line.what, line.text)).collect()
}

#[test]
fn one_decision_is_told_once_and_credited_to_nobody_else() {
    let mut desk = desk();
    let since = desk.now();
    let answered = question(&mut desk, "bob cy dot");
    let mail = Send { reply_to: Some(answered), ..Send::plain("response".parse().unwrap(), Vec::new()) };
    let answer = ApprovalAnswer { mail, choice: "approve".parse().unwrap() };
    accepted(desk.say("bob", Intent::ApprovalAnswer(answer), Some(text("Go."))));
    let said = |by: &str, what, text: &str| (by.to_owned(), what, Some(text.to_owned()));
    let lines = told(&desk, answered);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!((lines[1].0.as_str(), lines[1].1), ("bob", Happened::Decided));
    assert!(lines[1].2.as_ref().is_some_and(|text| text.starts_with("approve")), "{lines:?}");
    assert_eq!(agent(&desk, "bob", since).done, 1);
    let report = broadcast(&desk, answered);
    let [bob, cy, dot] = responses(&report).try_into().expect("three");
    assert_eq!(bob, ("bob", Some(Response::Answered)));
    assert_eq!([cy, dot], [("cy", Some(Response::Decided)), ("dot", Some(Response::Decided))]);

    let late = question(&mut desk, "bob cy");
    desk.pass(HOUR);
    assert_eq!(told(&desk, late)[1..], [said("poste", Happened::Defaulted, "deny, the default")]);

    let withdrawn = question(&mut desk, "bob");
    accepted(desk.retire("ann", "ann"));
    assert_eq!(told(&desk, withdrawn)[1].1, Happened::Withdrawn);
    let day = day(&desk, since, desk.now().plus_ms(1));
    assert!(day.ended_badly.iter().all(|ended| ![answered, late, withdrawn].contains(&ended.number)), "{day:?}");
    assert_eq!(day.counts.broadcasts, 0);
    let done: Vec<(&str, u64)> = day.agents.iter().map(|agent| (agent.name.as_str(), agent.done)).collect();
    assert_eq!(done.iter().filter(|(_, done)| *done > 0).collect::<Vec<_>>(), [&("bob", 1)]);
}

#[test]
fn conversations_of_a_day_stand_in_the_order_of_their_numbers() {
    let mut desk = desk();
    let since = desk.now();
    for _ in 0..11 {
        desk.send("lead", "bob", "message");
    }
    post(&mut desk, "lead", within("a-name", letter("bob", "message")), "Named");
    let open = day(&desk, since, desk.now().plus_ms(1)).open;
    let open: Vec<&str> = open.iter().map(|line| line.conversation.as_str()).collect();
    assert_eq!(open, ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "a-name"]);
}
