//! Which `poste.toml` a person on this machine trusts to run commands.
//!
//! Kept as a file of its own, `.poste/trust.json`, not as a table: a snapshot or a copy of the database that travels to
//! another machine must not take the trust with it. What is stored names host, user and path, so that even a copied
//! folder is not trusted elsewhere; and a file somebody else could have written is not believed.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{host_name, read_config, sync_folder};
use crate::digest::Digest;
use crate::error::Error;
use crate::text::Name;
use crate::time::Timestamp;

const FILE: &str = "trust.json";

/// That somebody trusts a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustMark {
    /// Of the whole text of `poste.toml`.
    pub digest: Digest,
    pub by: Name,
    /// Milliseconds, as everywhere.
    pub at: Timestamp,
    host: String,
    user: u32,
    path: PathBuf,
}

impl TrustMark {
    pub(crate) fn new(digest: Digest, by: Name, at: Timestamp, config: &Path) -> Self {
        let user = rustix::process::geteuid().as_raw();
        Self { digest, by, at, host: host_name(), user, path: real(config) }
    }

    /// Set on this machine, by this user, for this very file.
    fn is_of_here(&self, config: &Path) -> bool {
        self.host == host_name() && self.user == rustix::process::geteuid().as_raw() && self.path == real(config)
    }
}

/// The folder by its real path; the file itself may be gone or be a link that is changed with the repository.
fn real(config: &Path) -> PathBuf {
    let folder = config.parent().unwrap_or(Path::new("/"));
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).join(config.file_name().unwrap_or_default())
}

/// What is trusted in this office, here.
pub(crate) fn read(office: &Path, config: &Path) -> Result<Option<TrustMark>, Error> {
    let path = office.join(FILE);
    let meta = match fs::symlink_metadata(&path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(&path, error)),
    };
    let wrong = |message: &str| Error::Config { path: path.clone(), message: message.to_owned() };
    let others_may_write = meta.mode() & 0o022 != 0;
    if !meta.is_file() || others_may_write || meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(wrong("it is not a file only you can write; look at it, then delete it"));
    }
    let Some(text) = read_config(&path)? else { return Ok(None) };
    let mark: TrustMark =
        serde_json::from_str(&text).map_err(|error| wrong(&format!("{error}; trust the file anew")))?;
    Ok(mark.is_of_here(config).then_some(mark))
}

pub(crate) fn write(office: &Path, mark: &TrustMark) -> Result<(), Error> {
    let (path, unfinished) = (office.join(FILE), office.join(format!("{FILE}.{}.tmp", std::process::id())));
    let failed = |error| Error::io(&path, error);
    let text = serde_json::to_string_pretty(mark).expect("plain data");
    let _ = fs::remove_file(&unfinished);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&unfinished, &path).map_err(failed)?;
    sync_folder(office)
}

/// Says whether there was anything to forget.
pub(crate) fn forget(office: &Path) -> Result<bool, Error> {
    let path = office.join(FILE);
    match fs::remove_file(&path) {
        Ok(()) => sync_folder(office).map(|()| true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io(&path, error)),
    }
}
