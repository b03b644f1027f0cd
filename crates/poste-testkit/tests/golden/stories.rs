//! A log with every kind of event, story by story.

use poste_core::log::{
    Ack, Agree, ApprovalAnswer, ApprovalAsk, Archive, Barrier, Claim, Clock, Close, Content, ContextAppend,
    ContextCreate, ContextLock, ContextRead, ContextReplace, ContextUnlock, Done, Drop, Ends, EndsHow, Extend, Fail,
    GateResult, GateVerdict, HandlerCursor, HandlerDead, HandlerRelease, HandlerSettle, HandlerTake, HandoffAccept,
    HandoffCreate, HandoffReject, HandoffWithdraw, HoldReason, Intent, Lines, NoteKind, Policy, Prolong, Proof,
    Proposal, Record, Redact, Register, Release, Reserve, Retire, Retry, RunEnd, RunHold, RunOutcome, RunResume,
    RunStart, Sealed, Send, SessionClose, SessionNote, SessionProcess, SessionStart, Settings, Settling, Shown,
    StepMark, StepSpec, Subscribe, Tick, TopicPattern, Unreserve, Unsubscribe, Verified, Via, Wake, WakeOutcome,
    WakeWay, WorkflowEnd, WorkflowEnding, WorkflowMark, WorkflowRetry, WorkflowStart, WorkflowStep, context_mail,
};
use poste_core::text::Name;
use poste_core::time::When;
use poste_core::vocabulary::AgentKind;
use poste_core::{Digest, MessageNo, Position, Timestamp};

use super::records::golden_content;
use super::{fold_all, text};

/// Writes records with a time, in order.
struct Scribe {
    records: Vec<Record>,
    at: Timestamp,
}

impl Scribe {
    fn write(&mut self, actor: &str, intent: Intent) -> Position {
        let id = format!("g{}", self.records.len() + 1);
        self.write_as(&id, actor, None, intent)
    }

    fn in_session(&mut self, actor: &str, session: &str, intent: Intent) -> Position {
        let id = format!("g{}", self.records.len() + 1);
        self.write_as(&id, actor, Some(session), intent)
    }

    fn write_as(&mut self, id: &str, actor: &str, session: Option<&str>, intent: Intent) -> Position {
        self.write_with(id, actor, session, intent, None)
    }

    fn write_with(
        &mut self,
        id: &str,
        actor: &str,
        session: Option<&str>,
        intent: Intent,
        content: Option<Content>,
    ) -> Position {
        let position = Position(self.records.len() as u64 + 1);
        self.at = self.at.plus_ms(1_000);
        // A person also overrides what an agent holds.
        let overrides = matches!(&intent, Intent::HandoffAccept(accept) if accept.overridden);
        let is_given_by_person = overrides || ["ann", "eve"].contains(&actor);
        let proposal = Proposal {
            id: text(id),
            actor: if actor == "poste" { Name::poste() } else { text(actor) },
            session: session.map(text),
            via: Via::Cli,
            proof: if is_given_by_person { Proof::Word } else { Proof::None },
            sent_at: self.at,
            intent,
            content,
        };
        self.records.push(Record {
            position,
            at: self.at,
            sealed: Sealed::seal(&proposal, &crate::machine()).unwrap(),
        });
        position
    }

    /// As [`write`](Self::write), with content.
    fn says(&mut self, actor: &str, intent: Intent) -> Position {
        let id = format!("g{}", self.records.len() + 1);
        self.write_with(&id, actor, None, intent, Some(golden_content()))
    }

    /// The number of the message that a record creates, from a fold of the whole log.
    fn message_at(&self, position: Position) -> u64 {
        let (store, _) = fold_all(&self.records);
        let sql = "SELECT number FROM messages WHERE position = ?1 AND notice IS NULL";
        store.conn().query_row(sql, [position], |row| row.get(0)).unwrap()
    }

    /// All agents acknowledge their notices.
    fn acknowledge_notices(&mut self) {
        let (store, _) = fold_all(&self.records);
        let sql = "SELECT d.message, d.address FROM deliveries d JOIN messages m ON m.number = d.message
                   WHERE m.notice IS NOT NULL AND d.state = 0 ORDER BY d.number";
        let told: Vec<(u64, String)> = store
            .conn()
            .prepare(sql)
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        for (number, address) in told {
            let actor = if address == "role:lead" { "eve" } else { &address };
            self.write(actor, Intent::Ack(Ack { message: MessageNo(number) }));
        }
    }

