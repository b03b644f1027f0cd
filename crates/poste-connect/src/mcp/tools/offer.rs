//! A tool offers one verb or several: which fields of their inputs a model fills in, and how they are called.

use std::sync::OnceLock;

use poste_verbs::model::tokens;
use poste_verbs::session::Identity;
use poste_verbs::{Error, Mark, Result, Verb};
use rmcp::model::{JsonObject, Tool as Definition, ToolAnnotations};
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::answers::{Mail, Said};
use super::mail::MAX_TOKENS;
use super::schema::{self, Properties};
use crate::mcp::Call;
use crate::mcp::connection::{Connection, unnamed};
use crate::mcp::render::{self, Reply};

/// A verb that a tool offers.
pub(in crate::mcp) struct Offer {
    /// The word that selects it, if a tool offers several.
    pub choice: &'static str,
    pub verb: &'static str,
    /// The fields of its input that a model may fill in: `body`, or `files=artifacts` under another name.
    pub fields: &'static [&'static str],
    input: fn() -> Value,
    /// The schema of its input, made on first use.
    known: OnceLock<Value>,
    calls: Calls,
    shows: Shows,
}

/// How a verb is called.
pub(super) enum Calls {
    /// Its answer is shown as text.
    Text,
    With(fn(&Connection, &Identity, Value, &Call) -> Result<Called>),
    /// By the tool itself; it is only listed for hints.
    Tool,
}

/// What an answer consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    /// Poste's own text, which is short.
    Own,
    /// Text of other agents, which is fenced.
    Others,
}

/// The answer of a verb, as text.
#[derive(Debug, Default)]
pub(in crate::mcp) struct Called {
    pub answer: Value,
    pub text: String,
    /// Whether all of the text is in one fence.
    pub is_fenced: bool,
    pub next: Vec<String>,
    pub warnings: Vec<String>,
    pub marks: Vec<Mark>,
    /// The error, if the call failed although it has an answer.
    pub failed: Option<Box<Error>>,
}

impl Offer {
    /// A verb whose answer is shown as text.
    pub(super) fn of<V: Verb>(choice: &'static str, fields: &'static [&'static str], shows: Shows) -> Self {
        Self::taking::<V>(V::NAME, choice, fields, shows, Calls::Text)
    }

    /// A verb that is called by a function of its own.
    pub(super) fn with<V: Verb>(
        choice: &'static str,
        fields: &'static [&'static str],
        shows: Shows,
        call: fn(&Connection, &Identity, Value, &Call) -> Result<Called>,
    ) -> Self {
        Self::taking::<V>(V::NAME, choice, fields, shows, Calls::With(call))
    }

    /// A verb whose tool takes another input than the verb.
    pub(super) fn taking<I: JsonSchema>(
        verb: &'static str,
        choice: &'static str,
        fields: &'static [&'static str],
        shows: Shows,
        calls: Calls,
    ) -> Self {
        Self { choice, verb, fields, input: schema::of::<I>, known: OnceLock::new(), calls, shows }
    }

    /// A verb that a tool with its own answer calls itself; it is only listed for hints.
    pub(super) fn silent<V: Verb>(fields: &'static [&'static str]) -> Self {
        Self::taking::<V>(V::NAME, "", fields, Shows::Own, Calls::Tool)
    }

    pub(super) fn has_text(&self) -> bool {
        matches!(self.calls, Calls::Text)
    }

    fn call(&self, connection: &Connection, own: &Identity, input: Value, call: &Call) -> Result<Called> {
        match self.calls {
            Calls::Text => connection.show(own, self.verb, input, Some(call)),
            Calls::With(with) => with(connection, own, input, call),
            Calls::Tool => Ok(Called::default()),
        }
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        for (_, field) in self.names() {
            assert!(schema::has_property(self.known(), field), "{} does not take {field}", self.verb);
        }
    }

    /// What the verb says that the offered fields touch.
    #[cfg(test)]
    pub(super) fn touches(&self) -> impl Iterator<Item = (&'static str, poste_verbs::Touch)> {
        let spec = poste_verbs::verb::find(self.verb).expect("a verb");
        self.names().filter_map(|(_, field)| Some((field, spec.touch_of(field)?)))
    }

    fn known(&self) -> &Value {
        self.known.get_or_init(self.input)
    }

    /// The fields, by their name in the tool and their name in the verb.
    fn names(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.fields.iter().map(|field| field.split_once('=').unwrap_or((field, field)))
    }

    /// The name in the tool of a field of the verb.
    pub(in crate::mcp) fn name_of(&self, verb_field: &str) -> Option<&'static str> {
        self.names().find(|(_, known)| *known == verb_field).map(|(name, _)| name)
    }

    /// The input of the verb, from the arguments of the tool. Errors use the names of the tool.
    fn input(&self, mut arguments: JsonObject) -> Result<Map<String, Value>> {
        let known = self.known();
        let mut input = Map::new();
        for (name, field) in self.names() {
            match arguments.remove(name).filter(|value| !value.is_null()) {
                Some(mut value) => {
                    // Verbs that share a field may have it in different types.
                    schema::take_as_meant(&schema::property(known, field), &mut value);
                    input.insert(field.to_owned(), value);
                }
                None if schema::is_required(known, field) => {
                    return Err(Error::usage(format!("{name} is missing")));
                }
                None => {}
            }
        }
        match arguments.keys().next() {
            Some(stray) => Err(Error::usage(format!("{stray} does not belong to {}", self.choice))),
            None => Ok(input),
        }
    }

    fn takes_token(&self) -> bool {
        schema::has_property(self.known(), "token")
    }
}

