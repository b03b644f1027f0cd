//! Workflows: each step is one message, steps are sent in order, and what has ended stays ended.

use poste_core::fold::{Code, Effect};
use poste_core::log::{
    ApprovalAnswer, Ends, EndsHow, Intent, Redact, Register, Retire, Send, StepAsk, StepMark, StepSpec, WorkflowEnd,
    WorkflowEnding, WorkflowMark, WorkflowRetry, WorkflowStart, WorkflowStep,
};
use poste_core::store::tables::{EndReason, Notice, State, StepState, TaskState, WorkflowState};
use poste_core::text::Label;
use poste_core::views::{self, Began, WorkflowView};
use poste_core::vocabulary::AgentKind;
use poste_core::{Address, Digest, MessageNo, Timestamp};

use crate::common::*;

fn label(text: &str) -> Label {
    text.parse().expect("a label")
}

fn labels(keys: &[&str]) -> Vec<Label> {
    keys.iter().map(|key| label(key)).collect()
}

fn spec(key: &str, needs: &[&str]) -> StepSpec {
    StepSpec { key: label(key), needs: labels(needs), again: Vec::new(), max_rounds: 1, instead: None }
}

fn start(steps: Vec<StepSpec>) -> Intent {
    Intent::WorkflowStart(WorkflowStart { name: label("ship"), digest: Digest::of(b"a definition"), steps, lead: None })
}

fn step(workflow: &str, key: &str, to: &str) -> WorkflowStep {
    let mail = Send {
        workflow: Some(label(workflow)),
        step: Some(label(key)),
        conversation: Some(label(workflow)),
        ..letter(to, "directive")
    };
    WorkflowStep {
        workflow: label(workflow),
        step: label(key),
        round: 1,
        item: 1,
        of: 1,
        attempt: 1,
        failure: false,
        mail,
        ask: None,
        time_limit_ms: None,
    }
}

fn mark(workflow: &str, key: &str, round: u32, what: StepMark) -> Intent {
    Intent::WorkflowMark(WorkflowMark { workflow: label(workflow), step: label(key), round, what })
}

fn end(workflow: &str, how: WorkflowEnding) -> Intent {
    Intent::WorkflowEnd(WorkflowEnd { workflow: label(workflow), how, mail: None })
}

fn retry(workflow: &str, key: Option<&str>) -> Intent {
    Intent::WorkflowRetry(WorkflowRetry { workflow: label(workflow), step: key.map(label) })
}

/// Starts a workflow as `lead`; its name.
fn begin(desk: &mut Desk, steps: Vec<StepSpec>) -> String {
    match accepted(desk.say("lead", start(steps), Some(text("the definition")))) {
        Effect::Began(label) => label.to_string(),
        other => panic!("unexpected effect: {other:?}"),
    }
}

fn send(desk: &mut Desk, step: WorkflowStep) -> Answer<MessageNo> {
    let effect = desk.say("lead", Intent::WorkflowStep(step), Some(text("do it")))?;
    let Effect::Sent(sent) = effect else { panic!("unexpected effect: {effect:?}") };
    Ok(sent.number)
}

fn see(desk: &Desk, workflow: &str) -> WorkflowView {
    views::workflow(desk.office.store(), &label(workflow)).unwrap().expect("there is such a workflow")
}

fn states(desk: &Desk, workflow: &str) -> Vec<(String, StepState)> {
    see(desk, workflow).steps.into_iter().map(|step| (step.key.to_string(), step.state)).collect()
}

fn desk() -> Desk {
    let mut desk = Desk::with(&["lead", "coder", "other"]);
    desk.register("ann", Register { kind: Some(AgentKind::Human), ..agent() });
    desk
}

