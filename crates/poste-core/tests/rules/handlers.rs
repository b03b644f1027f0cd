//! Rules that notify people of mail: one holder, a cursor that only moves forward, and dead letters of their own.

use poste_core::fold::{Code, Effect, Handling};
use poste_core::log::{HandlerCursor, HandlerDead, HandlerRelease, HandlerSettle, HandlerTake, Intent, Send, Settling};
use poste_core::office::Rules;
use poste_core::text::Label;
use poste_core::{MessageNo, Position, limits, office, views};

use crate::common::*;

fn rule(name: &str) -> Label {
    name.parse().expect("a label")
}

fn take(name: &str, token: Option<Position>) -> Intent {
    Intent::HandlerTake(HandlerTake { rule: rule(name), lease_ms: MINUTE, token, from: None })
}

fn cursor(name: &str, token: Position, position: Position) -> Intent {
    Intent::HandlerCursor(HandlerCursor { rule: rule(name), token, position })
}

fn release(name: &str, token: Position) -> Intent {
    Intent::HandlerRelease(HandlerRelease { rule: rule(name), token })
}

fn dead(name: &str, token: Position, message: MessageNo, attempts: u32) -> Intent {
    Intent::HandlerDead(HandlerDead { rule: rule(name), token, message, attempts, mail: None })
}

fn settle(name: &str, message: MessageNo, how: Settling, token: Option<Position>) -> Intent {
    Intent::HandlerSettle(HandlerSettle { rule: rule(name), message, how, token })
}

fn taken(effect: Effect) -> Handling {
    let Effect::Handling(handling) = effect else { panic!("unexpected effect: {effect:?}") };
    handling
}

fn head(desk: &Desk) -> Position {
    office::head(desk.office.store()).unwrap()
}

fn seen_to(desk: &Desk, name: &str) -> Position {
    views::handler(desk.office.store(), &rule(name)).unwrap().expect("it was taken").cursor
}

#[test]
fn one_holder_at_a_time_who_may_stay() {
    let mut desk = Desk::with(&["one", "other"]);
    let first = taken(accepted(desk.ask("one", take("pager", None))));
    refused(desk.ask("other", take("pager", None)), Code::RuleHeld);
    // Two processes may act as one agent: the token tells them apart.
    refused(desk.ask("one", take("pager", None)), Code::RuleHeld);
    refused(desk.ask("other", take("pager", Some(first.token))), Code::LeaseLost);
    desk.clock.pass(50 * SECOND);
    let renewed = taken(accepted(desk.ask("one", take("pager", Some(first.token)))));
    assert_eq!((renewed.token, renewed.until), (first.token, first.until.plus_ms(50 * SECOND)));
    desk.clock.pass(50 * SECOND);
    refused(desk.ask("other", take("pager", None)), Code::RuleHeld);
    desk.clock.pass(11 * SECOND);
    let second = taken(accepted(desk.ask("other", take("pager", None))));
    assert!(second.token > first.token);
    refused(desk.ask("one", take("pager", Some(first.token))), Code::LeaseLost);
    refused(desk.ask("one", release("pager", first.token)), Code::LeaseLost);
    accepted(desk.ask("other", release("pager", second.token)));
    refused(desk.ask("other", cursor("pager", second.token, head(&desk))), Code::LeaseLost);
    accepted(desk.ask("one", take("pager", None)));
    refused(desk.ask("one", take("nowhere", Some(first.token))), Code::UnknownRule);
}

#[test]
fn a_lease_is_a_second_to_a_day() {
    let mut desk = Desk::with(&["one"]);
    for lease_ms in [0, limits::LEASE_MS_MIN - 1, limits::LEASE_MS_MAX + 1, i64::MAX] {
        let take = HandlerTake { rule: rule("pager"), lease_ms, token: None, from: None };
        refused(desk.ask("one", Intent::HandlerTake(take)), Code::TimeOutOfRange);
    }
}

#[test]
fn nothing_of_the_past_fires_unless_it_is_wanted() {
    let mut desk = Desk::with(&["one", "coder"]);
    desk.send("one", "coder", "alert");
    let end = head(&desk);
    assert_eq!(taken(accepted(desk.ask("one", take("new", None)))).cursor, end);
    let from_start = HandlerTake { rule: rule("all"), lease_ms: MINUTE, token: None, from: Some(Position(0)) };
    assert_eq!(taken(accepted(desk.ask("one", Intent::HandlerTake(from_start)))).cursor, Position(0));
    let ahead = HandlerTake { rule: rule("ahead"), lease_ms: MINUTE, token: None, from: Some(Position(99)) };
    refused(desk.ask("one", Intent::HandlerTake(ahead)), Code::Malformed);
    let (mail, _) = views::stored_after(desk.office.store(), Position(0), 10).unwrap();
    assert_eq!(mail.len(), 1);
    assert_eq!(views::stored_after(desk.office.store(), end, 10).unwrap().0, []);
}

#[test]
fn a_cursor_only_moves_on_and_stays_when_the_holder_goes() {
    let mut desk = Desk::with(&["one", "other"]);
    let token = taken(accepted(desk.ask("one", take("pager", None)))).token;
    desk.send("one", "other", "alert");
    let end = head(&desk);
    refused(desk.ask("other", cursor("pager", token, end)), Code::LeaseLost);
    refused(desk.ask("one", cursor("pager", Position(1), end)), Code::LeaseLost);
    refused(desk.ask("one", cursor("pager", token, Position(end.0 + 2))), Code::Malformed);
    accepted(desk.ask("one", cursor("pager", token, end)));
    refused(desk.ask("one", cursor("pager", token, end)), Code::NothingToDo);
    refused(desk.ask("one", cursor("pager", token, Position(end.0 - 1))), Code::NothingToDo);
    desk.clock.pass(2 * MINUTE);
    refused(desk.ask("one", cursor("pager", token, head(&desk))), Code::LeaseLost);
    // The next holder continues there, whatever start its own take names.
    let again = HandlerTake { rule: rule("pager"), lease_ms: MINUTE, token: None, from: Some(Position(0)) };
    assert_eq!(taken(accepted(desk.ask("other", Intent::HandlerTake(again)))).cursor, end);
    assert_eq!(seen_to(&desk, "pager"), end);
}

