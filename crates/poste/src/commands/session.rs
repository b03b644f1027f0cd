//! `poste session`: which run of an agent this is, and the notes that sessions share.

use std::io::{self, Write};

use poste_connect::shell;
use poste_connect::station::session_place;
use poste_core::Foreign;
use poste_core::log::NoteKind;
use poste_core::store::processes::{self, Presence};
use poste_core::store::tables::SessionState;
use poste_core::text::{Name, RecordId, Session};
use poste_core::views::{Held, SessionContext, SessionView, Sessions};
use poste_verbs::session::{close, list, note, page, place, show, start, state};
use schemars::JsonSchema;
use serde::Serialize;

use super::{SecretArgs, WriteArgs};
use crate::Result;
use crate::context::Cx;
use crate::draft::read_body;
use crate::ui::{Answer, Paint, Ui, escape};

/// Start, close, show and list sessions, and add notes
///
/// A session is one run of an agent: its name, its process, its folder. Sessions below it share its notes: the goal,
/// decisions, questions, and the agents that were invoked.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  eval \"$(poste session start --goal 'Ship 2.0' --export --as lead)\"\n  \
                        poste session note --decision 'Use RS256'\n  poste session show\n  poste session close --summary 'Shipped'")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SessionCommand {
    /// Start a session; an agent has at most one at a time
    #[command(
        after_help = "Examples:\n  eval \"$(poste session start --export --as coder)\"\n  poste session start --goal 'Fix the login' --as coder\n  \
                      poste session start --take-over --as coder\n  poste session start --own-name --export --as coder"
    )]
    Start(StartArgs),
    /// Add a note, shared by all sessions below the same root
    #[command(
        after_help = "Examples:\n  poste session note 'The staging database is down'\n  poste session note --decision 'Use RS256'\n  \
                      poste session note --question 'Which coverage?'\n  poste session note --answer q1 '80 percent'\n  \
                      poste session note --agent explore 'Looks for test patterns'"
    )]
    Note(NoteArgs),
    /// Close a session, list open work and write its page
    #[command(
        after_help = "Examples:\n  poste session close --summary 'Shipped, docs are missing'\n  poste session close coder-3fa94c --keep --as coder"
    )]
    Close(CloseArgs),
    /// Show goal, agents and notes of a session as Markdown
    #[command(after_help = "Examples:\n  poste session show\n  poste session show coder-3fa94c --json")]
    Show(ShowArgs),
    /// List live sessions, or all of them
    #[command(after_help = "Examples:\n  poste session list\n  poste session list --all")]
    List {
        /// Include sessions that have ended, newest first
        #[arg(long)]
        all: bool,
        /// Maximum number of sessions
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
}

#[derive(Debug, clap::Args)]
struct NoteArgs {
    /// Text of the note; - for stdin
    #[arg(allow_hyphen_values = true)]
    body: String,
    /// Record a decision
    #[arg(long, group = "what")]
    decision: bool,
    /// Record a question, which gets a number
    #[arg(long, group = "what")]
    question: bool,
    /// Answer this question
    #[arg(long, value_name = "qN", value_parser = question, group = "what")]
    answer: Option<u32>,
    /// Set the goal
    #[arg(long, group = "what")]
    goal: bool,
    /// Record that this agent was invoked
    #[arg(long, value_name = "NAME", group = "what")]
    agent: Option<Name>,
    /// Session to add the note to; otherwise your own
    #[arg(long = "in", value_name = "ID")]
    inside: Option<Session>,
    #[command(flatten)]
    write: WriteArgs,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// Session to show; otherwise your own
    id: Option<Session>,
    /// Also write the session's page again
    #[arg(long)]
    page: bool,
}

/// `q3` or `3`.
fn question(text: &str) -> std::result::Result<u32, String> {
    let number = text.strip_prefix('q').unwrap_or(text).parse();
    number.map_err(|_| "a question of a session has a number, for example q3".to_owned())
}

#[derive(Debug, clap::Args)]
struct StartArgs {
    /// Goal of the session
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,
    /// Id of the session; otherwise a generated one
    #[arg(long, value_name = "ID")]
    name: Option<Session>,
    /// Resume this session of yours, which ended or lost its process
    #[arg(long, value_name = "ID", conflicts_with_all = ["name", "parent", "root", "own_name"])]
    resume: Option<Session>,
    /// Parent session; otherwise POSTE_SESSION, if that is a session of another agent
    #[arg(long, value_name = "ID", conflicts_with = "root")]
    parent: Option<Session>,
    /// Start without a parent, even if POSTE_SESSION is set
    #[arg(long)]
    root: bool,
    /// Process to bind it to; otherwise the one that ran this command; 0: none
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Program that runs; otherwise the name of that process
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
    /// End the live session of this agent and continue in its place
    #[arg(long)]
    take_over: bool,
    /// If the name is in use, take NAME-2, NAME-3 and so on, registered with the same role and lead
    #[arg(long, conflicts_with = "take_over")]
    own_name: bool,
    /// Print only the line for the shell to evaluate
    #[arg(long)]
    export: bool,
    /// Idempotency key: repeating the command with it is safe
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, clap::Args)]
struct CloseArgs {
    /// Session to close; otherwise your own
    session_id: Option<Session>,
    /// Outcome of the session; - for stdin
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    summary: Option<String>,
    /// Release its claims (this is the default)
    #[arg(long, conflicts_with = "keep")]
    release: bool,
    /// Keep its claims until their leases end; their tokens stay valid
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    write: WriteArgs,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        SessionCommand::Start(args) => start(cx, args),
        SessionCommand::Note(args) => note(cx, args),
        SessionCommand::Close(args) => cx.call(close::Input {
            session_id: args.session_id,
            summary: read_body(args.summary)?,
            keep: args.keep,
            id: args.write.id,
            secrets: args.write.secret.secrets(cx)?,
        }),
        SessionCommand::Show(ShowArgs { id, page }) => cx.call(show::Input { id, page }),
        SessionCommand::List { all, limit } => cx.call(list::Input { all, limit }),
    }
}

