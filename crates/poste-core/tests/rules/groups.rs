//! `role:` and `can:`, `every:` and `everyone`.

use poste_core::fold::Code;
use poste_core::log::{Register, Send};
use poste_core::store::tables::State;

use crate::common::*;

fn names(addresses: &[poste_core::Address]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

#[test]
fn a_group_gets_one_delivery_that_any_member_may_claim() {
    for (group, member) in [("role:dev", with_role("dev")), ("can:rust", able("rust"))] {
        for taker in ["bob", "cid"] {
            let mut desk = Desk::with(&["ann", "dan"]);
            desk.register("bob", member.clone());
            desk.register("cid", member.clone());
            let sent = accepted(desk.post("ann", letter(group, "directive")));
            assert_eq!(names(&sent.deliveries), [group]);
            assert_eq!(
                [desk.news("bob"), desk.news("cid"), desk.news("dan")],
                [vec![sent.number], vec![sent.number], vec![]]
            );

            refused(desk.claim("dan", sent.number), Code::NotRecipient);
            accepted(desk.claim(taker, sent.number));
            assert_eq!([desk.news("bob"), desk.news("cid")], [vec![], vec![]], "claimed mail is no longer news");
            accepted(desk.done(taker, sent.number));
            assert_eq!(desk.delivery(sent.number).holder.unwrap(), taker);
        }
    }
}

#[test]
fn a_member_may_be_shown_ack_and_finish_what_came_to_its_group() {
    let mut desk = Desk::with(&["ann"]);
    desk.register("bob", with_role("dev"));
    let number = desk.send("ann", "role:dev", "directive");
    accepted(desk.shown("bob", number));
    accepted(desk.ack("bob", number));
    assert_eq!(desk.state(number), State::Pending);
    accepted(desk.done("bob", number));
    let plain = desk.send("ann", "role:dev", "message");
    accepted(desk.ack("bob", plain));
    assert_eq!(desk.state(plain), State::Done);
}

#[test]
fn who_is_a_member_is_asked_when_claiming_and_not_when_sending() {
    let mut desk = Desk::with(&["ann"]);
    desk.register("bob", with_role("dev"));
    let number = desk.send("ann", "role:dev", "directive");
    desk.register("cid", with_role("dev"));
    assert_eq!(desk.news("cid"), [number], "a later member may claim it");
    desk.register("bob", update(with_role("ops")));
    refused(desk.claim("bob", number), Code::NotRecipient);
    assert_eq!(desk.news("bob"), [], "a former member may not");
    accepted(desk.claim("cid", number));
}

#[test]
fn an_agent_that_learns_a_capability_may_take_what_waits_for_it() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.register("cid", able("rust"));
    let number = desk.send("ann", "can:rust", "directive");
    refused(desk.claim("bob", number), Code::NotRecipient);
    desk.register("bob", update(able("rust")));
    accepted(desk.claim("bob", number));
}

#[test]
fn the_sender_of_group_mail_is_not_among_those_who_may_take_it() {
    let mut desk = Desk::new();
    desk.register("ann", with_role("dev"));
    desk.register("bob", with_role("dev"));
    let number = desk.send("ann", "role:dev", "directive");
    assert_eq!(desk.news("ann"), []);
    refused(desk.shown("ann", number), Code::NotRecipient);
    refused(desk.claim("ann", number), Code::NotRecipient);
    refused(desk.claim_best("ann", 1), Code::NothingToClaim);
    refused(desk.ack("ann", number), Code::NotRecipient);
    refused(desk.done("ann", number), Code::NotRecipient);
    accepted(desk.claim("bob", number));
}

#[test]
fn a_group_without_a_member_who_could_take_it_is_refused() {
    let mut desk = Desk::new();
    desk.register("ann", Register { role: Some("dev".parse().unwrap()), ..able("rust") });
    desk.register("bob", agent());
    for group in ["role:dev", "can:rust", "role:nobody", "can:nothing"] {
        let why = refused(desk.post("ann", letter(group, "directive")), Code::NoMember);
        assert!(why.contains(group), "{why}");
    }
    accepted(desk.post("bob", letter("role:dev can:rust", "directive")));
    accepted(desk.retire("bob", "ann"));
    refused(desk.post("bob", letter("role:dev", "directive")), Code::NoMember);
    refused(desk.post("bob", letter("can:rust", "directive")), Code::NoMember);
}

#[test]
fn a_retry_of_group_mail_needs_a_member_too() {
    let mut desk = Desk::with(&["ann"]);
    desk.register("bob", with_role("dev"));
    let number = desk.send("ann", "role:dev", "directive");
    accepted(desk.fail("bob", number));
    accepted(desk.retire("ann", "bob"));
    refused(desk.retry("ann", number), Code::NoMember);
    desk.register("cid", with_role("dev"));
    accepted(desk.retry("ann", number));
    accepted(desk.claim("cid", number));
}

