//! Sessions: one live session per agent, a root that keeps the notes of all below it, and correct claims.

use poste_core::MessageNo;
use poste_core::fold::Code;
use poste_core::log::{Intent, NoteKind, Redact, Send, SessionClose, SessionNote, SessionProcess, SessionStart};
use poste_core::store::session_pages::page_name;
use poste_core::store::tables::{SessionRow, SessionState, State};
use poste_core::views::{self, SessionContext};

use crate::common::*;

fn start(id: &str) -> SessionStart {
    SessionStart {
        id: id.parse().expect("a session"),
        process: Some(SessionProcess { pid: 4242, started_ms: Some(17), place: "a boot".to_owned() }),
        host: "desk".to_owned(),
        program: "codex".to_owned(),
        worktree: Some("/trees/one".to_owned()),
        parent: None,
        takes_over: None,
        resumes: false,
    }
}

fn below(id: &str, parent: &str) -> SessionStart {
    SessionStart { parent: Some(parent.parse().unwrap()), ..start(id) }
}

fn over(id: &str, first: &str) -> SessionStart {
    SessionStart { takes_over: Some(first.parse().unwrap()), ..start(id) }
}

fn again(id: &str) -> SessionStart {
    SessionStart { resumes: true, program: "codex again".to_owned(), ..start(id) }
}

fn begin(desk: &mut Desk, who: &str, session: SessionStart) -> Answer {
    desk.say(who, Intent::SessionStart(session), Some(text("Ship it")))
}

fn note(desk: &mut Desk, who: &str, session: &str, what: NoteKind, question: Option<u32>) -> Answer {
    let agent = (what == NoteKind::Agent).then(|| "explore".parse().unwrap());
    let header = SessionNote { session: session.parse().unwrap(), what, question, agent };
    desk.say(who, Intent::SessionNote(header), Some(text(&format!("{what} by {who}"))))
}

fn close(desk: &mut Desk, who: &str, session: &str, keep_claims: bool) -> Answer {
    let header = SessionClose { session: session.parse().unwrap(), keep_claims, mail: None };
    desk.say(who, Intent::SessionClose(header), Some(text("Shipped")))
}

fn session(desk: &Desk, id: &str) -> SessionRow {
    desk.office.store().tables().unwrap().session(&id.parse().unwrap()).unwrap().expect("a session")
}

fn context(desk: &Desk, id: &str) -> SessionContext {
    views::session_context(desk.office.store(), &id.parse().unwrap()).unwrap().expect("a session")
}

#[test]
fn a_name_runs_as_one_session_at_a_time() {
    let mut desk = Desk::with(&["coder", "other"]);
    accepted(begin(&mut desk, "coder", start("s1")));
    let told = refused(begin(&mut desk, "coder", start("s2")), Code::SessionLive);
    assert_eq!(told, format!("coder runs as session s1 (pid 4242, codex on desk) since {}", desk.now()));
    refused(begin(&mut desk, "coder", over("s2", "nothing")), Code::SessionLive);
    refused(begin(&mut desk, "other", start("s1")), Code::SessionTaken);
    accepted(begin(&mut desk, "other", start("s3")));
    accepted(close(&mut desk, "coder", "s1", false));
    refused(begin(&mut desk, "coder", start("s1")), Code::SessionTaken);
    accepted(begin(&mut desk, "coder", start("s2")));
}

#[test]
fn a_session_that_ended_is_resumed_where_it_stood() {
    let mut desk = Desk::with(&["lead", "coder", "other"]);
    refused(begin(&mut desk, "coder", again("s1")), Code::UnknownSession);
    accepted(begin(&mut desk, "lead", start("top")));
    accepted(begin(&mut desk, "coder", below("s1", "top")));
    accepted(note(&mut desk, "coder", "s1", NoteKind::Question, None));
    accepted(close(&mut desk, "coder", "s1", false));
    refused(begin(&mut desk, "other", again("s1")), Code::SessionTaken);
    refused(begin(&mut desk, "coder", SessionStart { resumes: true, ..below("s1", "top") }), Code::Malformed);
    accepted(begin(&mut desk, "coder", again("s1")));
    let resumed = session(&desk, "s1");
    assert_eq!((resumed.state, resumed.ended_at, resumed.ended_by), (SessionState::Live, None, None));
    assert_eq!((resumed.root.as_str(), resumed.program.as_str()), ("top", "codex again"));
    // Its process died without closing it: the session is still live, and continues in another process.
    accepted(begin(&mut desk, "coder", start_over_there("s1")));
    assert_eq!(session(&desk, "s1").host, "elsewhere");
    // The agent has another session in between.
    accepted(close(&mut desk, "coder", "s1", false));
    accepted(begin(&mut desk, "coder", start("s2")));
    accepted(note(&mut desk, "coder", "s2", NoteKind::Question, None));
    refused(begin(&mut desk, "coder", again("s1")), Code::SessionLive);
    accepted(begin(&mut desk, "coder", SessionStart { takes_over: Some("s2".parse().unwrap()), ..again("s1") }));
    assert_eq!(session(&desk, "s2").successor.as_ref().map(|id| id.as_str()), Some("s1"));
    assert_eq!(context(&desk, "s2").open_questions.len(), 1, "its notes stay with it");
    // A session that was taken over cannot take back; its successor continues.
    refused(
        begin(&mut desk, "coder", SessionStart { takes_over: Some("s1".parse().unwrap()), ..again("s2") }),
        Code::SessionOver,
    );
    // No session continues below a root that has ended.
    accepted(close(&mut desk, "coder", "s1", false));
    accepted(close(&mut desk, "lead", "top", false));
    refused(begin(&mut desk, "coder", again("s1")), Code::SessionOver);
    accepted(begin(&mut desk, "lead", again("top")));
    accepted(begin(&mut desk, "coder", again("s1")));
}