#[test]
fn a_definition_that_never_ends_is_refused() {
    let mut desk = desk();
    let with = |desk: &mut Desk, steps| desk.say("lead", start(steps), Some(text("the definition")));
    refused(desk.ask("lead", start(vec![spec("a", &[])])), Code::Malformed); // without the definition's text
    refused(with(&mut desk, Vec::new()), Code::Malformed);
    refused(with(&mut desk, vec![spec("a", &[]), spec("a", &[])]), Code::Malformed);
    refused(with(&mut desk, vec![spec("a", &["b"])]), Code::Malformed);
    refused(with(&mut desk, vec![spec("a", &["b"]), spec("b", &["c"]), spec("c", &["a"])]), Code::Malformed);
    let stands_in_for_what_needs_it = StepSpec { instead: Some(label("b")), ..spec("a", &["b"]) };
    refused(with(&mut desk, vec![stands_in_for_what_needs_it, spec("b", &[])]), Code::Malformed);
    let loops_elsewhere = StepSpec { again: labels(&["a"]), max_rounds: 3, ..spec("b", &["a"]) };
    refused(with(&mut desk, vec![spec("a", &[]), loops_elsewhere]), Code::Malformed);
    let rounds_without_a_loop = StepSpec { max_rounds: 3, ..spec("a", &[]) };
    refused(with(&mut desk, vec![rounds_without_a_loop]), Code::Malformed);
    refused(desk.say("nobody", start(vec![spec("a", &[])]), Some(text("x"))), Code::UnknownAgent);
}

#[test]
fn a_step_is_not_published() {
    let mut desk = desk();
    accepted(desk.subscribe("coder", "builds", None));
    let ship = begin(&mut desk, vec![spec("build", &[])]);
    let build = step(&ship, "build", "coder");
    let published = WorkflowStep {
        mail: Send { to: vec!["topic:builds".parse::<Address>().unwrap()], ..build.mail.clone() },
        ..build
    };
    refused(send(&mut desk, published), Code::Malformed);
}

#[test]
fn a_step_is_sent_once_in_its_order_and_finished_once() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("build", &[]), spec("test", &["build"])]);
    assert_eq!(ship, "ship-1");
    refused(send(&mut desk, step(&ship, "test", "coder")), Code::OutOfOrder);
    refused(send(&mut desk, step("ship-7", "build", "coder")), Code::UnknownWorkflow);
    refused(send(&mut desk, step(&ship, "deploy", "coder")), Code::UnknownStep);
    let not_its_own = desk.say("other", Intent::WorkflowStep(step(&ship, "build", "coder")), Some(text("x")));
    refused(not_its_own, Code::NotAllowed);
    let build = accepted(send(&mut desk, step(&ship, "build", "coder")));
    refused(send(&mut desk, step(&ship, "build", "other")), Code::StepTaken);
    refused(send(&mut desk, WorkflowStep { attempt: 2, ..step(&ship, "build", "coder") }), Code::OutOfOrder);
    refused(desk.ask("lead", mark(&ship, "build", 1, StepMark::Done)), Code::OutOfOrder);
    accepted(desk.done("coder", build));
    refused(send(&mut desk, WorkflowStep { attempt: 2, ..step(&ship, "build", "coder") }), Code::StepTaken);
    accepted(desk.ask("lead", mark(&ship, "build", 1, StepMark::Done)));
    refused(desk.ask("lead", mark(&ship, "build", 1, StepMark::Done)), Code::StepTaken);
    refused(desk.ask("lead", mark(&ship, "build", 1, StepMark::Failed)), Code::StepTaken);
    refused(send(&mut desk, WorkflowStep { attempt: 2, ..step(&ship, "build", "coder") }), Code::StepTaken);
    refused(desk.ask("lead", end(&ship, WorkflowEnding::Finished)), Code::OutOfOrder);
    let test = accepted(send(&mut desk, step(&ship, "test", "coder")));
    accepted(desk.done("coder", test));
    accepted(desk.ask("lead", mark(&ship, "test", 1, StepMark::Done)));
    accepted(desk.ask("lead", end(&ship, WorkflowEnding::Finished)));
    refused(desk.ask("lead", end(&ship, WorkflowEnding::Finished)), Code::Ended);
    refused(send(&mut desk, step(&ship, "test", "coder")), Code::Ended);
    refused(desk.ask("lead", retry(&ship, None)), Code::Ended);
    let seen = see(&desk, &ship);
    assert_eq!((seen.state, seen.settled()), (WorkflowState::Finished, 2));
    let result = seen.steps[0].tasks[0].result.clone().expect("it has a result");
    assert_eq!(result.text, "done by coder");
}

