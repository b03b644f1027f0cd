//! Attempts to wake an agent: bounded events in the history of a delivery, never a state.

use poste_core::fold::Code;
use poste_core::log::{Intent, Policy, PolicyType, Redact, SessionStart, Settings, Wake, WakeOutcome, WakeWay};
use poste_core::store::processes;
use poste_core::store::tables::{Event, State};
use poste_core::vocabulary::{Priority, Urgency};
use poste_core::{MessageNo, limits, views};

use crate::common::*;

fn wake(message: MessageNo, agent: &str, how: WakeWay, outcome: WakeOutcome) -> Intent {
    Intent::Wake(Wake { message, agent: agent.parse().expect("a name"), how, outcome })
}

fn rung(message: MessageNo, agent: &str) -> Intent {
    wake(message, agent, WakeWay::Tmux, WakeOutcome::Requested)
}

fn start(desk: &mut Desk, who: &str, pid: u32) {
    let start = SessionStart {
        id: format!("s-{who}").parse().expect("a session"),
        process: Some(processes::written_down(pid)),
        host: "desk".to_owned(),
        program: "codex".to_owned(),
        worktree: None,
        parent: None,
        takes_over: None,
        resumes: false,
    };
    accepted(desk.ask(who, Intent::SessionStart(start)));
}

fn why(desk: &Desk, number: MessageNo) -> Option<String> {
    desk.track(number).unseen.map(|unseen| unseen.why)
}

#[test]
fn an_attempt_is_a_step_that_changes_no_state() {
    let mut desk = Desk::with(&["lead", "coder"]);
    let number = desk.send("lead", "coder", "alert");
    let before = desk.delivery(number);
    let failed = wake(number, "coder", WakeWay::CodexQueue, WakeOutcome::Failed);
    accepted(desk.say("lead", failed, Some(text("codex is not found"))));
    accepted(desk.ask("lead", rung(number, "coder")));
    assert_eq!(desk.delivery(number), before);
    assert_eq!(desk.history(number), [Event::WakeFailed, Event::WakeRequested]);
    let track = desk.track(number);
    assert_eq!((track.state, track.shown_at), (State::Pending, None));
    let told: Vec<_> = track.wakes.iter().map(|wake| (wake.how, wake.outcome, wake.reason.as_deref())).collect();
    assert_eq!(
        told,
        [
            (WakeWay::CodexQueue, WakeOutcome::Failed, Some("codex is not found")),
            (WakeWay::Tmux, WakeOutcome::Requested, None)
        ]
    );
    let why = views::why_message(desk.office.store(), number).unwrap().expect("a message");
    let lines: Vec<&str> = why.lines.iter().skip(1).map(|line| line.what.as_str()).collect();
    assert_eq!(
        lines,
        ["coder could not be woken, by codex-queue: codex is not found", "coder was asked to wake, by tmux"]
    );
}

#[test]
fn only_for_what_waits_for_that_agent() {
    let mut desk = Desk::with(&["lead", "coder", "other"]);
    let number = desk.send("lead", "coder", "directive");
    refused(desk.ask("lead", rung(number, "other")), Code::NotRecipient);
    refused(desk.ask("lead", rung(number, "ghost")), Code::UnknownAgent);
    refused(desk.ask("ghost", rung(number, "coder")), Code::UnknownAgent);
    refused(desk.ask("lead", rung(MessageNo(99), "coder")), Code::UnknownMessage);
    refused(desk.ask("lead", wake(number, "coder", WakeWay::Nothing, WakeOutcome::Requested)), Code::Malformed);
    accepted(desk.ask("lead", wake(number, "coder", WakeWay::Nothing, WakeOutcome::Failed)));
    let token = accepted(desk.claim("coder", number));
    accepted(desk.ask("other", rung(number, "coder")));
    accepted(desk.done_with("coder", number, Some(token)));
    refused(desk.ask("lead", rung(number, "coder")), Code::Ended);
    let later =
        accepted(desk.post("lead", poste_core::log::Send { not_before: after(60_000), ..letter("coder", "alert") }));
    refused(desk.ask("lead", rung(later.number, "coder")), Code::NotReady);
    accepted(desk.retire("lead", "other"));
    let gone = desk.send("lead", "coder", "alert");
    refused(desk.ask("other", rung(gone, "coder")), Code::Retired);
}

#[test]
fn of_a_group_one_member_is_named_and_nobody_is_rung_for_what_another_holds() {
    let mut desk = Desk::with(&["lead"]);
    desk.register("ann", with_role("builder"));
    desk.register("bob", with_role("builder"));
    let number = desk.send("lead", "role:builder", "directive");
    accepted(desk.ask("lead", rung(number, "bob")));
    assert_eq!(desk.track(number).wakes[0].agent.as_str(), "bob");
    accepted(desk.claim("ann", number));
    refused(desk.ask("lead", rung(number, "bob")), Code::AlreadyClaimed);
}

