//! Claims: tokens, sessions, and results that arrive after the lease has ended.

use poste_core::fold::{Code, Effect};
use poste_core::log::{Claim, Extend, Intent, Send};
use poste_core::store::tables::{Event, Notice, State};
use poste_core::{MessageNo, Position, views};

use crate::common::*;

/// An office with two members of the role that ann sends to.
fn desk_with_group() -> Desk {
    let mut desk = Desk::with(&["ann"]);
    desk.register("bob", with_role("dev"));
    desk.register("cid", with_role("dev"));
    desk
}

/// Lets a lease expire, until the message can be claimed again; the invalid token.
fn lose_lease(desk: &mut Desk, holder: &str, number: MessageNo) -> Position {
    let token = accepted(desk.claim(holder, number));
    desk.pass(LEASE);
    desk.pass(HOUR);
    assert!(desk.delivery(number).ready, "it can be claimed again");
    token
}

#[test]
fn the_token_of_a_claim_is_the_log_position_of_the_claim() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    let token = accepted(desk.claim("bob", number));
    assert_eq!(token, desk.head());
    assert_eq!(desk.delivery(number).token, Some(token));
}

#[test]
fn a_lease_lasts_ten_minutes_unless_the_claim_says_otherwise() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    for wrong in [0, SECOND - 1, DAY + 1, -1, i64::MAX] {
        refused(desk.claim_for("bob", number, Some(wrong)), Code::TimeOutOfRange);
    }
    accepted(desk.claim("bob", number));
    assert_eq!(desk.delivery(number).lease_until, Some(desk.now().plus_ms(LEASE)));
    let other = desk.send("ann", "bob", "directive");
    accepted(desk.claim_for("bob", other, Some(DAY)));
    assert_eq!(desk.delivery(other).lease_until, Some(desk.now().plus_ms(DAY)));
}

#[test]
fn a_lease_is_held_until_its_very_end_and_not_longer() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let [in_time, too_late] = [(); 2].map(|()| desk.send("ann", "bob", "directive"));
    let tokens = [in_time, too_late].map(|number| accepted(desk.claim("bob", number)));
    desk.clock.pass(LEASE - 1);
    accepted(desk.done_with("bob", in_time, Some(tokens[0])));
    assert_eq!(desk.state(in_time), State::Done);
    desk.clock.pass(1);
    assert_eq!(late(desk.done_with("bob", too_late, Some(tokens[1]))).state, "pending");
}

#[test]
fn an_extended_lease_counts_from_now() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    let token = accepted(desk.claim("bob", number));
    desk.pass(9 * MINUTE);
    let effect = accepted(desk.extend("bob", number, Some(token)));
    assert_eq!(claimed(effect).token, token, "the token is kept");
    assert_eq!(desk.delivery(number).lease_until, Some(desk.now().plus_ms(LEASE)));
    desk.pass(LEASE - 1);
    assert_eq!(desk.state(number), State::Claimed);
    let hour = Extend { message: number, token: None, lease_ms: Some(HOUR) };
    accepted(desk.ask("bob", Intent::Extend(hour)));
    desk.pass(HOUR - 1);
    assert_eq!(desk.delivery(number).attempts, 0);
    desk.pass(1);
    assert_eq!(desk.delivery(number).attempts, 1);
}

#[test]
fn the_first_claim_can_be_finished_without_token_or_session() {
    for finish in [Desk::done, Desk::fail, |desk: &mut Desk, who: &str, number| desk.release(who, number, None)] {
        let mut desk = Desk::with(&["ann", "bob"]);
        let number = desk.send("ann", "bob", "directive");
        accepted(desk.claim("bob", number));
        accepted(desk.extend("bob", number, None));
        accepted(finish(&mut desk, "bob", number));
    }
}

#[test]
fn a_later_claim_needs_its_token_or_its_session() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    let first = accepted(desk.claim("bob", number));
    accepted(desk.release("bob", number, Some(first)));
    let second = accepted(desk.claim("bob", number));

    for bare in [
        desk.done("bob", number),
        desk.fail("bob", number),
        desk.fail_retry("bob", number, None),
        desk.release("bob", number, None),
        desk.extend("bob", number, None),
    ] {
        assert!(refused(bare, Code::AlreadyClaimed).contains("held by bob"));
    }
    accepted(desk.extend("bob", number, Some(second)));
    accepted(desk.done_with("bob", number, Some(second)));
    assert_eq!(desk.state(number), State::Done);
}

