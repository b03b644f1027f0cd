//! Actions: every record that needs work outside the office names that work, and the waiters that its changes concern.

use std::collections::BTreeSet;

use poste_core::fold::{Action, Code, Effect};
use poste_core::log::{
    ApprovalAnswer, ApprovalAsk, Claim, Close, Content, ContextAppend, ContextCreate, ContextLock, Document, Ends,
    EndsHow, HoldReason, Intent, Lines, Reserve, Retire, RunHold, Send, SessionStart, StepMark, StepSpec, Wake,
    WakeOutcome, WakeWay, WorkflowEnd, WorkflowEnding, WorkflowMark, WorkflowRetry, WorkflowStart, WorkflowStep,
    context_mail,
};
use poste_core::office::Rules;
use poste_core::store::processes;
use poste_core::store::table_digest::refold;
use poste_core::store::tables::{Concern, State};
use poste_core::text::{ContextName, Label};
use poste_core::time::When;
use poste_core::{Digest, MessageNo, views};

use crate::common::*;

/// An office whose registration actions have been taken.
fn desk(names: &[&str]) -> Desk {
    let mut desk = Desk::with(names);
    desk.office.take_actions();
    desk
}

fn ring(number: MessageNo, address: &str) -> Action {
    Action::Ring { message: number, address: address.parse().expect("an address") }
}

fn advance(workflow: &str) -> Action {
    Action::Advance { workflow: label(workflow) }
}

fn mirror(context: &str) -> Action {
    Action::Mirror { context: context.parse().expect("a context's name") }
}

fn label(text: &str) -> Label {
    text.parse().expect("a label")
}

#[track_caller]
fn asked_for(desk: &mut Desk, expected: &[Action]) {
    let expected: BTreeSet<Action> = expected.iter().cloned().collect();
    let found: BTreeSet<Action> = desk.office.take_actions().into_iter().collect();
    assert_eq!(found, expected);
}

fn newest(desk: &Desk) -> MessageNo {
    desk.last_message()
}

fn runs(desk: &mut Desk, who: &str) {
    let start = SessionStart {
        id: format!("s-{who}").parse().expect("a session"),
        process: Some(processes::written_down(std::process::id())),
        host: "here".to_owned(),
        program: "codex".to_owned(),
        worktree: None,
        parent: None,
        takes_over: None,
        resumes: false,
    };
    accepted(desk.ask(who, Intent::SessionStart(start)));
}

// ── New mail ─────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn mail_that_must_be_seen_now_rings_at_each_address_and_other_mail_nowhere() {
    let mut desk = desk(&["lead", "coder", "other"]);
    let alert = desk.send("lead", "coder other", "alert");
    asked_for(&mut desk, &[ring(alert, "coder"), ring(alert, "other")]);
    asked_for(&mut desk, &[]);
    for calm in ["message", "progress_update", "audit_report"] {
        desk.send("lead", "coder", calm);
        asked_for(&mut desk, &[]);
    }
}

#[test]
fn a_group_and_a_topic_ring_too() {
    let mut desk = Desk::with(&["lead"]);
    desk.register("coder", with_role("dev"));
    accepted(desk.subscribe("coder", "builds", None));
    desk.office.take_actions();
    let group = desk.send("lead", "role:dev", "blocker_notification");
    asked_for(&mut desk, &[ring(group, "role:dev")]);
    let topic = desk.send("lead", "topic:builds", "alert");
    asked_for(&mut desk, &[ring(topic, "coder")]);
    // A late subscriber gets it on subscribing.
    desk.register("late", agent());
    desk.office.take_actions();
    accepted(desk.subscribe("late", "builds", Some(poste_core::Position(1))));
    asked_for(&mut desk, &[ring(topic, "late")]);
}

#[test]
fn a_failure_rings_the_sender() {
    let mut desk = desk(&["lead", "coder"]);
    let task = desk.send("lead", "coder", "directive");
    accepted(desk.fail("coder", task));
    let alert = newest(&desk);
    asked_for(&mut desk, &[ring(alert, "lead")]);
}

