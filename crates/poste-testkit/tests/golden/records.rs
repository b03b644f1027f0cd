//! One proposal of each kind, with every field it can have.

use poste_core::log::{
    Ack, Agree, ApprovalAnswer, ApprovalAsk, Archive, Artifact, ArtifactState, Barrier, Body, Claim, Clock, Close,
    Content, ContextAppend, ContextCreate, ContextLock, ContextRead, ContextReplace, ContextUnlock, Document, Done,
    Drop, Ends, EndsHow, Extend, Fail, GateResult, GateVerdict, HandlerCursor, HandlerDead, HandlerRelease,
    HandlerSettle, HandlerTake, HandoffAccept, HandoffCreate, HandoffReject, HandoffWithdraw, HoldReason, Intent,
    Lines, NoteKind, Policy, PolicyType, Prolong, Proof, Proposal, Redact, Register, Release, Reserve, Retire, Retry,
    RunEnd, RunHold, RunOutcome, RunResume, RunStart, Send, SessionClose, SessionNote, SessionProcess, SessionStart,
    Settings, Settling, Shown, StepAsk, StepMark, StepSpec, Subscribe, Tick, TopicPattern, Unreserve, Unsubscribe,
    Verified, Via, Wake, WakeOutcome, WakeWay, WorkflowEnd, WorkflowEnding, WorkflowMark, WorkflowRetry, WorkflowStart,
    WorkflowStep, context_mail,
};
use poste_core::text::Name;
use poste_core::time::When;
use poste_core::vocabulary::{AgentKind, Priority, Urgency};
use poste_core::{Digest, MessageNo, Position, Timestamp};
use serde_json::value::RawValue;

use super::text;

