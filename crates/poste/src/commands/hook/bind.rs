//! Whose session it is. The program's own name for it becomes the name of the session.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use poste_connect::hook::{Moment, Source};
use poste_connect::live::{Live, Reach};
use poste_connect::program::Program;
use poste_connect::shell;
use poste_core::fold::{Code, Verdict};
use poste_core::log::{Intent, SessionProcess, SessionStart};
use poste_core::office::Office;
use poste_core::store::processes::{self, Presence};
use poste_core::store::tables::{Agent, SessionRow, SessionState};
use poste_core::store::{discover, host_name};
use poste_core::text::{Name, Session};
use poste_core::views::{self, SessionView};

use super::Call;
use crate::Result;
use crate::commands::session::{parent_of, place_of};
use crate::context::Cx;
use crate::error::{CommandError, Kind};

/// Which session a hook serves.
#[derive(Debug)]
pub(super) struct Binding {
    pub session: Session,
    pub process: Option<SessionProcess>,
    pub standing: Standing,
}

#[derive(Debug)]
pub(super) enum Standing {
    Bound(Box<Bound>),
    /// The name runs elsewhere.
    InUse(Box<SessionView>),
    /// Nobody said who runs here.
    Unnamed,
    /// `POSTE_AGENT` names somebody who is not registered, or retired.
    NotActive(Name),
    /// It was closed, or somebody took over.
    Over(Box<SessionRow>),
}

#[derive(Debug)]
pub(super) struct Bound {
    pub agent: Agent,
    /// The one it took over from just now.
    pub took_over: Option<SessionView>,
}

/// A program that is resumed so often has another problem.
const RUNS_MAX: u32 = 1_000;

pub(super) fn bind(cx: &Cx, office: &mut Office, call: &Call) -> Result<Binding> {
    let process = program_process(call).map(processes::written_down);
    let mut tried = 0;
    loop {
        let run = run_after(cx, office, call, process.as_ref(), tried)?;
        let binding = |standing| Ok(Binding { session: run.id.clone(), process: process.clone(), standing });
        let row = match run.found {
            Run::Over(row) => return binding(Standing::Over(Box::new(row))),
            Run::Live(row) => {
                let active = office.agent(&row.agent)?.filter(Agent::is_active);
                return binding(active.map_or(Standing::NotActive(row.agent), |agent| bound(agent, None)));
            }
            Run::Begins => None,
            Run::Resumes(row) => Some(row),
        };
        let Some(name) = name_of(cx, office, row.as_ref(), process.as_ref())? else {
            return binding(Standing::Unnamed);
        };
        let Some(agent) = office.agent(&name)?.filter(Agent::is_active) else {
            return binding(Standing::NotActive(name));
        };
        let before = match views::live_session(office.store(), &name)?.filter(|live| live.id != run.id) {
            Some(live) if !gives_way(office, call, &live, process.as_ref())? => {
                return binding(Standing::InUse(Box::new(live)));
            }
            before => before,
        };
        let resumes = row.is_some();
        let header = SessionStart {
            id: run.id.clone(),
            process: process.clone(),
            host: host_name(),
            program: call.program.word().to_owned(),
            worktree: worktree(call, &agent),
            // What is resumed stands where it stood.
            parent: if resumes { None } else { parent(cx, office, &name, before.as_ref())? },
            takes_over: before.as_ref().map(|live| live.id.clone()),
            resumes,
        };
        let proposal = cx.proposal_as(office, name.clone(), Intent::SessionStart(header), None, None);
        match office.propose(&proposal)?.verdict {
            Verdict::Accepted(_) => return binding(bound(agent, before)),
            // Another hook of this session was faster, or another session.
            Verdict::Rejected(rejection) if matches!(rejection.code, Code::SessionTaken | Code::SessionLive) => {
                return match views::live_session(office.store(), &name)? {
                    Some(live) if live.id == run.id => binding(bound(agent, None)),
                    Some(live) => binding(Standing::InUse(Box::new(live))),
                    None => Err(rejection.into()),
                };
            }
            // What it ran below is over, so it begins anew.
            Verdict::Rejected(rejection) if rejection.code == Code::SessionOver && resumes => tried = run.nth,
            Verdict::Rejected(rejection) => return Err(rejection.into()),
        }
    }
}

/// A run of the program's session.
struct FoundRun {
    id: Session,
    nth: u32,
    found: Run,
}

enum Run {
    Live(SessionRow),
    /// It ended, or its process did, and the program goes on with it.
    Resumes(SessionRow),
    Begins,
    /// It ended, and nobody said that it goes on.
    Over(SessionRow),
}

/// The run that the program's name for its session means, the first after so many. One that was taken over, or is of
/// another agent, never comes back: then the program goes on as another run.
fn run_after(cx: &Cx, office: &Office, call: &Call, process: Option<&SessionProcess>, tried: u32) -> Result<FoundRun> {
    let tables = office.store().tables()?;
    let starts = call.moment == Moment::SessionStart;
    let speaker = cx.optional_speaker();
    let is_anothers = |row: &SessionRow| speaker.as_ref().is_some_and(|speaker| *speaker != row.agent);
    let mut last: Option<SessionRow> = None;
    for nth in tried + 1..RUNS_MAX {
        let id = if nth == 1 { call.session.clone() } else { format!("{}~{nth}", call.session).parse()? };
        let found = match tables.session(&id)? {
            Some(row) if row.state == SessionState::TakenOver || (is_anothers(&row) && !row.is_live()) => {
                last = Some(row);
                continue;
            }
            Some(row) if row.is_live() => {
                let moved = starts && process.is_some() && row.process.as_ref() != process;
                if moved { Run::Resumes(row) } else { Run::Live(row) }
            }
            Some(row) if starts => Run::Resumes(row),
            Some(row) => Run::Over(row),
            None => match last.take().filter(|_| !starts) {
                Some(last) => return Ok(FoundRun { id: last.id.clone(), nth: nth - 1, found: Run::Over(last) }),
                None => Run::Begins,
            },
        };
        return Ok(FoundRun { id, nth, found });
    }
    Err(CommandError::new(Kind::Refused, format!("session {} was taken over too often", call.session)))
}

