//! The tools: what a model fills in, and the command it becomes. Names that people know; a model may see nothing else.

mod command_line;
mod inputs;
mod more;

use std::time::{Duration, Instant};

use poste_connect::mcp::Call;
use poste_connect::mcp::model::{JsonObject, Tool, ToolAnnotations};
use poste_core::log::{MessageNo, Position};
use poste_core::store::tables::Agent;
use poste_core::text::TypeName;
use poste_core::views::{self, MessageView, NewsQuery};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::command_line::poste;
use self::inputs::*;
use self::more::*;
use super::desk::{self, Desk};
use super::render::{self, Reply};
use crate::Result;
use crate::call::Called;
use crate::context::Mark;
use crate::error::{CommandError, Kind};
use crate::identity::Identity;

/// One tool: how it is told of, and what it does.
pub(super) struct Spec {
    pub name: &'static str,
    description: &'static str,
    input: fn() -> JsonObject,
    output: fn() -> JsonObject,
    effect: Effect,
    run: fn(&Desk, JsonObject, &Call) -> Result<Reply>,
    is_core: bool,
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spec").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a tool may do to the office. Nothing it does reaches beyond it.
#[derive(Debug, Clone, Copy)]
enum Effect {
    Reads,
    Adds,
    /// Doing it again changes nothing.
    Settles,
    /// What it does depends on what is asked of it.
    Any,
}

impl Spec {
    pub(super) fn tool(&self) -> Tool {
        let annotations = ToolAnnotations::new().open_world(false);
        let annotations = match self.effect {
            Effect::Reads => annotations.read_only(true),
            Effect::Adds => annotations.read_only(false).destructive(false).idempotent(false),
            Effect::Settles => annotations.read_only(false).destructive(false).idempotent(true),
            Effect::Any => annotations.read_only(false).destructive(true).idempotent(false),
        };
        let mut tool = Tool::new(self.name, self.description, (self.input)());
        tool.output_schema = Some((self.output)().into());
        tool.annotations = Some(annotations);
        tool
    }

    pub(super) fn run(&self, desk: &Desk, arguments: JsonObject, call: &Call) -> Result<Reply> {
        (self.run)(desk, arguments, call)
    }
}

/// What is offered: few tools that do the daily work and one for the rest, or all there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Profile {
    /// Ten tools
    #[default]
    Core,
    /// Those and a tool for each of the other frequent commands
    Full,
}

pub(super) fn of(profile: Profile) -> Vec<&'static Spec> {
    SPECS.iter().filter(|spec| spec.is_core || profile == Profile::Full).collect()
}

macro_rules! specs {
    ($($name:ident: $input:ty => $output:ty, $effect:ident, $core:literal, $description:literal;)+) => {
        static SPECS: &[Spec] = &[$(Spec {
            name: stringify!($name),
            description: $description,
            input: schema::<$input>,
            output: schema::<$output>,
            effect: Effect::$effect,
            run: |desk, arguments, call| $name(desk, filled::<$input>(stringify!($name), arguments)?, call),
            is_core: $core,
        }),+];
    };
}

