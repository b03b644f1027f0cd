//! The tool for the rest: any allowed command by its words, and how a session takes a name.

use std::ffi::OsString;

use poste_connect::live::Live;
use poste_connect::mcp::Call;
use poste_core::store::processes;
use poste_core::text::{Session, nearest};
use poste_core::vocabulary::AgentKind;
use serde_json::Value;

use super::answers::{printed, room, said, worked};
use super::inputs::Poste;
use crate::Result;
use crate::cli::{Cli, Command};
use crate::commands;
use crate::context::NO_SPEAKER;
use crate::error::{CommandError, Kind};
use crate::identity::Identity;
use crate::mcp::desk::{self, Desk};
use crate::mcp::render::Reply;
use crate::ui::tokens;

/// Commands an agent may need and that are no tools of their own. The others are a person's, or another part of Poste's.
const ALLOWED: &[&str] = &[
    "ack",
    "agents",
    "agree",
    "approvals",
    "approve",
    "ask",
    "broadcast",
    "claim",
    "context",
    "dead",
    "deny",
    "dispatch",
    "doctor",
    "done",
    "extend",
    "fail",
    "forward",
    "handoff",
    "help",
    "inbox",
    "log",
    "overdue",
    "publish",
    "read",
    "register",
    "release",
    "reply",
    "report",
    "reservations",
    "reserve",
    "retry",
    "schema",
    "search",
    "send",
    "session",
    "stats",
    "status",
    "subscribe",
    "thread",
    "threads",
    "topics",
    "track",
    "types",
    "unsubscribe",
    "verify",
    "whoami",
    "workflow",
];

pub(super) fn poste(desk: &Desk, input: Poste, call: &Call) -> Result<Reply> {
    let budget = room(input.max_tokens);
    let mut args = input.args;
    // Hints name whole commands.
    if args.first().is_some_and(|first| first == "poste") {
        args.remove(0);
    }
    let Some(first) = args.first().cloned() else {
        return Err(CommandError::usage("args names no command").hint("for example [\"track\", \"12\"] or [\"help\"]"));
    };
    // How a session is taken is said with the name, though it is no option of that command.
    let (session, args): (Vec<_>, Vec<_>) = args
        .into_iter()
        .partition(|word| first == "register" && ["--take-over", "--own-name"].contains(&word.as_str()));
    let own = desk.identity()?;
    match read(&args) {
        Some(command) => {
            check_allowed(&command)?;
            if let Command::Register(wanted) = &command {
                return register(desk, &own, wanted, args, session, call);
            }
        }
        // Help, or a mistake: running it says which.
        None => check_known(&first)?,
    }
    let line = shell_words::join(&args);
    let wants_json = args.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let mut called = desk.run(&own, args);
    if first == "session" {
        desk.look_again();
    }
    if wants_json && let Some(answer) = &called.answer {
        called.text = answer.to_string();
        called.is_fenced = false;
    }
    match called.error.take() {
        Some(error) if own.agent.is_none() && error.code == Some(NO_SPEAKER) => Err(desk::unnamed()),
        // A command may answer and fail, for example when not everybody agreed.
        Some(error) if !called.text.trim().is_empty() => {
            let failed = error.lines(false).join("\n");
            let reply = printed(desk, &own, &line, called, budget.saturating_sub(tokens::estimate(&failed)))?;
            Ok(reply.failed(&failed))
        }
        Some(error) => Err(error),
        None => printed(desk, &own, &line, called, budget),
    }
}

/// The command that these words are, if they are one.
fn read(words: &[String]) -> Option<Command> {
    let line: Vec<OsString> =
        std::iter::once("poste").chain(words.iter().map(String::as_str)).map(Into::into).collect();
    Some(Cli::read(&line).ok()?.command)
}

