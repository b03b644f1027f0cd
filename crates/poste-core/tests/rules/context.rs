//! Shared contexts: versions, locks that expire, and mirror files that match the log.

use std::fs;

use poste_core::MessageNo;
use poste_core::fold::{Code, Effect, Locked, Outcome, Verdict, Versioned};
use poste_core::log::{
    Ack, Clock, Content, ContextAppend, ContextCreate, ContextLock, ContextRead, ContextReplace, ContextUnlock,
    Document, Intent, Lines, Redact, context_mail,
};
use poste_core::store::mirror::{self, Mirror};
use poste_core::store::search::Words;
use poste_core::store::tables::State;
use poste_core::text::ContextName;
use poste_core::views::{self, ContextView};
use serde_json::value::RawValue;

use crate::common::*;

fn name(text: &str) -> ContextName {
    text.parse().expect("a context's name")
}

fn json(text: &str) -> Option<Box<RawValue>> {
    Some(RawValue::from_string(text.to_owned()).expect("JSON"))
}

fn lines(added: u32, removed: u32) -> Lines {
    Lines { added, removed }
}

fn saying(summary: &str, document: Document) -> Option<Content> {
    Some(Content { subject: summary.to_owned(), document: Some(document), ..Content::default() })
}

fn whole(text: &str) -> Document {
    Document { text: Some(text.to_owned()), ..Document::default() }
}

fn create(context: &str) -> Intent {
    let (name, mail) = (name(context), context_mail(&name(context)));
    let kind = "decisions".parse().expect("a word");
    Intent::ContextCreate(ContextCreate { name, kind, lines: lines(1, 0), data: false, schema: false, mail })
}

fn append(context: &str) -> Intent {
    let (name, mail) = (name(context), context_mail(&name(context)));
    Intent::ContextAppend(ContextAppend { name, lines: lines(1, 0), mail })
}

fn replacing(context: &str, if_version: u64) -> ContextReplace {
    let (name, mail) = (name(context), context_mail(&name(context)));
    ContextReplace { name, if_version, lines: lines(1, 1), text: true, data: false, agreement: None, mail }
}

fn lock(context: &str, for_ms: i64) -> Intent {
    Intent::ContextLock(ContextLock { name: name(context), for_ms })
}

fn unlock(context: &str) -> Intent {
    Intent::ContextUnlock(ContextUnlock { name: name(context), mail: None })
}

/// `unlock --force`, with a message to the holder.
fn break_lock(context: &str, holder: &str) -> Intent {
    Intent::ContextUnlock(ContextUnlock { name: name(context), mail: Some(letter(holder, "alert")) })
}

fn read(context: &str, version: u64) -> Intent {
    Intent::ContextRead(ContextRead { name: name(context), version })
}

impl Desk {
    fn make(&mut self, who: &str, context: &str, text: &str) -> Versioned {
        versioned(accepted(self.say(who, create(context), saying("begins", whole(text)))))
    }

    fn append(&mut self, who: &str, context: &str, text: &str) -> Answer<Versioned> {
        self.say(who, append(context), saying("adds", whole(text))).map(versioned)
    }

    fn replace(&mut self, who: &str, context: &str, if_version: u64, text: &str) -> Answer<Versioned> {
        let intent = Intent::ContextReplace(replacing(context, if_version));
        self.say(who, intent, saying("changes", whole(text))).map(versioned)
    }

    fn context(&self, context: &str, at: Option<u64>) -> ContextView {
        let view = views::context(self.office.store(), &name(context), at).expect("it can be read");
        view.expect("the context is there")
    }

    fn holder(&self, context: &str) -> Option<String> {
        self.context(context, None).lock.map(|lock| lock.holder.to_string())
    }

    fn stale(&self, who: &str) -> Vec<(String, u64, u64)> {
        let agent = self.office.agent(&speaker(who).0).expect("agents").expect("registered");
        let page = views::inbox(self.office.store(), &agent, &views::InboxQuery::default(), self.now()).expect("mail");
        page.stale_contexts.into_iter().map(|stale| (stale.name.to_string(), stale.seen, stale.version)).collect()
    }

