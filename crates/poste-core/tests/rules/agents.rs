//! Registering, changing, retiring and reviving.

use poste_core::fold::{Code, Effect};
use poste_core::log::{Intent, Register, Send};
use poste_core::store::tables::{EndReason, Event, Notice, State};
use poste_core::views;
use poste_core::vocabulary::{AgentKind, TrustLabel};

use crate::common::*;

#[test]
fn only_registered_agents_speak() {
    let mut desk = Desk::with(&["ann"]);
    refused(desk.post("bob", letter("ann", "message")), Code::UnknownAgent);
    refused(desk.claim_best("bob", 1), Code::UnknownAgent);
    refused(desk.retire("bob", "ann"), Code::UnknownAgent);
    refused(desk.retire("ann", "bob"), Code::UnknownAgent);
    refused(desk.subscribe("bob", "News", None), Code::UnknownAgent);
    refused(desk.ask("poste", Intent::Register(agent())), Code::NotAllowed);
    refused(desk.post("poste", letter("ann", "message")), Code::UnknownAgent);
}

#[test]
fn a_name_that_is_taken_needs_update_to_change() {
    let mut desk = Desk::with(&["ann"]);
    let why = refused(desk.ask("ann", Intent::Register(with_role("dev"))), Code::NameTaken);
    assert!(why.contains("ann is registered"), "{why}");
    let registered_at = desk.now();
    desk.pass(HOUR);
    desk.register("ann", update(Register { role: Some("dev".parse().unwrap()), ..able("rust") }));
    let ann = desk.office.agent(&speaker("ann").0).unwrap().unwrap();
    assert_eq!((ann.role.unwrap(), ann.capabilities.len()), ("dev".parse().unwrap(), 1));
    assert_eq!(ann.registered_at, registered_at);
    desk.register("ann", update(agent()));
    let ann = desk.office.agent(&speaker("ann").0).unwrap().unwrap();
    assert_eq!((ann.role.unwrap(), ann.capabilities.len()), ("dev".parse().unwrap(), 1), "omitted fields are kept");
}

#[test]
fn what_is_no_agent_is_refused() {
    let mut desk = Desk::new();
    let many = Register { capabilities: Some((0..65).map(|n| format!("c{n}").parse().unwrap()).collect()), ..agent() };
    refused(desk.ask("ann", Intent::Register(many)), Code::TooLarge);
    let elsewhere = Register { worktree: Some("not/absolute".to_owned()), ..agent() };
    refused(desk.ask("ann", Intent::Register(elsewhere)), Code::Malformed);
    assert_eq!(desk.office.agent(&speaker("ann").0).unwrap(), None);
}

#[test]
fn trust_labels_come_from_the_register_and_stay_as_they_were_when_it_was_sent() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.register("eve", human());
    let from_human = desk.send("eve", "bob", "message");
    let from_agent = desk.send("ann", "bob", "message");
    desk.register("eve", update(Register { kind: Some(AgentKind::Agent), ..agent() }));
    assert_eq!(desk.message(from_human).label, TrustLabel::Human);
    assert_eq!(desk.message(from_agent).label, TrustLabel::Agent);
}

#[test]
fn retiring_returns_pending_mail_to_its_senders() {
    let mut desk = Desk::with(&["ann", "bob", "cid"]);
    let from_ann = desk.send("ann", "bob cid", "directive");
    let waiting = Send { not_before: after(DAY), expires: after(2 * DAY), ..letter("bob", "message") };
    let from_cid = accepted(desk.post("cid", waiting)).number;
    let finished = desk.send("ann", "bob", "directive");
    accepted(desk.done("bob", finished));
    assert_eq!(accepted(desk.retire("bob", "bob")), Effect::Touched(2));

    let returned = &desk.deliveries(from_ann)[0];
    assert_eq!((returned.state, returned.reason), (State::Returned, Some(EndReason::RecipientRetired)));
    assert_eq!(desk.deliveries(from_ann)[1].state, State::Pending, "cid's is cid's");
    assert_eq!(desk.state(from_cid), State::Returned);
    assert_eq!(desk.state(finished), State::Done);
    assert_eq!(desk.told_of(from_ann), [("ann".to_owned(), Notice::Returned)]);
    assert_eq!(desk.told_of(from_cid), [("cid".to_owned(), Notice::Returned)]);
    desk.pass(3 * DAY);
    assert_eq!(desk.state(from_cid), State::Returned, "nothing is due any more");
}

#[test]
fn retiring_releases_claims_and_returns_what_was_for_it_alone() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    accepted(desk.claim("bob", number));
    accepted(desk.retire("ann", "bob"));
    assert_eq!(desk.history(number), [Event::Claimed, Event::Released, Event::Returned]);
    assert_eq!(desk.state(number), State::Returned);
    assert_eq!(desk.delivery(number).attempts, 0);
    assert_eq!(desk.told_of(number).len(), 1);
    desk.pass(HOUR);
    assert_eq!(desk.state(number), State::Returned, "the lease ended with the claim");
}

