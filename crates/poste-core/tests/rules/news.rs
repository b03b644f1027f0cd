//! What `wait` returns: new mail that can be claimed. It claims nothing.

use poste_core::fold::Effect;
use poste_core::log::Send;
use poste_core::store::tables::State;

use crate::common::*;

#[test]
fn news_is_what_was_not_yet_shown_to_this_session() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let [first, second] = [(); 2].map(|()| desk.send("ann", "bob", "message"));
    accepted(desk.shown("bob/1", first));
    assert_eq!(desk.news("bob/1"), [second]);
    assert_eq!(desk.news("bob/2"), [first, second], "a new session was shown nothing");
}

#[test]
fn without_a_session_news_is_what_was_not_yet_shown_to_the_agent() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let [first, second, third] = [(); 3].map(|()| desk.send("ann", "bob", "message"));
    accepted(desk.shown("bob", first));
    assert_eq!(desk.news("bob"), [second, third]);
    accepted(desk.shown("bob/1", second));
    assert_eq!(desk.news("bob"), [third], "shown in a session is shown to the agent");
}

#[test]
fn what_one_member_was_shown_is_still_news_to_another() {
    let mut desk = Desk::with(&["ann"]);
    desk.register("bob", with_role("dev"));
    desk.register("cid", with_role("dev"));
    let number = desk.send("ann", "role:dev", "message");
    accepted(desk.shown("bob", number));
    assert_eq!(desk.news("bob"), []);
    assert_eq!(desk.news("cid"), [number]);
    assert_eq!(accepted(desk.shown("cid", number)), Effect::Touched(1));
}

#[test]
fn a_message_that_came_by_two_addresses_is_no_news_once_it_was_shown() {
    let mut desk = Desk::with(&["ann"]);
    desk.register("bob", with_role("dev"));
    let number = desk.send("ann", "bob role:dev", "message");
    assert_eq!(desk.news("bob/1"), [number]);
    accepted(desk.shown("bob/1", number));
    assert_eq!(desk.news("bob/1"), [], "or wait would return it for ever");
}

#[test]
fn what_is_claimed_or_ended_is_no_news() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let [claimed, done, waits] = [(); 3].map(|()| desk.send("ann", "bob", "directive"));
    accepted(desk.claim("bob", claimed));
    accepted(desk.done("bob", done));
    assert_eq!(desk.news("bob"), [waits]);
}

#[test]
fn waiting_claims_nothing_and_prints_the_next_cursor() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    let before = desk.tables();
    let mail = desk.mail("bob", None);
    assert_eq!(mail.cursor, Some(desk.head()));
    assert_eq!((desk.tables(), desk.state(number)), (before, State::Pending));
}

#[test]
fn after_a_cursor_comes_what_was_stored_later_shown_or_not() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.send("ann", "bob", "message");
    let cursor = desk.cursor("bob", None);
    assert_eq!(desk.news_after("bob", cursor), []);
    let [shown, unseen] = [(); 2].map(|()| desk.send("ann", "bob", "message"));
    accepted(desk.shown("bob", shown));
    assert_eq!(desk.news_after("bob", cursor), [shown, unseen]);
    let next = desk.cursor("bob", Some(cursor));
    assert_eq!(desk.news_after("bob", next), []);
}

#[test]
fn after_a_cursor_comes_also_what_became_ready_later() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let waiting = accepted(desk.post("ann", Send { not_before: after(HOUR), ..letter("bob", "directive") })).number;
    let [failing, released, leased, retried] = [(); 4].map(|()| desk.send("ann", "bob", "directive"));
    for number in [failing, released, leased] {
        accepted(desk.claim("bob", number));
    }
    accepted(desk.fail("bob", retried));
    let cursor = desk.cursor("bob", None);
    assert_eq!(desk.news_after("bob", cursor), []);

    accepted(desk.fail_retry("bob", failing, None));
    assert_eq!(desk.news_after("bob", cursor), [], "not before its delay has passed");
    accepted(desk.release("bob", released, None));
    accepted(desk.retry("ann", retried));
    assert_eq!(desk.news_after("bob", cursor), [released, retried]);
    desk.pass(HOUR);
    desk.pass(HOUR);
    let mut all = desk.news_after("bob", cursor);
    assert_eq!(all[..2], [released, retried], "in the order they became available");
    all.sort_unstable();
    assert_eq!(all, [waiting, failing, released, leased, retried]);
}