#[test]
fn the_history_does_not_grow_without_end() {
    let mut desk = Desk::with(&["lead", "coder"]);
    let number = desk.send("lead", "coder", "alert");
    for _ in 0..limits::WAKES_MAX {
        accepted(desk.ask("lead", rung(number, "coder")));
    }
    refused(desk.ask("lead", rung(number, "coder")), Code::NothingToDo);
    // After a retry it is rung for, but a lost ring is not found again, because it could never be recorded.
    accepted(desk.fail("coder", number));
    accepted(desk.retry("lead", number));
    start(&mut desk, "coder", std::process::id());
    assert_eq!(Vec::from_iter(views::owed_mail(desk.office.store(), &"coder".parse().unwrap()).unwrap()), [number]);
    assert!(views::owed_rings(desk.office.store(), desk.now()).unwrap().is_empty());
    assert_eq!(desk.track(number).wakes.len(), limits::WAKES_MAX as usize);
}

#[test]
fn a_reason_can_be_redacted() {
    let mut desk = Desk::with(&["lead", "coder"]);
    let number = desk.send("lead", "coder", "alert");
    let failed = wake(number, "coder", WakeWay::Command, WakeOutcome::Failed);
    accepted(desk.say("lead", failed, Some(text("it printed the password"))));
    let position = desk.track(number).wakes[0].position;
    accepted(desk.say("lead", Intent::Redact(Redact { records: vec![position] }), Some(text("a secret"))));
    desk.office.erase().expect("erased");
    assert_eq!(desk.track(number).wakes[0].reason, None);
}

#[test]
fn after_its_patience_a_sender_is_told_why_it_was_not_seen() {
    let mut desk = Desk::with(&["lead", "coder"]);
    let number = desk.send("lead", "coder", "alert");
    desk.pass(limits::MINUTE_MS);
    assert_eq!(why(&desk, number), None, "an alert may take two minutes");
    desk.pass(2 * limits::MINUTE_MS);
    assert_eq!(why(&desk, number).as_deref(), Some("coder has no live session"));
    let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs");
    start(&mut desk, "coder", child.id());
    assert_eq!(why(&desk, number).as_deref(), Some("no attempt was made to wake coder"));
    let failed = wake(number, "coder", WakeWay::Tmux, WakeOutcome::Failed);
    accepted(desk.say("lead", failed, Some(text("the pane is dead"))));
    assert_eq!(why(&desk, number).as_deref(), Some("the last attempt to wake coder failed (tmux): the pane is dead"));
    accepted(desk.ask("lead", rung(number, "coder")));
    assert_eq!(why(&desk, number).as_deref(), Some("coder was asked to wake (tmux) and has not looked since"));
    child.kill().expect("it ends");
    child.wait().expect("it ended");
    assert_eq!(why(&desk, number).as_deref(), Some("the process of session s-coder has ended"));
    accepted(desk.shown("coder", number));
    assert_eq!(why(&desk, number), None, "it was shown");
}

#[test]
fn patience_is_a_matter_of_the_type() {
    let mut desk = Desk::with(&["lead", "coder"]);
    let patient = PolicyType {
        name: "progress_update".parse().unwrap(),
        priority: Priority::Low,
        urgency: Urgency::Session,
        work: false,
        response: false,
        max_attempts: None,
        retry_delay_ms: None,
        patience_ms: Some(limits::MINUTE_MS),
        default_approve: false,
    };
    let machine = desk.office.machine().unwrap().clone();
    let policy =
        Policy { replaces: 0, machine, host: String::new(), settings: Settings::default(), types: vec![patient] };
    accepted(desk.ask("poste", Intent::Policy(policy)));
    let quiet = desk.send("lead", "coder", "milestone_reached");
    let named = desk.send("lead", "coder", "progress_update");
    assert_eq!(desk.message(named).urgency, Urgency::Session);
    desk.pass(limits::HOUR_MS);
    assert_eq!(why(&desk, quiet), None, "mail that never rings is never reported as unseen");
    assert_eq!(desk.track(named).unseen.map(|unseen| unseen.patience_ms), Some(limits::MINUTE_MS));
    start(&mut desk, "coder", std::process::id());
    assert_eq!(why(&desk, named).as_deref(), Some("urgency session does not ring; coder has not looked"));
}

#[test]
fn somebody_is_rung_only_where_somebody_runs() {
    let mut desk = Desk::with(&["lead", "coder", "other"]);
    let number = desk.send("lead", "coder", "alert");
    let coder = "coder".parse().expect("an address");
    let ring = |desk: &Desk, number| views::to_ring(desk.office.store(), number, &coder).unwrap().len();
    assert_eq!(ring(&desk, number), 0, "no agent is running");
    start(&mut desk, "other", std::process::id());
    assert_eq!(ring(&desk, number), 0, "only another agent is running");
    start(&mut desk, "coder", std::process::id());
    assert_eq!(ring(&desk, number), 1);
    let calm = desk.send("lead", "coder", "message");
    let waiting = views::waiting_mail(desk.office.store(), &"coder".parse().unwrap(), 10).unwrap();
    let numbers: Vec<MessageNo> = waiting.iter().map(|mail| mail.number).collect();
    assert_eq!(numbers, [number, calm], "the most urgent first");
    let owed = views::owed_mail(desk.office.store(), &"coder".parse().unwrap()).unwrap();
    assert_eq!(Vec::from_iter(owed), [number], "the other comes at the next tool call");
}
