//! What a program understands as an answer of a hook. Everything on stdout is JSON, or nothing.

use serde_json::{Value, json};

use super::{Event, Moment};
use poste_verbs::program::Program;

/// What a hook has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Nothing,
    /// To be put before the model.
    Context(String),
    /// It is not to stop yet, for this reason.
    Hold(String),
    /// It may stop; something for the person who watches.
    Remark(String),
}

/// Whether a program puts what a hook says at this moment before its model.
pub fn takes_context(program: Program, moment: Moment) -> bool {
    match moment {
        Moment::SessionStart | Moment::Tool => true,
        // Cursor only lets a hook refuse a prompt.
        Moment::Prompt => program != Program::Cursor,
        Moment::Stop | Moment::SessionEnd | Moment::Wait => false,
    }
}

/// The line for stdout; `None`: nothing is printed, which every program takes for "go on".
pub fn written(program: Program, moment: Moment, event: &Event, reply: &Reply) -> Option<String> {
    let answer = match program {
        Program::ClaudeCode | Program::Codex | Program::Gemini => of_claude_kind(program, moment, event, reply),
        Program::Cursor => of_cursor(reply),
        Program::OpenCode => of_opencode(reply),
    };
    // Codex takes a stop hook that printed no JSON for a broken one.
    let answer = match (program, moment, answer) {
        (Program::Codex, Moment::Stop, None) => Some(json!({})),
        (_, _, answer) => answer,
    };
    answer.map(|answer| answer.to_string())
}

/// Codex and Gemini took over the shape that Claude Code began with; Gemini has other names.
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

/// The name of the very event it answers: others than the first are alike enough for the same hook.
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

/// It has no hooks that are commands; the plugin that set-up writes runs one, and reads this.
fn of_opencode(reply: &Reply) -> Option<Value> {
    match reply {
        Reply::Nothing => None,
        Reply::Context(text) => Some(json!({ "context": text })),
        Reply::Hold(reason) => Some(json!({ "block": reason })),
        Reply::Remark(text) => Some(json!({ "remark": text })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
