//! The process group of one command: asking it to end, and killing it.

use std::os::fd::OwnedFd;
use std::process::Child;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open, waitid,
};

/// A group led by the command's first process. The leader is not reaped while this is used: until then its pid belongs
/// to no other process, so no signal can reach an unrelated one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group(Pid);

impl Group {
    pub(crate) fn of(child: &Child) -> Self {
        Self(Pid::from_child(child))
    }

    pub(crate) fn leader(self) -> Pid {
        self.0
    }

    /// Readable once the leader has ended; `None` where the kernel does not support it.
    pub(crate) fn watched(self) -> Option<OwnedFd> {
        pidfd_open(self.0, PidfdFlags::empty()).ok()
    }

    /// Whether the leader has ended. It is not reaped.
    pub(crate) fn leader_ended(self) -> std::io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            match waitid(WaitId::Pid(self.0), options) {
                Ok(status) => return Ok(status.is_some()),
                Err(Errno::INTR) => {}
                Err(failed) => return Err(failed.into()),
            }
        }
    }

    pub(crate) fn ask_to_end(self) {
        self.signal(Signal::TERM);
        // A stopped process does not act on SIGTERM.
        self.signal(Signal::CONT);
    }

    pub(crate) fn end(self) {
        self.signal(Signal::KILL);
    }

    fn signal(self, signal: Signal) {
        // Fails if no process is left, or if the rest changed their user. Nothing more can be done then.
        let _ = kill_process_group(self.0, signal);
        // The leader may have joined another group.
        let _ = kill_process(self.0, signal);
    }
}