#[test]
fn a_tick_rings_for_what_it_tells_and_for_what_can_be_taken_from_then_on() {
    let mut desk = desk(&["lead", "coder"]);
    // A message expires.
    accepted(desk.post("lead", Send { expires: after(MINUTE), ..letter("coder", "directive") }));
    asked_for(&mut desk, &[]);
    desk.pass(2 * MINUTE);
    let expired = newest(&desk);
    asked_for(&mut desk, &[ring(expired, "lead")]);
    // A response is overdue.
    accepted(desk.post("lead", Send { respond_by: after(MINUTE), ..letter("coder", "directive") }));
    desk.pass(2 * MINUTE);
    let overdue = newest(&desk);
    asked_for(&mut desk, &[ring(overdue, "lead")]);
    // The last attempt fails.
    let task = desk.send("lead", "coder", "directive");
    desk.fail_until("coder", task, 1);
    asked_for(&mut desk, &[]);
    accepted(desk.claim("coder", task));
    desk.pass(HOUR);
    assert_eq!(desk.state(task), State::Dead);
    let dead = newest(&desk);
    asked_for(&mut desk, &[ring(dead, "lead")]);
    // A delayed message becomes ready.
    let later = accepted(desk.post("lead", Send { not_before: after(MINUTE), ..letter("coder", "alert") })).number;
    asked_for(&mut desk, &[]);
    desk.pass(2 * MINUTE);
    asked_for(&mut desk, &[ring(later, "coder")]);
    // A lease expires, and the retry delay passes.
    accepted(desk.claim("coder", later));
    asked_for(&mut desk, &[]);
    desk.pass(LEASE + HOUR);
    asked_for(&mut desk, &[ring(later, "coder")]);
}

#[test]
fn a_tick_before_a_refused_record_is_carried_out_all_the_same() {
    let mut desk = desk(&["lead", "coder"]);
    accepted(desk.post("lead", Send { expires: after(MINUTE), ..letter("coder", "directive") }));
    desk.office.take_actions();
    desk.clock.pass(2 * MINUTE);
    refused(desk.claim("coder", MessageNo(99)), Code::UnknownMessage);
    let expired = newest(&desk);
    asked_for(&mut desk, &[ring(expired, "lead")]);
}

#[test]
fn what_comes_back_rings_again() {
    let mut desk = desk(&["lead", "coder"]);
    let alert = desk.send("lead", "coder", "blocker_notification");
    let token = accepted(desk.claim("coder", alert));
    desk.office.take_actions();
    accepted(desk.release("coder", alert, Some(token)));
    asked_for(&mut desk, &[ring(alert, "coder")]);
    accepted(desk.fail("coder/2", alert));
    let failed = newest(&desk);
    asked_for(&mut desk, &[ring(failed, "lead")]);
    accepted(desk.retry("lead", alert));
    asked_for(&mut desk, &[ring(alert, "coder")]);
}

#[test]
fn who_retires_or_closes_leaves_notices_that_ring() {
    let mut desk = desk(&["lead", "coder", "other"]);
    let task = desk.send("lead", "coder", "directive");
    accepted(desk.ask("coder", Intent::Retire(Retire { name: "coder".parse().unwrap() })));
    let returned = newest(&desk);
    asked_for(&mut desk, &[ring(returned, "lead")]);
    assert_eq!(desk.state(task), State::Returned);
    let task = desk.send("lead", "other", "directive");
    accepted(desk.claim("other", task));
    accepted(desk.say("lead", Intent::Close(Close { message: task }), Some(text("over"))));
    let closed = newest(&desk);
    asked_for(&mut desk, &[ring(closed, "other")]);
}

