//! `poste session`: which run of an agent this is, and what everybody in it shares.

mod close;
mod page;
mod start;

use std::io::{self, Write};

use poste_core::log::{Intent, NoteKind, Position, SessionNote};
use poste_core::office::Office;
use poste_core::store::processes::Presence;
use poste_core::store::tables::SessionState;
use poste_core::text::{Name, RecordId, Session};
use poste_core::views::{self, SessionContext, SessionView, Sessions};
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use close::CloseAnswer;
pub(crate) use start::{StartAnswer, parent_of, place_of};

use super::{SecretArgs, said};
use crate::Result;
use crate::context::Cx;
use crate::draft::read_body;
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Paint, Ui, escape};

/// Run as a session: start, note, close, show and list them
///
/// A session is one run of an agent: its name, its process, its folder. Sessions below one share what is noted: the
/// goal, decisions, questions, and who was invoked.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  eval \"$(poste session start --goal 'Ship 2.0' --export --as lead)\"\n  \
                        poste session note --decision 'Use RS256'\n  poste session show\n  poste session close --summary 'Shipped'")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SessionCommand {
    /// Start a session of the speaker; a name runs as one session at a time
    #[command(
        after_help = "Examples:\n  eval \"$(poste session start --export --as coder)\"\n  poste session start --goal 'Fix the login' --as coder\n  \
                      poste session start --take-over --as coder\n  poste session start --own-name --export --as coder"
    )]
    Start(start::Args),
    /// Note something for everybody in the session: it is kept at its root
    #[command(
        after_help = "Examples:\n  poste session note 'The staging database is down'\n  poste session note --decision 'Use RS256'\n  \
                      poste session note --question 'Which coverage?'\n  poste session note --answer q1 '80 percent'\n  \
                      poste session note --agent explore 'Looks for test patterns'"
    )]
    Note(NoteArgs),
    /// Close a session: say what is left undone, and keep a page of it
    #[command(
        after_help = "Examples:\n  poste session close --summary 'Shipped, docs are missing'\n  poste session close coder-3fa94c --keep --as coder"
    )]
    Close(close::Args),
    /// Show the context of a session as Markdown: goal, agents, decisions, questions
    #[command(after_help = "Examples:\n  poste session show\n  poste session show coder-3fa94c --json")]
    Show(ShowArgs),
    /// List live sessions, or all
    #[command(after_help = "Examples:\n  poste session list\n  poste session list --all")]
    List {
        /// Those that are over, too, the newest first
        #[arg(long)]
        all: bool,
        /// At most so many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
}

#[derive(Debug, clap::Args)]
struct NoteArgs {
    /// What is noted; - for stdin
    #[arg(allow_hyphen_values = true)]
    body: String,
    /// It is a decision
    #[arg(long, group = "what")]
    decision: bool,
    /// It is a question; it gets a number
    #[arg(long, group = "what")]
    question: bool,
    /// It answers this question
    #[arg(long, value_name = "qN", value_parser = question, group = "what")]
    answer: Option<u32>,
    /// It is the goal from now on
    #[arg(long, group = "what")]
    goal: bool,
    /// This agent was invoked
    #[arg(long, value_name = "NAME", group = "what")]
    agent: Option<Name>,
    /// Another session than the speaker's
    #[arg(long = "in", value_name = "ID")]
    inside: Option<Session>,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// The session; otherwise the speaker's
    id: Option<Session>,
    /// Write the page again that closing left, too
    #[arg(long)]
    page: bool,
}

/// `q3` or `3`.
fn question(text: &str) -> std::result::Result<u32, String> {
    let number = text.strip_prefix('q').unwrap_or(text).parse();
    number.map_err(|_| "a question of a session has a number, for example q3".to_owned())
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        SessionCommand::Start(args) => start::run(cx, args),
        SessionCommand::Note(args) => note(cx, args),
        SessionCommand::Close(args) => close::run(cx, args),
        SessionCommand::Show(args) => show(cx, args),
        SessionCommand::List { all, limit } => {
            let office = cx.open()?;
            let found = views::sessions(office.store(), all, limit.into())?;
            let is_empty = found.sessions.is_empty();
            cx.ui.answer(&found)?;
            if is_empty {
                cx.ui.say("no session runs; start one: poste session start --as NAME");
            }
            Ok(())
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NoteAnswer {
    /// The root, where it is kept.
    pub session: Session,
    pub what: NoteKind,
    /// The number of a question, or of the one that is answered.
    pub question: Option<u32>,
    pub position: Option<Position>,
    pub id: RecordId,
    /// It was noted before under this id.
    pub repeat: bool,
}

impl Answer for NoteAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let number = self.question.map(|number| format!(" q{number}")).unwrap_or_default();
        let again = if self.repeat { " (before, under this id)" } else { "" };
        // What was said too much is redacted by this number.
        let record = self.position.map(|position| format!(", record {position}")).unwrap_or_default();
        writeln!(out, "noted in session {}: {}{number}{record}{again}", self.session, self.what)
    }
}

