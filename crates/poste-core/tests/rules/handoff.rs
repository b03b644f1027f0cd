//! Handoffs: accepting one requires its checks, and nothing else makes it look accepted.

use poste_core::fold::{Code, Effect, Sent, Verdict};
use poste_core::log::{
    Artifact, ArtifactState, Ends, EndsHow, HandoffAccept, HandoffCreate, HandoffReject, HandoffWithdraw, Intent,
    PolicyType, Send, Verified,
};
use poste_core::store::tables::{EndReason, Handoff, HandoffState, Notice, State};
use poste_core::vocabulary::{Priority, Urgency};
use poste_core::{MessageNo, limits};

use crate::common::*;

/// A handoff with some checks and commands, without files.
fn offer(to: &str, checks: u32, verifies: u32) -> HandoffCreate {
    let mail = Send { wants_response: Some(true), respond_by: after(DAY), ..letter(to, "handoff_request") };
    HandoffCreate { mail, worktree: None, checks, verifies }
}

fn answer(message: MessageNo, kind: &str) -> Send {
    Send { kind: kind.parse().expect("a type"), ..answer_and_finish(message) }
}

/// An acceptance with these checks made and these command results.
fn acceptance(message: MessageNo, checked: &[u32], verified: &[bool]) -> HandoffAccept {
    let result = |ok: &bool| Verified { ok: *ok, exit_code: Some(i32::from(!ok)), duration_ms: 5 };
    HandoffAccept {
        mail: answer(message, "handoff_accepted"),
        checked: checked.to_vec(),
        verified: verified.iter().map(result).collect(),
        gates: Vec::new(),
        overridden: false,
    }
}

fn sent(effect: Effect) -> Sent {
    match effect {
        Effect::Sent(sent) => sent,
        other => panic!("expected a message, got {other:?}"),
    }
}

impl Desk {
    fn create(&mut self, from: &str, create: HandoffCreate) -> Answer<MessageNo> {
        self.say(from, Intent::HandoffCreate(create), Some(text("take it"))).map(|effect| sent(effect).number)
    }

    fn offered(&mut self, from: &str, to: &str, checks: u32, verifies: u32) -> MessageNo {
        accepted(self.create(from, offer(to, checks, verifies)))
    }

    fn accept(&mut self, who: &str, accept: HandoffAccept) -> Answer<Sent> {
        self.say(who, Intent::HandoffAccept(accept), Some(text("I have it"))).map(sent)
    }

    fn reject(&mut self, who: &str, message: MessageNo) -> Answer<Sent> {
        let reject = HandoffReject { mail: answer(message, "handoff_rejected") };
        self.say(who, Intent::HandoffReject(reject), Some(text("not mine"))).map(sent)
    }

    fn withdraw(&mut self, who: &str, message: MessageNo) -> Answer {
        self.say(who, Intent::HandoffWithdraw(HandoffWithdraw { message }), Some(text("changed my mind")))
    }

    fn handoff(&self, number: MessageNo) -> Handoff {
        let tables = self.office.store().tables().expect("the tables load");
        tables.handoff(number).expect("handoffs can be read").expect("it is a handoff")
    }

    fn stored(&self, path: &str, bytes: &[u8]) -> Artifact {
        let stored = self.office.store().blobs().expect("blobs").put(bytes).expect("the blob is stored");
        Artifact {
            path: path.to_owned(),
            worktree: None,
            state: ArtifactState::Attached,
            size: Some(stored.size),
            digest: Some(stored.digest),
        }
    }
}

fn crew() -> Desk {
    let mut desk = Desk::with(&["ann", "bob", "cy"]);
    desk.register("boss", human());
    desk
}

#[test]
fn an_accepted_handoff_ends_its_request_and_answers_the_sender() {
    let mut desk = crew();
    let number = desk.offered("ann", "bob", 2, 1);
    assert_eq!(desk.handoff(number).state, HandoffState::Pending);
    let told = accepted(desk.accept("bob", acceptance(number, &[2, 1], &[true])));
    let handoff = desk.handoff(number);
    assert_eq!((handoff.state, handoff.overridden), (HandoffState::Accepted, false));
    assert_eq!((handoff.decided_by.unwrap().as_str(), handoff.answer), ("bob", Some(told.number)));
    let delivery = desk.delivery(number);
    assert_eq!((delivery.state, delivery.reason), (State::Done, Some(EndReason::Replied)));
    assert_eq!(delivery.answer, Some(told.number));
    let mail = desk.message(told.number);
    assert_eq!((mail.kind.as_str(), mail.reply_to), ("handoff_accepted", Some(number)));
    assert_eq!(desk.states(told.number), [("ann".to_owned(), State::Pending)]);
}