#[test]
fn group_mail_a_retired_agent_held_is_pending_for_the_others() {
    let mut desk = Desk::with(&["ann"]);
    desk.register("bob", with_role("dev"));
    desk.register("cid", with_role("dev"));
    let [held, waiting] = [(); 2].map(|()| desk.send("ann", "role:dev", "directive"));
    accepted(desk.claim("bob", held));
    accepted(desk.retire("ann", "bob"));
    let delivery = desk.delivery(held);
    assert_eq!((delivery.state, delivery.ready, delivery.holder, delivery.attempts), (State::Pending, true, None, 0));
    assert_eq!(desk.news("cid"), [held, waiting]);
    assert!(desk.notices().is_empty(), "no delivery ended");
    accepted(desk.claim("cid", held));
}

#[test]
fn retiring_ends_subscriptions() {
    let mut desk = Desk::with(&["ann", "bob"]);
    accepted(desk.subscribe("bob", "News", None));
    accepted(desk.subscribe("bob", "*", None));
    accepted(desk.retire("ann", "bob"));
    assert!(accepted(desk.post("ann", letter("topic:News", "message"))).deliveries.is_empty());
    desk.register("bob", update(agent()));
    assert!(accepted(desk.post("ann", letter("topic:News", "message"))).deliveries.is_empty(), "also after a revival");
}

#[test]
fn a_retired_agent_neither_speaks_nor_gets_mail() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    accepted(desk.retire("bob", "bob"));
    refused(desk.post("ann", letter("bob", "message")), Code::Retired);
    refused(desk.post("bob", letter("ann", "message")), Code::Retired);
    refused(desk.claim("bob", number), Code::Retired);
    refused(desk.shown("bob", number), Code::Retired);
    refused(desk.retire("ann", "bob"), Code::Retired);
    assert!(accepted(desk.post("ann", letter("everyone", "broadcast"))).deliveries.is_empty());
}

#[test]
fn the_name_of_a_retired_agent_stays_taken_until_it_is_revived() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    accepted(desk.retire("ann", "bob"));
    let why = refused(desk.ask("bob", Intent::Register(agent())), Code::NameTaken);
    assert!(why.contains("stays taken"), "{why}");
    assert!(!views::agent(desk.office.store(), &speaker("bob").0).unwrap().unwrap().active);

    desk.register("bob", update(agent()));
    assert!(views::agent(desk.office.store(), &speaker("bob").0).unwrap().unwrap().active);
    assert_eq!(desk.state(number), State::Returned, "what came back stays back until its sender retries it");
    accepted(desk.retry("ann", number));
    accepted(desk.claim("bob", number));
}

#[test]
fn mail_an_agent_sent_to_itself_comes_back_to_nobody() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("bob", "bob", "message");
    accepted(desk.retire("ann", "bob"));
    assert_eq!(desk.state(number), State::Returned);
    assert!(desk.notices().is_empty());
}

#[test]
fn the_lost_claim_of_a_retired_and_revived_agent_is_late() {
    let mut desk = Desk::with(&["ann"]);
    desk.register("bob", with_role("dev"));
    desk.register("cid", with_role("dev"));
    let number = desk.send("ann", "role:dev", "directive");
    let token = accepted(desk.claim("bob", number));
    accepted(desk.retire("ann", "bob"));
    accepted(desk.claim("cid", number));
    desk.register("bob", update(with_role("dev")));
    assert_eq!(late(desk.done_with("bob", number, Some(token))).holder.unwrap(), "cid");
}

#[test]
fn services_and_the_outside_speak_and_get_no_mail_that_is_for_everyone() {
    let mut desk = Desk::with(&["lead", "coder"]);
    let of_kind = |kind| Register { kind: Some(kind), ..agent() };
    desk.register("dispatcher", of_kind(AgentKind::Service));
    desk.register("monitor", of_kind(AgentKind::Outside));
    let number = desk.send("lead", "everyone", "broadcast");
    let told: Vec<String> = desk.deliveries(number).iter().map(|delivery| delivery.address.to_string()).collect();
    assert_eq!(told, ["coder"]);
    let label = |desk: &Desk, number| desk.message(number).label;
    let from_outside = desk.send("monitor", "coder", "alert");
    let from_service = desk.send("dispatcher", "coder", "alert");
    assert_eq!(label(&desk, from_outside), TrustLabel::Outside);
    assert_eq!(label(&desk, from_service), TrustLabel::Agent);
    // Mail addressed to it by name still arrives.
    let named = desk.send("lead", "dispatcher", "message");
    assert_eq!(desk.deliveries(named).len(), 1);
}
