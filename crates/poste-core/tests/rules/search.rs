//! Searching: what is found, in which order, and how a damaged or foreign index is rebuilt.

use std::fs;
use std::path::PathBuf;

use poste_core::limits::CONTENT_INLINE_BYTES_MAX;
use poste_core::log::{Artifact, ArtifactState, Body, Content, Done, Fail, Intent, Send};
use poste_core::office::Rules;
use poste_core::store::Folder;
use poste_core::store::search::{Index, Start, Words, forget};
use poste_core::store::tables::State;
use poste_core::views::{self, Refreshed, SearchPage, SearchQuery};
use poste_core::{MessageNo, Position, Timestamp};
use rusqlite::Connection;

use crate::common::*;

impl Desk {
    fn write(&mut self, from: &str, to: &str, subject: &str, body: &str) -> MessageNo {
        let content = Content { subject: subject.to_owned(), ..text(body) };
        self.write_content(from, letter(to, "message"), content)
    }

    fn write_content(&mut self, from: &str, letter: Send, content: Content) -> MessageNo {
        let before = self.last_message();
        accepted(self.say(from, Intent::Send(letter), Some(content)));
        MessageNo(before.0 + 1)
    }

    fn ask_index(&self, query: &SearchQuery) -> (SearchPage, Refreshed) {
        views::search(self.office.store(), query, |_| {}).expect("a search is answered")
    }

    /// The message numbers that a search finds, in order.
    fn find(&self, words: &str) -> Vec<u64> {
        self.find_with(words, |_| {})
    }

    fn find_with(&self, words: &str, set: impl FnOnce(&mut SearchQuery)) -> Vec<u64> {
        let mut query = query(words);
        set(&mut query);
        let (page, refreshed) = self.ask_index(&query);
        assert_eq!((page.not_indexed, page.indexed_to), (0, page.as_of), "the index is up to date");
        assert!(refreshed.unreadable.is_empty(), "{refreshed:?}");
        page.hits.iter().map(|hit| hit.number.0).collect()
    }

    /// The reason why a search rebuilt its index, if it did.
    fn made_anew(&self, words: &str) -> Option<String> {
        self.ask_index(&query(words)).1.rebuilt
    }

    fn index_file(&self) -> PathBuf {
        self.place.path.join("search.db")
    }
}

fn query(words: &str) -> SearchQuery {
    SearchQuery::new(words.parse().unwrap_or_else(|error| panic!("{words}: {error}")))
}

fn with_subject(subject: &str) -> Content {
    Content { subject: subject.to_owned(), ..Content::default() }
}

// ── Matches ──────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn every_word_must_be_there_and_the_newest_comes_first() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.write("ann", "bob", "Fix the login", "It fails with a 500.");
    desk.write("ann", "bob", "Lunch", "The login can wait.");
    desk.write("bob", "ann", "Login again", "It fails, still.");
    assert_eq!(desk.find("login"), [3, 2, 1]);
    assert_eq!(desk.find("LOGIN fails"), [3, 1]);
    assert_eq!(desk.find("login -fails"), [2]);
    assert_eq!(desk.find("\"it fails with\""), [1]);
    assert_eq!(desk.find("\"fails it\""), [0; 0]);
    assert_eq!(desk.find("log*"), [3, 2, 1]);
    assert_eq!(desk.find("log"), [0; 0]);
    assert_eq!(desk.find("login -\"can wait\" -again"), [1]);
}