    fn mirror_text(&self, context: &str) -> String {
        let path = mirror::path(self.office.path().expect("a folder"), &name(context));
        fs::read_to_string(path).expect("the mirror is there")
    }
}

#[track_caller]
fn versioned(effect: Effect) -> Versioned {
    match effect {
        Effect::Versioned(versioned) => versioned,
        other => panic!("expected a version, got {other:?}"),
    }
}

fn desk() -> Desk {
    let mut desk = Desk::with(&["bob", "cy", "dot"]);
    desk.register("ann", human());
    desk
}

// ── Versions ─────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn versions_count_from_one_and_every_one_can_be_read() {
    let mut desk = desk();
    assert_eq!(desk.make("bob", "plan", "one\n").version, 1);
    assert_eq!(accepted(desk.append("cy", "plan", "two")).version, 2);
    assert_eq!(accepted(desk.replace("bob", "plan", 2, "three\n")).version, 3);
    assert_eq!(accepted(desk.append("dot", "plan", "four\n")).version, 4);

    assert_eq!(desk.context("plan", Some(1)).text, "one\n");
    let second = desk.context("plan", Some(2));
    assert!(
        second.text.starts_with("one\n\n## Update: ") && second.text.ends_with(" by cy\n\ntwo\n"),
        "{}",
        second.text
    );
    assert_eq!(second.contributors, ["bob", "cy"]);
    assert_eq!((second.version, second.newest, second.updated_by.as_str()), (2, 4, "cy"));
    assert_eq!(desk.context("plan", Some(3)).text, "three\n");
    let newest = desk.context("plan", None);
    assert!(newest.text.starts_with("three\n\n## Update: ") && newest.text.ends_with(" by dot\n\nfour\n"));
    assert_eq!(newest.contributors, ["bob", "cy", "dot"]);
    let history: Vec<_> = newest.history.iter().map(|version| (version.version, version.what)).collect();
    assert_eq!(history, [(4, "appended"), (3, "replaced"), (2, "appended"), (1, "created")]);

    let missing = views::context(desk.office.store(), &name("plan"), Some(5)).unwrap_err();
    assert!(missing.to_string().contains("has no version 5"), "{missing}");
    assert!(views::context(desk.office.store(), &name("other"), None).unwrap().is_none());
}

#[test]
fn a_name_is_taken_once_and_what_is_not_there_cannot_be_changed() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    refused(desk.say("cy", create("plan"), saying("again", whole("two"))), Code::NameTaken);
    refused(desk.append("cy", "other", "text"), Code::UnknownContext);
    refused(desk.replace("cy", "other", 1, "text"), Code::UnknownContext);
    refused(desk.ask("cy", lock("other", MINUTE)), Code::UnknownContext);
    refused(desk.append("ghost", "plan", "text"), Code::UnknownAgent);
    for hostile in ["", "..", "../x", "a/b", ".hidden", "UPPER", "a b", "a\0b", &"x".repeat(57)] {
        assert!(hostile.parse::<ContextName>().is_err(), "{hostile:?}");
    }
    assert!("x".repeat(56).parse::<ContextName>().is_ok());
}

#[test]
fn a_replacement_of_an_old_version_is_a_conflict_and_an_append_never_is() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    accepted(desk.append("cy", "plan", "two"));
    let why = refused(desk.replace("bob", "plan", 1, "mine\n"), Code::StaleVersion);
    assert!(why.contains("at version 2") && why.contains("from version 1"), "{why}");
    refused(desk.replace("bob", "plan", 3, "mine\n"), Code::UnknownVersion);
    accepted(desk.append("bob", "plan", "three"));
    accepted(desk.replace("bob", "plan", 3, "mine\n"));
    let nothing = ContextReplace { text: false, ..replacing("plan", 4) };
    refused(desk.say("bob", Intent::ContextReplace(nothing), saying("", Document::default())), Code::Malformed);
}

