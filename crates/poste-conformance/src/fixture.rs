//! The table that the suite expects, most of it plain data.

use std::time::Duration;

use poste_connect::mcp::{Answered, Call, ErrorData, Table};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, CompleteRequestParams, CompleteResult,
    CompletionInfo, ContentBlock, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation,
    LoggingLevel, LoggingMessageNotificationParam, Prompt, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, Resource, ResourceTemplate, ServerCapabilities, ServerConfig, Tool,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::asks::{self, Asks};

/// One red dot.
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg==";
/// Silence.
const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";
/// The suite wants to see notifications arrive one after the other.
const BREATH: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct Fixture {
    asks: Asks,
}

impl Fixture {
    pub fn new() -> Self {
        Self { asks: Asks::new() }
    }
}

/// The handwritten values here are valid, or the suite reports them.
pub fn made<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn content(blocks: Value) -> Result<CallToolResponse, ErrorData> {
    Ok(CallToolResult::success(made::<Vec<ContentBlock>>(blocks)?).into())
}

pub fn text(text: &str) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

impl Table for Fixture {
    fn config(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .enable_completions()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("poste-conformance", env!("CARGO_PKG_VERSION")))
            .with_instructions("The tools of the conformance suite.")
    }

    fn tools(&self) -> Vec<Tool> {
        let plain = PLAIN.iter().map(|name| (*name, json!({ "type": "object", "properties": {} })));
        let schemas = [
            ("test_sampling", one_string("prompt")),
            ("test_elicitation", one_string("message")),
            ("test_custom_header", custom_header()),
            ("json_schema_2020_12_tool", every_keyword()),
        ];
        plain.chain(schemas).filter_map(|(name, schema)| tool(name, schema)).collect()
    }

    fn call(&self, request: CallToolRequestParams, call: &Call) -> Result<Answered<CallToolResponse>, ErrorData> {
        let name = request.name.to_string();
        let answer = match name.as_str() {
            "test_simple_text" => Ok(text("This is a simple text response for testing.")),
            "test_image_content" => content(json!([{ "type": "image", "data": IMAGE, "mimeType": "image/png" }])),
            "test_audio_content" => content(json!([{ "type": "audio", "data": AUDIO, "mimeType": "audio/wav" }])),
            "test_embedded_resource" => {
                let resource = json!({ "uri": "test://embedded-resource", "mimeType": "text/plain",
                    "text": "This is an embedded resource content." });
                content(json!([{ "type": "resource", "resource": resource }]))
            }
            "test_multiple_content_types" => {
                let resource = json!({ "uri": "test://mixed-content-resource", "mimeType": "application/json",
                    "text": "{\"test\":\"data\",\"value\":123}" });
                content(json!([
                    { "type": "text", "text": "Multiple content types test:" },
                    { "type": "image", "data": IMAGE, "mimeType": "image/png" },
                    { "type": "resource", "resource": resource },
                ]))
            }
            "test_error_handling" => {
                let error = ContentBlock::text("This tool intentionally returns an error for testing");
                Ok(CallToolResult::error(vec![error]).into())
            }
            "test_tool_with_logging" => {
                for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                    log(call, LoggingLevel::Info, line);
                    std::thread::sleep(BREATH);
                }
                Ok(text("It has logged."))
            }
            "test_logging_tool" => {
                if let Some(level) = call.context().meta.log_level() {
                    log(call, level, "as you wish");
                }
                Ok(text("It has logged if it was asked to."))
            }
            "test_tool_with_progress" => {
                for done in [0.0, 50.0, 100.0] {
                    call.progress(done, Some(100.0), "on its way");
                    std::thread::sleep(BREATH);
                }
                Ok(text("It has told how far it is."))
            }
            "test_reconnection" => {
                std::thread::sleep(2 * BREATH);
                Ok(text("It is still there."))
            }
            "test_custom_header" | "json_schema_2020_12_tool" => {
                let arguments = request.arguments.unwrap_or_default();
                Ok(text(&Value::Object(arguments).to_string()))
            }
            "test_trigger_tool_change" => {
                call.notices().tools_changed();
                Ok(text("The tools are said to have changed."))
            }
            "test_trigger_prompt_change" => {
                call.notices().prompts_changed();
                Ok(text("The prompts are said to have changed."))
            }
            "test_missing_capability" => needs_sampling(call),
            _ => self.asks.call(request, call),
        };
        answer.map(Answered::from)
    }

    fn resources(&self, _: &Call) -> Result<Vec<Resource>, ErrorData> {
        made(json!([
            { "uri": "test://static-text", "name": "Static text", "mimeType": "text/plain" },
            { "uri": "test://static-binary", "name": "Static binary", "mimeType": "image/png" },
        ]))
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        let templates = json!([
            { "uriTemplate": "test://template/{id}/data", "name": "With an id", "mimeType": "application/json" },
        ]);
        made(templates).unwrap_or_default()
    }

    fn read(&self, request: ReadResourceRequestParams, _: &Call) -> Result<Answered<ReadResourceResponse>, ErrorData> {
        let uri = request.uri.as_str();
        let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        let contents = match (uri, id) {
            ("test://static-text", _) => {
                json!({ "uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource." })
            }
            ("test://static-binary", _) => json!({ "uri": uri, "mimeType": "image/png", "blob": IMAGE }),
            (_, Some(id)) => {
                let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
                json!({ "uri": uri, "mimeType": "application/json", "text": data.to_string() })
            }
            _ => {
                let what = json!({ "uri": uri });
                return Err(ErrorData::resource_not_found(format!("there is no resource {uri}"), Some(what)));
            }
        };
        let result = ReadResourceResult::new(vec![made(contents)?]);
        Ok(Answered::from(ReadResourceResponse::from(result)))
    }

    fn prompts(&self) -> Vec<Prompt> {
        let arguments = json!([
            { "name": "arg1", "description": "The first", "required": true },
            { "name": "arg2", "description": "The second", "required": true },
        ]);
        let prompts = json!([
            { "name": "test_simple_prompt", "description": "Without arguments" },
            { "name": "test_prompt_with_arguments", "description": "With arguments", "arguments": arguments },
            { "name": "test_prompt_with_embedded_resource", "description": "With a resource",
              "arguments": [{ "name": "resourceUri", "description": "Which", "required": true }] },
            { "name": "test_prompt_with_image", "description": "With an image" },
            { "name": "test_input_required_result_prompt", "description": "Asks for something first" },
        ]);
        made(prompts).unwrap_or_default()
    }

    fn prompt(&self, request: GetPromptRequestParams, _: &Call) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.clone().unwrap_or_default();
        let argument = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let say = |text: &str| json!({ "role": "user", "content": { "type": "text", "text": text } });
        let messages = match request.name.as_str() {
            "test_simple_prompt" => json!([say("This is a simple prompt for testing.")]),
            "test_prompt_with_arguments" => {
                let (one, two) = (argument("arg1"), argument("arg2"));
                json!([say(&format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))])
            }
            "test_prompt_with_embedded_resource" => {
                let uri = Some(argument("resourceUri")).filter(|uri| !uri.is_empty());
                let uri = uri.unwrap_or_else(|| "test://static-text".to_owned());
                let resource = json!({ "uri": uri, "mimeType": "text/plain", "text": "Embedded resource content." });
                let content = json!({ "type": "resource", "resource": resource });
                json!([{ "role": "user", "content": content }, say("Please look at it.")])
            }
            "test_prompt_with_image" => {
                let content = json!({ "type": "image", "data": IMAGE, "mimeType": "image/png" });
                json!([{ "role": "user", "content": content }, say("Please look at it.")])
            }
            "test_input_required_result_prompt" => {
                match asks::response(request.input_responses.as_ref(), "user_context") {
                    Some(_) => json!([say("Now there is a context.")]),
                    None => {
                        return Ok(asks::input(
                            json!({ "user_context": asks::form("Which context?", "context", "string") }),
                        )?
                        .into());
                    }
                }
            }
            unknown => return Err(ErrorData::invalid_params(format!("there is no prompt {unknown}"), None)),
        };
        Ok(GetPromptResult::new(made(messages)?).into())
    }

    fn complete(&self, request: CompleteRequestParams) -> Result<CompleteResult, ErrorData> {
        let values = [request.argument.value, "paris".to_owned()].to_vec();
        let info = CompletionInfo::new(values).map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(info))
    }

    fn set_level(&self, _: LoggingLevel) -> Result<(), ErrorData> {
        Ok(())
    }
}

