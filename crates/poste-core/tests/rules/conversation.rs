//! Closing a conversation.

use poste_core::MessageNo;
use poste_core::fold::Code;
use poste_core::log::{Close, Intent, Send};
use poste_core::office::Rules;
use poste_core::store::tables::{EndReason, Event, Notice, State};

use crate::common::*;

/// lead and ann (a human) write to bob and cy in one conversation; dot takes no part in it.
fn desk() -> (Desk, MessageNo, MessageNo) {
    let mut desk = Desk::with(&["lead", "bob", "cy", "dot"]);
    desk.register("ann", human());
    let first = accepted(desk.post("lead", in_conversation("bob", "plan"))).number;
    let second = accepted(desk.post("bob", in_conversation("cy", "plan"))).number;
    (desk, first, second)
}

fn in_conversation(to: &str, conversation: &str) -> Send {
    Send { conversation: Some(conversation.parse().expect("a label")), ..letter(to, "directive") }
}

fn is_closed(desk: &Desk, conversation: &str) -> bool {
    let tables = desk.office.store().tables().expect("the tables load");
    tables.closed(&conversation.parse().expect("a label")).expect("it can be read").is_some()
}

#[test]
fn whoever_takes_part_may_close_and_so_may_a_human() {
    for who in ["lead", "bob", "cy", "ann"] {
        let (mut desk, first, _) = desk();
        assert_eq!(accepted(desk.close(who, first)), 2, "{who}");
        assert!(is_closed(&desk, "plan"));
    }
}

#[test]
fn others_may_not_close_nor_strangers_nor_the_retired() {
    let (mut desk, first, second) = desk();
    says(&refused(desk.close("dot", first), Code::NotAllowed), "only participants");
    refused(desk.close("ghost", first), Code::UnknownAgent);
    accepted(desk.retire("ann", "cy"));
    refused(desk.close("cy", second), Code::Retired);
    assert!(!is_closed(&desk, "plan"));
}

#[test]
fn a_member_of_the_group_that_was_written_to_takes_part_and_whoever_left_it_does_not() {
    let mut desk = Desk::with(&["lead"]);
    desk.register("bob", with_role("coder"));
    desk.register("cy", with_role("coder"));
    desk.register("dot", with_role("reviewer"));
    let number = desk.send("lead", "role:coder", "directive");
    refused(desk.close("dot", number), Code::NotAllowed);
    desk.register("cy", update(with_role("reviewer")));
    refused(desk.close("cy", number), Code::NotAllowed);
    assert_eq!(accepted(desk.close("bob", number)), 1);
}

#[test]
fn closing_names_a_message_that_is_there() {
    let (mut desk, ..) = desk();
    for number in [0, 99, i64::MAX as u64, u64::MAX] {
        refused(desk.close("lead", MessageNo(number)), Code::UnknownMessage);
    }
}

#[test]
fn what_is_open_comes_back_whoever_holds_it_and_however_it_waits() {
    let (mut desk, first, second) = desk();
    let later = Send { not_before: after(HOUR), expires: after(DAY), ..in_conversation("dot", "plan") };
    let later = accepted(desk.post("lead", later)).number;
    let ended = accepted(desk.post("lead", in_conversation("cy", "plan"))).number;
    accepted(desk.claim("cy", ended));
    accepted(desk.done("cy", ended));
    let elsewhere = desk.send("lead", "bob", "directive");
    accepted(desk.claim("bob", first));
    assert_eq!(accepted(desk.close("ann", second)), 3, "any of its messages names the conversation");
    for number in [first, second, later] {
        let delivery = desk.delivery(number);
        assert_eq!((delivery.state, delivery.reason), (State::Returned, Some(EndReason::ConversationClosed)));
        assert_eq!((delivery.lease_until, delivery.ended_by), (None, Some(delivery.ended_by.expect("the close"))));
        assert_eq!(desk.history(number).last(), Some(&Event::Returned));
    }
    assert_eq!(desk.delivery(first).holder.map(|name| name.to_string()), Some("bob".to_owned()), "the last holder");
    assert_eq!(desk.state(ended), State::Done, "ended deliveries keep their state");
    assert_eq!(desk.state(elsewhere), State::Pending, "other conversations stay open");
    // Nothing is due for the returned mail.
    let head = desk.head();
    desk.pass(2 * DAY);
    assert_eq!(desk.kinds_after(head), Vec::<String>::new());
}