#[test]
fn only_the_receiver_accepts_and_only_once() {
    let mut desk = crew();
    let number = desk.offered("ann", "bob", 0, 0);
    for stranger in ["cy", "ann", "boss"] {
        refused(desk.accept(stranger, acceptance(number, &[], &[])), Code::NotRecipient);
        refused(desk.reject(stranger, number), Code::NotRecipient);
    }
    accepted(desk.accept("bob", acceptance(number, &[], &[])));
    let why = refused(desk.accept("bob", acceptance(number, &[], &[])), Code::Ended);
    assert_eq!(why, format!("handoff {number} is already accepted by bob"));
    refused(desk.reject("bob", number), Code::Ended);
    refused(desk.withdraw("ann", number), Code::Ended);
}

#[test]
fn the_same_acceptance_again_is_told_the_same() {
    let mut desk = crew();
    let number = desk.offered("ann", "bob", 1, 0);
    let accept = Intent::HandoffAccept(acceptance(number, &[1], &[]));
    let proposal = desk.proposal("bob", accept, Some(text("I have it")));
    let first = desk.outcome(&proposal);
    let again = desk.outcome(&proposal);
    assert!(again.repeat && !first.repeat);
    assert_eq!(again.verdict, first.verdict);
    let withdraw = Intent::HandoffWithdraw(HandoffWithdraw { message: desk.offered("ann", "bob", 0, 0) });
    let proposal = desk.proposal("ann", withdraw, Some(text("no")));
    assert!(matches!(desk.outcome(&proposal).verdict, Verdict::Accepted(_)));
    assert!(matches!(desk.outcome(&proposal).verdict, Verdict::Accepted(_)));
}

#[test]
fn every_check_must_be_made_and_every_command_succeed() {
    let mut desk = crew();
    let number = desk.offered("ann", "bob", 2, 2);
    let cases: [(&[u32], &[bool], &str); 4] = [
        (&[1], &[true, true], "are not done: 2"),
        (&[], &[true, true], "are not done: 1, 2"),
        (&[1, 2], &[true, false], "command 2 of handoff"),
        (&[1, 2], &[true], "not every command"),
    ];
    for (checked, verified, words) in cases {
        let why = refused(desk.accept("bob", acceptance(number, checked, verified)), Code::Unverified);
        assert!(why.contains(words), "{why}");
        let overridden = HandoffAccept { overridden: true, ..acceptance(number, checked, verified) };
        refused(desk.ask("bob", Intent::HandoffAccept(overridden)), Code::Malformed); // without a reason
    }
    for marks in [&[3][..], &[0], &[1, 1]] {
        let accept = HandoffAccept { overridden: true, ..acceptance(number, marks, &[]) };
        refused(desk.accept("bob", accept), Code::Malformed);
    }
    let too_many = HandoffAccept { overridden: true, ..acceptance(number, &[], &[true, true, true]) };
    refused(desk.accept("bob", too_many), Code::Malformed);
    assert_eq!(desk.handoff(number).state, HandoffState::Pending);
    let overridden = HandoffAccept { overridden: true, ..acceptance(number, &[1], &[false]) };
    accepted(desk.accept("bob", overridden));
    assert!(desk.handoff(number).overridden);
}

#[test]
fn a_gate_that_fails_needs_an_override_too() {
    let mut desk = crew();
    let number = desk.offered("ann", "bob", 0, 0);
    let closed = vec![Verified { ok: false, exit_code: None, duration_ms: 1 }];
    let accept = HandoffAccept { gates: closed, ..acceptance(number, &[], &[]) };
    refused(desk.accept("bob", accept.clone()), Code::Unverified);
    accepted(desk.accept("bob", HandoffAccept { overridden: true, ..accept }));
}