#[test]
fn a_repeated_write_is_answered_as_it_was_before() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    for (intent, content) in [
        (append("plan"), saying("adds", whole("two"))),
        (Intent::ContextReplace(replacing("plan", 2)), saying("changes", whole("three"))),
        (lock("plan", MINUTE), None),
    ] {
        let proposal = desk.proposal("bob", intent, content);
        let first = desk.outcome(&proposal);
        accepted(first.verdict.clone().accepted());
        let head = desk.head();
        let again = desk.outcome(&proposal);
        assert_eq!((again.repeat, &again.verdict, again.position), (true, &first.verdict, first.position));
        assert_eq!(desk.head(), head);
    }
    assert_eq!(desk.context("plan", None).newest, 3);
}

// ── Mail to subscribers ──────────────────────────────────────────────────────────────────────────────────────

#[test]
fn every_version_reaches_every_subscriber_once_and_not_its_writer() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    accepted(desk.subscribe("cy", "context.plan", None));
    accepted(desk.subscribe("bob", "context.plan", None));
    let second = accepted(desk.append("bob", "plan", "two words"));
    assert_eq!(second.subscribers, 1);
    assert_eq!(desk.news("cy"), [second.message]);
    assert!(desk.news("bob").is_empty());
    let message = views::message(desk.office.store(), second.message).unwrap().unwrap();
    assert_eq!((message.kind.as_str(), message.subject.as_str()), ("context_updated", "adds"));
    assert_eq!(message.conversation, "context:plan");
    assert_eq!(message.topic.unwrap(), "context.plan");
    assert!(!message.body.contains("two words"), "the mail does not repeat the text: {}", message.body);
}

#[test]
fn a_version_is_published_to_its_topic_and_nowhere_else() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    let (mut to_cy, mut ends) = (context_mail(&name("plan")), context_mail(&name("plan")));
    to_cy.to.push("cy".parse().unwrap());
    ends.reply_to = Some(MessageNo(1));
    for mail in [to_cy, ends, context_mail(&name("other")), letter("topic:context.plan", "context_updated")] {
        let intent = Intent::ContextAppend(ContextAppend { name: name("plan"), lines: lines(1, 0), mail });
        refused(desk.say("bob", intent, saying("adds", whole("two"))), Code::Malformed);
    }
}

// ── Stale versions ───────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn an_inbox_says_which_contexts_went_on_since_they_were_read() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    assert!(desk.stale("cy").is_empty(), "a context that was never read is not stale");
    accepted(desk.ask("cy", read("plan", 1)));
    refused(desk.ask("cy", read("plan", 1)), Code::NothingToDo);
    refused(desk.ask("cy", read("plan", 2)), Code::UnknownVersion);
    refused(desk.ask("cy", read("plan", 0)), Code::UnknownVersion);
    accepted(desk.append("bob", "plan", "two"));
    assert_eq!(desk.stale("cy"), [("plan".to_owned(), 1, 2)]);
    assert!(desk.stale("bob").is_empty(), "the writer has seen it");
    // An append does not count as reading; a replacement does.
    accepted(desk.append("cy", "plan", "three"));
    assert_eq!(desk.stale("cy"), [("plan".to_owned(), 1, 3)]);
    accepted(desk.replace("cy", "plan", 3, "all\n"));
    assert!(desk.stale("cy").is_empty());
    assert_eq!(desk.stale("bob"), [("plan".to_owned(), 2, 4)]);
}

// ── Locks ────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn while_it_is_locked_only_the_holder_writes() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    let Effect::Locked(locked) = accepted(desk.ask("cy", lock("plan", MINUTE))) else { panic!("no lock") };
    assert_eq!(locked, Locked { context: name("plan"), token: desk.head(), until: desk.now().plus_ms(MINUTE) });
    let why = refused(desk.append("bob", "plan", "two"), Code::ContextLocked);
    assert!(why.contains("locked by cy until"), "{why}");
    refused(desk.replace("bob", "plan", 1, "two"), Code::ContextLocked);
    refused(desk.ask("bob", lock("plan", MINUTE)), Code::ContextLocked);
    refused(desk.ask("bob", unlock("plan")), Code::ContextLocked);
    accepted(desk.append("cy", "plan", "two"));
    accepted(desk.ask("cy", unlock("plan")));
    refused(desk.ask("cy", unlock("plan")), Code::NotLocked);
    accepted(desk.append("bob", "plan", "three"));
    for for_ms in [0, 999, -1, HOUR + 1, i64::MAX] {
        refused(desk.ask("cy", lock("plan", for_ms)), Code::TimeOutOfRange);
    }
}

