//! Offices that this user has adopted. One that arrived with an archive or a clone, that was copied, or that another user
//! made is not opened before a person has adopted it.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use poste_core::office::Place;
use poste_core::store::{Options, state};
use poste_core::{Digest, Error, Office, Timestamp};
use serde::{Deserialize, Serialize};

use crate::store::UserStore;

const OFFICES: &str = "offices";
const KEY_DIGITS: usize = 32;

/// An office that this user has adopted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adopted {
    /// The office's id. Unknown while it is being made.
    pub office: Option<String>,
    /// Its folder, with all links resolved.
    pub path: PathBuf,
    identity: Identity,
    pub by: String,
    /// In milliseconds.
    pub at: Timestamp,
}

/// What tells a folder from any other that may come to lie at its path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    inode: u64,
    /// When it was created, in nanoseconds. An inode is soon given to another folder, so a project that was deleted and
    /// unpacked again may have the same one.
    born: Option<u64>,
    /// Devices are numbered anew at each boot, so it counts only if the file system does not know when a folder was
    /// created.
    device: Option<u64>,
}

impl Identity {
    fn of(meta: &fs::Metadata) -> Self {
        let born = meta.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born = born.and_then(|since| u64::try_from(since.as_nanos()).ok()).filter(|born| *born > 0);
        Self { inode: meta.ino(), born, device: born.is_none().then(|| meta.dev()) }
    }
}

/// An existing office folder.
pub(crate) struct Found {
    pub path: PathBuf,
    identity: Identity,
}

impl Found {
    /// `None` if there is no folder.
    pub(crate) fn at(path: &Path) -> Result<Option<Self>, Error> {
        let failed = |error| Error::io(path, error);
        match path.canonicalize() {
            Ok(path) => {
                let meta = fs::symlink_metadata(&path).map_err(failed)?;
                Ok(Some(Self { identity: Identity::of(&meta), path }))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// The name of everything in the store about this folder, wherever it is moved.
    pub(crate) fn key(&self) -> String {
        let Identity { inode, born, device } = &self.identity;
        let mut key = Digest::of(format!("{inode} {born:?} {device:?}").as_bytes()).to_string();
        key.truncate(KEY_DIGITS);
        key
    }

    fn entry(&self) -> String {
        format!("{OFFICES}/{}", self.key())
    }
}

/// Opens an office that this user has adopted. Every surface opens offices with this, or with [`look`].
pub fn open(place: &Place) -> Result<Office, Error> {
    check(place)?;
    place.open()
}

/// Opens an office without writing to it, also one that is not adopted: for a person who looks at it.
pub fn look(place: &Place) -> Result<Office, Error> {
    if check(place).is_ok() { place.open() } else { look_only(place) }
}

fn look_only(place: &Place) -> Result<Office, Error> {
    let options = Options { read_only: true, ..place.options.clone() };
    Place { options, ..place.clone() }.open()
}

/// Whether this user has adopted the office at a place; an error if not. Only reads, as agents in a sandbox cannot write
/// to the store.
pub fn check(place: &Place) -> Result<(), Error> {
    let Some(found) = Found::at(&place.path)?.filter(|found| has_database(&found.path)) else {
        return Ok(()); // opening it says why
    };
    let Some(store) = UserStore::of(&place.options) else {
        return Err(not_adopted(place, "this user has no home folder to remember it in"));
    };
    match store.read::<Adopted>(&found.entry())? {
        // If it is no longer where it was, it was renamed.
        Some(known) if known.path == found.path || !is_at(&known.path, &found.identity) => Ok(()),
        Some(_) => Err(not_adopted(place, "it was adopted at another path, and is there too")),
        None => Err(not_adopted(place, "it is a copy, or somebody else made it")),
    }
}

/// Whether a folder holds an office, or at least a database of one.
fn has_database(office: &Path) -> bool {
    office.join("office.db").symlink_metadata().is_ok_and(|database| database.len() > 0)
}

/// Whether a folder is what lies at a path.
fn is_at(path: &Path, identity: &Identity) -> bool {
    Found::at(path).ok().flatten().is_some_and(|there| there.path == path && there.identity == *identity)
}

fn not_adopted(place: &Place, why: &'static str) -> Error {
    // Without a store, a person adopts it by its id.
    let office = match has_store(&place.options) {
        true => None,
        false => look_only(place).ok().and_then(|office| office.store().office_id().ok()),
    };
    Error::NotAdopted { path: place.path.clone(), why, office }
}

/// Whether this user has ever adopted an office or trusted a file.
pub fn has_store(options: &Options) -> bool {
    UserStore::of(options).is_some_and(|store| store.exists())
}

pub(crate) fn store_of(options: &Options) -> Result<UserStore, Error> {
    UserStore::of(options).ok_or_else(|| Error::Config {
        path: PathBuf::from("XDG_STATE_HOME"),
        message: "this user has no home folder; name a folder of mode 0700 that belongs to this user".to_owned(),
    })
}

/// Creates an office if it does not exist, and adopts what it made. Returns whether it was created.
pub fn create(place: &Place) -> Result<bool, Error> {
    let store = store_of(&place.options)?;
    // Held to the end, so that a process that comes second finds the office adopted.
    let _held = store.hold()?;
    let at = place.clock.wall();
    if !has_database(&place.path) {
        match fs::DirBuilder::new().mode(0o700).create(&place.path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(Error::io(&place.path, error));
            }
            _ => {}
        }
        // Before there is anything in it, so that one that is interrupted can be finished.
        remember(&store, &place.path, None, at)?;
    }
    let made = place.create()?;
    if made {
        let id = place.open()?.store().office_id()?;
        remember(&store, &place.path, Some(id), at)?;
    }
    Ok(made)
}

/// Calls `make`, which makes an office and puts it in place. It calls the function that it gets with the finished folder,
/// before that is put in place: so the office is adopted at every moment. Nothing is made if the store cannot be written.
pub fn adopt_made<T, E: From<Error>>(
    place: &Place,
    make: impl FnOnce(&mut dyn FnMut(&Path) -> Result<(), Error>) -> Result<T, E>,
) -> Result<T, E> {
    let store = store_of(&place.options)?;
    let _held = store.hold()?;
    let at = place.clock.wall();
    let made = make(&mut |finished| remember(&store, finished, None, at).map(drop))?;
    remember(&store, &place.path, Some(look_only(place)?.store().office_id()?), at)?;
    Ok(made)
}

/// Adopts an office. A person has to have decided that.
pub fn adopt(office: &Office) -> Result<Adopted, Error> {
    let id = office.store().office_id()?;
    adopt_folder(office.store().options(), office.path()?, Some(id), office.wall())
}

/// Adopts what lies at a path, without opening it: also an office that is damaged.
pub fn adopt_folder(options: &Options, path: &Path, id: Option<String>, at: Timestamp) -> Result<Adopted, Error> {
    let store = store_of(options)?;
    let _held = store.hold()?;
    remember(&store, path, id, at)
}

fn remember(store: &UserStore, path: &Path, office: Option<String>, at: Timestamp) -> Result<Adopted, Error> {
    let found = Found::at(path)?.ok_or_else(|| Error::NoOffice(path.to_owned()))?;
    let entry = found.entry();
    let Found { path, identity } = found;
    let adopted = Adopted { office, path, identity, by: state::user_name(), at };
    store.write(&entry, &adopted)?;
    Ok(adopted)
}