#[test]
fn everything_people_wrote_is_searched() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let artifact = Artifact {
        path: "src/auth.rs".to_owned(),
        worktree: None,
        state: ArtifactState::Later,
        size: None,
        digest: None,
    };
    let letter = Send { artifacts: vec![artifact], ..letter("bob", "message") };
    let payload = r#"{"branch":"topic\nbranch","count":[17,"\u00e9t\u00e9"]}"#;
    let content = Content {
        subject: "subjectword".to_owned(),
        body: Body::from("bodyword"),
        payload: Some(serde_json::value::RawValue::from_string(payload.to_owned()).unwrap()),
        context: Some("contextword".to_owned()),
        expect: Some("expectword".to_owned()),
        references: vec!["refword".to_owned()],
        metadata: [("metakey".to_owned(), "metavalue".to_owned())].into(),
        ..Content::default()
    };
    desk.write_content("ann", letter, content);
    for word in [
        "subjectword",
        "bodyword",
        "branch",
        "topic",
        "17",
        "ete",
        "contextword",
        "expectword",
        "refword",
        "metakey",
        "metavalue",
        "src/auth.rs",
        "auth",
    ] {
        assert_eq!(desk.find(word), [1], "{word}");
    }
    assert_eq!(desk.find("nbranch"), [0; 0], "an escape sequence is not indexed as text");
    assert_eq!(desk.find("subjectword bodyword topic auth"), [1]);
}

#[test]
fn what_is_said_later_is_found_under_the_message_it_is_about() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let work = letter("bob", "directive");
    let one = desk.write_content("ann", work.clone(), with_subject("Fix the login"));
    let two = desk.write_content("ann", work, with_subject("Fix the logout"));
    let three = desk.write_content("ann", letter("bob", "message"), with_subject("Only to know"));
    desk.write("ann", "bob", "Newer", "and of no interest");
    assert_eq!(desk.find("null"), [0; 0]);
    let done = Intent::Done(Done { message: one, token: None, artifacts: Vec::new() });
    let result = Content {
        summary: Some("a null check".to_owned()),
        recommend: Some("release soon".to_owned()),
        ..text("the details")
    };
    accepted(desk.say("bob", done, Some(result)));
    let fail = Intent::Fail(Fail { message: two, token: None, retry: false, delay_ms: None });
    accepted(desk.say("bob", fail, Some(text("null and void"))));
    accepted(desk.ack("bob", three));
    assert_eq!(desk.find("null"), [2, 1]);
    assert_eq!(desk.find("login null details soon"), [1], "words of the message and of its result combine");
    assert_eq!(desk.find("noted"), [3]);
    assert_eq!(desk.find("login -null"), [0; 0]);
    let by_bob = desk.find_with("null", |query| query.filters.agent = Some("bob".parse().unwrap()));
    assert_eq!(by_bob, [2, 1]);
    assert_eq!(desk.find("void"), [2], "the sender's notice repeats it and is not found as well");
}

#[test]
fn names_with_punctuation_are_found_whole_and_by_part() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.write("ann", "bob", "ISSUE-12", "see src/auth.rs:foo_bar and user@example.org");
    desk.write("ann", "bob", "ISSUE-13", "see src/main.rs");
    assert_eq!(desk.find("ISSUE-12"), [1]);
    assert_eq!(desk.find("issue"), [2, 1]);
    assert_eq!(desk.find("src/auth.rs"), [1]);
    assert_eq!(desk.find("src"), [2, 1]);
    assert_eq!(desk.find("foo_bar"), [1]);
    assert_eq!(desk.find("bar foo"), [1]);
    assert_eq!(desk.find("bar_foo"), [0; 0]);
    assert_eq!(desk.find("user@example.org"), [1]);
    assert_eq!(desk.find("src/ma*"), [2]);
}

#[test]
fn case_accents_and_scripts_without_spaces_are_no_hindrance() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.write("ann", "bob", "À l'École", "ÜBER größe naïve Ångström");
    desk.write("ann", "bob", "これは漢字の検索です", "한국어입니다");
    let content = Content {
        subject: "bytes".to_owned(),
        body: Body(b"caf\xff plain\xfe text\0nul".to_vec()),
        ..Content::default()
    };
    desk.write_content("ann", letter("bob", "message"), content);
    for (words, found) in [
        ("ecole", 1),
        ("über", 1),
        ("uber GRÖSSE".split(' ').next().unwrap(), 1),
        ("Größe", 1),
        ("e\u{301}cole", 1),
        ("angstrom", 1),
        ("漢字", 2),
        ("検索", 2),
        ("한국", 2),
        ("plain", 3),
        ("nul", 3),
    ] {
        assert_eq!(desk.find(words), [found], "{words}");
    }
    assert_eq!(desk.find("字漢"), [0; 0]);
}