#[test]
fn a_lock_is_of_the_session_it_was_taken_in() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    accepted(desk.ask("cy/1", lock("plan", MINUTE)));
    let why = refused(desk.append("cy/2", "plan", "two"), Code::ContextLocked);
    assert!(why.contains("in session 1"), "{why}");
    accepted(desk.append("cy/1", "plan", "two"));
    accepted(desk.append("cy", "plan", "three"));
}

#[test]
fn a_lock_ends_with_its_time_and_is_prolonged_by_its_holder() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    accepted(desk.ask("cy", lock("plan", 30 * SECOND)));
    desk.pass(20 * SECOND);
    accepted(desk.ask("cy", lock("plan", 30 * SECOND)));
    desk.pass(20 * SECOND);
    refused(desk.append("bob", "plan", "two"), Code::ContextLocked);
    let before = desk.head();
    desk.pass(10 * SECOND);
    assert_eq!(desk.kinds_after(before), ["tick"]);
    assert_eq!(desk.holder("plan"), None);
    accepted(desk.append("bob", "plan", "two"));
}

#[test]
fn a_leap_of_the_clock_ends_no_lock_and_retiring_does() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    accepted(desk.ask("cy", lock("plan", MINUTE)));
    accepted(desk.ask("ann", Intent::Clock(Clock { leap_ms: HOUR })));
    assert_eq!(desk.context("plan", None).lock.unwrap().until, desk.now().plus_ms(MINUTE + HOUR));
    accepted(desk.retire("bob", "cy"));
    assert_eq!(desk.holder("plan"), None);
    accepted(desk.append("bob", "plan", "two"));
}

#[test]
fn a_broken_lock_is_told_to_whoever_held_it() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    accepted(desk.ask("cy", lock("plan", MINUTE)));
    // The lock may have a new holder by now.
    refused(desk.ask("bob", break_lock("plan", "dot")), Code::ContextLocked);
    refused(desk.ask("bob", break_lock("plan", "cy dot")), Code::ContextLocked);
    let Effect::Sent(sent) = accepted(desk.say("bob", break_lock("plan", "cy"), Some(text("it is urgent")))) else {
        panic!("no notice was sent");
    };
    assert_eq!(desk.holder("plan"), None);
    assert_eq!(desk.states(sent.number), [("cy".to_owned(), State::Pending)]);
    refused(desk.ask("bob", break_lock("plan", "cy")), Code::NotLocked);
}

