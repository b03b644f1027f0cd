//! A desk in a real office: helpers for every proposal, and two checks that run in every test.
//!
//! * A refusal changes no table: [`Desk::outcome`] compares the digest of all tables around each one.
//! * The tables are what the log folds to: dropping the desk runs `verify`.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use poste_core::fold::{Claimed, Code, Effect, Late, Outcome, Rejection, Sent, Verdict};
use poste_core::log::{
    Ack, Body, Claim, Content, Done, Ends, EndsHow, Extend, Fail, Intent, Proof, Proposal, Register, Release, Retire,
    Retry, Send, Shown, Subscribe, TopicPattern, Unsubscribe, Via,
};
use poste_core::office::{self, Place, Settled};
use poste_core::store::clock::{Boot, Clock};
use poste_core::store::table_digest::digest;
use poste_core::store::tables::{Delivery, Event, Message, Notice, State};
use poste_core::store::{Options, Store};
use poste_core::text::{Name, RecordId, Session};
use poste_core::time::When;
use poste_core::views::{self, DeliveryView, NewMail, NewsQuery, RecordView};
use poste_core::vocabulary::AgentKind;
use poste_core::{Digest, Error, MessageNo, Office, Position, Timestamp};

pub const SECOND: i64 = 1_000;
pub const MINUTE: i64 = 60 * SECOND;
pub const HOUR: i64 = 60 * MINUTE;
pub const DAY: i64 = 24 * HOUR;

/// The time at which every test begins, in 2027.
pub const MORNING: i64 = 1_800_000_000_000;
/// The default lease of a claim.
pub const LEASE: i64 = 10 * MINUTE;

/// Both clocks of a machine, moved by hand.
#[derive(Debug)]
pub struct FakeClock(Mutex<Hands>);

#[derive(Debug)]
struct Hands {
    wall_ms: i64,
    boots: u32,
    boot_ms: i64,
}

impl FakeClock {
    fn new() -> Self {
        Self(Mutex::new(Hands { wall_ms: MORNING, boots: 1, boot_ms: 5_000 }))
    }

    fn turn(&self, by: impl FnOnce(&mut Hands)) {
        by(&mut self.0.lock().expect("no test panics while turning the hands"));
    }

    /// Advances both clocks.
    pub fn pass(&self, ms: i64) {
        self.turn(|hands| {
            hands.wall_ms += ms;
            hands.boot_ms += ms;
        });
    }

    /// Sets the wall clock without advancing the boot clock.
    pub fn set_wall(&self, by_ms: i64) {
        self.turn(|hands| hands.wall_ms += by_ms);
    }

    /// The machine is off for this time: the boot clock restarts.
    pub fn reboot_after(&self, ms: i64) {
        self.turn(|hands| {
            hands.wall_ms += ms;
            hands.boots += 1;
            hands.boot_ms = 10;
        });
    }
}

impl Clock for FakeClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_ms(self.0.lock().expect("no test panics while turning the hands").wall_ms)
    }

    fn boot(&self) -> Boot {
        let hands = self.0.lock().expect("no test panics while turning the hands");
        Boot { id: format!("boot {}", hands.boots), ms: hands.boot_ms }
    }
}

/// One office, open, with a clock of its own.
pub struct Desk {
    pub office: Office,
    pub clock: Arc<FakeClock>,
    pub place: Place,
    pub folder: tempfile::TempDir,
    ids: u32,
    verified_at_the_end: bool,
}

/// The result of a proposal.
pub type Answer<T = Effect> = Result<T, Rejection>;

