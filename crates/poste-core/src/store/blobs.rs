//! Large content and attachments: files named by their BLAKE3 digest, complete or absent.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};

use super::Folder;
use super::archive::UNFINISHED;
use super::folder::{Kind, unfinished};
use crate::digest::Digest;
use crate::error::Error;

const FOLDER: &str = "blobs";

#[derive(Debug, Clone)]
pub struct Blobs {
    office: Folder,
}

/// Digest and size of a stored file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    pub digest: Digest,
    pub size: u64,
}

/// The condition of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    Sound,
    Missing,
    Damaged,
}

impl Blobs {
    pub fn new(office: &Folder) -> Self {
        Self { office: office.clone() }
    }

    /// Where they are. Opened each time, because the folder may be made again while the office stays open.
    pub(crate) fn folder(&self) -> io::Result<Folder> {
        self.office.below(FOLDER)
    }

    /// The path of a blob, for people.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.office.path().join(FOLDER).join(digest.to_string())
    }

    /// Whether there is a blob. That it cannot be looked for is an error: an erasure must not pass over it.
    pub fn has(&self, digest: &Digest) -> Result<bool, Error> {
        let path = self.path(digest);
        match self.folder().and_then(|folder| folder.entry(digest.to_string())) {
            Ok(entry) => Ok(entry.is_some_and(|entry| entry.kind == Kind::File)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io(&path, error)),
        }
    }

    /// Opens a blob; `None` if there is none.
    pub(crate) fn open(&self, digest: &Digest) -> Result<Option<File>, Error> {
        match self.folder().and_then(|folder| folder.open_to_read(digest.to_string())) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(&self.path(digest), error)),
        }
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io(&self.office.path().join(FOLDER), error)
    }

    pub fn put(&self, bytes: &[u8]) -> Result<Stored, Error> {
        self.put_from(bytes)
    }

    /// Stores everything that `source` yields, in constant memory.
    ///
    /// When this returns, the blob survives a power loss, so a record that names it may be appended. A crash before
    /// that leaves a temporary file or nothing; a blob under its name is always complete.
    pub fn put_from(&self, source: impl Read) -> Result<Stored, Error> {
        let stored = self.stage(source)?.keep()?;
        self.sync()?;
        Ok(stored)
    }

    /// Writes everything that `source` yields to a temporary file, which [`Staged::keep`] turns into a blob. A caller
    /// that stores many blobs can let another thread wait for the disk, and then calls [`Blobs::sync`] once.
    pub(crate) fn stage(&self, mut source: impl Read) -> Result<Staged<'_>, Error> {
        let folder = self.folder().map_err(|error| self.failed(error))?;
        let name = unfinished();
        let mut write = || -> io::Result<(File, Stored)> {
            let mut file = folder.create(&name)?;
            // Marks the file as being written. The kernel releases the lock when the writer dies.
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            let mut hasher = blake3::Hasher::new();
            let mut size = 0_u64;
            let mut buffer = vec![0_u8; 128 * 1024];
            loop {
                let read = match source.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(read) => read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                };
                hasher.update(&buffer[..read]);
                file.write_all(&buffer[..read])?;
                size += read as u64;
            }
            Ok((file, Stored { digest: Digest::from_bytes(*hasher.finalize().as_bytes()), size }))
        };
        match write() {
            Ok((file, stored)) => Ok(Staged { blobs: self, folder, name, file, stored, kept: false }),
            Err(error) => {
                let _ = folder.remove(&name);
                Err(self.failed(error))
            }
        }
    }

    /// Makes the names of the blobs survive a power loss.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        if sabotaged!(BlobFolderUnsynced) {
            return Ok(());
        }
        self.folder().and_then(|folder| folder.sync()).map_err(|error| self.failed(error))
    }

    /// Deletes a blob and returns whether it existed.
    pub fn remove(&self, digest: &Digest) -> Result<bool, Error> {
        let remove = || {
            let folder = self.folder()?;
            let was_there = folder.remove(digest.to_string())?;
            if was_there {
                folder.sync()?;
            }
            Ok(was_there)
        };
        remove().map_err(|error| Error::io(&self.path(digest), error))
    }

    /// Removes the files that dead writers left behind. Files being written stay.
    pub fn sweep(&self) -> Result<usize, Error> {
        let sweep = || -> io::Result<usize> {
            let folder = self.folder()?;
            let mut swept = 0;
            for name in folder.names()? {
                if !name.as_bytes().starts_with(UNFINISHED.as_bytes()) {
                    continue;
                }
                let file = match folder.open_to_read(&name) {
                    Ok(file) => file,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue, // just finished
                    Err(error) => return Err(error),
                };
                if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                    swept += usize::from(folder.remove(&name)?);
                }
            }
            folder.sync()?;
            Ok(swept)
        };
        sweep().map_err(|error| self.failed(error))
    }

    /// Whether a blob exists and matches its name; reads in constant memory.
    pub fn check(&self, digest: &Digest) -> Result<Checked, Error> {
        let Some(mut file) = self.open(digest)? else { return Ok(Checked::Missing) };
        let mut hasher = blake3::Hasher::new();
        io::copy(&mut file, &mut hasher).map_err(|error| Error::io(&self.path(digest), error))?;
        let sound = hasher.finalize().as_bytes() == digest.as_bytes();
        Ok(if sound { Checked::Sound } else { Checked::Damaged })
    }

    /// The size of a blob, if it exists.
    pub fn size(&self, digest: &Digest) -> Result<Option<u64>, Error> {
        match self.folder().and_then(|folder| folder.entry(digest.to_string())) {
            Ok(entry) => Ok(entry.map(|entry| entry.bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(&self.path(digest), error)),
        }
    }

    /// The whole blob, checked against its name.
    pub fn get(&self, digest: &Digest) -> Result<Option<Vec<u8>>, Error> {
        let Some(mut file) = self.open(digest)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| Error::io(&self.path(digest), error))?;
        match Digest::of(&bytes) == *digest {
            true => Ok(Some(bytes)),
            false => Err(Error::Damaged(format!("{} does not match its name", self.path(digest).display()))),
        }
    }
}

/// A blob that does not have its name yet. Dropping it deletes the file.
#[derive(Debug)]
pub(crate) struct Staged<'a> {
    blobs: &'a Blobs,
    folder: Folder,
    name: String,
    file: File,
    stored: Stored,
    kept: bool,
}

impl Staged<'_> {
    pub(crate) fn stored(&self) -> Stored {
        self.stored
    }

    pub(crate) fn keep(mut self) -> Result<Stored, Error> {
        let keep = || -> io::Result<()> {
            if !sabotaged!(BlobUnsynced) {
                self.file.sync_all()?;
            }
            self.folder.rename(&self.name, self.stored.digest.to_string())
        };
        keep().map_err(|error| self.blobs.failed(error))?;
        self.kept = true;
        Ok(self.stored)
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = self.folder.remove(&self.name);
        }
    }
}
