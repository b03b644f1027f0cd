//! The harnesses, one file each.

pub(crate) mod errno;
pub(crate) mod kill;
pub(crate) mod power;

use crate::rig::{Result, Rig, Tally};

/// One way to torture an office.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Harness {
    pub name: &'static str,
    pub what: &'static str,
    pub run: fn(&Rig, &Tally) -> Result,
}

pub(crate) const ALL: &[Harness] = &[
    Harness { name: "kill", what: "SIGKILL before every system call of every command that writes", run: kill::run },
    Harness { name: "power", what: "power loss at every moment, every disk image it may leave", run: power::run },
    Harness {
        name: "errno",
        what: "ENOSPC, EIO, EMFILE, EROFS, EDQUOT, EINTR at the n-th call and onward",
        run: errno::run,
    },
];
