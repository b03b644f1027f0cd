//! Redaction: which agents may redact content, and what is kept.

use poste_core::fold::Code;
use poste_core::log::{Intent, Redact};
use poste_core::store::tables::State;
use poste_core::{MessageNo, Position, views};

use crate::common::*;

fn desk() -> Desk {
    let mut desk = Desk::with(&["lead", "bob", "cy"]);
    desk.register("ann", human());
    desk
}

/// Erases the files, so that `verify` at the end of a test finds no problem.
fn erase(desk: &mut Desk) {
    desk.office.erase().expect("it is erased");
}

#[test]
fn the_author_or_a_human_may_redact_and_nobody_else() {
    for who in ["lead", "ann"] {
        let mut desk = desk();
        let number = desk.send("lead", "bob", "directive");
        desk.redact_message(who, number);
        erase(&mut desk);
    }
    let mut desk = desk();
    let number = desk.send("lead", "bob", "directive");
    let position = desk.position(number);
    for who in ["bob", "cy"] {
        says(&refused(desk.redact(who, &[position]), Code::NotAllowed), "only lead, who wrote record");
    }
    refused(desk.redact("ghost", &[position]), Code::UnknownAgent);
    accepted(desk.retire("ann", "lead"));
    refused(desk.redact("lead", &[position]), Code::Retired);
}

#[test]
fn one_record_of_another_spoils_the_whole_redaction() {
    let mut desk = desk();
    let mine = desk.send("lead", "bob", "directive");
    let other = desk.send("bob", "cy", "directive");
    let positions = [desk.position(mine), desk.position(other)];
    refused(desk.redact("lead", &positions), Code::NotAllowed);
    assert_eq!(accepted(desk.redact("ann", &positions)), 2);
    erase(&mut desk);
}

#[test]
fn records_that_are_not_there_or_too_many_or_none_are_refused() {
    let mut desk = desk();
    let number = desk.send("lead", "bob", "directive");
    let position = desk.position(number);
    refused(desk.redact("ann", &[]), Code::Malformed);
    refused(desk.redact("ann", &vec![position; 1_001]), Code::Malformed);
    for unknown in [0, desk.head().0 + 1, i64::MAX as u64, u64::MAX] {
        refused(desk.redact("ann", &[position, Position(unknown)]), Code::UnknownRecord);
    }
}

#[test]
fn what_has_no_words_or_has_none_any_more_is_nothing_to_redact() {
    let mut desk = desk();
    let number = desk.send("lead", "bob", "directive");
    accepted(desk.claim("bob", number));
    let claim = desk.head();
    refused(desk.redact("ann", &[Position(1), claim]), Code::NothingToDo);
    let position = desk.position(number);
    assert_eq!(accepted(desk.redact("lead", &[position, position, claim_of_lead(&desk)])), 1);
    refused(desk.redact("ann", &[position]), Code::NothingToDo);
    erase(&mut desk);
    refused(desk.redact("ann", &[position]), Code::NothingToDo);
}

/// A record of lead without content: its registration.
fn claim_of_lead(desk: &Desk) -> Position {
    let record = desk.records_after(Position(0)).into_iter().find(|record| record.actor == "lead");
    record.expect("lead registered").position
}

#[test]
fn a_redacted_message_is_still_delivered_and_says_by_whom_and_why() {
    let mut desk = desk();
    let number = desk.send("lead", "bob", "directive");
    desk.redact_message("ann", number);
    erase(&mut desk);
    let view = views::message(desk.office.store(), number).expect("it reads").expect("it is there");
    assert!(view.content_gone && view.body.is_empty());
    let redaction = view.redacted.expect("it was redacted");
    assert_eq!((redaction.by.as_str(), redaction.reason.as_str()), ("ann", "it should not have been said"));
    assert_eq!(redaction.position, desk.head());
    assert_eq!(view.subject, "(redacted)");
    accepted(desk.claim("bob", number));
    accepted(desk.done("bob", number));
    assert_eq!(desk.state(number), State::Done);
}

#[test]
fn a_redacted_reason_of_a_redaction_leaves_who_did_it() {
    let mut desk = desk();
    let number = desk.send("lead", "bob", "directive");
    desk.redact_message("ann", number);
    let redaction = desk.head();
    accepted(desk.redact("ann", &[redaction]));
    erase(&mut desk);
    let view = views::message(desk.office.store(), number).expect("it reads").expect("it is there");
    let told = view.redacted.expect("it was redacted");
    assert_eq!((told.by.as_str(), told.reason.as_str()), ("ann", ""));
}

#[test]
fn a_redacted_result_is_gone_from_every_view_and_the_delivery_stays_done() {
    let mut desk = desk();
    let number = desk.send("lead", "bob", "directive");
    let done = desk.done_saying("bob", number, "the secret result");
    accepted(desk.redact("bob", &[done]));
    erase(&mut desk);
    let track = desk.track(number);
    let result = track.result.expect("there was one");
    assert!(result.content_gone && result.text.is_empty());
    assert_eq!(track.state, State::Done);
    let all = desk.all_views([number]).to_string();
    assert!(!all.contains("secret"), "{all}");
    assert!(all.contains("please"), "the question is kept");
}

#[test]
fn a_notice_does_not_repeat_what_was_redacted() {
    let mut desk = desk();
    let number = desk.send("lead", "bob", "directive");
    accepted(desk.fail("bob", number)); // "it broke"
    let fail = desk.head();
    let notice = desk.notices()[0].number;
    let body = |desk: &Desk| views::message(desk.office.store(), notice).expect("it reads").expect("there").body;
    says(&body(&desk), "it broke");
    accepted(desk.redact("bob", &[fail]));
    erase(&mut desk);
    assert!(!body(&desk).contains("it broke"));
}

#[test]
fn redaction_keeps_the_chain_and_the_digest_of_everything_else() {
    let mut desk = desk();
    let number = desk.send("lead", "bob", "directive");
    let before = desk.records_after(Position(0));
    desk.redact_message("lead", number);
    let tables = desk.tables();
    erase(&mut desk);
    assert_eq!(desk.tables(), tables, "erasing changes no table the digest covers");
    let after = desk.records_after(Position(0));
    let same = |one: &views::RecordView, other: &views::RecordView| {
        one.header.get() == other.header.get() && one.content_digest == other.content_digest && one.id == other.id
    };
    assert!(before.iter().zip(&after).all(|(one, other)| same(one, other)));
    assert_eq!(after.len(), before.len() + 1);
    desk.verify();
}

#[test]
fn a_repeated_redaction_and_a_repeat_of_what_was_redacted_change_nothing() {
    let mut desk = desk();
    let send = desk.proposal("lead", Intent::Send(letter("bob", "directive")), Some(text("a marker-in-a-repeat")));
    desk.outcome(&send);
    let redact = Intent::Redact(Redact { records: vec![desk.head()] });
    let redact = desk.proposal("lead", redact, Some(text("why")));
    desk.outcome(&redact);
    erase(&mut desk);
    let tables = desk.tables();
    assert!(desk.outcome(&redact).repeat);
    let again = desk.outcome(&send);
    assert!(again.repeat && again.verdict.accepted().is_ok());
    assert_eq!(desk.tables(), tables);
    desk.assert_nowhere("marker-in-a-repeat");
    assert!(views::message(desk.office.store(), MessageNo(1)).expect("reads").expect("there").content_gone);
}