#[test]
fn senders_are_told_what_came_back_but_not_whoever_closed() {
    let (mut desk, first, second) = desk();
    accepted(desk.close("lead", first));
    assert_eq!(desk.told_of(first), [], "lead closed it, so needs no notice");
    assert_eq!(desk.told_of(second), [("bob".to_owned(), Notice::Returned)]);

    let (mut desk, first, second) = self::desk();
    accepted(desk.close("ann", first));
    assert_eq!(desk.told_of(first), [("lead".to_owned(), Notice::Returned)]);
    assert_eq!(desk.told_of(second), [("bob".to_owned(), Notice::Returned)]);
}

#[test]
fn whoever_holds_what_is_closed_is_told_so_unless_it_knows_by_other_means() {
    let told = |closes: &str, holds: &str| {
        let (mut desk, first, _) = desk();
        desk.register(holds, update(with_role("coder")));
        let shared = accepted(desk.post("lead", in_conversation("role:coder", "plan"))).number;
        let own = accepted(desk.post("lead", in_conversation("lead", "plan"))).number;
        accepted(desk.claim("lead", own));
        accepted(desk.claim(holds, shared));
        accepted(desk.close(closes, first));
        assert_eq!(desk.told_of(own).len(), usize::from(closes != "lead"), "lead is notified as the sender");
        desk.told_of(shared)
    };
    let (returned, closed) = (("lead".to_owned(), Notice::Returned), ("dot".to_owned(), Notice::Closed));
    assert_eq!(told("ann", "dot"), [returned.clone(), closed.clone()]);
    assert_eq!(told("lead", "dot"), [closed], "also if the sender closes it");
    assert_eq!(told("dot", "dot"), [returned], "the closing agent needs no notice");
}

#[test]
fn a_notice_that_is_held_stays_with_its_holder() {
    let (mut desk, first, second) = desk();
    accepted(desk.close("ann", first));
    let notice = desk.told_of(second).len();
    assert_eq!(notice, 1);
    let number = desk.notices().last().expect("bob is notified").number;
    accepted(desk.claim("bob", number));
    refused(desk.close("ann", first), Code::NothingToDo);
    assert_eq!((desk.state(number), desk.told_of(number)), (State::Claimed, vec![]));
}

#[test]
fn a_sender_that_retired_is_told_nothing() {
    let (mut desk, first, _) = desk();
    accepted(desk.retire("ann", "lead"));
    accepted(desk.close("ann", first));
    assert_eq!(desk.told_of(first), []);
}

#[test]
fn unread_notices_outlive_the_conversation() {
    let (mut desk, first, second) = desk();
    accepted(desk.close("ann", first)); // two notices: to lead and to bob
    let notices = desk.notices();
    assert_eq!(notices.len(), 2);
    refused(desk.close("ann", second), Code::NothingToDo);
    for told in &notices {
        assert_eq!(desk.state(told.number), State::Pending, "it is unread");
    }
    assert_eq!(desk.notices().len(), 2, "there is no notice about a notice");
}

#[test]
fn closing_twice_is_refused_once_nothing_is_open() {
    let mut desk = Desk::with(&["lead", "bob"]);
    let number = desk.send("lead", "bob", "directive");
    accepted(desk.close("lead", number));
    says(&refused(desk.close("lead", number), Code::NothingToDo), "already closed");
    says(&refused(desk.close("bob", number), Code::NothingToDo), "already closed");
}

#[test]
fn what_is_finished_by_itself_can_be_closed_with_an_outcome_once() {
    let mut desk = Desk::with(&["lead", "bob"]);
    let number = desk.send("lead", "bob", "message");
    accepted(desk.ack("bob", number));
    assert_eq!(accepted(desk.close("lead", number)), 0);
    assert!(is_closed(&desk, "1"));
    refused(desk.close("lead", number), Code::NothingToDo);
    assert_eq!(desk.state(number), State::Done);
}