/// Fixed inputs: every optional field is set once, so that a renamed or dropped one is noticed.
pub(super) fn golden_proposals() -> Vec<Proposal> {
    let (message, token) = (MessageNo(17), Some(Position(41)));
    let artifact = Artifact {
        path: "src/lib.rs".to_owned(),
        worktree: Some("/trees/one".to_owned()),
        state: ArtifactState::Attached,
        size: Some(9_007_199_254_740_993),
        digest: Some(Digest::of(b"an artifact")),
    };
    let policy_type = PolicyType {
        name: text("deploy"),
        priority: Priority::Urgent,
        urgency: Urgency::Later,
        work: true,
        response: false,
        max_attempts: Some(2),
        retry_delay_ms: Some(0),
        patience_ms: None,
        default_approve: true,
    };
    let settings = Settings {
        max_attempts: Some(3),
        retry_delay_ms: Some(5_000),
        lease_ms: Some(60_000),
        retention_ms: Some(86_400_000),
        content_bytes_max: Some(1_048_576),
        fan_out_max: Some(500),
    };
    let send = Send {
        to: ["bob", "role:coder", "can:rust", "every:role:coder", "every:can:rust", "everyone", "topic:Built"]
            .map(text)
            .into(),
        kind: text("question"),
        priority: Some(Priority::High),
        reply_to: Some(MessageNo(3)),
        conversation: Some(text("conv:auth.1")),
        wants_response: Some(true),
        respond_by: Some(When::At(Timestamp::from_ms(1_800_000_360_000))),
        expires: Some(When::InMs(7_200_000)),
        not_before: Some(When::InMs(1_000)),
        workflow: Some(text("release-7")),
        step: Some(text("build")),
        artifacts: vec![artifact.clone()],
        ends: Some(Ends { message, how: EndsHow::Forwarded, token }),
    };
    let register = Register {
        kind: Some(AgentKind::Human),
        role: Some(text("lead")),
        capabilities: Some(vec![text("rust"), text("go")]),
        worktree: Some("/trees/one".to_owned()),
        lead: Some(text("ann")),
        clears: Vec::new(),
        update: true,
    };
    let intents = [
        Intent::Barrier(Barrier { fold_version: 1, reason: "the office opens".to_owned() }),
        Intent::Tick(Tick {}),
        Intent::Clock(Clock { leap_ms: 10_800_000 }),
        Intent::Policy(Policy {
            replaces: 4,
            machine: text("machine-a"),
            host: "desk \u{201c}a\u{201d}".to_owned(),
            settings,
            types: vec![policy_type],
        }),
        Intent::Register(register),
        Intent::Retire(Retire { name: text("bob") }),
        Intent::Send(send.clone()),
        Intent::Shown(Shown { messages: vec![message, MessageNo(18)] }),
        Intent::Claim(Claim { message: Some(message), max: 1, lease_ms: Some(30_000), types: Vec::new() }),
        Intent::Ack(Ack { message }),
        Intent::Done(Done { message, token, artifacts: vec![artifact] }),
        Intent::Fail(Fail { message, token, retry: true, delay_ms: None }),
        Intent::Release(Release { message, token }),
        Intent::Extend(Extend { message, token, lease_ms: Some(60_000) }),
        Intent::Retry(Retry { message, recipient: Some(text("role:coder")) }),
        Intent::Subscribe(Subscribe { topic: TopicPattern::All, from: Some(Position(7)) }),
        Intent::Unsubscribe(Unsubscribe { topic: TopicPattern::One(text("Built")) }),
        Intent::Drop(Drop { message, recipient: Some(text("role:coder")) }),
        Intent::Close(Close { message }),
        Intent::Archive(Archive {
            file: "2027-01-15-41.jsonl".to_owned(),
            conversations: vec![text("17"), text("conv:auth.1")],
            as_of: Position(40),
            lines: 3,
            digest: Digest::of(b"an archive"),
        }),
        Intent::Redact(Redact { records: vec![Position(41), Position(42)] }),
        Intent::ApprovalAsk(ApprovalAsk {
            mail: Send::plain(text("question"), vec![text("role:lead")]),
            choices: vec![text("approve"), text("deny")],
            default: Some(text("deny")),
            deadline: Some(When::InMs(1_800_000)),
        }),
        Intent::ApprovalAnswer(ApprovalAnswer {
            mail: Send { reply_to: Some(message), ..Send::plain(text("response"), Vec::new()) },
            choice: text("approve"),
        }),
        Intent::HandoffCreate(HandoffCreate {
            mail: send.clone(),
            worktree: Some("/trees/one".to_owned()),
            checks: 2,
            verifies: 1,
        }),
        Intent::HandoffAccept(HandoffAccept {
            mail: send.clone(),
            checked: vec![1, 2],
            verified: vec![Verified { ok: true, exit_code: Some(0), duration_ms: 1_200 }],
            gates: vec![Verified { ok: false, exit_code: None, duration_ms: 7 }],
            overridden: true,
        }),
        Intent::HandoffReject(HandoffReject { mail: send }),
        Intent::HandoffWithdraw(HandoffWithdraw { message }),
        Intent::GateResult(GateResult {
            message,
            token: Position(40),
            passed: false,
            gates: vec![
                GateVerdict { name: text("draft"), passed: true },
                GateVerdict { name: text("quality"), passed: false },
            ],
        }),
        Intent::Wake(Wake { message, agent: text("bob"), how: WakeWay::Tmux, outcome: WakeOutcome::Failed }),
        Intent::RunStart(RunStart {
            run: text("run-1"),
            messages: vec![message],
            lease_ms: Some(60_000),
            limit: Some(2),
            runner: "claude-code".to_owned(),
            host: "desk".to_owned(),
            supervisor: SessionProcess { pid: 7, started_ms: Some(11), place: "boot".to_owned() },
        }),
        Intent::RunEnd(RunEnd {
            run: text("run-1"),
            how: RunOutcome::Exited,
            code: Some(0),
            took_ms: 45_000,
            cost_micros: Some(1_200),
        }),
        Intent::RunHold(RunHold {
            agent: Some(text("bob")),
            message: Some(message),
            why: HoldReason::Hops,
            until: Some(When::InMs(60_000)),
            mail: Some(Send::plain(text("alert"), vec![text("ann")])),
        }),
        Intent::RunResume(RunResume { agent: text("bob"), message: Some(message), why: Some(HoldReason::Stopped) }),
        Intent::HandlerTake(HandlerTake {
            rule: text("pager"),
            lease_ms: 30_000,
            token: Some(Position(40)),
            from: Some(Position(0)),
        }),
        Intent::HandlerCursor(HandlerCursor { rule: text("pager"), token: Position(40), position: Position(44) }),
        Intent::HandlerDead(HandlerDead {
            rule: text("pager"),
            token: Position(40),
            message,
            attempts: 8,
            mail: Some(Send::plain(text("alert"), vec![text("ann")])),
        }),
        Intent::HandlerRelease(HandlerRelease { rule: text("pager"), token: Position(40) }),
        Intent::HandlerSettle(HandlerSettle {
            rule: text("pager"),
            message,
            how: Settling::Sent,
            token: Some(Position(40)),
        }),
        Intent::RunResume(RunResume { agent: text("bob"), message: Some(message), why: Some(HoldReason::Hops) }),
        Intent::ContextCreate(ContextCreate {
            name: text("plan"),
            kind: text("decisions"),
            lines: Lines { added: 3, removed: 0 },
            data: true,
            schema: true,
            mail: context_mail(&text("plan")),
        }),
        Intent::ContextAppend(ContextAppend {
            name: text("plan"),
            lines: Lines { added: 2, removed: 0 },
            mail: context_mail(&text("plan")),
        }),
        Intent::ContextReplace(ContextReplace {
            name: text("plan"),
            if_version: 2,
            lines: Lines { added: 4, removed: 5 },
            text: true,
            data: true,
            agreement: Some(message),
            mail: context_mail(&text("plan")),
        }),
        Intent::ContextLock(ContextLock { name: text("plan"), for_ms: 30_000 }),
        Intent::ContextUnlock(ContextUnlock {
            name: text("plan"),
            mail: Some(Send::plain(text("alert"), vec![text("bob")])),
        }),
        Intent::ContextRead(ContextRead { name: text("plan"), version: 3 }),
        Intent::Reserve(Reserve {
            patterns: vec![text("src/auth/**"), text("docs/{a,b}*.md")],
            for_ms: 3_600_000,
            shared: true,
        }),
        Intent::Unreserve(Unreserve {
            patterns: vec![text("src/auth/**")],
            holder: Some(text("bob")),
            mail: Some(Send::plain(text("alert"), vec![text("bob")])),
        }),
        Intent::Prolong(Prolong { patterns: vec![text("docs/{a,b}*.md")], for_ms: 60_000 }),
        Intent::SessionStart(SessionStart {
            id: text("bob-2f8a1c"),
            process: Some(SessionProcess { pid: 4_242, started_ms: Some(1_700), place: "boot pid:[1]".to_owned() }),
            host: "desk".to_owned(),
            program: "codex".to_owned(),
            worktree: Some("/trees/one".to_owned()),
            parent: Some(text("ann-77aa01")),
            takes_over: Some(text("bob-19bb00")),
            resumes: false,
        }),
        Intent::SessionNote(SessionNote {
            session: text("bob-2f8a1c"),
            what: NoteKind::Answer,
            question: Some(3),
            agent: None,
        }),
        Intent::SessionClose(SessionClose {
            session: text("bob-2f8a1c"),
            keep_claims: true,
            mail: Some(Send::plain(text("message"), vec![text("cy")])),
        }),
        Intent::Agree(Agree {
            message,
            mail: Send { reply_to: Some(message), ..Send::plain(text("response"), vec![text("bob")]) },
        }),
        Intent::WorkflowStart(WorkflowStart {
            name: text("release"),
            digest: Digest::of(b"a definition"),
            steps: vec![StepSpec {
                key: text("review"),
                needs: vec![text("write")],
                again: vec![text("write"), text("review")],
                max_rounds: 3,
                instead: Some(text("by-hand")),
            }],
            lead: Some(text("cy")),
        }),
        Intent::WorkflowStep(WorkflowStep {
            workflow: text("release-7"),
            step: text("review"),
            round: 2,
            item: 3,
            of: 4,
            attempt: 5,
            failure: true,
            mail: Send::plain(text("question"), vec![text("bob")]),
            ask: Some(StepAsk {
                choices: vec![text("retry"), text("skip")],
                default: Some(text("skip")),
                deadline: Some(When::InMs(60_000)),
            }),
            time_limit_ms: Some(60_000),
        }),
        Intent::WorkflowMark(WorkflowMark {
            workflow: text("release-7"),
            step: text("review"),
            round: 2,
            what: StepMark::Again,
        }),
        Intent::WorkflowEnd(WorkflowEnd {
            workflow: text("release-7"),
            how: WorkflowEnding::Cancelled,
            mail: Some(Send::plain(text("alert"), vec![text("bob")])),
        }),
        Intent::WorkflowRetry(WorkflowRetry { workflow: text("release-7"), step: Some(text("review")) }),
    ];
    intents
        .into_iter()
        .map(|intent| Proposal {
            id: text(&format!("golden {}", intent.kind().name)),
            actor: if intent.kind().number < 10 { Name::poste() } else { text("ann") },
            session: Some(text("run-1/a")),
            via: Via::Cli,
            proof: if intent.kind().number < 10 { Proof::None } else { Proof::Terminal },
            sent_at: Timestamp::from_ms(1_800_000_000_123),
            content: match &intent {
                Intent::Send(_) | Intent::Done(_) | Intent::ApprovalAsk(_) => Some(golden_content()),
                Intent::ContextCreate(_) | Intent::ContextReplace(_) => Some(golden_version()),
                _ => None,
            },
            intent,
        })
        .collect()
}

pub(super) fn golden_content() -> Content {
    Content {
        subject: "gr\u{fc}n".to_owned(),
        body: Body(b"no UTF-8: \xff\x00".to_vec()),
        payload: Some(RawValue::from_string(r#"{"z":1e400,"a":9007199254740993}"#.to_owned()).unwrap()),
        context: Some("why".to_owned()),
        expect: Some("what".to_owned()),
        references: vec!["a#1".to_owned()],
        metadata: [("k".to_owned(), "v".to_owned())].into(),
        summary: Some("short".to_owned()),
        recommend: Some("next".to_owned()),
        document: None,
    }
}

/// The content of a version of a shared context.
fn golden_version() -> Content {
    let json = |text: &str| Some(RawValue::from_string(text.to_owned()).unwrap());
    Content {
        subject: "plan: begins".to_owned(),
        document: Some(Document {
            title: Some("gr\u{fc}n".to_owned()),
            text: Some("# One\n\ntwo\n".to_owned()),
            data: json(r#"{"z":1e400,"a":9007199254740993}"#),
            schema: json(r#"{"type":"object"}"#),
        }),
        ..Content::default()
    }
}