#[test]
fn a_question_rings_and_so_does_what_is_decided() {
    let mut desk = desk(&["lead", "coder"]);
    let choices = ["yes", "no"].map(|word| word.parse().expect("a word")).to_vec();
    let ask = |deadline: Option<When>| {
        let default = deadline.is_some().then(|| "no".parse().expect("a word"));
        let mail = letter("coder", "plan_approval_request");
        Intent::ApprovalAsk(ApprovalAsk { mail, choices: choices.clone(), default, deadline })
    };
    accepted(desk.say("lead", ask(None), Some(text("may I?"))));
    let question = newest(&desk);
    asked_for(&mut desk, &[ring(question, "coder")]);
    let mail = Send { reply_to: Some(question), ..letter("", "plan_approval_response") };
    let answer = ApprovalAnswer { choice: "yes".parse().unwrap(), mail };
    accepted(desk.say("coder", Intent::ApprovalAnswer(answer), Some(text("do"))));
    let decided = newest(&desk);
    asked_for(&mut desk, &[ring(decided, "lead")]);
    // No answer in time: the tick decides, and both are notified.
    accepted(desk.say("lead", ask(after(MINUTE)), Some(text("may I?"))));
    desk.office.take_actions();
    desk.pass(2 * MINUTE);
    let told = desk.notices().into_iter().filter(|told| told.about > decided);
    let told: Vec<Action> = told.map(|told| ring(told.number, &told.to)).collect();
    assert!(!told.is_empty());
    asked_for(&mut desk, &told);
}

#[test]
fn what_is_told_of_a_stop_rings() {
    let mut desk = desk(&["lead", "coder"]);
    let stop = RunHold { agent: None, message: None, why: HoldReason::Stopped, until: None, mail: None };
    accepted(desk.ask("coder", Intent::RunHold(stop)));
    asked_for(&mut desk, &[]);
    desk.send("lead", "coder", "directive");
    let told = newest(&desk);
    asked_for(&mut desk, &[ring(told, "lead")]);
}

#[test]
fn a_later_numbered_step_rings_when_its_turn_has_come() {
    let mut desk = desk(&["lead", "coder", "other"]);
    let numbered = |to: &str, step: &str| Send {
        workflow: Some(label("by-hand")),
        step: Some(label(step)),
        ..letter(to, "blocker_notification")
    };
    let first = accepted(desk.post("lead", numbered("coder", "1"))).number;
    desk.office.take_actions();
    let second = accepted(desk.post("lead", numbered("other", "2"))).number;
    let looked = desk.head();
    asked_for(&mut desk, &[]);
    assert_eq!(desk.owed(), [desk.delivery(first).number.0], "the second cannot be claimed yet");
    assert_eq!((desk.news("other"), desk.news_since("other", looked)), (vec![], vec![]));
    accepted(desk.done("coder", first));
    asked_for(&mut desk, &[ring(second, "other")]);
    assert_eq!(desk.owed(), [desk.delivery(second).number.0]);
    assert_eq!((desk.news("other"), desk.news_since("other", looked)), (vec![second], vec![second]));
    // An earlier step is added afterwards: until it is done, this one rings for nobody.
    let earlier = accepted(desk.post("lead", numbered("coder", "1"))).number;
    let owed = |desk: &Desk| views::owed_mail(desk.office.store(), &"other".parse().unwrap()).unwrap();
    assert!(owed(&desk).is_empty() && desk.news("other").is_empty());
    accepted(desk.done("coder", earlier));
    assert_eq!(Vec::from_iter(owed(&desk)), [second]);
}

#[test]
fn a_later_numbered_step_rings_when_an_earlier_one_is_archived() {
    let mut desk = desk(&["lead", "coder", "other"]);
    let numbered = |to: &str, step: &str| Send {
        workflow: Some(label("by-hand")),
        step: Some(label(step)),
        ..letter(to, "blocker_notification")
    };
    let first = accepted(desk.post("lead", numbered("coder", "1"))).number;
    let second = accepted(desk.post("lead", numbered("other", "2"))).number;
    accepted(desk.fail("coder", first));
    let told = newest(&desk);
    accepted(desk.ack("lead", told));
    desk.office.take_actions();
    desk.archive("lead");
    asked_for(&mut desk, &[ring(second, "other")]);
}

#[test]
fn what_is_taken_in_the_same_transaction_rings_for_nobody() {
    let mut desk = desk(&["lead", "coder"]);
    let send = desk.proposal("lead", Intent::Send(letter("coder", "alert")), Some(text("fire")));
    let claim = Claim { message: Some(MessageNo(1)), max: 1, lease_ms: None, types: Vec::new() };
    let claim = desk.proposal("coder", Intent::Claim(claim), None);
    desk.office.submit(&[send, claim], &Rules::none()).expect("both are stored");
    assert_eq!(desk.state(MessageNo(1)), State::Claimed);
    asked_for(&mut desk, &[]);
}

