//! Writes a hook's answer in the form its program expects: one line of JSON on stdout, or nothing.

use serde_json::{Value, json};

use super::{Event, Moment};
use poste_verbs::program::Program;

/// A hook's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Nothing,
    /// Text for the model.
    Context(String),
    /// The session must not stop yet, for this reason.
    Hold(String),
    /// The session may stop; a note for the person who watches.
    Remark(String),
}

/// Whether a program shows its model what a hook prints at this moment.
pub fn takes_context(program: Program, moment: Moment) -> bool {
    match moment {
        Moment::SessionStart | Moment::Tool => true,
        // Cursor only lets a hook refuse a prompt.
        Moment::Prompt => program != Program::Cursor,
        Moment::Stop | Moment::SessionEnd | Moment::Wait => false,
    }
}

/// The line for stdout; `None`: nothing is printed, which every program takes as "continue".
pub fn written(program: Program, moment: Moment, event: &Event, reply: &Reply) -> Option<String> {
    let answer = match program {
        Program::ClaudeCode | Program::Codex | Program::Gemini => of_claude_kind(program, moment, event, reply),
        Program::Cursor => of_cursor(reply),
        Program::OpenCode => of_opencode(reply),
    };
    // Codex treats a stop hook that prints no JSON as broken.
    let answer = match (program, moment, answer) {
        (Program::Codex, Moment::Stop, None) => Some(json!({})),
        (_, _, answer) => answer,
    };
    answer.map(|answer| answer.to_string())
}

/// Codex and Gemini use Claude Code's format; Gemini has other names.
fn of_claude_kind(program: Program, moment: Moment, event: &Event, reply: &Reply) -> Option<Value> {
    let refusal = if program == Program::Gemini { "deny" } else { "block" };
    match reply {
        Reply::Nothing => None,
        Reply::Context(text) => {
            let name = event_name(program, moment, event)?;
            Some(json!({ "hookSpecificOutput": { "hookEventName": name, "additionalContext": text } }))
        }
        Reply::Hold(reason) => Some(json!({ "decision": refusal, "reason": reason })),
        Reply::Remark(text) => Some(json!({ "systemMessage": text })),
    }
}

/// The name of the event being answered. Names after the first are similar events that the same hook serves.
fn event_name(program: Program, moment: Moment, event: &Event) -> Option<&'static str> {
    let names: &[&'static str] = match (program, moment) {
        (_, Moment::SessionStart) => &["SessionStart"],
        (Program::Gemini, Moment::Prompt) => &["BeforeAgent"],
        (Program::Gemini, Moment::Tool) => &["AfterTool"],
        (_, Moment::Prompt) => &["UserPromptSubmit"],
        (_, Moment::Tool) => &["PostToolUse", "PostToolBatch", "PostToolUseFailure"],
        _ => return None,
    };
    let told = event.name.as_deref();
    names.iter().copied().find(|name| Some(*name) == told).or_else(|| names.first().copied())
}

fn of_cursor(reply: &Reply) -> Option<Value> {
    match reply {
        Reply::Context(text) => Some(json!({ "additional_context": text })),
        Reply::Hold(reason) => Some(json!({ "followup_message": reason })),
        Reply::Nothing | Reply::Remark(_) => None,
    }
}

/// OpenCode runs no hook commands: the plugin that set-up writes runs them, and reads this.
fn of_opencode(reply: &Reply) -> Option<Value> {
    match reply {
        Reply::Nothing => None,
        Reply::Context(text) => Some(json!({ "context": text })),
        Reply::Hold(reason) => Some(json!({ "block": reason })),
        Reply::Remark(text) => Some(json!({ "remark": text })),
    }
}