// ── Data ─────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn data_must_fit_the_schema_the_context_was_made_with() {
    let mut desk = desk();
    let schema = r#"{"type":"object","additionalProperties":{"type":"object","required":["interface"]}}"#;
    let mut document = Document { schema: json(schema), ..whole("contracts\n") };
    let Intent::ContextCreate(header) = create("api") else { unreachable!() };
    let header = ContextCreate { schema: true, ..header };
    // A first version whose data does not fit is refused too.
    document.data = json(r#"{"users":1}"#);
    let with_data = ContextCreate { data: true, ..header.clone() };
    let why = refused(desk.say("bob", Intent::ContextCreate(with_data), saying("", document.clone())), Code::DataUnfit);
    assert!(why.contains("/users"), "{why}");
    document.data = None;
    accepted(desk.say("bob", Intent::ContextCreate(header), saying("begins", document)));

    let set = |if_version: u64| {
        Intent::ContextReplace(ContextReplace { text: false, data: true, ..replacing("api", if_version) })
    };
    let data = |text: &str| saying("sets", Document { data: json(text), ..Document::default() });
    refused(desk.say("cy", set(1), data(r#"{"users":{}}"#)), Code::DataUnfit);
    accepted(desk.say("cy", set(1), data(r#"{"users":{"interface":"IUserService"}}"#)));
    let view = desk.context("api", None);
    assert_eq!(view.data.unwrap().get(), r#"{"users":{"interface":"IUserService"}}"#);
    assert_eq!(view.text, "contracts\n", "the text is kept");
    assert!(desk.context("api", Some(1)).data.is_none());
    // The header and the content must agree.
    refused(desk.say("cy", set(2), saying("sets", whole("text"))), Code::DataUnfit);

    let Intent::ContextCreate(header) = create("broken") else { unreachable!() };
    let broken = Document { schema: json(r#"{"type":"nonsense"}"#), ..whole("") };
    let header = ContextCreate { schema: true, ..header };
    refused(desk.say("bob", Intent::ContextCreate(header), saying("", broken)), Code::DataUnfit);
}

// ── Archive, redaction, search ───────────────────────────────────────────────────────────────────────────────

#[test]
fn a_context_lives_on_when_its_mail_is_archived() {
    let mut desk = desk();
    accepted(desk.subscribe("cy", "context.plan", None));
    let first = desk.make("bob", "plan", "one\n");
    let second = accepted(desk.append("bob", "plan", "two"));
    for version in [first, second] {
        accepted(desk.ask("cy", Intent::Ack(Ack { message: version.message })));
    }
    let before = desk.context("plan", None);
    desk.archive("ann");
    assert!(desk.office.store().tables().unwrap().archived_message(MessageNo(1)).unwrap().is_some());
    let after = desk.context("plan", None);
    assert_eq!((after.text, after.redacted), (before.text, Vec::new()));
    accepted(desk.append("bob", "plan", "three"));
    assert!(desk.context("plan", None).text.contains("two\n"));
    desk.verify();
}

#[test]
fn redacted_words_are_gone_from_the_context_its_file_and_its_archive() {
    const MARKER: &str = "xylophone-Quartz-4711";
    for archived in [false, true] {
        let mut desk = desk();
        let first = desk.make("bob", "plan", "one\n");
        accepted(desk.append("cy", "plan", MARKER));
        let secret = desk.head();
        accepted(desk.append("bob", "plan", "three"));
        assert_eq!(desk.office.mirror(&name("plan"), false).unwrap(), Some(Mirror::Current));
        assert!(desk.mirror_text("plan").contains(MARKER));
        if archived {
            desk.archive("ann");
        }
        accepted(desk.say("ann", Intent::Redact(Redact { records: vec![secret] }), Some(text("a secret"))));
        let erased = desk.office.erase().unwrap();
        assert!(erased.edited_mirrors.is_empty());
        assert_no_file_has(&desk, MARKER);
        let view = desk.context("plan", None);
        assert_eq!(view.redacted, [2]);
        assert!(view.text.contains("version 2 was redacted") && view.text.contains("three"), "{}", view.text);
        assert!(desk.mirror_text("plan").contains("version 2 was redacted"));
        assert!(first.version == 1 && desk.context("plan", Some(1)).redacted.is_empty());
        desk.verify();
    }
}

fn assert_no_file_has(desk: &Desk, marker: &str) {
    let mut folders = vec![desk.office.path().unwrap().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let bytes = fs::read(&path).unwrap();
                    let found = bytes.windows(marker.len()).any(|window| window == marker.as_bytes());
                    assert!(!found, "{} still has it", path.display());
                }
            }
        }
    }
}

#[test]
fn a_context_is_found_by_its_words() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    let second = accepted(desk.append("bob", "plan", "the zanzibar protocol"));
    let query = views::SearchQuery::new("zanzibar".parse::<Words>().unwrap());
    let (found, _) = views::search(desk.office.store(), &query, |_| {}).unwrap();
    assert_eq!(found.hits.iter().map(|hit| hit.number).collect::<Vec<_>>(), [second.message]);
}

// ── The mirror ───────────────────────────────────────────────────────────────────────────────────────────────

fn parts(markdown: &str) -> Option<(u64, &str)> {
    views::markdown_parts(&name("plan"), markdown).map(|parts| (parts.version, parts.text))
}

#[test]
fn the_mirror_follows_the_log_and_heals_itself() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    let mirror = |desk: &Desk| mirror::look(desk.office.store(), &name("plan")).unwrap().unwrap();
    assert_eq!(mirror(&desk), Mirror::Behind, "it is not written yet");
    desk.office.mirror(&name("plan"), false).unwrap();
    assert_eq!(mirror(&desk), Mirror::Current);
    let text = desk.mirror_text("plan");
    assert_eq!(parts(&text), Some((1, "one\n")));
    assert_eq!(views::markdown_parts(&name("other"), &text), None);
    // Two versions whose writer died before mirroring them.
    accepted(desk.append("cy", "plan", "two"));
    accepted(desk.append("cy", "plan", "three"));
    assert_eq!(mirror(&desk), Mirror::Behind);
    desk.office.mirror(&name("plan"), false).unwrap();
    assert!(desk.mirror_text("plan").contains("three"));
    // An emptied or deleted file is not an edit.
    let path = mirror::path(desk.office.path().unwrap(), &name("plan"));
    fs::write(&path, "").unwrap();
    desk.office.mirror(&name("plan"), false).unwrap();
    fs::remove_file(&path).unwrap();
    desk.office.mirror(&name("plan"), false).unwrap();
    assert!(desk.mirror_text("plan").contains("three"));
    assert_eq!(desk.office.mirror(&name("none"), false).unwrap(), None);
}

#[test]
fn an_edited_mirror_is_left_alone_until_somebody_decides() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    desk.office.mirror(&name("plan"), false).unwrap();
    let path = mirror::path(desk.office.path().unwrap(), &name("plan"));
    let edited = desk.mirror_text("plan").replace("one\n", "one\nby hand\n");
    fs::write(&path, &edited).unwrap();
    accepted(desk.append("cy", "plan", "two"));
    assert_eq!(desk.office.mirror(&name("plan"), false).unwrap(), Some(Mirror::Edited(path.clone())));
    assert_eq!(desk.mirror_text("plan"), edited, "not a byte of it was touched");
    assert_eq!(parts(&edited), Some((1, "one\nby hand\n")));
    let is_all_of_it =
        |edited: &str| mirror::differs_in_text_only(desk.office.store(), &name("plan"), 1, edited).unwrap();
    assert!(is_all_of_it(&edited), "the text is the only edit");
    assert!(!is_all_of_it(&format!("{edited}by hand, below the history\n")));
    assert!(!is_all_of_it(&edited.replace("# plan", "# The plan")));
    // A redaction names the edited mirror instead of claiming that everything is erased.
    let secret = desk.head();
    accepted(desk.say("ann", Intent::Redact(Redact { records: vec![secret] }), Some(text("a secret"))));
    assert_eq!(desk.office.erase().unwrap().edited_mirrors, [path]);
    assert_eq!(desk.office.mirror(&name("plan"), true).unwrap(), Some(Mirror::Current));
    assert!(!desk.mirror_text("plan").contains("by hand"));
}

#[test]
fn a_link_or_a_pipe_in_the_place_of_the_mirror_is_not_followed() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    desk.office.mirror(&name("plan"), false).unwrap();
    let path = mirror::path(desk.office.path().unwrap(), &name("plan"));
    let outside = desk.folder.path().join("outside.md");
    fs::write(&outside, "not ours").unwrap();
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&outside, &path).unwrap();
    assert_eq!(desk.office.mirror(&name("plan"), false).unwrap(), Some(Mirror::Edited(path.clone())));
    desk.office.mirror(&name("plan"), true).unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "not ours");
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
}

