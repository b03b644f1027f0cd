//! Whether there is room for the shared memory of the WAL.
//!
//! SQLite extends that file by writing one byte in every 4 KiB, which allocates its blocks and reports a full disk as
//! an error. On a file system with smaller blocks this leaves holes. They are filled when the mapped memory is first
//! touched, and if there is no room by then, the kernel kills the process with SIGBUS. So on such file systems the free
//! space is checked first.

use std::path::Path;

use crate::error::Error;

/// The step in which SQLite allocates blocks.
const CLAIMED_BYTES: u64 = 4_096;
/// Four regions of the shared memory; the first covers the WAL up to 16 MiB.
const ROOM_BYTES_MIN: u64 = 4 * 32 * 1_024;

/// Fails if touching the shared memory could kill the process.
pub(super) fn check(folder: &Path) -> Result<(), Error> {
    let stat = rustix::fs::statvfs(folder).map_err(|error| Error::io(folder, error.into()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if is_enough(stat.f_frsize, free) || sabotaged!(RoomUnchecked) {
        return Ok(());
    }
    Err(Error::DiskFull { ids: Vec::new(), cause: format!("{} has {free} bytes left", folder.display()) })
}

fn is_enough(block: u64, free: u64) -> bool {
    block >= CLAIMED_BYTES || free >= ROOM_BYTES_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_blocks_need_room_beforehand() {
        assert!(is_enough(4_096, 0), "SQLite finds out by itself");
        assert!(!is_enough(1_024, 0));
        assert!(!is_enough(1_024, ROOM_BYTES_MIN - 1));
        assert!(is_enough(1_024, ROOM_BYTES_MIN));
    }
}