fn start_over_there(id: &str) -> SessionStart {
    SessionStart { host: "elsewhere".to_owned(), ..again(id) }
}

#[test]
fn a_take_over_ends_the_first_and_keeps_what_it_holds_for_its_token() {
    let mut desk = Desk::with(&["lead", "coder"]);
    accepted(begin(&mut desk, "coder", start("s1")));
    let number = desk.send("lead", "coder", "directive");
    let token = accepted(desk.claim("coder/s1", number));
    accepted(begin(&mut desk, "coder", over("s2", "s1")));
    let first = session(&desk, "s1");
    assert_eq!(first.state, SessionState::TakenOver);
    assert_eq!(first.successor.as_ref().map(|id| id.as_str()), Some("s2"));
    assert_eq!(desk.state(number), State::Claimed, "the lease continues");
    refused(desk.done("coder/s2", number), Code::AlreadyClaimed);
    accepted(desk.done_with("coder/s2", number, Some(token)));

    let other = desk.send("lead", "coder", "directive");
    accepted(desk.send_ok("coder/s1", "lead"));
    accepted(desk.claim("coder/s1", other));
    accepted(desk.done("coder/s1", other));
}

#[test]
fn what_is_not_said_well_is_no_session() {
    let mut desk = Desk::with(&["coder"]);
    let mut wrong = |session: SessionStart, code| refused(begin(&mut desk, "coder", session), code);
    wrong(SessionStart { host: "a\nb".to_owned(), ..start("s1") }, Code::Malformed);
    wrong(SessionStart { program: "x".repeat(129), ..start("s1") }, Code::Malformed);
    wrong(SessionStart { worktree: Some("relative".to_owned()), ..start("s1") }, Code::Malformed);
    wrong(below("s1", "nothing"), Code::UnknownSession);
    wrong(below("s1", "s1"), Code::UnknownSession);
    refused(begin(&mut desk, "ghost", start("s1")), Code::UnknownAgent);
}

#[test]
fn the_root_is_the_top_of_the_chain_and_keeps_every_note() {
    let mut desk = Desk::with(&["lead", "coder", "tester", "stranger"]);
    desk.register("anna", human());
    accepted(begin(&mut desk, "lead", start("top")));
    accepted(begin(&mut desk, "coder", below("mid", "top")));
    accepted(begin(&mut desk, "tester", below("leaf", "mid")));
    assert_eq!(session(&desk, "leaf").root.as_str(), "top");
    accepted(note(&mut desk, "tester", "leaf", NoteKind::Decision, None));
    accepted(note(&mut desk, "lead", "leaf", NoteKind::Note, None));
    accepted(note(&mut desk, "anna", "mid", NoteKind::Goal, None));
    accepted(note(&mut desk, "coder", "top", NoteKind::Agent, None));
    refused(note(&mut desk, "stranger", "top", NoteKind::Note, None), Code::NotAllowed);
    refused(note(&mut desk, "lead", "nothing", NoteKind::Note, None), Code::UnknownSession);
    let context = context(&desk, "mid");
    assert_eq!(context.root.id.as_str(), "top");
    assert_eq!(context.goal.map(|goal| goal.text).as_deref(), Some("goal by anna"), "the newest goal counts");
    assert_eq!(context.below.iter().map(|below| below.id.as_str()).collect::<Vec<_>>(), ["mid", "leaf"]);
    assert_eq!((context.decisions.len(), context.notes.len(), context.invoked.len()), (1, 1, 1));
}