/// Parses the input of a verb.
pub(super) fn filled<V: Verb + JsonSchema>(input: Value) -> Result<V> {
    serde_json::from_value(input).map_err(|error| Error::usage(error.to_string()))
}

/// One tool: its definition, and the verbs it offers.
pub(in crate::mcp) struct Tool {
    pub name: &'static str,
    pub(super) description: &'static str,
    pub(super) effect: Effect,
    pub(super) is_core: bool,
    /// The field that chooses between several verbs.
    pub(super) choice: &'static str,
    pub(super) offers: Vec<Offer>,
    /// The input and answer of a tool that does more than call a verb.
    pub(super) own: Option<Own>,
    /// The schema of its arguments, made on first use.
    pub(super) takes: OnceLock<JsonObject>,
}

/// A tool with an answer of its own, for an agent that has a name.
pub(super) struct Own {
    /// Numbers that it takes itself, with what a model reads about them. The other fields are the verb's.
    pub takes: &'static [(&'static str, &'static str)],
    pub run: fn(&Connection, &Identity, JsonObject, &Call) -> Result<Reply>,
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a tool may do to the office. No tool affects anything else.
#[derive(Debug, Clone, Copy)]
pub(super) enum Effect {
    Reads,
    Adds,
    /// Repeating it changes nothing.
    Settles,
}

impl Tool {
    pub(in crate::mcp) fn definition(&self) -> Definition {
        let annotations = ToolAnnotations::new().open_world(false);
        let annotations = match self.effect {
            Effect::Reads => annotations.read_only(true),
            Effect::Adds => annotations.read_only(false).destructive(false).idempotent(false),
            Effect::Settles => annotations.read_only(false).destructive(false).idempotent(true),
        };
        let mut definition = Definition::new(self.name, self.description, self.takes().clone());
        let output = if self.own.is_some() { schema::object::<Mail>() } else { schema::object::<Said>() };
        definition.output_schema = Some(output.into());
        definition.annotations = Some(annotations);
        definition
    }

    /// The argument that selects one of several verbs: `action=show`.
    pub(in crate::mcp) fn choosing(&self, offer: &Offer) -> Option<String> {
        (self.offers.len() > 1).then(|| format!("{}={}", self.choice, offer.choice))
    }

    fn takes(&self) -> &JsonObject {
        self.takes.get_or_init(|| self.properties().into_schema())
    }

    fn properties(&self) -> Properties {
        let mut properties = Properties::default();
        if self.offers.len() > 1 {
            let words: Vec<&str> = self.offers.iter().map(|offer| offer.choice).collect();
            properties.require(self.choice, json!({ "type": "string", "enum": words }));
        }
        for offer in &self.offers {
            let known = offer.known();
            for (name, field) in offer.names() {
                let is_required = self.offers.len() == 1 && schema::is_required(known, field);
                properties.add(name, schema::property(known, field), is_required);
            }
        }
        let of_own = self.own.iter().flat_map(|own| own.takes);
        let for_text = self.offers.iter().any(|offer| offer.shows == Shows::Others).then_some(&MAX_TOKENS);
        for (name, about) in of_own.chain(for_text) {
            let mut property = json!({ "type": "integer" });
            if !about.is_empty() {
                property["description"] = json!(about);
            }
            properties.add(name, property, false);
        }
        properties
    }

