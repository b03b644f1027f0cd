//! The input that agent programs give to a hook, and its answers.

use std::io;

use poste_connect::hook::{Event, Moment, Reply, Source, read, takes_context, written};
use poste_core::text::Session;
use poste_verbs::program::Program;
use serde_json::{Value, json};

/// The most that is read.
const BYTES_MAX: usize = 16 * 1024 * 1024;

fn understand(bytes: &[u8]) -> Event {
    read(bytes)
}

fn session(event: &Event) -> Option<&str> {
    event.session.as_ref().map(Session::as_str)
}

#[test]
fn what_each_program_writes_is_understood() {
    let claude = br#"{"session_id":"8c35","transcript_path":"/t.jsonl","cwd":"/w/app","hook_event_name":"SessionStart","source":"compact"}"#;
    let event = understand(claude);
    assert_eq!((session(&event), event.source), (Some("8c35"), Source::Compact));
    assert_eq!(event.cwd.as_deref(), Some(std::path::Path::new("/w/app")));
    let codex = br#"{"session_id":"0199","turn_id":"t","cwd":"/w","hook_event_name":"Stop","stop_hook_active":true}"#;
    assert_eq!(understand(codex).stop_hook_active, Some(true));
    let gemini =
        br#"{"session_id":"g1","cwd":"/w","hook_event_name":"BeforeAgent","timestamp":"2026","prompt":"Fix it"}"#;
    assert_eq!(understand(gemini).prompt.as_deref(), Some("Fix it"));
    let cursor = br#"{"conversation_id":"c1","generation_id":"g","hook_event_name":"stop","workspace_roots":["/w/app","/x"],"loop_count":2}"#;
    let event = understand(cursor);
    assert_eq!((session(&event), event.stop_hook_active), (Some("c1"), Some(true)));
    assert_eq!(event.cwd.as_deref(), Some(std::path::Path::new("/w/app")));
    let subagent =
        br#"{"session_id":"8c35","agent_id":"a1","hook_event_name":"PostToolUse","tool_response":{"a":[1]}}"#;
    assert!(understand(subagent).in_subagent);
}

#[test]
fn what_cannot_be_understood_is_left_out() {
    let nested = format!("{{\"cwd\":{}", "[".repeat(100_000));
    for hostile in [
        "",
        "null",
        "[]",
        "no JSON",
        "{",
        "{\"session_id\":",
        "\u{0}",
        r#"{"session_id":5}"#,
        r#"{"session_id":{"a":1}}"#,
        r#"{"session_id":"a b"}"#,
        r#"{"session_id":""}"#,
        r#"{"cwd":"relative"}"#,
        r#"{"workspace_roots":[5]}"#,
        r#"{"stop_hook_active":"yes"}"#,
        r#"{"loop_count":-1}"#,
        &nested,
    ] {
        assert_eq!(understand(hostile.as_bytes()), Event::default(), "{hostile:.40}");
    }
    assert_eq!(understand(&[0xff, 0xfe, b'{']), Event::default());
    let long = format!(r#"{{"session_id":"{}"}}"#, "x".repeat(129));
    assert_eq!(understand(long.as_bytes()), Event::default());
}

#[test]
fn what_came_before_the_text_broke_off_counts() {
    let cut = r#"{"session_id":"8c35","cwd":"/w","tool_response":"and then"#;
    assert_eq!(session(&understand(cut.as_bytes())), Some("8c35"));
    let huge = format!(r#"{{"session_id":"8c35","tool_response":"{}"}}"#, "x".repeat(BYTES_MAX));
    let mut input = io::Cursor::new(huge.into_bytes());
    assert_eq!(session(&read(&mut input)), Some("8c35"));
    assert_eq!(input.position() as usize, input.get_ref().len(), "the pipe was read to its end");
}

fn answers(program: Program, moment: Moment, name: &str, reply: &Reply) -> Option<Value> {
    let event = Event { name: Some(name.to_owned()), ..Event::default() };
    written(program, moment, &event, reply).map(|line| {
        assert!(!line.contains('\n'), "one line");
        serde_json::from_str(&line).unwrap()
    })
}

fn context(name: &str) -> Option<Value> {
    Some(json!({ "hookSpecificOutput": { "hookEventName": name, "additionalContext": "a\nb" } }))
}

#[test]
fn each_program_gets_the_words_it_knows() {
    let (said, hold) = (Reply::Context("a\nb".to_owned()), Reply::Hold("why".to_owned()));
    let remark = Reply::Remark("so".to_owned());
    for program in [Program::ClaudeCode, Program::Codex] {
        assert_eq!(answers(program, Moment::SessionStart, "SessionStart", &said), context("SessionStart"));
        assert_eq!(answers(program, Moment::Prompt, "UserPromptSubmit", &said), context("UserPromptSubmit"));
        assert_eq!(answers(program, Moment::Tool, "PostToolUse", &said), context("PostToolUse"));
        let blocked = Some(json!({ "decision": "block", "reason": "why" }));
        assert_eq!(answers(program, Moment::Stop, "Stop", &hold), blocked);
        assert_eq!(answers(program, Moment::Stop, "Stop", &remark), Some(json!({ "systemMessage": "so" })));
    }
    assert_eq!(answers(Program::ClaudeCode, Moment::Tool, "PostToolBatch", &said), context("PostToolBatch"));
    assert_eq!(answers(Program::ClaudeCode, Moment::Tool, "Evil\"Name", &said), context("PostToolUse"));
    assert_eq!(answers(Program::Gemini, Moment::SessionStart, "SessionStart", &said), context("SessionStart"));
    assert_eq!(answers(Program::Gemini, Moment::Prompt, "BeforeAgent", &said), context("BeforeAgent"));
    assert_eq!(answers(Program::Gemini, Moment::Tool, "AfterTool", &said), context("AfterTool"));
    let denied = Some(json!({ "decision": "deny", "reason": "why" }));
    assert_eq!(answers(Program::Gemini, Moment::Stop, "AfterAgent", &hold), denied);
    let context = Some(json!({ "additional_context": "a\nb" }));
    assert_eq!(answers(Program::Cursor, Moment::SessionStart, "sessionStart", &said), context);
    assert_eq!(answers(Program::Cursor, Moment::Tool, "postToolUse", &said), context);
    let followed = Some(json!({ "followup_message": "why" }));
    assert_eq!(answers(Program::Cursor, Moment::Stop, "stop", &hold), followed);
    assert!(!takes_context(Program::Cursor, Moment::Prompt));
    assert_eq!(answers(Program::OpenCode, Moment::Tool, "", &said), Some(json!({ "context": "a\nb" })));
    assert_eq!(answers(Program::OpenCode, Moment::Stop, "", &hold), Some(json!({ "block": "why" })));
}

#[test]
fn nothing_to_say_is_nothing_printed() {
    for program in Program::ALL {
        for moment in Moment::ALL {
            let line = written(program, moment, &Event::default(), &Reply::Nothing);
            let must_speak = program == Program::Codex && moment == Moment::Stop;
            assert_eq!(line, must_speak.then(|| "{}".to_owned()), "{program} {moment}");
        }
    }
}