#[test]
fn questions_are_numbered_at_the_root_and_answered_once() {
    let mut desk = Desk::with(&["lead", "coder"]);
    accepted(begin(&mut desk, "lead", start("top")));
    accepted(begin(&mut desk, "coder", below("mid", "top")));
    accepted(note(&mut desk, "coder", "mid", NoteKind::Question, None));
    accepted(note(&mut desk, "lead", "top", NoteKind::Question, None));
    refused(note(&mut desk, "lead", "top", NoteKind::Answer, Some(3)), Code::UnknownQuestion);
    refused(note(&mut desk, "lead", "top", NoteKind::Answer, None), Code::Malformed);
    refused(note(&mut desk, "lead", "top", NoteKind::Question, Some(1)), Code::Malformed);
    accepted(note(&mut desk, "lead", "top", NoteKind::Answer, Some(1)));
    refused(note(&mut desk, "coder", "mid", NoteKind::Answer, Some(1)), Code::Ended);
    let context = context(&desk, "top");
    let numbers = |list: &[views::QuestionView]| -> Vec<Option<u32>> {
        list.iter().map(|asked| asked.question.question).collect()
    };
    assert_eq!(numbers(&context.open_questions), [Some(2)]);
    assert_eq!(numbers(&context.answered_questions), [Some(1)]);
    let answer = context.answered_questions[0].answer.as_ref().expect("an answer");
    assert_eq!(answer.text, "answer by lead");
}

#[test]
fn closing_gives_back_the_claims_of_that_session_alone() {
    for keep in [false, true] {
        let mut desk = Desk::with(&["lead", "coder"]);
        accepted(begin(&mut desk, "coder", start("s1")));
        let [own, other]: [MessageNo; 2] = ["directive", "directive"].map(|kind| desk.send("lead", "coder", kind));
        accepted(desk.claim("coder/s1", own));
        accepted(desk.claim("coder/elsewhere", other));
        accepted(close(&mut desk, "coder", "s1", keep));
        let expected = if keep { State::Claimed } else { State::Pending };
        assert_eq!((desk.state(own), desk.state(other)), (expected, State::Claimed));
        assert_eq!(desk.delivery(own).attempts, 0, "a release does not count as a failed attempt");
        refused(close(&mut desk, "coder", "s1", keep), Code::SessionOver);
    }
}

#[test]
fn only_its_agent_or_a_human_closes_a_session() {
    let mut desk = Desk::with(&["lead", "coder"]);
    desk.register("anna", human());
    accepted(begin(&mut desk, "coder", start("s1")));
    refused(close(&mut desk, "lead", "s1", false), Code::NotAllowed);
    refused(close(&mut desk, "coder", "nothing", false), Code::UnknownSession);
    accepted(close(&mut desk, "anna", "s1", false));
    assert_eq!(session(&desk, "s1").state, SessionState::Closed);
}

#[test]
fn a_root_that_is_closed_takes_no_notes_and_no_children() {
    let mut desk = Desk::with(&["lead", "coder", "tester"]);
    accepted(begin(&mut desk, "lead", start("top")));
    accepted(begin(&mut desk, "coder", below("mid", "top")));
    accepted(close(&mut desk, "lead", "top", false));
    refused(note(&mut desk, "coder", "mid", NoteKind::Note, None), Code::SessionOver);
    refused(begin(&mut desk, "tester", below("leaf", "mid")), Code::SessionOver);
    assert!(session(&desk, "mid").is_live(), "sessions below it are not ended");
    accepted(close(&mut desk, "coder", "mid", false));
}

#[test]
fn closing_can_tell_those_below_in_the_same_record() {
    let mut desk = Desk::with(&["lead", "coder"]);
    accepted(begin(&mut desk, "lead", start("top")));
    accepted(begin(&mut desk, "coder", below("mid", "top")));
    let before = desk.head();
    let close = |mail: Send| {
        Intent::SessionClose(SessionClose { session: "top".parse().unwrap(), keep_claims: false, mail: Some(mail) })
    };
    let number = desk.send("coder", "lead", "directive");
    let ends = Send { reply_to: Some(number), ..letter("coder", "message") };
    refused(desk.say("lead", close(ends), Some(text("Shipped"))), Code::Malformed);
    accepted(desk.say("lead", close(letter("coder", "message")), Some(text("Shipped"))));
    assert_eq!(desk.kinds_after(before), ["message.send", "session.close"]);
    assert_eq!(desk.mail("coder", None).messages[0].body, "Shipped");
    assert_eq!(context(&desk, "top").root.summary.as_deref(), Some("Shipped"));
}

