//! Plans the ways to an agent: what its session offers comes before what only looks like typing.

use std::path::PathBuf;

use poste_core::Foreign;
use poste_core::log::WakeWay;
use poste_core::store::processes::Presence;
use poste_core::views::LiveSession;

use super::http;
use crate::live::Reach;

/// Maximum number of ways in a plan: the session's own, tmux, a command.
pub const WAYS_MAX: u32 = 5;

/// Everything that a plan depends on.
#[derive(Debug, Clone, Copy)]
pub struct Known<'k> {
    /// The session the agent runs as, according to the log.
    pub session: Option<&'k LiveSession>,
    /// A waiter of that session hears the bell, and will report this mail.
    pub waiter: bool,
    /// The ways that the session's own hooks reported.
    pub reach: &'k Reach,
    /// Its own program may be started for this mail.
    pub spawn: bool,
    /// The user's command, if it may be run.
    pub command: Option<&'k [String]>,
    /// Other hosts that may be asked over HTTP.
    pub hosts: &'k [String],
    /// Whether they may be asked from here: only dispatchers use the network.
    pub remote: bool,
}

/// Ways to an agent, best first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub ways: Vec<Way>,
    /// The reason if there is none.
    pub why_not: String,
}

/// One way, with what it needs.
#[derive(Clone, PartialEq, Eq)]
pub enum Way {
    Rewake,
    ClaudeSocket {
        path: PathBuf,
        token: Option<String>,
    },
    CodexQueue {
        thread: String,
    },
    OpenCode {
        url: String,
        session: String,
        hosts: Vec<String>,
    },
    Tmux {
        socket: PathBuf,
        pane: String,
        pid: u32,
    },
    Command {
        words: Vec<String>,
    },
    /// It has no session, so one is started.
    Spawn,
}

impl Way {
    pub fn word(&self) -> WakeWay {
        match self {
            Self::Rewake => WakeWay::Rewake,
            Self::ClaudeSocket { .. } => WakeWay::ClaudeSocket,
            Self::CodexQueue { .. } => WakeWay::CodexQueue,
            Self::OpenCode { .. } => WakeWay::OpenCode,
            Self::Tmux { .. } => WakeWay::Tmux,
            Self::Command { .. } => WakeWay::Command,
            Self::Spawn => WakeWay::Spawn,
        }
    }
}

/// Shows only the kind of way, which may hold a session's token.
impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word().word())
    }
}

pub fn plan(known: &Known<'_>) -> Plan {
    let mut ways = Vec::new();
    let why_not = match known.session {
        None => "it has no live session".to_owned(),
        Some(session) => match session.presence {
            _ if session.elsewhere => {
                format!(
                    "its session {} runs on another machine ({}), which rings it",
                    session.id,
                    Foreign::name(&*session.host)
                )
            }
            Presence::Gone => format!("the process of its session {} has ended", session.id),
            Presence::Unknown if session.process.is_some() => {
                format!(
                    "its session {} runs elsewhere ({}) and cannot be reached from here",
                    session.id,
                    Foreign::name(&*session.host)
                )
            }
            Presence::Running | Presence::Unknown => {
                ways = into_session(known, session);
                match is_left_to_dispatcher(known) {
                    true => {
                        format!("the server of its session {} is on another host: a dispatcher asks it", session.id)
                    }
                    false => format!("its session {} reports no way to reach it", session.id),
                }
            }
        },
    };
    // Its own machine rings it, with the command that is configured there.
    if known.session.is_some_and(|session| session.elsewhere) {
        return Plan { ways, why_not };
    }
    let is_live = known.session.is_some_and(|session| session.presence != Presence::Gone);
    if known.spawn && !is_live {
        ways.push(Way::Spawn);
    }
    // A session that hears the bell needs no other ring. The user's command comes last.
    if ways != [Way::Rewake] {
        ways.extend(known.command.map(|words| Way::Command { words: words.to_vec() }));
    }
    Plan { ways, why_not }
}

fn into_session(known: &Known<'_>, session: &LiveSession) -> Vec<Way> {
    if known.waiter {
        return vec![Way::Rewake];
    }
    let reach = known.reach;
    let mut ways = Vec::new();
    ways.extend(reach.socket.clone().map(|path| Way::ClaudeSocket { path, token: reach.socket_token.clone() }));
    ways.extend(reach.codex_thread.clone().map(|thread| Way::CodexQueue { thread }));
    if let (Some(url), Some(session)) = (reach.opencode_url.clone(), reach.opencode_session.clone())
        && !is_left_to_dispatcher(known)
    {
        ways.push(Way::OpenCode { url, session, hosts: known.hosts.to_vec() });
    }
    // Only type into a pane that provably runs this process.
    if let (Some(tmux), Some(pane), Some(process)) = (&reach.tmux, &reach.tmux_pane, &session.process)
        && session.presence == Presence::Running
        && let Some(socket) = tmux_socket(tmux)
    {
        ways.push(Way::Tmux { socket, pane: pane.clone(), pid: process.pid });
    }
    ways
}

fn is_left_to_dispatcher(known: &Known<'_>) -> bool {
    !known.remote && known.reach.opencode_url.as_ref().is_some_and(|url| http::is_remote(url, known.hosts))
}

/// `TMUX` is the path of the socket, the server's pid and a session, separated by commas. The path may have commas too.
fn tmux_socket(tmux: &str) -> Option<PathBuf> {
    let path = tmux.rsplitn(3, ',').nth(2).filter(|path| path.starts_with('/'))?;
    Some(PathBuf::from(path))
}