// ── Contexts, workflows ──────────────────────────────────────────────────────────────────────────────────────

fn context(name: &str) -> ContextName {
    name.parse().expect("a context's name")
}

fn saying(words: &str) -> Option<Content> {
    let document = Document { text: Some(words.to_owned()), ..Document::default() };
    Some(Content { subject: "changes".to_owned(), document: Some(document), ..Content::default() })
}

#[test]
fn a_version_of_a_context_asks_for_its_mirror_and_a_lock_does_not() {
    let mut desk = desk(&["lead", "coder"]);
    let (lines, kind) = (Lines { added: 1, removed: 0 }, "decisions".parse().expect("a word"));
    let (name, mail) = (context("api"), context_mail(&context("api")));
    let create = ContextCreate { name: name.clone(), kind, lines, data: false, schema: false, mail: mail.clone() };
    accepted(desk.say("lead", Intent::ContextCreate(create), saying("one")));
    asked_for(&mut desk, &[mirror("api")]);
    let append = || Intent::ContextAppend(ContextAppend { name: name.clone(), lines, mail: mail.clone() });
    accepted(desk.say("coder", append(), saying("two")));
    let changes = desk.office.take_changes();
    assert!(changes.concerns.touch(&Concern::Context(name.clone())) && !changes.concerns.touch(&Concern::Policy));
    assert_eq!(changes.into_actions(), [mirror("api")]);
    accepted(desk.ask("lead", Intent::ContextLock(ContextLock { name: name.clone(), for_ms: MINUTE })));
    let changes = desk.office.take_changes();
    assert!(changes.concerns.touch(&Concern::Context(name.clone())));
    assert_eq!(changes.into_actions(), []);
    refused(desk.say("coder", append(), saying("three")), Code::ContextLocked);
    asked_for(&mut desk, &[]);
    desk.pass(HOUR);
    assert!(desk.office.take_changes().concerns.touch(&Concern::Context(name)), "the tick releases the lock");
}

fn start(steps: &[&str]) -> Intent {
    let spec =
        |key: &&str| StepSpec { key: label(key), needs: Vec::new(), again: Vec::new(), max_rounds: 1, instead: None };
    let steps = steps.iter().map(spec).collect();
    Intent::WorkflowStart(WorkflowStart { name: label("ship"), digest: Digest::of(b"it"), steps, lead: None })
}

fn step(key: &str, time_limit_ms: Option<i64>) -> Intent {
    let ship = Some(label("ship-1"));
    let mail = Send { workflow: ship.clone(), step: Some(label(key)), conversation: ship, ..letter("coder", "alert") };
    Intent::WorkflowStep(WorkflowStep {
        workflow: label("ship-1"),
        step: label(key),
        round: 1,
        item: 1,
        of: 1,
        attempt: 1,
        failure: false,
        mail,
        ask: None,
        time_limit_ms,
    })
}