#[test]
fn whoever_takes_over_a_root_has_everything_that_was_kept_at_it() {
    let mut desk = Desk::with(&["lead", "coder", "tester"]);
    accepted(begin(&mut desk, "lead", start("first")));
    accepted(begin(&mut desk, "coder", below("mid", "first")));
    accepted(note(&mut desk, "lead", "first", NoteKind::Question, None));
    let silent = |session| Intent::SessionStart(session);
    accepted(desk.say("lead", silent(over("second", "first")), None));
    accepted(desk.say("lead", silent(over("third", "second")), None));
    assert_eq!(session(&desk, "mid").parent.as_ref().map(|id| id.as_str()), Some("third"));
    accepted(note(&mut desk, "coder", "mid", NoteKind::Question, None));
    accepted(note(&mut desk, "lead", "third", NoteKind::Answer, Some(1)));
    accepted(note(&mut desk, "lead", "first", NoteKind::Answer, Some(2)));
    accepted(begin(&mut desk, "tester", below("leaf", "first")));
    assert_eq!(session(&desk, "leaf").parent.as_ref().map(|id| id.as_str()), Some("third"));
    for id in ["first", "second", "third", "mid"] {
        let context = context(&desk, id);
        assert_eq!(context.root.id.as_str(), "third");
        assert_eq!(context.goal.map(|goal| goal.text).as_deref(), Some("Ship it"));
        assert_eq!((context.answered_questions.len(), context.below.len()), (2, 4));
    }
    accepted(begin(&mut desk, "lead", over("fourth", "third")));
    accepted(close(&mut desk, "lead", "fourth", false));
    refused(note(&mut desk, "coder", "mid", NoteKind::Note, None), Code::SessionOver);
}

#[test]
fn those_below_a_session_go_on_below_whoever_takes_over() {
    let mut desk = Desk::with(&["lead", "coder", "tester", "other"]);
    accepted(begin(&mut desk, "lead", start("top")));
    accepted(begin(&mut desk, "coder", below("mid", "top")));
    accepted(begin(&mut desk, "tester", below("leaf", "mid")));
    let parent = |desk: &Desk, id: &str| session(desk, id).parent.map(|parent| parent.to_string());
    // The parent is the session it takes over, as in the environment of a restarted process.
    accepted(begin(&mut desk, "coder", SessionStart { parent: Some("mid".parse().unwrap()), ..over("mid-2", "mid") }));
    assert_eq!(parent(&desk, "mid-2").as_deref(), Some("top"));
    assert_eq!(parent(&desk, "leaf").as_deref(), Some("mid-2"));

    // Below another agent's session: notes stay with their root, which stays open while the session runs.
    accepted(begin(&mut desk, "other", start("elsewhere")));
    let moved = SessionStart { parent: Some("elsewhere".parse().unwrap()), ..over("top-2", "top") };
    accepted(begin(&mut desk, "lead", moved));
    accepted(note(&mut desk, "tester", "leaf", NoteKind::Note, None));
    assert_eq!(context(&desk, "leaf").root.id.as_str(), "top");
    accepted(close(&mut desk, "lead", "top-2", false));
    refused(note(&mut desk, "tester", "leaf", NoteKind::Note, None), Code::SessionOver);
}

#[test]
fn who_retires_runs_no_more() {
    let mut desk = Desk::with(&["lead", "coder"]);
    accepted(begin(&mut desk, "coder", start("s1")));
    accepted(desk.retire("lead", "coder"));
    assert_eq!(session(&desk, "s1").state, SessionState::Retired);
    desk.register("coder", update(agent()));
    accepted(begin(&mut desk, "coder", start("s2")));
}

#[test]
fn sessions_that_were_never_started_work_as_ever() {
    let mut desk = Desk::with(&["lead", "coder"]);
    let number = desk.send("lead", "coder", "directive");
    accepted(desk.claim("coder/made-up", number));
    accepted(desk.done("coder/made-up", number));
    assert!(desk.office.store().tables().unwrap().session(&"made-up".parse().unwrap()).unwrap().is_none());
}

#[test]
fn a_redacted_note_reads_as_redacted_and_takes_the_page_with_it() {
    let mut desk = Desk::with(&["lead"]);
    accepted(begin(&mut desk, "lead", start("top")));
    accepted(note(&mut desk, "lead", "top", NoteKind::Decision, None));
    let noted = desk.head();
    accepted(close(&mut desk, "lead", "top", false));
    let closed = session(&desk, "top");
    let name = page_name(&closed.id, closed.ended_at.unwrap());
    let page = desk.office.write_session_page(&name, |_| Ok::<_, poste_core::Error>("words".to_owned())).unwrap();
    accepted(desk.say("lead", Intent::Redact(Redact { records: vec![noted] }), Some(text("A secret"))));
    desk.office.erase().unwrap();
    assert!(!page.exists(), "the page contained the redacted note");
    assert_eq!(context(&desk, "top").decisions[0].text, "(redacted)");
}

impl Desk {
    /// Sends a short message in a session.
    fn send_ok(&mut self, who: &str, to: &str) -> Answer {
        self.say(who, Intent::Send(letter(to, "message")), Some(text("Hello")))
    }
}