#[test]
fn the_mail_of_a_step_is_of_its_workflow_and_for_one() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("build", &[])]);
    let with = |change: fn(&mut WorkflowStep)| {
        let mut changed = step("ship-1", "build", "coder");
        change(&mut changed);
        changed
    };
    for odd in [
        with(|step| step.mail.workflow = None),
        with(|step| step.mail.step = Some(label("test"))),
        with(|step| step.mail.conversation = None),
        with(|step| step.mail.to = vec![Address::Everyone]),
        with(|step| step.mail.to.push("other".parse().unwrap())),
        with(|step| step.mail.reply_to = Some(MessageNo(1))),
        with(|step| step.failure = true),
        with(|step| step.item = 2),
        with(|step| step.of = 100_000),
    ] {
        refused(send(&mut desk, odd), Code::Malformed);
    }
    refused(send(&mut desk, with(|step| step.time_limit_ms = Some(1))), Code::TimeOutOfRange);
    refused(send(&mut desk, with(|step| step.round = 2)), Code::OutOfOrder);
    refused(send(&mut desk, with(|step| step.mail.to = vec!["role:nobody".parse().unwrap()])), Code::NoMember);
    accepted(send(&mut desk, step(&ship, "build", "coder")));
}

#[test]
fn what_failed_is_tried_as_a_new_message_and_is_no_dead_letter() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("build", &[])]);
    let first = accepted(send(&mut desk, step(&ship, "build", "coder")));
    accepted(desk.fail("coder", first));
    refused(desk.retry("lead", first), Code::NotAllowed);
    assert!(desk.delivery(first).dropped_at.is_none());
    let second = accepted(send(&mut desk, WorkflowStep { attempt: 2, ..step(&ship, "build", "coder") }));
    assert!(desk.delivery(first).dropped_at.is_some());
    refused(desk.ask("lead", mark(&ship, "build", 1, StepMark::Failed)), Code::OutOfOrder);
    accepted(desk.fail("coder", second));
    refused(desk.ask("lead", mark(&ship, "build", 1, StepMark::Done)), Code::OutOfOrder);
    accepted(desk.ask("lead", mark(&ship, "build", 1, StepMark::Failed)));
    refused(desk.ask("lead", end(&ship, WorkflowEnding::Finished)), Code::OutOfOrder);
    accepted(desk.ask("lead", end(&ship, WorkflowEnding::Failed)));
    // Only its owner or a human may retry it.
    refused(desk.ask("coder", retry(&ship, None)), Code::NotAllowed);
    refused(desk.ask("ann", retry(&ship, Some("test"))), Code::UnknownStep);
    accepted(desk.ask("ann", retry(&ship, Some("build"))));
    refused(desk.ask("ann", retry(&ship, None)), Code::NothingToDo);
    assert_eq!(see(&desk, &ship).state, WorkflowState::Open);
    refused(send(&mut desk, WorkflowStep { attempt: 2, ..step(&ship, "build", "coder") }), Code::StepTaken);
    let third = accepted(send(&mut desk, WorkflowStep { attempt: 3, ..step(&ship, "build", "coder") }));
    accepted(desk.done("coder", third));
    accepted(desk.ask("lead", mark(&ship, "build", 1, StepMark::Done)));
    accepted(desk.ask("lead", end(&ship, WorkflowEnding::Finished)));
}

#[test]
fn a_list_is_done_when_each_of_its_items_is() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("read", &[])]);
    let item = |item, of| WorkflowStep { item, of, ..step("ship-1", "read", "coder") };
    let one = accepted(send(&mut desk, item(1, 2)));
    refused(send(&mut desk, item(2, 3)), Code::Malformed);
    accepted(desk.done("coder", one));
    refused(desk.ask("lead", mark(&ship, "read", 1, StepMark::Done)), Code::OutOfOrder);
    let two = accepted(send(&mut desk, item(2, 2)));
    accepted(desk.fail("coder", two));
    refused(desk.ask("lead", mark(&ship, "read", 1, StepMark::Done)), Code::OutOfOrder);
    let again = accepted(send(&mut desk, WorkflowStep { attempt: 2, ..item(2, 2) }));
    accepted(desk.done("coder", again));
    accepted(desk.ask("lead", mark(&ship, "read", 1, StepMark::Done)));
    accepted(desk.ask("lead", end(&ship, WorkflowEnding::Finished)));
}