    fn tick_after(&mut self, ms: i64) {
        self.at = self.at.plus_ms(ms);
        self.write("poste", Intent::Tick(Tick {}));
    }
}

fn register(role: &str, capabilities: &[&str], kind: AgentKind) -> Intent {
    let capabilities = capabilities.iter().map(|word| text(word)).collect();
    Intent::Register(Register {
        kind: Some(kind),
        role: Some(text(role)),
        capabilities: Some(capabilities),
        worktree: None,
        lead: None,
        clears: Vec::new(),
        update: false,
    })
}

fn send(kind: &str, to: &[&str]) -> Send {
    Send::plain(text(kind), to.iter().map(|address| text(address)).collect())
}

fn claim(message: u64, lease_ms: i64) -> Intent {
    Intent::Claim(Claim { message: Some(MessageNo(message)), max: 1, lease_ms: Some(lease_ms), types: Vec::new() })
}

fn done(message: u64, token: Option<Position>) -> Intent {
    Intent::Done(Done { message: MessageNo(message), token, artifacts: Vec::new() })
}

/// A short story that applies every rule of deliveries.
pub(super) fn golden_log() -> Vec<Record> {
    let mut log = Scribe { records: Vec::new(), at: Timestamp::from_ms(1_800_000_000_000) };
    log.write("poste", Intent::Barrier(Barrier { fold_version: 1, reason: "the office opens".to_owned() }));
    log.write("ann", register("lead", &[], AgentKind::Human));
    log.write("bob", register("coder", &["rust", "go"], AgentKind::Agent));
    log.write("cy", register("coder", &["rust"], AgentKind::Agent));
    log.write("dot", register("reviewer", &["go"], AgentKind::Agent));
    log.write("bob", register("coder", &[], AgentKind::Agent)); // refused: the name is taken
    let settings = Settings { max_attempts: Some(2), retry_delay_ms: Some(5_000), ..Settings::default() };
    let policy = Policy { replaces: 0, machine: text("one"), host: "desk".to_owned(), settings, types: Vec::new() };
    log.write("poste", Intent::Policy(policy));
    log.write("cy", Intent::Subscribe(Subscribe { topic: TopicPattern::All, from: None }));

    // 1: claimed, lost, claimed by another agent, finished late and finished.
    log.write("ann", Intent::Send(send("directive", &["role:coder"])));
    let lost = log.in_session("bob", "b1", claim(1, 10_000));
    log.in_session("cy", "c1", claim(1, 10_000)); // refused: bob holds it
    log.tick_after(11_000); // the lease is out
    log.tick_after(6_000); // it may be claimed again
    let won = log.in_session("cy", "c1", claim(1, 60_000));
    log.in_session("bob", "b1", done(1, Some(lost))); // late: notices 2 to ann and 3 to cy
    log.write("cy", Intent::Extend(Extend { message: MessageNo(1), token: Some(won), lease_ms: Some(90_000) }));
    log.in_session("cy", "c1", done(1, None));

    // 4: dies after its last attempt; notice 5 to dot; a human retries it, and it is released.
    log.write("dot", Intent::Send(send("question", &["bob"])));
    let first = log.write("bob", claim(4, 30_000));
    log.write("bob", Intent::Fail(Fail { message: MessageNo(4), token: Some(first), retry: true, delay_ms: None }));
    log.tick_after(6_000);
    let second = log.write("bob", claim(4, 30_000));
    log.write("bob", Intent::Fail(Fail { message: MessageNo(4), token: Some(second), retry: true, delay_ms: None })); // dead
    log.write("ann", Intent::Retry(Retry { message: MessageNo(4), recipient: None }));
    let third = log.write("bob", claim(4, 30_000));
    log.write("bob", Intent::Release(Release { message: MessageNo(4), token: Some(third) }));

    // 6: to everyone, by topic and by name; expiry, not-before, shown, ack, reply, forward.
    let mut news = send("message", &["topic:Built", "everyone"]);
    news.not_before = Some(When::InMs(4_000));
    log.write("ann", Intent::Send(news));
    log.tick_after(5_000);
    log.in_session("bob", "b1", Intent::Shown(Shown { messages: vec![MessageNo(6), MessageNo(4)] }));
    log.write("bob", Intent::Ack(Ack { message: MessageNo(6) }));
    let reply = Send {
        reply_to: Some(MessageNo(6)),
        ends: Some(Ends { message: MessageNo(6), how: EndsHow::Replied, token: None }),
        ..send("response", &[])
    };
    log.write("cy", Intent::Send(reply)); // 7
    let forward = Send {
        ends: Some(Ends { message: MessageNo(6), how: EndsHow::Forwarded, token: None }),
        ..send("directive", &["can:rust", "every:role:coder"])
    };
    log.write("dot", Intent::Send(forward)); // 8
    log.write("bob", Intent::Fail(Fail { message: MessageNo(8), token: None, retry: false, delay_ms: None })); // 9 tells dot
    let brief = Send { expires: Some(When::InMs(3_000)), ..send("alert", &["bob", "every:can:go"]) };
    log.write("ann", Intent::Send(brief)); // 10
    log.write("cy", claim(8, 3_600_000));
    log.write("poste", Intent::Clock(Clock { leap_ms: 7_200_000 }));
    log.tick_after(7_200_000); // 10 has expired, cy's lease has moved
    log.write("dot", Intent::Subscribe(Subscribe { topic: text("Built"), from: Some(Position(1)) })); // has it already
    log.write("eve", register("lead", &[], AgentKind::Human));
    log.write("eve", Intent::Subscribe(Subscribe { topic: text("Built"), from: Some(Position(1)) })); // gets 6
    // 8: cy loses its lease as often as the policy allows; notice 12 to dot.
    log.tick_after(3_700_000);
    log.tick_after(6_000);
    log.write("cy", claim(8, 10_000));
    log.tick_after(11_000); // dead
    log.write("cy", Intent::Unsubscribe(Unsubscribe { topic: TopicPattern::All }));
    log.write_as("g9", "ann", None, Intent::Send(send("directive", &["role:coder"]))); // repeats message 1
    log.write_as("g9", "ann", None, Intent::Ack(Ack { message: MessageNo(2) })); // refused: the id is taken
    log.write("ann", Intent::Send(send("no_such_type", &["bob"]))); // refused
    log.write("ghost", Intent::Claim(Claim { message: None, max: 1, lease_ms: None, types: Vec::new() })); // refused
    log.write("ann", Intent::Retire(Retire { name: text("bob") })); // 4 is returned to dot
    // Some messages stay claimed and some pending at the end.
    log.write("dot", Intent::Claim(Claim { message: None, max: 2, lease_ms: None, types: Vec::new() }));
    how_things_end(&mut log);
    how_questions_are_decided(&mut log);
    a_context_is_shared(&mut log);
    who_holds_paths(&mut log);
    how_sessions_run(&mut log);
    gated(&mut log);
    rung(&mut log);
    started(&mut log);
    work_is_handed_over(&mut log);
    step_by_step(&mut log);
    people_are_told(&mut log);
    log.records
}

