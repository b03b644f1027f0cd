//! Reminders: when a response is overdue, the sender and the lead are notified once.

use poste_core::MessageNo;
use poste_core::fold::Code;
use poste_core::log::{Cleared, Register, Send};
use poste_core::office::Rules;
use poste_core::store::tables::{Event, Notice, State};

use crate::common::*;

fn question(to: &str) -> Send {
    Send { respond_by: after(HOUR), ..letter(to, "question") }
}

fn ask(desk: &mut Desk, from: &str, to: &str) -> MessageNo {
    accepted(desk.post(from, question(to))).number
}

/// The agents that are notified that the answer is overdue.
fn reminded(desk: &Desk, number: MessageNo) -> Vec<String> {
    let told = desk.told_of(number);
    told.into_iter().filter(|(_, what)| *what == Notice::Overdue).map(|(to, _)| to).collect()
}

/// The agents: sender asks bob, whose lead is boss; chief has the role `lead`.
fn desk() -> Desk {
    let mut desk = Desk::with(&["sender", "boss"]);
    desk.register("chief", with_role("lead"));
    desk.register_with_lead("bob", "boss");
    desk
}

#[test]
fn the_sender_and_the_lead_are_told_when_the_deadline_passes_and_not_before() {
    let mut desk = desk();
    let number = ask(&mut desk, "sender", "bob");
    desk.pass(HOUR - 1);
    assert_eq!(reminded(&desk, number), Vec::<String>::new());
    desk.pass(1);
    assert_eq!(reminded(&desk, number), ["sender", "boss"]);
    let delivery = desk.delivery(number);
    assert_eq!(delivery.reminded_at, Some(desk.now()));
    assert_eq!(delivery.state, State::Pending, "it can still be answered");
    assert_eq!(desk.history(number), [Event::Reminded]);
}

#[test]
fn it_is_told_exactly_once_however_late_and_often_the_ticks_come() {
    let mut desk = desk();
    let number = ask(&mut desk, "sender", "bob");
    desk.pass(5 * DAY);
    for _ in 0..3 {
        desk.settle();
        desk.pass(DAY);
    }
    assert_eq!(reminded(&desk, number), ["sender", "boss"]);
    let head = desk.head();
    desk.pass(30 * DAY);
    assert_eq!(desk.head(), head, "nothing is due any more");
}

#[test]
fn a_claim_does_not_stop_it_nor_does_losing_it() {
    let mut desk = desk();
    let number = ask(&mut desk, "sender", "bob");
    desk.pass(HOUR - MINUTE);
    accepted(desk.claim("bob", number));
    desk.pass(DAY); // the same tick settles lease and deadline
    assert_eq!(reminded(&desk, number), ["sender", "boss"]);
    assert_eq!(desk.delivery(number).attempts, 1);
}

#[test]
fn an_answer_in_time_is_enough_even_if_the_work_goes_on() {
    let mut desk = desk();
    let number = ask(&mut desk, "sender", "bob");
    accepted(desk.reply("bob", number));
    desk.pass(DAY);
    assert_eq!(reminded(&desk, number), Vec::<String>::new());
    assert_eq!(desk.state(number), State::Pending);
}

#[test]
fn nobody_is_reminded_of_what_has_ended() {
    let mut desk = desk();
    let done = ask(&mut desk, "sender", "bob");
    accepted(desk.done("bob", done));
    let failed = ask(&mut desk, "sender", "bob");
    accepted(desk.fail("bob", failed));
    let expired = accepted(desk.post("sender", Send { expires: after(MINUTE), ..question("bob") })).number;
    let closed = ask(&mut desk, "sender", "bob");
    accepted(desk.close("sender", closed));
    desk.pass(DAY);
    for number in [done, failed, expired, closed] {
        assert_eq!(reminded(&desk, number), Vec::<String>::new(), "message {number}");
    }
}