#[test]
fn after_a_cursor_comes_also_what_a_later_subscription_brought() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let from = desk.head();
    let published = desk.send("ann", "topic:News", "message");
    let cursor = desk.cursor("bob", None);
    accepted(desk.subscribe("bob", "News", Some(from)));
    assert_eq!(desk.news("bob"), [published]);
    assert_eq!(desk.news_after("bob", cursor), [published], "it became available after the cursor");
}

#[test]
fn news_comes_by_priority_and_then_by_age() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let [low, first, second] = ["progress_update", "message", "message"].map(|kind| desk.send("ann", "bob", kind));
    let alert = desk.send("ann", "bob", "alert");
    assert_eq!(desk.news("bob"), [alert, first, second, low]);
}

#[test]
fn a_cursor_never_jumps_over_what_a_limit_left_out() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let start = desk.head();
    // The priorities differ, so the order by priority is not the order of the log.
    let kinds = ["progress_update", "alert", "message", "directive", "progress_update", "alert"];
    let all = kinds.map(|kind| desk.send("ann", "bob", kind));
    let mut cursor = start;
    let mut seen = Vec::new();
    while seen.len() < all.len() {
        let page = desk.page("bob", Some(cursor), 2);
        assert!(!page.messages.is_empty(), "stuck at {cursor} after {seen:?}");
        seen.extend(page.messages.iter().map(|message| message.number));
        cursor = page.cursor.expect("a cursor");
    }
    assert_eq!(seen, all);
    assert_eq!(desk.page("bob", None, 2).cursor, None, "no cursor when the limit leaves out new mail");
}

#[test]
fn a_cursor_never_jumps_over_mail_of_one_priority_that_a_limit_left_out() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let start = desk.head();
    let all = [(); 5].map(|()| desk.send("ann", "bob", "message"));
    let page = desk.page("bob", Some(start), 1);
    assert_eq!(page.messages.iter().map(|message| message.number).collect::<Vec<_>>(), all[..1]);
    assert_eq!(desk.news_after("bob", page.cursor.expect("a cursor")), all[1..]);
}

#[test]
fn what_comes_back_is_told_in_its_turn_however_few_are_asked_for() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let early = [(); 4].map(|()| desk.send("ann", "bob", "directive"));
    for number in early {
        accepted(desk.claim("bob/1", number));
    }
    let start = desk.head();
    accepted(desk.release("bob/1", early[2], None));
    let between = desk.send("ann", "bob", "directive");
    accepted(desk.release("bob/1", early[0], None));
    // Released twice: the second time counts.
    accepted(desk.claim("bob/1", early[2]));
    accepted(desk.release("bob/1", early[2], None));
    let mut cursor = start;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let page = desk.page("bob", Some(cursor), 1);
        seen.extend(page.messages.iter().map(|message| message.number));
        cursor = page.cursor.expect("a cursor");
    }
    assert_eq!(seen, [between, early[0], early[2]]);
    assert_eq!(desk.news_after("bob", cursor), []);
}

#[test]
fn after_a_look_that_found_nothing_only_what_became_available_since_is_new() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let [shown, claimed, other] = [(); 3].map(|()| desk.send("ann", "bob", "directive"));
    accepted(desk.shown("bob", shown));
    accepted(desk.claim("bob", claimed));
    accepted(desk.shown("bob", other));
    let looked = desk.cursor("bob", None);
    assert_eq!(desk.news_since("bob", looked), []);
    accepted(desk.release("bob", claimed, None));
    let [low, urgent] = ["progress_update", "alert"].map(|kind| desk.send("ann", "bob", kind));
    assert_eq!(desk.news_since("bob", looked), [urgent, claimed, low], "by priority, as ever");
    assert_eq!(desk.news_since("bob", looked), desk.news("bob"));
    accepted(desk.shown("bob", urgent));
    assert_eq!(desk.news_since("bob", looked), [claimed, low]);
}