/// Rules are taken and advanced, their leases lost, and messages given up on.
fn people_are_told(log: &mut Scribe) {
    let sent = log.says("ann", Intent::Send(send("alert", &["fay"])));
    let message = MessageNo(log.message_at(sent));
    let take = |rule: &str, token: Option<Position>| {
        Intent::HandlerTake(HandlerTake { rule: text(rule), lease_ms: 60_000, token, from: None })
    };
    let cursor = |rule: &str, token: Position, position: Position| {
        Intent::HandlerCursor(HandlerCursor { rule: text(rule), token, position })
    };
    let dead = |rule: &str, token: Position, mail: Option<Send>| {
        Intent::HandlerDead(HandlerDead { rule: text(rule), token, message, attempts: 3, mail })
    };
    let settle = |rule: &str, how: Settling, token: Option<Position>| {
        Intent::HandlerSettle(HandlerSettle { rule: text(rule), message, how, token })
    };
    let token = log.write("fay", take("pager", None));
    log.write("ann", take("pager", None)); // refused: it is held
    log.write("fay", take("pager", Some(token)));
    log.write("fay", cursor("pager", token, sent)); // refused: the cursor is there already
    log.write("fay", cursor("pager", token, token));
    log.says("fay", dead("pager", token, Some(send("alert", &["ann"]))));
    log.write("fay", settle("pager", Settling::Sent, Some(token)));
    log.tick_after(120_000);
    log.write("fay", cursor("pager", token, Position(token.0 + 1))); // refused: the lease is lost
    log.write("ann", take("none", Some(token))); // refused: it was never taken
    let token = log.write("fay", take("desk", None));
    log.says("fay", dead("desk", token, None));
    log.write("ann", settle("desk", Settling::Dropped, None));
    log.says("fay", dead("desk", token, None));
    let token = log.write("fay", take("done", None));
    log.write("fay", Intent::HandlerRelease(HandlerRelease { rule: text("done"), token }));
}

