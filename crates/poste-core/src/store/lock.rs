//! The write lock: one writer at a time, first come, first served, and others can see which process holds it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::error::Error;

/// A lock file of an office, usually `write.lock`. The kernel releases it when its holder dies, however that happens.
#[derive(Debug)]
pub struct WriteLock {
    path: PathBuf,
    holder: String,
}

/// The lock, held until dropped.
#[derive(Debug)]
pub struct WriteGuard {
    _file: Locked,
}

/// A locked file. Dropping it releases the lock.
///
/// Closing the file is not enough: a program that another thread is starting shares the open file until it runs.
#[derive(Debug)]
pub struct Locked(File);

impl Locked {
    /// Takes the exclusive lock, or fails with `WouldBlock` if another process has one.
    pub fn exclusive(file: File) -> io::Result<Self> {
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self(file))
    }
}

impl std::ops::Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

const HOLDER_BYTES: usize = 128;

/// What a lock file reveals without waiting for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockState {
    pub held: bool,
    /// The process that took it last, as the file names it.
    pub holder: Option<String>,
    pub pid: Option<u32>,
    /// How long ago it was last taken, by the file's modification time.
    pub age_ms: Option<i64>,
}

impl LockState {
    /// Never waits. Returns `None` if this office has never been locked.
    ///
    /// Taking a shared lock for an instant is the only way to ask that works on every system. A writer that arrives in
    /// that instant waits for as long.
    pub(crate) fn look(folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join("write.lock");
        // Opening a pipe of that name would block.
        let nonblock = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
        let file = match OpenOptions::new().read(true).custom_flags(nonblock).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(&path, error)),
        };
        let held = match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => false,
            Err(rustix::io::Errno::WOULDBLOCK) => true,
            Err(error) => return Err(Error::io(&path, error.into())),
        };
        let age_ms = super::folder::age_ms(&file.metadata().map_err(|error| Error::io(&path, error))?);
        let mut text = [0; HOLDER_BYTES];
        let read = file.read_at(&mut text, 0).unwrap_or(0);
        let holder = Some(String::from_utf8_lossy(&text[..read]).trim().to_owned()).filter(|text| !text.is_empty());
        let pid = holder.as_deref().and_then(pid_of);
        Ok(Some(Self { held, holder, pid, age_ms }))
    }
}

/// `pid 12 (poste send)` → 12.
fn pid_of(holder: &str) -> Option<u32> {
    holder.strip_prefix("pid ")?.split(' ').next()?.parse().ok()
}

impl WriteLock {
    pub fn new(folder: &Path, program: &str) -> Self {
        Self::named(folder, "write.lock", program)
    }

    /// The same kind of lock on another file of the folder.
    pub(super) fn named(folder: &Path, file: &str, program: &str) -> Self {
        // One line of fixed length, so that a single write replaces the previous holder.
        let program: String =
            program.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(HOLDER_BYTES / 2).collect();
        let holder = format!("pid {} ({program})", std::process::id());
        let holder = format!("{holder:<width$}\n", width = HOLDER_BYTES - 1);
        Self { path: folder.join(file), holder }
    }

    /// Waits for the lock, but not longer than `patience`.
    pub fn acquire(&self, patience: Duration) -> Result<WriteGuard, Error> {
        let file = self.open()?;
        if sabotaged!(LockNotTaken) {
            return Ok(WriteGuard { _file: Locked(file) });
        }
        let file = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Locked(file),
            Err(rustix::io::Errno::WOULDBLOCK) if patience.is_zero() => return Err(self.busy(patience)),
            Err(rustix::io::Errno::WOULDBLOCK) => self.wait(file, patience)?,
            Err(error) => return Err(Error::io(&self.path, error.into())),
        };
        // If the lock file was deleted, there may be two of them, and the one without a name protects nothing.
        let here = file.metadata().map_err(|error| Error::io(&self.path, error))?;
        let named = std::fs::metadata(&self.path);
        if !named.is_ok_and(|named| (named.dev(), named.ino()) == (here.dev(), here.ino())) {
            return Err(Error::Replaced(self.path.clone()));
        }
        // Only used in error messages: the lock holds even if this write fails.
        let _ = file.write_all_at(self.holder.as_bytes(), 0);
        Ok(WriteGuard { _file: file })
    }

    fn open(&self) -> Result<File, Error> {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&self.path).map_err(
            |error| match (error.kind(), self.path.parent()) {
                // The file is created if it is missing, so `NotFound` means that its folder is missing.
                (std::io::ErrorKind::NotFound, Some(folder)) => Error::Replaced(folder.to_owned()),
                _ => Error::io(&self.path, error),
            },
        )
    }

    /// A thread waits, so that the wait can time out. Blocking in the kernel keeps the queue fair, which polling would
    /// not. After a timeout, the thread releases the lock as soon as it gets it.
    fn wait(&self, file: File, patience: Duration) -> Result<Locked, Error> {
        let (sender, receiver) = mpsc::sync_channel(0);
        std::thread::spawn(move || {
            let outcome = loop {
                match flock(&file, FlockOperation::LockExclusive) {
                    Err(rustix::io::Errno::INTR) => {}
                    outcome => break outcome,
                }
            };
            let _ = sender.send(outcome.map(|()| Locked(file)));
        });
        match receiver.recv_timeout(patience) {
            Ok(Ok(file)) => Ok(file),
            Ok(Err(error)) => Err(Error::io(&self.path, error.into())),
            Err(_) => Err(self.busy(patience)),
        }
    }

    fn busy(&self, waited: Duration) -> Error {
        Error::Busy { holder: self.holder(), waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX) }
    }

    /// The holder, as far as the file says.
    fn holder(&self) -> String {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        match text.trim() {
            "" => "another process".to_owned(),
            holder => crate::Foreign::words(holder).to_string(),
        }
    }
}
