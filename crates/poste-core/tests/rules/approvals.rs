//! Approvals: a question is decided once, by the first answer or by its deadline, and nothing else counts as a
//! decision.

use poste_core::MessageNo;
use poste_core::fold::{Code, Effect, Sent};
use poste_core::log::{ApprovalAnswer, ApprovalAsk, Close, Ends, EndsHow, Intent, Send};
use poste_core::store::tables::{Approval, ApprovalState, EndReason, Event, Notice, State};
use poste_core::text::Word;
use poste_core::time::When;
use poste_core::views::{self, ApprovalsQuery};

use crate::common::*;

fn words(choices: &[&str]) -> Vec<Word> {
    choices.iter().map(|choice| choice.parse().expect("a word")).collect()
}

fn question(to: &str) -> ApprovalAsk {
    ApprovalAsk { mail: letter(to, "question"), choices: words(&["approve", "deny"]), default: None, deadline: None }
}

/// A question that is denied by default after an hour.
fn within_an_hour(to: &str) -> ApprovalAsk {
    ApprovalAsk { default: Some("deny".parse().unwrap()), deadline: after(HOUR), ..question(to) }
}

fn try_ask(desk: &mut Desk, who: &str, ask: ApprovalAsk) -> Answer<Sent> {
    desk.say(who, Intent::ApprovalAsk(ask), Some(text("May I?"))).map(|effect| match effect {
        Effect::Sent(sent) => sent,
        other => panic!("unexpected answer: {other:?}"),
    })
}

fn ask(desk: &mut Desk, who: &str, ask: ApprovalAsk) -> MessageNo {
    accepted(try_ask(desk, who, ask)).number
}

fn decide(desk: &mut Desk, who: &str, number: MessageNo, choice: &str) -> Answer {
    let plan = desk.office.store().tables().unwrap().approval(number).unwrap().is_some_and(|approval| approval.plan);
    let kind = if plan { "plan_approval_response" } else { "response" };
    let mail = Send { reply_to: Some(number), ..Send::plain(kind.parse().unwrap(), Vec::new()) };
    let intent = Intent::ApprovalAnswer(ApprovalAnswer { mail, choice: choice.parse().unwrap() });
    desk.say(who, intent, Some(text("Because.")))
}

fn approval(desk: &Desk, number: MessageNo) -> Approval {
    desk.office.store().tables().unwrap().approval(number).unwrap().expect("an approval")
}

fn why(desk: &Desk, number: MessageNo) -> Vec<String> {
    let why = views::why_message(desk.office.store(), number).unwrap().expect("the message is there");
    why.lines.into_iter().map(|line| line.what).collect()
}

fn ended(desk: &Desk, number: MessageNo) -> (State, Option<EndReason>) {
    let delivery = desk.delivery(number);
    (delivery.state, delivery.reason)
}

#[test]
fn an_answer_decides_ends_the_delivery_and_goes_to_the_asker() {
    let mut desk = Desk::with(&["coder", "lead"]);
    let number = ask(&mut desk, "coder", question("lead"));
    assert!(approval(&desk, number).is_open());
    assert!(desk.message(number).wants_response);
    let Effect::Sent(sent) = accepted(decide(&mut desk, "lead", number, "approve")) else { panic!("no message") };
    assert_eq!(desk.states(sent.number), [("coder".to_owned(), State::Pending)]);
    assert_eq!(desk.message(sent.number).kind, "response");
    let decided = approval(&desk, number);
    assert_eq!(decided.state, ApprovalState::Answered);
    assert_eq!(decided.choice.as_ref().map(Word::as_str), Some("approve"));
    assert_eq!(decided.decided_by.as_ref().map(|name| name.as_str()), Some("lead"));
    assert_eq!((decided.answer, decided.ended_at), (Some(sent.number), Some(desk.now())));
    assert_eq!(ended(&desk, number), (State::Done, Some(EndReason::Replied)));
    assert_eq!(desk.delivery(number).answer, Some(sent.number));
    assert!(why(&desk, number).contains(&"decided: approve".to_owned()), "{:?}", why(&desk, number));
}

#[test]
fn a_plan_is_asked_and_answered_by_the_types_of_the_vocabulary() {
    let mut desk = Desk::with(&["coder", "lead"]);
    let plan = ApprovalAsk { mail: letter("lead", "plan_approval_request"), ..question("lead") };
    let number = ask(&mut desk, "coder", plan);
    let mail = Send { reply_to: Some(number), ..Send::plain("response".parse().unwrap(), Vec::new()) };
    let wrong = Intent::ApprovalAnswer(ApprovalAnswer { mail, choice: "approve".parse().unwrap() });
    refused(desk.ask("lead", wrong), Code::Malformed);
    let Effect::Sent(sent) = accepted(decide(&mut desk, "lead", number, "deny")) else { panic!("no message") };
    assert_eq!(desk.message(sent.number).kind, "plan_approval_response");
}

