//! Whether a session's own waiter hears the bell: it holds a lock for as long as it runs.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use poste_core::text::Session;
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::live;

/// The lock is touched for a moment to find out, so whoever takes it must try more than once.
pub fn is_waiting(office: &Path, session: &Session) -> bool {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let path = live::path(office, session).with_extension("waiter");
    let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(path) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err_and(|error| error == rustix::io::Errno::WOULDBLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_is_there_as_long_as_it_holds_its_lock() {
        let office = tempfile::tempdir().expect("a folder");
        let session: Session = "s1".parse().expect("a session");
        assert!(!is_waiting(office.path(), &session));
        let path = live::path(office.path(), &session).with_extension("waiter");
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        let lock = std::fs::File::create(path).expect("made");
        assert!(!is_waiting(office.path(), &session), "a lock that was left behind is no waiter");
        flock(&lock, FlockOperation::LockExclusive).expect("locked");
        assert!(is_waiting(office.path(), &session));
        drop(lock);
        assert!(!is_waiting(office.path(), &session));
    }
}