#[test]
fn every_and_everyone_make_a_delivery_for_each_but_the_sender() {
    let mut desk = Desk::new();
    for name in ["ann", "bob", "cid"] {
        desk.register(name, with_role("dev"));
    }
    desk.register("dan", able("rust"));
    desk.register("eve", able("rust"));
    accepted(desk.retire("ann", "eve"));
    for (address, to) in [
        ("every:role:dev", vec!["bob", "cid"]),
        ("every:can:rust", vec!["dan"]),
        ("everyone", vec!["bob", "cid", "dan"]),
        ("cid everyone every:role:dev", vec!["cid", "bob", "dan"]),
    ] {
        let sent = accepted(desk.post("ann", letter(address, "broadcast")));
        assert_eq!(names(&sent.deliveries), to, "{address}");
        for name in to {
            accepted(desk.ack(name, sent.number));
        }
        assert!(desk.deliveries(sent.number).iter().all(|delivery| delivery.state == State::Done));
    }
}

#[test]
fn agents_registered_later_do_not_get_what_went_to_everyone() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.register("dan", with_role("dev"));
    let all = desk.send("ann", "everyone", "broadcast");
    let devs = desk.send("ann", "every:role:dev", "broadcast");
    desk.register("cid", with_role("dev"));
    desk.register("bob", update(with_role("dev")));
    assert_eq!(desk.news("cid"), []);
    refused(desk.shown("cid", all), Code::NotRecipient);
    refused(desk.claim("bob", devs), Code::NotRecipient);
    assert_eq!(desk.news("bob"), [all]);
}

#[test]
fn a_message_for_which_there_is_nobody_is_accepted_and_says_so() {
    let mut desk = Desk::with(&["ann"]);
    for address in ["everyone", "every:role:dev", "every:can:rust", "topic:Weather"] {
        let sent = accepted(desk.post("ann", letter(address, "broadcast")));
        assert!(sent.deliveries.is_empty(), "{address}");
        let why = poste_core::views::why_message(desk.office.store(), sent.number).unwrap().unwrap();
        assert!(why.lines[0].what.contains("delivered to 0"), "{}", why.lines[0].what);
    }
}

#[test]
fn a_message_may_go_to_an_agent_and_to_its_group_as_two_deliveries() {
    let mut desk = Desk::with(&["ann"]);
    desk.register("bob", with_role("dev"));
    desk.register("cid", with_role("dev"));
    let number = desk.send("ann", "bob role:dev", "directive");
    assert_eq!(desk.news("bob"), [number], "it is one message");
    accepted(desk.done("bob", number));
    assert_eq!(
        desk.states(number),
        [("bob".to_owned(), State::Done), ("role:dev".to_owned(), State::Pending)],
        "the agent's own delivery comes first"
    );
    accepted(desk.done("cid", number));
}

#[test]
fn group_mail_whose_lease_ran_out_is_open_to_all_members_again() {
    let mut desk = Desk::with(&["ann"]);
    desk.register("bob", with_role("dev"));
    desk.register("cid", with_role("dev"));
    let waiting = Send { expires: after(DAY), ..letter("role:dev", "directive") };
    let number = accepted(desk.post("ann", waiting)).number;
    accepted(desk.claim("bob", number));
    desk.pass(LEASE);
    desk.pass(10 * SECOND);
    assert_eq!([desk.news("bob"), desk.news("cid")], [[number], [number]]);
    accepted(desk.claim("cid", number));
}

#[test]
fn saying_done_twice_does_not_end_what_the_group_was_asked() {
    let mut desk = Desk::with(&["ann"]);
    desk.register("bob", with_role("dev"));
    desk.register("cid", with_role("dev"));
    let number = accepted(desk.post("ann", letter("bob role:dev", "directive"))).number;
    accepted(desk.done("bob", number));
    refused(desk.done("bob", number), Code::Ended);
    accepted(desk.claim("cid", number));
    accepted(desk.done("cid", number));
}

#[test]
fn whoever_finished_its_own_may_still_claim_what_the_group_was_asked() {
    let mut desk = Desk::with(&["ann"]);
    desk.register("bob", with_role("dev"));
    let number = accepted(desk.post("ann", letter("bob role:dev", "directive"))).number;
    accepted(desk.done("bob", number));
    accepted(desk.claim("bob", number));
    accepted(desk.done("bob", number));
    assert!(desk.states(number).iter().all(|(_, state)| *state == State::Done));
}