#[test]
fn a_workflow_is_to_be_advanced_when_something_of_it_is_over() {
    let mut desk = desk(&["lead", "coder", "other"]);
    let effect = accepted(desk.say("lead", start(&["build", "test", "ship", "sign"]), Some(text("the definition"))));
    assert_eq!(effect, Effect::Began(label("ship-1")));
    asked_for(&mut desk, &[advance("ship-1")]);
    for key in ["build", "test", "ship"] {
        accepted(desk.say("lead", step(key, (key == "ship").then_some(MINUTE)), Some(text("do it"))));
        let sent = newest(&desk);
        asked_for(&mut desk, &[ring(sent, "coder")]);
    }
    // A reply ends a step.
    let build = MessageNo(1);
    let ends = Some(Ends { message: build, how: EndsHow::Replied, token: None });
    accepted(desk.post("coder", Send { ends, reply_to: Some(build), ..letter("", "response") }));
    let changes = desk.office.take_changes();
    assert!(changes.concerns.touch(&Concern::Workflow(label("ship-1"))));
    assert!(changes.concerns.touch(&Concern::Message(build)));
    assert!(changes.into_actions().contains(&advance("ship-1")));
    // A step fails.
    accepted(desk.fail("coder", MessageNo(2)));
    assert!(desk.office.take_actions().contains(&advance("ship-1")));
    // A step times out, which only a tick records.
    desk.pass(2 * MINUTE);
    assert!(desk.office.take_actions().contains(&advance("ship-1")));
    let mark = |key: &str, what| {
        Intent::WorkflowMark(WorkflowMark { workflow: label("ship-1"), step: label(key), round: 1, what })
    };
    accepted(desk.ask("lead", mark("test", StepMark::Failed)));
    assert!(desk.office.take_actions().contains(&advance("ship-1")));
    let retry = WorkflowRetry { workflow: label("ship-1"), step: None };
    accepted(desk.ask("lead", Intent::WorkflowRetry(retry)));
    assert!(desk.office.take_actions().contains(&advance("ship-1")));
    // The end of a workflow needs no advance, but wakes its waiters.
    let end = WorkflowEnd { workflow: label("ship-1"), how: WorkflowEnding::Cancelled, mail: None };
    accepted(desk.ask("lead", Intent::WorkflowEnd(end)));
    let changes = desk.office.take_changes();
    assert!(changes.concerns.touch(&Concern::Workflow(label("ship-1"))));
    assert!(!changes.into_actions().contains(&advance("ship-1")));
    // Mail outside of a workflow advances none.
    let task = desk.send("lead", "coder", "directive");
    accepted(desk.done("coder", task));
    asked_for(&mut desk, &[]);
    // A step may be waiting for the new agent.
    desk.register("new", agent());
    asked_for(&mut desk, &[Action::AdvanceAll]);
}

#[test]
fn records_that_ask_for_nothing_ask_for_nothing() {
    let mut desk = desk(&["lead", "coder"]);
    let task = desk.send("lead", "coder", "directive");
    accepted(desk.shown("coder", task));
    let token = accepted(desk.claim("coder", task));
    accepted(desk.extend("coder", task, Some(token)));
    accepted(desk.done("coder", task));
    let note = desk.send("lead", "coder", "message");
    accepted(desk.ack("coder", note));
    runs(&mut desk, "coder");
    asked_for(&mut desk, &[]);
}

// ── Records without actions ──────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_refused_and_a_repeated_record_ask_for_nothing() {
    let mut desk = desk(&["lead", "coder"]);
    refused(desk.post("lead", letter("nobody", "alert")), Code::UnknownAgent);
    asked_for(&mut desk, &[]);
    let alert = desk.proposal("lead", Intent::Send(letter("coder", "alert")), Some(text("fire")));
    let first = desk.outcome(&alert);
    assert!(!first.repeat);
    let number = newest(&desk);
    asked_for(&mut desk, &[ring(number, "coder")]);
    assert!(desk.outcome(&alert).repeat);
    assert_eq!(desk.office.take_changes(), Default::default());
}

#[test]
fn a_refold_and_whoever_opens_the_office_later_ask_for_nothing() {
    let mut desk = desk(&["lead", "coder"]);
    desk.send("lead", "coder", "alert");
    refold(desk.office.store(), |_| {}).expect("it refolds");
    desk.verify();
    let mut other = desk.place.open().expect("the office opens");
    assert_eq!(other.take_actions(), [], "another process has no actions to carry out");
    assert_eq!(desk.office.take_actions().len(), 1, "the process that committed still has its own");
}

#[test]
fn a_batch_asks_for_each_of_its_records_and_past_a_limit_for_the_index() {
    let mut desk = desk(&["lead", "coder"]);
    let batch = |desk: &mut Desk, count: usize| {
        let letter = || Intent::Send(letter("coder", "alert"));
        let proposals: Vec<_> = (0..count).map(|_| desk.proposal("lead", letter(), Some(text("fire")))).collect();
        desk.office.submit(&proposals, &Rules::none()).expect("they are stored");
    };
    batch(&mut desk, 3);
    assert_eq!(desk.office.take_actions().len(), 3);
    batch(&mut desk, 300);
    let changes = desk.office.take_changes();
    assert!(changes.concerns.is_everything());
    assert_eq!(changes.into_actions(), [Action::RingOwed]);
}

