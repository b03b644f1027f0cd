//! The four ways in which programs query a model, and the answer that each expects.

use serde_json::{Value, json};

use crate::script::Said;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `POST /v1/messages`
    Anthropic,
    /// `POST /v1/responses`
    OpenAi,
    /// `POST /v1/chat/completions`, from a program without tools: all its requests belong to the conversation.
    Chat,
    /// `POST /v1beta/models/NAME:generateContent` and `:streamGenerateContent`
    Gemini,
}

/// A tool as a request offers it. Some programs group the tools of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    pub name: String,
    pub group: Option<String>,
}

impl Tool {
    /// Whether this is a server's tool of that name: `mcp__poste__reply`, `mcp_poste_reply`, `reply` in the group
    /// `mcp__poste`.
    pub fn is(&self, wanted: &str) -> bool {
        self.name == wanted || self.name.strip_suffix(wanted).is_some_and(|prefix| prefix.ends_with('_'))
    }
}

/// An answer as sent over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wire {
    pub content_type: &'static str,
    pub body: String,
}

impl Wire {
    fn json(value: &Value) -> Self {
        Self { content_type: "application/json", body: value.to_string() }
    }

    fn events(events: &[Value], named: bool) -> Self {
        let body = events.iter().map(|event| match event["type"].as_str().filter(|_| named) {
            Some(name) => format!("event: {name}\ndata: {event}\n\n"),
            None => format!("data: {event}\n\n"),
        });
        Self { content_type: "text/event-stream", body: body.collect() }
    }
}

impl Dialect {
    pub fn of(path: &str) -> Option<Self> {
        if path.ends_with("/messages") {
            Some(Self::Anthropic)
        } else if path.ends_with("/responses") {
            Some(Self::OpenAi)
        } else if path.ends_with("/chat/completions") {
            Some(Self::Chat)
        } else if path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent") {
            Some(Self::Gemini)
        } else {
            None
        }
    }

    /// Answers to requests outside of the conversation: counts and lists.
    pub fn aside(path: &str) -> Option<Value> {
        if path.ends_with("/count_tokens") {
            Some(json!({ "input_tokens": 1000 }))
        } else if path.ends_with(":countTokens") {
            Some(json!({ "totalTokens": 1000 }))
        } else if path.ends_with("/models") {
            Some(json!({ "object": "list", "data": [], "models": [], "has_more": false }))
        } else {
            None
        }
    }

    pub fn tools(self, request: &Value) -> Vec<Tool> {
        let alone = |tool: &Value| Some(Tool { name: tool["name"].as_str()?.to_owned(), group: None });
        items(&request["tools"])
            .flat_map(|tool| match self {
                Self::Gemini => items(&tool["functionDeclarations"]).filter_map(alone).collect::<Vec<_>>(),
                Self::OpenAi if tool["type"] == "namespace" => {
                    let group = tool["name"].as_str().map(str::to_owned);
                    let named = |tool| Some(Tool { group: group.clone(), ..alone(tool)? });
                    items(&tool["tools"]).filter_map(named).collect()
                }
                _ => alone(tool).into_iter().collect(),
            })
            .collect()
    }

    fn turns(self, request: &Value) -> &Value {
        match self {
            Self::Anthropic | Self::Chat => &request["messages"],
            Self::OpenAi => &request["input"],
            Self::Gemini => &request["contents"],
        }
    }

    /// What was added to the conversation since the model last spoke.
    pub fn news(self, request: &Value) -> Vec<&Value> {
        let turns: Vec<&Value> = items(self.turns(request)).collect();
        let is_models = |turn: &&Value| match self {
            Self::Anthropic | Self::Chat => turn["role"] == "assistant",
            Self::Gemini => turn["role"] == "model",
            Self::OpenAi => {
                turn["role"] == "assistant"
                    || matches!(turn["type"].as_str(), Some("function_call" | "reasoning" | "custom_tool_call"))
            }
        };
        let from = turns.iter().rposition(is_models).map_or(0, |last| last + 1);
        turns[from..].to_vec()
    }

    /// `serial` makes ids that no other answer has.
    pub fn answer(self, said: &Said, serial: usize, streamed: bool) -> Wire {
        match self {
            Self::Anthropic => anthropic(said, serial, streamed),
            Self::OpenAi => openai(said, serial),
            Self::Chat => chat(said, serial),
            Self::Gemini => gemini(said, streamed),
        }
    }
}