fn note(cx: &mut Cx, args: NoteArgs) -> Result {
    let mut office = cx.open_to_write()?;
    let session = chosen(cx, &office, args.inside)?;
    let what = match (args.decision, args.question, args.goal, args.answer, &args.agent) {
        (true, ..) => NoteKind::Decision,
        (_, true, ..) => NoteKind::Question,
        (_, _, true, ..) => NoteKind::Goal,
        (_, _, _, Some(_), _) => NoteKind::Answer,
        (.., Some(_)) => NoteKind::Agent,
        _ => NoteKind::Note,
    };
    let body = String::from_utf8_lossy(&read_body(cx, Some(args.body))?).into_owned();
    let content = args.secret.text("note", said("the note", &body)?)?;
    let intent = Intent::SessionNote(SessionNote {
        session: session.id.clone(),
        what,
        question: args.answer,
        agent: args.agent,
    });
    let proposal = cx.proposal(&office, intent, Some(content), args.id)?;
    let (outcome, _) = cx.decide(&mut office, &proposal)?;
    let tables = office.store().tables()?;
    // Somebody may have taken over the root meanwhile.
    let root = tables.session(&session.id)?.map_or(session.root, |session| session.root);
    let note = outcome.position.map(|position| tables.note_at(&root, position)).transpose()?.flatten();
    let question = note.and_then(|note| note.question);
    cx.ui.answer(&NoteAnswer {
        session: root,
        what,
        question,
        position: outcome.position,
        id: outcome.id,
        repeat: outcome.repeat,
    })
}

/// The session that is meant: the one that was named, the one of the environment, the one the speaker runs as.
fn chosen(cx: &Cx, office: &Office, named: Option<Session>) -> Result<SessionView> {
    let store = office.store();
    if let Some(id) = named {
        return views::session(store, &id)?.ok_or_else(|| no_session(&id));
    }
    if let Some(id) = cx.session()
        && let Some(session) = views::session(store, &id)?
    {
        return Ok(session);
    }
    let speaker = cx.speaker()?;
    views::live_session(store, &speaker)?.ok_or_else(|| {
        CommandError::not_found(format!("{speaker} runs as no session"))
            .code("unknown_session")
            .hint(format!("start one: poste session start --as {speaker}"))
    })
}

fn no_session(id: &Session) -> CommandError {
    CommandError::not_found(format!("no session {id} was started"))
        .code("unknown_session")
        .hint("see which there are: poste session list --all")
}

fn id_conflict() -> CommandError {
    CommandError::new(Kind::Conflict, "the id was used for something else")
        .code("id_conflict")
        .hint("an id is for one write for ever; take another one")
}

impl Answer for SessionContext {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{}", page::written(self))
    }
}

fn show(cx: &mut Cx, args: ShowArgs) -> Result {
    let office = if args.page { cx.open_to_write()? } else { cx.open()? };
    let session = chosen(cx, &office, args.id)?;
    let context = views::session_context(office.store(), &session.id)?.ok_or_else(|| no_session(&session.id))?;
    cx.ui.answer(&context)?;
    if args.page {
        let path = page::write(&office, &context.root)?;
        cx.ui.say(format!("written to {}", path.display()));
    }
    Ok(())
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

/// How a session stands, in a word or two.
fn state(session: &SessionView) -> String {
    match (session.state, session.process) {
        (SessionState::Live, Presence::Gone) => "live, its process is gone".to_owned(),
        (SessionState::TakenOver, _) => match &session.successor {
            Some(successor) => format!("taken over by {successor}"),
            None => "taken over".to_owned(),
        },
        (SessionState::Retired, _) => "over, its agent is retired".to_owned(),
        (state, _) => state.word().to_owned(),
    }
}

/// Which process it is, where.
pub(crate) fn place(session: &SessionView) -> String {
    let pid = session.pid.map(|pid| format!("pid {pid}, ")).unwrap_or_default();
    format!("{pid}{} on {}", escape::line(&session.program), escape::line(&session.host))
}

/// A session, for whoever asks who they are.
pub(crate) fn in_a_line(ui: &Ui, session: &SessionView) -> String {
    format!("{} ({}, {}) {}", session.id, state(session), place(session), ui.since(session.started_at))
}

/// A session that writes though it is over: nobody should learn that by accident.
pub(crate) fn over_text(session: &poste_core::store::tables::SessionRow) -> String {
    let how = match (&session.state, &session.successor) {
        (SessionState::TakenOver, Some(successor)) => format!("was taken over by {successor}"),
        (SessionState::Retired, _) => format!("is over: {} is retired", session.agent),
        _ => "is closed".to_owned(),
    };
    format!("session {} {how}; start another one: poste session start --as {}", session.id, session.agent)
}