specs! {
    send_message: Send => Said, Adds, true, "Send mail to another agent, a role or everybody. It is kept until they deal with it; type question or directive asks for something.";
    check_inbox: CheckInbox => Mail, Reads, true, "List the mail that waits for you, most urgent first: numbers, senders, subjects. Marks nothing as read.";
    read_message: ReadMessage => Mail, Settles, true, "Read one message whole, and have it marked as shown to you.";
    claim_work: ClaimWork => Mail, Adds, true, "Take a message to work on before you start, so that nobody else does. It stays yours while you call tools; end it with finish_work.";
    finish_work: FinishWork => Said, Settles, true, "End what you claimed: done with a summary, fail with the reason, release to give it back, extend to keep it longer.";
    reply: Reply_ => Said, Adds, true, "Answer a message; its sender gets it, and whoever waits for the answer is woken.";
    wait_for_mail: WaitForMail => Mail, Settles, true, "Wait until new mail comes, and read it. Returns at once if there is some.";
    context: Context => Said, Adds, true, "Read and write the documents that agents of this project share, such as decisions and contracts. Versions are kept; replace needs the version it was made from.";
    handoff: Handoff => Said, Adds, true, "Hand work over to another agent with its files, what is done and what to check; or see, accept or reject one.";
    poste: Poste => Said, Any, true, "Any other poste command by its words: [\"register\",\"NAME\"], [\"agents\"], [\"track\",\"12\"], [\"search\",\"login\"], [\"reserve\",\"src/**\"], [\"ask\",…], [\"help\"], [\"help\",\"reserve\"].";
    track: Number => Said, Reads, false, "What became of a message: each recipient's state with times.";
    search: Search => Said, Reads, false, "Find messages by their words.";
    thread: Number => Said, Reads, false, "The conversation a message belongs to.";
    list_agents: Nothing => Said, Reads, false, "Who is registered, with roles and waiting mail.";
    status: Nothing => Said, Reads, false, "The office at a glance.";
    acknowledge: Number => Said, Settles, false, "Say that you took note of a message that asks for no work.";
    ask: Ask => Said, Adds, false, "Ask for a decision with choices and a deadline.";
    approvals: Approvals => Said, Reads, false, "Decisions that are asked for; with a number, one of them.";
    decide: Decide => Said, Settles, false, "Decide a question you were asked.";
    reserve: Reserve => Said, Adds, false, "Reserve paths you work on, or free them.";
    agree: Agree => Said, Adds, false, "Propose something that several agents have to agree on, or see one.";
    session: SessionTool => Said, Adds, false, "Note something in your session, show or close it.";
}

/// The schema of a type, without what clients warn of and what a model does not need.
fn schema<T: JsonSchema>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    slim(&mut schema);
    match schema {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

fn slim(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for word in ["$schema", "title", "format", "default", "minimum"] {
                // A property may be called so; a keyword is no object.
                if object.get(word).is_some_and(|value| !value.is_object()) {
                    object.remove(word);
                }
            }
            // What may be left out need not be null as well.
            if let Some(Value::Array(types)) = object.get("type")
                && let Some(only) = types.iter().find(|kind| *kind != "null").filter(|_| types.len() == 2).cloned()
            {
                object.insert("type".to_owned(), only);
            }
            if let Some(Value::Array(any)) = object.get("anyOf")
                && let Some(Value::Object(only)) =
                    any.iter().find(|one| one.get("type") != Some(&json!("null"))).cloned()
            {
                object.remove("anyOf");
                object.extend(only);
            }
            if let Some(Value::Array(values)) = object.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            object.values_mut().for_each(slim);
        }
        Value::Array(values) => values.iter_mut().for_each(slim),
        _ => {}
    }
}

/// What was filled in; what does not fit is explained with what the tool takes.
fn filled<T: DeserializeOwned + JsonSchema>(tool: &str, arguments: JsonObject) -> Result<T> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        let known = schema::<T>();
        let names = |value: Option<&Value>| match value {
            Some(Value::Object(fields)) => fields.keys().cloned().collect::<Vec<_>>().join(", "),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
            _ => "nothing".to_owned(),
        };
        let hint =
            format!("{tool} takes {}; it needs {}", names(known.get("properties")), names(known.get("required")));
        CommandError::usage(format!("the arguments of {tool}: {error}")).hint(hint)
    })
}

// ---- command lines ----

/// The words of a command. What a model wrote is never taken for an option.
#[derive(Debug)]
struct Words {
    options: Vec<String>,
    values: Vec<String>,
}

impl Words {
    fn of(command: &[&str]) -> Self {
        Self { options: command.iter().map(ToString::to_string).collect(), values: Vec::new() }
    }

    fn option(mut self, name: &str, value: Option<impl ToString>) -> Self {
        self.options.extend(value.map(|value| format!("--{name}={}", value.to_string())));
        self
    }