#[test]
fn a_loop_runs_again_as_often_as_it_may() {
    let mut desk = desk();
    let review = StepSpec { again: labels(&["write", "review"]), max_rounds: 2, ..spec("review", &["write"]) };
    let ship = begin(&mut desk, vec![spec("write", &[]), review, spec("merge", &["review"])]);
    let round = |desk: &mut Desk, round| {
        for key in ["write", "review"] {
            let message = accepted(send(desk, WorkflowStep { round, ..step("ship-1", key, "coder") }));
            accepted(desk.done("coder", message));
            if key == "write" {
                accepted(desk.ask("lead", mark("ship-1", key, round, StepMark::Done)));
            }
        }
    };
    refused(desk.ask("lead", mark(&ship, "write", 1, StepMark::Again)), Code::OutOfOrder); // nothing is done yet
    round(&mut desk, 1);
    accepted(desk.ask("lead", mark(&ship, "review", 1, StepMark::Again)));
    refused(desk.ask("lead", mark(&ship, "review", 1, StepMark::Again)), Code::StepTaken);
    refused(desk.ask("lead", mark(&ship, "review", 1, StepMark::Done)), Code::StepTaken);
    refused(send(&mut desk, step(&ship, "write", "coder")), Code::StepTaken); // a step of the first round
    refused(send(&mut desk, step(&ship, "merge", "coder")), Code::OutOfOrder);
    round(&mut desk, 2);
    refused(desk.ask("lead", mark(&ship, "review", 2, StepMark::Again)), Code::OutOfOrder);
    accepted(desk.ask("lead", mark(&ship, "review", 2, StepMark::Failed)));
    // A retry allows one more round.
    accepted(desk.ask("lead", retry(&ship, None)));
    accepted(desk.ask("lead", mark(&ship, "review", 2, StepMark::Again)));
    round(&mut desk, 3);
    accepted(desk.ask("lead", mark(&ship, "review", 3, StepMark::Done)));
    accepted(send(&mut desk, step(&ship, "merge", "coder")));
    assert_eq!(see(&desk, &ship).steps[1].tasks.len(), 3);
}

#[test]
fn somebody_stands_in_for_what_failed() {
    let mut desk = desk();
    let build = StepSpec { instead: Some(label("by-hand")), ..spec("build", &[]) };
    let ship = begin(&mut desk, vec![build, spec("by-hand", &[]), spec("test", &["build"])]);
    refused(send(&mut desk, step(&ship, "by-hand", "other")), Code::OutOfOrder);
    let message = accepted(send(&mut desk, step(&ship, "build", "coder")));
    accepted(desk.fail("coder", message));
    accepted(desk.ask("lead", mark(&ship, "build", 1, StepMark::Failed)));
    refused(send(&mut desk, step(&ship, "test", "coder")), Code::OutOfOrder);
    let by_hand = accepted(send(&mut desk, step(&ship, "by-hand", "other")));
    accepted(desk.done("other", by_hand));
    accepted(desk.ask("lead", mark(&ship, "by-hand", 1, StepMark::Done)));
    refused(desk.ask("lead", retry(&ship, None)), Code::NothingToDo);
    accepted(desk.ask("lead", mark(&ship, "test", 1, StepMark::Skipped)));
    accepted(desk.ask("lead", end(&ship, WorkflowEnding::Finished)));
    let expected = [("build", StepState::Failed), ("by-hand", StepState::Done), ("test", StepState::Skipped)];
    assert_eq!(states(&desk, &ship), expected.map(|(key, state)| (key.to_owned(), state)));
}

#[test]
fn what_cannot_be_sent_waits_and_says_so_once() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("build", &[])]);
    let why = || Some(text("no agent can rust"));
    accepted(desk.say("lead", mark(&ship, "build", 1, StepMark::Waiting), why()));
    refused(desk.say("lead", mark(&ship, "build", 1, StepMark::Waiting), why()), Code::StepTaken);
    assert_eq!(see(&desk, &ship).steps[0].reason.as_deref(), Some("no agent can rust"));
    accepted(send(&mut desk, step(&ship, "build", "coder")));
    assert_eq!(see(&desk, &ship).steps[0].state, StepState::Open);
}

