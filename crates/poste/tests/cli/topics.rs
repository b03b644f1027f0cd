//! Topics: publishing, subscribing, earlier messages.

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn what_is_published_reaches_the_subscribers_and_nobody_else() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste topics
        poste subscribe TaskCompleted --as lead
        poste subscribe '*' --as anna
        poste publish TaskCompleted 'JWT service done' 'All 24 tests pass.' --payload '{\"passed\":24}' --as coder
        poste publish Builds 'Build 4 is green' --type progress_update --as coder
        poste publish TaskCompleted 'By a subscriber' --as lead
        poste topics
        poste topics --json
        poste inbox --as lead
        poste inbox --as anna
        poste read 1 --as lead
        # twice is said, once more is not stored
        poste subscribe TaskCompleted --as lead
        poste unsubscribe TaskCompleted --as lead
        poste unsubscribe TaskCompleted --as lead
        poste publish TaskCompleted 'Nobody but anna' --as coder
        poste track 4
        poste send topic:TaskCompleted,coder 'To a topic and an agent' --as lead
        poste send topic:One --to topic:Two 'To two topics' --as lead
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_late_subscriber_asks_for_what_was_before() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste publish Builds 'Build 1' --as coder
        poste publish Builds 'Build 2' --as coder
        poste publish Releases 'Release 1' --as coder
        poste subscribe Builds --from 0 --as lead
        poste inbox --as lead
        # from a position on: record 8 was release 1
        poste subscribe '*' --from 7 --as anna
        poste inbox --as anna
        # nobody gets the same twice
        poste subscribe '*' --from 0 --as lead
        poste inbox --as lead
        poste track 1
        poste subscribe Builds --from x --as lead
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_broadcast_reaches_who_is_there_and_not_who_comes_later() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste broadcast 'JWT uses RS256' 'See docs/jwt.md' --type decision_announcement --as lead
        poste register late
        poste inbox --as late
        poste inbox --as lead
        poste ack 1 --as coder
        poste track 1
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn the_past_is_told_as_it_was_before_somebody_subscribed() {
    let mut desk = Desk::staffed();
    desk.quietly("poste publish Builds 'Build 1' --as coder");
    desk.quietly("poste subscribe Builds --from 0 --as lead");
    let why = desk.peek("poste log why 1 --json").json();
    assert_eq!(why["lines"][0]["what"], "stored, delivered to 0: nobody");
    assert_eq!(why["lines"][1]["what"], "delivered to lead, which subscribed later");
}

#[test]
fn changes_of_agents_and_subscriptions_take_an_id_and_happen_once_under_it() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste register extra --role helper --id add-extra
        poste log why --id add-extra
        poste subscribe Builds --id sub-1 --as extra
        poste subscribe Builds --id sub-1 --as extra
        poste unsubscribe Builds --id unsub-1 --as extra
        poste unsubscribe Builds --id unsub-1 --as extra
        poste subscribe Builds --id sub-1 --as lead
        poste retire extra --id drop-extra --as lead
        poste retire extra --id drop-extra --as lead
        poste log why --id drop-extra
        ",
    );
    assert_transcript!(desk);
}