impl Desk {
    /// An empty office.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let clock = Arc::new(FakeClock::new());
        let options = Options { state: Some(folder.path().join("state/poste")), ..Options::default() };
        let place = Place { path: folder.path().join(".poste"), clock: Arc::clone(&clock) as _, options };
        assert!(place.create().expect("the office is made"));
        let office = place.open().expect("the office opens");
        Self { office, clock, place, folder, ids: 0, verified_at_the_end: true }
    }

    /// An office with these agents, none of them with a role.
    pub fn with(names: &[&str]) -> Self {
        let mut desk = Self::new();
        for name in names {
            desk.register(name, agent());
        }
        desk
    }

    /// For tests that damage or replace the database: skips the final verification.
    pub fn leave_unverified(&mut self) {
        self.verified_at_the_end = false;
    }

    /// The path of `poste.toml`.
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("poste.toml")
    }

    // ── Proposing ────────────────────────────────────────────────────────────────────────────────────────

    pub fn proposal(&mut self, who: &str, intent: Intent, content: Option<Content>) -> Proposal {
        self.ids += 1;
        let id = format!("test {}", self.ids);
        proposal(&id, who, self.clock.wall(), intent, content)
    }

    /// Proposes, and asserts that a refusal or an error changes no table.
    pub fn try_outcome(&mut self, proposal: &Proposal) -> Result<Outcome, Error> {
        let before = self.tables();
        let answer = crate::propose(&mut self.office, proposal);
        match &answer {
            Err(_) => assert_eq!(self.tables(), before, "an error changed the tables: {proposal:?}"),
            Ok(Outcome { verdict: Verdict::Accepted(_), repeat: false, .. }) => {}
            Ok(outcome) => {
                assert!(outcome.repeat || outcome.position.is_none(), "a local log keeps no refusal: {outcome:?}");
                self.assert_only_due_things_happened(proposal, outcome, before);
            }
        }
        answer
    }

    /// Due items are settled before a proposal is refused. So any new records are the office's own, and once nothing is
    /// due any more, the same refusal changes nothing.
    fn assert_only_due_things_happened(&mut self, proposal: &Proposal, outcome: &Outcome, before: Tables) {
        if self.tables() == before {
            return;
        }
        for record in self.records_after(before.head) {
            assert!(matches!(record.name.as_str(), "tick" | "clock"), "a refusal left {record:?}");
        }
        let settled = self.tables();
        assert_ne!(settled.head, before.head, "a refusal changed tables without a record: {proposal:?}");
        let again = crate::propose(&mut self.office, proposal).expect("the same proposal is answered again");
        assert_eq!(again.verdict, outcome.verdict, "the answer changed although nothing is due any more");
        assert_eq!(self.tables(), settled, "a refusal changed the tables: {proposal:?}");
    }

    pub fn outcome(&mut self, proposal: &Proposal) -> Outcome {
        self.try_outcome(proposal).expect("the office answers")
    }

    pub fn say(&mut self, who: &str, intent: Intent, content: Option<Content>) -> Answer {
        let proposal = self.proposal(who, intent, content);
        self.outcome(&proposal).verdict.accepted()
    }

    pub fn ask(&mut self, who: &str, intent: Intent) -> Answer {
        self.say(who, intent, None)
    }

    /// What any program can do that uses the name.
    pub fn unproven(&mut self, who: &str, intent: Intent) -> Answer {
        self.proven(who, Proof::None, intent)
    }

    pub fn proven(&mut self, who: &str, proof: Proof, intent: Intent) -> Answer {
        let proposal = Proposal { proof, ..self.proposal(who, intent, None) };
        self.outcome(&proposal).verdict.accepted()
    }

    pub fn register(&mut self, name: &str, register: Register) {
        accepted(self.ask(name, Intent::Register(register)));
    }

    pub fn retire(&mut self, who: &str, name: &str) -> Answer {
        self.ask(who, Intent::Retire(Retire { name: name.parse().expect("a name") }))
    }

    /// Sends; the answer of the fold.
    pub fn post(&mut self, from: &str, letter: Send) -> Answer<Sent> {
        self.say(from, Intent::Send(letter), Some(text("please"))).map(|effect| match effect {
            Effect::Sent(sent) => sent,
            other => panic!("unexpected effect: {other:?}"),
        })
    }

    /// Sends a message that must be accepted; its number.
    pub fn send(&mut self, from: &str, to: &str, kind: &str) -> MessageNo {
        accepted(self.post(from, letter(to, kind))).number
    }

    pub fn claim(&mut self, who: &str, message: MessageNo) -> Answer<Position> {
        self.claim_for(who, message, None)
    }

    /// Claims with this lease; the token.
    pub fn claim_for(&mut self, who: &str, message: MessageNo, lease_ms: Option<i64>) -> Answer<Position> {
        let claim = Claim { message: Some(message), max: 1, lease_ms, types: Vec::new() };
        self.ask(who, Intent::Claim(claim)).map(|effect| claimed(effect).token)
    }

    /// Claims the best waiting mail; its numbers in the order of the answer.
    pub fn claim_best(&mut self, who: &str, max: u32) -> Answer<Vec<MessageNo>> {
        let claim = Claim { message: None, max, lease_ms: None, types: Vec::new() };
        let items = self.ask(who, Intent::Claim(claim)).map(|effect| claimed(effect).items)?;
        Ok(items.into_iter().map(|item| item.number).collect())
    }

    pub fn done(&mut self, who: &str, message: MessageNo) -> Answer {
        self.done_with(who, message, None)
    }

    pub fn done_with(&mut self, who: &str, message: MessageNo, token: Option<Position>) -> Answer {
        let result = Content { summary: Some(format!("done by {who}")), ..Content::default() };
        self.say(who, Intent::Done(Done { message, token, artifacts: Vec::new() }), Some(result))
    }

    pub fn done_saying(&mut self, who: &str, message: MessageNo, words: &str) -> Position {
        let done = Done { message, token: None, artifacts: Vec::new() };
        accepted(self.say(who, Intent::Done(done), Some(text(words))));
        self.head()
    }

    pub fn fail(&mut self, who: &str, message: MessageNo) -> Answer {
        self.say(who, Intent::Fail(Fail { message, token: None, retry: false, delay_ms: None }), Some(text("it broke")))
    }

    /// `fail --retry`.
    pub fn fail_retry(&mut self, who: &str, message: MessageNo, token: Option<Position>) -> Answer {
        self.say(who, Intent::Fail(Fail { message, token, retry: true, delay_ms: None }), Some(text("not this time")))
    }

    pub fn release(&mut self, who: &str, message: MessageNo, token: Option<Position>) -> Answer {
        self.ask(who, Intent::Release(Release { message, token }))
    }

    pub fn extend(&mut self, who: &str, message: MessageNo, token: Option<Position>) -> Answer {
        self.ask(who, Intent::Extend(Extend { message, token, lease_ms: None }))
    }

    pub fn ack(&mut self, who: &str, message: MessageNo) -> Answer {
        self.say(who, Intent::Ack(Ack { message }), Some(text("noted")))
    }

    pub fn shown(&mut self, who: &str, message: MessageNo) -> Answer {
        self.ask(who, Intent::Shown(Shown { messages: vec![message] }))
    }

    pub fn retry(&mut self, who: &str, message: MessageNo) -> Answer {
        self.ask(who, Intent::Retry(Retry { message, recipient: None }))
    }

    /// `reply`, without `--done`.
    pub fn reply(&mut self, who: &str, to: MessageNo) -> Answer<Sent> {
        self.post(who, answer_to(to))
    }

    pub fn subscribe(&mut self, who: &str, topic: &str, from: Option<Position>) -> Answer {
        let topic: TopicPattern = topic.parse().expect("a topic");
        self.ask(who, Intent::Subscribe(Subscribe { topic, from }))
    }

    pub fn unsubscribe(&mut self, who: &str, topic: &str) -> Answer {
        let topic: TopicPattern = topic.parse().expect("a topic");
        self.ask(who, Intent::Unsubscribe(Unsubscribe { topic }))
    }

    /// Advances the clocks and settles due items, as any command would.
    pub fn pass(&mut self, ms: i64) {
        self.clock.pass(ms);
        self.settle();
    }

    pub fn settle(&mut self) {
        assert_eq!(self.office.settle().expect("the office settles"), Settled::Yes);
    }

    /// Uses up attempts with `fail --retry`, waiting out each delay, until `left` remain of the default five.
    pub fn fail_until(&mut self, who: &str, message: MessageNo, left: u32) {
        while self.delivery(message).attempts < 5 - left {
            let token = accepted(self.claim(who, message));
            accepted(self.fail_retry(who, message, Some(token)));
            self.pass(HOUR);
        }
    }

    // ── Views ────────────────────────────────────────────────────────────────────────────────────────────

    /// The head of the log and the digest of all tables.
    pub fn tables(&self) -> Tables {
        let digest = digest(self.office.store().conn()).expect("the tables have a digest");
        Tables { head: self.head(), digest }
    }

    pub fn head(&self) -> Position {
        office::head(self.office.store()).expect("the log has an end")
    }

    pub fn now(&self) -> Timestamp {
        self.office.now().expect("the office knows the time")
    }

    pub fn records_after(&self, position: Position) -> Vec<RecordView> {
        views::records(self.office.store(), position, usize::from(u16::MAX)).expect("the log can be read")
    }

    /// The names of the records after a position, oldest first.
    pub fn kinds_after(&self, position: Position) -> Vec<String> {
        self.records_after(position).into_iter().map(|record| record.name).collect()
    }

    pub fn message(&self, number: MessageNo) -> Message {
        let tables = self.office.store().tables().expect("the tables load");
        tables.message(number).expect("messages can be read").expect("the message is there")
    }

    pub fn last_message(&self) -> MessageNo {
        self.office.store().tables().expect("the tables load").cursor.message_last
    }

    pub fn deliveries(&self, number: MessageNo) -> Vec<Delivery> {
        let tables = self.office.store().tables().expect("the tables load");
        tables.deliveries_of(number).expect("deliveries can be read")
    }

    /// The only delivery of a message.
    pub fn delivery(&self, number: MessageNo) -> Delivery {
        let mut all = self.deliveries(number);
        assert_eq!(all.len(), 1, "message {number} has one delivery");
        all.remove(0)
    }

    pub fn state(&self, number: MessageNo) -> State {
        self.delivery(number).state
    }

    /// The address and state of each delivery of a message.
    pub fn states(&self, number: MessageNo) -> Vec<(String, State)> {
        self.deliveries(number).into_iter().map(|delivery| (delivery.address.to_string(), delivery.state)).collect()
    }

    /// What `track` shows for the only delivery of a message.
    pub fn track(&self, number: MessageNo) -> DeliveryView {
        let track = views::track(self.office.store(), number, self.now()).expect("it can be tracked");
        let mut all = track.expect("the message is there").deliveries;
        assert_eq!(all.len(), 1, "message {number} has one delivery");
        all.remove(0)
    }

    pub fn history(&self, number: MessageNo) -> Vec<Event> {
        self.track(number).history.into_iter().map(|step| step.event).collect()
    }

    /// All notices.
    pub fn notices(&self) -> Vec<Told> {
        let tables = self.office.store().tables().expect("the tables load");
        (1..=self.last_message().0)
            .filter_map(|number| tables.message(MessageNo(number)).expect("messages can be read"))
            .filter_map(|message| {
                let to = self.delivery_address(message.number);
                Some(Told { number: message.number, to, what: message.notice?, about: message.reply_to? })
            })
            .collect()
    }

    fn delivery_address(&self, number: MessageNo) -> String {
        self.deliveries(number).first().map(|delivery| delivery.address.to_string()).unwrap_or_default()
    }

    /// The notices about one message: the notified agent and the kind.
    pub fn told_of(&self, about: MessageNo) -> Vec<(String, Notice)> {
        self.notices().into_iter().filter(|told| told.about == about).map(|told| (told.to, told.what)).collect()
    }

    /// What `wait` would return without waiting.
    pub fn mail(&self, who: &str, after: Option<Position>) -> NewMail {
        self.page(who, after, 100)
    }

    /// The cursor for the next `wait --after`.
    pub fn cursor(&self, who: &str, after: Option<Position>) -> Position {
        self.mail(who, after).cursor.expect("nothing was left out")
    }

    pub fn page(&self, who: &str, after: Option<Position>, limit: usize) -> NewMail {
        let (name, session) = speaker(who);
        let agent = self.office.agent(&name).expect("agents can be read").expect("the agent is registered");
        let query = NewsQuery { session, after, limit, ..NewsQuery::default() };
        views::news(self.office.store(), &agent, &query).expect("news can be read")
    }

    pub fn news(&self, who: &str) -> Vec<MessageNo> {
        self.mail(who, None).messages.into_iter().map(|message| message.number).collect()
    }

    pub fn news_after(&self, who: &str, after: Position) -> Vec<MessageNo> {
        self.mail(who, Some(after)).messages.into_iter().map(|message| message.number).collect()
    }

    /// What `wait` would return at its second look, after the first found nothing up to this position.
    pub fn news_since(&self, who: &str, looked: Position) -> Vec<MessageNo> {
        let (name, session) = speaker(who);
        let agent = self.office.agent(&name).expect("agents can be read").expect("the agent is registered");
        let query = NewsQuery { session, looked_until: Some(looked), limit: 100, ..NewsQuery::default() };
        let mail = views::news(self.office.store(), &agent, &query).expect("news can be read");
        mail.messages.into_iter().map(|message| message.number).collect()
    }

    pub fn verify(&self) {
        let report = views::verify(self.office.store(), |_| {}).expect("the office can be verified");
        assert!(report.problems.is_empty(), "verification found problems: {:#?}", report.problems);
        assert_eq!(report.position, self.head());
        let by_index = format!(
            "SELECT DISTINCT d.number FROM owed_rings JOIN deliveries d ON d.number = delivery
             WHERE NOT (instr(d.address, ':') AND {HEARD}) AND NOT {HELD_UP} ORDER BY 1"
        );
        assert_eq!(
            numbers(self.office.store(), &by_index),
            self.owed_by_the_tables(),
            "the index of owed rings disagrees with the tables"
        );
    }

    /// The deliveries for which a ring is owed, according to the index.
    pub fn owed(&self) -> Vec<u64> {
        let owed = owed_in(self.office.store()).into_iter().map(|(_, delivery)| delivery);
        owed.collect::<BTreeSet<u64>>().into_iter().collect()
    }

    /// The same, computed from all rows, except for groups of which one member was shown the mail or rung for it: only
    /// the log knows which one was rung. A delivery that came back is owed a ring whatever was shown or rung before.
    fn owed_by_the_tables(&self) -> Vec<u64> {
        let sql = format!(
            "SELECT d.number FROM deliveries d JOIN messages m ON m.number = d.message
             WHERE d.state = 0 AND d.ready = 1 AND m.urgency = 0 AND NOT {HEARD} AND NOT {HELD_UP} ORDER BY 1"
        );
        numbers(self.office.store(), &sql)
    }

    /// The problems that `log verify` finds.
    pub fn problems(&self) -> Vec<String> {
        let report = views::verify(self.office.store(), |_| {}).expect("the office can be verified");
        report.problems.iter().map(ToString::to_string).collect()
    }
}