/// Who runs here: as the record says, as the environment says, or as the program's server of tools registered it.
fn name_of(
    cx: &Cx,
    office: &Office,
    row: Option<&SessionRow>,
    process: Option<&SessionProcess>,
) -> Result<Option<Name>> {
    if let Some(name) = row.map(|row| row.agent.clone()).or_else(|| cx.optional_speaker()) {
        return Ok(Some(name));
    }
    let Some(process) = process else { return Ok(None) };
    let found = views::session_of_process(office.store(), std::slice::from_ref(process))?;
    Ok(found.map(|(_, agent)| agent))
}

fn parent(cx: &Cx, office: &Office, name: &Name, before: Option<&SessionView>) -> Result<Option<Session>> {
    match parent_of(cx, office, name)? {
        Some(parent) => Ok(Some(parent)),
        None => Ok(before.map(|before| place_of(office, before)).transpose()?.flatten()),
    }
}

fn bound(agent: Agent, took_over: Option<SessionView>) -> Standing {
    Standing::Bound(Box::new(Bound { agent, took_over }))
}

/// Whether a live session of the same agent is over in truth, or is this one under another name.
fn gives_way(office: &Office, call: &Call, live: &SessionView, process: Option<&SessionProcess>) -> Result<bool> {
    if live.process == Presence::Gone {
        return Ok(true);
    }
    let Some(row) = office.store().tables()?.session(&live.id)? else { return Ok(false) };
    let (Some(theirs), Some(ours)) = (&row.process, process) else { return Ok(false) };
    // The same process goes on with another conversation, or its server of tools started it. A second conversation beside
    // the first is somebody else.
    if theirs == ours {
        let goes_on = matches!(call.event.source, Source::Clear | Source::Resume);
        let has_hooks = || Live::load(&call.office, &live.id).is_some_and(|live| live.program.is_some());
        return Ok(goes_on || !call.program.has_many_conversations() || !has_hooks());
    }
    // Of an earlier boot of this very machine nothing runs any more.
    let boot = |process: &SessionProcess| process.place.split(' ').next().unwrap_or_default().to_owned();
    if !theirs.place.is_empty() && row.host == host_name() && boot(theirs) != boot(ours) {
        return Ok(true);
    }
    // A shell started it for the program that it ran then. An agent program above is another agent, which shares its name.
    let is_launcher = row.program.parse::<Program>().is_err();
    Ok(is_launcher && processes::above().contains(theirs))
}

/// The program's own process, above this hook. Claude Code says which it is; elsewhere it is the one that ran the hook.
fn program_process(call: &Call) -> Option<u32> {
    let said = env::var("CLAUDE_PID").ok().filter(|_| call.program == Program::ClaudeCode);
    let said = said.and_then(|pid| pid.parse::<u32>().ok());
    // A variable goes down to whatever is started below.
    let said = said.filter(|pid| processes::above().iter().any(|process| process.pid == *pid));
    said.or_else(processes::who_started)
}

fn worktree(call: &Call, agent: &Agent) -> Option<String> {
    let here = || {
        let cwd = call.event.cwd.clone().or_else(|| env::current_dir().ok())?;
        let path: PathBuf = discover::git_top(&cwd).unwrap_or(cwd);
        path.into_os_string().into_string().ok()
    };
    agent.worktree.clone().or_else(here).filter(|path| path.len() <= poste_core::limits::PATH_BYTES_MAX)
}

/// The ways into the session, as its environment tells them.
pub(super) fn reach(call: &Call) -> Reach {
    let said = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let is_claude = call.program == Program::ClaudeCode;
    let of = |program: Program| (call.program == program).then(|| call.session.to_string());
    Reach {
        socket: said("CLAUDE_CODE_MESSAGING_SOCKET").filter(|_| is_claude).map(PathBuf::from),
        socket_token: said("CLAUDE_CODE_MESSAGING_TOKEN").filter(|_| is_claude),
        tmux: said("TMUX"),
        tmux_pane: said("TMUX_PANE"),
        codex_thread: of(Program::Codex),
        opencode_url: said("OPENCODE_URL").filter(|_| call.program == Program::OpenCode),
        opencode_session: of(Program::OpenCode),
    }
}

/// Claude Code reads a file of its own before each command in a shell: what an agent runs there speaks as this session.
pub(super) fn tell_shell(agent: &Name, session: &Session) {
    let Some(path) = env::var_os("CLAUDE_ENV_FILE").filter(|path| !path.is_empty()) else { return };
    let line =
        format!("export POSTE_AGENT={} POSTE_SESSION={}\n", shell::word(agent.as_str()), shell::word(session.as_str()));
    if fs::read_to_string(&path).is_ok_and(|text| text.contains(&line)) {
        return;
    }
    // Without it the shell's commands need --as; nothing else is lost.
    let file = OpenOptions::new().append(true).create(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}
