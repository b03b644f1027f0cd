//! Where an office must not live: file systems on which several machines, or a host and its guest, share a file without
//! sharing memory. SQLite's WAL needs shared memory.

use std::path::Path;

use crate::error::Error;

#[cfg(target_os = "linux")]
pub(crate) fn check(path: &Path) -> Result<(), Error> {
    let stat = rustix::fs::statfs(path).map_err(|error| Error::io(path, error.into()))?;
    match unsafe_kind(stat.f_type as i64 & 0xffff_ffff) {
        Some(kind) => Err(Error::UnsafeFileSystem { path: path.to_owned(), kind }),
        None => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn check(_: &Path) -> Result<(), Error> {
    Ok(())
}

/// How much this user may still store on the disk that holds a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub bytes: u64,
    /// `None` if the file system does not count its files.
    pub files: Option<u64>,
}

pub(crate) fn room(path: &Path) -> Result<Room, Error> {
    let stat = rustix::fs::statvfs(path).map_err(|error| Error::io(path, error.into()))?;
    let files = (stat.f_files > 0).then_some(stat.f_favail);
    Ok(Room { bytes: stat.f_bavail.saturating_mul(stat.f_frsize), files })
}

#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn unsafe_kind(magic: i64) -> Option<&'static str> {
    match magic {
        0x6969 => Some("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Some("SMB"),
        0x0102_1997 => Some("9p"),
        0x6573_5546 => Some("FUSE or virtiofs"),
        0x00c3_6400 => Some("Ceph"),
        0x5346_414f | 0x6b41_4653 => Some("AFS"),
        0x4750_4653 => Some("GPFS"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x786f_4256 => Some("VirtualBox shared folder"),
        0xbacb_acbc => Some("VMware shared folder"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_file_systems_are_fine_and_shared_ones_are_named() {
        assert_eq!(unsafe_kind(0xef53), None, "ext4");
        assert_eq!(unsafe_kind(0x0102_1994), None, "tmpfs");
        assert_eq!(unsafe_kind(0x9123_683e), None, "btrfs");
        assert_eq!(unsafe_kind(0x6969), Some("NFS"));
        assert_eq!(unsafe_kind(0x0102_1997), Some("9p"));
        let here = tempfile::tempdir().unwrap();
        check(here.path()).expect("tests run on a local file system");
    }
}