// ── Owed rings ───────────────────────────────────────────────────────────────────────────────────────────────

fn owed(desk: &Desk) -> Vec<(String, MessageNo)> {
    let owed = views::owed_rings(desk.office.store(), desk.now()).expect("the index can be read");
    owed.into_iter().map(|(sleeper, message)| (sleeper.agent.to_string(), message)).collect()
}

#[test]
fn a_ring_is_owed_to_whoever_runs_until_it_was_rung_or_shown() {
    let mut desk = Desk::with(&["lead", "coder"]);
    let alert = desk.send("lead", "coder", "alert");
    desk.send("lead", "coder", "message");
    assert_eq!(owed(&desk), [], "no agent is running");
    runs(&mut desk, "coder");
    assert_eq!(owed(&desk), [("coder".to_owned(), alert)]);
    let wake = |message| {
        let agent = "coder".parse().expect("a name");
        Intent::Wake(Wake { message, agent, how: WakeWay::Tmux, outcome: WakeOutcome::Failed })
    };
    accepted(desk.ask("lead", wake(alert)));
    assert_eq!(owed(&desk), [], "it has been rung for");
    let shown = desk.send("lead", "coder", "alert");
    assert_eq!(owed(&desk), [("coder".to_owned(), shown)]);
    accepted(desk.shown("coder", shown));
    assert_eq!(owed(&desk), []);
    let taken = desk.send("lead", "coder", "alert");
    let token = accepted(desk.claim("coder", taken));
    assert_eq!(owed(&desk), []);
    accepted(desk.release("coder", taken, Some(token)));
    assert_eq!(owed(&desk), [("coder".to_owned(), taken)], "it came back");
    let token = accepted(desk.claim("coder", taken));
    accepted(desk.done_with("coder", taken, Some(token)));
    assert_eq!(owed(&desk), []);
}

#[test]
fn a_refold_owes_the_same_rings() {
    let mut desk = desk(&["lead", "coder", "other"]);
    let numbered = |to: &str, step: &str| Send {
        workflow: Some(label("by-hand")),
        step: Some(label(step)),
        ..letter(to, "blocker_notification")
    };
    let first = accepted(desk.post("lead", numbered("coder", "1"))).number;
    let second = accepted(desk.post("lead", numbered("other", "2"))).number;
    let third = accepted(desk.post("lead", numbered("other", "3"))).number;
    let rung = |desk: &mut Desk, message: MessageNo| {
        let agent = "other".parse().unwrap();
        let wake = Wake { message, agent, how: WakeWay::Tmux, outcome: WakeOutcome::Requested };
        accepted(desk.ask("lead", Intent::Wake(wake)));
    };
    // The step rings while an earlier one blocks it, and again when its turn comes.
    rung(&mut desk, second);
    rung(&mut desk, third);
    assert_eq!(desk.owed(), [desk.delivery(first).number.0]);
    accepted(desk.done("coder", first));
    assert_eq!(desk.owed(), [desk.delivery(second).number.0]);
    same_after_a_refold(&desk);
    // A step's turn leaves no event, so the check of the rows at the end would miss this ring.
    rung(&mut desk, second);
}

#[track_caller]
fn same_after_a_refold(desk: &Desk) {
    let refolded = refold(desk.office.store(), |_| {}).expect("it refolds");
    assert_eq!(owed_in(&refolded), owed_in(desk.office.store()));
}

#[test]
fn a_ring_is_owed_again_for_mail_that_was_seen_and_came_back() {
    let mut desk = Desk::with(&["lead", "coder"]);
    runs(&mut desk, "coder");
    let alert = desk.send("lead", "coder", "blocker_notification");
    accepted(desk.shown("coder", alert));
    accepted(desk.fail("coder", alert));
    desk.office.take_actions();
    assert_eq!(owed(&desk), []);
    accepted(desk.retry("lead", alert));
    asked_for(&mut desk, &[ring(alert, "coder")]);
    assert_eq!(owed(&desk), [("coder".to_owned(), alert)], "it was shown before it came back");
    same_after_a_refold(&desk);
    let token = accepted(desk.claim("coder", alert));
    assert_eq!(owed(&desk), []);
    accepted(desk.release("coder", alert, Some(token)));
    assert_eq!(owed(&desk), [("coder".to_owned(), alert)]);
    same_after_a_refold(&desk);
}

