use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use poste_core::Position;
use poste_core::log::MessageNo;
use poste_core::office::Office;
use poste_core::store::{Interest, discover};
use poste_core::text::Name;
use poste_core::views::{self, MessageView};
use poste_verbs::draft::Message;
use poste_verbs::secret::Secrets;
use poste_verbs::{Verb, ack, claim, done, register, reply, send, wait};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::duration;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Paint, Ui, escape};
use crate::{Result, switches};

/// Watch three agents review code
///
/// A lead asks a coder to implement something. The coder asks a reviewer, fixes the findings and reports back. Each
/// agent is a real process that waits, claims, works and answers. The office is kept for you to look around in.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste demo\n  poste demo --in ~/poste-demo --pace 0s")]
pub(crate) struct Args {
    /// Create the office in this folder; otherwise in a new temporary one
    #[arg(long = "in", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// How long each piece of work takes
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "300ms")]
    pace: Duration,
    /// Agent to play in this process
    #[arg(long, value_name = "NAME", hide = true)]
    play: Option<Name>,
}

/// How long an agent in the demo waits for another one.
const PATIENCE: Duration = Duration::from_secs(30);

const CAST: &[(&str, &str, &[&str])] =
    &[("lead", "coordinator", &[]), ("coder", "builder", &["rust"]), ("reviewer", "reviewer", &["rust"])];

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DemoAnswer {
    pub office: String,
    pub conversation: Vec<MessageView>,
}

impl Answer for DemoAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "\n{}", ui.paint(Paint::Strong, "The conversation"))?;
        for message in &self.conversation {
            let head = format!("#{} {} → {}", message.number, message.from, message.to.join(", "));
            writeln!(out, "{}  {}", ui.paint(Paint::Dim, &head), escape::line(&message.subject))?;
            for line in message.body.lines() {
                writeln!(out, "    {}", escape::line(line))?;
            }
        }
        let office = escape::line(&self.office).into_owned();
        writeln!(out, "\n{} {office}", ui.paint(Paint::Strong, "The office is"))?;
        writeln!(out, "{}", ui.paint(Paint::Strong, "Try next"))?;
        let program = program_name();
        for command in ["track 1", "log why 2", "inbox --as lead --all"] {
            writeln!(out, "  {program} --office {office} {command}")?;
        }
        Ok(())
    }
}

/// How to call this program from a shell: by name if it is on the PATH, else by its path.
fn program_name() -> String {
    let Ok(me) = std::env::current_exe() else { return "poste".to_owned() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("poste")).find(|program| program.is_file());
    if found.and_then(|program| program.canonicalize().ok()).is_some_and(|program| program == me) {
        return "poste".to_owned();
    }
    let here = std::env::current_dir().unwrap_or_default();
    me.strip_prefix(&here).unwrap_or(&me).display().to_string()
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    if let Some(name) = args.play {
        let folder = args.folder.ok_or_else(|| CommandError::usage("--play needs --in"))?;
        return play(cx, &folder, &name, args.pace);
    }
    let folder = match args.folder {
        Some(folder) => {
            std::fs::create_dir_all(&folder)
                .map_err(|error| CommandError::usage(format!("{}: {error}", folder.display())))?;
            folder
        }
        None => tempfile::Builder::new()
            .prefix("poste-demo-")
            .tempdir()
            .map_err(|error| CommandError::new(Kind::Internal, format!("cannot create a temporary folder: {error}")))?
            .keep(),
    };
    let place = cx.place_at(folder.join(discover::FOLDER));
    if !poste_config::adopt::create(&place)? {
        return Err(CommandError::new(Kind::Refused, format!("there is already an office in {}", folder.display()))
            .hint("the demo creates its own; pass another folder with --in"));
    }
    let mut office = poste_config::open(&place)?;
    for (name, role, capabilities) in CAST {
        register(cx, &mut office, name, role, capabilities)?;
    }
    cx.ui.say(format!("three processes share the office in {}", folder.display()));
    let mut players =
        CAST.iter().map(|(name, ..)| Process::start(&folder, name, args.pace)).collect::<Result<Vec<_>>>()?;
    cx.forget_stored(); // errors of the demo need not list what was stored
    follow(cx, &mut office, &mut players)?;
    let conversation = conversation(&office)?;
    cx.ui.now = office.now()?;
    cx.ui.answer(&DemoAnswer { office: place.path.display().to_string(), conversation })
}