fn check_allowed(command: &Command) -> Result {
    let waits = match command {
        Command::Wait(_) => true,
        Command::Log(args) => args.waits(),
        Command::Claim(args) => args.waits(),
        Command::Ask(args) => args.waits(),
        Command::Approvals(args) => args.waits(),
        Command::Reserve(args) => args.waits(),
        Command::Workflow(args) => args.waits(),
        Command::Dispatch(args) => args.waits(),
        _ => false,
    };
    if waits {
        return Err(CommandError::usage("waiting is done with the tool wait_for_mail"));
    }
    match command {
        Command::Context(args) if args.edits() => Err(not_allowed("context edit", &[])),
        Command::Doctor(args) if args.mends() => Err(not_allowed("doctor --fix", &[])),
        command if ALLOWED.contains(&command.name()) => Ok(()),
        // It was meant, so no other is suggested.
        command => Err(not_allowed(command.name(), &[])),
    }
}

/// Of words that are no command: whether what they begin with may be explained.
fn check_known(first: &str) -> Result {
    match first.starts_with('-') || ALLOWED.contains(&first) {
        true => Ok(()),
        false => Err(not_allowed(first, &nearest(first, ALLOWED.iter().copied()))),
    }
}

fn not_allowed(command: &str, near: &[String]) -> CommandError {
    let error = CommandError::new(Kind::Refused, format!("poste {command} is not run from here")).code("not_allowed");
    let error = match near {
        [] => error,
        near => error.hint(format!("did you mean {}?", near.join(" or "))),
    };
    error.hint(format!("these are: {}", ALLOWED.join(", ")))
}

/// Takes a name, or changes what is known of the one it has.
fn register(
    desk: &Desk,
    own: &Identity,
    wanted: &commands::register::Args,
    words: Vec<String>,
    session: Vec<String>,
    call: &Call,
) -> Result<Reply> {
    let name = &wanted.name;
    if wanted.kind.is_some() {
        return Err(a_persons("whether somebody is an agent or a person is not said from here"));
    }
    match &own.agent {
        Some(agent) if agent != name => {
            let message = format!("this session speaks for {agent}; who it speaks for is not changed from here");
            Err(CommandError::new(Kind::Refused, message).code("named").hint(format!(
                "change what is known of it: args [\"register\", \"{agent}\", \"--role\", \"ROLE\", \"--update\"]"
            )))
        }
        Some(_) => Ok(said(worked(desk.run(own, words))?)),
        None => {
            let known = desk.with_office(|_, office| Ok(office.agent(name)?))?;
            if known.as_ref().is_some_and(|known| known.kind == AgentKind::Human) {
                return Err(a_persons(&format!("{name} is a person, whose name is not taken from here")));
            }
            // Who is registered is taken as it is, unless a change is asked for: another role would be another agent.
            let is_taken_as_it_is = known.is_some_and(|known| known.is_active()) && !wanted.update;
            let words = match is_taken_as_it_is {
                true => ["register", name.as_str(), "--update"].map(str::to_owned).to_vec(),
                false => words,
            };
            let mut called = worked(desk.register(name, words, session, program_session(desk, call)))?;
            called.talk = vec!["check_inbox".to_owned()];
            Ok(said(called))
        }
    }
}

/// What a person may do and a model may not, whatever it was told.
fn a_persons(message: &str) -> CommandError {
    CommandError::new(Kind::Refused, message)
        .code("not_allowed")
        .hint("take a name of your own: args [\"register\", \"NAME\", \"--role\", \"ROLE\"]; a person registers at a terminal")
}

/// What the program calls the session it runs: Claude Code says it in the environment, Codex with each call, and of others the
/// hooks that run below the same process have written it down. None of this is the model's to say.
fn program_session(desk: &Desk, call: &Call) -> Option<Session> {
    let told = std::env::var("CLAUDE_CODE_SESSION_ID").ok().filter(|id| !id.is_empty());
    let with_call = || call.context().meta.get("sessionId").and_then(Value::as_str).map(ToOwned::to_owned);
    match told.or_else(with_call) {
        Some(told) => told.parse().ok(),
        None => {
            let live = desk.with_office(|_, office| Ok(Live::of_process(office.path()?, &processes::above())));
            live.ok()?.map(|live| live.session)
        }
    }
}