#[test]
fn who_retires_lets_go_and_a_leaping_clock_takes_nothing() {
    let mut desk = Desk::with(&["one", "other"]);
    let before = taken(accepted(desk.ask("one", take("pager", None))));
    desk.clock.set_wall(HOUR);
    refused(desk.ask("other", take("pager", None)), Code::RuleHeld);
    let view = views::handler(desk.office.store(), &rule("pager")).unwrap().unwrap();
    assert_eq!(view.holder.expect("it is held").until, before.until.plus_ms(HOUR));
    accepted(desk.retire("other", "one"));
    accepted(desk.ask("other", take("pager", None)));
}

#[test]
fn what_could_not_be_told_is_kept_until_it_is_told_or_dropped() {
    let mut desk = Desk::with(&["one", "boss"]);
    let number = desk.send("boss", "one", "alert");
    let later = desk.send("boss", "one", "alert");
    let token = taken(accepted(desk.ask("one", take("pager", None)))).token;
    refused(desk.ask("one", dead("pager", token, MessageNo(99), 3)), Code::UnknownMessage);
    refused(desk.ask("one", dead("pager", token, number, 0)), Code::Malformed);
    refused(desk.ask("boss", dead("pager", token, number, 3)), Code::LeaseLost);
    accepted(desk.ask("one", dead("pager", token, number, 3)));
    accepted(desk.ask("one", dead("pager", token, later, 3)));
    let untold = |desk: &Desk| views::untold(desk.office.store(), Some(&rule("pager")), 10).unwrap().0;
    assert_eq!(untold(&desk).iter().map(|untold| untold.message).collect::<Vec<_>>(), [number, later]);
    // Another failed try: still one row, with the latest attempts.
    accepted(desk.ask("one", dead("pager", token, number, 4)));
    assert_eq!(untold(&desk).iter().map(|untold| untold.attempts).collect::<Vec<_>>(), [4, 3]);
    refused(desk.ask("one", settle("pager", number, Settling::Sent, None)), Code::Malformed);
    refused(desk.ask("one", settle("pager", number, Settling::Dropped, Some(token))), Code::Malformed);
    refused(desk.ask("boss", settle("pager", number, Settling::Sent, Some(token))), Code::LeaseLost);
    accepted(desk.ask("one", settle("pager", number, Settling::Sent, Some(token))));
    refused(desk.ask("one", settle("pager", number, Settling::Sent, Some(token))), Code::NothingToDo);
    accepted(desk.ask("boss", settle("pager", later, Settling::Dropped, None)));
    assert_eq!(untold(&desk), []);
}

#[test]
fn its_alert_is_mail_and_says_of_which_rule() {
    let mut desk = Desk::with(&["one", "boss"]);
    let number = desk.send("boss", "one", "alert");
    let token = taken(accepted(desk.ask("one", take("pager", None)))).token;
    let alert = |mail: Send| {
        let mail = Some(mail);
        Intent::HandlerDead(HandlerDead { rule: rule("pager"), token, message: number, attempts: 3, mail })
    };
    let plain = Send::plain("alert".parse().unwrap(), vec!["boss".parse().unwrap()]);
    refused(desk.ask("one", alert(Send { reply_to: Some(number), ..plain.clone() })), Code::Malformed);
    let Effect::Sent(sent) = accepted(desk.ask("one", alert(plain))) else { panic!("it is mail") };
    let (mail, _) = views::stored_after(desk.office.store(), Position(0), 10).unwrap();
    let by: Vec<Option<Label>> =
        mail.iter().map(|mail| mail.header.as_ref().expect("it can be read").untold_by.clone()).collect();
    assert_eq!(by, [None, Some(rule("pager"))]);
    assert_eq!(mail[1].number, sent.number);
}

#[test]
fn a_repeated_take_is_told_what_it_took() {
    let mut desk = Desk::with(&["one"]);
    let proposal = desk.proposal("one", take("pager", None), None);
    let first = desk.office.propose(&proposal, &Rules::none()).unwrap();
    let again = desk.office.propose(&proposal, &Rules::none()).unwrap();
    assert!(again.repeat);
    assert_eq!(first.verdict, again.verdict);
    let token = taken(first.verdict.accepted().unwrap()).token;
    accepted(desk.ask("one", release("pager", token)));
    let over = desk.office.propose(&proposal, &Rules::none()).unwrap();
    assert_eq!(over.verdict.accepted().unwrap(), Effect::Noted, "the lease it took has ended");
}

#[test]
fn there_are_not_rules_without_end() {
    let mut desk = Desk::with(&["one"]);
    let mut proposals = Vec::new();
    for number in 0..limits::HANDLERS_MAX {
        proposals.push(desk.proposal("one", take(&format!("rule-{number}"), None), None));
    }
    for outcome in desk.office.submit(&proposals, &Rules::none()).unwrap() {
        outcome.verdict.accepted().unwrap();
    }
    refused(desk.ask("one", take("one-more", None)), Code::TooLarge);
    refused(desk.ask("one", take("rule-0", None)), Code::RuleHeld);
}
