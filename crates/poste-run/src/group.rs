//! The process group of one command: asking it to end, making it end.

use std::os::fd::OwnedFd;
use std::process::Child;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open, waitid,
};

/// Led by the command's first process, which is not reaped while this is used: until then its number
/// belongs to nobody else, so that no signal can reach a stranger.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group(Pid);

impl Group {
    pub(crate) fn of(child: &Child) -> Self {
        Self(Pid::from_child(child))
    }

    pub(crate) fn leader(self) -> Pid {
        self.0
    }

    /// Readable once the leader has ended; `None` where the kernel has no such thing.
    pub(crate) fn watched(self) -> Option<OwnedFd> {
        pidfd_open(self.0, PidfdFlags::empty()).ok()
    }

    /// Whether the leader has ended; it stays to be reaped.
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
        // A stopped process hears nothing else.
        self.signal(Signal::CONT);
    }

    pub(crate) fn end(self) {
        self.signal(Signal::KILL);
    }

    fn signal(self, signal: Signal) {
        // Nobody is left, or what is left changed its user: there is nothing more this process could do.
        let _ = kill_process_group(self.0, signal);
        // The leader may have joined another group.
        let _ = kill_process(self.0, signal);
    }
}