#[test]
fn a_large_body_is_found_and_a_lost_one_keeps_nothing_else_from_being_found() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.leave_unverified();
    let large = format!("{} needle", "hay ".repeat(CONTENT_INLINE_BYTES_MAX));
    desk.write("ann", "bob", "large", &large);
    desk.write("ann", "bob", "small", "needle too");
    assert_eq!(desk.find("needle"), [2, 1]);
    let blob = fs::read_dir(desk.place.path.join("blobs")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&blob).unwrap();
    fs::write(&blob, "not what it was").unwrap();
    forget(&Folder::open(&desk.place.path).unwrap()).unwrap();
    let (page, refreshed) = desk.ask_index(&query("needle"));
    assert_eq!(page.hits.len(), 1);
    assert_eq!(refreshed.unreadable, [MessageNo(1)].into(), "the loss is reported");
    let (_, refreshed) = desk.ask_index(&query("needle"));
    assert_eq!(refreshed.unreadable, [MessageNo(1)].into(), "it is reported every time");
    fs::remove_file(&blob).unwrap();
    let (_, refreshed) = desk.ask_index(&query("needle"));
    assert_eq!(refreshed.unreadable, [MessageNo(1)].into(), "a missing blob is reported like a damaged one");
    fs::write(&blob, whole).unwrap();
    let (page, refreshed) = desk.ask_index(&query("needle"));
    assert_eq!((page.hits.len(), refreshed.unreadable.len()), (2, 0), "the blob is back");
}

#[test]
fn searching_marks_nothing_and_writes_nothing_into_the_office() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.write("ann", "bob", "Fix the login", "now");
    let before = desk.tables();
    assert_eq!(desk.find("login"), [1]);
    assert_eq!(desk.tables(), before);
    assert!(desk.delivery(number).shown_at.is_none());
}

#[test]
fn a_hit_says_what_an_inbox_would_and_marks_the_words() {
    let mut desk = Desk::with(&["ann", "bob", "cem"]);
    desk.write("ann", "bob cem", "Fix the login", "The login\nfails.");
    accepted(desk.ack("bob", MessageNo(1)));
    let (page, _) = desk.ask_index(&query("login"));
    let hit = &page.hits[0];
    assert_eq!((hit.from.as_str(), hit.recipients), ("ann", 2));
    assert_eq!(hit.to, ["bob", "cem"]);
    let states: Vec<(State, u64)> = hit.states.iter().map(|of| (of.state, of.count)).collect();
    assert_eq!(states, [(State::Pending, 1), (State::Done, 1)]);
    let marked: Vec<(&str, bool)> = hit.snippet.iter().map(|piece| (piece.text.as_str(), piece.matched)).collect();
    assert_eq!(marked, [("The ", false), ("login", true), (" fails. noted", false)]);
    assert_eq!(hit.subject, "Fix the login");
    assert!(hit.marked_subject.iter().any(|piece| piece.matched && piece.text == "login"));
}