#[test]
fn an_approval_is_a_step_also_for_whoever_began_it() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("go", &[])]);
    let ask =
        StepAsk { choices: vec!["approve".parse().unwrap(), "deny".parse().unwrap()], default: None, deadline: None };
    let mut question = WorkflowStep { ask: Some(ask), ..step(&ship, "go", "lead") };
    question.mail.kind = "question".parse().unwrap();
    let answer = |number, choice: &str| {
        let mail = Send { reply_to: Some(number), to: Vec::new(), ..letter("lead", "response") };
        Intent::ApprovalAnswer(ApprovalAnswer { mail, choice: choice.parse().unwrap() })
    };
    let number = accepted(send(&mut desk, question.clone()));
    refused(desk.done("lead", number), Code::NeedsAnswer);
    accepted(desk.ask("lead", answer(number, "deny")));
    assert_eq!(see(&desk, &ship).steps[0].tasks[0].state, TaskState::Failed);
    refused(desk.ask("lead", mark(&ship, "go", 1, StepMark::Done)), Code::OutOfOrder);
    let number = accepted(send(&mut desk, WorkflowStep { attempt: 2, ..question }));
    accepted(desk.ask("lead", answer(number, "approve")));
    let seen = see(&desk, &ship);
    let task = &seen.steps[0].tasks[1];
    assert_eq!((task.state, task.choice.as_ref().map(|choice| choice.as_str())), (TaskState::Done, Some("approve")));
    accepted(desk.ask("lead", mark(&ship, "go", 1, StepMark::Done)));
}

#[test]
fn a_question_about_a_failure_is_asked_once_an_attempt() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("build", &[])]);
    let question = |attempt| {
        let choices = vec!["retry".parse().unwrap(), "skip".parse().unwrap()];
        let ask = StepAsk { choices, default: None, deadline: None };
        let mut step = WorkflowStep { attempt, failure: true, ask: Some(ask), ..step("ship-1", "build", "ann") };
        step.mail.kind = "question".parse().unwrap();
        step
    };
    refused(send(&mut desk, question(1)), Code::OutOfOrder);
    let build = accepted(send(&mut desk, step(&ship, "build", "coder")));
    refused(send(&mut desk, question(1)), Code::OutOfOrder);
    accepted(desk.fail("coder", build));
    refused(send(&mut desk, question(2)), Code::OutOfOrder);
    accepted(send(&mut desk, question(1)));
    refused(send(&mut desk, question(1)), Code::StepTaken);
    refused(desk.ask("lead", mark(&ship, "build", 1, StepMark::Skipped)), Code::OutOfOrder); // it is still open
    accepted(desk.ask("ann", end(&ship, WorkflowEnding::Cancelled)));
}

#[test]
fn a_step_has_so_much_time_whoever_works_at_it() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("build", &[])]);
    let limited = WorkflowStep { time_limit_ms: Some(MINUTE), ..step(&ship, "build", "coder") };
    let message = accepted(send(&mut desk, limited));
    accepted(desk.claim_for("coder", message, Some(HOUR)));
    desk.pass(MINUTE - SECOND);
    assert_eq!(desk.state(message), State::Claimed);
    desk.pass(2 * SECOND);
    let delivery = desk.delivery(message);
    assert_eq!((delivery.state, delivery.reason), (State::Expired, Some(EndReason::TimedOut)));
    assert_eq!(desk.told_of(message), [("coder".to_owned(), Notice::StepOver)]);
    assert_eq!(see(&desk, &ship).steps[0].tasks[0].state, TaskState::Failed);
    // A step that was done in time never times out.
    let again = WorkflowStep { attempt: 2, time_limit_ms: Some(MINUTE), ..step(&ship, "build", "coder") };
    let message = accepted(send(&mut desk, again));
    accepted(desk.done("coder", message));
    desk.pass(HOUR);
    assert_eq!(desk.state(message), State::Done);
}

#[test]
fn a_leap_of_the_clock_is_no_time_to_work() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("build", &[])]);
    let limited = WorkflowStep { time_limit_ms: Some(HOUR), ..step(&ship, "build", "coder") };
    let message = accepted(send(&mut desk, limited));
    desk.clock.set_wall(5 * HOUR);
    desk.settle();
    desk.send("lead", "other", "message"); // the next write notices the leap
    assert_eq!(desk.state(message), State::Pending);
    desk.pass(HOUR + SECOND);
    assert_eq!(desk.state(message), State::Expired);
}