    fn each(mut self, name: &str, values: Option<Vec<String>>) -> Self {
        self.options.extend(values.unwrap_or_default().iter().map(|value| format!("--{name}={value}")));
        self
    }

    fn flag(mut self, name: &str, is_set: Option<bool>) -> Self {
        self.options.extend(is_set.unwrap_or(false).then(|| format!("--{name}")));
        self
    }

    fn value(mut self, value: impl ToString) -> Self {
        self.values.push(value.to_string());
        self
    }

    fn maybe(self, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.value(value),
            None => self,
        }
    }

    fn line(self) -> Vec<String> {
        let Self { mut options, values } = self;
        if !values.is_empty() {
            options.push("--".to_owned());
            options.extend(values);
        }
        options
    }
}

fn number(number: i64) -> Result<MessageNo> {
    u64::try_from(number).map(MessageNo).map_err(|_| CommandError::usage("a message has a number, for example 12"))
}

fn needed<T>(value: Option<T>, what: &str) -> Result<T> {
    value.ok_or_else(|| CommandError::usage(format!("{what} is missing")))
}

/// Runs a command of the speaker; its error is the tool's.
fn command(desk: &Desk, own: &Identity, words: Words) -> Result<Called> {
    worked(desk.run(own, words.line()))
}

fn worked(mut called: Called) -> Result<Called> {
    match called.error.take() {
        Some(error) => Err(error),
        None => Ok(called),
    }
}

/// The message it is about, if it is about one.
fn numbered(called: &Called) -> Value {
    let number = called.answer.as_ref().and_then(|answer| answer.get("number")).and_then(Value::as_u64);
    number.map_or(json!({}), |number| json!({ "number": number }))
}

/// A short answer in Poste's own words.
fn said(called: Called) -> Reply {
    let more = numbered(&called);
    let mut lines = vec![called.text.trim_end().to_owned()];
    lines.extend(called.warnings.iter().map(|warning| format!("warning: {warning}")));
    let next = (!called.talk.is_empty()).then(|| called.talk.join("; "));
    Reply { marks: called.marks, ..Reply::new(lines.join("\n"), next, more) }
}

/// An answer with words of others in it.
fn printed(desk: &Desk, own: &Identity, command: &str, called: Called, budget: usize) -> Result<Reply> {
    let cx = desk.cx(own)?;
    let talk: usize = called.talk.iter().chain(&called.warnings).map(|line| crate::ui::tokens::estimate(line)).sum();
    let more = numbered(&called);
    let mut marks = called.marks;
    let (mut text, is_cut) = match called.text.trim_start().starts_with("<poste-") {
        // The command has fenced it.
        true => render::fenced_within(&called.text, budget.saturating_sub(talk)),
        false if called.text.trim().is_empty() => (String::new(), false),
        false => render::output(&cx, command, &called.text, budget.saturating_sub(talk)),
    };
    if is_cut {
        marks.retain(|mark| matches!(mark, Mark::Shown(numbers) if numbers.len() == 1));
    }
    for warning in &called.warnings {
        text.push_str(&format!("\nwarning: {warning}"));
    }
    let next = (!called.talk.is_empty()).then(|| called.talk.join("; "));
    Ok(Reply { marks, ..Reply::new(text.trim_start().to_owned(), next, more) })
}

// ---- the tools ----