// ── Filters and pages ────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn filters_let_only_their_messages_through() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.register("rea", with_role("reviewer"));
    let word = || with_subject("word");
    desk.write_content("ann", letter("bob", "message"), word());
    desk.write_content("bob", letter("ann", "question"), word());
    desk.write_content("ann", letter("role:reviewer", "directive"), word());
    let in_a_conversation = Send { conversation: Some("Release.2".parse().unwrap()), ..letter("rea", "message") };
    desk.write_content("bob", in_a_conversation, word());
    accepted(desk.done("rea", MessageNo(3)));
    let found = |set: &dyn Fn(&mut SearchQuery)| desk.find_with("word", set);
    assert_eq!(found(&|query| query.filters.from = Some("ann".parse().unwrap())), [3, 1]);
    assert_eq!(found(&|query| query.filters.to = Some("ann".parse().unwrap())), [2]);
    assert_eq!(found(&|query| query.filters.to = Some("role:reviewer".parse().unwrap())), [3]);
    assert_eq!(found(&|query| query.filters.agent = Some("ann".parse().unwrap())), [3, 2, 1]);
    assert_eq!(found(&|query| query.filters.agent = Some("rea".parse().unwrap())), [4, 3]);
    assert_eq!(found(&|query| query.filters.kind = Some("question".parse().unwrap())), [2]);
    assert_eq!(found(&|query| query.filters.conversation = Some("Release.2".parse().unwrap())), [4]);
    assert_eq!(found(&|query| query.filters.conversation = Some("release.2".parse().unwrap())), [0; 0]);
    assert_eq!(found(&|query| query.state = Some(State::Done)), [3]);
    assert_eq!(found(&|query| query.state = Some(State::Pending)), [4, 2, 1]);
    assert_eq!(
        found(&|query| {
            query.filters.from = Some("bob".parse().unwrap());
            query.filters.kind = Some("message".parse().unwrap());
            query.state = Some(State::Pending);
        }),
        [4]
    );
    // Text that looks like a name, or like a filter's form in the index, does not act as a filter.
    desk.write("bob", "ann", "word f616e6e", "");
    assert_eq!(desk.find("f616e6e"), [5]);
    assert_eq!(desk.find_with("word", |query| query.filters.from = Some("ann".parse().unwrap())), [3, 1]);
}

#[test]
fn times_are_ranges_from_and_before() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let mut sent: Vec<Timestamp> = Vec::new();
    for _ in 0..4 {
        sent.push(desk.now());
        desk.write("ann", "bob", "word", "");
        desk.pass(HOUR);
    }
    let between = |since: Option<Timestamp>, until: Option<Timestamp>| {
        desk.find_with("word", |query| (query.since, query.until) = (since, until))
    };
    assert_eq!(between(Some(sent[1]), None), [4, 3, 2]);
    assert_eq!(between(Some(sent[1].plus_ms(1)), None), [4, 3]);
    assert_eq!(between(None, Some(sent[1])), [1]);
    assert_eq!(between(Some(sent[1]), Some(sent[3])), [3, 2]);
    assert_eq!(between(Some(sent[3].plus_ms(DAY)), None), [0; 0]);
    assert_eq!(between(Some(Timestamp::ZERO), Some(Timestamp::MAX)), [4, 3, 2, 1]);
}

#[test]
fn pages_follow_each_other_without_gap_or_overlap() {
    let mut desk = Desk::with(&["ann", "bob"]);
    for index in 0..7 {
        desk.write("ann", "bob", "word", if index % 3 == 0 { "third" } else { "" });
    }
    let mut query = query("word");
    query.limit = 3;
    let mut seen = Vec::new();
    let mut pages = 0;
    loop {
        let (page, _) = desk.ask_index(&query);
        seen.extend(page.hits.iter().map(|hit| hit.number.0));
        pages += 1;
        let Some(before) = page.next_before else { break };
        query.before = Some(before);
    }
    assert_eq!((seen, pages), (vec![7, 6, 5, 4, 3, 2, 1], 3));
    query.before = None;
    query.limit = 7;
    assert_eq!(desk.ask_index(&query).0.next_before, None, "the last page has no successor");
}