/// An agent was shown the delivery or rung for it since it became claimable.
const HEARD: &str = "coalesce((SELECT event FROM events e WHERE e.message = d.message AND e.delivery = d.number
     AND event IN (0, 3, 12, 15, 17, 22, 23) ORDER BY position DESC, ordinal DESC LIMIT 1), 3) IN (0, 22, 23)";
/// An earlier step of its workflow is not done.
const HELD_UP: &str = "EXISTS (SELECT 1 FROM numbered_steps own JOIN numbered_steps earlier
     ON earlier.workflow = own.workflow AND earlier.step < own.step WHERE own.delivery = d.number)";

/// The rings that a store's index says are owed: address and delivery.
pub fn owed_in(store: &Store) -> Vec<(String, u64)> {
    let mut statement =
        store.conn().prepare("SELECT address, delivery FROM owed_rings ORDER BY 2, 1").expect("the question is sound");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows can be read");
    rows.collect::<Result<_, _>>().expect("rows")
}

fn numbers(store: &Store, sql: &str) -> Vec<u64> {
    let mut statement = store.conn().prepare(sql).expect("the question is sound");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows can be read");
    rows.collect::<Result<_, _>>().expect("numbers")
}

impl Drop for Desk {
    fn drop(&mut self) {
        // A second panic would hide the failure of the test.
        if self.verified_at_the_end && !std::thread::panicking() {
            self.verify();
        }
    }
}

