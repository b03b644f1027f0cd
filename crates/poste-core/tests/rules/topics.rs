//! Topics: the subscribers at a publication's log position get it.

use poste_core::fold::{Code, Effect};
use poste_core::store::tables::State;
use poste_core::{MessageNo, Position, views};

use crate::common::*;

fn publish(desk: &mut Desk, topic: &str) -> (MessageNo, Vec<String>) {
    let sent = accepted(desk.post("ann", letter(&format!("topic:{topic}"), "message")));
    (sent.number, sent.deliveries.iter().map(ToString::to_string).collect())
}

#[test]
fn publishing_delivers_to_the_subscribers_of_the_topic_and_of_all() {
    let mut desk = Desk::with(&["ann", "bob", "cid", "dan"]);
    accepted(desk.subscribe("bob", "News", None));
    accepted(desk.subscribe("cid", "*", None));
    accepted(desk.subscribe("cid", "News", None));
    accepted(desk.subscribe("dan", "Other", None));
    assert_eq!(publish(&mut desk, "News").1, ["bob", "cid"], "each once");
    assert_eq!(publish(&mut desk, "Third").1, ["cid"]);
}

#[test]
fn a_publisher_does_not_get_its_own_publication() {
    let mut desk = Desk::with(&["ann", "bob"]);
    accepted(desk.subscribe("ann", "*", None));
    assert!(publish(&mut desk, "News").1.is_empty());
}

#[test]
fn who_subscribes_later_gets_only_what_comes_later() {
    let mut desk = Desk::with(&["ann", "bob"]);
    publish(&mut desk, "News");
    accepted(desk.subscribe("bob", "News", None));
    assert_eq!(desk.news("bob"), []);
    let (number, _) = publish(&mut desk, "News");
    assert_eq!(desk.news("bob"), [number]);
}

#[test]
fn subscribing_from_a_position_brings_what_was_published_after_it() {
    let mut desk = Desk::with(&["ann", "bob"]);
    publish(&mut desk, "News");
    let from = desk.head();
    let (second, _) = publish(&mut desk, "News");
    publish(&mut desk, "Other");
    let (third, _) = publish(&mut desk, "News");
    assert_eq!(accepted(desk.subscribe("bob", "News", Some(from))), Effect::Touched(2));
    assert_eq!(desk.news("bob"), [second, third]);
    refused(desk.subscribe("bob", "News", Some(from)), Code::NothingToDo);
    assert_eq!(accepted(desk.subscribe("bob", "News", Some(Position(0)))), Effect::Touched(1), "nothing comes twice");
}

#[test]
fn who_unsubscribes_keeps_what_it_has_and_gets_nothing_more() {
    let mut desk = Desk::with(&["ann", "bob"]);
    accepted(desk.subscribe("bob", "News", None));
    refused(desk.subscribe("bob", "News", None), Code::NothingToDo);
    let (number, _) = publish(&mut desk, "News");
    accepted(desk.unsubscribe("bob", "News"));
    refused(desk.unsubscribe("bob", "News"), Code::NothingToDo);
    assert!(publish(&mut desk, "News").1.is_empty());
    assert_eq!(desk.state(number), State::Pending);
    accepted(desk.ack("bob", number));
}

#[test]
fn a_message_is_published_to_one_topic() {
    let mut desk = Desk::with(&["ann", "bob"]);
    refused(desk.post("ann", letter("topic:News topic:Other", "message")), Code::Malformed);
    let sent = accepted(desk.post("ann", letter("topic:News bob", "message")));
    assert_eq!(desk.states(sent.number), [("bob".to_owned(), State::Pending)], "it may also name agents");
}

#[test]
fn topics_know_what_was_published_and_who_listens() {
    let mut desk = Desk::with(&["ann", "bob"]);
    accepted(desk.subscribe("bob", "News", None));
    publish(&mut desk, "News");
    let (last, _) = publish(&mut desk, "News");
    let topics = views::topics(desk.office.store()).unwrap();
    assert_eq!(topics.len(), 1);
    assert_eq!((topics[0].published, topics[0].last_message), (2, Some(last)));
    assert_eq!(topics[0].subscribers, [speaker("bob").0]);
}
