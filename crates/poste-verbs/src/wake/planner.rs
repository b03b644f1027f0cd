//! From what is known of an agent, the ways to it: what the session itself offers before what only looks like typing.

use std::path::PathBuf;

use poste_core::log::WakeWay;
use poste_core::store::processes::Presence;
use poste_core::views::LiveSession;

use super::http;
use crate::live::Reach;

/// As many ways as a plan can have: a session's own, tmux, a command.
pub(super) const WAYS_MAX: u32 = 5;

/// Everything that decides.
#[derive(Debug, Clone, Copy)]
pub struct Known<'k> {
    /// The session the agent runs as, by the log.
    pub session: Option<&'k LiveSession>,
    /// A waiter of that session hears the bell, and will tell of this mail.
    pub waiter: bool,
    /// What the session's own hooks said of it.
    pub reach: &'k Reach,
    /// Its own program may be started for this mail.
    pub spawn: bool,
    /// A command of the user's that may be run.
    pub command: Option<&'k [String]>,
    /// Hosts beside this machine that may be asked over HTTP.
    pub hosts: &'k [String],
    /// Whether they may be asked from here: only dispatchers use the network.
    pub remote: bool,
}

/// Ways to an agent, the best first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub ways: Vec<Way>,
    /// What to say if there is none.
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

