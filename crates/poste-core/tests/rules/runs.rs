//! Runs: started with claims, ended once, counted, held, and recognized as a loop when they cause each other.

use poste_core::fold::{Code, Effect};
use poste_core::log::{HoldReason, Intent, RunEnd, RunHold, RunOutcome, RunResume, RunStart, SessionProcess};
use poste_core::office::Rules;
use poste_core::store::tables::{Event, Notice, Spent, State};
use poste_core::views::{self, Startable};
use poste_core::{MessageNo, Position, limits};

use crate::common::*;

/// An office whose agent `lead` leads the others.
fn led(names: &[&str]) -> Desk {
    let mut desk = Desk::with(names);
    desk.register("lead", update(with_role("lead")));
    desk
}

fn start(run: &str, messages: &[MessageNo]) -> Intent {
    limited(run, messages, None)
}

fn limited(run: &str, messages: &[MessageNo], limit: Option<u32>) -> Intent {
    Intent::RunStart(RunStart {
        run: run.parse().expect("a run"),
        messages: messages.to_vec(),
        lease_ms: Some(HOUR),
        limit,
        runner: "claude-code".to_owned(),
        host: "desk".to_owned(),
        supervisor: SessionProcess { pid: 7, started_ms: Some(11), place: "this boot".to_owned() },
    })
}

fn end(run: &str, how: RunOutcome, code: Option<u8>) -> Intent {
    let run = run.parse().expect("a run");
    Intent::RunEnd(RunEnd { run, how, code, took_ms: 60_000, cost_micros: Some(1_500) })
}

fn hold(message: Option<MessageNo>, why: HoldReason, until_ms: Option<i64>) -> Intent {
    Intent::RunHold(RunHold { agent: None, message, why, until: until_ms.and_then(after), mail: None })
}

fn resume(agent: &str, message: Option<MessageNo>) -> Intent {
    Intent::RunResume(RunResume { agent: agent.parse().expect("a name"), message, why: None })
}

fn startable(desk: &Desk, who: &str) -> Vec<MessageNo> {
    let agent = desk.office.store().tables().unwrap().agent(who).unwrap().expect("registered");
    let found: Vec<Startable> = views::startable(desk.office.store(), &agent, desk.now(), 10).unwrap();
    found.into_iter().map(|found| found.message).collect()
}