/// A root session and one below it, a take-over, notes, released claims, and a closing root that notifies the session
/// below.
fn how_sessions_run(log: &mut Scribe) {
    let start = |id: &str, parent: Option<&str>, takes_over: Option<&str>| {
        Intent::SessionStart(SessionStart {
            id: text(id),
            process: None,
            host: "desk".to_owned(),
            program: "codex".to_owned(),
            worktree: None,
            parent: parent.map(text),
            takes_over: takes_over.map(text),
            resumes: false,
        })
    };
    let note = |session: &str, what: NoteKind, question: Option<u32>| {
        Intent::SessionNote(SessionNote { session: text(session), what, question, agent: None })
    };
    log.says("eve", start("e1", None, None));
    log.write("fay", start("f1", Some("e1"), None));
    log.write("fay", start("f2", Some("e1"), None)); // refused: f1 is live
    log.write("fay", start("f2", Some("e1"), Some("f1")));
    log.says("fay", note("f2", NoteKind::Question, None));
    log.says("eve", note("e1", NoteKind::Answer, Some(1)));
    log.says("eve", note("f2", NoteKind::Decision, None));
    log.write("cy", note("e1", NoteKind::Note, None)); // refused: cy does not run there
    let work = log.write("eve", Intent::Send(send("directive", &["fay"])));
    let work = log.message_at(work);
    log.in_session("fay", "f2", claim(work, 60_000));
    let close = |session: &str, mail: Option<Send>| {
        Intent::SessionClose(SessionClose { session: text(session), keep_claims: false, mail })
    };
    log.says("eve", close("e1", Some(send("message", &["fay"]))));
    log.says("fay", close("f2", None)); // what it claimed is pending again
}

/// One question is answered, one gets its default, one stays undecided; anything that does not decide them is refused.
fn how_questions_are_decided(log: &mut Scribe) {
    let ask = |kind: &str, to: &str, default: Option<&str>, deadline: Option<When>| {
        let choices = vec![text("approve"), text("deny")];
        Intent::ApprovalAsk(ApprovalAsk { mail: send(kind, &[to]), choices, default: default.map(text), deadline })
    };
    let answer = |number: u64, kind: &str, choice: &str| {
        let mail = Send { reply_to: Some(MessageNo(number)), ..send(kind, &[]) };
        Intent::ApprovalAnswer(ApprovalAnswer { mail, choice: text(choice) })
    };
    let soon = Some(When::InMs(30_000));
    let plan = log.says("fay", ask("plan_approval_request", "role:lead", Some("deny"), soon));
    let plan = log.message_at(plan);
    log.write("eve", done(plan, None)); // refused: it wants a decision
    log.says("eve", answer(plan, "plan_approval_response", "approve"));
    log.write("ann", answer(plan, "plan_approval_response", "deny")); // refused: decided
    let question = log.says("fay", ask("question", "eve", Some("deny"), soon));
    let question = log.message_at(question);
    log.says("fay", ask("question", "cy", None, soon));
    log.says("fay", ask("question", "dot", None, None));
    log.tick_after(30_000); // one gets its default, the other nothing
    log.write("eve", answer(question, "response", "approve")); // refused: too late
}

/// Mail that passes its gates, and mail that they send back.
fn gated(log: &mut Scribe) {
    let sent = log.says("ann", Intent::Send(send("draft_ready", &["fay"])));
    let message = MessageNo(log.message_at(sent));
    let result = |token: Position, passed: bool| {
        let gates =
            vec![GateVerdict { name: text("draft"), passed: true }, GateVerdict { name: text("quality"), passed }];
        Intent::GateResult(GateResult { message, token, passed, gates })
    };
    let first = log.write("fay", claim(message.0, 60_000));
    log.says("fay", result(first, false)); // it is returned, and ann is notified
    log.write("ann", Intent::Retry(Retry { message, recipient: None }));
    let second = log.write("fay", claim(message.0, 60_000));
    log.says("fay", result(first, true)); // refused: that claim has ended
    log.says("fay", result(second, true));
    log.says("fay", result(second, false)); // refused: the gates have passed
    log.says("fay", done(message.0, Some(second)));
}

