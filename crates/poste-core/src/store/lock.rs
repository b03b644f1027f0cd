//! The write lock: one writer at a time, first come, first served, and others can see which process holds it.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::Folder;
use crate::error::Error;

/// A lock file of an office, usually `write.lock`. The kernel releases it when its holder dies, however that happens.
#[derive(Debug)]
pub struct WriteLock {
    folder: Folder,
    name: &'static str,
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

const WRITE_LOCK: &str = "write.lock";
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
    pub(crate) fn look(office: &Folder) -> Result<Option<Self>, Error> {
        let failed = |error| Error::io(&office.path().join(WRITE_LOCK), error);
        let file = match office.open_to_read(WRITE_LOCK) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let held = match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => false,
            Err(rustix::io::Errno::WOULDBLOCK) => true,
            Err(error) => return Err(failed(error.into())),
        };
        let age_ms = super::folder::age_ms(&file.metadata().map_err(failed)?);
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
    pub fn new(office: &Folder, program: &str) -> Self {
        Self::named(office, WRITE_LOCK, program)
    }

    /// The same kind of lock on another file.
    pub(super) fn named(folder: &Folder, name: &'static str, program: &str) -> Self {
        // One line of fixed length, so that a single write replaces the previous holder.
        let program: String =
            program.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(HOLDER_BYTES / 2).collect();
        let holder = format!("pid {} ({program})", std::process::id());
        let holder = format!("{holder:<width$}\n", width = HOLDER_BYTES - 1);
        Self { folder: folder.clone(), name, holder }
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
            Err(error) => return Err(self.failed(error.into())),
        };
        // If the lock file was deleted, there may be two of them, and the one without a name protects nothing.
        let here = file.metadata().map_err(|error| self.failed(error))?;
        if self.folder.identity_of(self.name) != Some((here.dev(), here.ino())) {
            return Err(Error::Replaced(self.path()));
        }
        // Only used in error messages: the lock holds even if this write fails.
        let _ = file.write_all_at(self.holder.as_bytes(), 0);
        Ok(WriteGuard { _file: file })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(self.name)
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io(&self.path(), error)
    }

    fn open(&self) -> Result<File, Error> {
        self.folder.open_or_create(self.name).map_err(|error| match error.kind() {
            // The file is created if it is missing, so `NotFound` means that its folder is missing.
            io::ErrorKind::NotFound => Error::Replaced(self.folder.path().to_owned()),
            _ => self.failed(error),
        })
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
            Ok(Err(error)) => Err(self.failed(error.into())),
            Err(_) => Err(self.busy(patience)),
        }
    }

    fn busy(&self, waited: Duration) -> Error {
        Error::Busy { holder: self.holder(), waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX) }
    }

    /// The holder, as far as the file says.
    fn holder(&self) -> String {
        let text = self.folder.read(self.name, HOLDER_BYTES as u64).unwrap_or_default();
        match String::from_utf8_lossy(&text).trim() {
            "" => "another process".to_owned(),
            holder => crate::Foreign::words(holder).to_string(),
        }
    }
}