#[test]
fn a_cancelled_workflow_takes_its_open_mail_back() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("build", &[]), spec("lint", &[])]);
    let build = accepted(send(&mut desk, step(&ship, "build", "coder")));
    let lint = accepted(send(&mut desk, step(&ship, "lint", "other")));
    accepted(desk.claim("coder", build));
    refused(desk.ask("coder", end(&ship, WorkflowEnding::Cancelled)), Code::NotAllowed);
    accepted(desk.say("ann", end(&ship, WorkflowEnding::Cancelled), Some(text("not needed any more"))));
    for message in [build, lint] {
        let delivery = desk.delivery(message);
        assert_eq!((delivery.state, delivery.reason), (State::Returned, Some(EndReason::Cancelled)));
        assert!(delivery.dropped_at.is_some());
    }
    assert_eq!(desk.told_of(build), [("coder".to_owned(), Notice::StepOver)]);
    assert_eq!(desk.told_of(lint), []);
    let seen = see(&desk, &ship);
    assert_eq!((seen.state, seen.reason.as_deref()), (WorkflowState::Cancelled, Some("not needed any more")));
    refused(desk.ask("ann", retry(&ship, None)), Code::Ended);
}

#[test]
fn a_step_is_not_passed_on() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("build", &[])]);
    let build = accepted(send(&mut desk, step(&ship, "build", "coder")));
    let ends = Some(Ends { message: build, how: EndsHow::Forwarded, token: None });
    refused(desk.post("coder", Send { ends, ..letter("other", "directive") }), Code::NotAllowed);
}

#[test]
fn whoever_speaks_for_a_workflow_leaves_it_to_its_lead() {
    let mut desk = desk();
    let steps = || vec![spec("build", &[])];
    let led = Intent::WorkflowStart(WorkflowStart {
        name: label("led"),
        digest: Digest::of(b"a definition"),
        steps: steps(),
        lead: Some("ann".parse().unwrap()),
    });
    accepted(desk.say("lead", led, Some(text("the definition"))));
    let alone = begin(&mut desk, steps());
    let build = accepted(send(&mut desk, step(&alone, "build", "coder")));
    accepted(desk.retire("ann", "lead"));
    assert_eq!(see(&desk, "led-1").owner.map(|name| name.to_string()).as_deref(), Some("ann"));
    assert_eq!(see(&desk, &alone).state, WorkflowState::Cancelled);
    assert_eq!(desk.state(build), State::Returned);
    accepted(desk.say("ann", Intent::WorkflowStep(step("led-1", "build", "coder")), Some(text("go on"))));
    // When the agent of a step retires, the step has failed.
    accepted(desk.retire("ann", "coder"));
    assert_eq!(see(&desk, "led-1").steps[0].tasks[0].state, TaskState::Failed);
}

#[test]
fn the_conversation_of_an_open_workflow_is_not_finished() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("build", &[]), spec("test", &["build"])]);
    let build = accepted(send(&mut desk, step(&ship, "build", "coder")));
    accepted(desk.done("coder", build));
    let later = |desk: &Desk| Timestamp::from_ms(desk.now().ms() + DAY);
    let finished = |desk: &Desk| views::finished(desk.office.store(), later(desk), MessageNo(1)).unwrap().conversations;
    assert_eq!(finished(&desk), Vec::<Label>::new());
    accepted(desk.ask("lead", end(&ship, WorkflowEnding::Cancelled)));
    assert_eq!(finished(&desk), labels(&[&ship]));
    let batch = views::finished(desk.office.store(), later(&desk), MessageNo(1)).unwrap();
    let archive = desk.office.write_archive(&batch).unwrap();
    accepted(desk.ask("lead", Intent::Archive(archive)));
    // The workflow's view is still complete, with results.
    let seen = see(&desk, &ship);
    assert_eq!(seen.steps[0].tasks[0].result.as_ref().map(|result| result.text.as_str()), Some("done by coder"));
}

#[test]
fn redacted_words_do_not_hide_how_it_went() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("build", &[])]);
    let build = accepted(send(&mut desk, step(&ship, "build", "coder")));
    accepted(desk.done("coder", build));
    let result = desk.head();
    accepted(desk.ask("lead", mark(&ship, "build", 1, StepMark::Done)));
    let began = desk.office.store().tables().unwrap().workflow(&label(&ship)).unwrap().unwrap().position;
    accepted(desk.say("ann", Intent::Redact(Redact { records: vec![result, began] }), Some(text("a secret"))));
    desk.office.erase().unwrap();
    let seen = see(&desk, &ship);
    assert!(seen.steps[0].tasks[0].result.as_ref().is_some_and(|result| result.redacted && result.text.is_empty()));
    assert!(matches!(views::workflow_began(desk.office.store(), &seen).unwrap(), Began::Gone));
}

