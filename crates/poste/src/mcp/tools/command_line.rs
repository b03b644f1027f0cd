//! The tool for the rest: any allowed command by its words, and how a session takes a name.

use std::ffi::OsString;

use poste_connect::live::Live;
use poste_connect::mcp::Call;
use poste_core::store::processes;
use poste_core::text::{Name, Session, nearest};
use serde_json::Value;

use super::answers::{printed, room, said, worked};
use super::inputs::Poste;
use crate::Result;
use crate::cli::{Cli, Command};
use crate::error::{CommandError, Kind};
use crate::identity::Identity;
use crate::mcp::desk::{self, Desk};
use crate::mcp::render::Reply;

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
    check_allowed(&first, &args)?;
    let own = desk.identity()?;
    if first == "register" {
        return register(desk, &own, args, call);
    }
    let line = shell_words::join(&args);
    let mut called = desk.run(&own, args);
    match called.error.take() {
        Some(error) if own.agent.is_none() && error.message.starts_with("who speaks?") => Err(desk::unnamed()),
        // A command may answer and fail, for example when not everybody agreed.
        Some(error) if !called.text.trim().is_empty() => {
            let mut reply = printed(desk, &own, &line, called, budget)?;
            reply.text = format!("{}\n{}", error.lines(false).join("\n"), reply.text);
            reply.is_error = true;
            Ok(reply)
        }
        Some(error) => Err(error),
        None => printed(desk, &own, &line, called, budget),
    }
}

fn check_allowed(first: &str, args: &[String]) -> Result {
    let is = |command: &str, below: &str| first == command && args.iter().any(|word| word == below);
    let waits = first == "wait" || args.iter().any(|word| word == "--wait" || word.starts_with("--wait="));
    if waits || is("log", "follow") {
        return Err(CommandError::usage("waiting is done with the tool wait_for_mail"));
    }
    let is_editor = is("context", "edit");
    let mends = first == "doctor" && args.iter().any(|word| word.starts_with("--fix"));
    if ALLOWED.contains(&first) && !is_editor && !mends {
        return Ok(());
    }
    if first.starts_with('-') && ["--help", "-h", "--version", "-V"].contains(&first) {
        return Ok(());
    }
    let error = CommandError::new(Kind::Refused, format!("poste {first} is not run from here")).code("not_allowed");
    let error = match nearest(first, ALLOWED.iter().copied()).as_slice() {
        [] => error,
        near => error.hint(format!("did you mean {}?", near.join(" or "))),
    };
    Err(error.hint(format!("these are: {}", ALLOWED.join(", "))))
}

/// Takes a name, or changes what is known of the one it has.
fn register(desk: &Desk, own: &Identity, args: Vec<String>, call: &Call) -> Result<Reply> {
    let (session, words): (Vec<_>, Vec<_>) =
        args.into_iter().partition(|word| ["--take-over", "--own-name"].contains(&word.as_str()));
    let Some(name) = registered_name(&words) else {
        return Ok(said(worked(desk.run(own, words))?));
    };
    match &own.agent {
        Some(agent) if *agent != name => {
            let message = format!("this session speaks for {agent}; who it speaks for is not changed from here");
            Err(CommandError::new(Kind::Refused, message).code("named").hint(format!(
                "change what is known of it: args [\"register\", \"{agent}\", \"--role\", \"ROLE\", \"--update\"]"
            )))
        }
        Some(_) => Ok(said(worked(desk.run(own, words))?)),
        None => {
            let mut called = worked(desk.register(&name, words, session, program_session(desk, call)))?;
            called.talk = vec!["check_inbox".to_owned()];
            Ok(said(called))
        }
    }
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

/// Whom a command registers, if it is one that can be read.
fn registered_name(words: &[String]) -> Option<Name> {
    let line: Vec<OsString> =
        std::iter::once("poste").chain(words.iter().map(String::as_str)).map(Into::into).collect();
    match Cli::read(&line).ok()?.command {
        Command::Register(args) => Some(args.name),
        _ => None,
    }
}