/// Rings for waiting mail, failed and successful, and rings that are refused.
fn rung(log: &mut Scribe) {
    let sent = log.says("ann", Intent::Send(send("alert", &["fay"])));
    let message = MessageNo(log.message_at(sent));
    let wake = |agent: &str, how: WakeWay, outcome: WakeOutcome| {
        Intent::Wake(Wake { message, agent: text(agent), how, outcome })
    };
    log.says("ann", wake("fay", WakeWay::Tmux, WakeOutcome::Failed));
    log.write("ann", wake("fay", WakeWay::Rewake, WakeOutcome::Requested));
    log.write("ann", wake("eve", WakeWay::Tmux, WakeOutcome::Requested)); // refused: it is not eve's mail
    log.write("ann", wake("fay", WakeWay::Nothing, WakeOutcome::Requested)); // refused: no way, no request
    log.write("fay", done(message.0, None));
    log.write("ann", wake("fay", WakeWay::Tmux, WakeOutcome::Requested)); // refused: it is done
}

/// An agent is started for its mail, its own mail is one hop further, and a message is held and resumed.
fn started(log: &mut Scribe) {
    let sent = log.says("ann", Intent::Send(send("directive", &["fay"])));
    let message = MessageNo(log.message_at(sent));
    let start = |run: &str| {
        Intent::RunStart(RunStart {
            run: text(run),
            messages: vec![message],
            lease_ms: Some(60_000),
            limit: Some(1),
            runner: "codex".to_owned(),
            host: "desk".to_owned(),
            supervisor: SessionProcess { pid: 7, started_ms: None, place: String::new() },
        })
    };
    let end = |how: RunOutcome, code: Option<u8>| {
        Intent::RunEnd(RunEnd { run: text("run-1"), how, code, took_ms: 900, cost_micros: None })
    };
    let hold = |why: HoldReason| {
        Intent::RunHold(RunHold { agent: None, message: Some(message), why, until: None, mail: None })
    };
    log.write("fay", hold(HoldReason::Hops));
    log.write("fay", hold(HoldReason::Hops)); // refused: it is held
    log.write("ann", Intent::RunResume(RunResume { agent: text("fay"), message: Some(message), why: None }));
    log.in_session("fay", "run-1", start("run-2")); // refused: another session
    let token = log.in_session("fay", "run-1", start("run-1"));
    log.in_session("fay", "run-2", start("run-2")); // refused: one is running
    log.in_session("fay", "run-1", Intent::Send(send("message", &["ann"])));
    log.in_session("fay", "run-1", hold(HoldReason::Failing)); // refused: it is claimed
    log.in_session("fay", "run-1", done(message.0, Some(token)));
    log.in_session("fay", "run-1", end(RunOutcome::Exited, None)); // refused: it has no code
    log.in_session("fay", "run-1", end(RunOutcome::Exited, Some(0)));
    log.in_session("fay", "run-1", end(RunOutcome::Lost, None)); // refused: it has ended
    let stop = |why: HoldReason| Intent::RunHold(RunHold { agent: None, message: None, why, until: None, mail: None });
    log.write("fay", stop(HoldReason::Stopped));
    log.write("fay", stop(HoldReason::Budget)); // refused: it is stopped
    log.says("ann", Intent::Send(send("directive", &["fay"]))); // ann is notified
    log.in_session("fay", "run-3", start("run-3")); // refused: it is stopped
    let resume = |why: HoldReason| Intent::RunResume(RunResume { agent: text("fay"), message: None, why: Some(why) });
    log.write("ann", resume(HoldReason::Budget)); // refused: it is not held for that reason
    log.write("ann", resume(HoldReason::Stopped));
}