/// The whole state at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    pub head: Position,
    pub digest: Digest,
}

/// A notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub number: MessageNo,
    pub to: String,
    pub what: Notice,
    pub about: MessageNo,
}

// ── Helpers for proposals ────────────────────────────────────────────────────────────────────────────────────

/// `bob`, or `bob/2` for bob in session 2.
pub fn speaker(who: &str) -> (Name, Option<Session>) {
    let (name, session) = match who.split_once('/') {
        Some((name, session)) => (name, Some(session.parse().expect("a session"))),
        None => (who, None),
    };
    let name = if name == poste_core::text::POSTE { Name::poste() } else { name.parse().expect("a name") };
    (name, session)
}

pub fn proposal(id: &str, who: &str, sent_at: Timestamp, intent: Intent, content: Option<Content>) -> Proposal {
    let (actor, session) = speaker(who);
    let id: RecordId = id.parse().expect("an id");
    // People prove who they are; agents gain nothing by that here. Tests of what it takes say so with `unproven`.
    Proposal { id, actor, session, via: Via::Cli, proof: Proof::Word, sent_at, intent, content }
}

pub fn agent() -> Register {
    Register {
        kind: None,
        role: None,
        capabilities: None,
        worktree: None,
        lead: None,
        clears: Vec::new(),
        update: false,
    }
}