/// Starts an agent for a message; the token of its claim.
fn run_for(desk: &mut Desk, who: &str, run: &str, message: MessageNo) -> Position {
    match accepted(desk.ask(&format!("{who}/{run}"), start(run, &[message]))) {
        Effect::Claimed(claimed) => claimed.token,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_start_takes_its_messages() {
    let mut desk = led(&["lead", "coder", "other"]);
    let number = desk.send("lead", "coder", "directive");
    refused(desk.ask("coder", start("r1", &[number])), Code::Malformed);
    refused(desk.ask("other/r1", start("r1", &[number])), Code::NotRecipient);
    let token = accepted(desk.claim("coder/elsewhere", number));
    refused(desk.ask("coder/r1", start("r1", &[number])), Code::AlreadyClaimed);
    accepted(desk.release("coder/elsewhere", number, Some(token)));
    let token = run_for(&mut desk, "coder", "r1", number);
    refused(desk.ask("coder/r1", start("r1", &[number])), Code::RunTaken);
    refused(desk.ask("coder/r2", start("r2", &[number, number])), Code::Malformed);
    refused(desk.ask("coder/r2", start("r2", &[number])), Code::AlreadyClaimed);
    assert_eq!(desk.history(number)[2..], [Event::Claimed, Event::RunStarted]);
    accepted(desk.done_with("coder/r1", number, Some(token)));
    let running = views::running(desk.office.store(), &"coder".parse().unwrap()).unwrap();
    assert_eq!(running.len(), 1);
    assert_eq!((running[0].run.as_str(), running[0].messages.as_slice()), ("r1", &[number][..]));
}

#[test]
fn of_several_messages_it_takes_what_is_left() {
    let mut desk = led(&["lead", "coder"]);
    let [one, two] = [0, 1].map(|_| desk.send("lead", "coder", "directive"));
    accepted(desk.claim("coder/elsewhere", one));
    match accepted(desk.ask("coder/r1", start("r1", &[one, two]))) {
        Effect::Claimed(claimed) => assert_eq!(claimed.items.iter().map(|item| item.number).collect::<Vec<_>>(), [two]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_more_runs_are_under_way_than_was_said() {
    let mut desk = led(&["lead", "coder"]);
    let [one, two] = [0, 1].map(|_| desk.send("lead", "coder", "directive"));
    accepted(desk.ask("coder/r1", limited("r1", &[one], Some(1))));
    refused(desk.ask("coder/r2", limited("r2", &[two], Some(1))), Code::Busy);
    assert_eq!(startable(&desk, "coder"), [two], "the refused run claimed nothing");
    accepted(desk.ask("coder/r1", end("r1", RunOutcome::Exited, Some(0))));
    accepted(desk.ask("coder/r2", limited("r2", &[two], Some(1))));
}

#[test]
fn a_start_that_is_repeated_is_told_what_it_took() {
    let mut desk = led(&["lead", "coder"]);
    let number = desk.send("lead", "coder", "directive");
    let proposal = desk.proposal("coder/r1", start("r1", &[number]), None);
    let first = desk.office.propose(&proposal, &Rules::none()).unwrap();
    let again = desk.office.propose(&proposal, &Rules::none()).unwrap();
    assert!(again.repeat);
    assert_eq!(again.verdict, first.verdict);
}

#[test]
fn a_run_without_mail_looks_through_an_inbox() {
    let mut desk = Desk::with(&["coder"]);
    accepted(desk.ask("coder/r1", start("r1", &[])));
    accepted(desk.ask("coder/r1", end("r1", RunOutcome::Stopped, None)));
    let many: Vec<MessageNo> = (1..=limits::RUN_CLAIMS_MAX as u64 + 1).map(MessageNo).collect();
    refused(desk.ask("coder/r2", start("r2", &many)), Code::TooLarge);
}

#[test]
fn it_ends_once_and_is_counted() {
    let mut desk = led(&["lead", "coder"]);
    let number = desk.send("lead", "coder", "directive");
    let token = run_for(&mut desk, "coder", "r1", number);
    refused(desk.ask("coder", end("nowhere", RunOutcome::Exited, Some(0))), Code::UnknownRun);
    refused(desk.ask("lead", end("r1", RunOutcome::Exited, Some(0))), Code::NotAllowed);
    refused(desk.ask("coder", end("r1", RunOutcome::Exited, None)), Code::Malformed);
    refused(desk.ask("coder", end("r1", RunOutcome::Lost, Some(9))), Code::Malformed);
    accepted(desk.done_with("coder/r1", number, Some(token)));
    accepted(desk.say("coder/r1", end("r1", RunOutcome::Exited, Some(0)), Some(text("all tests pass"))));
    refused(desk.ask("coder/r1", end("r1", RunOutcome::Exited, Some(0))), Code::Ended);
    assert_eq!(desk.history(number), [Event::Claimed, Event::RunStarted, Event::Done, Event::RunEnded]);
    let runs = views::runs_of(desk.office.store(), number).unwrap();
    assert_eq!(
        (runs[0].how, runs[0].code, runs[0].said.as_deref()),
        (Some(RunOutcome::Exited), Some(0), Some("all tests pass"))
    );
    let coder = "coder".parse().unwrap();
    let spent = |desk: &Desk, ago: i64| views::spent(desk.office.store(), &coder, desk.now().plus_ms(-ago)).unwrap();
    assert_eq!(spent(&desk, HOUR), Spent { runs: 1, took_ms: 60_000, cost_micros: 1_500 });
    desk.pass(2 * HOUR);
    assert_eq!(spent(&desk, HOUR), Spent::default());
    assert_eq!(spent(&desk, 3 * HOUR).runs, 1);
}

#[test]
fn who_was_retired_meanwhile_can_still_tell_that_its_program_ended() {
    let mut desk = led(&["lead", "coder"]);
    let number = desk.send("lead", "coder", "directive");
    run_for(&mut desk, "coder", "r1", number);
    accepted(desk.retire("lead", "coder"));
    accepted(desk.ask("coder/r1", end("r1", RunOutcome::LeaseLost, None)));
}

#[test]
fn what_a_run_sends_is_one_hop_further() {
    let mut desk = Desk::with(&["a", "b"]);
    let first = desk.send("a", "b", "directive");
    assert_eq!(desk.message(first).hops, 0);
    run_for(&mut desk, "b", "r1", first);
    let second = desk.send("b/r1", "a", "directive");
    assert_eq!(desk.message(second).hops, 1);
    run_for(&mut desk, "a", "r2", second);
    let third = desk.send("a/r2", "b", "directive");
    assert_eq!(desk.message(third).hops, 2);
    assert_eq!(accepted(desk.reply("b/elsewhere", first)).number, desk.last_message());
    assert_eq!(desk.message(desk.last_message()).hops, 0);
    accepted(desk.ask("a/r2", end("r2", RunOutcome::Exited, Some(0))));
    let after_it = desk.send("a/r2", "b", "directive");
    assert_eq!(desk.message(after_it).hops, 0);
}

#[test]
fn work_and_what_is_urgent_start_somebody_and_nothing_else() {
    let mut desk = led(&["lead", "coder"]);
    let report = desk.send("lead", "coder", "audit_report");
    let message = desk.send("lead", "coder", "acknowledgment");
    let work = desk.send("lead", "coder", "directive");
    let alert = desk.send("lead", "coder", "alert");
    let found = startable(&desk, "coder");
    assert_eq!(found.first(), Some(&alert), "the most urgent comes first");
    assert!(found.contains(&work) && !found.contains(&message), "{found:?}");
    let report = desk.message(report);
    assert_eq!(found.contains(&report.number), report.work && report.urgency.word() != "later");
    accepted(desk.claim("coder", work));
    assert!(!startable(&desk, "coder").contains(&work));
}

#[test]
fn what_is_held_is_not_started_until_its_time_or_somebody_resumes_it() {
    let mut desk = led(&["lead", "coder"]);
    accepted(desk.ask("anna", Intent::Register(human())));
    let one = desk.send("lead", "coder", "directive");
    let other = desk.send("lead", "coder", "directive");
    accepted(desk.ask("coder", hold(Some(one), HoldReason::Hops, None)));
    refused(desk.ask("coder", hold(Some(one), HoldReason::Hops, None)), Code::NothingToDo);
    assert_eq!(startable(&desk, "coder"), [other]);
    assert_eq!(desk.history(one), [Event::Held]);
    accepted(desk.ask("coder", hold(None, HoldReason::Budget, Some(HOUR))));
    assert_eq!(startable(&desk, "coder"), []);
    let agent = desk.office.store().tables().unwrap().agent("coder").unwrap().expect("registered");
    let queued = views::queued(desk.office.store(), &agent, desk.now(), 10).unwrap();
    assert_eq!(queued.iter().map(|mail| mail.message).collect::<Vec<_>>(), [other], "a held agent has a queue");
    desk.pass(HOUR);
    assert_eq!(startable(&desk, "coder"), [other]);
    refused(desk.ask("lead", resume("coder", Some(one))), Code::NotAllowed);
    accepted(desk.ask("anna", resume("coder", Some(one))));
    refused(desk.ask("anna", resume("coder", Some(one))), Code::NothingToDo);
    assert_eq!(startable(&desk, "coder"), [one, other]);
}

#[test]
fn whoever_takes_or_ends_it_lifts_what_held_it() {
    let mut desk = led(&["lead", "coder"]);
    let coder = "coder".parse().unwrap();
    let number = desk.send("lead", "coder", "directive");
    accepted(desk.ask("coder", hold(Some(number), HoldReason::Failing, None)));
    let token = accepted(desk.claim("coder", number));
    refused(desk.ask("coder", hold(Some(number), HoldReason::Failing, None)), Code::AlreadyClaimed);
    accepted(desk.release("coder", number, Some(token)));
    assert_eq!(startable(&desk, "coder"), [number]);
    accepted(desk.ask("coder", hold(None, HoldReason::Rate, None)));
    // Else anybody could lift it by retiring the agent and registering it again.
    accepted(desk.retire("lead", "coder"));
    desk.register("coder", update(agent()));
    assert_eq!(views::holds(desk.office.store(), &coder, desk.now()).unwrap().len(), 1);
}

#[test]
fn a_hold_tells_whom_it_concerns() {
    let mut desk = led(&["lead", "coder"]);
    let mail = Some(letter("lead", "alert"));
    let held =
        Intent::RunHold(RunHold { agent: None, message: None, why: HoldReason::Budget, until: after(HOUR), mail });
    accepted(desk.say("coder", held, Some(text("10 runs an hour are used up"))));
    assert_eq!(desk.message(desk.last_message()).sender.as_str(), "coder");
    assert_eq!(desk.news("lead"), [desk.last_message()]);
}

#[test]
fn whoever_is_told_of_a_hold_is_not_started_for_that() {
    let mut desk = led(&["lead", "coder"]);
    let mail = Some(letter("lead", "alert"));
    let held = Intent::RunHold(RunHold { agent: None, message: None, why: HoldReason::Hops, until: None, mail });
    accepted(desk.say("coder", held, Some(text("a loop was stopped"))));
    assert_eq!(startable(&desk, "lead"), [], "a loop would begin again");
    let alert = desk.send("coder", "lead", "alert");
    assert_eq!(startable(&desk, "lead"), [alert]);
}

#[test]
fn what_was_let_go_is_known_to_have_been_held() {
    let mut desk = led(&["lead", "coder"]);
    accepted(desk.ask("anna", Intent::Register(human())));
    let coder = "coder".parse().unwrap();
    let number = desk.send("lead", "coder", "directive");
    accepted(desk.ask("coder", hold(Some(number), HoldReason::Hops, None)));
    accepted(desk.ask("coder", hold(None, HoldReason::Budget, Some(HOUR))));
    desk.pass(1_000);
    accepted(desk.ask("anna", resume("coder", None)));
    refused(desk.ask("anna", resume("coder", None)), Code::NothingToDo);
    assert_eq!(views::holds(desk.office.store(), &coder, desk.now()).unwrap(), []);
    let all = views::all_holds(desk.office.store(), &coder).unwrap();
    let told: Vec<_> = all.iter().map(|hold| (hold.message, hold.why)).collect();
    assert_eq!(told, [(None, HoldReason::Budget), (Some(number), HoldReason::Hops)]);
    assert!(all.iter().all(|hold| hold.until.is_some_and(|until| until > hold.since)));
    assert_eq!(startable(&desk, "coder"), [number]);
    accepted(desk.ask("coder", hold(Some(number), HoldReason::Hops, None)));
    assert_eq!(startable(&desk, "coder"), [], "it can be held again");
}

#[test]
fn by_the_clock_an_agent_is_started_for_everything_that_was_there() {
    let mut desk = led(&["lead", "coder"]);
    let report = desk.send("lead", "coder", "audit_report");
    let until = desk.now();
    desk.pass(1_000);
    let next = desk.send("lead", "coder", "audit_report");
    let work = desk.send("lead", "coder", "directive");
    let agent = desk.office.store().tables().unwrap().agent("coder").unwrap().expect("registered");
    let by_clock = |until| {
        let found = views::startable_by_clock(desk.office.store(), &agent, until, desk.now(), 10).unwrap();
        found.into_iter().map(|found| found.message).collect::<Vec<_>>()
    };
    assert_eq!(startable(&desk, "coder"), [work]);
    assert_eq!(by_clock(until), [work, report]);
    assert_eq!(by_clock(desk.now()), [work, report, next]);
}

#[test]
fn the_latest_runs_come_first() {
    let mut desk = led(&["lead", "coder", "other"]);
    for (who, run) in [("coder", "r1"), ("other", "r2"), ("coder", "r3")] {
        accepted(desk.ask(&format!("{who}/{run}"), start(run, &[])));
    }
    accepted(desk.ask("coder", end("r1", RunOutcome::Exited, Some(0))));
    let names = |runs: Vec<views::RunView>| runs.iter().map(|run| run.run.to_string()).collect::<Vec<_>>();
    let store = desk.office.store();
    let coder = "coder".parse().unwrap();
    assert_eq!(names(views::latest_runs(store, Some(&coder), 10).unwrap()), ["r3", "r1"]);
    assert_eq!(names(views::latest_runs(store, None, 2).unwrap()), ["r3", "r2"]);
    assert_eq!(names(views::all_running(store).unwrap()), ["r3", "r2"]);
}

fn stopped() -> Intent {
    hold(None, HoldReason::Stopped, None)
}

#[test]
fn a_lead_stops_somebody_and_holds_it_for_nothing_else() {
    let mut desk = led(&["lead", "coder"]);
    let number = desk.send("lead", "coder", "directive");
    let of_coder = |message: Option<MessageNo>, why: HoldReason| {
        let agent = Some("coder".parse().unwrap());
        Intent::RunHold(RunHold { agent, message, why, until: None, mail: None })
    };
    refused(desk.ask("lead", of_coder(None, HoldReason::Budget)), Code::NotAllowed);
    refused(desk.ask("lead", of_coder(Some(number), HoldReason::Stopped)), Code::NotAllowed);
    accepted(desk.ask("lead", of_coder(None, HoldReason::Stopped)));
    refused(desk.ask("coder", of_coder(None, HoldReason::Stopped)), Code::NothingToDo);
    assert_eq!(startable(&desk, "coder"), []);
    accepted(desk.retire("lead", "coder"));
    refused(desk.ask("lead", of_coder(None, HoldReason::Stopped)), Code::Retired);
}

#[test]
fn nothing_is_started_for_who_is_stopped_until_somebody_lets_it() {
    let mut desk = led(&["lead", "coder"]);
    let number = desk.send("lead", "coder", "directive");
    accepted(desk.ask("coder", hold(None, HoldReason::Budget, Some(HOUR))));
    accepted(desk.ask("coder", stopped()));
    refused(desk.ask("coder", stopped()), Code::NothingToDo);
    refused(desk.ask("coder", hold(None, HoldReason::Budget, Some(HOUR))), Code::NothingToDo);
    desk.pass(2 * HOUR);
    assert_eq!(startable(&desk, "coder"), []);
    refused(desk.ask("coder/r1", start("r1", &[number])), Code::Busy);
    refused(desk.ask("coder/r1", start("r1", &[])), Code::Busy);
    accepted(desk.ask("lead", resume("coder", None)));
    run_for(&mut desk, "coder", "r1", number);
}

#[test]
fn whoever_waits_for_who_is_stopped_is_told_once() {
    let mut desk = led(&["lead", "anna", "coder", "other"]);
    let [first, second] = [0, 1].map(|_| desk.send("lead", "coder", "directive"));
    let to_other = desk.send("anna", "other", "directive");
    accepted(desk.ask("coder", stopped()));
    assert_eq!(desk.told_of(first), [("lead".to_owned(), Notice::Stopped)]);
    assert_eq!(desk.told_of(second), []);
    let asked = desk.send("anna", "coder", "shutdown_request");
    let [third, fourth] = [0, 1].map(|_| desk.send("anna", "coder", "message"));
    assert_eq!((desk.told_of(asked), desk.told_of(third).len(), desk.told_of(fourth)), (vec![], 1, vec![]));
    let last = desk.send("lead", "coder", "question");
    assert_eq!((desk.told_of(last), desk.told_of(to_other)), (vec![], vec![]));
    assert_eq!(desk.state(last), State::Pending);
    let notice = desk.notices().into_iter().find(|told| told.about == third).expect("a notice");
    assert!(startable(&desk, "anna").is_empty(), "a notice of the office starts no agent: {notice:?}");

    accepted(desk.ask("lead", resume("coder", None)));
    let unhindered = desk.send("other", "coder", "directive");
    assert_eq!(desk.told_of(unhindered), []);
    accepted(desk.ask("coder", stopped()));
    assert_eq!(desk.told_of(first).len(), 2, "stopped again, so notified again");
}

#[test]
fn letting_somebody_go_on_leaves_what_is_held_for_another_reason() {
    let mut desk = led(&["lead", "coder"]);
    let coder = "coder".parse().unwrap();
    let number = desk.send("lead", "coder", "directive");
    accepted(desk.ask("coder", hold(Some(number), HoldReason::Hops, None)));
    accepted(desk.ask("coder", stopped()));
    let resume = |why: HoldReason| {
        Intent::RunResume(RunResume { agent: "coder".parse().unwrap(), message: None, why: Some(why) })
    };
    refused(desk.ask("lead", resume(HoldReason::Hops)), Code::NothingToDo);
    accepted(desk.ask("lead", resume(HoldReason::Stopped)));
    let left = views::holds(desk.office.store(), &coder, desk.now()).unwrap();
    assert_eq!(
        left.iter().map(|hold| (hold.message, hold.why)).collect::<Vec<_>>(),
        [(Some(number), HoldReason::Hops)]
    );
}

#[test]
fn an_agent_does_not_let_itself_go() {
    let mut desk = led(&["lead", "coder", "peer"]);
    accepted(desk.ask("anna", Intent::Register(human())));
    let number = desk.send("lead", "coder", "directive");
    accepted(desk.ask("coder", hold(Some(number), HoldReason::Hops, None)));
    accepted(desk.ask("coder", hold(None, HoldReason::Budget, Some(HOUR))));
    refused(desk.ask("coder", resume("coder", None)), Code::NotAllowed);
    refused(desk.ask("coder", resume("coder", Some(number))), Code::NotAllowed);
    let work = desk.send("lead", "peer", "directive");
    run_for(&mut desk, "peer", "r1", work);
    refused(desk.ask("peer/r1", resume("coder", None)), Code::NotAllowed);
    // Which role a program has is its own choice.
    desk.register("peer/r1", update(with_role("lead")));
    refused(desk.ask("peer/r1", resume("coder", None)), Code::NotAllowed);
    refused(desk.ask("peer", resume("coder", None)), Code::NotAllowed);
    refused(desk.ask("anna/r1", resume("coder", None)), Code::NotAllowed); // the same program, in a person's name
    let of_budget = RunResume { agent: "coder".parse().unwrap(), message: None, why: Some(HoldReason::Budget) };
    refused(desk.ask("coder/r2", Intent::RunResume(of_budget.clone())), Code::NotAllowed);
    accepted(desk.ask("coder", Intent::RunResume(of_budget)));
    let left = views::holds(desk.office.store(), &"coder".parse().unwrap(), desk.now()).unwrap();
    assert_eq!(left.iter().map(|hold| hold.message).collect::<Vec<_>>(), [Some(number)], "the loop stays held");
    accepted(desk.ask("anna", resume("coder", None)));
}

#[test]
fn only_who_lets_an_agent_go_gives_it_a_new_beginning() {
    let mut desk = led(&["lead", "coder"]);
    accepted(desk.ask("anna", Intent::Register(human())));
    let coder = "coder".parse().unwrap();
    let let_go_at = |desk: &Desk| views::all_holds(desk.office.store(), &coder).unwrap()[0].let_go_at;
    accepted(desk.ask("coder", hold(None, HoldReason::Rate, Some(1_000))));
    desk.pass(2_000);
    assert_eq!(let_go_at(&desk), None, "the hold expired");
    accepted(desk.ask("coder", hold(None, HoldReason::Budget, Some(HOUR))));
    accepted(desk.ask("anna", resume("coder", None)));
    let at = let_go_at(&desk);
    assert!(at.is_some());
    desk.pass(1_000);
    accepted(desk.ask("coder", hold(None, HoldReason::Rate, Some(1_000))));
    assert_eq!(let_go_at(&desk), at, "it survives another hold");
}
