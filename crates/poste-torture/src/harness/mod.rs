//! The harnesses, one file each.

pub(crate) mod clocks;
pub(crate) mod crowd;
pub(crate) mod damage;
pub(crate) mod dispatch;
pub(crate) mod errno;
pub(crate) mod full_disk;
pub(crate) mod kill;
pub(crate) mod long_reader;
pub(crate) mod million;
pub(crate) mod power;
pub(crate) mod reached;
pub(crate) mod replaced;
pub(crate) mod stopped;
pub(crate) mod versions;
pub(crate) mod wake;

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
    Harness { name: "full-disk", what: "a tmpfs and two ext4 that are really full, then freed", run: full_disk::run },
    Harness { name: "crowd", what: "500 senders at once, 50 claimers for one item 1000 times", run: crowd::run },
    Harness { name: "stopped", what: "a writer stopped with the lock in its hand", run: stopped::run },
    Harness {
        name: "long-reader",
        what: "the WAL while a reader holds a transaction for a minute",
        run: long_reader::run,
    },
    Harness { name: "clocks", what: "clocks that go back, stand still, leap hours or a year", run: clocks::run },
    Harness { name: "versions", what: "today's program and one of the future on one office", run: versions::run },
    Harness { name: "replaced", what: "an office deleted, replaced or copied while it is open", run: replaced::run },
    Harness { name: "damage", what: "tampering and flipped bits are told", run: damage::run },
    Harness { name: "wake", what: "waiters are woken, and find the news without a bell", run: wake::run },
    Harness {
        name: "reached",
        what: "SIGKILL before every system call of a hook, the server of tools and a ring",
        run: reached::run,
    },
    Harness {
        name: "dispatch",
        what: "dispatchers, supervisors and agents killed at random, and dispatchers at every step of a workflow",
        run: dispatch::run,
    },
    Harness { name: "million", what: "one million records: replay, digest, size, growth", run: million::run },
];