    pub(in crate::mcp) fn run(&self, connection: &Connection, mut arguments: JsonObject, call: &Call) -> Result<Reply> {
        let caller = connection.identity_of_call();
        schema::check(self.name, self.takes(), &mut arguments)?;
        let caller = caller?;
        let reply = match &self.own {
            Some(_) if caller.agent.is_none() => return Err(unnamed()),
            Some(own) => (own.run)(connection, &caller, arguments, call)?,
            None => self.call(connection, &caller, arguments, call)?,
        };
        Ok(match connection.another() {
            Some(warning) => reply.warned(&warning),
            None => reply,
        })
    }

    fn call(&self, connection: &Connection, own: &Identity, mut arguments: JsonObject, call: &Call) -> Result<Reply> {
        let budget = room(arguments.remove(MAX_TOKENS.0).and_then(|budget| budget.as_i64()));
        let offer = self.chosen(&mut arguments)?;
        let mut input = offer.input(arguments)?;
        if offer.takes_token()
            && let Some(number) = input.get("number").and_then(Value::as_u64)
            && let Some(token) = connection.token(own, poste_core::MessageNo(number))
        {
            input.insert("token".to_owned(), json!(token));
        }
        let mut called = offer.call(connection, own, Value::Object(input), call)?;
        let failed = called.failed.take();
        let why = failed.as_deref().map(|error| connection.error_text(error));
        let budget = budget.saturating_sub(why.as_deref().map_or(0, tokens::estimate));
        let reply = match offer.shows {
            Shows::Own => said(called),
            Shows::Others => printed(connection, offer.verb, called, budget),
        };
        Ok(match (failed, why) {
            (Some(failed), Some(why)) => reply.failed(&why, connection.error_data(&failed)),
            _ => reply,
        })
    }

    fn chosen(&self, arguments: &mut JsonObject) -> Result<&Offer> {
        if let [only] = self.offers.as_slice() {
            return Ok(only);
        }
        let word = arguments.remove(self.choice).and_then(|word| word.as_str().map(ToOwned::to_owned));
        let word = word.unwrap_or_default();
        self.offers.iter().find(|offer| offer.choice == word).ok_or_else(|| {
            let words: Vec<&str> = self.offers.iter().map(|offer| offer.choice).collect();
            Error::usage(format!("{} is one of {}", self.choice, words.join(", ")))
        })
    }
}

/// The number of the message that the answer is about, if there is one.
fn numbered(called: &Called) -> Value {
    let number = called.answer.get("number").and_then(Value::as_u64);
    number.map_or(json!({}), |number| json!({ "number": number }))
}

fn next(called: &Called) -> Option<String> {
    (!called.next.is_empty()).then(|| called.next.join("; "))
}

/// A short answer of Poste's own text.
fn said(called: Called) -> Reply {
    let mut lines = vec![called.text.trim_end().to_owned()];
    lines.extend(called.warnings.iter().map(|warning| format!("warning: {warning}")));
    let reply = Reply::new(lines.join("\n"), next(&called), numbered(&called));
    Reply { marks: called.marks, ..reply }
}

/// An answer that contains text of other agents.
fn printed(connection: &Connection, verb: &str, called: Called, budget: usize) -> Reply {
    let talk: usize = called.next.iter().chain(&called.warnings).map(|line| tokens::estimate(line)).sum();
    let room = budget.saturating_sub(talk);
    let (mut text, is_cut) = match called.is_fenced {
        true => render::fenced_within(&called.text, room),
        false if called.text.trim().is_empty() => (String::new(), false),
        false => render::output(connection.ids(), verb, &called.text, room),
    };
    for warning in &called.warnings {
        text.push_str(&format!("\nwarning: {warning}"));
    }
    let reply = Reply::new(text.trim_start().to_owned(), next(&called), numbered(&called));
    // Only what was really printed for the model counts as shown.
    let marks = if is_cut { Vec::new() } else { called.marks };
    Reply { marks, ..reply }
}

/// The part of a budget that messages may use: rows, next step and warnings need some, too.
pub(super) fn room(max_tokens: Option<i64>) -> usize {
    let budget = render::budget(max_tokens);
    budget - (budget / 6).max(60)
}