#[test]
fn the_same_start_under_the_same_id_begins_one() {
    let mut desk = desk();
    let proposal = desk.proposal("lead", start(vec![spec("build", &[])]), Some(text("the definition")));
    let first = desk.outcome(&proposal);
    let second = desk.outcome(&proposal);
    assert!(second.repeat);
    assert_eq!(first.verdict, second.verdict);
    let open = views::open_workflows(desk.office.store(), None).unwrap();
    assert_eq!(open.into_iter().map(|view| view.workflow).collect::<Vec<_>>(), labels(&["ship-1"]));
}

#[test]
fn a_numbered_step_waits_for_the_earlier_ones() {
    let mut desk = desk();
    let numbered = |workflow: &str, step: &str| Send {
        workflow: Some(label(workflow)),
        step: Some(label(step)),
        ..letter("coder", "directive")
    };
    let second = accepted(desk.post("lead", numbered("research", "2"))).number;
    let third = accepted(desk.post("lead", numbered("research", "3"))).number;
    let first = accepted(desk.post("lead", numbered("research", "1"))).number;
    let unrelated = accepted(desk.post("lead", numbered("other", "9"))).number;
    let named = accepted(desk.post("lead", numbered("research", "last"))).number;
    refused(desk.claim("coder", second), Code::OutOfOrder);
    refused(desk.done("coder", third), Code::OutOfOrder);
    assert_eq!(accepted(desk.claim_best("coder", 9)), [first, unrelated, named]);
    assert_eq!(see(&desk, "research").steps[1].tasks[0].held_by, Some(first));
    accepted(desk.fail("coder", first));
    refused(desk.claim("coder", second), Code::OutOfOrder);
    accepted(desk.retry("lead", first));
    accepted(desk.done("coder/again", first));
    accepted(desk.claim("coder", second));
    refused(desk.claim("coder", third), Code::OutOfOrder);
    accepted(desk.fail("coder", second));
    // Once the failed step is dropped, the next one may begin.
    let drop = Intent::Drop(poste_core::log::Drop { message: second, recipient: None });
    accepted(desk.ask("lead", drop));
    accepted(desk.claim("coder", third));
    let seen = see(&desk, "research");
    let expected =
        [("1", StepState::Done), ("2", StepState::Failed), ("3", StepState::Open), ("last", StepState::Open)];
    assert_eq!(seen.steps.iter().map(|step| (step.key.as_str(), step.state)).collect::<Vec<_>>(), expected);
}

#[test]
fn the_answer_to_a_step_waits_for_nobody_and_a_question_does() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("build", &[])]);
    let build = accepted(send(&mut desk, step(&ship, "build", "coder")));
    let reply =
        |kind: &str, ends| Send { reply_to: Some(build), ends, ..Send::plain(kind.parse().unwrap(), Vec::new()) };
    accepted(desk.say("coder", Intent::Send(reply("question", None)), Some(text("Which branch?"))));
    let question = desk.last_message();
    let ends = Some(Ends { message: build, how: EndsHow::Replied, token: None });
    accepted(desk.say("coder", Intent::Send(reply("response", ends)), Some(text("built"))));
    let answer = desk.last_message();
    let tables = desk.office.store().tables().unwrap();
    let ended = |number| tables.deliveries_of(number).unwrap().remove(0).reason;
    assert_eq!((ended(question), ended(answer)), (None, Some(EndReason::Settled)));
    assert_eq!(see(&desk, &ship).steps[0].tasks[0].result.as_ref().unwrap().text, "built");
}

#[test]
fn a_workflow_whose_speaker_retires_without_a_lead_says_so() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("build", &[])]);
    let build = accepted(send(&mut desk, step(&ship, "build", "coder")));
    accepted(desk.ask("lead", Intent::Retire(Retire { name: "lead".parse().unwrap() })));
    let seen = see(&desk, &ship);
    assert_eq!(seen.state, WorkflowState::Cancelled);
    assert_eq!(seen.reason.unwrap(), "its owner lead retired, and it has no lead");
    assert_eq!(desk.told_of(build), [("ann".to_owned(), Notice::Orphaned)]);
}