#[test]
fn a_later_claim_is_finished_by_its_session_without_a_token() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    lose_lease(&mut desk, "bob/1", number);
    accepted(desk.claim("bob/2", number));
    accepted(desk.extend("bob/2", number, None));
    accepted(desk.done("bob/2", number));
    assert_eq!(desk.state(number), State::Done);
}

#[test]
fn a_claim_of_one_session_is_not_the_claim_of_another() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    let token = accepted(desk.claim("bob/1", number));
    for other in [desk.done("bob/2", number), desk.release("bob/2", number, None), desk.extend("bob/2", number, None)] {
        let why = refused(other, Code::AlreadyClaimed);
        assert!(why.contains("held by bob in session 1"), "{why}");
    }
    accepted(desk.done_with("bob/2", number, Some(token)));
    assert_eq!(desk.state(number), State::Done, "the token counts more than the session");
}

#[test]
fn whoever_does_not_hold_it_is_told_who_does() {
    let mut desk = desk_with_group();
    let number = desk.send("ann", "role:dev", "directive");
    accepted(desk.claim("bob", number));
    for other in [
        desk.done("cid", number),
        desk.fail("cid", number),
        desk.release("cid", number, None),
        desk.extend("cid/1", number, None),
        desk.ack("cid", number),
    ] {
        assert!(refused(other, Code::AlreadyClaimed).contains("held by bob"));
    }
    assert_eq!(desk.state(number), State::Claimed);
}

#[test]
fn only_a_token_that_won_this_delivery_for_this_agent_counts() {
    let mut desk = desk_with_group();
    let [number, other] = [(); 2].map(|()| desk.send("ann", "role:dev", "directive"));
    let token = accepted(desk.claim("bob", number));
    let of_other = accepted(desk.claim("bob", other));
    for (who, wrong) in [("bob", Position(1)), ("bob", of_other), ("cid", token), ("bob", Position(u64::MAX))] {
        refused(desk.done_with(who, number, Some(wrong)), Code::NotClaimed);
        refused(desk.release(who, number, Some(wrong)), Code::NotClaimed);
        refused(desk.extend(who, number, Some(wrong)), Code::NotClaimed);
        refused(desk.fail_retry(who, number, Some(wrong)), Code::NotClaimed);
    }
}

#[test]
fn what_nobody_holds_can_neither_be_released_nor_extended() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    refused(desk.release("bob", number, None), Code::NotClaimed);
    refused(desk.extend("bob", number, None), Code::NotClaimed);
}

#[test]
fn what_came_back_after_a_claim_must_be_claimed_again_before_it_is_finished() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    lose_lease(&mut desk, "bob", number);
    let why = refused(desk.done("bob", number), Code::NotClaimed);
    assert!(why.contains("is pending again"), "{why}");
    refused(desk.fail("bob", number), Code::NotClaimed);
}

#[test]
fn a_token_names_the_delivery_it_won_also_when_the_message_came_by_two_addresses() {
    let mut desk = desk_with_group();
    let number = desk.send("ann", "bob role:dev", "directive");
    let claim = || Intent::Claim(Claim { message: None, max: 1, lease_ms: None, types: Vec::new() });
    let by_name = claimed(accepted(desk.ask("bob", claim()))).token;
    let by_role = claimed(accepted(desk.ask("bob", claim()))).token;
    accepted(desk.done_with("bob", number, Some(by_role)));
    accepted(desk.done_with("bob", number, Some(by_name)));
    assert!(desk.deliveries(number).iter().all(|delivery| delivery.state == State::Done));
}

