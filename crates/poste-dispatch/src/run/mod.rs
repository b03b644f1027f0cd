//! Runs: the program of an agent is started for its mail and supervised, and the outcome is recorded.
//!
//! Each run has its own supervisor process ([`supervise`]). It claims the messages and records the start in one record,
//! so of any number of supervisors for a message only one gets it. It renews the leases, ends the program and
//! everything the program started when the time is up, the lease is lost or it is asked to stop, and records the answer
//! and the end in one transaction. If it is killed, the program dies with it, and the next process [sweeps](sweep).

mod answer;
mod conversation;
mod folder;
mod guard;
mod outcome;
mod output;
mod preset;
mod prompt;
mod supervise;
mod sweep;
mod worktree;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use poste_config::{AgentConfig, AnswerBy, Mode};
use poste_core::log::MessageNo;
use poste_core::text::{Label, Name, Session};
use poste_run::Mark;

pub use poste_verbs::actions::{RUN, SUPERVISES};

pub use folder::{About, Ended, RUNS, RunFolder, folders, is_kept, trouble};
pub use output::Output;
pub use supervise::{RunError, RunRequest, RunResult, supervise};
pub use sweep::{Swept, sweep};
pub use worktree::WORKTREES;

/// Next to [`RUN`], the machine of the run: a copy of an office has runs with the same ids.
const RUN_MACHINE: &str = "POSTE_RUN_MACHINE";
/// The hidden commands: a supervisor, and the step that ties the program to it.
pub const RUN_AGENT: &str = "run-agent";
pub const RUN_CHILD: &str = "run-child";
/// Commands started from within a run that do not end with it: another supervisor, and the ring for its last message.
const ANOTHER_BY: [&str; 2] = [RUN_AGENT, "wake"];
/// The exit code of a supervisor that did not get the message.
pub const NOT_TAKEN: u8 = 75;

/// Whether an agent can be started without a message, because its program takes its mail itself.
pub fn takes_mail_itself(config: &AgentConfig) -> bool {
    config.mode == Mode::Resident || preset::ways(config).answer == AnswerBy::Poste
}

/// The mark on the processes of a run on a machine.
pub fn mark(machine: &Label, run: &Session) -> Mark {
    let variables = [(RUN, run.as_str()), (RUN_MACHINE, machine.as_str())];
    Mark {
        variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        another: SUPERVISES.to_owned(),
        another_by: ANOTHER_BY.map(str::to_owned).to_vec(),
    }
}

/// A supervisor for these messages of an agent, or, without any, for its inbox. It is independent of its parent and
/// outlives it.
pub fn supervisor(program: &Path, office: &Path, agent: &Name, messages: &[MessageNo]) -> Command {
    let mut command = tagged(program, office, agent, messages);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Reaps a supervisor when it ends, so that it does not stay a zombie.
pub(crate) fn reap(mut supervisor: Child) {
    std::thread::spawn(move || supervisor.wait());
}

/// The same, with the streams of its parent.
pub fn tagged(program: &Path, office: &Path, agent: &Name, messages: &[MessageNo]) -> Command {
    let mut command = Command::new(program);
    command.arg(RUN_AGENT).arg(agent.as_str()).args(messages.iter().map(ToString::to_string));
    // It may be started from within another run, and must not end with it.
    for inherited in [
        RUN,
        RUN_MACHINE,
        "POSTE_AGENT",
        "POSTE_SESSION",
        "POSTE_MESSAGE",
        "POSTE_MESSAGES",
        poste_config::token::VARIABLE,
    ] {
        command.env_remove(inherited);
    }
    command.env("POSTE_HOME", office).env(SUPERVISES, uuid::Uuid::now_v7().to_string());
    command
}