/// Reminders, a dropped message, conversations that are closed, reopened and archived, redacted content.
fn how_things_end(log: &mut Scribe) {
    let register_led = |lead: &str| {
        let Intent::Register(register) = register("builder", &[], AgentKind::Agent) else { unreachable!() };
        Intent::Register(Register { lead: Some(text(lead)), ..register })
    };
    log.write("fay", register_led("eve"));
    let in_plan = |kind: &str, to: &[&str]| Send { conversation: Some(text("plan")), ..send(kind, to) };
    let question = Send { respond_by: Some(When::InMs(60_000)), ..in_plan("question", &["fay", "role:coder"]) };
    let asked = log.says("dot", Intent::Send(question));
    log.tick_after(60_000); // notices to dot about both, to eve about fay, to the role `lead` about the group
    let plan = log.message_at(asked);
    let lost = log.write("fay", claim(plan, 1_000));
    log.tick_after(2_000);
    log.tick_after(10_000);
    let token = log.write("fay", claim(plan, 60_000));
    log.says("fay", done(plan, Some(lost))); // late
    let result = log.says("fay", done(plan, Some(token)));
    log.write("dot", Intent::Drop(Drop { message: MessageNo(plan), recipient: None })); // refused: nothing ended badly
    log.says("cy", Intent::Fail(Fail { message: MessageNo(plan), token: None, retry: false, delay_ms: None }));
    log.says("dot", Intent::Drop(Drop { message: MessageNo(plan), recipient: Some(text("role:coder")) }));
    log.says("fay", Intent::Close(Close { message: MessageNo(plan) }));
    log.write("ann", Intent::Send(in_plan("message", &["fay"]))); // reopens it
    let too_early = Archive {
        file: "2027-01-15-90.jsonl".to_owned(),
        conversations: vec![text("plan")],
        as_of: asked,
        lines: 9,
        digest: Digest::of(b"written too early"),
    };
    log.write("ann", Intent::Archive(too_early.clone())); // refused: it is open
    let outcome = log.says("ann", Intent::Close(Close { message: MessageNo(plan) }));
    log.says("fay", Intent::Redact(Redact { records: vec![result] }));
    log.write("ann", Intent::Close(Close { message: MessageNo(plan) })); // refused: it is closed
    log.write("ann", Intent::Archive(too_early.clone())); // refused: there are unread notices
    log.acknowledge_notices();
    log.write("ann", Intent::Archive(too_early.clone())); // refused: it has changed since then
    let as_of = Position(log.records.len() as u64);
    log.write("ann", Intent::Archive(Archive { as_of, ..too_early }));
    log.says("ann", Intent::Redact(Redact { records: vec![asked, outcome] })); // archived content
    log.write("fay", claim(plan, 1_000)); // refused: archived
    log.write("ann", Intent::Send(in_plan("message", &["dot"]))); // the name is used again
    log.write("ann", Intent::Close(Close { message: MessageNo(4) })); // and this one stays closed
}

/// Handoffs: accepted, accepted with an override, rejected, withdrawn, and one that is returned when its receiver
/// retires.
fn work_is_handed_over(log: &mut Scribe) {
    let offer = |to: &str, checks, verifies| {
        let mail = Send { wants_response: Some(true), ..send("handoff_request", &[to]) };
        Intent::HandoffCreate(HandoffCreate { mail, worktree: None, checks, verifies })
    };
    let answer = |kind: &str, message| Send {
        reply_to: Some(MessageNo(message)),
        ends: Some(Ends { message: MessageNo(message), how: EndsHow::Replied, token: None }),
        ..send(kind, &[])
    };
    let accept = |message, checked: &[u32], ok: &[bool], overridden| {
        Intent::HandoffAccept(HandoffAccept {
            mail: answer("handoff_accepted", message),
            checked: checked.to_vec(),
            verified: ok.iter().map(|ok| Verified { ok: *ok, exit_code: None, duration_ms: 3 }).collect(),
            gates: Vec::new(),
            overridden,
        })
    };
    let first = log.says("dot", offer("fay", 2, 1));
    let first = log.message_at(first);
    log.says("fay", done(first, None)); // refused: a handoff is accepted or rejected
    log.says("cy", accept(first, &[1, 2], &[true], false)); // refused: it is not for cy
    log.says("fay", accept(first, &[1], &[true], false)); // refused: one check is not made
    log.says("fay", accept(first, &[1, 2], &[false], false)); // refused: a command failed
    log.says("fay", accept(first, &[2, 1], &[true], false));
    log.says("fay", accept(first, &[1, 2], &[true], false)); // refused: it is accepted
    let second = log.says("dot", offer("role:builder", 1, 1));
    let second = log.message_at(second);
    log.says("fay", accept(second, &[], &[], true));
    let third = log.says("dot", offer("fay", 0, 0));
    let third = log.message_at(third);
    log.says("fay", Intent::HandoffReject(HandoffReject { mail: answer("handoff_rejected", third) }));
    let fourth = log.says("dot", offer("fay", 0, 0));
    let fourth = MessageNo(log.message_at(fourth));
    log.says("cy", Intent::HandoffWithdraw(HandoffWithdraw { message: fourth })); // refused: it is dot's
    log.says("dot", Intent::HandoffWithdraw(HandoffWithdraw { message: fourth })); // fay is notified
    log.says("dot", offer("cy", 0, 0));
    log.write("ann", Intent::Retire(Retire { name: text("cy") })); // it is returned
}