#[test]
fn of_an_expiry_and_a_deadline_at_the_same_moment_only_the_expiry_is_told() {
    let mut desk = desk();
    let number = accepted(desk.post("sender", Send { expires: after(HOUR), ..question("bob") })).number;
    desk.pass(HOUR);
    assert_eq!(desk.state(number), State::Expired);
    assert_eq!(desk.told_of(number), [("sender".to_owned(), Notice::Expired)]);
}

#[test]
fn without_a_deadline_nobody_is_reminded() {
    let mut desk = desk();
    let number = desk.send("sender", "bob", "question");
    desk.pass(100 * DAY);
    assert_eq!(reminded(&desk, number), Vec::<String>::new());
}

#[test]
fn whoever_has_the_role_leads_those_who_name_nobody() {
    let mut desk = desk();
    desk.register("cy", agent());
    let number = ask(&mut desk, "sender", "cy");
    desk.pass(DAY);
    assert_eq!(reminded(&desk, number), ["sender", "role:lead"]);
    // It is ordinary group mail: one member of the role handles it for all.
    let notice = desk.notices().last().expect("a notice").number;
    accepted(desk.ack("chief", notice));
    assert_eq!(desk.state(notice), State::Done);
}

#[test]
fn without_any_lead_only_the_sender_is_told() {
    let mut desk = Desk::with(&["sender", "bob"]);
    let number = ask(&mut desk, "sender", "bob");
    desk.pass(DAY);
    assert_eq!(reminded(&desk, number), ["sender"]);
}

#[test]
fn a_lead_that_asked_itself_is_told_once() {
    let mut desk = desk();
    let by_name = ask(&mut desk, "boss", "bob");
    desk.register("cy", agent());
    let by_role = ask(&mut desk, "chief", "cy");
    desk.pass(DAY);
    assert_eq!(reminded(&desk, by_name), ["boss"]);
    assert_eq!(reminded(&desk, by_role), ["chief"]);
}

#[test]
fn a_lead_is_not_told_of_its_own_silence() {
    let mut desk = desk();
    let number = ask(&mut desk, "sender", "chief");
    desk.pass(DAY);
    assert_eq!(reminded(&desk, number), ["sender"]);
}

#[test]
fn when_the_lead_has_retired_the_role_stands_in() {
    let mut desk = desk();
    accepted(desk.retire("sender", "boss"));
    let number = ask(&mut desk, "sender", "bob");
    desk.pass(DAY);
    assert_eq!(reminded(&desk, number), ["sender", "role:lead"]);
    accepted(desk.retire("sender", "chief"));
    let number = ask(&mut desk, "sender", "bob");
    desk.pass(DAY);
    assert_eq!(reminded(&desk, number), ["sender"], "there is no lead any more");
}

#[test]
fn a_sender_that_retired_is_not_told_but_the_lead_is() {
    let mut desk = desk();
    let number = ask(&mut desk, "sender", "bob");
    accepted(desk.retire("boss", "sender"));
    desk.pass(DAY);
    assert_eq!(reminded(&desk, number), ["boss"]);
}

#[test]
fn of_a_group_the_holders_lead_is_told_and_while_nobody_holds_it_the_role() {
    let mut desk = desk();
    desk.register("bob", update(with_role("coder"))); // boss is still bob's lead
    desk.register("cy", with_role("coder"));
    let unclaimed = ask(&mut desk, "sender", "role:coder");
    let claimed = ask(&mut desk, "sender", "role:coder");
    accepted(desk.claim_for("bob", claimed, Some(2 * HOUR)));
    desk.pass(HOUR);
    assert_eq!(reminded(&desk, unclaimed), ["sender", "role:lead"]);
    assert_eq!(reminded(&desk, claimed), ["sender", "boss"]);
}

#[test]
fn each_recipient_is_reminded_of_by_itself() {
    let mut desk = desk();
    desk.register("cy", agent());
    let number = ask(&mut desk, "sender", "bob cy");
    accepted(desk.reply("cy", number));
    desk.pass(DAY);
    assert_eq!(reminded(&desk, number), ["sender", "boss"], "cy has answered");
}

