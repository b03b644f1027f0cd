//! Reads the answer, the conversation and the cost from the output of a program.

use poste_config::Preset;
use serde_json::Value;

use super::conversation::is_id;

/// What was found in the output of a program.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Said {
    /// Empty: no answer.
    pub text: String,
    /// To resume it later.
    pub conversation: Option<String>,
    pub cost_micros: Option<u64>,
    /// The failure that the program itself reports, whatever its exit code.
    pub failed: Option<String>,
}

/// Reads the output of a program with this preset. Output in an unknown format is taken as it is.
pub(crate) fn read(preset: Preset, stdout: &str) -> Said {
    let found = match preset {
        Preset::ClaudeCode => claude(stdout),
        Preset::Codex => Some(codex(stdout)),
        Preset::Gemini => gemini(stdout),
        Preset::OpenCode => opencode(stdout),
        Preset::Aider => Some(aider(stdout)),
        Preset::Command => None,
    };
    found.unwrap_or_else(|| Said { text: stdout.trim().to_owned(), ..Said::default() })
}

/// One object, or several lines of which the last of this type is the result.
fn claude(stdout: &str) -> Option<Said> {
    let is_result = |value: &Value| value["type"] == "result";
    let whole = serde_json::from_str(stdout.trim()).ok().filter(is_result);
    let result = whole.or_else(|| lines(stdout).filter(is_result).last())?;
    let text = result["result"].as_str().unwrap_or_default().trim().to_owned();
    let failed = (result["is_error"] == true).then(|| match text.as_str() {
        "" => result["subtype"].as_str().unwrap_or("it reported a failure").to_owned(),
        text => text.to_owned(),
    });
    Some(Said { text, conversation: id(&result["session_id"]), cost_micros: micros(&result["total_cost_usd"]), failed })
}

/// Its last message is in the answer file; its output names the thread.
fn codex(stdout: &str) -> Said {
    let mut said = Said::default();
    let mut is_event = false;
    for event in lines(stdout) {
        is_event = true;
        match event["type"].as_str() {
            Some("thread.started") => said.conversation = id(&event["thread_id"]),
            Some("item.completed") if event["item"]["type"] == "agent_message" => {
                said.text = event["item"]["text"].as_str().unwrap_or_default().trim().to_owned();
            }
            Some("turn.failed") => {
                said.failed = string(&event["error"]["message"]).or(Some("its turn failed".to_owned()));
            }
            _ => {}
        }
    }
    if !is_event {
        said.text = stdout.trim().to_owned();
    }
    said
}

fn gemini(stdout: &str) -> Option<Said> {
    // Warnings may precede it.
    let object: Value = serde_json::from_str(stdout.get(stdout.find('{')?..)?.trim()).ok()?;
    Some(Said {
        text: object["response"].as_str().unwrap_or_default().trim().to_owned(),
        conversation: id(&object["session_id"]),
        cost_micros: None,
        failed: string(&object["error"]["message"]),
    })
}

fn opencode(stdout: &str) -> Option<Said> {
    let mut said = Said::default();
    let (mut texts, mut cost, mut is_event): (Vec<String>, u64, bool) = (Vec::new(), 0, false);
    for event in lines(stdout) {
        let Some(kind) = event["type"].as_str() else { continue };
        is_event = true;
        said.conversation = id(&event["sessionID"]).or(said.conversation);
        match kind {
            "text" => texts.extend(string(&event["part"]["text"])),
            // Text before a tool call is not the answer.
            "tool_use" => texts.clear(),
            "step_finish" => cost = cost.saturating_add(micros(&event["part"]["cost"]).unwrap_or(0)),
            "error" => {
                said.failed = string(&event["error"]["data"]["message"]).or(Some("it reported an error".to_owned()));
            }
            _ => {}
        }
    }
    said.text = texts.join("\n").trim().to_owned();
    said.cost_micros = (cost > 0).then_some(cost);
    is_event.then_some(said)
}

/// The answer in the answer file of a program. aider logs its whole exchange with the model there, each line after the
/// role of its author; the last response of the model is the answer.
pub(crate) fn in_file(preset: Preset, text: String) -> String {
    const LAST: &str = "\nLLM RESPONSE ";
    if preset != Preset::Aider {
        return text;
    }
    // Everything before it was sent to the model.
    let Some(at) = text.rfind(LAST) else { return String::new() };
    let said = text[at + LAST.len()..].lines().filter_map(|line| line.strip_prefix("ASSISTANT"));
    said.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// `Tokens: 1.2k sent, 34 received. Cost: $0.0012 message, $0.0034 session.`
fn aider(stdout: &str) -> Said {
    let cost = |line: &str| {
        let (_, after) = line.split_once("Cost: $")?;
        dollars(after.split_whitespace().next()?)
    };
    let costs: Vec<u64> = stdout.lines().filter(|line| line.starts_with("Tokens: ")).filter_map(cost).collect();
    let said = stdout.lines().filter(|line| !line.starts_with("Tokens: ")).collect::<Vec<_>>().join("\n");
    Said {
        text: said.trim().to_owned(),
        cost_micros: (!costs.is_empty()).then(|| costs.iter().sum()),
        // It has no ids: the history of the folder is the conversation.
        conversation: Some("folder".to_owned()),
        failed: None,
    }
}

fn lines(stdout: &str) -> impl Iterator<Item = Value> + '_ {
    stdout.lines().filter_map(|line| serde_json::from_str(line.trim()).ok()).filter(Value::is_object)
}

fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned).filter(|text| !text.is_empty())
}

/// Only a plain word is accepted as an id.
fn id(value: &Value) -> Option<String> {
    string(value).filter(|id| is_id(id))
}

fn micros(value: &Value) -> Option<u64> {
    dollars(&value.as_number()?.to_string())
}

fn dollars(amount: &str) -> Option<u64> {
    poste_config::micros(amount).filter(|micros| *micros <= poste_core::limits::RUN_NUMBER_MAX.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claude_code_reports_its_session_and_its_cost() {
        let said = read(
            Preset::ClaudeCode,
            r#"{"type":"result","subtype":"success","is_error":false,"result":"Done.\n","session_id":"0a-1","total_cost_usd":0.0123}"#,
        );
        assert_eq!(said.text, "Done.");
        assert_eq!((said.conversation.as_deref(), said.cost_micros, said.failed), (Some("0a-1"), Some(12_300), None));
        let failed = read(
            Preset::ClaudeCode,
            r#"{"type":"result","subtype":"error_max_turns","is_error":true,"session_id":"x"}"#,
        );
        assert_eq!(failed.failed.as_deref(), Some("error_max_turns"));
        assert_eq!(read(Preset::ClaudeCode, "plain words\n").text, "plain words");
    }

    #[test]
    fn codex_reports_its_thread() {
        let said = read(
            Preset::Codex,
            "{\"type\":\"thread.started\",\"thread_id\":\"t-1\"}\nnoise\n{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"Yes.\"}}\n",
        );
        assert_eq!((said.text.as_str(), said.conversation.as_deref()), ("Yes.", Some("t-1")));
    }

    #[test]
    fn gemini_and_opencode_and_aider_are_read() {
        let said =
            read(Preset::Gemini, "Warning: x\n{\n \"session_id\": \"g\", \"response\": \"Hi\", \"stats\": {}\n}\n");
        assert_eq!((said.text.as_str(), said.conversation.as_deref()), ("Hi", Some("g")));
        let said = read(
            Preset::OpenCode,
            "{\"type\":\"text\",\"sessionID\":\"s\",\"part\":{\"text\":\"I look.\"}}\n{\"type\":\"tool_use\",\"sessionID\":\"s\",\"part\":{}}\n\
             {\"type\":\"text\",\"sessionID\":\"s\",\"part\":{\"text\":\"Found.\"}}\n{\"type\":\"step_finish\",\"sessionID\":\"s\",\"part\":{\"cost\":0.5}}\n",
        );
        assert_eq!(
            (said.text.as_str(), said.conversation.as_deref(), said.cost_micros),
            ("Found.", Some("s"), Some(500_000))
        );
        let said = read(
            Preset::Aider,
            "I changed it.\nTokens: 1.2k sent, 3 received. Cost: $0.0012 message, $0.0034 session.\n",
        );
        assert_eq!((said.text.as_str(), said.cost_micros), ("I changed it.", Some(1_200)));
    }

    #[test]
    fn the_answer_of_aider_is_the_last_response_of_its_model() {
        let history = "TO LLM 2026-11-16T18:11:54\n-------\nUSER LLM RESPONSE 2026\nUSER ASSISTANT no\nLLM RESPONSE 2026-11-16T18:11:55\n\
            ASSISTANT First.\nTO LLM 2026-11-16T18:11:56\nUSER more\nLLM RESPONSE 2026-11-16T18:11:57\nASSISTANT Two\nASSISTANT \nASSISTANT lines.\n";
        assert_eq!(in_file(Preset::Aider, history.to_owned()), "Two\n\nlines.");
        assert_eq!(in_file(Preset::Aider, "TO LLM 2026\nUSER all it was asked".to_owned()), "", "no response");
        assert_eq!(in_file(Preset::Codex, history.to_owned()), history);
    }

    #[test]
    fn hostile_numbers_are_not_a_cost() {
        for cost in ["-1", "1e300", "\"much\""] {
            let line = format!(r#"{{"type":"result","result":"x","total_cost_usd":{cost}}}"#);
            assert_eq!(read(Preset::ClaudeCode, &line).cost_micros, None, "{cost}");
        }
    }

    #[test]
    fn an_option_is_not_a_conversation() {
        let line = r#"{"type":"result","result":"x","session_id":"--dangerously-skip-permissions"}"#;
        assert_eq!(read(Preset::ClaudeCode, line).conversation, None);
        let long = format!(r#"{{"type":"thread.started","thread_id":"{}"}}"#, "x".repeat(300_000));
        assert_eq!(read(Preset::Codex, &long).conversation, None);
    }
}