/// Tools without arguments.
const PLAIN: [&str; 24] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_logging_tool",
    "test_error_handling",
    "test_tool_with_progress",
    "test_reconnection",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
];

fn tool(name: &'static str, schema: Value) -> Option<Tool> {
    let Value::Object(schema) = schema else { return None };
    Some(Tool::new(name, "A tool of the conformance suite", schema))
}

fn one_string(name: &str) -> Value {
    json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] })
}

/// An argument that is also sent in a header of the request.
fn custom_header() -> Value {
    let value = json!({ "type": "string", "x-mcp-header": "Value" });
    json!({ "type": "object", "properties": { "value": value }, "required": ["value"] })
}

/// A schema that must arrive as it was written.
fn every_keyword() -> Value {
    let address = json!({ "$anchor": "address", "type": "object",
        "properties": { "street": { "type": "string" }, "city": { "type": "string" } } });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": address },
        "properties": { "name": { "type": "string" }, "address": { "$ref": "#/$defs/address" } },
        "allOf": [{ "anyOf": [{ "required": ["name"] }, { "required": ["address"] }] }],
        "if": { "required": ["address"] },
        "then": { "properties": { "address": { "required": ["street"] } } },
        "else": { "required": ["name"] },
        "additionalProperties": false,
    })
}
fn log(call: &Call, level: LoggingLevel, line: &str) {
    let message = LoggingMessageNotificationParam::new(level, json!(line)).with_logger("poste-conformance");
    // A client that is gone does not need the message.
    let _ = call.block_on(call.context().peer.notify_logging_message(message));
}
fn needs_sampling(call: &Call) -> Result<CallToolResponse, ErrorData> {
    let can = call.context().meta.client_capabilities().is_some_and(|client| client.sampling.is_some());
    if can {
        return Ok(text("The client can sample."));
    }
    let needed = ClientCapabilities::builder().enable_sampling().build();
    Err(ErrorData::missing_required_client_capability(needed))
}