fn anthropic(said: &Said, serial: usize, streamed: bool) -> Wire {
    let (block, empty, delta, stop) = match said {
        Said::Text(text) => (
            json!({ "type": "text", "text": text }),
            json!({ "type": "text", "text": "" }),
            json!({ "type": "text_delta", "text": text }),
            "end_turn",
        ),
        Said::Call(tool, arguments) => {
            let call = |input: &Value| json!({ "type": "tool_use", "id": format!("toolu_{serial:020}"), "name": tool.name, "input": input });
            let delta = json!({ "type": "input_json_delta", "partial_json": arguments.to_string() });
            (call(arguments), call(&json!({})), delta, "tool_use")
        }
    };
    let usage = json!({
        "input_tokens": 1000, "output_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
    });
    let message = |content: Value, stop: Value| {
        json!({
            "id": format!("msg_{serial:020}"), "type": "message", "role": "assistant", "model": "scripted",
            "content": content, "stop_reason": stop, "stop_sequence": null, "usage": usage,
        })
    };
    if !streamed {
        return Wire::json(&message(json!([block]), json!(stop)));
    }
    let events = [
        json!({ "type": "message_start", "message": message(json!([]), Value::Null) }),
        json!({ "type": "content_block_start", "index": 0, "content_block": empty }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null }, "usage": usage }),
        json!({ "type": "message_stop" }),
    ];
    Wire::events(&events, true)
}

fn openai(said: &Said, serial: usize) -> Wire {
    let item = match said {
        Said::Text(text) => json!({
            "type": "message", "id": format!("msg_{serial:020}"), "role": "assistant",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        }),
        Said::Call(tool, arguments) => {
            let mut call = json!({
                "type": "function_call", "id": format!("fc_{serial:020}"), "call_id": format!("call_{serial:020}"),
                "name": tool.name, "arguments": arguments.to_string(),
            });
            if let Some(group) = &tool.group {
                call["namespace"] = json!(group);
            }
            call
        }
    };
    let id = format!("resp_{serial:020}");
    let usage = json!({
        "input_tokens": 1000, "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": 10, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 1010,
    });
    let events = [
        json!({ "type": "response.created", "response": { "id": id } }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": { "id": id, "output": [item], "usage": usage } }),
    ];
    Wire::events(&events, true)
}

/// Never streamed: programs without tools are configured not to stream.
fn chat(said: &Said, serial: usize) -> Wire {
    let text = match said {
        Said::Text(text) => text.clone(),
        Said::Call(tool, _) => format!("there is no tool {}", tool.name),
    };
    Wire::json(&json!({
        "id": format!("chat_{serial:020}"), "object": "chat.completion", "created": 1, "model": "scripted",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010 },
    }))
}

fn gemini(said: &Said, streamed: bool) -> Wire {
    let part = match said {
        Said::Text(text) => json!({ "text": text }),
        Said::Call(tool, arguments) => json!({ "functionCall": { "name": tool.name, "args": arguments } }),
    };
    let answer = json!({
        "candidates": [{ "content": { "role": "model", "parts": [part] }, "finishReason": "STOP", "index": 0 }],
        "usageMetadata": { "promptTokenCount": 1000, "candidatesTokenCount": 10, "totalTokenCount": 1010 },
        "modelVersion": "scripted",
    });
    if streamed { Wire::events(&[answer], false) } else { Wire::json(&answer) }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_known_by_the_end_of_its_name() {
        let tool = |name: &str| Tool { name: name.to_owned(), group: None };
        assert!(tool("mcp__poste__reply").is("reply"));
        assert!(tool("mcp_poste_reply").is("reply"));
        assert!(tool("reply").is("reply"));
        assert!(!tool("noreply").is("reply"));
    }

    #[test]
    fn groups_of_tools_keep_their_name() {
        let request = json!({ "tools": [
            { "type": "function", "name": "exec_command" },
            { "type": "namespace", "name": "mcp__poste", "tools": [{ "type": "function", "name": "reply" }] },
            { "type": "web_search" },
        ] });
        let tools = Dialect::OpenAi.tools(&request);
        assert_eq!(tools.len(), 2);
        assert_eq!(tools[1], Tool { name: "reply".to_owned(), group: Some("mcp__poste".to_owned()) });
    }

    #[test]
    fn news_is_what_came_after_the_model_spoke() {
        let request = json!({ "messages": [
            { "role": "user", "content": "one" }, { "role": "assistant", "content": "two" },
            { "role": "user", "content": "three" }, { "role": "system", "content": "four" },
        ] });
        let news = Dialect::Anthropic.news(&request);
        assert_eq!(news.iter().map(|turn| turn["content"].as_str().unwrap()).collect::<Vec<_>>(), ["three", "four"]);
    }
}