pub fn human() -> Register {
    Register { kind: Some(AgentKind::Human), ..agent() }
}

pub fn with_role(role: &str) -> Register {
    Register { role: Some(role.parse().expect("a role")), ..agent() }
}

pub fn able(word: &str) -> Register {
    Register { capabilities: Some(vec![word.parse().expect("a capability")]), ..agent() }
}

/// `register --update`.
pub fn update(register: Register) -> Register {
    Register { update: true, ..register }
}

/// A message to one or more addresses, separated by spaces.
pub fn letter(to: &str, kind: &str) -> Send {
    let to = to.split_whitespace().map(|address| address.parse().expect("an address")).collect();
    Send::plain(kind.parse().expect("a type"), to)
}

/// A reply to the sender of a message.
pub fn answer_to(message: MessageNo) -> Send {
    Send { reply_to: Some(message), ..letter("", "response") }
}

/// `reply --done`.
pub fn answer_and_finish(message: MessageNo) -> Send {
    Send { ends: Some(Ends { message, how: EndsHow::Replied, token: None }), ..answer_to(message) }
}

/// This long after the record's time.
pub fn after(ms: i64) -> Option<When> {
    Some(When::InMs(ms))
}

pub fn text(body: &str) -> Content {
    Content { body: Body::from(body), ..Content::default() }
}

