//! Large content and attachments: files named by their BLAKE3 digest, complete or absent.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::archive::UNFINISHED;
use super::sync_folder;
use crate::digest::Digest;
use crate::error::Error;

#[derive(Debug, Clone)]
pub struct Blobs {
    folder: PathBuf,
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
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(digest.to_string())
    }

    pub fn has(&self, digest: &Digest) -> bool {
        self.path(digest).is_file()
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
        let path = self.folder.join(format!("{UNFINISHED}{}", uuid::Uuid::new_v4().simple()));
        let mut write = |unfinished: &Path| -> io::Result<(File, Stored)> {
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(unfinished)?;
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
        match write(&path) {
            Ok((file, stored)) => Ok(Staged { blobs: self, path, file, stored, kept: false }),
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(Error::io(&self.folder, error))
            }
        }
    }

    /// Makes the names of the blobs survive a power loss.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        if !sabotaged!(BlobFolderUnsynced) {
            sync_folder(&self.folder)?;
        }
        Ok(())
    }

    /// Deletes a blob and returns whether it existed.
    pub fn remove(&self, digest: &Digest) -> Result<bool, Error> {
        let path = self.path(digest);
        match fs::remove_file(&path) {
            Ok(()) => sync_folder(&self.folder).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io(&path, error)),
        }
    }

    /// Removes the files that dead writers left behind. Files being written stay.
    pub fn sweep(&self) -> Result<usize, Error> {
        let io_error = |error| Error::io(&self.folder, error);
        let mut swept = 0;
        for entry in fs::read_dir(&self.folder).map_err(io_error)? {
            let entry = entry.map_err(io_error)?;
            if !entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                continue;
            }
            let file = match File::open(entry.path()) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue, // just finished
                Err(error) => return Err(Error::io(&entry.path(), error)),
            };
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                match fs::remove_file(entry.path()) {
                    Ok(()) => swept += 1,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {} // just finished
                    Err(error) => return Err(Error::io(&entry.path(), error)),
                }
            }
        }
        sync_folder(&self.folder)?;
        Ok(swept)
    }

    /// Whether a blob exists and matches its name; reads in constant memory.
    pub fn check(&self, digest: &Digest) -> Result<Checked, Error> {
        let path = self.path(digest);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Checked::Missing),
            Err(error) => return Err(Error::io(&path, error)),
        };
        let mut hasher = blake3::Hasher::new();
        io::copy(&mut file, &mut hasher).map_err(|error| Error::io(&path, error))?;
        let sound = hasher.finalize().as_bytes() == digest.as_bytes();
        Ok(if sound { Checked::Sound } else { Checked::Damaged })
    }

    /// The size of a blob, if it exists.
    pub fn size(&self, digest: &Digest) -> Result<Option<u64>, Error> {
        let path = self.path(digest);
        match fs::metadata(&path) {
            Ok(meta) => Ok(Some(meta.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(&path, error)),
        }
    }

    /// The whole blob, checked against its name.
    pub fn get(&self, digest: &Digest) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path(digest);
        match fs::read(&path) {
            Ok(bytes) if Digest::of(&bytes) == *digest => Ok(Some(bytes)),
            Ok(_) => Err(Error::Damaged(format!("{} does not match its name", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(&path, error)),
        }
    }
}

/// A blob that does not have its name yet. Dropping it deletes the file.
#[derive(Debug)]
pub(crate) struct Staged<'a> {
    blobs: &'a Blobs,
    path: PathBuf,
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
            fs::rename(&self.path, self.blobs.path(&self.stored.digest))
        };
        keep().map_err(|error| Error::io(&self.blobs.folder, error))?;
        self.kept = true;
        Ok(self.stored)
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}