#[test]
fn relevance_puts_a_word_in_the_subject_and_a_word_said_often_first() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.write("ann", "bob", "needle", "something else entirely");
    desk.write("ann", "bob", "hay", "a needle somewhere in a long text with many other words in it");
    desk.write("ann", "bob", "hay", "needle needle needle");
    desk.write("ann", "bob", "hay", "no such thing");
    desk.write("ann", "bob", "hay", "nor here");
    let ranked = desk.find_with("needle", |query| query.rank = true);
    assert_eq!(ranked.last(), Some(&2), "{ranked:?}");
    assert_eq!(ranked.len(), 3);
    assert_eq!(desk.find_with("needle", |query| (query.rank, query.limit) = (true, 1)).len(), 1);
    assert_eq!(desk.find("needle"), [3, 2, 1]);
}

#[test]
fn who_subscribed_later_and_got_old_mail_is_one_of_its_recipients() {
    let mut desk = Desk::with(&["ann", "bob"]);
    accepted(desk.subscribe("ann", "News", None));
    let number = desk.write_content("ann", letter("topic:News", "message"), with_subject("word"));
    let to_bob = |desk: &Desk| desk.find_with("word", |query| query.filters.to = Some("bob".parse().unwrap()));
    assert_eq!(to_bob(&desk), [0; 0]);
    accepted(desk.subscribe("bob", "News", Some(Position(0))));
    assert!(desk.states(number).iter().any(|(to, _)| to == "bob"), "{:?}", desk.states(number));
    assert_eq!(to_bob(&desk), [number.0]);
}

#[test]
fn no_search_is_an_error_of_the_database() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.write(
        "ann",
        "bob",
        "AND OR NOT NEAR",
        "a \"quoted\" word; DROP TABLE texts; col:umn ^first {set} (group) a+b -- x",
    );
    for words in [
        "AND",
        "OR NOT",
        "NEAR(a b, 2)",
        "a AND",
        "NOT",
        "\"",
        "\"\"\"",
        "\"a\"\"b\"",
        "'",
        "a'b",
        "subject:x",
        "{body} : a",
        "(",
        ")",
        "a(b",
        "^first",
        "a + b",
        "*",
        "**",
        "a* b*",
        "-",
        "--",
        "- a",
        "-\"",
        "a -",
        "\0",
        "a\0b",
        "\"a\0b\"",
        "\u{202e}",
        "\\",
        "%",
        "_",
        "; DROP TABLE texts; --",
        "tags:f616e6e",
        "\u{fffd}\u{fffd}",
        "a\u{200b}b",
        "𝔘𝔫𝔦",
        "\t\n a \r",
        "rank",
        "texts",
    ] {
        let Ok(words) = words.parse::<Words>() else { continue };
        let (page, refreshed) = desk.ask_index(&SearchQuery::new(words));
        assert!(page.hits.len() <= 1 && refreshed.rebuilt.is_none());
    }
    assert_eq!(desk.find("AND NOT near"), [1]);
    assert_eq!(desk.find("\"drop table\""), [1]);
    let most = "ab ".repeat(32);
    assert_eq!(desk.find(&most), [0; 0]);
    let long = format!("\"{}\"", "ab ".repeat(1_300));
    assert_eq!(desk.find(&long), [0; 0]);
}