// ── Late results ─────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_result_with_a_lost_lease_is_kept_as_late_and_changes_nothing() {
    let mut desk = desk_with_group();
    let number = desk.send("ann", "role:dev", "directive");
    let lost = lose_lease(&mut desk, "bob", number);
    let held = accepted(desk.claim("cid", number));
    let before = desk.delivery(number);

    let answer = late(desk.done_with("bob", number, Some(lost)));
    assert_eq!((answer.number, &*answer.state), (number, "claimed"));
    assert_eq!(answer.holder.unwrap(), "cid");
    assert_eq!(desk.delivery(number), before);

    let track = desk.track(number);
    assert_eq!(track.late.len(), 1);
    assert_eq!((track.late[0].by.as_str(), track.late[0].summary.as_deref()), ("bob", Some("done by bob")));
    assert!(track.result.is_none());
    assert_eq!(desk.history(number).last(), Some(&Event::Late));

    accepted(desk.done_with("cid", number, Some(held)));
    let track = desk.track(number);
    assert_eq!(track.result.unwrap().by, "cid", "the holder's result counts");
    assert_eq!(track.late.len(), 1, "the late result is kept");
}

#[test]
fn a_late_result_is_told_to_the_sender_and_to_the_new_holder() {
    let mut desk = desk_with_group();
    let number = desk.send("ann", "role:dev", "directive");
    let lost = lose_lease(&mut desk, "bob", number);
    accepted(desk.claim("cid", number));
    late(desk.done_with("bob", number, Some(lost)));

    let late_to = |name: &str| (name.to_owned(), Notice::Late);
    assert_eq!(desk.told_of(number), [late_to("ann"), late_to("cid")]);
    let notice = desk.notices()[0].number;
    let text = views::message(desk.office.store(), notice).unwrap().unwrap().body;
    assert!(text.contains("done by bob"), "{text}");
}

#[test]
fn a_late_result_for_what_nobody_holds_is_told_to_the_sender_alone() {
    let mut desk = desk_with_group();
    let number = desk.send("ann", "role:dev", "directive");
    let lost = lose_lease(&mut desk, "bob", number);
    let answer = late(desk.done_with("bob", number, Some(lost)));
    assert_eq!((answer.holder, &*answer.state), (None, "pending"));
    assert_eq!(desk.told_of(number), [("ann".to_owned(), Notice::Late)]);
    accepted(desk.claim("cid", number));
}

#[test]
fn a_session_that_lost_its_lease_gets_its_result_kept_without_naming_a_token() {
    let mut desk = desk_with_group();
    let number = desk.send("ann", "role:dev", "directive");
    lose_lease(&mut desk, "bob/1", number);
    accepted(desk.claim("cid", number));
    assert_eq!(late(desk.done("bob/1", number)).holder.unwrap(), "cid");
}

#[test]
fn a_result_that_comes_after_another_one_finished_is_late_too() {
    let mut desk = desk_with_group();
    let number = desk.send("ann", "role:dev", "directive");
    let lost = lose_lease(&mut desk, "bob/1", number);
    accepted(desk.claim("cid/1", number));
    accepted(desk.done("cid/1", number));
    assert_eq!(late(desk.done_with("bob", number, Some(lost))).state, "done");
    assert_eq!(late(desk.done("bob/1", number)).state, "done");
    assert_eq!(desk.track(number).result.unwrap().by, "cid");
    assert_eq!(desk.track(number).late.len(), 2);
}

#[test]
fn a_result_that_comes_after_the_last_lease_killed_the_delivery_is_late_and_not_lost() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    desk.fail_until("bob", number, 1);
    let token = accepted(desk.claim("bob/1", number));
    desk.pass(LEASE);
    assert_eq!(desk.state(number), State::Dead);
    assert_eq!(late(desk.done_with("bob", number, Some(token))).state, "dead");
    assert_eq!(late(desk.done("bob/1", number)).state, "dead");
    assert_eq!(desk.told_of(number).last(), Some(&("ann".to_owned(), Notice::Late)));
}

#[test]
fn a_result_that_comes_after_the_delivery_came_back_and_expired_is_late_and_not_lost() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let expiring = Send { expires: after(MINUTE), ..letter("bob", "directive") };
    let number = accepted(desk.post("ann", expiring)).number;
    let token = accepted(desk.claim("bob", number));
    desk.pass(LEASE);
    assert_eq!(desk.state(number), State::Expired);
    assert_eq!(late(desk.done_with("bob", number, Some(token))).state, "expired");
}