fn send_message(desk: &Desk, input: Send, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let words = Words::of(&["send"])
        .option("type", input.r#type)
        .option("priority", input.priority.map(Priority::word))
        .flag("wants-response", input.wants_response)
        .option("respond-by", input.respond_by)
        .each("artifact", input.files)
        .option("id", input.id)
        .value(input.to)
        .value(input.subject)
        .maybe(input.body);
    Ok(said(command(desk, &own, words)?))
}

fn check_inbox(desk: &Desk, input: CheckInbox, _: &Call) -> Result<Reply> {
    const LINES_MAX: usize = 500;
    let own = desk.named()?;
    if input.r#type.is_some() || input.from.is_some() {
        // The command checks what was filled in, and says what is wrong with it.
        let words = Words::of(&["inbox", "--limit=1"]);
        command(desk, &own, words.option("type", input.r#type.clone()).option("from", input.from.clone()))?;
    }
    let kind = input.r#type.map(|kind| kind.parse::<TypeName>()).transpose()?;
    desk.with_office(|_, office| {
        let agent = agent(office, &own)?;
        let query = views::InboxQuery {
            unread: input.unread.unwrap_or(false),
            kind,
            from: input.from,
            all: false,
            limit: LINES_MAX,
        };
        let now = office.now()?;
        let page = views::inbox(office.store(), &agent, &query, now)?;
        Ok(render::digest(&page, now, render::budget(input.max_tokens)))
    })
}

fn agent(office: &poste_core::office::Office, own: &Identity) -> Result<Agent> {
    let name = own.agent.as_ref().ok_or_else(desk::unnamed)?;
    match office.agent(name)? {
        Some(agent) => Ok(agent),
        None => Err(crate::explain::unknown_agent(office, name)?),
    }
}

fn read_message(desk: &Desk, input: ReadMessage, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let number = number(input.number)?;
    let called = command(desk, &own, Words::of(&["read"]).value(number))?;
    let offset = usize::try_from(input.offset.unwrap_or(0)).unwrap_or(0);
    let view = views_of(desk, &[number])?.pop().ok_or_else(|| crate::explain::no_message(number))?;
    let text = render::message(&desk.cx(&own)?, &view, offset, room(input.max_tokens));
    let next = match (view.asks_work, view.wants_response) {
        (true, _) => format!("claim_work number={number}, do it, then finish_work"),
        (false, true) => format!("reply number={number}"),
        (false, false) => format!("nothing is asked of you; poste args [\"ack\", \"{number}\"] ends it"),
    };
    let more = json!({ "messages": [render::message_row(&view)] });
    Ok(Reply { marks: called.marks, ..Reply::new(text, Some(next), more) })
}

/// What a result may have for messages: rows, next step and warnings need something, too.
fn room(max_tokens: Option<i64>) -> usize {
    let budget = render::budget(max_tokens);
    budget - (budget / 6).max(60)
}

fn views_of(desk: &Desk, numbers: &[MessageNo]) -> Result<Vec<MessageView>> {
    desk.with_office(|_, office| {
        let views = numbers.iter().filter_map(|number| views::message(office.store(), *number).transpose());
        Ok(views.collect::<std::result::Result<_, _>>()?)
    })
}

fn claim_work(desk: &Desk, input: ClaimWork, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let words = Words::of(&["claim"])
        .option("lease", input.lease)
        .option("type", input.r#type)
        .maybe(input.number.map(number).transpose()?);
    let called = command(desk, &own, words)?;
    let answer = called.answer.unwrap_or_default();
    let token = answer.get("token").and_then(Value::as_u64).map(Position);
    let claims = answer.get("claims").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut numbers = Vec::new();
    let mut lines = Vec::new();
    for claim in &claims {
        let claimed = claim.pointer("/message/number").and_then(Value::as_u64).map(MessageNo);
        let until = claim.get("lease_until").and_then(Value::as_str).unwrap_or_default();
        let (Some(number), Some(token)) = (claimed, token) else { continue };
        desk.remember_claim(number, token);
        numbers.push(number);
        lines.push(format!("#{number} is yours until {until}, longer while you call tools"));
    }
    lines.extend(called.warnings.iter().map(|warning| format!("warning: {warning}")));
    let views = views_of(desk, &numbers)?;
    let (mail, shown) = render::messages(&desk.cx(&own)?, &views, room(input.max_tokens));
    let text = format!("{mail}\n{}", lines.join("\n"));
    let next = numbers.first().map(|number| format!("do it, then finish_work number={number} outcome=done summary=…"));
    let rows: Vec<Value> = views.iter().map(render::message_row).collect();
    let marks = only_shown(called.marks, &shown);
    Ok(Reply { marks, ..Reply::new(text.trim().to_owned(), next, json!({ "messages": rows })) })
}

/// Only what was really put before the model counts as shown.
fn only_shown(marks: Vec<Mark>, shown: &[MessageNo]) -> Vec<Mark> {
    let only = |mark| match mark {
        Mark::Shown(numbers) => {
            let numbers: Vec<_> = numbers.into_iter().filter(|number| shown.contains(number)).collect();
            (!numbers.is_empty()).then_some(Mark::Shown(numbers))
        }
        other => Some(other),
    };
    marks.into_iter().filter_map(only).collect()
}

fn finish_work(desk: &Desk, input: FinishWork, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let message = number(input.number)?;
    let words = match input.outcome {
        Outcome::Done => Words::of(&["done"])
            .option("summary", input.summary)
            .option("result", input.result)
            .each("file", input.files),
        Outcome::Fail => {
            let why = needed(input.summary.or(input.result), "summary: say why it failed; it")?;
            Words::of(&["fail"]).option("reason", Some(why)).flag("retry", input.retry)
        }
        Outcome::Release => Words::of(&["release"]),
        Outcome::Extend => Words::of(&["extend"]).option("lease", input.lease),
    };
    let called = command(desk, &own, words.option("token", desk.token(message)).value(message))?;
    if !matches!(input.outcome, Outcome::Extend) {
        desk.forget_claim(message);
    }
    Ok(said(called))
}

fn reply(desk: &Desk, input: Reply_, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let message = number(input.number)?;
    let is_done = input.done.unwrap_or(false);
    let words = Words::of(&["reply"])
        .flag("done", input.done)
        .option("token", desk.token(message).filter(|_| is_done))
        .flag("wants-response", input.wants_response)
        .each("artifact", input.files)
        .value(message)
        .value(input.body);
    let called = command(desk, &own, words)?;
    if is_done {
        desk.forget_claim(message);
    }
    Ok(said(called))
}

fn wait_for_mail(desk: &Desk, input: WaitForMail, call: &Call) -> Result<Reply> {
    const SECONDS_DEFAULT: i64 = 45;
    const SECONDS_MAX: i64 = 24 * 60 * 60;
    /// How often whoever waits is told so, and what it holds is kept.
    const SLICE: Duration = Duration::from_secs(5);
    let own = desk.named()?;
    let seconds = input.seconds.unwrap_or(SECONDS_DEFAULT).clamp(0, SECONDS_MAX);
    let words = || Words::of(&["wait"]).option("type", input.r#type.clone()).option("from", input.from.clone());
    // A first look, which also says what is wrong with the arguments.
    let mut called = desk.run(&own, words().option("timeout", Some("0s")).line());
    let begun = Instant::now();
    let patience = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let mut office = desk.open()?;
    let name = own.agent.clone().ok_or_else(desk::unnamed)?;
    let query = NewsQuery {
        session: own.session.clone(),
        kind: input.r#type.as_deref().map(str::parse).transpose()?,
        from: input.from.clone(),
        limit: 1,
        ..NewsQuery::default()
    };
    while called.error.as_ref().is_some_and(|error| error.kind == Kind::TimedOut) {
        let left = patience.saturating_sub(begun.elapsed());
        if call.is_cancelled() || left.is_zero() {
            break;
        }
        let found = office.wait_unless(
            Some(left.min(SLICE)),
            || call.is_cancelled(),
            |office| {
                let Some(agent) = office.agent(&name)? else { return Ok(Some(())) };
                let news = views::news(office.store(), &agent, &query)?;
                Ok((!news.messages.is_empty()).then_some(()))
            },
        )?;
        match found {
            Some(()) => called = desk.run(&own, words().option("timeout", Some("0s")).line()),
            None => {
                let waited = begun.elapsed().as_secs_f64();
                call.progress(waited, Some(patience.as_secs_f64()), "waiting for mail");
                desk.identity()?;
            }
        }
    }
    match called.error.take() {
        Some(error) if error.kind == Kind::TimedOut => {
            let text = format!("nothing new came in {} s", begun.elapsed().as_secs());
            let next = "go on with your work, or wait_for_mail again".to_owned();
            return Ok(Reply::new(text, Some(next), json!({ "messages": [] })));
        }
        Some(error) => return Err(error),
        None => {}
    }
    let found = called.answer.as_ref().and_then(|answer| answer.get("messages")).and_then(Value::as_array);
    let numbers: Vec<MessageNo> = found
        .into_iter()
        .flatten()
        .filter_map(|message| message.get("number").and_then(Value::as_u64).map(MessageNo))
        .collect();
    let views = views_of(desk, &numbers)?;
    let (text, shown) = render::messages(&desk.cx(&own)?, &views, room(input.max_tokens));
    let next = views.iter().find(|view| view.asks_work).map_or_else(
        || "answer with reply, or wait_for_mail again".to_owned(),
        |view| format!("claim_work number={}", view.number),
    );
    let rows: Vec<Value> = views.iter().take(shown.len()).map(render::message_row).collect();
    let marks = only_shown(called.marks, &shown);
    Ok(Reply { marks, ..Reply::new(text, Some(next), json!({ "messages": rows })) })
}

fn context(desk: &Desk, input: Context, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let budget = room(input.max_tokens);
    let name = || needed(input.name.clone(), "name");
    let text = || needed(input.text.clone(), "text");
    let (shown, words) = match input.action {
        ContextAction::List => ("context list", Words::of(&["context", "list"])),
        ContextAction::Show => ("context show", Words::of(&["context", "show", "--for-model"]).value(name()?)),
        ContextAction::Since => ("context since", Words::of(&["context", "since"]).value(name()?)),
        ContextAction::Append => {
            let words = Words::of(&["context", "append"]).option("title", input.title.clone());
            return Ok(said(command(desk, &own, words.value(name()?).value(text()?))?));
        }
        ContextAction::Replace => {
            let version = needed(input.version, "version: the one your text was made from")?;
            let words = Words::of(&["context", "replace"]).option("if-version", Some(version));
            return Ok(said(command(desk, &own, words.value(name()?).value(text()?))?));
        }
        ContextAction::Create => {
            let words = Words::of(&["context", "create"]).value(name()?).maybe(input.text.clone());
            return Ok(said(command(desk, &own, words)?));
        }
    };
    let called = command(desk, &own, words)?;
    printed(desk, &own, shown, called, budget)
}

fn handoff(desk: &Desk, input: Handoff, _: &Call) -> Result<Reply> {
    let own = desk.named()?;
    let budget = room(input.max_tokens);
    let message = || number(needed(input.number, "number")?);
    let words = match input.action {
        HandoffAction::Create => {
            let words = Words::of(&["handoff", "create"])
                .option("task", Some(needed(input.task, "task")?))
                .each("completed", input.completed)
                .option("background", input.text)
                .each("artifact", input.files)
                .each("check", input.checks)
                .value(needed(input.to, "to")?);
            return Ok(said(command(desk, &own, words)?));
        }
        HandoffAction::Accept => {
            let message = message()?;
            let checks = input.checks.filter(|checks| !checks.is_empty()).map(|checks| checks.join(","));
            Words::of(&["handoff", "accept"])
                .option("check", checks)
                .option("notes", input.text)
                .option("token", desk.token(message))
                .value(message)
        }
        HandoffAction::Reject => {
            let message = message()?;
            let why = needed(input.text, "text: say why; it")?;
            Words::of(&["handoff", "reject"])
                .option("reason", Some(why))
                .option("token", desk.token(message))
                .value(message)
        }
        HandoffAction::Show => Words::of(&["handoff", "show"]).value(message()?),
        HandoffAction::List => Words::of(&["handoff", "list"]),
    };
    let called = command(desk, &own, words)?;
    printed(desk, &own, "handoff", called, budget)
}