// ── The index ────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn an_index_grows_with_the_office_and_is_read_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut desk = Desk::with(&["ann", "bob"]);
    assert!(!desk.index_file().exists());
    assert_eq!(desk.find("word"), [0; 0]);
    for number in 1..=3 {
        desk.write("ann", "bob", "word", "");
        assert_eq!(desk.find("word"), (1..=number).rev().collect::<Vec<_>>());
        assert_eq!(desk.made_anew("word"), None);
    }
    for name in ["search.db", "search.db-wal", "search.db-shm"] {
        let mode = fs::metadata(desk.place.path.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn an_index_that_is_not_of_this_office_is_made_anew_and_it_is_said_why() {
    let mut other = Desk::with(&["ann", "bob"]);
    other.write("ann", "bob", "secret of the others", "");
    assert_eq!(other.find("secret"), [1]);
    other.office.store().conn(); // the index is closed, and its WAL is in the folder
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.write("ann", "bob", "word", "");
    assert_eq!(desk.find("word"), [1]);
    forget(&Folder::open(&desk.place.path).unwrap()).unwrap();
    for name in ["search.db", "search.db-wal"] {
        fs::copy(other.place.path.join(name), desk.place.path.join(name)).unwrap();
    }
    assert_eq!(desk.made_anew("word").as_deref(), Some("it belongs to another office"));
    assert_eq!(desk.find("secret"), [0; 0]);
    assert_eq!(desk.find("word"), [1]);
}

#[test]
fn an_index_of_another_format_or_another_history_is_made_anew() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.write("ann", "bob", "word", "");
    let tamper = |desk: &Desk, sql: &str| {
        assert_eq!(desk.find("word"), [1]);
        Connection::open(desk.index_file()).unwrap().execute_batch(sql).unwrap();
        let why = desk.made_anew("word");
        assert_eq!(desk.find("word"), [1]);
        why
    };
    let why = tamper(&desk, "PRAGMA user_version = 99");
    assert_eq!(why.as_deref(), Some("it has another format"));
    let why = tamper(&desk, "PRAGMA application_id = 99");
    assert_eq!(why.as_deref(), Some("it is not a search index"));
    let other_log = Some("it was made from another log");
    assert_eq!(tamper(&desk, "UPDATE meta SET value = 1000 WHERE key = 'position'").as_deref(), other_log);
    assert_eq!(tamper(&desk, "UPDATE meta SET value = zeroblob(32) WHERE key = 'chain'").as_deref(), other_log);
    assert_eq!(tamper(&desk, "DELETE FROM meta WHERE key = 'chain'").as_deref(), Some("it is damaged"));
    assert_eq!(tamper(&desk, "UPDATE meta SET value = 'x' WHERE key = 'position'").as_deref(), Some("it is damaged"));
    assert_eq!(tamper(&desk, "DROP TABLE said").as_deref(), Some("it is damaged"));
    assert_eq!(tamper(&desk, "DROP TABLE meta").as_deref(), Some("it is damaged"));
}

#[test]
fn a_damaged_index_is_made_anew_wherever_the_damage_is() {
    let mut desk = Desk::with(&["ann", "bob"]);
    for index in 0..300 {
        desk.office
            .submit(
                &[proposal(
                    &format!("bulk {index}"),
                    "ann",
                    Timestamp::from_ms(MORNING),
                    Intent::Send(letter("bob", "message")),
                    Some(text(&format!("word number{index} {}", "filler ".repeat(20)))),
                )],
                &Rules::none(),
            )
            .unwrap();
    }
    let all: Vec<u64> = (1..=300).rev().take(20).collect();
    let damage = |desk: &Desk, change: &dyn Fn(&mut Vec<u8>)| {
        assert_eq!(desk.find("word"), all);
        // Checkpoint the WAL, so that the file holds the whole index.
        let conn = Connection::open(desk.index_file()).unwrap();
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        drop(conn);
        let mut bytes = fs::read(desk.index_file()).unwrap();
        change(&mut bytes);
        fs::write(desk.index_file(), bytes).unwrap();
        let _ = fs::remove_file(desk.place.path.join("search.db-shm"));
        let why = desk.made_anew("word");
        assert_eq!(desk.find("word"), all);
        why
    };
    let damaged = Some("it is damaged".to_owned());
    assert_eq!(damage(&desk, &|bytes| bytes.fill(0xa5)), damaged);
    assert_eq!(damage(&desk, &|bytes| bytes.truncate(5_000)), damaged);
    assert_eq!(damage(&desk, &|bytes| bytes[4_096..].fill(0)), damaged);
    assert_eq!(damage(&desk, &|bytes| bytes[100..4_096].fill(0xff)), damaged);
    damage(&desk, &|bytes| bytes.clear());
    fs::remove_file(desk.index_file()).unwrap();
    std::os::unix::fs::symlink("/dev/null", desk.index_file()).unwrap();
    assert_eq!(desk.made_anew("word").as_deref(), Some("it is not a regular file"));
    assert_eq!(desk.find("word"), all);
}

#[test]
fn an_index_behind_a_restored_office_is_made_anew() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.leave_unverified();
    desk.write("ann", "bob", "before", "");
    let database = desk.place.path.join("office.db");
    let copy = desk.place.path.join("copy.db");
    desk.office.store().conn().execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    Connection::open(&copy).unwrap().pragma_update(None, "journal_mode", "wal").unwrap();
    desk.write("ann", "bob", "forgotten", "");
    desk.write("ann", "bob", "forgotten", "");
    assert_eq!(desk.find("forgotten"), [3, 2]);
    let restore = |desk: &mut Desk| {
        for name in ["office.db", "office.db-wal", "office.db-shm", "bell"] {
            let _ = fs::remove_file(desk.place.path.join(name));
        }
        fs::copy(&copy, &database).unwrap();
        make_private(&database);
        desk.office = desk.place.open().unwrap();
    };
    restore(&mut desk);
    assert!(desk.made_anew("before").unwrap().contains("another log"), "the index knows more than the log");
    desk.write("ann", "bob", "forgotten", "");
    assert_eq!(desk.find("forgotten"), [2]);
    restore(&mut desk);
    desk.write("ann", "bob", "otherwise", "");
    assert!(desk.made_anew("before").unwrap().contains("another log"), "the same length, another history");
    assert_eq!(desk.find("forgotten"), [0; 0]);
    assert_eq!(desk.find("otherwise"), [2]);
}