#[test]
fn with_a_lost_lease_nothing_can_be_failed_released_or_extended() {
    let mut desk = desk_with_group();
    let number = desk.send("ann", "role:dev", "directive");
    let lost = lose_lease(&mut desk, "bob", number);
    accepted(desk.claim("cid", number));
    for answer in [
        desk.fail_retry("bob", number, Some(lost)),
        desk.release("bob", number, Some(lost)),
        desk.extend("bob", number, Some(lost)),
    ] {
        let why = refused(answer, Code::LeaseLost);
        assert!(why.contains("held by cid now"), "{why}");
    }
}

#[test]
fn an_old_holder_who_claims_again_holds_by_the_new_token_only() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    let old = lose_lease(&mut desk, "bob", number);
    let new = accepted(desk.claim("bob", number));
    late(desk.done_with("bob", number, Some(old)));
    assert_eq!(accepted(desk.done_with("bob", number, Some(new))), Effect::Noted);
    assert_eq!(desk.state(number), State::Done);
}

#[test]
fn what_a_session_released_was_given_up_and_not_lost() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    accepted(desk.claim("bob/1", number));
    accepted(desk.release("bob/1", number, None));
    accepted(desk.done("bob/1", number));
    assert_eq!(desk.state(number), State::Done);
    assert!(desk.told_of(number).is_empty(), "nothing was late");
}

#[test]
fn a_retry_by_the_sender_lets_the_same_session_finish() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    accepted(desk.claim("bob/1", number));
    accepted(desk.fail("bob/1", number));
    accepted(desk.retry("ann", number));
    accepted(desk.done("bob/1", number));
    assert_eq!(desk.state(number), State::Done);
}

#[test]
fn a_holder_that_leaves_its_role_keeps_what_it_claimed() {
    let mut desk = desk_with_group();
    let number = desk.send("ann", "role:dev", "directive");
    let token = accepted(desk.claim("bob", number));
    desk.register("bob", update(with_role("ops")));
    accepted(desk.done_with("bob", number, Some(token)));
    assert_eq!(desk.state(number), State::Done);
}

fn of_types(types: &[&str], max: u32) -> Claim {
    let types = types.iter().map(|kind| kind.parse().expect("a type")).collect();
    Claim { message: None, max, lease_ms: None, types }
}

fn taken(desk: &mut Desk, who: &str, claim: Claim) -> Answer<Vec<MessageNo>> {
    desk.ask(who, Intent::Claim(claim)).map(|effect| claimed(effect).items.iter().map(|item| item.number).collect())
}

#[test]
fn a_claim_of_types_takes_the_best_of_them_and_leaves_the_rest() {
    let mut desk = Desk::with(&["ann"]);
    desk.register("bob", with_role("coder"));
    desk.register("cy", with_role("coder"));
    let [plain, first, second] = ["message", "directive", "directive"].map(|kind| desk.send("ann", "bob", kind));
    let shared = desk.send("cy", "role:coder", "directive");
    let question = desk.send("ann", "bob", "question");
    let both = ["directive", "question"];
    refused(taken(&mut desk, "cy", of_types(&both, 9)), Code::NothingToClaim); // an agent cannot claim its own mail
    let why = refused(taken(&mut desk, "bob", of_types(&["proposal"], 1)), Code::NothingToClaim);
    assert_eq!(why, "nothing of that type to claim for bob");
    assert_eq!(accepted(taken(&mut desk, "bob", of_types(&["directive"], 1))), [first]);
    let rest = accepted(taken(&mut desk, "bob", of_types(&both, 9)));
    assert_eq!(rest.iter().collect::<std::collections::BTreeSet<_>>(), [&second, &shared, &question].into());
    assert_eq!(desk.state(plain), State::Pending);
    assert_eq!(accepted(desk.claim_best("bob", 9)), [plain]);
}

#[test]
fn a_claim_names_a_message_or_some_types() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    let with_number = Claim { message: Some(number), ..of_types(&["directive"], 1) };
    refused(taken(&mut desk, "bob", with_number), Code::Malformed);
    refused(taken(&mut desk, "bob", of_types(&["directive"; 101], 1)), Code::Malformed);
    assert_eq!(accepted(taken(&mut desk, "bob", of_types(&["directive"; 100], 1))), [number]);
}
