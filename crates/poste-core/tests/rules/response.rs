//! What satisfies a wanted response, and what does not.

use poste_core::fold::Code;
use poste_core::log::{Ends, EndsHow, Send};
use poste_core::store::tables::{EndReason, Event, State};
use poste_core::{MessageNo, views};

use crate::common::*;

fn replies(desk: &Desk, number: MessageNo) -> views::Replies {
    views::replies(desk.office.store(), number).unwrap().expect("the message is there")
}

#[test]
fn a_reply_of_the_recipient_satisfies_a_wanted_response() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let question = desk.send("ann", "bob", "question");
    assert!(desk.message(question).wants_response);
    assert_eq!((replies(&desk, question).answered, replies(&desk, question).missing), (0, 1));

    let reply = accepted(desk.reply("bob", question));
    assert_eq!(desk.states(reply.number), [("ann".to_owned(), State::Pending)], "it goes to the sender");
    assert_eq!(reply.conversation, question.to_string());
    let delivery = desk.delivery(question);
    assert_eq!((delivery.answer, delivery.answered_at), (Some(reply.number), Some(desk.now())));
    assert_eq!(delivery.state, State::Pending, "an answer does not end the delivery");
    assert_eq!((replies(&desk, question).answered, replies(&desk, question).missing), (1, 0));
    assert_eq!(desk.history(question), [Event::Answered]);
}

#[test]
fn an_ack_does_not_satisfy_a_wanted_response() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let question = desk.send("ann", "bob", "question");
    accepted(desk.ack("bob", question));
    assert_eq!(desk.delivery(question).answer, None);
    assert_eq!(desk.state(question), State::Pending);
    assert_eq!(replies(&desk, question).missing, 1);
}

#[test]
fn only_the_first_reply_is_the_answer() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let question = desk.send("ann", "bob", "question");
    let first = accepted(desk.reply("bob", question)).number;
    accepted(desk.reply("bob", question));
    assert_eq!(desk.delivery(question).answer, Some(first));
}

#[test]
fn reply_done_answers_and_finishes_in_one_record() {
    for claims_first in [false, true] {
        let mut desk = Desk::with(&["ann", "bob"]);
        let question = desk.send("ann", "bob", "question");
        if claims_first {
            accepted(desk.claim("bob", question));
        }
        let before = desk.head();
        let reply = accepted(desk.post("bob", answer_and_finish(question)));
        assert_eq!(desk.kinds_after(before), ["message.send"]);
        let delivery = desk.delivery(question);
        assert_eq!((delivery.state, delivery.reason), (State::Done, Some(EndReason::Replied)));
        assert_eq!(delivery.answer, Some(reply.number));
        refused(desk.post("bob", answer_and_finish(question)), Code::Ended);
    }
}

#[test]
fn a_reply_after_the_end_still_counts_as_the_answer() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let question = desk.send("ann", "bob", "question");
    accepted(desk.done("bob", question));
    assert_eq!((replies(&desk, question).answered, replies(&desk, question).missing), (0, 0));
    let reply = accepted(desk.reply("bob", question)).number;
    assert_eq!(desk.delivery(question).answer, Some(reply));
    assert_eq!(desk.state(question), State::Done);
}

#[test]
fn a_third_partys_reply_does_not_count() {
    let mut desk = Desk::with(&["ann", "bob", "cid"]);
    let question = desk.send("ann", "bob", "question");
    refused(desk.reply("cid", question), Code::NotRecipient);
    accepted(desk.post("cid", Send { reply_to: Some(question), ..letter("ann", "response") }));
    assert_eq!(desk.delivery(question).answer, None);
    refused(desk.post("cid", answer_and_finish(question)), Code::NotRecipient);
}

#[test]
fn a_reply_that_does_not_go_to_the_sender_answers_nothing() {
    let mut desk = Desk::with(&["ann", "bob", "cid"]);
    let question = desk.send("ann", "bob", "question");
    accepted(desk.post("bob", Send { reply_to: Some(question), ..letter("cid", "response") }));
    assert_eq!(desk.delivery(question).answer, None);
    let both = accepted(desk.post("bob", Send { reply_to: Some(question), ..letter("cid ann", "response") }));
    assert_eq!(desk.delivery(question).answer, Some(both.number));
}

#[test]
fn each_recipient_answers_for_itself() {
    let mut desk = Desk::with(&["ann", "bob", "cid", "dan"]);
    let question = desk.send("ann", "bob cid dan", "question");
    accepted(desk.reply("bob", question));
    accepted(desk.fail("cid", question));
    let found = replies(&desk, question);
    let answered: Vec<bool> = found.recipients.iter().map(|reply| reply.answer.is_some()).collect();
    assert_eq!(answered, [true, false, false]);
    assert_eq!((found.answered, found.missing), (1, 1), "cid will not answer, dan may");
}

#[test]
fn a_members_reply_answers_for_its_group() {
    let mut desk = Desk::with(&["ann"]);
    desk.register("bob", with_role("dev"));
    let question = desk.send("ann", "role:dev", "question");
    accepted(desk.post("bob", answer_and_finish(question)));
    assert_eq!((replies(&desk, question).answered, desk.state(question)), (1, State::Done));
}

#[test]
fn whoever_sets_a_response_deadline_wants_a_response() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let plain = desk.send("ann", "bob", "message");
    assert!(!desk.message(plain).wants_response);
    let by = Send { respond_by: after(HOUR), ..letter("bob", "message") };
    let asked = accepted(desk.post("ann", by)).number;
    assert!(desk.message(asked).wants_response);
    assert_eq!(replies(&desk, asked).respond_by, Some(desk.now().plus_ms(HOUR)));
}

#[test]
fn reply_done_with_a_lost_lease_is_refused_whole_so_that_no_answer_claims_to_be_the_work() {
    let mut desk = Desk::with(&["ann"]);
    desk.register("bob", with_role("dev"));
    desk.register("cid", with_role("dev"));
    let question = desk.send("ann", "role:dev", "question");
    let token = accepted(desk.claim("bob", question));
    desk.pass(LEASE);
    desk.pass(10 * SECOND);
    accepted(desk.claim("cid", question));
    let ends = Ends { message: question, how: EndsHow::Replied, token: Some(token) };
    refused(desk.post("bob", Send { ends: Some(ends), ..answer_to(question) }), Code::LeaseLost);
    assert_eq!(desk.delivery(question).answer, None);
}

#[test]
fn a_reply_to_a_sender_who_retired_is_refused() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let question = desk.send("ann", "bob", "question");
    accepted(desk.retire("bob", "ann"));
    refused(desk.reply("bob", question), Code::Retired);
}

#[test]
fn an_ack_does_not_end_a_plain_message_that_wants_a_response() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let asks = Send { wants_response: Some(true), ..letter("bob", "message") };
    let number = accepted(desk.post("ann", asks)).number;
    accepted(desk.ack("bob", number));
    assert_eq!(desk.state(number), State::Pending);
    accepted(desk.reply("bob", number));
    assert!(desk.delivery(number).answer.is_some());
}