#[test]
fn a_rejection_says_why_and_tells_the_sender() {
    let mut desk = crew();
    let number = desk.offered("ann", "bob", 1, 1);
    let silent = HandoffReject { mail: answer(number, "handoff_rejected") };
    refused(desk.ask("bob", Intent::HandoffReject(silent)), Code::Malformed);
    let told = accepted(desk.reject("bob", number));
    assert_eq!(desk.handoff(number).state, HandoffState::Rejected);
    assert_eq!(desk.message(told.number).kind.as_str(), "handoff_rejected");
    assert_eq!(desk.state(number), State::Done);
    refused(desk.accept("bob", acceptance(number, &[1], &[true])), Code::Ended);
}

#[test]
fn a_withdrawn_handoff_goes_back_and_its_receiver_hears_of_it() {
    let mut desk = crew();
    let number = desk.offered("ann", "bob", 0, 0);
    refused(desk.withdraw("bob", number), Code::NotAllowed);
    accepted(desk.withdraw("ann", number));
    assert_eq!(desk.handoff(number).state, HandoffState::Withdrawn);
    let delivery = desk.delivery(number);
    assert_eq!((delivery.state, delivery.reason), (State::Returned, Some(EndReason::Withdrawn)));
    assert!(delivery.dropped_at.is_some(), "a withdrawn handoff is not a dead letter");
    assert_eq!(desk.told_of(number), [("bob".to_owned(), Notice::Withdrawn)]);
    refused(desk.accept("bob", acceptance(number, &[], &[])), Code::Ended);
    refused(desk.withdraw("ann", number), Code::Ended);
    refused(desk.retry("ann", number), Code::Ended);

    let second = desk.offered("ann", "bob", 0, 0);
    accepted(desk.withdraw("boss", second));
    let told = desk.told_of(second);
    assert_eq!(told, [("ann".to_owned(), Notice::Returned), ("bob".to_owned(), Notice::Withdrawn)]);
}

#[test]
fn ordinary_words_neither_end_a_handoff_nor_look_like_its_answer() {
    let mut desk = crew();
    let number = desk.offered("ann", "bob", 0, 0);
    refused(desk.done("bob", number), Code::IsHandoff);
    refused(desk.post("bob", answer_and_finish(number)), Code::IsHandoff);
    let forward = Ends { message: number, how: EndsHow::Forwarded, token: None };
    refused(desk.post("bob", Send { ends: Some(forward), ..letter("cy", "handoff_request") }), Code::IsHandoff);
    for kind in ["handoff_accepted", "handoff_rejected"] {
        let looks_decided = Send { kind: kind.parse().unwrap(), ..answer_to(number) };
        refused(desk.post("bob", looks_decided), Code::IsHandoff);
    }
    accepted(desk.ack("bob", number));
    assert_eq!(desk.state(number), State::Pending, "an acknowledgement is a mark");
    let token = accepted(desk.claim("bob", number));
    refused(desk.done_with("bob", number, Some(token)), Code::IsHandoff);
    accepted(desk.release("bob", number, Some(token)));
    assert_eq!(desk.handoff(number).state, HandoffState::Pending);
}

#[test]
fn a_reply_is_no_answer_so_the_handoff_stays_overdue() {
    let mut desk = crew();
    let number = desk.offered("ann", "bob", 0, 0);
    accepted(desk.reply("bob", number));
    assert_eq!(desk.delivery(number).answer, None);
    desk.pass(2 * DAY);
    assert_eq!(desk.told_of(number), [("ann".to_owned(), Notice::Overdue)]);
    accepted(desk.accept("bob", acceptance(number, &[], &[])));
    assert!(desk.delivery(number).answer.is_some());
}

#[test]
fn a_request_without_a_package_is_ordinary_mail() {
    let mut desk = crew();
    let number = desk.send("ann", "bob", "handoff_request");
    let why = refused(desk.accept("bob", acceptance(number, &[], &[])), Code::NoHandoff);
    assert_eq!(why, format!("message {number} is not a handoff"));
    refused(desk.withdraw("ann", number), Code::NoHandoff);
    accepted(desk.done("bob", number));
    refused(desk.withdraw("ann", MessageNo(99)), Code::UnknownMessage);
}

