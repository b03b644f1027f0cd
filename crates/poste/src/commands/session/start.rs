use std::io::{self, Write};

use poste_connect::shell;
use poste_core::fold::{Code, Verdict};
use poste_core::log::{Intent, Position, Register, SessionStart};
use poste_core::office::Office;
use poste_core::store::processes::{self, Presence};
use poste_core::store::tables::Agent;
use poste_core::store::{discover, host_name};
use poste_core::text::{Name, RecordId, Session};
use poste_core::views::{self, SessionView};
use schemars::JsonSchema;
use serde::Serialize;

use super::{id_conflict, no_session, place};
use crate::Result;
use crate::commands::SecretArgs;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::explain::explain;
use crate::identity::is_numbered;
use crate::ui::{Answer, Ui};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What it is to achieve
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,
    /// An id for the session; otherwise one is made
    #[arg(long, value_name = "ID")]
    name: Option<Session>,
    /// Go on as this session of yours, which ended or lost its process, where it stood
    #[arg(long, value_name = "ID", conflicts_with_all = ["name", "parent", "root", "own_name"])]
    resume: Option<Session>,
    /// The session on whose behalf it runs; otherwise POSTE_SESSION, if another agent runs as it
    #[arg(long, value_name = "ID", conflicts_with = "root")]
    parent: Option<Session>,
    /// It runs on nobody's behalf, whatever POSTE_SESSION says
    #[arg(long)]
    root: bool,
    /// The process it lives and dies with; otherwise the one that ran this command. 0: none
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// What runs; otherwise the name of that process
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
    /// End the session this agent runs as, and go on in its place
    #[arg(long)]
    take_over: bool,
    /// If the name is in use: take NAME-2, NAME-3 and so on, registered with the same role and lead
    #[arg(long, conflicts_with = "take_over")]
    own_name: bool,
    /// Print only the lines for a shell to evaluate
    #[arg(long)]
    export: bool,
    /// An id of your own: starting it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StartAnswer {
    #[serde(flatten)]
    pub session: SessionView,
    /// The one it took over from; what it holds can be finished by its tokens.
    pub took_over: Option<SessionView>,
    pub position: Option<Position>,
    /// It was started before under this id.
    pub repeat: bool,
    #[serde(skip)]
    only_exports: bool,
}

impl Answer for StartAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        if !self.only_exports {
            writeln!(out, "{}", self.session.id)?;
        }
        let (agent, id) = (shell::word(self.session.agent.as_str()), shell::word(self.session.id.as_str()));
        writeln!(out, "export POSTE_AGENT={agent} POSTE_SESSION={id}")
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open_to_write()?;
    let base = cx.active_agent(&office)?;
    if let Some(started) = started_before(&office, &args, &base.name)? {
        return answer(cx, &office, &started, None, None, true, args.export);
    }
    let (mut agent, mut takes_over) = (base.clone(), None);
    let live = views::live_session(office.store(), &base.name)?;
    if let Some(live) = live.filter(|live| args.resume.as_ref() != Some(&live.id)) {
        if live.process == Presence::Gone {
            let pid = live.pid.unwrap_or_default();
            cx.ui.warn(format!("session {} ended without closing: pid {pid} is gone; it is taken over", live.id));
            takes_over = Some(live);
        } else if args.take_over {
            takes_over = Some(live);
        } else if args.own_name {
            agent = own_name(cx, &mut office, &base)?;
        } else {
            return Err(in_use(cx, &live));
        }
    }
    let content = args.goal.as_deref().map(|goal| args.secret.text("goal", goal)).transpose()?;
    let pid = args.pid.or_else(processes::who_started).filter(|pid| *pid != 0);
    let program = args.program.or_else(|| pid.and_then(processes::program)).unwrap_or_else(|| "unknown".to_owned());
    loop {
        let header = SessionStart {
            id: match args.name.as_ref().or(args.resume.as_ref()) {
                Some(name) => name.clone(),
                None => made_id(cx, &office, &agent.name)?,
            },
            process: pid.map(processes::written_down),
            host: host_name(),
            program: program.clone(),
            worktree: worktree(cx, &agent),
            parent: match &args.parent {
                Some(parent) => Some(parent.clone()),
                None if args.root || args.resume.is_some() => None,
                None => match parent_of(cx, &office, &agent.name)? {
                    Some(parent) => Some(parent),
                    None => takes_over.as_ref().map(|before| place_of(&office, before)).transpose()?.flatten(),
                },
            },
            takes_over: takes_over.as_ref().map(|live| live.id.clone()),
            resumes: args.resume.is_some(),
        };
        let id = header.id.clone();
        let intent = Intent::SessionStart(header);
        let proposal = cx.proposal_as(&office, agent.name.clone(), intent, content.clone(), args.id.clone());
        let outcome = cx.propose(&mut office, &proposal)?;
        let Verdict::Rejected(rejection) = outcome.verdict else {
            return answer(cx, &office, &id, takes_over, outcome.position, outcome.repeat, args.export);
        };
        let live = views::live_session(office.store(), &agent.name)?;
        match live {
            // Somebody was faster.
            Some(_) if rejection.code == Code::SessionLive && args.own_name => {
                agent = own_name(cx, &mut office, &base)?;
            }
            Some(live) if rejection.code == Code::SessionLive => return Err(in_use(cx, &live)),
            _ => return Err(explain(&office, &proposal, rejection.into())?),
        }
    }
}

