//! Binds a session to its agent, by what the program and its environment say.

use std::env;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use poste_core::store::processes;
use poste_core::store::{discover, host_name};
use poste_core::text::{Name, Session};
use poste_verbs::Result;
use poste_verbs::live::{Live, Reach};
use poste_verbs::program::Program;
use poste_verbs::session::Place;
use poste_verbs::session::bind::{self, Binding, Conversation};

use super::serve::Call;
use super::{Moment, Source};
use crate::shell;
use crate::station::Opened;

pub(super) fn bind(open: &mut Opened, call: &Call) -> Result<Binding> {
    let has_hooks = |id: &Session| Live::load(&call.office, id).is_some_and(|live| live.program.is_some());
    let conversation = Conversation {
        id: call.session.clone(),
        starts: call.moment == Moment::SessionStart,
        replaces_another: matches!(call.event.source, Source::Clear | Source::Resume),
        place: Place {
            process: program_process(call).map(processes::written_down),
            host: host_name(),
            program: call.program.word().to_owned(),
            worktree: folder_of(call).and_then(|folder| folder.into_os_string().into_string().ok()),
        },
        above: processes::above(),
        is_beside: &|id| call.program.has_many_conversations() && has_hooks(id),
        is_agent_program: &|name| name.parse::<Program>().is_ok(),
    };
    bind::bind(&mut open.desk(), &conversation)
}

/// The program's own process, above this hook. Claude Code names it; elsewhere it is the one that ran the hook.
fn program_process(call: &Call) -> Option<u32> {
    let said = env::var("CLAUDE_PID").ok().filter(|_| call.program == Program::ClaudeCode);
    let said = said.and_then(|pid| pid.parse::<u32>().ok());
    // Processes started below inherit the variable, so it may name another program.
    let said = said.filter(|pid| processes::above().iter().any(|process| process.pid == *pid));
    said.or_else(processes::who_started)
}

fn folder_of(call: &Call) -> Option<PathBuf> {
    let cwd = call.event.cwd.clone().or_else(|| env::current_dir().ok())?;
    Some(discover::git_top(&cwd).unwrap_or(cwd))
}

/// The ways to reach the session, from its environment.
pub(super) fn reach(call: &Call) -> Reach {
    let said = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let is_claude = call.program == Program::ClaudeCode;
    let of = |program: Program| (call.program == program).then(|| call.session.as_str().to_owned());
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

/// Claude Code reads this file before each shell command, so that the agent's commands act as this session. The variable
/// may come from anybody who can set one, so only a file where Claude Code keeps such files is written.
pub(super) fn tell_shell(call: &Call, agent: &Name, session: &Session) {
    let Some(path) = env::var_os("CLAUDE_ENV_FILE").filter(|path| !path.is_empty()) else { return };
    let (agent, session) = (shell::word(agent.as_str()), shell::word(session.as_str()));
    // A token that the person's own shell has proves a person, which the agent is not.
    let line = format!("export POSTE_AGENT={agent} POSTE_SESSION={session}\nunset POSTE_TOKEN_FILE\n");
    // Without it the shell's commands need --as; nothing else is lost.
    let Ok(mut file) = session_file(call, Path::new(&path)) else { return };
    let mut text = String::new();
    if file.read_to_string(&mut text).is_ok() && !text.contains(&line) {
        let _ = file.write_all(line.as_bytes());
    }
}

/// Opens `session-env/ID/NAME` outside the project: a regular file of this user that has no other name, in folders that
/// not everybody can write.
fn session_file(call: &Call, path: &Path) -> io::Result<File> {
    let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
    let is_own = |found: &Metadata| found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o002 == 0;
    let name = path.file_name().ok_or_else(refused)?;
    let folder = path.parent().ok_or_else(refused)?.canonicalize()?;
    let above = folder.parent().filter(|above| above.ends_with("session-env")).ok_or_else(refused)?;
    let projects = [folder_of(call), call.office.parent().map(Path::to_owned)];
    let is_in = |project: &PathBuf| project.canonicalize().is_ok_and(|project| folder.starts_with(project));
    if projects.iter().flatten().any(is_in) || !is_own(&fs::metadata(above)?) || !is_own(&fs::metadata(&folder)?) {
        return Err(refused());
    }
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600).custom_flags(flags.bits() as i32);
    let file = options.open(folder.join(name))?;
    let found = file.metadata()?;
    if found.is_file() && found.nlink() == 1 && is_own(&found) { Ok(file) } else { Err(refused()) }
}
