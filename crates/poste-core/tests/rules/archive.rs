//! The archive: finished conversations leave the tables and stay readable.

use poste_core::fold::{Code, Effect, Verdict};
use poste_core::log::{Archive, Body, Close, Content, Done, Extend, Intent, Redact, Retry, Send};
use poste_core::store::table_digest::{digest, refold};
use poste_core::store::tables::State;
use poste_core::views;
use poste_core::{Digest, MessageNo, Position};
use serde_json::value::RawValue;

use crate::common::*;
use crate::endings::{assert_same, code_of};

fn desk() -> Desk {
    let mut desk = Desk::with(&["lead", "bob", "cy"]);
    desk.register("ann", human());
    desk
}

/// An archive record for an empty file: it is decided by its header alone.
fn named(desk: &Desk, file: &str, conversations: &[&str], as_of: Position) -> Archive {
    let is_plain = file.ends_with(".jsonl") && !file.contains(['/', '\0']) && file.len() < 255;
    let archives = desk.office.store().archives().expect("a folder");
    if is_plain {
        archives.write(file, &[]).expect("it is written");
    }
    Archive {
        file: file.to_owned(),
        conversations: conversations.iter().map(|label| label.parse().expect("a label")).collect(),
        as_of,
        lines: 0,
        digest: Digest::of(b""),
    }
}

/// For offices whose archive record names an empty file: only the fold can be verified.
fn assert_refolds(desk: &mut Desk) {
    let fresh = refold(desk.office.store(), |_| {}).expect("it folds again");
    assert_eq!(digest(fresh.conn()).expect("a digest"), desk.tables().digest);
    desk.leave_unverified();
}

// ── Decisions ────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_name_that_is_no_plain_file_name_is_refused() {
    let mut desk = desk();
    desk.send_and_ack("lead", "bob", text("hello"));
    let long = format!("{}.jsonl", "1".repeat(300));
    let head = desk.head();
    for file in [
        "",
        ".jsonl",
        "../x.jsonl",
        "../1.jsonl",
        "/1.jsonl",
        "1/2.jsonl",
        "1",
        "1.json",
        "1.jsonl.jsonl",
        "x.jsonl",
        "1 .jsonl",
        "1\0.jsonl",
        "1.jsonl\n",
        "tmp-1.jsonl",
        "\u{661}.jsonl",
        long.as_str(),
    ] {
        refused(desk.propose_archive("lead", &named(&desk, file, &["1"], head)), Code::Malformed);
    }
}