#[test]
fn a_text_with_control_characters_or_too_much_of_it_is_refused_before_anything_is_written() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    let head = desk.head();
    for document in [
        whole("a\u{1b}[31mred"),
        whole("nul\0"),
        whole(&"x".repeat(poste_core::limits::DOCUMENT_BYTES_MAX + 1)),
        Document { title: Some("two\nlines".to_owned()), ..whole("text") },
        Document { title: Some(" ".to_owned()), ..whole("text") },
        Document { data: json("[1]"), ..Document::default() },
        Document { data: json(r#"{"a":1,"a":2}"#), ..Document::default() },
    ] {
        let proposal = desk.proposal("bob", append("plan"), saying("adds", document));
        assert!(desk.try_outcome(&proposal).is_err(), "{proposal:?}");
    }
    assert_eq!(desk.head(), head);
}

#[test]
fn an_id_is_for_one_write_for_ever() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    let first = desk.proposal("bob", append("plan"), saying("adds", whole("two")));
    desk.outcome(&first);
    let mut other = first.clone();
    other.content = saying("adds", whole("something else"));
    let Outcome { verdict: Verdict::Rejected(rejection), .. } = desk.outcome(&other) else { panic!("accepted") };
    assert_eq!(rejection.code, Code::IdConflict);
    assert_eq!(desk.context("plan", None).newest, 2);
}