#[test]
fn what_cannot_be_decided_is_not_asked() {
    let mut desk = Desk::with(&["coder", "lead"]);
    let many: Vec<String> = (0..17).map(|number| format!("c{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut wrong = |ask: ApprovalAsk, code| refused(try_ask(&mut desk, "coder", ask), code);
    wrong(ApprovalAsk { choices: Vec::new(), ..question("lead") }, Code::Malformed);
    wrong(ApprovalAsk { choices: words(&many), ..question("lead") }, Code::Malformed);
    wrong(ApprovalAsk { choices: words(&["a", "b", "a"]), ..question("lead") }, Code::Malformed);
    wrong(ApprovalAsk { default: Some("maybe".parse().unwrap()), ..within_an_hour("lead") }, Code::NotOffered);
    wrong(ApprovalAsk { deadline: None, ..within_an_hour("lead") }, Code::Malformed);
    wrong(ApprovalAsk { deadline: after(-1), ..within_an_hour("lead") }, Code::TimeOutOfRange);
    wrong(ApprovalAsk { mail: letter("lead", "message"), ..question("lead") }, Code::Malformed);
    wrong(question("coder"), Code::NotAllowed);
    wrong(question("topic:builds"), Code::Malformed);
    wrong(question("every:role:nobody"), Code::NoRecipient);
    let expiring = Send { expires: after(HOUR), ..letter("lead", "question") };
    wrong(ApprovalAsk { mail: expiring, ..question("lead") }, Code::Malformed);
}

#[test]
fn one_question_is_asked_of_so_many_and_no_more() {
    let mut desk = Desk::with(&["coder"]);
    for number in 0..=poste_core::limits::APPROVAL_RECIPIENTS_MAX {
        desk.register(&format!("r{number}"), with_role("reviewer"));
    }
    refused(try_ask(&mut desk, "coder", question("every:role:reviewer")), Code::TooLarge);
    accepted(desk.retire("coder", "r0"));
    ask(&mut desk, "coder", question("every:role:reviewer"));
}

#[test]
fn only_a_recipient_answers_once_with_what_is_offered() {
    let mut desk = Desk::with(&["coder", "lead", "other"]);
    let number = ask(&mut desk, "coder", question("lead"));
    refused(decide(&mut desk, "other", number, "approve"), Code::NotRecipient);
    refused(decide(&mut desk, "coder", number, "approve"), Code::NotAllowed);
    let told = refused(decide(&mut desk, "lead", number, "maybe"), Code::NotOffered);
    assert_eq!(told, "maybe is not offered; the choices are approve, deny");
    accepted(decide(&mut desk, "lead", number, "deny"));
    let told = refused(decide(&mut desk, "lead", number, "approve"), Code::Ended);
    assert_eq!(told, format!("question {number} was already decided by lead: deny"));
    let plain = desk.send("coder", "lead", "question");
    refused(decide(&mut desk, "lead", plain, "approve"), Code::UnknownMessage);
    refused(decide(&mut desk, "lead", MessageNo(99), "approve"), Code::UnknownMessage);
}

#[test]
fn a_human_decides_what_was_asked_of_somebody_else_and_who_held_it_is_told() {
    let mut desk = Desk::with(&["coder", "lead"]);
    desk.register("anna", human());
    let number = ask(&mut desk, "coder", question("lead"));
    accepted(desk.claim("lead", number));
    accepted(decide(&mut desk, "anna", number, "deny"));
    assert_eq!(ended(&desk, number), (State::Done, Some(EndReason::Settled)));
    assert_eq!(desk.told_of(number), [("lead".to_owned(), Notice::Settled)]);
    let own = ask(&mut desk, "anna", question("lead"));
    refused(decide(&mut desk, "anna", own, "approve"), Code::NotAllowed);
}

#[test]
fn of_a_group_the_first_answer_counts() {
    let mut desk = Desk::with(&["coder"]);
    desk.register("one", with_role("lead"));
    desk.register("two", with_role("lead"));
    let number = ask(&mut desk, "coder", question("role:lead"));
    accepted(decide(&mut desk, "two", number, "approve"));
    refused(decide(&mut desk, "one", number, "deny"), Code::Ended);

    let each = ask(&mut desk, "coder", question("every:role:lead"));
    accepted(decide(&mut desk, "one", each, "deny"));
    let reasons: Vec<_> = desk.deliveries(each).into_iter().map(|delivery| delivery.reason).collect();
    assert_eq!(reasons, [Some(EndReason::Replied), Some(EndReason::Settled)]);
    assert!(desk.told_of(each).is_empty(), "no holder loses work, so none is notified");

    let held = ask(&mut desk, "coder", question("role:lead"));
    accepted(desk.claim("one", held));
    refused(decide(&mut desk, "two", held, "approve"), Code::AlreadyClaimed);
    accepted(decide(&mut desk, "one", held, "approve"));
}

#[test]
fn a_claim_that_ran_out_while_its_holder_thought_is_no_reason_to_refuse_the_answer() {
    let mut desk = Desk::with(&["coder", "lead"]);
    let number = ask(&mut desk, "coder", question("lead"));
    accepted(desk.claim("lead/s1", number));
    desk.pass(LEASE);
    assert_eq!(desk.state(number), State::Pending);
    assert!(!desk.delivery(number).ready);
    accepted(decide(&mut desk, "lead/s1", number, "approve"));
    assert_eq!(ended(&desk, number), (State::Done, Some(EndReason::Replied)));
}

#[test]
fn at_the_deadline_the_default_is_the_decision_and_both_sides_are_told() {
    let mut desk = Desk::with(&["coder", "lead"]);
    let number = ask(&mut desk, "coder", within_an_hour("lead"));
    desk.pass(HOUR - 1);
    assert!(approval(&desk, number).is_open());
    desk.pass(1);
    let decided = approval(&desk, number);
    assert_eq!(decided.state, ApprovalState::Defaulted);
    assert_eq!(decided.choice.as_ref().map(Word::as_str), Some("deny"));
    assert_eq!((decided.decided_by, decided.answer), (None, None));
    assert_eq!(ended(&desk, number), (State::Done, Some(EndReason::Defaulted)));
    assert_eq!(desk.history(number), [Event::Done]);
    let both = [("coder".to_owned(), Notice::Defaulted), ("lead".to_owned(), Notice::Defaulted)];
    assert_eq!(desk.told_of(number), both);
    let told = refused(decide(&mut desk, "lead", number, "approve"), Code::Ended);
    assert!(told.ends_with("its default was applied: deny"), "{told}");
    assert!(why(&desk, number).contains(&"decided by its default: deny".to_owned()), "{:?}", why(&desk, number));
    let head = desk.head();
    desk.pass(30 * DAY);
    assert_eq!(desk.head(), head, "nothing is due any more");
}

#[test]
fn the_notice_of_a_default_names_the_choice() {
    let mut desk = Desk::with(&["coder", "lead"]);
    let number = ask(&mut desk, "coder", within_an_hour("lead"));
    desk.pass(HOUR);
    for who in ["coder", "lead"] {
        let mail = desk.mail(who, None);
        let notice = mail.messages.iter().find(|message| message.notice == Some(Notice::Defaulted)).expect("told");
        let expected = format!("#{number} to lead was not answered in time; its default was applied: deny");
        assert_eq!(notice.subject, expected);
    }
}

#[test]
fn an_answered_question_is_not_defaulted() {
    let mut desk = Desk::with(&["coder", "lead"]);
    let number = ask(&mut desk, "coder", within_an_hour("lead"));
    accepted(decide(&mut desk, "lead", number, "approve"));
    desk.pass(2 * HOUR);
    assert_eq!(approval(&desk, number).state, ApprovalState::Answered);
    assert!(desk.told_of(number).is_empty());
}

#[test]
fn without_a_default_the_deadline_leaves_it_undecided_and_says_so() {
    let mut desk = Desk::with(&["coder", "lead"]);
    let number = ask(&mut desk, "coder", ApprovalAsk { deadline: after(HOUR), ..question("lead") });
    accepted(desk.claim_for("lead", number, Some(2 * HOUR)));
    desk.pass(HOUR);
    let over = approval(&desk, number);
    assert_eq!((over.state, over.choice), (ApprovalState::Unanswered, None));
    assert_eq!(ended(&desk, number), (State::Expired, Some(EndReason::Unanswered)));
    let both = [("coder".to_owned(), Notice::Unanswered), ("lead".to_owned(), Notice::Unanswered)];
    assert_eq!(desk.told_of(number), both);
    refused(desk.retry("coder", number), Code::Ended);
    refused(decide(&mut desk, "lead", number, "approve"), Code::Ended);
}

#[test]
fn a_reply_talks_about_it_and_done_or_forward_do_not_end_it() {
    let mut desk = Desk::with(&["coder", "lead", "other"]);
    let number = ask(&mut desk, "coder", question("lead"));
    accepted(desk.reply("lead", number));
    let delivery = desk.delivery(number);
    assert_eq!((delivery.state, delivery.answer), (State::Pending, None), "a reply is not a decision");
    accepted(desk.ack("lead", number));
    assert_eq!(desk.state(number), State::Pending);
    let told = refused(desk.done("lead", number), Code::NeedsAnswer);
    assert_eq!(told, format!("message {number} needs a decision: approve, deny"));
    refused(desk.post("lead", answer_and_finish(number)), Code::NeedsAnswer);
    let ends = Some(Ends { message: number, how: EndsHow::Forwarded, token: None });
    refused(desk.post("lead", Send { ends, ..letter("other", "question") }), Code::NeedsAnswer);
    assert!(approval(&desk, number).is_open());
    accepted(decide(&mut desk, "lead", number, "approve"));
    accepted(desk.reply("lead", number));
    assert_eq!(approval(&desk, number).answer, desk.delivery(number).answer, "a later reply is not an answer either");
}

#[test]
fn when_nobody_is_left_to_answer_the_asker_knows_and_the_default_still_comes() {
    let mut desk = Desk::with(&["coder", "lead", "boss"]);
    let open = ask(&mut desk, "coder", question("lead"));
    let timed = ask(&mut desk, "coder", within_an_hour("lead"));
    accepted(desk.retire("boss", "lead"));
    assert_eq!(desk.told_of(open), [("coder".to_owned(), Notice::Returned)]);
    let view = views::approval(desk.office.store(), open, desk.now()).unwrap().unwrap();
    assert!(view.nobody_left && view.is_settled(), "{view:?}");
    let view = views::approval(desk.office.store(), timed, desk.now()).unwrap().unwrap();
    assert!(view.nobody_left && !view.is_settled(), "its deadline will decide it: {view:?}");
    desk.pass(HOUR);
    assert_eq!(approval(&desk, timed).state, ApprovalState::Defaulted);
    assert_eq!(ended(&desk, timed), (State::Returned, Some(EndReason::RecipientRetired)), "it stays returned");
    assert_eq!(desk.told_of(timed).last(), Some(&("coder".to_owned(), Notice::Defaulted)));
}

#[test]
fn a_failed_question_can_be_given_another_chance_until_it_is_decided() {
    let mut desk = Desk::with(&["coder", "lead"]);
    let number = ask(&mut desk, "coder", within_an_hour("lead"));
    accepted(desk.fail("lead", number));
    assert!(approval(&desk, number).is_open());
    accepted(desk.retry("coder", number));
    accepted(desk.claim("lead/s1", number));
    accepted(desk.fail("lead/s1", number));
    desk.pass(HOUR);
    let told = refused(desk.retry("coder", number), Code::Ended);
    assert!(told.contains("its default was applied: deny"), "{told}");
}

#[test]
fn who_retires_takes_its_questions_along() {
    let mut desk = Desk::with(&["coder", "lead"]);
    let number = ask(&mut desk, "coder", within_an_hour("lead"));
    accepted(desk.claim("lead", number));
    accepted(desk.retire("lead", "coder"));
    assert_eq!(approval(&desk, number).state, ApprovalState::Withdrawn);
    assert_eq!(ended(&desk, number), (State::Returned, Some(EndReason::Withdrawn)));
    let head = desk.head();
    desk.pass(HOUR);
    assert_eq!(desk.head(), head, "a withdrawn question gets no default");
    let told = refused(decide(&mut desk, "lead", number, "approve"), Code::Ended);
    assert!(told.ends_with("coder is retired"), "{told}");
}

#[test]
fn a_closed_conversation_leaves_its_questions_undecided_and_the_asker_is_told() {
    let mut desk = Desk::with(&["coder", "lead", "boss"]);
    let number = ask(&mut desk, "coder", within_an_hour("lead"));
    accepted(desk.ask("lead", Intent::Close(Close { message: number })));
    assert_eq!(approval(&desk, number).state, ApprovalState::Closed);
    assert_eq!(desk.told_of(number), [("coder".to_owned(), Notice::Returned)]);

    let stranded = ask(&mut desk, "coder", within_an_hour("lead"));
    accepted(desk.fail("lead", stranded));
    accepted(desk.ask("lead", Intent::Close(Close { message: stranded })));
    assert_eq!(approval(&desk, stranded).state, ApprovalState::Closed);
    assert_eq!(desk.told_of(stranded).last(), Some(&("coder".to_owned(), Notice::Unanswered)));
    let head = desk.head();
    desk.pass(HOUR);
    assert_eq!(desk.head(), head, "nothing is due any more");
}

#[test]
fn a_conversation_with_a_deadline_in_it_is_not_finished() {
    let mut desk = Desk::with(&["coder", "lead"]);
    let number = ask(&mut desk, "coder", within_an_hour("lead"));
    accepted(desk.fail("lead", number));
    let conversation = desk.message(number).conversation;
    for notice in desk.notices() {
        accepted(desk.ack("coder", notice.number));
    }
    assert!(desk.office.store().tables().unwrap().is_open(&conversation).unwrap());
    let later = desk.now().plus_ms(DAY);
    let batch = views::finished(desk.office.store(), later, MessageNo(1)).unwrap();
    assert!(batch.conversations.is_empty(), "{batch:?}");
}

#[test]
fn lists_tell_what_waits_for_whom() {
    let mut desk = Desk::with(&["coder", "other"]);
    desk.register("lead", with_role("lead"));
    let first = ask(&mut desk, "coder", question("role:lead"));
    let second = ask(&mut desk, "other", question("lead"));
    let third = ask(&mut desk, "lead", question("coder"));
    accepted(decide(&mut desk, "coder", third, "deny"));
    let now = desk.now();
    let list = |query: ApprovalsQuery| -> Vec<MessageNo> {
        let found = views::approvals(desk.office.store(), &query, 10, now).unwrap();
        found.approvals.into_iter().map(|approval| approval.number).collect()
    };
    let agent = |name: &str| Box::new(desk.office.store().tables().unwrap().agent(name).unwrap().unwrap());
    assert_eq!(list(ApprovalsQuery::ToDecide(agent("lead"))), [first, second]);
    assert_eq!(list(ApprovalsQuery::ToDecide(agent("coder"))), Vec::<MessageNo>::new());
    assert_eq!(list(ApprovalsQuery::AskedBy("coder".parse().unwrap())), [first]);
    assert_eq!(list(ApprovalsQuery::Open), [first, second]);
    assert_eq!(list(ApprovalsQuery::All), [third, second, first]);
}

#[test]
fn the_same_id_asks_and_answers_once() {
    let mut desk = Desk::with(&["coder", "lead"]);
    let asked = desk.proposal("coder", Intent::ApprovalAsk(within_an_hour("lead")), Some(text("May I?")));
    let first = desk.outcome(&asked);
    desk.pass(MINUTE);
    let again = desk.outcome(&asked);
    assert!(again.repeat && again.verdict == first.verdict, "{again:?}");
    let Effect::Sent(sent) = accepted(first.verdict.accepted()) else { panic!("no message") };
    let mail = Send { reply_to: Some(sent.number), ..Send::plain("response".parse().unwrap(), Vec::new()) };
    let answer = Intent::ApprovalAnswer(ApprovalAnswer { mail, choice: "approve".parse().unwrap() });
    let answer = desk.proposal("lead", answer, Some(text("Yes.")));
    let first = desk.outcome(&answer);
    let again = desk.outcome(&answer);
    assert!(again.repeat && again.verdict == first.verdict, "{again:?}");
}

#[test]
fn a_deadline_is_a_moment_whatever_the_clock_does() {
    let mut desk = Desk::with(&["coder", "lead"]);
    let at = desk.now().plus_ms(HOUR);
    let number = ask(&mut desk, "coder", ApprovalAsk { deadline: Some(When::At(at)), ..within_an_hour("lead") });
    desk.clock.set_wall(30 * MINUTE);
    desk.settle();
    assert_eq!(approval(&desk, number).deadline, Some(at), "a leap moves leases, not announced deadlines");
    desk.pass(HOUR);
    desk.settle();
    assert_eq!(approval(&desk, number).state, ApprovalState::Defaulted);
}

#[test]
fn a_group_nobody_is_in_any_more_is_not_told_of_the_deadline() {
    let mut desk = Desk::with(&["coder"]);
    desk.register("rex", with_role("reviewer"));
    let number = ask(&mut desk, "coder", within_an_hour("role:reviewer"));
    accepted(desk.retire("coder", "rex"));
    desk.pass(HOUR);
    assert_eq!(approval(&desk, number).state, ApprovalState::Defaulted);
    let told = desk.last_message();
    assert_eq!(desk.states(told), [("coder".to_owned(), State::Pending)], "only the asker is notified");
}