#[test]
fn what_is_open_unknown_or_not_named_at_all_is_refused() {
    let mut desk = desk();
    let open = desk.send("lead", "bob", "directive");
    let over = desk.send_and_ack("lead", "bob", text("hello"));
    let head = desk.head();
    refused(desk.propose_archive("lead", &named(&desk, "1.jsonl", &["1"], head)), Code::NotFinished);
    refused(desk.propose_archive("lead", &named(&desk, "1.jsonl", &["1", "2"], head)), Code::NotFinished);
    accepted(desk.claim("bob", open));
    let head = desk.head();
    refused(desk.propose_archive("lead", &named(&desk, "1.jsonl", &["1"], head)), Code::NotFinished);
    refused(desk.propose_archive("lead", &named(&desk, "1.jsonl", &["2", "nowhere"], head)), Code::NothingToDo);
    refused(desk.propose_archive("lead", &named(&desk, "1.jsonl", &[], head)), Code::Malformed);
    let many: Vec<String> = (0..=1_000).map(|number| format!("c{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    refused(desk.propose_archive("lead", &named(&desk, "1.jsonl", &many, head)), Code::Malformed);
    refused(desk.propose_archive("ghost", &named(&desk, "1.jsonl", &["2"], head)), Code::UnknownAgent);
    assert_eq!(desk.state(over), State::Done);
}

#[test]
fn a_record_whose_file_is_gone_or_another_one_is_refused_and_nothing_is_lost() {
    let mut desk = desk();
    let number = desk.send_and_ack("lead", "bob", text("hello"));
    let archive = desk.write_archive();
    let path = desk.archive_path(&archive.file);
    let whole = std::fs::read(&path).expect("the file");
    std::fs::remove_file(&path).expect("the file is removed");
    says(&refused(desk.propose_archive("lead", &archive), Code::NotFinished), "is missing");
    std::fs::write(&path, &whole[..whole.len() / 2]).expect("half of it");
    refused(desk.propose_archive("lead", &archive), Code::NotFinished);
    std::fs::write(&path, String::from_utf8_lossy(&whole).replace("lead", "boss")).expect("another one");
    says(&refused(desk.propose_archive("lead", &archive), Code::NotFinished), "not the file that was written");
    assert_eq!(views::message(desk.office.store(), number).expect("it is read").expect("it is there").body, "hello");
    std::fs::write(&path, whole).expect("the file");
    accepted(desk.propose_archive("lead", &archive));
}

#[test]
fn numbers_no_file_can_have_are_refused() {
    let mut desk = desk();
    desk.send_and_ack("lead", "bob", text("hello"));
    let head = desk.head();
    for lines in [i64::MAX as u64 + 1, u64::MAX] {
        refused(
            desk.propose_archive("lead", &Archive { lines, ..named(&desk, "1.jsonl", &["1"], head) }),
            Code::NotFinished, // refused before the fold: the file has no lines
        );
    }
    // A file is written before its own record, so it cannot cover that one or a later one.
    for as_of in [head.next(), Position(u64::MAX)] {
        refused(desk.propose_archive("lead", &named(&desk, "1.jsonl", &["1"], as_of)), Code::Malformed);
    }
}

#[test]
fn a_file_is_used_once_and_a_conversation_archived_once() {
    let mut desk = desk();
    desk.send_and_ack("lead", "bob", text("one"));
    let archive = desk.archive("lead");
    desk.send_and_ack("lead", "bob", text("two"));
    let head = desk.head();
    says(&refused(desk.propose_archive("lead", &named(&desk, &archive.file, &["2"], head)), Code::Malformed), "in use");
    refused(desk.propose_archive("lead", &named(&desk, "1.jsonl", &["1"], head)), Code::NothingToDo);
}

#[test]
fn a_conversation_named_twice_is_archived_once() {
    let mut desk = desk();
    desk.send_and_ack("lead", "bob", text("one"));
    let head = desk.head();
    assert_eq!(accepted(desk.propose_archive("lead", &named(&desk, "1.jsonl", &["1", "1"], head))), 1);
    assert_refolds(&mut desk);
}

// ── Changes before the record ────────────────────────────────────────────────────────────────────────────────

/// Something changes between the writing of a file and its record. Nothing may be lost: the record is refused, and the
/// next file contains the change.
fn refused_because_of(happens: impl FnOnce(&mut Desk, MessageNo)) {
    let mut desk = desk();
    let number = desk.send("lead", "bob", "directive");
    accepted(desk.claim_for("bob", number, Some(SECOND)));
    desk.pass(MINUTE); // one lease has expired
    let token = accepted(desk.claim("bob", number));
    accepted(desk.done_with("bob", number, Some(token)));
    let archive = desk.write_archive();
    assert_eq!(archive.conversations.len(), 1);
    happens(&mut desk, number);
    says(&refused(desk.propose_archive("lead", &archive), Code::NotFinished), "continued after record");
    desk.office.discard_archive(&archive).expect("the file is taken back");
    let last = desk.head();
    let (before, told) = (desk.all_views([number]), desk.timeline_to(last));
    desk.archive("lead");
    assert_same(&before, &desk.all_views([number]));
    assert_same(&told, &desk.timeline_to(last));
    desk.office.erase().expect("it is erased");
}

#[test]
fn a_message_that_came_and_went_before_the_record_is_not_lost() {
    refused_because_of(|desk, number| {
        let more = Send { conversation: Some("1".parse().expect("a label")), ..letter("cy", "message") };
        let more = accepted(desk.post("lead", more)).number;
        accepted(desk.ack("cy", more));
        assert_ne!(more, number);
    });
}

#[test]
fn a_late_result_before_the_record_is_not_lost() {
    refused_because_of(|desk, number| {
        let first = desk.track(number).history[0].position;
        late(desk.done_with("bob", number, Some(first)));
        let notice = desk.notices().last().expect("lead is notified").number;
        accepted(desk.ack("lead", notice));
    });
}

#[test]
fn a_mark_before_the_record_is_not_lost() {
    refused_because_of(|desk, number| {
        accepted(desk.shown("bob", number));
    });
}

#[test]
fn an_outcome_before_the_record_is_not_lost() {
    refused_because_of(|desk, number| {
        accepted(desk.close("lead", number));
    });
}

#[test]
fn words_that_were_redacted_before_the_record_are_not_archived() {
    refused_because_of(|desk, number| desk.redact_message("lead", number));
    refused_because_of(|desk, number| {
        let done = desk.delivery(number).ended_by.expect("it is done");
        accepted(desk.redact("bob", &[done]));
    });
}

#[test]
fn what_happens_elsewhere_does_not_stand_in_the_way() {
    let mut desk = desk();
    desk.send_and_ack("lead", "bob", text("one"));
    let archive = desk.write_archive();
    let other = desk.send("lead", "bob", "directive");
    desk.redact_message("lead", other);
    accepted(desk.propose_archive("lead", &archive));
    desk.office.erase().expect("it is erased");
}

#[test]
fn a_redacted_outcome_is_not_archived_either() {
    let mut desk = desk();
    let number = desk.send("lead", "bob", "directive");
    accepted(desk.close("lead", number));
    let outcome = desk.head();
    let archive = desk.write_archive();
    accepted(desk.redact("lead", &[outcome]));
    refused(desk.propose_archive("lead", &archive), Code::NotFinished);
    desk.office.discard_archive(&archive).expect("the file is taken back");
    desk.archive("lead");
    desk.office.erase().expect("it is erased");
    desk.assert_nowhere("that is that");
}

// ── What remains ─────────────────────────────────────────────────────────────────────────────────────────────

/// A conversation with many kinds of events. Returns its messages and those of one that stays open.
fn eventful(desk: &mut Desk) -> Vec<MessageNo> {
    let plan = || Some("plan".parse().expect("a label"));
    let payload = RawValue::from_string(
        "{\"a\":\n [9007199254740993, \"\\u0000 \\\"q\\\" ,\\\"content\\\":\\\"x\\\"\"]\n}".to_owned(),
    );
    let words = Content {
        subject: "gr\u{fc}n \u{1f4ee}".to_owned(),
        body: Body::from("two\nlines\r\n\u{2028},\"content\":\"fake\"}"),
        payload: Some(payload.expect("JSON")),
        context: Some("why".to_owned()),
        metadata: [("k".to_owned(), "v".to_owned())].into(),
        ..Content::default()
    };
    let first = desk.send_saying(
        "lead",
        Send { conversation: plan(), respond_by: after(HOUR), ..letter("bob cy", "question") },
        words,
    );
    // bob loses a lease, fails once, answers and has a late result; cy fails for good.
    let lost = accepted(desk.claim_for("bob/1", first, Some(SECOND)));
    desk.pass(MINUTE);
    let token = accepted(desk.claim("bob/2", first));
    accepted(desk.extend("bob/2", first, Some(token)));
    late(desk.done_with("bob/1", first, Some(lost)));
    accepted(desk.reply("bob", first));
    accepted(desk.done_with("bob", first, Some(token)));
    desk.pass(2 * HOUR); // cy is overdue
    accepted(desk.shown("cy", first));
    accepted(desk.claim_best("cy", 1));
    accepted(desk.fail("cy", first));
    accepted(desk.drop_bad("lead", first));
    // Invalid UTF-8, no content, a blob, and a forward into another conversation.
    let bytes = Content { body: Body(b"\xff\xfe\x00 bytes \xc3(".to_vec()), ..Content::default() };
    desk.send_saying("lead", Send { conversation: plan(), ..letter("bob", "message") }, bytes);
    accepted(desk.ask("lead", Intent::Send(Send { conversation: plan(), ..letter("cy", "message") })));
    let large = text(&"line\n\"quoted\"\n".repeat(8_000));
    assert!(large.encode().len() > 64 * 1024);
    desk.send_saying("ann", Send { conversation: plan(), ..letter("bob", "directive") }, large);
    let last = desk.last_message();
    let forward = Send {
        ends: Some(poste_core::log::Ends { message: last, how: poste_core::log::EndsHow::Forwarded, token: None }),
        conversation: Some("elsewhere".parse().expect("a label")),
        ..letter("cy", "directive")
    };
    accepted(desk.post("bob", forward));
    for number in 1..=desk.last_message().0 {
        let number = MessageNo(number);
        for (who, state) in desk.states(number) {
            if state == State::Pending && desk.message(number).conversation.as_str() == "plan" {
                accepted(desk.ack(&who, number));
            }
        }
    }
    accepted(desk.close("ann", first));
    (1..=desk.last_message().0).map(MessageNo).collect()
}

#[test]
fn every_view_says_the_same_of_what_is_archived() {
    let mut desk = desk();
    let numbers = eventful(&mut desk);
    let last = desk.head();
    let before = desk.all_views(numbers.clone());
    let told = desk.timeline_to(last);
    let archive = desk.archive("lead");
    assert_eq!(archive.conversations, ["plan"]);
    assert_same(&before, &desk.all_views(numbers.clone()));
    assert_same(&told, &desk.timeline_to(last));
    let archived = views::message(desk.office.store(), numbers[0]).expect("it reads").expect("it is there");
    assert_eq!(archived.archive, Some(archive.file.clone()));
    let why = views::why_message(desk.office.store(), numbers[0]).expect("it reads").expect("it is there");
    says(&why.lines.last().expect("a line").what, &format!("archived in {}", archive.file));
    // The live tables have none of its rows, and the database has none of its content.
    let count =
        |sql: &str| -> u64 { desk.office.store().conn().query_row(sql, [], |row| row.get(0)).expect("a count") };
    assert_eq!(count("SELECT count(*) FROM messages WHERE conversation = 'plan'"), 0);
    assert_eq!(count("SELECT count(*) FROM deliveries WHERE message NOT IN (SELECT number FROM messages)"), 0);
    assert_eq!(count("SELECT count(*) FROM events WHERE message NOT IN (SELECT number FROM messages)"), 0);
    assert_eq!(count("SELECT count(*) FROM content WHERE position IN (SELECT position FROM archived_content)"), 0);
    assert_eq!(desk.problems(), Vec::<String>::new());
    assert_same(&before, &{
        desk.office = desk.place.open().expect("it opens");
        desk.all_views(numbers)
    });
}

#[test]
fn what_is_archived_cannot_be_changed_and_is_refused_by_that_name() {
    let mut desk = desk();
    let number = desk.send("lead", "bob", "directive");
    let token = accepted(desk.claim("bob", number));
    accepted(desk.fail("bob", number));
    let notice = desk.notices()[0].number;
    accepted(desk.ack("lead", notice));
    desk.archive("ann");
    let forward = Send {
        ends: Some(poste_core::log::Ends {
            message: number,
            how: poste_core::log::EndsHow::Forwarded,
            token: Some(token),
        }),
        ..letter("cy", "directive")
    };
    let codes = [
        code_of(desk.reply("bob", number)),
        code_of(desk.reply("lead", notice)),
        code_of(desk.post("bob", answer_and_finish(number))),
        code_of(desk.post("bob", forward)),
        code_of(desk.post("cy", Send { reply_to: Some(number), ..letter("lead", "message") })),
        code_of(desk.claim("bob", number)),
        code_of(desk.done("bob", number)),
        code_of(desk.done_with("bob", number, Some(token))),
        code_of(desk.fail("bob", number)),
        code_of(desk.fail_retry("bob", number, Some(token))),
        code_of(desk.release("bob", number, Some(token))),
        code_of(desk.extend("bob", number, Some(token))),
        code_of(desk.ack("bob", number)),
        code_of(desk.shown("bob", number)),
        code_of(desk.retry("lead", number)),
        code_of(desk.drop_bad("lead", number)),
        code_of(desk.close("lead", number)),
    ];
    assert_eq!(codes, [Code::Archived; 17]);
}

#[test]
fn numbers_go_on_and_the_conversation_can_too() {
    let mut desk = desk();
    let first = desk.send_and_ack("lead", "bob", text("one"));
    desk.archive("lead");
    let again = Send { conversation: Some("1".parse().expect("a label")), ..letter("bob", "message") };
    let second = accepted(desk.post("lead", again)).number;
    assert_eq!(second, first.next());
    accepted(desk.ack("bob", second));
    let archive = desk.archive("lead");
    assert_eq!((archive.conversations.len(), archive.lines), (1, 2), "the message and the note of the ack");
    assert_ne!(desk.message_view(first).archive, desk.message_view(second).archive);
    let deliveries: u64 = desk.office.store().tables().expect("tables").cursor.delivery_last.0;
    assert_eq!(deliveries, 2);
}

#[test]
fn a_repeat_of_what_is_archived_is_answered_as_before() {
    let mut desk = desk();
    let send = |to: &str, kind: &str| Intent::Send(Send { conversation: conversation("plan"), ..letter(to, kind) });
    let mut asked = Vec::new();
    let mut propose = |desk: &mut Desk, who: &str, intent: Intent, content: Option<Content>| {
        let proposal = desk.proposal(who, intent, content);
        let outcome = desk.outcome(&proposal);
        assert!(matches!(outcome.verdict, Verdict::Accepted(_)), "{outcome:?}");
        asked.push((proposal, outcome.clone()));
        outcome
    };
    let claim = |message| {
        Intent::Claim(poste_core::log::Claim {
            message: Some(message),
            max: 1,
            lease_ms: Some(SECOND),
            types: Vec::new(),
        })
    };
    propose(&mut desk, "lead", send("bob cy", "directive"), Some(text("two of them")));
    let number = MessageNo(1);
    let lost = propose(&mut desk, "bob", claim(number), None).position;
    desk.pass(MINUTE);
    let token = propose(&mut desk, "bob", claim(number), None).position;
    let extend = Intent::Extend(Extend { message: number, token, lease_ms: Some(HOUR) });
    propose(&mut desk, "bob", extend, None);
    let done = |token| Intent::Done(Done { message: number, token, artifacts: Vec::new() });
    propose(&mut desk, "bob", done(lost), Some(text("late")));
    propose(&mut desk, "bob", done(token), Some(text("in time")));
    propose(&mut desk, "bob", Intent::Send(answer_to(number)), Some(text("an answer")));
    accepted(desk.fail("cy", number));
    propose(&mut desk, "lead", Intent::Retry(Retry { message: number, recipient: None }), None);
    propose(&mut desk, "lead", Intent::Close(Close { message: number }), Some(text("over")));
    let position = desk.position(number);
    propose(&mut desk, "lead", Intent::Redact(Redact { records: vec![position] }), Some(text("why")));
    desk.office.erase().expect("it is erased");
    for told in desk.notices() {
        accepted(desk.ack(&told.to, told.number)); // unread mail keeps a conversation from being archived
    }
    let archive = desk.write_archive();
    propose(&mut desk, "lead", Intent::Archive(archive), None);
    for (proposal, first) in &asked {
        let again = desk.outcome(proposal);
        assert!(again.repeat, "{:?}", proposal.intent);
        assert_eq!(again.position, first.position);
        let (again, first) = (again.verdict.accepted().expect("accepted"), first.verdict.clone().accepted());
        match (&proposal.intent, again, first.expect("accepted")) {
            (Intent::Send(_), Effect::Sent(again), Effect::Sent(first)) => assert_eq!(again, first),
            // The claim is no longer held, and its lease is in the archive.
            (Intent::Claim(_), Effect::Claimed(again), Effect::Claimed(first)) => assert_eq!(again.token, first.token),
            (Intent::Extend(_), Effect::Claimed(_), Effect::Claimed(_)) => {}
            (Intent::Done(_), Effect::Late(again), Effect::Late(_)) => assert_eq!(again.state, "archived"),
            (Intent::Done(_), Effect::Noted, Effect::Noted) => {}
            (_, Effect::Noted, Effect::Touched(_)) => {}
            (intent, again, first) => panic!("{intent:?}: {again:?} after {first:?}"),
        }
    }
    let mut other = asked[0].0.clone();
    other.content = Some(text("something else"));
    assert_eq!(code_of(desk.outcome(&other).verdict.accepted()), Code::IdConflict, "an id is never free again");
}

fn conversation(label: &str) -> Option<poste_core::text::Label> {
    Some(label.parse().expect("a label"))
}

#[test]
fn an_answer_in_one_conversation_to_another_survives_the_archive_of_either() {
    for archived_first in ["asked", "answered"] {
        let mut desk = desk();
        let question = Send { conversation: conversation("asked"), ..letter("bob", "question") };
        let question = accepted(desk.post("lead", question)).number;
        let answer = Send { conversation: conversation("answered"), ..answer_and_finish(question) };
        let answer = accepted(desk.post("bob", answer)).number;
        accepted(desk.ack("lead", answer));
        let numbers = [question, answer];
        let before = desk.all_views(numbers);
        let last = desk.head();
        let told = desk.timeline_to(last);
        for label in [archived_first, if archived_first == "asked" { "answered" } else { "asked" }] {
            let mut batch = desk.finished();
            batch.conversations.retain(|conversation| conversation.as_str() == label);
            batch.lines.retain(|line| {
                line.message.as_ref().map_or(label == "answered", |message| message.conversation.as_str() == label)
            });
            let archive = desk.office.write_archive(&batch).expect("it is written");
            accepted(desk.propose_archive("lead", &archive));
            assert_same(&before, &desk.all_views(numbers));
            assert_same(&told, &desk.timeline_to(last));
            desk.verify();
        }
    }
}

#[test]
fn a_late_subscriber_gets_what_is_live_and_nothing_that_is_archived() {
    let mut desk = desk();
    let publish = |desk: &mut Desk| accepted(desk.post("lead", letter("topic:builds", "message"))).number;
    let archived = publish(&mut desk);
    let archive = desk.archive("lead");
    assert_eq!(archive.lines, 1, "without recipients, so finished at once");
    let live = publish(&mut desk);
    assert_eq!(accepted(desk.subscribe("bob", "builds", Some(Position(0)))), Effect::Touched(1));
    assert_eq!(accepted(desk.subscribe("cy", "*", Some(Position(0)))), Effect::Touched(1));
    assert_eq!(desk.states(live).len(), 2);
    assert_eq!(desk.message_view(archived).to, Vec::<String>::new());
    // From a position in the middle of the archived messages.
    let position = desk.position(archived);
    accepted(desk.unsubscribe("bob", "builds"));
    accepted(desk.subscribe("bob", "builds", Some(position)));
}

#[test]
fn a_subscriber_that_came_after_the_file_was_written_is_not_forgotten() {
    let mut desk = desk();
    let number = accepted(desk.post("lead", letter("topic:builds", "message"))).number;
    let archive = desk.write_archive();
    accepted(desk.subscribe("bob", "builds", Some(Position(0))));
    refused(desk.propose_archive("lead", &archive), Code::NotFinished);
    accepted(desk.ack("bob", number));
    says(&refused(desk.propose_archive("lead", &archive), Code::NotFinished), "continued after");
}

#[test]
fn a_page_of_what_is_finished_begins_where_the_last_one_ended() {
    let mut desk = desk();
    desk.send_and_ack_many("lead", "bob", (0..20).map(|_| (letter("bob", "message"), text("one"))));
    desk.send("lead", "bob", "message");
    desk.send_and_ack_many("lead", "bob", (0..1_019).map(|_| (letter("bob", "message"), text("many"))));
    desk.send("lead", "bob", "message");
    let first = desk.finished();
    assert_eq!((first.conversations.len(), first.kept), (1_000, 1));
    let next = first.next.expect("there is more");
    let archive = desk.office.write_archive(&first).expect("it is written");
    assert_eq!(accepted(desk.propose_archive("lead", &archive)), 1_000);
    let rest = views::finished(desk.office.store(), desk.now(), next).expect("it reads");
    assert_eq!((rest.conversations.len(), rest.next), (39, None));
    // Nothing newer than the limit is taken.
    let none = views::finished(desk.office.store(), desk.now().plus_ms(-1), next).expect("it reads");
    assert_eq!((none.conversations.len(), none.kept), (0, 40));
}

#[test]
fn an_archive_of_many_messages_is_found_by_number_each() {
    let mut desk = desk();
    let filler = |count: usize| text(&"x".repeat(count * 37 % 5_000));
    let letters = (0..300).map(|count| (letter("bob", "message"), filler(count)));
    let numbers = desk.send_and_ack_many("lead", "bob", letters);
    desk.archive("lead");
    for (count, number) in numbers.iter().enumerate() {
        assert_eq!(desk.message_view(*number).body.len(), count * 37 % 5_000, "message {number}");
    }
}

#[test]
fn a_file_whose_record_never_came_is_harmless() {
    let mut desk = desk();
    let number = desk.send_and_ack("lead", "bob", text("one"));
    let orphan = desk.write_archive();
    let before = desk.all_views([number]);
    desk.verify();
    // The next archive at the same position and day gets another name.
    let archive = desk.archive("lead");
    assert_ne!(orphan.file, archive.file);
    assert_same(&before, &desk.all_views([number]));
    std::fs::write(desk.archive_path("tmp-1234"), "half a li").expect("a dead writer's file");
    desk.verify();
}

impl Desk {
    fn message_view(&self, number: MessageNo) -> views::MessageView {
        views::message(self.office.store(), number).expect("it can be read").expect("it is there")
    }
}