/// Versions, an outdated one, a broken lock and an expired one.
fn a_context_is_shared(log: &mut Scribe) {
    let mail = || context_mail(&text("plan"));
    let lines = Lines { added: 1, removed: 0 };
    let lock = |for_ms| Intent::ContextLock(ContextLock { name: text("plan"), for_ms });
    let append = || Intent::ContextAppend(ContextAppend { name: text("plan"), lines, mail: mail() });
    let replace = |if_version| {
        Intent::ContextReplace(ContextReplace {
            name: text("plan"),
            if_version,
            lines,
            text: true,
            data: false,
            agreement: None,
            mail: mail(),
        })
    };
    log.write("fay", Intent::Subscribe(Subscribe { topic: text("context.plan"), from: None }));
    log.write(
        "dot",
        Intent::ContextCreate(ContextCreate {
            name: text("plan"),
            kind: text("decisions"),
            lines,
            data: false,
            schema: false,
            mail: mail(),
        }),
    );
    log.write("fay", Intent::ContextRead(ContextRead { name: text("plan"), version: 1 }));
    log.in_session("dot", "d1", lock(30_000));
    log.write("fay", append()); // refused: dot has locked it
    log.write("ann", Intent::ContextUnlock(ContextUnlock { name: text("plan"), mail: Some(send("alert", &["dot"])) }));
    log.write("fay", append());
    log.write("dot", replace(1)); // refused: fay has written since
    log.write("dot", replace(2));
    log.write("fay", lock(1_000));
    log.tick_after(2_000);
    log.write("dot", lock(60_000)); // stays locked
    log.write("dot", Intent::ContextLock(ContextLock { name: text("none"), for_ms: 60_000 })); // refused

    // A proposal to two parties, written to the context when both have agreed, and then another proposal.
    let agreed_in = |proposal: u64| {
        let Intent::ContextReplace(replace) = replace(3) else { unreachable!() };
        Intent::ContextReplace(ContextReplace { agreement: Some(MessageNo(proposal)), ..replace })
    };
    let agree = |proposal: u64| {
        let message = MessageNo(proposal);
        let ends = Some(Ends { message, how: EndsHow::Replied, token: None });
        let mail = Send { reply_to: Some(message), ends, ..send("response", &[]) };
        Intent::Agree(Agree { message, mail })
    };
    let contract =
        || Send { conversation: Some(text("contract")), ..send("interface_contract", &["fay", "role:coder"]) };
    let proposed = log.write("dot", Intent::Send(contract()));
    let proposal = log.message_at(proposed);
    log.write("fay", agree(proposal));
    log.write("dot", agreed_in(proposal)); // refused: the coders have not agreed
    log.write("cy", agree(proposal));
    log.write("dot", agreed_in(proposal));
    log.write("dot", Intent::Send(contract())); // replaces the first
    log.write("cy", agree(proposal)); // refused
}

/// Reservations that overlap, are shared, prolonged, released, expire and move with the clock.
fn who_holds_paths(log: &mut Scribe) {
    let reserve = |pattern: &str, for_ms: i64, shared: bool| {
        Intent::Reserve(Reserve { patterns: vec![text(pattern), text("Cargo.lock")], for_ms, shared })
    };
    let free = |patterns: &[&str], holder: Option<&str>| {
        let patterns = patterns.iter().map(|pattern| text(pattern)).collect();
        let mail = holder.map(|holder| send("alert", &[holder]));
        Intent::Unreserve(Unreserve { patterns, holder: holder.map(text), mail })
    };
    log.says("fay", reserve("src/auth/**", 60_000, true));
    log.says("dot", reserve("src/*/login.rs", 60_000, false)); // refused: they overlap
    log.says("dot", reserve("src/*/login.rs", 3_600_000, true));
    log.write("fay", Intent::Prolong(Prolong { patterns: vec![text("src/auth/**")], for_ms: 120_000 }));
    log.write("poste", Intent::Clock(Clock { leap_ms: 1_000 }));
    log.tick_after(62_000); // fay's Cargo.lock is free again
    log.write("dot", free(&["src/auth/**"], Some("fay"))); // refused: dot is neither its lead nor a human
    log.write("eve", free(&["src/auth/**"], Some("fay")));
    log.write("dot", free(&["Cargo.lock"], None));
    log.write("dot", reserve("src/*/login.rs", 3_600_000, false)); // exclusive now
}