#[test]
fn only_what_ends_a_step_is_settled_and_a_word_about_it_waits() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("build", &[])]);
    let build = accepted(send(&mut desk, step(&ship, "build", "coder")));
    let reply = |kind: &str| Send { reply_to: Some(build), ..letter("lead", kind) };
    let blocked = accepted(desk.post("coder", reply("blocker_notification"))).number;
    let asked = accepted(desk.post("coder", reply("message"))).number;
    assert_eq!((desk.state(blocked), desk.state(asked)), (State::Pending, State::Pending));
    let lead = desk.office.store().tables().unwrap().agent("lead").unwrap().expect("registered");
    let starts = views::startable(desk.office.store(), &lead, desk.now(), 10).unwrap();
    assert_eq!(starts.iter().map(|found| found.message).collect::<Vec<_>>(), [blocked], "a plain reply can wait");
    let ends = Some(Ends { message: build, how: EndsHow::Replied, token: None });
    let done = accepted(desk.post("coder", Send { ends, ..reply("response") })).number;
    assert_eq!(desk.state(done), State::Done);
    assert_eq!(see(&desk, &ship).steps[0].tasks[0].result.as_ref().and_then(|result| result.message), Some(done));
}

#[test]
fn the_last_word_before_a_step_was_done_is_its_result() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("build", &[])]);
    let build = accepted(send(&mut desk, step(&ship, "build", "coder")));
    let reply = || Send { reply_to: Some(build), ..letter("lead", "message") };
    accepted(desk.post("coder", reply()));
    let last = accepted(desk.post("coder", reply())).number;
    accepted(desk.done("coder", build));
    accepted(desk.post("coder", reply()));
    assert_eq!(see(&desk, &ship).steps[0].tasks[0].result.as_ref().and_then(|result| result.message), Some(last));
}

#[test]
fn whose_workflow_has_only_archived_messages_can_retire() {
    let mut desk = desk();
    let ship = begin(&mut desk, vec![spec("build", &[])]);
    let build = accepted(send(&mut desk, step(&ship, "build", "coder")));
    accepted(desk.fail("coder", build));
    accepted(desk.ask("lead", mark(&ship, "build", 1, StepMark::Failed)));
    accepted(desk.ask("lead", end(&ship, WorkflowEnding::Failed)));
    let told = MessageNo(build.0 + 1);
    accepted(desk.ack("lead", told));
    let later = Timestamp::from_ms(desk.now().ms() + DAY);
    let batch = views::finished(desk.office.store(), later, MessageNo(1)).unwrap();
    assert!(batch.conversations.contains(&label(&ship)), "{:?}", batch.conversations);
    let archive = desk.office.write_archive(&batch).unwrap();
    accepted(desk.ask("lead", Intent::Archive(archive)));
    accepted(desk.ask("lead", retry(&ship, None)));
    accepted(desk.retire("ann", "lead"));
    assert_eq!(see(&desk, &ship).state, WorkflowState::Cancelled);
}

#[test]
fn ids_of_advances_are_kept_for_the_records_they_are_derived_from() {
    let mut desk = desk();
    let (flow, other) = (begin(&mut desk, vec![spec("a", &[])]), begin(&mut desk, vec![spec("a", &[])]));
    let advance = mark(&flow, "a", 1, StepMark::Skipped);
    let id = desk.office.advance_id(&advance).unwrap();
    let now = desk.now();
    let mut propose = |actor: &str, intent: Intent| {
        let proposed = proposal(id.as_str(), actor, now, intent, None);
        desk.outcome(&proposed).verdict.accepted()
    };
    refused(propose("coder", Intent::Send(letter("lead", "message"))), Code::ReservedId);
    refused(propose("lead", Intent::Send(letter("coder", "message"))), Code::ReservedId);
    refused(propose("coder", advance.clone()), Code::ReservedId);
    refused(propose("lead", mark(&other, "a", 1, StepMark::Skipped)), Code::ReservedId);
    accepted(propose("lead", advance.clone()));
    let next = desk.office.advance_id(&advance).unwrap();
    assert_eq!(next.as_str(), format!("{id}/2"), "the id is never free again");
}
