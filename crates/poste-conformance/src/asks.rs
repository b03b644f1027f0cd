//! Tools that need something from the client: in older revisions they request it directly, in the newest their answer
//! says so.

use poste_connect::mcp::{Call, ErrorData};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CreateMessageRequestParams,
    ElicitRequestParams, InputRequests, InputRequiredResult, InputResponses, RequestStateCodec, SamplingMessage,
};
use serde_json::{Map, Value, json};

use crate::fixture::{made, text};

/// A fixed key is fine, because this is a test.
const KEY: &[u8] = b"a key that is long enough to seal what a test keeps";

#[derive(Debug)]
pub struct Asks {
    codec: RequestStateCodec,
}

impl Asks {
    pub fn new() -> Self {
        Self { codec: RequestStateCodec::new_unchecked(KEY) }
    }

    pub fn call(&self, request: CallToolRequestParams, call: &Call) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.to_string();
        let given = |key: &str| response(request.input_responses.as_ref(), key);
        let argument = |key: &str| {
            let arguments = request.arguments.as_ref();
            arguments.and_then(|arguments| arguments.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        match name.as_str() {
            "test_sampling" => sample(call, &argument("prompt")),
            "test_elicitation" => elicit(
                call,
                &argument("message"),
                json!({
                    "username": { "type": "string", "description": "A name" },
                    "email": { "type": "string", "description": "An address" },
                }),
            ),
            "test_elicitation_sep1034_defaults" => elicit(call, "All have defaults.", defaults()),
            "test_elicitation_sep1330_enums" => elicit(call, "Please choose.", choices()),
            "test_streaming_elicitation" => {
                Ok(input(json!({ "streaming_elicitation": form("A value, please.", "value", "string") }))?.into())
            }
            "test_input_required_result_sampling" => match given("capital_question") {
                Some(answer) => Ok(text(&format!("It answered {}", Value::Object(answer.clone())))),
                None => Ok(input(json!({ "capital_question": sampling("What is the capital of France?") }))?.into()),
            },
            "test_input_required_result_list_roots" => match given("client_roots") {
                Some(answer) => Ok(text(&format!("It has {}", Value::Object(answer.clone())))),
                None => Ok(input(json!({ "client_roots": roots() }))?.into()),
            },
            "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
                match self.state(&request)? {
                    Some(_) => Ok(text("It was confirmed: state-ok")),
                    None => self.input(json!({ "confirm": form("Please confirm.", "ok", "boolean") }), json!({})),
                }
            }
            "test_input_required_result_multiple_inputs" => {
                let state = self.state(&request)?;
                if state.is_some() && ["user_name", "greeting", "client_roots"].iter().all(|key| given(key).is_some()) {
                    return Ok(text("Everything is there."));
                }
                let all = json!({ "user_name": form("What is your name?", "name", "string"),
                    "greeting": sampling("Say something kind."), "client_roots": roots() });
                self.input(all, json!({}))
            }
            "test_input_required_result_multi_round" => {
                let round = self.state(&request)?.map_or(0, |state| state["round"].as_u64().unwrap_or(0));
                match round {
                    0 => self
                        .input(json!({ "step1": form("What is your name?", "name", "string") }), json!({ "round": 1 })),
                    1 => {
                        self.input(json!({ "step2": form("Which colour?", "color", "string") }), json!({ "round": 2 }))
                    }
                    _ => Ok(text("All rounds have ended.")),
                }
            }
            "test_input_required_result_capabilities" => of_its_capabilities(&request, call),
            name if name.starts_with("test_input_required_result_") => match given("user_name") {
                Some(answer) => Ok(text(&format!("Hello, {}", Value::Object(answer.clone())))),
                None => Ok(input(json!({ "user_name": form("What is your name?", "name", "string") }))?.into()),
            },
            unknown => Err(ErrorData::invalid_params(format!("there is no tool {unknown}"), None)),
        }
    }

    /// The state that the client was given to keep. It returns from outside, so a changed one is refused.
    fn state(&self, request: &CallToolRequestParams) -> Result<Option<Value>, ErrorData> {
        let Some(sealed) = &request.request_state else { return Ok(None) };
        let changed = |_| ErrorData::invalid_params("the state of the request was changed", None);
        self.codec.open_json(sealed).map(Some).map_err(changed)
    }

    fn input(&self, requests: Value, state: Value) -> Result<CallToolResponse, ErrorData> {
        let sealed =
            self.codec.seal_json(&state).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(InputRequiredResult::new(Some(made::<InputRequests>(requests)?), Some(sealed)).into())
    }
}

pub fn input(requests: Value) -> Result<InputRequiredResult, ErrorData> {
    Ok(InputRequiredResult::from_input_requests(made::<InputRequests>(requests)?))
}

/// An invalid answer (a number, say) is requested again.
pub fn response<'a>(responses: Option<&'a InputResponses>, key: &str) -> Option<&'a Map<String, Value>> {
    responses.and_then(|responses| responses.get(key)).and_then(Value::as_object)
}

pub fn form(message: &str, field: &str, kind: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
    json!({ "method": "elicitation/create", "params": params })
}

fn sampling(prompt: &str) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": prompt } });
    json!({ "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": 100 } })
}

fn roots() -> Value {
    json!({ "method": "roots/list" })
}

/// Only asks for what this client said it can do.
fn of_its_capabilities(request: &CallToolRequestParams, call: &Call) -> Result<CallToolResponse, ErrorData> {
    if request.input_responses.is_some() {
        return Ok(text("Everything is there."));
    }
    let client = call.context().meta.client_capabilities().unwrap_or_default();
    let mut all = Map::new();
    if client.elicitation.is_some() {
        all.insert("user_name".to_owned(), form("What is your name?", "name", "string"));
    }
    if client.sampling.is_some() {
        all.insert("greeting".to_owned(), sampling("Say something kind."));
    }
    if client.roots.is_some() {
        all.insert("client_roots".to_owned(), roots());
    }
    if all.is_empty() {
        return Ok(text("The client can be asked for nothing."));
    }
    Ok(input(Value::Object(all))?.into())
}

/// If the client declines, the tool itself reports a failure.
fn told<T: std::fmt::Debug, E: std::fmt::Display>(answer: Result<T, E>) -> CallToolResponse {
    match answer {
        Ok(answer) => text(&format!("It answered: {answer:?}")),
        Err(error) => CallToolResult::error(vec![ContentBlock::text(format!("It did not answer: {error}"))]).into(),
    }
}
fn sample(call: &Call, prompt: &str) -> Result<CallToolResponse, ErrorData> {
    let params = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], 100);
    let answer = call.block_on(call.context().peer.create_message(params));
    Ok(told(answer))
}

fn elicit(call: &Call, message: &str, properties: Value) -> Result<CallToolResponse, ErrorData> {
    let requested_schema = made(json!({ "type": "object", "properties": properties }))?;
    let params =
        ElicitRequestParams::FormElicitationParams { meta: None, message: message.to_owned(), requested_schema };
    let answer = call.block_on(call.context().peer.create_elicitation(params));
    Ok(told(answer))
}

fn defaults() -> Value {
    json!({
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    })
}

fn choices() -> Value {
    let titled =
        |name: &str| json!([1, 2, 3].map(|n| json!({ "const": format!("value{n}"), "title": format!("{name} {n}") })));
    json!({
        "untitledSingle": { "type": "string", "enum": ["option1", "option2", "option3"] },
        "titledSingle": { "type": "string", "oneOf": titled("Option") },
        "legacyEnum": { "type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"] },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": ["option1", "option2", "option3"] } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
    })
}