#[test]
fn forgetting_leaves_no_byte_behind_and_costs_only_time() {
    let mut desk = Desk::with(&["ann", "bob"]);
    assert!(!forget(&Folder::open(&desk.place.path).unwrap()).unwrap(), "there was no index");
    assert!(!desk.place.path.join("search.lock").exists(), "no lock was taken");
    desk.write("ann", "bob", "word", "");
    assert_eq!(desk.find("word"), [1]);
    let (open, start) = Index::open(desk.office.store()).unwrap();
    assert_eq!(start, Start::Found);
    assert!(forget(&Folder::open(&desk.place.path).unwrap()).unwrap());
    for name in ["search.db", "search.db-wal", "search.db-shm"] {
        assert!(!desk.place.path.join(name).exists(), "{name}");
    }
    assert!(!open.is_current(), "a process that has it open can tell");
    assert_eq!(desk.find("word"), [1]);
    drop(open);
    assert_eq!(desk.find("word"), [1], "closing the old file did not touch the new one");
    assert_eq!(desk.made_anew("word"), None);
}

#[test]
fn a_chunk_that_is_not_committed_changed_nothing() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.write("ann", "bob", "word", "");
    assert_eq!(desk.find("word"), [1]);
    let (index, _) = Index::open(desk.office.store()).unwrap();
    let mut chunk = index.begin().unwrap().unwrap();
    chunk.add_waiting(MessageNo(1)).unwrap();
    chunk.add_said(MessageNo(1), Position(2)).unwrap();
    drop(chunk);
    assert_eq!((index.waiting().unwrap(), index.said(MessageNo(1)).unwrap().len()), (0, 0));
}

#[test]
fn a_search_beside_one_that_fills_the_index_answers_with_what_is_there_and_says_so() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.write("ann", "bob", "word", "");
    assert_eq!(desk.find("word"), [1]);
    desk.write("ann", "bob", "word", "");
    let (other, _) = Index::open(desk.office.store()).unwrap();
    let chunk = other.begin().unwrap().unwrap();
    let (page, _) = desk.ask_index(&query("word"));
    assert_eq!(page.hits.len(), 1);
    assert!(page.indexed_to < page.as_of, "{page:?}");
    drop(chunk);
    assert_eq!(desk.find("word"), [2, 1]);
}