#[test]
fn a_handoff_follows_what_becomes_of_its_delivery() {
    let mut desk = crew();
    let expires =
        |create: HandoffCreate| HandoffCreate { mail: Send { expires: after(HOUR), ..create.mail }, ..create };
    let expiring = accepted(desk.create("ann", expires(offer("bob", 0, 0))));
    let failing = desk.offered("ann", "bob", 0, 0);
    let closing = desk.offered("ann", "bob", 0, 0);
    let returning = desk.offered("ann", "cy", 0, 0);
    accepted(desk.fail("bob", failing));
    accepted(desk.close("ann", closing));
    desk.pass(2 * HOUR);
    accepted(desk.retire("boss", "cy"));
    let dying = desk.offered("ann", "bob", 0, 0);
    desk.fail_until("bob", dying, 0);
    let state = |desk: &Desk, number| desk.handoff(number).state;
    assert_eq!(state(&desk, expiring), HandoffState::Expired);
    assert_eq!(state(&desk, failing), HandoffState::Failed);
    assert_eq!(state(&desk, closing), HandoffState::Returned);
    assert_eq!(state(&desk, returning), HandoffState::Returned);
    assert_eq!(state(&desk, dying), HandoffState::Dead);
    refused(desk.accept("bob", acceptance(expiring, &[], &[])), Code::Ended);
    accepted(desk.retry("ann", expiring));
    assert_eq!(state(&desk, expiring), HandoffState::Pending);
    accepted(desk.accept("bob", acceptance(expiring, &[], &[])));
    assert_eq!(state(&desk, expiring), HandoffState::Accepted);
}

#[test]
fn one_member_of_a_group_takes_it() {
    let mut desk = crew();
    for name in ["dot", "eve"] {
        desk.register(name, with_role("builder"));
    }
    let number = desk.offered("ann", "role:builder", 0, 0);
    refused(desk.accept("bob", acceptance(number, &[], &[])), Code::NotRecipient);
    let token = accepted(desk.claim("dot", number));
    refused(desk.accept("eve", acceptance(number, &[], &[])), Code::AlreadyClaimed);
    accepted(desk.release("dot", number, Some(token)));
    let second = desk.offered("ann", "role:builder", 0, 0);
    accepted(desk.accept("eve", acceptance(second, &[], &[])));
    refused(desk.accept("dot", acceptance(second, &[], &[])), Code::Ended);
    let held = desk.offered("ann", "role:builder", 0, 0);
    accepted(desk.claim("dot", held));
    accepted(desk.withdraw("ann", held));
    assert_eq!(desk.told_of(held), [("dot".to_owned(), Notice::Withdrawn)]);
}

#[test]
fn work_of_somebody_who_retired_can_be_taken_over() {
    let mut desk = crew();
    let number = desk.offered("ann", "bob", 0, 0);
    accepted(desk.retire("boss", "ann"));
    refused(desk.post("bob", answer_to(number)), Code::Retired);
    let told = accepted(desk.accept("bob", acceptance(number, &[], &[])));
    assert_eq!(told.deliveries, [], "no active agent to notify");
    assert_eq!(desk.handoff(number).state, HandoffState::Accepted);
}

#[test]
fn what_an_office_makes_of_the_type_does_not_let_an_ack_end_it() {
    let mut desk = crew();
    let policy = poste_core::log::Policy {
        replaces: 0,
        machine: "m".parse().unwrap(),
        host: "here".to_owned(),
        settings: poste_core::log::Settings::default(),
        types: vec![PolicyType {
            name: "handoff_request".parse().unwrap(),
            priority: Priority::Low,
            urgency: Urgency::Later,
            work: false,
            response: false,
            max_attempts: None,
            retry_delay_ms: None,
            patience_ms: None,
            default_approve: false,
        }],
    };
    accepted(desk.ask("poste", Intent::Policy(policy)));
    let number = desk.offered("ann", "bob", 0, 0);
    accepted(desk.ack("bob", number));
    assert_eq!(desk.state(number), State::Pending);
    let mut plain = offer("bob", 0, 0);
    plain.mail.wants_response = None;
    refused(desk.create("ann", plain), Code::Malformed);
}

