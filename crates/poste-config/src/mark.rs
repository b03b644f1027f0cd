//! Which `poste.toml` a person on this machine trusts to run commands.
//!
//! Kept in a separate file, `.poste/trust.json`, not in a table: a snapshot or a copy of the database that is moved to
//! another machine must not take the trust with it. The file names machine, user and path, so that even a copied folder
//! is not trusted elsewhere. A file that another user could have written is rejected.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::read_config;
use poste_core::store::{discover, host_name, sync_folder};
use poste_core::text::{Label, Name};
use poste_core::{Digest, Error, Timestamp};

const FILE: &str = "trust.json";

/// The record that a person trusts a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustMark {
    /// Of the whole text of `poste.toml`.
    pub digest: Digest,
    pub by: Name,
    /// In milliseconds.
    pub at: Timestamp,
    machine: Label,
    /// Name of the machine, for people.
    host: String,
    user: u32,
    path: PathBuf,
}

impl TrustMark {
    pub(crate) fn new(digest: Digest, by: Name, at: Timestamp, machine: Label, config: &Path) -> Self {
        let user = rustix::process::geteuid().as_raw();
        Self { digest, by, at, machine, host: host_name(), user, path: real_path(config) }
    }

    /// Whether it was set on this machine, by this user, for this file.
    fn is_of_here(&self, machine: &Label, config: &Path) -> bool {
        self.machine == *machine && self.user == rustix::process::geteuid().as_raw() && self.path == real_path(config)
    }
}

/// The path with its folder resolved. The file itself may be missing, or a link that changes with the repository.
fn real_path(config: &Path) -> PathBuf {
    let folder = config.parent().unwrap_or(Path::new("/"));
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).join(config.file_name().unwrap_or_default())
}

/// The mark of trust in this office, if it is valid here.
pub(crate) fn read(office: &Path, machine: &Label, config: &Path) -> Result<Option<TrustMark>, Error> {
    let path = office.join(FILE);
    let meta = match fs::symlink_metadata(&path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(&path, error)),
    };
    let wrong = |message: &str| Error::Config { path: path.clone(), message: message.to_owned() };
    let others_may_write = meta.mode() & 0o022 != 0;
    if !meta.is_file() || others_may_write || meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(wrong("it is not a file that only you can write; review it, then delete it"));
    }
    let Some(text) = read_config(&path)? else { return Ok(None) };
    let mark: TrustMark =
        serde_json::from_str(&text).map_err(|error| wrong(&format!("{error}; trust the file again")))?;
    Ok(mark.is_of_here(machine, config).then_some(mark))
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

/// Returns whether there was a mark to delete.
pub(crate) fn forget(office: &Path) -> Result<bool, Error> {
    let path = office.join(FILE);
    match fs::remove_file(&path) {
        Ok(()) => sync_folder(office).map(|()| true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io(&path, error)),
    }
}

/// Why a `local.toml` does not count as this machine's own file. A person's own file needs no trust, so one that came
/// with a repository, or belongs to another user, must not run anything.
pub(crate) fn why_not_own(path: &Path) -> Result<Option<String>, Error> {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(path, error)),
    };
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Ok(Some("it belongs to another user, so nothing in it is run; write your own file".to_owned()));
    }
    Ok(is_tracked(path).then(|| {
        "git tracks it, so it came with the repository and nothing in it is run; review it, and to use it: \
         git rm --cached .poste/local.toml"
            .to_owned()
    }))
}

/// Whether the index of the repository that contains a file names it. Read as bytes: git itself is not run in a folder
/// that is not trusted.
fn is_tracked(path: &Path) -> bool {
    let Ok(path) = std::path::absolute(path) else { return true };
    let folder = path.parent().unwrap_or(Path::new("/"));
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let path = folder.join(path.file_name().unwrap_or_default());
    let Some(top) = discover::git_top(&folder) else { return false };
    let Ok(name) = path.strip_prefix(&top) else { return false };
    let git = match fs::read_to_string(top.join(".git")) {
        Ok(link) => top.join(link.trim().strip_prefix("gitdir:").unwrap_or_default().trim()),
        Err(_) => top.join(".git"),
    };
    let Ok(files) = fs::read_dir(&git) else { return false };
    let is_index = |name: &str| name == "index" || name.starts_with("sharedindex.");
    let indexes = files.flatten().filter(|file| file.file_name().to_str().is_some_and(is_index));
    indexes.into_iter().any(|index| fs::read(index.path()).is_ok_and(|index| is_named(&index, name)))
}

fn is_named(index: &[u8], name: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    // From version 4 on, a name omits the prefix it shares with the previous one, so only its end is compared.
    let is_short = index.get(4..8).is_some_and(|version| version >= [0, 0, 0, 4].as_slice());
    let whole = match (is_short, name.file_name()) {
        (true, Some(last)) => last.as_bytes(),
        _ => name.as_os_str().as_bytes(),
    };
    let ends = |at: usize| index.get(at + whole.len()) == Some(&0);
    // The byte before a name is its length. If that is 0x2f, the slash there does not mean a longer name.
    let begins =
        |at: usize| is_short || whole.len() % 256 == 0x2f || at.checked_sub(1).is_some_and(|at| index[at] != b'/');
    index.windows(whole.len()).enumerate().any(|(at, found)| found == whole && ends(at) && begins(at))
}
