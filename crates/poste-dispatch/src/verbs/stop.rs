//! Stops a run: its program is ended, and its messages become pending again.

use poste_core::Foreign;
use poste_core::log::MessageNo;
use poste_core::store::processes::Presence;
use poste_core::text::{Name, Session};
use poste_verbs::{Access, Answered, Desk, Error, Result, Verb, note};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::find_run;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// A run, or a message number for its run
    pub run: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    pub run: Session,
    pub agent: Name,
    pub messages: Vec<MessageNo>,
}

impl Verb for Input {
    const NAME: &'static str = "dispatch stop";
    const ACCESS: Access = Access::Reads;
    const ACTS_OUTSIDE: bool = true;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let run = find_run(desk.office, &self.run)?;
        if run.how.is_some() {
            return Err(Error::refused(format!("run {} has already ended", run.run)));
        }
        let pid = i32::try_from(run.process.pid).ok().and_then(Pid::from_raw);
        // Opened before the process is checked, so that its pid cannot be reused in between.
        let held = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        match (run.presence(desk.office.store())?, held) {
            (Presence::Running, Some(held)) => pidfd_send_signal(held, Signal::TERM)
                .map_err(|error| Error::refused(format!("could not signal its supervisor: {error}")))?,
            (Presence::Unknown, _) => {
                return Err(Error::refused(format!(
                    "run {} is on {}: stop it there",
                    run.run,
                    Foreign::name(&*run.host)
                )));
            }
            _ => {
                return Err(Error::refused(format!("the supervisor of run {} has died", run.run))
                    .hint(note!("a dispatcher cleans up after it: "[dispatch])));
            }
        }
        let agent = run.agent.clone();
        let next = note!(
            "a dispatcher starts {agent} again for pending mail; to prevent that: " [team stop, names = agent]
        );
        Ok(Answered::new(Answer { run: run.run, agent: run.agent, messages: run.messages }).next(next))
    }
}