fn register(cx: &Cx, office: &mut Office, name: &str, role: &str, capabilities: &[&str]) -> Result {
    let capabilities = capabilities.iter().map(|word| word.parse()).collect::<std::result::Result<_, _>>()?;
    let role = Some(role.parse()?);
    cx.call_verb(office, register::Input { role, capabilities, ..register::Input::of(name.parse()?) }).map(drop)
}

/// One of the three processes. It is killed when the demo ends, however it ends.
struct Process {
    name: &'static str,
    process: Child,
}

impl Process {
    fn start(folder: &Path, name: &'static str, pace: Duration) -> Result<Self> {
        let program = std::env::current_exe()
            .map_err(|error| CommandError::new(Kind::Internal, format!("cannot find the poste program: {error}")))?;
        let mut command = Command::new(program);
        switches::clear(&mut command);
        let process = command
            .args(["demo", "--play", name, "--pace", &format!("{}ms", pace.as_millis()), "--in"])
            .arg(folder)
            .env("POSTE_AGENT", name)
            .env("POSTE_SESSION", format!("demo-{name}"))
            .env_remove("POSTE_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| CommandError::new(Kind::Internal, format!("cannot start {name}: {error}")))?;
        Ok(Self { name, process })
    }

    /// Whether the process has ended; an error if it failed.
    fn has_ended(&mut self) -> Result<bool> {
        match self.process.try_wait() {
            Ok(Some(status)) if status.success() => Ok(true),
            Ok(Some(status)) => Err(CommandError::new(Kind::Internal, format!("{} ended with {status}", self.name))),
            Ok(None) => Ok(false),
            Err(error) => Err(CommandError::new(Kind::Internal, error.to_string())),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Prints the log as it grows, until all three processes have ended.
fn follow(cx: &Cx, office: &mut Office, players: &mut [Process]) -> Result {
    let mut cursor = Position(0);
    loop {
        let ended = players.iter_mut().map(Process::has_ended).collect::<Result<Vec<bool>>>()?;
        for line in views::timeline(office.store(), cursor, 1_000)? {
            cursor = line.position;
            if !cx.ui.json && !matches!(line.kind.as_str(), "barrier" | "delivery.shown") {
                let mut out = io::stdout().lock();
                let time = &line.at.to_string()[11..23];
                writeln!(out, "{}  {}", cx.ui.paint(Paint::Dim, time), escape::line(&line.what))?;
                out.flush()?;
            }
        }
        if ended.into_iter().all(|ended| ended) {
            return Ok(());
        }
        // The end of a process does not ring the bell, so poll often.
        cx.wait_for(office, &Interest::everything(), Some(Duration::from_millis(20)), |office| {
            Ok((poste_core::office::head(office.store())? > cursor).then_some(()))
        })?;
    }
}

fn conversation(office: &Office) -> Result<Vec<MessageView>> {
    let mut messages = Vec::new();
    for number in 1.. {
        match views::message(office.store(), MessageNo(number))? {
            Some(message) => messages.push(message),
            None => break,
        }
    }
    Ok(messages)
}

/// Plays one agent. The processes communicate only through the office.
fn play(cx: &mut Cx, folder: &Path, name: &Name, pace: Duration) -> Result {
    let office = poste_config::open(&cx.place_at(folder.join(discover::FOLDER)))?;
    let mut player = Player { cx, office, pace };
    match name.as_str() {
        "lead" => play_lead(&mut player),
        "coder" => play_coder(&mut player),
        "reviewer" => play_reviewer(&mut player),
        other => Err(CommandError::usage(format!("{other} has no part in the demo"))),
    }
}

fn play_lead(lead: &mut Player<'_>) -> Result {
    lead.send("coder", "directive", "Implement token refresh", "Refresh tokens must rotate on every use.")?;
    lead.await_and_ack("task_completed")
}

fn play_coder(coder: &mut Player<'_>) -> Result {
    let task = coder.claim()?;
    coder.work();
    coder.send("reviewer", "question", "Review token refresh", "```rust\nfn refresh(old: &Token) -> Token\n```")?;
    coder.await_and_ack("response")?;
    coder.work();
    coder.send(
        "reviewer",
        "question",
        "Fixed: review again",
        "The old token is revoked before the new one is issued.",
    )?;
    coder.await_and_ack("response")?;
    coder.ask(done::Input {
        number: task,
        summary: Some("Token refresh, reviewed".to_owned()),
        result: Vec::new(),
        files: Vec::new(),
        recommend: None,
        token: None,
        id: None,
        secrets: Secrets::default(),
    })?;
    coder.reply(task, "task_completed", "Task done: token refresh", "Implemented, reviewed and approved.", false)
}

fn play_reviewer(reviewer: &mut Player<'_>) -> Result {
    let first = reviewer.claim()?;
    reviewer.work();
    reviewer.reply(first, "response", "Found issues", "The old token stays valid after a refresh.", true)?;
    let second = reviewer.claim()?;
    reviewer.work();
    reviewer.reply(second, "response", "Approved", "Looks right now.", true)
}

/// An agent at work.
struct Player<'a> {
    cx: &'a Cx,
    office: Office,
    pace: Duration,
}

impl Player<'_> {
    fn work(&self) {
        std::thread::sleep(self.pace);
    }

    fn ask<V: Verb>(&mut self, verb: V) -> Result<V::Answer> {
        Ok(self.cx.call_verb(&mut self.office, verb)?.answer)
    }

    fn send(&mut self, to: &str, kind: &str, subject: &str, body: &str) -> Result {
        let (to, subject, message) = (vec![to.parse()?], subject.to_owned(), message(kind, body)?);
        self.ask(send::Input { to, subject, reply_to: None, message }).map(drop)
    }

    fn reply(&mut self, number: MessageNo, kind: &str, subject: &str, body: &str, done: bool) -> Result {
        let (subject, message) = (Some(subject.to_owned()), message(kind, body)?);
        self.ask(reply::Input { number, subject, done, token: None, message }).map(drop)
    }

    /// Waits for work, claims it, and reads it.
    fn claim(&mut self) -> Result<MessageNo> {
        let input = claim::Input { waits: true, ..claim::Input::default() };
        let answered = super::claim::wait(self.cx, &mut self.office, &input, Some(PATIENCE))?;
        self.cx.confirm_printed(&mut self.office, answered.marks);
        let claim = answered.answer.claims.into_iter().next();
        claim.map(|claim| claim.message.number).ok_or_else(|| CommandError::not_found("nothing was claimed"))
    }

    /// Waits for a message of a type, reads it and acknowledges it.
    fn await_and_ack(&mut self, kind: &str) -> Result {
        let input = wait::Input { kind: Some(kind.parse()?), limit: 1, ..wait::Input::default() };
        let answered = super::wait::next_mail(self.cx, &mut self.office, input, Some(PATIENCE))?;
        self.cx.confirm_printed(&mut self.office, answered.marks);
        for MessageView { number, .. } in answered.answer.news.messages {
            self.ask(ack::Input { number, note: None, id: None, secrets: Secrets::default() })?;
        }
        Ok(())
    }
}

fn message(kind: &str, body: &str) -> Result<Message> {
    Ok(Message {
        kind: Some(kind.parse()?),
        body: body.into(),
        conversation: Some("token-refresh".parse()?),
        ..Message::default()
    })
}