#[test]
fn another_chance_after_the_deadline_reminds_nobody_again() {
    let mut desk = desk();
    let number = ask(&mut desk, "sender", "bob");
    desk.pass(2 * HOUR);
    accepted(desk.claim("bob", number));
    accepted(desk.fail("bob", number));
    accepted(desk.retry("sender", number));
    desk.pass(10 * DAY);
    assert_eq!(reminded(&desk, number), ["sender", "boss"]);
    assert_eq!(desk.state(number), State::Pending);
}

#[test]
fn another_chance_before_the_deadline_still_has_it() {
    let mut desk = desk();
    let number = ask(&mut desk, "sender", "bob");
    accepted(desk.fail("bob", number));
    accepted(desk.retry("sender", number));
    desk.pass(HOUR);
    assert_eq!(reminded(&desk, number), ["sender", "boss"]);
}

#[test]
fn a_message_passed_on_takes_its_deadline_along() {
    use poste_core::log::{Ends, EndsHow};
    let mut desk = desk();
    desk.register("cy", agent());
    let number = ask(&mut desk, "sender", "bob");
    let forward = Send { ends: Some(Ends { message: number, how: EndsHow::Forwarded, token: None }), ..question("cy") };
    let passed_on = accepted(desk.post("bob", forward)).number;
    desk.pass(DAY);
    assert_eq!(reminded(&desk, number), Vec::<String>::new(), "bob has forwarded it");
    assert_eq!(reminded(&desk, passed_on), ["bob", "role:lead"]);
}

#[test]
fn whoever_subscribes_after_the_deadline_is_not_reminded_of_it() {
    let mut desk = desk();
    let number = accepted(desk.post("sender", question("topic:builds"))).number;
    desk.pass(2 * HOUR);
    accepted(desk.subscribe("bob", "builds", Some(poste_core::Position(0))));
    desk.pass(DAY);
    assert_eq!(desk.delivery(number).respond_by, None);
    assert_eq!(reminded(&desk, number), Vec::<String>::new());
}

#[test]
fn a_lead_is_an_active_agent_other_than_oneself() {
    let mut desk = desk();
    let led_by = |lead: &str| Register { lead: Some(lead.parse().expect("a name")), ..agent() };
    let register =
        |desk: &mut Desk, name: &str, register: Register| desk.ask(name, poste_core::log::Intent::Register(register));
    refused(register(&mut desk, "cy", led_by("cy")), Code::Malformed);
    refused(register(&mut desk, "cy", led_by("ghost")), Code::UnknownAgent);
    accepted(desk.retire("sender", "boss"));
    refused(register(&mut desk, "cy", led_by("boss")), Code::Retired);
    // An update of something else keeps the lead, which can be cleared.
    desk.register("bob", update(with_role("coder")));
    let lead = |desk: &Desk| {
        let name = "bob".parse().expect("a name");
        desk.office.agent(&name).expect("agents can be read").expect("bob").lead.map(|lead| lead.to_string())
    };
    assert_eq!(lead(&desk), Some("boss".to_owned()));
    desk.register("bob", Register { clears: vec![Cleared::Lead], ..update(agent()) });
    assert_eq!(lead(&desk), None);
}

#[test]
fn a_thousand_and_more_that_are_late_at_once_are_each_told_once() {
    let mut desk = Desk::with(&["sender", "bob"]);
    let letters: Vec<_> =
        (0..1_300).map(|_| desk.proposal("sender", poste_core::log::Intent::Send(question("bob")), None)).collect();
    desk.office.submit(&letters, &Rules::none()).expect("they are sent");
    desk.pass(DAY);
    assert_eq!(desk.notices().len(), 1_300);
    desk.pass(DAY);
    assert_eq!(desk.notices().len(), 1_300);
}