fn answer(
    cx: &Cx,
    office: &Office,
    id: &Session,
    took_over: Option<SessionView>,
    position: Option<Position>,
    repeat: bool,
    only_exports: bool,
) -> Result {
    let session = views::session(office.store(), id)?.ok_or_else(|| no_session(id))?;
    let agent = session.agent.clone();
    let held = took_over.as_ref().map(|before| before.holds.clone()).unwrap_or_default();
    let left = took_over.as_ref().filter(|before| before.root == before.id && session.root != session.id);
    let left = left.map(|before| before.id.clone());
    cx.ui.answer(&StartAnswer { session, took_over, position, repeat, only_exports })?;
    if let Some(left) = left {
        cx.ui.say(format!("what was noted in {left} stays there: poste session show {}", shell::word(left.as_str())));
    }
    if repeat {
        cx.ui.say("started before, under this id");
    }
    for claim in held {
        let (number, token) = (claim.number, claim.token);
        cx.ui.say(format!(
            "still held by {agent}: #{number} until {}; finish it: poste done {number} --token {token}, or give it back: poste release {number} --token {token}",
            claim.lease_until
        ));
    }
    Ok(())
}

/// The session that a start of this agent under this id made, whatever else was asked for then.
fn started_before(office: &Office, args: &Args, agent: &Name) -> Result<Option<Session>> {
    let tables = office.store().tables()?;
    let Some(known) = args.id.as_ref().map(|id| tables.id(id)).transpose()?.flatten() else { return Ok(None) };
    let intent = tables.record(known.position)?.and_then(|record| record.sealed.intent().ok().flatten());
    let Some(Intent::SessionStart(start)) = intent else { return Ok(None) };
    let Some(started) = tables.session(&start.id)?.filter(|started| started.position == known.position) else {
        return Ok(None);
    };
    // Under a name of its own it was started on behalf of this one.
    let is_own_name = args.own_name && is_numbered(agent, &started.agent);
    if (started.agent != *agent && !is_own_name) || args.name.as_ref().is_some_and(|name| *name != started.id) {
        return Err(id_conflict());
    }
    Ok(Some(started.id))
}

/// The name is in use: by whom, since when, and the ways on.
fn in_use(cx: &Cx, live: &SessionView) -> CommandError {
    let (agent, id) = (&live.agent, &live.id);
    let since = cx.ui.since(live.started_at);
    let seen = match live.process {
        Presence::Running => "it still runs",
        Presence::Gone => "its process is gone",
        Presence::Unknown => "whether it still runs cannot be seen from here",
    };
    CommandError::new(Kind::Conflict, format!("{agent} runs as session {id} ({}) {since}; {seen}", place(live)))
        .code("session_live")
        .hint("go on in its place: --take-over; what it claimed stays held, and its tokens finish it")
        .hint(format!("or run beside it under a name of its own: --own-name (as {agent}-2)"))
        .hint(format!("or close it first: poste session close {} --as {agent}", shell::word(id.as_str())))
}

/// A free name after this one: `coder-2`, `coder-3` …, registered alike. One that is registered and idle is used again.
fn own_name(cx: &Cx, office: &mut Office, agent: &Agent) -> Result<Agent> {
    const TRIED_MAX: u32 = 1_000;
    for number in 2..=TRIED_MAX {
        let name: Name = format!("{}-{number}", agent.name).parse()?;
        match office.agent(&name)? {
            Some(known) => {
                let is_alike = known.is_active() && known.role == agent.role && known.kind == agent.kind;
                if is_alike && views::live_session(office.store(), &name)?.is_none() {
                    return Ok(known);
                }
            }
            None => {
                let register = Register {
                    kind: Some(agent.kind),
                    role: agent.role.clone(),
                    capabilities: Some(agent.capabilities.clone()),
                    worktree: agent.worktree.clone(),
                    lead: agent.lead.clone().filter(|lead| *lead != name),
                    ..Register::default()
                };
                let proposal = cx.proposal_as(office, name.clone(), Intent::Register(register), None, None);
                match cx.propose(office, &proposal)?.verdict {
                    Verdict::Accepted(_) => {
                        cx.ui.warn(format!("{} is in use; registered {name}", agent.name));
                        let made = office.agent(&name)?;
                        return made.ok_or_else(|| CommandError::new(Kind::Internal, "the agent is not there"));
                    }
                    // Somebody took it this moment.
                    Verdict::Rejected(rejection) if rejection.code == Code::NameTaken => {}
                    Verdict::Rejected(rejection) => return Err(explain(office, &proposal, rejection.into())?),
                }
            }
        }
    }
    Err(CommandError::new(Kind::Refused, format!("{} has {TRIED_MAX} names in use", agent.name)))
}

/// The session of the environment, if another agent runs as it.
pub(crate) fn parent_of(cx: &Cx, office: &Office, agent: &Name) -> Result<Option<Session>> {
    let Some(id) = cx.session() else { return Ok(None) };
    let known = office.store().tables()?.session(&id)?;
    Ok(known.filter(|session| session.is_live() && session.agent != *agent).map(|session| session.id))
}

/// What the session before ran below, unless that is over.
pub(crate) fn place_of(office: &Office, before: &SessionView) -> Result<Option<Session>> {
    let root = office.store().tables()?.session(&before.root)?;
    Ok(before.parent.clone().filter(|_| root.is_some_and(|root| root.is_live())))
}

/// Short, and nobody else's.
fn made_id(cx: &Cx, office: &Office, agent: &Name) -> Result<Session> {
    const CHARS: usize = 6;
    loop {
        let id: Session = format!("{agent}-{}", &cx.new_nonce()[..CHARS]).parse()?;
        if office.store().tables()?.session(&id)?.is_none() {
            return Ok(id);
        }
    }
}

fn worktree(cx: &Cx, agent: &Agent) -> Option<String> {
    let here = || {
        let cwd = cx.cwd().ok()?;
        discover::git_top(&cwd).unwrap_or(cwd).into_os_string().into_string().ok()
    };
    agent.worktree.clone().or_else(here)
}
