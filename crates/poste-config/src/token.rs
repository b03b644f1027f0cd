//! Tokens of a person: they prove that a person gave a command where there is no terminal.
//!
//! Only a hash is kept, in the user's state folder. A command is told where the token is, not what it is: variables and
//! arguments are visible to every program of the user, and agents inherit them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use poste_core::store::{state, sync_folder};
use poste_core::{Error, Timestamp};
use serde::{Deserialize, Serialize};

/// The variable with the path of a token's file. What Poste starts never gets it.
pub const VARIABLE: &str = "POSTE_TOKEN_FILE";

const BEGINNING: &str = "poste-person-";

/// A token as the state folder knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Its name for people.
    pub id: String,
    /// BLAKE3 of the token, which has 256 random bits.
    hash: String,
    pub made_at: Timestamp,
}

/// Makes a token. It is returned once and kept nowhere.
pub fn make(now: Timestamp) -> Result<(Token, String), Error> {
    let folder = folder()?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|error| Error::io(&folder, error))?;
    let mut random = blake3::Hasher::new();
    for _ in 0..4 {
        random.update(uuid::Uuid::new_v4().as_bytes());
    }
    let text = format!("{BEGINNING}{}", random.finalize().to_hex());
    let hash = blake3::hash(text.as_bytes());
    let token = Token { id: hash.to_hex()[..8].to_owned(), hash: hash.to_hex().to_string(), made_at: now };
    let path = file_of(&folder, &token.id);
    let failed = |error| Error::io(&path, error);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    let json = serde_json::to_vec_pretty(&token).expect("plain data");
    file.write_all(&json).and_then(|()| file.sync_all()).map_err(failed)?;
    sync_folder(&folder)?;
    Ok((token, text))
}

/// Every token of this user that is valid, by id.
pub fn list() -> Result<Vec<Token>, Error> {
    let folder = folder()?;
    let files = match fs::read_dir(&folder) {
        Ok(files) => files,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io(&folder, error)),
    };
    let mut tokens = Vec::new();
    for file in files {
        let path = file.map_err(|error| Error::io(&folder, error))?.path();
        let text = read_private(&path)?;
        let wrong = |error: serde_json::Error| Error::Config { path: path.clone(), message: error.to_string() };
        tokens.push(serde_json::from_str::<Token>(&text).map_err(wrong)?);
    }
    tokens.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(tokens)
}

/// Ends a token. Returns whether there was one with this id.
pub fn revoke(id: &str) -> Result<bool, Error> {
    let folder = folder()?;
    if !list()?.iter().any(|token| token.id == id) {
        return Ok(false);
    }
    let path = file_of(&folder, id);
    fs::remove_file(&path).map_err(|error| Error::io(&path, error))?;
    sync_folder(&folder).map(|()| true)
}

/// Requires that this file holds a valid token, and that nobody else could have read or written it: no other user, and
/// no agent that works on a project.
pub fn check(path: &Path) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().map_err(|error| Error::io(path, error))?;
    if state::is_in_project(&folder) {
        return Err(wrong(path, "it must not be in a project, where agents can read it"));
    }
    let given = blake3::hash(read_private(path)?.trim().as_bytes());
    let mut is_known = false;
    for token in list()? {
        // Comparing hashes takes the same time whatever they are.
        is_known |= blake3::Hash::from_hex(&token.hash).is_ok_and(|known| known == given);
    }
    match is_known {
        true => Ok(()),
        false => Err(wrong(path, "it holds no valid token of yours")),
    }
}

fn folder() -> Result<PathBuf, Error> {
    let missing =
        || Error::Config { path: "tokens".into(), message: "this user has no home folder to keep them in".to_owned() };
    Ok(state::folder_of_person().ok_or_else(missing)?.join("tokens"))
}

fn file_of(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.json"))
}

fn wrong(path: &Path, message: &str) -> Error {
    Error::Config { path: path.to_owned(), message: message.to_owned() }
}

/// The text of a small file of this user that no other user can read or write, and that is no link.
fn read_private(path: &Path) -> Result<String, Error> {
    const BYTES_MAX: u64 = 4096;
    let failed = |error| Error::io(path, error);
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() || meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o077 != 0 {
        return Err(wrong(path, "it must be a file that only you can read; run chmod 600 on it"));
    }
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}