#[test]
fn a_repeated_lock_is_told_only_as_long_as_it_is_that_one() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    let taken = desk.proposal("bob", lock("plan", 60_000), None);
    let first = desk.outcome(&taken);
    assert_eq!(desk.outcome(&taken).verdict, first.verdict);
    accepted(desk.ask("bob", unlock("plan")));
    accepted(desk.ask("cy", lock("plan", 60_000)));
    let Outcome { verdict: Verdict::Rejected(over), repeat: true, .. } = desk.outcome(&taken) else {
        panic!("another agent's lock is reported as its own")
    };
    assert_eq!(over.code, Code::Ended);
    assert_eq!(desk.holder("plan").as_deref(), Some("cy"));
}

#[test]
fn taking_a_lock_again_never_shortens_it() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    accepted(desk.ask("bob", lock("plan", 600_000)));
    let until = |desk: &Desk| desk.context("plan", None).lock.unwrap().until;
    let before = until(&desk);
    accepted(desk.ask("bob", lock("plan", 5_000)));
    assert_eq!(until(&desk), before);
    accepted(desk.ask("bob", lock("plan", 900_000)));
    assert!(until(&desk) > before);
}

#[test]
fn redacting_a_version_names_the_later_ones_that_hold_its_words() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    accepted(desk.append("bob", "plan", "two, a secret"));
    let secret = desk.head();
    accepted(desk.append("cy", "plan", "three"));
    let fourth = accepted(desk.replace("cy", "plan", 3, "one\ntwo, a secret\nmore\n"));
    let fifth = accepted(desk.replace("cy", "plan", 4, "one\nmore\n"));
    let repeating = |desk: &Desk| -> Vec<_> {
        let found = views::repeating_versions(desk.office.store(), secret).unwrap();
        found.into_iter().map(|found| (found.version, found.message)).collect()
    };
    assert_eq!(repeating(&desk), [(4, fourth.message), (5, fifth.message)]);
    let head = desk.head();
    accepted(desk.say("ann", Intent::Redact(Redact { records: vec![head] }), Some(text("also there"))));
    desk.office.erase().unwrap();
    assert_eq!(repeating(&desk), [(4, fourth.message)]);
}

#[test]
fn a_redaction_elsewhere_leaves_the_mirror_current_and_one_bad_mirror_stops_no_erasure() {
    let mut desk = desk();
    desk.make("bob", "plan", "one\n");
    desk.make("bob", "other", "a quokka-4711\n");
    let secret = desk.head();
    for context in ["plan", "other"] {
        desk.office.mirror(&name(context), false).unwrap();
    }
    let office = desk.office.path().unwrap().to_owned();
    fs::write(office.join("contexts/plan.md~"), "an editor's copy").unwrap();
    accepted(desk.say("ann", Intent::Redact(Redact { records: vec![secret] }), Some(text("a secret"))));
    // A non-empty folder in place of the file makes writing fail.
    let state = office.join("contexts/.other.json");
    fs::remove_file(&state).unwrap();
    fs::create_dir(&state).unwrap();
    fs::write(state.join("in-the-way"), "").unwrap();
    fs::write(office.join("contexts/other.md"), "").unwrap();
    assert!(desk.office.erase().is_err(), "the unfinished erasure is reported");
    assert_no_file_has(&desk, "quokka-4711");
    fs::remove_dir_all(&state).unwrap();
    assert_eq!(desk.office.erase().unwrap().strange_files, [office.join("contexts/plan.md~")]);
    let look = |context: &str| mirror::look(desk.office.store(), &name(context)).unwrap().unwrap();
    assert_eq!((look("plan"), look("other")), (Mirror::Current, Mirror::Current));
}