#[test]
fn a_handoff_goes_to_one_and_holds_copies_with_paths_of_their_own() {
    let mut desk = crew();
    for to in ["bob cy", "everyone", "topic:builds", ""] {
        refused(desk.create("ann", offer(to, 0, 0)), Code::Malformed);
    }
    refused(desk.create("ann", offer("ghost", 0, 0)), Code::UnknownAgent);
    let with = |files: Vec<Artifact>| {
        let create = offer("bob", 0, 0);
        HandoffCreate { mail: Send { artifacts: files, ..create.mail }, ..create }
    };
    let good = desk.stored("src/a.rs", b"fn a() {}");
    for path in ["/etc/passwd", "../a", "src/../../a", "src//a", "./a", "src/", "..", "a\0b"] {
        refused(desk.create("ann", with(vec![Artifact { path: path.to_owned(), ..good.clone() }])), Code::Malformed);
    }
    let seen = Artifact { state: ArtifactState::Present, ..good.clone() };
    refused(desk.create("ann", with(vec![seen])), Code::Malformed);
    refused(desk.create("ann", with(vec![Artifact { digest: None, ..good.clone() }])), Code::Malformed);
    refused(desk.create("ann", with(vec![good.clone(), good.clone()])), Code::Malformed);
    let many =
        |count: usize| (0..count).map(|n| Artifact { path: format!("f{n}"), ..good.clone() }).collect::<Vec<_>>();
    refused(desk.create("ann", with(many(limits::HANDOFF_ARTIFACTS_MAX + 1))), Code::TooLarge);
    let number = accepted(desk.create("ann", with(many(limits::HANDOFF_ARTIFACTS_MAX))));
    assert_eq!(desk.handoff(number).state, HandoffState::Pending);
    let mail = Send { artifacts: many(limits::ARTIFACTS_MAX + 1), ..letter("bob", "message") };
    refused(desk.post("ann", mail), Code::TooLarge);
    refused(desk.create("ann", offer("bob", limits::HANDOFF_CHECKS_MAX + 1, 0)), Code::TooLarge);
    refused(desk.create("ann", offer("bob", 0, limits::HANDOFF_VERIFIES_MAX + 1)), Code::TooLarge);
}

#[test]
fn what_an_answer_must_look_like_is_decided_here_too() {
    let mut desk = crew();
    let number = desk.offered("ann", "bob", 0, 0);
    let good = acceptance(number, &[], &[]);
    let mut wrong = Vec::new();
    wrong.push(Send { kind: "message".parse().unwrap(), ..good.mail.clone() });
    wrong.push(Send { to: vec!["cy".parse().unwrap()], ..good.mail.clone() });
    wrong.push(Send { reply_to: None, ..good.mail.clone() });
    wrong.push(Send { ends: None, ..good.mail.clone() });
    wrong
        .push(Send { ends: Some(Ends { message: number, how: EndsHow::Forwarded, token: None }), ..good.mail.clone() });
    for mail in wrong {
        refused(desk.accept("bob", HandoffAccept { mail, ..good.clone() }), Code::Malformed);
    }
}

#[test]
fn a_handoff_outlives_the_archiving_and_the_redacting_of_its_words() {
    let mut desk = crew();
    let number = desk.offered("ann", "bob", 1, 0);
    let told = accepted(desk.accept("bob", acceptance(number, &[1], &[]))).number;
    accepted(desk.ack("ann", told));
    let withdrawn = desk.offered("ann", "bob", 0, 0);
    accepted(desk.withdraw("ann", withdrawn));
    let notice = desk.notices().pop().expect("bob was notified").number;
    accepted(desk.ack("bob", notice));
    desk.archive("ann");
    assert_eq!(desk.handoff(number).state, HandoffState::Accepted);
    assert_eq!(desk.handoff(withdrawn).state, HandoffState::Withdrawn);
    refused(desk.accept("bob", acceptance(number, &[1], &[])), Code::Ended);
    desk.redact_message("ann", number);
    desk.office.erase().expect("the words are erased");
    assert_eq!(desk.handoff(number).state, HandoffState::Accepted);
}

#[test]
fn a_conversation_with_an_unanswered_handoff_is_not_finished() {
    let mut desk = crew();
    let number = desk.offered("ann", "bob", 0, 0);
    assert!(desk.finished().conversations.is_empty());
    let told = accepted(desk.reject("bob", number)).number;
    accepted(desk.ack("ann", told));
    assert_eq!(desk.finished().conversations.len(), 1);
}