/// A way may hold the key to a session.
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
                format!("its session {} runs on another machine ({}), which rings it", session.id, session.host)
            }
            Presence::Gone => format!("the process of its session {} is gone", session.id),
            Presence::Unknown if session.process.is_some() => {
                format!("its session {} runs elsewhere ({}), where nobody here can reach it", session.id, session.host)
            }
            Presence::Running | Presence::Unknown => {
                ways = into_session(known, session);
                match is_left_to_dispatcher(known) {
                    true => {
                        format!("the server of its session {} is on another host: a dispatcher asks it", session.id)
                    }
                    false => format!("its session {} tells of no way to reach it", session.id),
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
    // Whoever hears the bell needs no other ring; a command of the user's is for when nothing else is there.
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
    // Only a pane that provably runs this very process is typed into.
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

/// `TMUX` is the path of the socket, the server's process and a session, with commas between. A path may have some too.
fn tmux_socket(tmux: &str) -> Option<PathBuf> {
    let path = tmux.rsplitn(3, ',').nth(2).filter(|path| path.starts_with('/'))?;
    Some(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use poste_core::log::SessionProcess;

    fn session(presence: Presence, has_process: bool) -> LiveSession {
        let process = SessionProcess { pid: 7, started_ms: Some(1), place: "here".to_owned() };
        LiveSession {
            id: "s1".parse().expect("a session"),
            process: has_process.then_some(process),
            presence,
            program: "claude".to_owned(),
            host: "desk".to_owned(),
            elsewhere: false,
        }
    }

    fn everything() -> Reach {
        Reach {
            socket: Some("/run/s".into()),
            socket_token: Some("s3cret".to_owned()),
            tmux: Some("/tmp/tmux,odd/default,12,0".to_owned()),
            tmux_pane: Some("%3".to_owned()),
            codex_thread: Some("t1".to_owned()),
            opencode_url: Some("http://127.0.0.1:4096".to_owned()),
            opencode_session: Some("o1".to_owned()),
        }
    }

    #[test]
    fn the_ways_are_chosen_by_what_is_known() {
        use Presence::{Gone, Running, Unknown};
        let all = everything();
        let none = Reach::default();
        let half =
            Reach { tmux: Some("/t,1,2".to_owned()), opencode_url: all.opencode_url.clone(), ..Reach::default() };
        let pane = Reach { tmux: all.tmux.clone(), tmux_pane: all.tmux_pane.clone(), ..Reach::default() };
        let nonsense = Reach { tmux: Some("no path".to_owned()), ..pane.clone() };
        let words = ["notify".to_owned()];
        let in_session = ["claude-socket", "codex-queue", "opencode", "tmux"];
        // The session, a waiter, the reach, a command: the ways, and the word for having none.
        type Row<'r> = (Option<(Presence, bool)>, bool, &'r Reach, bool, &'r [&'r str], &'r str);
        let rows: &[Row<'_>] = &[
            (None, false, &none, false, &[], "it has no live session"),
            (None, false, &all, true, &["command"], "it has no live session"),
            (Some((Running, true)), false, &all, false, &in_session, "tells of no way"),
            (
                Some((Running, true)),
                false,
                &all,
                true,
                &["claude-socket", "codex-queue", "opencode", "tmux", "command"],
                "",
            ),
            (Some((Running, true)), false, &none, false, &[], "tells of no way"),
            (Some((Running, true)), false, &none, true, &["command"], "tells of no way"),
            (Some((Running, true)), true, &all, true, &["rewake"], "tells of no way"),
            (Some((Running, true)), false, &half, false, &[], "tells of no way"),
            (Some((Running, true)), false, &pane, true, &["tmux", "command"], "tells of no way"),
            (Some((Running, true)), false, &nonsense, false, &[], "tells of no way"),
            (Some((Gone, true)), true, &all, false, &[], "is gone"),
            (Some((Gone, true)), false, &all, true, &["command"], "is gone"),
            (Some((Unknown, true)), true, &all, false, &[], "runs elsewhere (desk)"),
            (Some((Unknown, false)), false, &all, false, &in_session[..3], "tells of no way"),
            (Some((Unknown, false)), true, &none, true, &["rewake"], "tells of no way"),
        ];
        for (at, (row, waiter, reach, command, expected, why)) in rows.iter().enumerate() {
            let session = row.map(|(presence, has_process)| session(presence, has_process));
            let known = Known {
                session: session.as_ref(),
                waiter: *waiter,
                reach,
                spawn: false,
                command: command.then_some(&words),
                hosts: &[],
                remote: false,
            };
            let spawned = super::plan(&Known { spawn: true, ..known });
            let plan = plan(&known);
            // Only who has no session that lives gets a new one, before anything else is tried.
            let has_none = row.is_none_or(|(presence, _)| presence == Gone);
            assert_eq!(spawned.ways.contains(&Way::Spawn), has_none, "row {at}");
            let others: Vec<Way> = spawned.ways.iter().filter(|way| **way != Way::Spawn).cloned().collect();
            assert_eq!(others, plan.ways, "row {at}");
            let found: Vec<&str> = plan.ways.iter().map(|way| way.word().word()).collect();
            assert_eq!(found, *expected, "row {at}");
            assert!(found.len() <= WAYS_MAX as usize);
            assert!(plan.why_not.contains(why), "row {at}: {}", plan.why_not);
            assert!(!format!("{plan:?}").contains("s3cret"), "a plan that is printed tells no key");
        }
    }

    #[test]
    fn a_session_of_another_machine_is_rung_there() {
        let elsewhere = LiveSession { elsewhere: true, ..session(Presence::Unknown, false) };
        let (reach, words) = (everything(), ["notify".to_owned()]);
        let known = Known {
            session: Some(&elsewhere),
            waiter: true,
            reach: &reach,
            spawn: true,
            command: Some(&words),
            hosts: &[],
            remote: true,
        };
        let plan = plan(&known);
        assert_eq!(plan.ways, []);
        assert!(plan.why_not.contains("another machine (desk)"), "{}", plan.why_not);
    }

    #[test]
    fn a_server_on_another_host_is_asked_by_dispatchers_only() {
        let here = session(Presence::Running, true);
        let (url, session) = (Some("http://10.0.0.7:4096".to_owned()), Some("o1".to_owned()));
        let reach = Reach { opencode_url: url, opencode_session: session, ..Reach::default() };
        let hosts = ["10.0.0.7".to_owned()];
        let known = Known {
            session: Some(&here),
            waiter: false,
            reach: &reach,
            spawn: false,
            command: None,
            hosts: &hosts,
            remote: false,
        };
        let left = plan(&known);
        assert_eq!(left.ways, []);
        assert!(left.why_not.contains("a dispatcher asks it"), "{}", left.why_not);
        let ways = |known: &Known<'_>| plan(known).ways.iter().map(|way| way.word().word()).collect::<Vec<_>>();
        assert_eq!(ways(&Known { remote: true, ..known }), ["opencode"]);
        // A host that nobody named is tried, which tells how to name it and asks nobody.
        assert_eq!(ways(&Known { hosts: &[], ..known }), ["opencode"]);
    }

    #[test]
    fn a_path_with_commas_is_still_the_socket() {
        assert_eq!(tmux_socket("/tmp/tmux,odd/default,12,0"), Some("/tmp/tmux,odd/default".into()));
        assert_eq!(tmux_socket("relative,1,2"), None);
        assert_eq!(tmux_socket("/tmp/x"), None);
    }
}
