//! Whether there is room for the shared memory of the WAL.
//!
//! SQLite grows that file by one byte in every 4 KiB, which claims its blocks and tells a full disk as an error. On a
//! file system with smaller blocks this leaves holes; they are filled when the mapped memory is first touched, and if
//! there is no room then, the kernel ends the process with SIGBUS. So there we look first.

use std::path::Path;

use crate::error::Error;

/// The step in which SQLite claims blocks.
const CLAIMED_BYTES: u64 = 4_096;
/// Four regions of the shared memory; the first covers the WAL up to 16 MiB.
const ROOM_BYTES_MIN: u64 = 4 * 32 * 1_024;

/// Refuses to go on where touching the shared memory might end the process.
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