#[test]
fn each_member_of_a_group_is_owed_a_ring_of_its_own() {
    let mut desk = Desk::with(&["lead"]);
    for name in ["ann", "bob", "cat"] {
        desk.register(name, with_role("dev"));
        runs(&mut desk, name);
    }
    let page = desk.send("lead", "role:dev", "blocker_notification");
    let all = |names: &[&str]| -> Vec<_> { names.iter().map(|name| (name.to_string(), page)).collect() };
    assert_eq!(owed(&desk), all(&["ann", "bob", "cat"]));
    accepted(desk.shown("ann", page));
    assert_eq!(owed(&desk), all(&["bob", "cat"]), "ann was shown it");
    let how = WakeWay::Tmux;
    let rung = Wake { message: page, agent: "bob".parse().unwrap(), how, outcome: WakeOutcome::Requested };
    accepted(desk.ask("lead", Intent::Wake(rung)));
    assert_eq!(owed(&desk), all(&["cat"]), "bob was rung for it");
    same_after_a_refold(&desk);
    let token = accepted(desk.claim("ann", page));
    assert_eq!((owed(&desk), desk.owed()), (vec![], vec![]));
    accepted(desk.release("ann", page, Some(token)));
    assert_eq!(owed(&desk), all(&["ann", "bob", "cat"]), "it came back to all members");
    same_after_a_refold(&desk);
}

#[test]
fn a_ring_is_owed_for_a_group_but_not_to_who_sent_it() {
    let mut desk = Desk::new();
    desk.register("lead", with_role("dev"));
    desk.register("coder", with_role("dev"));
    runs(&mut desk, "lead");
    runs(&mut desk, "coder");
    let alert = desk.send("lead", "role:dev", "blocker_notification");
    assert_eq!(owed(&desk), [("coder".to_owned(), alert)]);
    accepted(desk.shown("coder", alert));
    assert_eq!(owed(&desk), []);
    // A workflow may send mail to its owner in the owner's name.
    let own = desk.send("coder", "coder", "alert");
    assert_eq!(owed(&desk), [("coder".to_owned(), own)]);
}

// ── Concerns ─────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_record_concerns_those_whose_rows_it_touches_and_nobody_else() {
    let mut desk = Desk::with(&["lead", "coder", "other"]);
    let address = |name: &str| Concern::Address(name.parse().expect("an address"));
    let agent_of = |name: &str| Concern::Agent(name.parse().expect("a name"));
    desk.office.take_changes();
    let task = desk.send("lead", "coder", "directive");
    let sent = desk.office.take_changes().concerns;
    assert!(sent.touch(&address("coder")) && sent.touch(&Concern::Message(task)));
    assert!(!sent.touch(&address("other")) && !sent.touch(&agent_of("coder")));
    // A reply concerns the asker, and waiters for replies to the message.
    accepted(desk.reply("coder", task));
    let replied = desk.office.take_changes().concerns;
    assert!(replied.touch(&Concern::Message(task)) && replied.touch(&address("lead")));
    assert!(!replied.touch(&address("other")));
    let reserve = Reserve { patterns: vec!["src/**".parse().expect("a pattern")], shared: false, for_ms: HOUR };
    accepted(desk.ask("coder", Intent::Reserve(reserve)));
    assert_eq!(desk.office.take_changes().concerns.keys().collect::<Vec<_>>(), [&Concern::Reservations]);
    desk.pass(DAY);
    assert!(desk.office.take_changes().concerns.touch(&Concern::Reservations), "it has expired");
    runs(&mut desk, "other");
    assert_eq!(desk.office.take_changes().concerns.keys().collect::<Vec<_>>(), [&agent_of("other")]);
}