#[test]
fn a_new_message_opens_it_again() {
    let (mut desk, first, _) = desk();
    accepted(desk.close("lead", first));
    // By name, as a reply, or as a forward.
    let reply = accepted(desk.reply("bob", first)).number;
    assert_eq!(desk.message(reply).conversation.as_str(), "plan");
    assert!(!is_closed(&desk, "plan"));
    assert_eq!(accepted(desk.close("lead", first)), 1, "the reply to lead, not bob's notice");
    accepted(desk.post("lead", in_conversation("dot", "plan")));
    assert!(!is_closed(&desk, "plan"));
}

#[test]
fn a_refused_message_leaves_it_closed() {
    let (mut desk, first, _) = desk();
    accepted(desk.close("lead", first));
    refused(desk.post("lead", in_conversation("ghost", "plan")), Code::UnknownAgent);
    assert!(is_closed(&desk, "plan"));
}

#[test]
fn another_chance_opens_it_again() {
    let mut desk = Desk::with(&["lead", "bob"]);
    let number = desk.send("lead", "bob", "directive");
    accepted(desk.close("lead", number));
    accepted(desk.retry("lead", number));
    assert_eq!(desk.state(number), State::Pending);
    assert!(!is_closed(&desk, "1"), "it has open work again");
    assert_eq!(accepted(desk.close("lead", number)), 1);
}

#[test]
fn a_message_that_opens_a_conversation_of_a_name_that_was_closed_before_opens_that() {
    let mut desk = Desk::with(&["lead", "bob"]);
    // Message 2 opens conversation 2, and that name is already taken.
    let number = accepted(desk.post("lead", in_conversation("bob", "2"))).number;
    accepted(desk.close("lead", number));
    assert!(is_closed(&desk, "2"));
    let second = desk.send("lead", "bob", "directive");
    assert_eq!(desk.message(second).conversation.as_str(), "2");
    assert!(!is_closed(&desk, "2"));
}

#[test]
fn work_that_goes_on_in_a_closed_conversation_is_kept_as_late() {
    let (mut desk, first, _) = desk();
    let token = accepted(desk.claim("bob", first));
    accepted(desk.close("ann", first));
    let kept = late(desk.done_with("bob", first, Some(token)));
    assert_eq!(kept.state, "returned");
    assert_eq!(desk.state(first), State::Returned);
    assert_eq!(
        desk.told_of(first),
        [("lead".to_owned(), Notice::Returned), ("bob".to_owned(), Notice::Closed), ("lead".to_owned(), Notice::Late)],
        "the sender is notified of the late result"
    );
}

#[test]
fn an_answer_from_another_conversation_still_counts_after_the_close() {
    let (mut desk, first, _) = desk();
    accepted(desk.close("lead", first));
    let answer = Send { conversation: Some("elsewhere".parse().expect("a label")), ..answer_to(first) };
    let answer = accepted(desk.post("bob", answer)).number;
    assert_eq!(desk.delivery(first).answer, Some(answer));
    assert!(is_closed(&desk, "plan"), "the answer is in another conversation");
}

#[test]
fn a_repeated_close_is_told_what_it_did_and_changes_nothing() {
    let (mut desk, first, _) = desk();
    let close = desk.proposal("lead", Intent::Close(Close { message: first }), Some(text("over")));
    assert!(!desk.outcome(&close).repeat);
    let reopened = accepted(desk.post("lead", in_conversation("dot", "plan"))).number;
    let again = desk.outcome(&close);
    assert!(again.repeat && again.verdict.accepted().is_ok());
    assert_eq!(desk.state(reopened), State::Pending);
}

#[test]
fn close_without_an_outcome_is_fine() {
    let (mut desk, first, _) = desk();
    accepted(desk.ask("lead", Intent::Close(Close { message: first })));
    assert!(is_closed(&desk, "plan"));
}

#[test]
fn more_open_deliveries_than_one_record_may_touch_are_refused() {
    let mut desk = Desk::with(&["lead", "bob", "cy", "dot", "flo", "gus"]);
    let proposals: Vec<_> = (0..2_001)
        .map(|_| {
            let letter = in_conversation("bob cy dot flo gus", "crowd");
            desk.proposal("lead", Intent::Send(letter), None)
        })
        .collect();
    for chunk in proposals.chunks(500) {
        desk.office.submit(chunk, &Rules::none()).expect("they are sent");
    }
    says(&refused(desk.close("lead", MessageNo(1)), Code::TooLarge), "more than 10000");
}
