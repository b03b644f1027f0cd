//! How a session takes a name. The agent belongs to the process: a name that was taken is not changed here.

use poste_core::store::processes::{self, Presence};
use poste_core::text::{Name, Session, Word};
use poste_core::views;
use poste_core::vocabulary::AgentKind;
use poste_verbs::live::Live;
use poste_verbs::session::Identity;
use poste_verbs::{Error, Result, Verb as _, register, session};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::offer::Called;
use crate::mcp::Call;
use crate::mcp::connection::Connection;
use crate::station;

/// The arguments of `office action=register`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    name: Name,
    role: Option<Word>,
    #[serde(default)]
    capabilities: Vec<Word>,
    /// The name is in use: take NAME-2
    #[serde(default)]
    own_name: bool,
    /// In use by your earlier session: continue it
    #[serde(default)]
    take_over: bool,
}

/// Registers a name, or takes a registered one as it is, and starts a session that lasts as long as the program above.
pub(super) fn register(connection: &Connection, own: &Identity, input: Value, call: &Call) -> Result<Called> {
    let input: Input = serde_json::from_value(input).map_err(|error| Error::usage(error.to_string()))?;
    if let Some(agent) = connection.name().filter(|agent| *agent != input.name) {
        let message = format!("this session acts as {agent}, and no tool can change that");
        return Err(Error::refused(message).code("named"));
    }
    let known = connection.with_office(|open| Ok(open.office.agent(&input.name)?))?;
    if known.as_ref().is_some_and(|known| known.kind == AgentKind::Human) && own.agent.is_none() {
        let message = format!("{} is a person, and no tool can take that name", input.name);
        return Err(Error::refused(message).code("not_allowed").hint(
            "take a name of your own: office action=register name=NAME role=ROLE; a person registers at a terminal",
        ));
    }
    let is_registered = known.is_some_and(|known| known.is_active());
    // A registered agent is taken as it is: another role would make it another agent.
    let is_taken_as_it_is = is_registered && own.agent.is_none();
    let named = Identity { agent: Some(input.name.clone()), session: own.session.clone() };
    let wanted = register_input(&input, is_registered, is_taken_as_it_is);
    if input.take_over && !may_take_over(connection, &input.name, call)? {
        let message = format!("{} is in use by another session", input.name);
        return Err(with_tool_hints(Error::conflict(message).code("session_live"), &input.name));
    }
    let registered = connection.show(&named, register::Input::NAME, wanted, None)?;
    let wants_session = own.agent.is_none() || input.own_name || input.take_over;
    if own.session.is_some() || !wants_session {
        return Ok(registered);
    }
    let started = connection.call(&named, session_input(connection, &input, call));
    connection.look_again();
    let started = started.map_err(|error| with_tool_hints(error, &input.name))?;
    let warnings = connection.texts(&started.warnings);
    Ok(Called { next: vec!["check_inbox".to_owned()], warnings, ..registered })
}

/// Whether this program may end the live session of a name. A model must not take the name of an agent that is at work:
/// only that agent's own conversation continues in its place, or any after the process has ended.
fn may_take_over(connection: &Connection, name: &Name, call: &Call) -> Result<bool> {
    let live = connection.with_office(|open| Ok(views::live_session(open.office.store(), name)?))?;
    Ok(live.is_none_or(|live| {
        live.process == Presence::Gone || program_session(connection, call).is_some_and(|own| own == live.id)
    }))
}

fn register_input(input: &Input, is_registered: bool, as_it_is: bool) -> Value {
    match as_it_is {
        true => json!({ "name": input.name, "update": true }),
        false => json!({
            "name": input.name,
            "role": input.role,
            "capabilities": input.capabilities,
            "update": is_registered,
        }),
    }
}

/// The session gets the program's own id, if that is known and no session of this office has it yet.
fn session_input(connection: &Connection, input: &Input, call: &Call) -> session::start::Input {
    let is_new = |id: &Session| {
        connection.with_office(|open| Ok(views::session(open.office.store(), id)?.is_none())).unwrap_or(false)
    };
    session::start::Input {
        name: program_session(connection, call).filter(is_new),
        root: true,
        own_name: input.own_name,
        take_over: input.take_over,
        place: station::session_place(processes::who_started(), None),
        ..session::start::Input::default()
    }
}

/// The error for a name that is in use, with hints that name the tool.
fn with_tool_hints(error: Error, name: &Name) -> Error {
    if error.code != Some("session_live") {
        return error;
    }
    Error::conflict(error.message)
        .code("session_live")
        .hint(format!("run beside it under your own name: office action=register name={name} own_name=true"))
        .hint("or ask a person to end that session")
}

/// The program's own id of its session: Claude Code has it in the environment, Codex sends it with each call, and for
/// others the hooks that run below the same process have stored it. The model cannot choose it.
fn program_session(connection: &Connection, call: &Call) -> Option<Session> {
    let told = std::env::var("CLAUDE_CODE_SESSION_ID").ok().filter(|id| !id.is_empty());
    let with_call = || call.context().meta.get("sessionId").and_then(Value::as_str).map(ToOwned::to_owned);
    match told.or_else(with_call) {
        Some(told) => told.parse().ok(),
        None => {
            let live = connection.with_office(|open| Ok(Live::of_process(open.office.path()?, &processes::above())));
            live.ok()?.map(|live| live.session)
        }
    }
}