/// A workflow that loops, fails, is retried and times out, another that is cancelled, and numbered steps.
fn step_by_step(log: &mut Scribe) {
    let spec = |key: &str, needs: &[&str]| StepSpec {
        key: text(key),
        needs: needs.iter().map(|need| text(need)).collect(),
        again: Vec::new(),
        max_rounds: 1,
        instead: None,
    };
    let (flow, other) = ("ship-1", "ship-2");
    let begin = |steps| {
        let lead = Some(text("ann"));
        Intent::WorkflowStart(WorkflowStart { name: text("ship"), digest: Digest::of(b"a definition"), steps, lead })
    };
    let step = |flow: &str, key: &str, round, attempt, limit: Option<i64>| {
        let mail = Send {
            workflow: Some(text(flow)),
            step: Some(text(key)),
            conversation: Some(text(flow)),
            ..send("directive", &["fay"])
        };
        let (workflow, step) = (text(flow), text(key));
        let (item, of, failure, ask, time_limit_ms) = (1, 1, false, None, limit);
        Intent::WorkflowStep(WorkflowStep {
            workflow,
            step,
            round,
            item,
            of,
            attempt,
            failure,
            mail,
            ask,
            time_limit_ms,
        })
    };
    let mark = |key: &str, round, what| {
        Intent::WorkflowMark(WorkflowMark { workflow: text(flow), step: text(key), round, what })
    };
    let review = StepSpec { again: vec![text("write"), text("review")], max_rounds: 2, ..spec("review", &["write"]) };
    log.says("dot", begin(vec![spec("write", &[]), review]));
    log.says("dot", step(flow, "review", 1, 1, None)); // refused: nothing is written yet
    for round in [1, 2] {
        for key in ["write", "review"] {
            let sent = log.says("dot", step(flow, key, round, 1, Some(60_000)));
            let number = log.message_at(sent);
            log.says("fay", done(number, None));
            let loops = key == "review" && round == 1;
            log.write("dot", mark(key, round, if loops { StepMark::Again } else { StepMark::Done }));
        }
    }
    log.write("dot", mark("review", 2, StepMark::Done)); // refused: it is done
    let mail = Some(send("task_completed", &["ann"]));
    log.says("dot", Intent::WorkflowEnd(WorkflowEnd { workflow: text(flow), how: WorkflowEnding::Finished, mail }));
    let end = |how| Intent::WorkflowEnd(WorkflowEnd { workflow: text(other), how, mail: None });
    let retry = || Intent::WorkflowRetry(WorkflowRetry { workflow: text(other), step: None });
    log.says("dot", begin(vec![spec("write", &[])]));
    log.says("dot", step(other, "write", 1, 1, Some(1_000)));
    log.tick_after(2_000); // it times out
    let failed = WorkflowMark { workflow: text(other), step: text("write"), round: 1, what: StepMark::Failed };
    log.says("dot", Intent::WorkflowMark(failed));
    log.write("dot", end(WorkflowEnding::Failed));
    log.write("fay", retry()); // refused: it is dot's
    log.write("ann", retry());
    log.says("dot", step(other, "write", 1, 2, Some(3_600_000)));
    log.says("dot", begin(vec![spec("write", &[])]));
    log.says("dot", step("ship-3", "write", 1, 1, None));
    let cancelled = WorkflowEnd { workflow: text("ship-3"), how: WorkflowEnding::Cancelled, mail: None };
    log.says("ann", Intent::WorkflowEnd(cancelled));
    let numbered = |step: &str| {
        Intent::Send(Send { workflow: Some(text("mail")), step: Some(text(step)), ..send("directive", &["fay"]) })
    };
    let second = log.says("dot", numbered("2"));
    let second = log.message_at(second);
    log.says("dot", numbered("1"));
    log.write("fay", claim(second, 60_000)); // refused: the first is not done
}