// ── Helpers for answers ──────────────────────────────────────────────────────────────────────────────────────

#[track_caller]
pub fn accepted<T>(answer: Answer<T>) -> T {
    match answer {
        Ok(effect) => effect,
        Err(rejection) => panic!("refused ({}): {rejection}", rejection.code),
    }
}

/// Asserts a refusal with this code and returns its reason.
#[track_caller]
pub fn refused<T: Debug>(answer: Answer<T>, code: Code) -> String {
    match answer {
        Err(rejection) if rejection.code == code => rejection.reason,
        other => panic!("expected {code}, got {other:?}"),
    }
}

/// Asserts that a reason contains these words.
#[track_caller]
pub fn says(reason: &str, words: &str) {
    assert!(reason.contains(words), "{reason:?} does not contain {words:?}");
}

/// Asserts that a result was kept as late.
#[track_caller]
pub fn late(answer: Answer) -> Late {
    match accepted(answer) {
        Effect::Late(late) => late,
        other => panic!("expected a late result, got {other:?}"),
    }
}

#[track_caller]
pub fn claimed(effect: Effect) -> Claimed {
    match effect {
        Effect::Claimed(claimed) => claimed,
        other => panic!("expected a claim, got {other:?}"),
    }
}

/// A plain copy of the office folder, as a person or a backup program makes one.
pub fn copied(desk: &Desk, name: &str) -> PathBuf {
    let to = desk.folder.path().join(name).join(".poste");
    copy(&desk.place.path, &to);
    to
}

/// Sets the mode that a file or folder of an office has.
pub fn make_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = if path.is_dir() { 0o700 } else { 0o600 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// The same place at another path.
pub fn place(desk: &Desk, path: PathBuf) -> Place {
    Place { path, ..desk.place.clone() }
}