fn start(cx: &mut Cx, args: StartArgs) -> Result {
    let pid = args.pid.or_else(processes::who_started).filter(|pid| *pid != 0);
    let place = session_place(pid, args.program);
    let input = start::Input {
        goal: args.goal,
        name: args.name,
        resume: args.resume,
        parent: args.parent,
        root: args.root,
        take_over: args.take_over,
        own_name: args.own_name,
        id: args.id,
        place,
        secrets: args.secret.secrets(cx)?,
    };
    cx.call_as(input, |answer| Started { answer, only_exports: args.export })
}

/// A started session, printed for a shell.
#[derive(Debug, Serialize, JsonSchema)]
struct Started {
    #[serde(flatten)]
    answer: start::Answer,
    #[serde(skip)]
    only_exports: bool,
}

impl Answer for Started {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let SessionView { id, agent, .. } = &self.answer.session;
        if !self.only_exports {
            writeln!(out, "{id}")?;
        }
        writeln!(out, "export POSTE_AGENT={} POSTE_SESSION={}", shell::word(agent.as_str()), shell::word(id.as_str()))
    }
}

fn note(cx: &mut Cx, args: NoteArgs) -> Result {
    let what = match (args.decision, args.question, args.goal) {
        (true, ..) => Some(NoteKind::Decision),
        (_, true, _) => Some(NoteKind::Question),
        (_, _, true) => Some(NoteKind::Goal),
        _ => None,
    };
    cx.call(note::Input {
        text: String::from_utf8_lossy(&read_body(Some(args.body))?).into_owned(),
        what,
        question: args.answer,
        agent: args.agent,
        session: args.inside,
        id: args.write.id,
        secrets: args.write.secret.secrets(cx)?,
    })
}

impl Answer for note::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let number = self.question.map(|number| format!(" q{number}")).unwrap_or_default();
        let again = if self.repeat { " (already done under this id)" } else { "" };
        // The number is what `poste redact --record` takes.
        let record = self.position.map(|position| format!(", record {position}")).unwrap_or_default();
        writeln!(out, "noted in session {}: {}{number}{record}{again}", self.session, self.what)
    }
}

impl Answer for close::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (already done under this id)" } else { "" };
        writeln!(out, "session {} of {} is closed{again}", self.session.id, self.session.agent)?;
        let numbers = |claims: &[Held]| claims.iter().map(|claim| format!("#{}", claim.number)).collect::<Vec<_>>();
        if !self.released.is_empty() {
            writeln!(out, "released: {}", numbers(&self.released).join(", "))?;
        }
        for claim in &self.kept {
            writeln!(out, "kept: #{} until {}, token {}", claim.number, claim.lease_until, claim.token)?;
        }
        for asked in &self.open_questions {
            let number = asked.question.question.unwrap_or_default();
            writeln!(out, "unanswered: q{number} {}", Foreign::words(&*asked.question.text))?;
        }
        for number in &self.open_approvals {
            writeln!(out, "undecided: #{number}")?;
        }
        for pattern in &self.reserved {
            writeln!(out, "still reserved: {}", escape::line(pattern.as_str()))?;
        }
        for context in &self.locked {
            writeln!(out, "still locked: context {context}")?;
        }
        if !self.still_live.is_empty() {
            let ids: Vec<String> = self.still_live.iter().map(Session::to_string).collect();
            writeln!(out, "still live below it, and notified: {}", ids.join(", "))?;
        }
        if let Some(page) = &self.page {
            writeln!(out, "kept in {}", escape::line(page))?;
        }
        Ok(())
    }
}

impl Answer for SessionContext {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{}", page::written(self))
    }
}

impl Answer for Sessions {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.sessions.iter().map(|session| {
            let parent = session.parent.as_ref().map(|parent| format!("below {parent}")).unwrap_or_default();
            vec![
                session.id.to_string(),
                session.agent.to_string(),
                ui.paint(paint(session), &state(session)),
                ui.time(session.started_at),
                place(session),
                parent,
            ]
        });
        ui.lines(out, &["SESSION", "AGENT", "STATE", "STARTED", "PROCESS", "PARENT"], rows.collect())?;
        if self.more {
            writeln!(out, "(more not shown)")?;
        }
        Ok(())
    }
}

fn paint(session: &SessionView) -> Paint {
    match (session.state, session.process) {
        (SessionState::Live, Presence::Gone) => Paint::Bad,
        (SessionState::Live, _) => Paint::Good,
        _ => Paint::Dim,
    }
}

/// A session in one line, for `poste whoami`.
pub(crate) fn in_a_line(ui: &Ui, session: &SessionView) -> String {
    format!("{} ({}, {}) {}", session.id, state(session), place(session), ui.since(session.started_at))
}
